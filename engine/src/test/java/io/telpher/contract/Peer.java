package io.telpher.contract;

import io.telpher.Access;
import io.telpher.RemoteMemory;
import io.telpher.internal.transport.verbs.RdmaNode;
import java.io.Serializable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/// The other side of a test, in this process or in another one: tests hand it pieces of code.
abstract class Peer implements AutoCloseable {
    /// Longer than any code may take, where everything is ten times slower, too.
    private static final long LIMIT_SECONDS = RdmaNode.isHere() ? 300 : 100;

    /// Code that runs at the peer. What it captures and returns must be serializable.
    ///
    /// @param <T> what it returns
    interface Task<T> extends Serializable {
        T run(Participant self) throws Exception;
    }

    /// Code that runs at the peer and returns nothing.
    interface Action extends Serializable {
        void run(Participant self) throws Exception;
    }

    /// Starts code at the peer, on a thread of its own.
    abstract <T> CompletableFuture<T> start(Task<T> task);

    /// Starts code at the peer, on a thread of its own.
    CompletableFuture<Boolean> begin(Action action) {
        return start(
                self -> {
                    action.run(self);
                    return true;
                });
    }

    /// Starts code at the peer that ends with the peer, or whenever it likes.
    void launch(Action action) {
        CompletableFuture<Boolean> unused = begin(action);
    }

    /// Runs code at the peer.
    <T> T run(Task<T> task) {
        return result(start(task));
    }

    /// Runs code at the peer.
    void tell(Action action) {
        result(begin(action));
    }

    /// Waits for code that was started, as long as any of it may take.
    static <T> T result(CompletableFuture<T> future) {
        try {
            return future.get(LIMIT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw rethrow(e.getCause());
        } catch (TimeoutException e) {
            throw new AssertionError(
                    "the peer's code has not ended after " + LIMIT_SECONDS + " s", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted", e);
        }
    }

    private static RuntimeException rethrow(Throwable cause) {
        switch (cause) {
            case RuntimeException e -> {
                e.addSuppressed(new Exception("while the test waited for its peer"));
                throw e;
            }
            case Error e -> throw e;
            default -> throw new AssertionError("the peer's code failed", cause);
        }
    }

    /// Connects a participant of this process with the peer. Both endpoints are open.
    void acceptFrom(Participant here) {
        acceptFrom(here, run(self -> self.endpoint().address().toBytes()));
    }

    /// Connects a participant of this process with the peer, by another form of its address.
    void acceptFrom(Participant here, byte[] address) {
        CompletableFuture<Boolean> accepted = begin(Participant::accept);
        here.connect(address);
        result(accepted);
    }

    /// Connects the peer with a participant of this process. Both endpoints are open.
    void dial(Participant here) {
        byte[] address = here.endpoint().address().toBytes();
        CompletableFuture<Boolean> dialled = begin(self -> self.connect(address));
        here.accept();
        result(dialled);
    }

    /// Opens both endpoints and connects them.
    void openWith(Participant here, Participant.Tweak options) {
        here.open(options);
        tell(self -> self.open(options));
        acceptFrom(here);
    }

    /// Makes a region at the peer.
    RemoteMemory add(String name, Kind kind, long bytes, Access access) {
        return RemoteMemory.ofBytes(
                run(self -> self.add(name, kind, bytes, access).remote().toBytes()));
    }

    /// Makes a region at the peer that may be read and written.
    RemoteMemory add(String name, Kind kind, long bytes) {
        return add(name, kind, bytes, Access.READ_WRITE);
    }

    void fill(String name, long offset, long length, long seed) {
        tell(self -> self.fill(name, offset, length, seed));
    }

    void check(String name, long offset, long length, long seed) {
        tell(self -> self.check(name, offset, length, seed));
    }

    Outcome outcome(String name) {
        return run(self -> self.outcome(name));
    }

    /// Ends it in whatever way, after a failure.
    abstract void abandon();

    @Override
    public abstract void close();
}
