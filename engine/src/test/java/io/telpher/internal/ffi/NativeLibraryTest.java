package io.telpher.internal.ffi;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.spi.Availability;
import java.lang.foreign.FunctionDescriptor;
import java.lang.invoke.MethodHandle;
import java.util.List;
import org.junit.jupiter.api.Test;

class NativeLibraryTest {
    private static final String PROPERTY = "telpher.test.library";
    private static final FunctionDescriptor ABS = FunctionDescriptor.of(JAVA_INT, JAVA_INT);

    @Test
    void theFirstThatOpensIsTaken() throws Throwable {
        NativeLibrary library = open(List.of("libnowhere.so.1", "libc.so.6"));
        assertThat(library.availability())
                .isInstanceOfSatisfying(
                        Availability.Available.class,
                        found -> assertThat(found.detail()).startsWith("/").endsWith("libc.so.6"));
        assertThat(library.has("abs")).isTrue();
        MethodHandle abs = library.link(ABS, "abs_v2", "abs");
        assertThat((int) abs.invokeExact(-3)).isEqualTo(3);
    }

    @Test
    void aMissingFunctionThrowsOrAnswersWhenItIsCalled() throws Throwable {
        NativeLibrary library = open(List.of("libc.so.6"));
        MethodHandle missing = library.link(ABS, "abs_v3", "abs_v2");
        assertThatThrownBy(
                        () -> {
                            int unused = (int) missing.invokeExact(1);
                        })
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageMatching("Test \\(/.*libc.so.6\\) has no abs_v2: .*");
        MethodHandle answering =
                library.link(13, FunctionDescriptor.of(JAVA_INT, JAVA_LONG), "abs_v2");
        assertThat((int) answering.invokeExact(1L)).isEqualTo(13);
    }

    @Test
    void aMissingLibrarySaysWhyAndWhatToDo() {
        NativeLibrary library = open(List.of("libnowhere.so.1", "libnowhere.so.2"));
        assertThat(library.availability())
                .isEqualTo(
                        new Availability.Missing(
                                "no Test: libnowhere.so.1: cannot open shared object file: No such"
                                        + " file or directory",
                                "install it"));
        assertThat(library.has("abs")).isFalse();
        MethodHandle abs = library.link(ABS, "abs");
        assertThatThrownBy(
                        () -> {
                            int unused = (int) abs.invokeExact(1);
                        })
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageStartingWith("no Test: libnowhere.so.1: ")
                .hasMessageEndingWith("; install it");
    }

    @Test
    void aNamedFileIsTheOnlyCandidate() {
        System.setProperty(PROPERTY, "/nowhere/lib.so");
        try {
            assertThat(open(List.of("libc.so.6")).availability())
                    .isInstanceOfSatisfying(
                            Availability.Missing.class,
                            missing -> {
                                assertThat(missing.reason()).contains("/nowhere/lib.so");
                                assertThat(missing.remedy()).contains("-D" + PROPERTY);
                            });
        } finally {
            System.clearProperty(PROPERTY);
        }
    }

    @Test
    void callsAreWrittenWithTheirArguments() {
        List<String> arguments = NativeLibrary.arguments(1, 5L, 0x7f00_0000_1000L, "x");
        assertThat(arguments).containsExactly("1", "5", "0x7f0000001000", "x");
        assertThat(new TelpherException.NativeFailure("f", 12, arguments, "ENOMEM; free some"))
                .hasMessage("f(1, 5, 0x7f0000001000, x) failed: ENOMEM; free some")
                .returns("f", TelpherException.NativeFailure::call)
                .returns(12, TelpherException.NativeFailure::errno)
                .returns(arguments, TelpherException.NativeFailure::arguments);
    }

    private static NativeLibrary open(List<String> candidates) {
        return NativeLibrary.open("Test", PROPERTY, candidates, "install it");
    }
}
