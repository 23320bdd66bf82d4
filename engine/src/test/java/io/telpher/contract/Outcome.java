package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.RemoteQuiet;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import java.io.Serializable;
import java.time.Duration;
import java.util.function.Supplier;

/// How a transfer ended.
///
/// @param state the terminal state
/// @param moved bytes moved
/// @param remoteQuiet what is known of the far side
/// @param path the path
/// @param error why it was not done, or null
/// @param waited nanoseconds that the end was waited for
record Outcome(
        TransferState state,
        long moved,
        RemoteQuiet remoteQuiet,
        String path,
        TelpherException error,
        long waited)
        implements Serializable {
    /// Waits for a transfer's end; that it comes is part of every test.
    static Outcome of(Transfer transfer, Duration limit) {
        long start = System.nanoTime();
        boolean ended = transfer.await(limit);
        long waited = System.nanoTime() - start;
        if (!ended) {
            throw new AssertionError(
                    "a transfer on path %s has not ended after %s: %s"
                            .formatted(transfer.path(), limit, transfer.state()));
        }
        Outcome outcome =
                new Outcome(
                        transfer.state(),
                        transfer.bytesMoved(),
                        transfer.remoteQuiet(),
                        transfer.path(),
                        transfer.error(),
                        waited);
        outcome.checkConsistent();
        return outcome;
    }

    /// Waits as long as any transfer of these tests may take.
    static Outcome of(Transfer transfer) {
        return of(transfer, Participant.LIMIT);
    }

    /// Runs an operation that is expected to fail, at once or when it ends.
    ///
    /// @return the error
    static TelpherException failure(Supplier<Transfer> operation) {
        Transfer transfer;
        try {
            transfer = operation.get();
        } catch (TelpherException e) {
            return e;
        }
        Outcome outcome = of(transfer);
        assertThat(outcome.state()).as("%s", outcome).isNotEqualTo(TransferState.DONE);
        return outcome.error();
    }

    /// Runs an operation that the owner of the memory is expected to refuse, at once or when it has
    /// come there: nothing of it is under way any more.
    ///
    /// @return the error
    static TelpherException refusal(Supplier<Transfer> operation) {
        Transfer transfer;
        try {
            transfer = operation.get();
        } catch (TelpherException e) {
            return e;
        }
        Outcome outcome = of(transfer);
        assertThat(outcome.state()).as("%s", outcome).isEqualTo(TransferState.FAILED);
        assertThat(outcome.remoteQuiet()).as("%s", outcome).isEqualTo(RemoteQuiet.YES);
        return outcome.error();
    }

    /// Runs an operation that may fail, at once or when it ends.
    ///
    /// @return the error, or null
    static TelpherException failureOrNull(Supplier<Transfer> operation) {
        try {
            return of(operation.get()).error();
        } catch (TelpherException e) {
            return e;
        }
    }

    private void checkConsistent() {
        assertThat(state.isTerminal()).as("%s", this).isTrue();
        switch (state) {
            case DONE -> {
                assertThat(error).isNull();
                assertThat(remoteQuiet).isEqualTo(RemoteQuiet.YES);
            }
            case TIMED_OUT -> assertThat(error).isInstanceOf(TelpherException.TimedOut.class);
            case CANCELLED -> assertThat(error).isInstanceOf(TelpherException.Cancelled.class);
            default ->
                    assertThat(error)
                            .isNotNull()
                            .isNotInstanceOfAny(
                                    TelpherException.TimedOut.class,
                                    TelpherException.Cancelled.class)
                            .hasMessageMatching("(?s).+");
        }
        if (error instanceof TelpherException.PeerLost) {
            assertThat(error).hasMessageContaining(path);
        }
    }

    /// Checks that the transfer is done.
    Outcome assertDone() {
        if (error != null) {
            throw new AssertionError("the transfer ended as %s: %s".formatted(state, error), error);
        }
        assertThat(state).isEqualTo(TransferState.DONE);
        return this;
    }

    /// Checks that the transfer is done and moved so many bytes.
    Outcome assertDone(long bytes) {
        assertThat(assertDone().moved).as("bytes moved").isEqualTo(bytes);
        return this;
    }

    /// Checks that the transfer failed in one way.
    <E extends TelpherException> E assertError(Class<E> kind) {
        assertThat(error).as("%s", this).isInstanceOf(kind);
        return kind.cast(error);
    }
}
