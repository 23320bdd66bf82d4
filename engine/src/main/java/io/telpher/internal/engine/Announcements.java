package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/// What the peer says of messages, reads, names and the connection itself: frames that change only
/// what the connection's lock guards, and are applied under it. Used under the poll token of the
/// lane that it belongs to.
final class Announcements {
    private final ConnectionCore connection;
    private final LaneState lane;
    private final Refusals refusals;

    Announcements(ConnectionCore connection, LaneState lane, Refusals refusals) {
        this.connection = connection;
        this.lane = lane;
        this.refusals = refusals;
    }

    void apply(MemorySegment h, long at, MemorySegment p, long pAt, int length, int type) {
        long transfer = Frame.field(h, at, Frame.TRANSFER);
        long a = Frame.field(h, at, Frame.A);
        long b = Frame.field(h, at, Frame.B);
        long c = Frame.field(h, at, Frame.C);
        long d = Frame.field(h, at, Frame.D);
        SpinLock lock = connection.lock;
        lock.lock();
        try {
            Matcher matcher = connection.matcher;
            switch (type) {
                case Frame.SEND -> {
                    if ((Frame.flags(h, at) & Frame.CREDITS) != 0) {
                        connection.outbound.credits.granted(c, 0, false);
                        matcher.sends.resume();
                    }
                    boolean inline = (Frame.flags(h, at) & Frame.INLINE) != 0;
                    int n = inline ? Math.min(Frame.count(h, at), Frame.INLINE_MAX) : length;
                    int reason =
                            matcher.receives.message(
                                    a, b, transfer, inline ? h : p, inline ? at + Frame.D : pAt, n);
                    if (reason != 0) {
                        refusals.refuseLocked(h, at, reason, n, matcher.receives.lastCapacity);
                    }
                }
                case Frame.SEND_REQUEST -> matcher.receives.request(a, b, transfer, c);
                case Frame.ADVERT -> {
                    RemoteMemory memory = length == 0 ? null : descriptor(p, pAt, length);
                    matcher.sends.advert(a, b, c, transfer, memory);
                }
                case Frame.SEND_STORED -> {
                    if (!connection.reports.receivedByStore(transfer, c)) {
                        refusals.refuseLocked(h, at, Connection.CANCELLED, 0, 0);
                    }
                }
                case Frame.TRUNCATED ->
                        connection.reports.truncated(
                                transfer, new TelpherException.Truncated(c, d));
                case Frame.ABORT -> {
                    if (transfer == 0) {
                        matcher.receives.aborted(a, b, reasonOf(h, at));
                    } else {
                        connection.reports.aborted(
                                transfer, reasonOf(h, at), Frame.field(h, at, Frame.E) != 0);
                    }
                }
                case Frame.WITHDRAW -> matcher.sends.withdraw(a, b, transfer);
                case Frame.WITHDRAWN -> connection.reports.withdrawn(transfer);
                case Frame.FORGET -> matcher.tags.forget(a, Frame.count(h, at), p, pAt, length);
                case Frame.FORGOTTEN -> matcher.tags.forgotten(a, b);
                case Frame.CREDIT -> {
                    connection.outbound.credits.granted(a, b, c != 0);
                    matcher.sends.resume();
                }
                case Frame.REFUSED -> {
                    connection.outbound.enqueue(
                            connection
                                    .outbound
                                    .control(Frame.KNOWN, 0, 0, 0)
                                    .with(Frame.A, a)
                                    .with(Frame.B, b));
                    connection.reports.refused(
                            (int) a, b, reasonOf(h, at), Frame.field(h, at, Frame.E) != 0, c, d);
                }
                case Frame.KNOWN -> {
                    LaneState refused = connection.lane((int) a);
                    if (refused != null) {
                        refused.held.remove(b);
                        refused.heldCount = refused.held.size();
                        connection.keeper.known(refused);
                        connection.outbound.acknowledge(refused);
                    }
                }
                case Frame.LOOKUP ->
                        connection.names.asked(
                                transfer,
                                new String(
                                        p.asSlice(pAt, length).toArray(ValueLayout.JAVA_BYTE),
                                        StandardCharsets.UTF_8));
                case Frame.FOUND -> {
                    RemoteMemory memory = descriptor(p, pAt, length);
                    if (memory != null) {
                        connection.names.found(transfer, memory);
                    }
                }
                case Frame.GOODBYE -> {
                    // What the peer has confirmed before it left is done.
                    if (lane.lane.confirmsNatively()) {
                        long upTo = Math.max(lane.told, lane.lane.confirmed());
                        if (!connection.outbound.applied(lane, upTo)) {
                            connection.confirmedTooMuch(upTo);
                        }
                    }
                    connection.peerCloses();
                }
                default -> connection.violated("frame type " + type);
            }
        } finally {
            lock.unlock();
        }
    }

    /// The reason in a frame, if it is one.
    private static int reasonOf(MemorySegment h, long at) {
        int said = -Frame.count(h, at);
        return said <= Connection.BACK_PRESSURED && said >= Connection.FAILED
                ? said
                : Connection.FAILED;
    }

    private @Nullable RemoteMemory descriptor(MemorySegment p, long pAt, int length) {
        try {
            return RemoteMemory.ofBytes(p.asSlice(pAt, length).toArray(ValueLayout.JAVA_BYTE));
        } catch (IllegalArgumentException e) {
            connection.violated("a descriptor that is none: " + e.getMessage());
            return null;
        }
    }
}
