package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/// Begins each test with a fresh double, and sees after it that the double was used rightly and got
/// everything back.
final class NothingLeft implements BeforeEachCallback, AfterEachCallback {
    private static final long LIMIT_NANOS = 30_000_000_000L;

    @Override
    public void beforeEach(ExtensionContext test) {
        FakeVerbs.HERE.reset();
    }

    @Override
    public void afterEach(ExtensionContext test) throws InterruptedException {
        try {
            awaitNothing();
            assertThat(FakeVerbs.HERE.misuses()).isEmpty();
        } finally {
            FakeVerbs.HERE.reset();
        }
    }

    /// Threads that still connect end later than their endpoint.
    static void awaitNothing() throws InterruptedException {
        long end = System.nanoTime() + LIMIT_NANOS;
        while (!FakeVerbs.HERE.left().isEmpty() && System.nanoTime() < end) {
            Thread.sleep(1);
        }
        assertThat(FakeVerbs.HERE.left()).isEmpty();
    }
}
