package io.telpher.python;

import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.bootstrap.RendezvousException;
import java.io.ByteArrayOutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Something that was thrown, for Python: read once, as a list of texts.
///
/// @param thrown what it was
/// @param transfer whose end it was, or null
/// @param encoded what [#encode()] returns, made in advance, or null
@SuppressWarnings("ArrayRecordComponent") // nobody compares them
record Failure(Throwable thrown, @Nullable Transfer transfer, byte @Nullable [] encoded) {
    static Failure of(Throwable thrown, @Nullable Transfer transfer) {
        return new Failure(thrown, transfer, null);
    }

    /// One that can be read when there is no memory left.
    static Failure ready(Throwable thrown) {
        return new Failure(thrown, null, of(thrown, null).encode());
    }

    /// Name of the class, message, two details of the class, name and message of the cause, stack;
    /// of a transfer: state, remote quiet, bytes moved, path. Each as [Request#add] writes it.
    byte[] encode() {
        if (encoded != null) {
            return encoded;
        }
        Throwable cause = thrown.getCause();
        String first = "";
        String second = "";
        switch (thrown) {
            case TelpherException.Truncated e -> {
                first = Long.toString(e.sent());
                second = Long.toString(e.capacity());
            }
            case TelpherException.NativeFailure e -> {
                first = e.call() + "\n" + String.join("\n", e.arguments());
                second = Integer.toString(e.errno());
            }
            case TelpherException.ConnectFailed e -> first = String.join("\n", e.attempts());
            default -> {}
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        write(out, name(thrown));
        write(out, String.valueOf(thrown.getMessage()));
        write(out, first);
        write(out, second);
        write(out, cause == null ? "" : cause.getClass().getName());
        write(out, cause == null ? "" : String.valueOf(cause.getMessage()));
        write(out, stack());
        Transfer ended = transfer;
        if (ended != null) {
            for (Object each :
                    List.of(ended.state(), ended.remoteQuiet(), ended.bytesMoved(), ended.path())) {
                write(out, each.toString());
            }
        }
        return out.toByteArray();
    }

    /// The kind, which Python has a class for; subclasses that it need not know are mapped here.
    private static String name(Throwable thrown) {
        return switch (thrown) {
            case TelpherException e -> e.getClass().getSimpleName();
            case RendezvousException e -> e.getClass().getSimpleName();
            case IndexOutOfBoundsException _ -> "IndexOutOfBoundsException";
            case IllegalArgumentException _, ArithmeticException _ -> "IllegalArgumentException";
            case IllegalStateException _ -> "IllegalStateException";
            case OutOfMemoryError _ -> "OutOfMemoryError";
            default -> thrown.getClass().getName();
        };
    }

    private String stack() {
        if (thrown instanceof TelpherException || thrown instanceof RendezvousException) {
            return "";
        }
        StringWriter text = new StringWriter();
        thrown.printStackTrace(new PrintWriter(text));
        return text.toString();
    }

    private static void write(ByteArrayOutputStream out, String text) {
        Request.add(out, text.getBytes(StandardCharsets.UTF_8));
    }
}
