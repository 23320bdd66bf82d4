package io.telpher.internal.transport.verbs;

import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.spi.Window;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/// The questions of one link where the peer's regions are: so many at a time, since the peer has to
/// keep what it was asked; the others wait. Thread-safe; nothing waits for an answer.
final class RegionQuestions {
    /// Questions that are under way at a time.
    static final int MOST = 64;

    /// Makes the window of an answer, or throws why there is none.
    interface Opening {
        Window open(long name, ControlMessage.Resolved answer);
    }

    /// A question, and who gets its end.
    ///
    /// @param name the region's, as [WindowTargets#name] has it
    private record Asked(
            long name, ControlMessage.Resolve question, CompletableFuture<Window> end) {}

    private final ControlStream control;
    private final Opening opening;

    // Guarded by this.
    private final Map<Long, Asked> asked = new HashMap<>();
    private final ArrayDeque<Asked> waiting = new ArrayDeque<>();
    private long last;
    private @Nullable TelpherException closed;

    RegionQuestions(ControlStream control, Opening opening) {
        this.control = control;
        this.opening = opening;
    }

    /// @return the window, or why there is none; completed by whoever takes the answer in, or
    ///     closes
    CompletableFuture<Window> ask(RemoteMemory remote) {
        CompletableFuture<Window> end = new CompletableFuture<>();
        TelpherException over;
        synchronized (this) {
            over = closed;
            if (over == null) {
                ControlMessage.Resolve question =
                        new ControlMessage.Resolve(
                                ++last, remote.region(), remote.generation(), remote.key());
                long name = WindowTargets.name(remote.region(), remote.generation());
                waiting.addLast(new Asked(name, question, end));
                sendWaiting();
            }
        }
        return over == null ? end : CompletableFuture.failedFuture(over);
    }

    /// Under the monitor, so that no answer comes before its question is known.
    private void sendWaiting() {
        Asked next;
        while (asked.size() < MOST && (next = waiting.pollFirst()) != null) {
            asked.put(next.question.id(), next);
            control.send(next.question);
        }
    }

    /// The peer has answered. One answer at a time.
    ///
    /// @return false when nobody has asked
    boolean answered(ControlMessage.Resolved answer) {
        Asked question;
        synchronized (this) {
            question = asked.remove(answer.id());
            sendWaiting();
        }
        if (question == null) {
            return false;
        }
        try {
            question.end.complete(opening.open(question.name, answer));
        } catch (TelpherException e) {
            question.end.completeExceptionally(e);
        }
        return true;
    }

    /// Nobody answers any more.
    void close(TelpherException why) {
        ArrayDeque<Asked> all;
        synchronized (this) {
            closed = why;
            all = new ArrayDeque<>(asked.values());
            all.addAll(waiting);
            asked.clear();
            waiting.clear();
        }
        all.forEach(each -> each.end.completeExceptionally(why));
    }
}
