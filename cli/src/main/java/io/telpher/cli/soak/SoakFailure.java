package io.telpher.cli.soak;

/// Something that must not be: ends the soak.
final class SoakFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    SoakFailure(String message) {
        super(message);
    }
}
