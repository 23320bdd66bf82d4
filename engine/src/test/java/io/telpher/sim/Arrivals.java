package io.telpher.sim;

import io.telpher.TransferState;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/// Whether the messages and notifications that arrive in a random run are those that were sent,
/// each once and in order.
final class Arrivals {
    /// Longest message that may travel without its receive.
    private static final int EAGER = 8 << 10;

    private final RandomRun run;

    /// All operations of the run.
    private final Map<Long, Ops.Op> ops;

    private final Map<String, List<Ops.Op>> sends = new HashMap<>();
    private final Map<String, Map<Integer, Integer>> matches = new HashMap<>();

    Arrivals(RandomRun run, Map<Long, Ops.Op> ops) {
        this.run = run;
        this.ops = ops;
    }

    void sent(Ops.Op op) {
        sends.computeIfAbsent(op.side.name + op.tag, k -> new ArrayList<>()).add(op);
    }

    /// A receive is `DONE`: whose message is it?
    void received(Ops.Op receive, long moved) {
        Area own = Objects.requireNonNull(receive.local);
        String channel = receive.side.other().name + receive.tag;
        for (Ops.Op send : sends.getOrDefault(channel, List.of())) {
            if (send.length == moved
                    && Ops.wrong(own.memory, receive.localAt, moved, send.id) < 0) {
                if (moved == 0) {
                    return; // they all look the same
                }
                Integer before = matches(channel).put(send.position, receive.position);
                if (before != null) {
                    run.violated(send + " was received twice, by " + receive + " and " + before);
                }
                return;
            }
        }
        run.violated(receive + " is DONE, but what it holds was not sent");
    }

    private Map<Integer, Integer> matches(String channel) {
        return matches.computeIfAbsent(channel, k -> new TreeMap<>());
    }

    void notified(RandomRun.Side by, byte[] payload) {
        if (payload.length < Long.BYTES) {
            run.violated("a notification of " + payload.length + " bytes, which nobody has sent");
            return;
        }
        long id = ByteBuffer.wrap(payload).getLong();
        Ops.Op op = ops.get(id);
        if (op == null || op.side != by.other() || op.note != payload.length) {
            run.violated(
                    "a notification to %s that nobody has sent: %s"
                            .formatted(by.name, HexFormat.of().formatHex(payload)));
            return;
        }
        for (int i = Long.BYTES; i < payload.length; i++) {
            if (payload[i] != Ops.pattern(id, i)) {
                run.violated(op + ": byte " + i + " of its notification is wrong");
                break;
            }
        }
        if (op.noteSeen) {
            run.violated(op + " notified twice");
        }
        op.noteSeen = true;
        if (op.ordered && !run.takesAtOnce()) { // two who take may tell of it in another order
            if (op.id < by.lastOrdered) {
                run.violated(op + " notified after " + by.lastOrdered + ", which was sent later");
            }
            by.lastOrdered = op.id;
        }
        if (op.kind == Ops.Kind.WRITE) {
            op.checkTarget("at its notification");
        }
    }

    /// A message that nobody has to announce may be `DONE` before there is a receive for it. Any
    /// other is `DONE` when its receive is: whatever else has become of that, the sender was told.
    void checkReceived(Ops.Op send) {
        if (send.kind == Ops.Kind.SEND
                && send.state == TransferState.DONE
                && send.length > EAGER
                && !send.side.other().dead
                && !matches(send.side.name + send.tag).containsKey(send.position)) {
            run.violated(send + ", but nobody has received it");
        }
    }

    /// A send and a receive of one tag do not wait beside each other, with nothing in their way: as
    /// long as both are there, either they meet or one of them is told that it has met nobody.
    void checkMet() {
        for (Ops.Op send : ops.values()) {
            for (Ops.Op receive : ops.values()) {
                if (send.kind == Ops.Kind.SEND
                        && receive.kind == Ops.Kind.RECEIVE
                        && send.side != receive.side
                        && send.tag == receive.tag
                        && send.state == TransferState.TIMED_OUT
                        && receive.state == TransferState.TIMED_OUT
                        && Math.min(send.endedAt, receive.endedAt)
                                        - Math.max(send.postedAt, receive.postedAt)
                                >= Ops.UNHURRIED) {
                    run.violated(send + " and " + receive + " did not meet");
                }
            }
        }
    }

    /// Later sends meet later receives.
    void checkOrder() {
        matches.forEach(
                (channel, bySend) -> {
                    int last = -1;
                    for (Map.Entry<Integer, Integer> one : bySend.entrySet()) {
                        if (one.getValue() <= last) {
                            run.violated(
                                    "channel %s: send %d met receive %d, after an earlier one met %d"
                                            .formatted(
                                                    channel, one.getKey(), one.getValue(), last));
                        }
                        last = one.getValue();
                    }
                });
    }
}
