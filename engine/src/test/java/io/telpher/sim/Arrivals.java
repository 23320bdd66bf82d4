package io.telpher.sim;

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
