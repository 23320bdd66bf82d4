package io.telpher;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class TelpherExceptionTest {
    private static final List<TelpherException> FAMILY =
            List.of(
                    new TelpherException.PeerLost("lost"),
                    new TelpherException.TimedOut("late"),
                    new TelpherException.Cancelled("cancelled"),
                    new TelpherException.AccessDenied("denied"),
                    new TelpherException.StaleRegion("stale"),
                    new TelpherException.RegionBusy("busy"),
                    new TelpherException.Truncated(8, 4),
                    new TelpherException.ConnectFailed(
                            "cannot connect", List.of("tcp: refused", "shm: another host")),
                    new TelpherException.Unsupported("unsupported"),
                    new TelpherException.Closed("closed"),
                    new TelpherException.ProtocolViolation("nonsense"),
                    new TelpherException.NativeFailure("mmap", 12, List.of("0", "64"), "ENOMEM"));

    static Stream<Class<?>> kinds() {
        return Arrays.stream(TelpherException.class.getPermittedSubclasses());
    }

    /// Loggers and frameworks send exceptions on, and callers ask them afterwards.
    @ParameterizedTest
    @MethodSource("kinds")
    void everyOneSaysTheSameAfterSerialization(Class<?> kind) throws Exception {
        TelpherException sent = FAMILY.stream().filter(kind::isInstance).findFirst().orElseThrow();
        sent.addSuppressed(new TelpherException.Closed("besides"));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(sent);
        }
        Object came = read(bytes.toByteArray());
        assertThat(came).hasSameClassAs(sent);
        for (Method method : kind.getMethods()) {
            if (isQuestion(method)) {
                assertThat(ask(came, method)).as(method.getName()).isEqualTo(ask(sent, method));
            }
        }
        assertThat((TelpherException) came)
                .hasMessage(sent.getMessage())
                .hasStackTraceContaining("besides");
    }

    private static Object read(byte[] bytes) throws IOException, ClassNotFoundException {
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
            return in.readObject();
        }
    }

    private static boolean isQuestion(Method method) {
        return TelpherException.class.isAssignableFrom(method.getDeclaringClass())
                && method.getParameterCount() == 0
                && !Modifier.isStatic(method.getModifiers());
    }

    private static Object ask(Object whom, Method what)
            throws IllegalAccessException, InvocationTargetException {
        return what.invoke(whom);
    }
}
