package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.Endpoint;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// What engines still hold when nothing is under way any more: slots, credits, frames, tokens,
/// memory. Nothing, if nothing leaks.
///
/// Looks without locks: whoever asks sees to it that no engine thread runs meanwhile, as one turn
/// of a simulation does.
public final class Leftovers {
    private final List<String> found = new ArrayList<>();

    private Leftovers() {}

    private void check(boolean good, String what) {
        if (!good) {
            found.add(what);
        }
    }

    private void none(long count, String what) {
        check(count == 0, count + " " + what);
    }

    /// Looks at both ends of a connection that is open, all of whose operations have ended and
    /// whose notifications were taken.
    ///
    /// @return what is left, a line each
    public static List<String> between(Connection one, Connection other) {
        Leftovers left = new Leftovers();
        ConnectionCore a = ((ConnectionImpl) one).core;
        ConnectionCore b = ((ConnectionImpl) other).core;
        left.end(a, b);
        left.end(b, a);
        return left.found;
    }

    /// Looks at an endpoint that was closed.
    ///
    /// @return what is left, a line each
    public static List<String> of(Endpoint closed) {
        Leftovers left = new Leftovers();
        EndpointImpl endpoint = (EndpointImpl) closed;
        left.none(endpoint.connections().size(), "connections of a closed endpoint");
        left.none(endpoint.joinable().size(), "joinable connections of a closed endpoint");
        left.none(endpoint.regions().count(), "regions of a closed endpoint");
        left.none(endpoint.directory().asked(), "names that somebody asks for");
        return left.found;
    }

    private void end(ConnectionCore own, ConnectionCore peer) {
        int before = found.size();
        operations(own);
        lanes(own, peer);
        queues(own);
        credits(own, peer);
        matching(own.matcher, peer.matcher);
        for (RegionImpl region : own.endpoint().regions().all()) {
            none((region.users.get() & (1 << 30) - 1) - holds(region), "users of " + region);
        }
        for (int i = before; i < found.size(); i++) {
            found.set(i, "towards " + own.peerText() + ": " + found.get(i));
        }
    }

    /// Slots that stay counted into a region until it closes, or another one is used.
    private static int holds(RegionImpl region) {
        int holds = 0;
        for (ConnectionCore core : region.endpoint().connections()) {
            for (int i = 0; i < core.table.size(); i++) {
                holds += core.table.at(i).hold.isIn(region) ? 1 : 0;
            }
        }
        return holds;
    }

    private void operations(ConnectionCore core) {
        for (int i = 0; i < core.table.size(); i++) {
            Operation op = core.table.at(i);
            check(
                    op.state() == Operation.FREE && op.unconfirmed == 0 && !op.queued,
                    "slot %d holds a %s in state %d, %d frames unconfirmed%s"
                            .formatted(
                                    i,
                                    op.kind,
                                    op.state(),
                                    op.unconfirmed,
                                    op.queued ? ", queued" : ""));
        }
        none(core.table.size() - core.table.freeCount, "slots were not given back");
    }

    private void lanes(ConnectionCore core, ConnectionCore peer) {
        for (LaneState s : core.lanes.all()) {
            String name = "lane " + s.index + ": ";
            none(s.sent - s.acked, name + "frames unconfirmed");
            none(s.bytesInFlight, name + "bytes in flight");
            none(s.held.size(), name + "refusals that the peer does not know of");
            check(s.sendToken.held == 0, name + "its send token is held");
            check(s.pollToken.held == 0, name + "its poll token is held");
            if (s.dead) {
                check(s.closed && s.fenced && !s.fenceOwed, name + "it is dead and not settled");
                continue;
            }
            check(!s.ackDue && !s.pingDue && !s.pongDue, name + "a signal is due");
            check(!s.encoded && !s.dirty && !s.blocked, name + "a frame was not sent");
            LaneState there = peer.lanes.find(s.index);
            check(there != null, name + "the peer has none");
            if (there != null) {
                none(s.sent - there.received(), name + "frames that the peer has not applied");
            }
        }
    }

    private void queues(ConnectionCore core) {
        Outbound out = core.outbound;
        none(out.control.size(), "control frames queued");
        none(out.signals.size(), "signals queued");
        none(out.resending.resends.size(), "frames to be sent again");
        check(!out.shortQueue.isFilled(), "the queue of short operations is filled");
        check(!out.bulk.isFilled(), "bulk operations are queued");
        check(!core.oneSided.stores.isFilled(), "sends wait to be stored");
        check(!out.credits.readQueue.isFilled(), "reads wait for credit");
        check(!out.credits.noteQueue.isFilled(), "notifications wait for credit");
        none(core.serving.running, "answers to reads");
        none(core.mailbox.notes.size(), "notifications were not taken");
        none(core.mailbox.notes.bytes(), "bytes in the mailbox");
        none(core.mailbox.parts.size(), "notifications of which parts are missing");
    }

    /// Credits are here, or on their way back at the peer.
    private void credits(ConnectionCore own, ConnectionCore peer) {
        Credits credits = own.outbound.credits;
        int messages =
                credits.messages
                        + peer.matcher.receives.arrived
                        + peer.matcher.receives.creditsOwed;
        none(Credits.MESSAGES - messages, "credits for messages are missing");
        int notes = credits.noteBytes + peer.mailbox.bytesOwed;
        for (LaneState s : peer.lanes.all()) {
            notes += s.inbound.tails.bytesOwed;
        }
        none(Credits.NOTE_BYTES - notes, "bytes of credit for notifications are missing");
        none(credits.readsOut, "reads unanswered");
        check(!credits.largeNoteOut, "the credit for a large notification is missing");
        check(credits.alone == null, "a large notification is on its way");
    }

    private void matching(Matcher matcher, Matcher peer) {
        int arrived = 0;
        int foretold = 0;
        for (Object each : matcher.tags.channels.values) {
            if (!(each instanceof TagChannel channel)) {
                continue;
            }
            String name = "tag " + channel.tag + ": ";
            none(channel.receives.size(), name + "receives");
            none(channel.started.size(), name + "sends that have started");
            none(channel.waiting.size(), name + "sends that wait");
            none(channel.posted.size(), name + "receives that wait");
            none(channel.users, name + "users");
            check(channel.use == TagChannel.Use.OPEN, name + "it is " + channel.use);
            positions(channel, peer.tags.channels.get(channel.tag), name);
            none(channel.adverts.size(), name + "adverts");
            foretold += channel.withdrawn.size() + channel.adverts.size();
            for (Object one : channel.arrivals.values) {
                if (one instanceof Receives.Arrival arrival) {
                    arrived += arrival.aborted() ? 0 : 1;
                    foretold += arrival.aborted() ? 1 : 0;
                }
            }
        }
        none(matcher.receives.arrived - arrived, "messages counted that are not there");
        none(matcher.foretold - foretold, "positions counted that are not there");
        none(matcher.sends.starved.size(), "tags that wait for credit");
    }

    /// Both sides count alike: what one is ahead the other knows of.
    private void positions(TagChannel own, @Nullable TagChannel peer, String name) {
        long ahead = own.sendNext - (peer == null ? 0 : peer.receiveNext);
        long known = ahead >= 0 ? peer == null ? 0 : peer.arrivals.size() : -own.withdrawn.size();
        none(ahead - known, name + "positions that one side is ahead, unknown to the other");
    }

    /// Lets a connection keep no more than so many tags.
    public static void keepTags(Connection connection, int tags) {
        ((ConnectionImpl) connection).core.matcher.tags.kept = tags;
    }

    /// How many tags a connection knows.
    public static int tags(Connection connection) {
        return ((ConnectionImpl) connection).core.matcher.tags.channels.size();
    }
}
