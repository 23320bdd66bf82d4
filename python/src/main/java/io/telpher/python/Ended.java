package io.telpher.python;

import io.telpher.TelpherException;
import io.telpher.Transfer;

/// Carries the end of a transfer that is not `DONE` out of a call; has no stack of its own.
final class Ended extends RuntimeException {
    private static final long serialVersionUID = 1L;

    final transient Failure failure;

    Ended(TelpherException why, Transfer transfer) {
        super(null, null, false, false);
        this.failure = Failure.of(why, transfer);
    }
}
