package io.telpher.cli.soak;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/// Faults of a rank itself, which the checks must find: they show that a check can fail.
enum Plant {
    NONE,
    /// A byte changes in memory that nobody writes to.
    FLIP,
    /// Descriptors are opened and not closed, threads started that never end, memory outside of the
    /// heap, which is small, is kept.
    LEAK,
    /// The process ends by itself.
    DIE;

    private static final int AFTER_SECONDS = 4;
    private static final int DESCRIPTORS_A_SECOND = 20;
    private static final int THREADS_A_SECOND = 5;
    private static final int BYTES_A_SECOND = 32 << 20;
    private static final List<FileInputStream> LEAKED = new ArrayList<>();

    /// @return the rank that gets it: memory and descriptors are watched in rank 0, which is never
    ///     killed
    int victim() {
        return this == DIE ? 1 : 0;
    }

    /// Does its harm; once a second.
    void grow(List<Conversation> conversations, int second) {
        if (second < AFTER_SECONDS) {
            return;
        }
        switch (this) {
            case NONE -> {}
            case FLIP -> {
                for (Conversation conversation : conversations) {
                    MemorySegment slot = conversation.inbox().slot(0, Layout.size(0));
                    byte old = slot.get(JAVA_BYTE, second);
                    slot.set(JAVA_BYTE, second, (byte) ~old);
                }
            }
            case LEAK -> leak();
            case DIE -> Runtime.getRuntime().halt(7);
        }
    }

    private static void leak() {
        for (int i = 0; i < DESCRIPTORS_A_SECOND; i++) {
            try {
                LEAKED.add(new FileInputStream("/dev/null"));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        for (int i = 0; i < THREADS_A_SECOND; i++) {
            CountDownLatch never = new CountDownLatch(1);
            Thread.ofPlatform()
                    .daemon()
                    .name("leaked")
                    .start(
                            () -> {
                                try {
                                    never.await();
                                } catch (InterruptedException e) {
                                    Thread.currentThread().interrupt();
                                }
                            });
        }
        MemorySegment unused = Arena.global().allocate(BYTES_A_SECOND).fill((byte) 1);
    }
}
