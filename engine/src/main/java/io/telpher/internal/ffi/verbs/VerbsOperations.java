package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.memory.Raw;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// What is done for each transfer. The header has these as inline functions: they call what the
/// provider has put into the context of the queue pair or completion queue, and so do these.
/// Nothing here allocates, waits for the network, or throws for a failed call. Any thread.
public final class VerbsOperations {
    /// The context of a queue pair or completion queue is its first field.
    static final int QP_CONTEXT = 0;

    static final int CQ_CONTEXT = 0;

    /// `struct ibv_context`, where the provider's functions are
    static final int CONTEXT_POLL_CQ = 96;

    static final int CONTEXT_REQ_NOTIFY_CQ = 104;
    static final int CONTEXT_POST_SEND = 208;
    static final int CONTEXT_POST_RECV = 216;

    private static final Linker LINKER = Linker.nativeLinker();

    /// `int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)`;
    /// `post_recv` likewise. Providers in software make a system call.
    private static final MethodHandle POST =
            LINKER.downcallHandle(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG));

    /// `int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)`. Mostly it looks at
    /// a word and returns. But providers take locks, call the kernel, and write to the standard
    /// error when a request has failed, which waits where that is a pipe that nobody reads: so the
    /// thread changes its state for it, since all others of the JVM would wait with it otherwise.
    private static final MethodHandle POLL =
            LINKER.downcallHandle(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG));

    /// `int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only)`
    private static final MethodHandle REQ_NOTIFY =
            LINKER.downcallHandle(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT));

    private static final Function POST_SEND = new Function();
    private static final Function POST_RECEIVE = new Function();
    private static final Function POLL_CQ = new Function();
    private static final Function REQ_NOTIFY_CQ = new Function();

    private VerbsOperations() {}

    /// Posts a list of requests.
    ///
    /// @param request address of the first [SendRequest]
    /// @param bad address of 8 bytes, which get the address of the first request that was not
    ///     posted where this fails: those before it were
    /// @return 0 or the errno: ENOMEM where the queue is full
    public static int postSend(long queuePair, long request, long bad) {
        MemorySegment function =
                POST_SEND.at(Raw.ALL.get(JAVA_LONG, queuePair + QP_CONTEXT) + CONTEXT_POST_SEND);
        try {
            return (int) POST.invokeExact(function, queuePair, request, bad);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Posts a list of [ReceiveRequest]s, as [#postSend] does.
    public static int postReceive(long queuePair, long request, long bad) {
        MemorySegment function =
                POST_RECEIVE.at(Raw.ALL.get(JAVA_LONG, queuePair + QP_CONTEXT) + CONTEXT_POST_RECV);
        try {
            return (int) POST.invokeExact(function, queuePair, request, bad);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Takes completions off a queue.
    ///
    /// @param completions address of room for `most` [WorkCompletion]s
    /// @return how many there were; negative where the queue is broken
    public static int poll(long queue, int most, long completions) {
        MemorySegment function =
                POLL_CQ.at(Raw.ALL.get(JAVA_LONG, queue + CQ_CONTEXT) + CONTEXT_POLL_CQ);
        try {
            return (int) POLL.invokeExact(function, queue, most, completions);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Has the next completion that comes send one event to the queue's channel. What is already in
    /// the queue sends none: poll once more before waiting.
    ///
    /// @param solicitedOnly 1 to wait for receives that the sender marked, and errors; else 0
    /// @return 0 or the errno
    public static int requestNotify(long queue, int solicitedOnly) {
        MemorySegment function =
                REQ_NOTIFY_CQ.at(
                        Raw.ALL.get(JAVA_LONG, queue + CQ_CONTEXT) + CONTEXT_REQ_NOTIFY_CQ);
        try {
            return (int) REQ_NOTIFY.invokeExact(function, queue, solicitedOnly);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The segment for a function pointer. Contexts of one provider share their functions, and most
    /// machines have one provider: keeping the last segment saves making one for each call. Threads
    /// may lose each other's, which costs an object.
    private static final class Function {
        private MemorySegment last = MemorySegment.NULL;

        /// @param pointer where the function's address stands
        MemorySegment at(long pointer) {
            long address = Raw.ALL.get(JAVA_LONG, pointer);
            MemorySegment known = last;
            if (known.address() != address) {
                known = MemorySegment.ofAddress(address);
                last = known;
            }
            return known;
        }
    }
}
