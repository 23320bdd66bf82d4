package io.telpher.cli.bench;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// A control over the pipes between a process and its child, so that it works whatever the engine
/// does.
final class StreamControl implements Control {
    private static final int LARGEST = 16 << 20;

    private final DataInputStream in;
    private final DataOutputStream out;
    private final Supplier<@Nullable String> death;

    /// @param death tells how the other side ended, or null while it lives
    StreamControl(InputStream in, OutputStream out, Supplier<@Nullable String> death) {
        this.in = new DataInputStream(new BufferedInputStream(in));
        this.out = new DataOutputStream(new BufferedOutputStream(out));
        this.death = death;
    }

    @Override
    public void send(Message message) {
        byte[] bytes = message.encode();
        try {
            out.writeInt(bytes.length);
            out.write(bytes);
            out.flush();
        } catch (IOException e) {
            throw lost(e);
        }
    }

    @Override
    public boolean ready() {
        try {
            return in.available() > 0 || death.get() != null;
        } catch (IOException e) {
            throw lost(e);
        }
    }

    /// Polls, more and more rarely, since a pipe has no read with a deadline.
    @Override
    public Message receive(Duration atMost) {
        long start = System.nanoTime();
        while (!ready()) {
            long waited = System.nanoTime() - start;
            if (waited > atMost.toNanos()) {
                throw new BenchFailure(
                        "another process of this run has not answered for "
                                + atMost.toSeconds()
                                + " s");
            }
            if (waited > 20_000) {
                LockSupport.parkNanos(Math.clamp(waited / 8, 20_000, 10_000_000));
            }
        }
        try {
            return read();
        } catch (IOException e) {
            throw lost(e);
        }
    }

    @Override
    public @Nullable Message next() {
        try {
            return read();
        } catch (EOFException e) {
            return null;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Message read() throws IOException {
        int length = in.readInt();
        if (length < 0 || length > LARGEST) {
            throw new IOException("a message of " + length + " bytes");
        }
        return Message.decode(in.readNBytes(length));
    }

    private BenchFailure lost(IOException cause) {
        String how = death.get();
        return new BenchFailure(
                how == null
                        ? "the pipe to another process of this run broke: " + cause.getMessage()
                        : how,
                cause);
    }

    @Override
    public void close() {
        try {
            out.close();
        } catch (IOException e) {
            // The other side is gone already, which is what closing is for.
            return;
        }
    }
}
