package io.telpher.cli.bench;

/// The benchmark cannot go on: wrong data, a failed operation, a lost process. The message is for
/// people.
final class BenchFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    BenchFailure(String message) {
        super(message);
    }

    BenchFailure(String message, Throwable cause) {
        super(message, cause);
    }
}
