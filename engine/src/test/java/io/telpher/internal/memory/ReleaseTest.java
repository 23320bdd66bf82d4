package io.telpher.internal.memory;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowable;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

class ReleaseTest {
    private final List<Integer> released = new ArrayList<>();

    /// Releases even numbers, and says of odd ones that it cannot.
    private final Consumer<Integer> even =
            number -> {
                if (number % 2 != 0) {
                    throw new IllegalStateException("odd: " + number);
                }
                released.add(number);
            };

    @Test
    void whatFailsKeepsNothingElse() {
        Throwable thrown = catchThrowable(() -> Release.all(List.of(0, 1, 2, 3, 4, 5, 6), even));
        assertThat(released).containsExactly(0, 2, 4, 6);
        assertThat(thrown).isInstanceOf(IllegalStateException.class).hasMessage("odd: 1");
        assertThat(thrown.getSuppressed())
                .extracting(Throwable::getMessage)
                .containsExactly("odd: 3", "odd: 5");
    }

    @Test
    void anErrorGoesOnToo() {
        Error error = new AssertionError("an Error, and the same one twice");
        Runnable throwing =
                () -> {
                    throw error;
                };
        assertThat(catchThrowable(() -> Release.each(throwing, () -> released.add(1), throwing)))
                .isSameAs(error);
        assertThat(released).containsExactly(1);
    }

    @Test
    void afterTheEndNothingIsReleased() {
        class End extends Release.Ended {
            private static final long serialVersionUID = 1L;

            End() {
                super("the end");
            }
        }
        Runnable ending =
                () -> {
                    throw new End();
                };
        Runnable step = () -> released.add(1);
        assertThat(catchThrowable(() -> Release.each(() -> even.accept(1), ending, step)))
                .isInstanceOf(End.class);
        assertThat(catchThrowable(() -> Release.after(new Exception(), ending, step)))
                .isInstanceOf(End.class);
        assertThat(Release.after(new End(), step)).hasMessage("the end");
        assertThat(released).isEmpty();
    }

    @Test
    void theFailureStaysTheReason() {
        Exception failure = new Exception("why");
        assertThat(Release.after(failure, () -> even.accept(7), () -> even.accept(8)))
                .isSameAs(failure);
        assertThat(released).containsExactly(8);
        assertThat(failure.getSuppressed())
                .extracting(Throwable::getMessage)
                .containsExactly("odd: 7");
    }
}
