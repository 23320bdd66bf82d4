package io.telpher.internal.engine;

import io.telpher.TelpherException;
import io.telpher.spi.Deadline;
import io.telpher.spi.Route;
import io.telpher.spi.TransportEndpoint;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/// The dials of one connect by one transport, in rounds. A round has as many ways as the peer may
/// have sockets; the next one begins when all that were dialled have failed, or when none has
/// answered for a while: a cable may be dead while its interface is up. Ways that are for later
/// come in rounds of their own, after the others.
///
/// For the thread that connects; once that has a connection, the others are taken by those that
/// make lanes of them ([Joining]).
final class Dials {
    /// How much later than its deadline a dial may come to its end, and still be closed.
    private static final Duration LATE = Duration.ofSeconds(60);

    /// How long a round has for itself: this part of the time that there is, or less where there
    /// are more rounds.
    private static final int ROUNDS = 8;

    /// No round has more: a first packet that was lost is sent again after a second.
    private static final Duration LONGEST_ROUND = Duration.ofSeconds(2);

    /// Ways that are named where there are many of one kind.
    private static final int NAMED = 4;

    private final EndpointImpl endpoint;
    private final Dialler dialler;
    private final TransportEndpoint by;
    private final Deadline deadline;
    private final int width;
    private final Duration round;

    /// When other transports have their turn; sooner once the peer has said no by every better way.
    private Deadline until;

    private final ArrayDeque<Route> waiting = new ArrayDeque<>();
    private final List<Route> underWay = new ArrayList<>();

    /// Those under way whose round is over.
    private final List<Route> silent = new ArrayList<>();

    /// When the next round begins.
    private Deadline over;

    /// Whether the better ways, if any, have all been dialled.
    private boolean begunLater;

    private final Queue<Dialler.Dialled> ended = new ConcurrentLinkedQueue<>();

    /// @param routes the ways, best first
    /// @param deadline how long each dial may take
    /// @param until when other transports have their turn
    Dials(
            EndpointImpl endpoint,
            Dialler dialler,
            TransportEndpoint by,
            List<Route> routes,
            Deadline deadline,
            Deadline until) {
        this.endpoint = endpoint;
        this.dialler = dialler;
        this.by = by;
        this.deadline = deadline;
        this.until = until;
        this.over = until;
        this.width = endpoint.options().maxSockets();
        routes.stream().filter(route -> route.later() == null).forEach(waiting::add);
        int first = waiting.size();
        routes.stream().filter(route -> route.later() != null).forEach(waiting::add);
        int rounds = rounds(first) + rounds(waiting.size() - first);
        begunLater = first == 0;
        long share = until.left() / Math.max(ROUNDS, rounds);
        this.round = Duration.ofNanos(Math.min(LONGEST_ROUND.toNanos(), share));
    }

    private int rounds(int ways) {
        return Math.ceilDiv(ways, width);
    }

    /// Begins the next round. Where nobody listens by any of the better ways the others are not
    /// waited for long: whoever connects wants to hear that soon.
    private void begin() {
        boolean later = waiting.element().later() != null;
        if (later && !begunLater) {
            begunLater = true;
            until = underWay.isEmpty() ? until.or(round) : until;
        }
        for (int i = 0; i < width; i++) {
            Route route = waiting.peek();
            if (route == null || (route.later() != null) != later) {
                break;
            }
            waiting.remove();
            underWay.add(route);
            endpoint.control()
                    .execute(
                            () -> {
                                ended.add(dialler.dial(by, route, deadline));
                                endpoint.gate().changed();
                            });
        }
        over = until.or(round);
    }

    /// Whether there are ways whose outcome is not known yet.
    boolean any() {
        return !underWay.isEmpty() || !waiting.isEmpty();
    }

    /// Waits for the next outcome.
    ///
    /// @param served says that none is needed any more
    /// @return null when it is, or when the time is over
    Dialler.@Nullable Dialled next(BooleanSupplier served) {
        while (!until.passed()) {
            if (underWay.isEmpty()) {
                begin();
            }
            boolean unused =
                    endpoint.gate()
                            .await(
                                    () -> served.getAsBoolean() || !ended.isEmpty(),
                                    waiting.isEmpty() ? until : over,
                                    "connecting");
            if (served.getAsBoolean()) {
                return null;
            }
            Dialler.Dialled next = ended.poll();
            if (next != null) {
                underWay.remove(next.route());
                silent.remove(next.route());
                return next;
            }
            if (over.passed() && !waiting.isEmpty()) {
                silent.clear();
                silent.addAll(underWay);
                begin();
            }
        }
        return null;
    }

    /// @return how many are under way, each of which somebody has to [#take]
    int underWay() {
        return underWay.size();
    }

    /// Waits for an outcome, beside others who do.
    ///
    /// @return null when there was none in time, or the thread was interrupted
    Dialler.@Nullable Dialled take(Deadline deadline) {
        AtomicReference<Dialler.@Nullable Dialled> taken = new AtomicReference<>();
        try {
            boolean unused =
                    endpoint.gate()
                            .await(
                                    () -> {
                                        taken.set(ended.poll());
                                        return taken.get() != null;
                                    },
                                    deadline,
                                    "dialling");
        } catch (TelpherException.Cancelled interrupted) {
            return null;
        }
        return taken.get();
    }

    /// Closes what may still come.
    void abandon() {
        int left = underWay.size();
        if (left == 0) {
            return;
        }
        Deadline last = new Deadline(deadline.clock(), deadline.nanos() + LATE.toNanos());
        endpoint.control()
                .execute(
                        () -> {
                            for (int i = 0; i < left; i++) {
                                Dialler.Dialled late = take(last);
                                if (late != null && late.channel() != null) {
                                    late.channel().close();
                                }
                            }
                        });
    }

    // --- for people -----------------------------------------------------------------------------

    /// How the way that works came to be the one: not by its rank alone where better ones are
    /// silent.
    String chosen() {
        return silent.isEmpty()
                ? "chosen"
                : "chosen, since nobody has answered in %d ms by %s"
                        .formatted(round.toMillis(), names(silent));
    }

    /// @return the ways that were left out when the time was over
    String leftOut() {
        List<Route> all = new ArrayList<>(underWay);
        all.addAll(waiting);
        return names(all) + ": no connection when the time for these ways was over";
    }

    /// @return the ways that were not needed, and why they do not come first
    List<String> untried() {
        Map<String, List<Route>> byReason = new LinkedHashMap<>();
        for (Route route : waiting) {
            String later = route.later();
            byReason.computeIfAbsent(
                            later == null ? "the connection is there" : later,
                            reason -> new ArrayList<>())
                    .add(route);
        }
        List<String> lines = new ArrayList<>();
        byReason.forEach((reason, routes) -> lines.add(names(routes) + ": not tried, " + reason));
        return lines;
    }

    private static String names(Iterable<Route> routes) {
        List<String> names = new ArrayList<>();
        routes.forEach(route -> names.add(route.text()));
        int more = names.size() - NAMED;
        return more <= 0
                ? String.join(", ", names)
                : String.join(", ", names.subList(0, NAMED)) + " and " + more + " more";
    }
}
