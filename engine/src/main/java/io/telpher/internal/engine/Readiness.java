package io.telpher.internal.engine;

/// What one thread waits for: descriptors, and a bell. The masks are those of `epoll`, one-shot
/// included. All but [#await] and [#key] may be called by any thread.
public interface Readiness extends AutoCloseable {
    /// Key of the bell in what [#await] reports.
    long BELL = 0;

    /// Watches a descriptor.
    ///
    /// @return 0 or a negative errno
    int add(int descriptor, int events, long key);

    /// Changes what is watched, or arms a one-shot descriptor again.
    ///
    /// @return 0 or a negative errno
    int modify(int descriptor, int events, long key);

    /// Ends the watching.
    ///
    /// @return 0 or a negative errno
    int remove(int descriptor);

    /// Waits until a descriptor is ready, the bell rings or the time is up. The bell has stopped
    /// ringing when it is reported.
    ///
    /// @param timeoutMillis 0 only looks, negative waits for ever
    /// @return how many keys there are, or a negative errno
    int await(int timeoutMillis);

    /// @return the key that came with a ready descriptor, or [#BELL]
    long key(int index);

    /// Rings the bell.
    void ring();

    /// Frees what it holds. No call may come later or at the same time.
    @Override
    void close();
}
