package io.telpher.internal.engine;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/// What must not overtake bytes that a NIC of this side was writing and that may still arrive:
/// operations that go out again another way, and words to the peer of the end of an operation,
/// whose memory may be put to another use as soon as they are heard.
///
/// They wait for a fence: the peer has given up the link's lane (`FENCED`), or, where only the work
/// was cut off, the queue pair that carried it (`Source.fenced`). `op.unfenced` says behind what.
///
/// Guarded by the connection's lock, under which everything is called.
final class Unfenced {
    /// A frame that waits, about the send of a tag and a position, which has ended.
    private record Word(WorkJob behind, long tag, long position, ControlFrame frame) {}

    private final Outbound outbound;
    private final OperationQueue again;
    private final ArrayDeque<Word> words = new ArrayDeque<>(0);
    private final ArrayDeque<WorkJob> held = new ArrayDeque<>(0);

    Unfenced(ConnectionCore connection) {
        this.outbound = connection.outbound;
        this.again = new OperationQueue(connection.table);
    }

    /// Work whose link is lost, and whose device does not let go: its operation stays one whose
    /// memory is being copied, however it has ended.
    void hold(WorkJob job) {
        held.addLast(job);
    }

    /// @return what was held, and is no more since the peer has given up another lane
    List<WorkJob> noLongerHeld() {
        List<WorkJob> due = held.stream().filter(job -> !job.isStuck()).toList();
        held.removeAll(due);
        return due;
    }

    /// @return the same for all lanes
    List<WorkJob> allHeld() {
        List<WorkJob> due = List.copyOf(held);
        held.clear();
        return due;
    }

    /// A pending operation goes out again when it is fenced.
    void add(Operation op) {
        again.add(op);
    }

    /// Sends a word about an operation as soon as nothing of it arrives any more.
    void say(Operation op, ControlFrame frame) {
        WorkJob behind = op.unfenced;
        if (behind == null) {
            outbound.enqueue(frame);
        } else {
            words.addLast(new Word(behind, op.tag, op.position, frame));
        }
    }

    /// Sends a word about a send that this side does not know any more, behind the one of its end
    /// if that waits.
    void sayOfEnded(long tag, long position, ControlFrame frame) {
        for (Word word : words) {
            if (word.tag == tag && word.position == position) {
                words.addLast(new Word(word.behind, tag, position, frame));
                return;
            }
        }
        outbound.enqueue(frame);
    }

    /// The peer has given up a lane: nothing of its link arrives any more.
    ///
    /// @return operations that go out again
    List<Operation> fenced() {
        words.removeIf(word -> word.behind.isFenced() && send(word));
        List<Operation> due = new ArrayList<>();
        List<Operation> others = new ArrayList<>();
        Operation op;
        while ((op = again.peek()) != null) {
            again.removeFirst();
            WorkJob behind = op.unfenced;
            boolean isOver = behind == null || behind.isFenced();
            (isOver ? due : others).add(op);
        }
        others.forEach(again::add);
        for (Operation each : due) {
            each.unfenced = null;
        }
        return due;
    }

    /// Nothing of what was cut off of a job arrives any more, on one of its links.
    void fenced(WorkJob job) {
        if (!job.isFenced()) {
            return;
        }
        words.removeIf(word -> word.behind == job && send(word));
        if (job.op.unfenced == job) {
            job.op.unfenced = null; // it is still ending
        }
    }

    private boolean send(Word word) {
        outbound.enqueue(word.frame);
        return true;
    }
}
