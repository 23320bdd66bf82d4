package io.telpher.internal.memory;

import java.util.List;
import java.util.function.Consumer;

/// Lets go of several things, of all of them: one that fails does not keep the others. What was
/// thrown first goes on when everything was tried, with the rest as its suppressed exceptions.
public final class Release {
    /// After this nothing is done any more, so nothing is released either: it goes on at once.
    public abstract static class Ended extends Error {
        private static final long serialVersionUID = 1L;

        /// @param message says what has ended
        protected Ended(String message) {
            super(message, null, false, false);
        }
    }

    private Release() {}

    /// @param things that are released, in order
    /// @param release releases one; may throw
    public static <T> void all(Iterable<? extends T> things, Consumer<? super T> release) {
        Throwable first = null;
        for (T each : things) {
            try {
                release.accept(each);
            } catch (Ended e) {
                throw e;
            } catch (RuntimeException | Error e) {
                if (first == null) {
                    first = e;
                } else {
                    suppress(first, e);
                }
            }
        }
        if (first instanceof Error e) {
            throw e;
        }
        if (first instanceof RuntimeException e) {
            throw e;
        }
    }

    /// Takes all steps, in order.
    public static void each(Runnable... steps) {
        all(List.of(steps), Runnable::run);
    }

    /// Takes all steps because of a failure, which stays the reason.
    ///
    /// @return the failure, to be thrown on
    public static <X extends Throwable> X after(X failure, Runnable... steps) {
        try {
            if (!(failure instanceof Ended)) {
                each(steps);
            }
        } catch (Ended e) {
            throw e;
        } catch (RuntimeException | Error e) {
            suppress(failure, e);
        }
        return failure;
    }

    private static void suppress(Throwable first, Throwable other) {
        if (first != other) { // which Java refuses
            first.addSuppressed(other);
        }
    }
}
