package io.telpher.contract;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.NotSerializableException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.PrintStream;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/// The main class of a peer's process: takes tasks from standard input and answers on standard
/// output.
///
/// A message is its number (8 bytes), its length (4) and the serialized task or answer.
final class PeerMain {
    private PeerMain() {}

    /// What a task came to.
    ///
    /// @param value its result
    /// @param error what it threw, or null
    record Answer(Object value, Throwable error) implements java.io.Serializable {}

    public static void main(String[] args) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        PrintStream stdout = System.out;
        // Whatever is printed by mistake must not disturb the answers.
        System.setOut(System.err);
        Participant self = new Participant();
        ExecutorService executor =
                Executors.newCachedThreadPool(
                        Thread.ofPlatform().daemon().name("test-", 0).factory());
        try {
            while (true) {
                long number = in.readLong();
                byte[] task = in.readNBytes(in.readInt());
                executor.execute(() -> answer(stdout, number, run(task, self)));
            }
        } catch (EOFException e) {
            // The test is over, whichever way: no clean-up, like a crash.
            Runtime.getRuntime().halt(0);
        }
    }

    private static Answer run(byte[] task, Participant self) {
        try {
            ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(task));
            return new Answer(((Peer.Task<?>) in.readObject()).run(self), null);
        } catch (Throwable e) {
            return new Answer(null, e);
        }
    }

    private static void answer(PrintStream stdout, long number, Answer answer) {
        try {
            byte[] bytes = serialize(answer);
            synchronized (stdout) {
                DataOutputStream out = new DataOutputStream(stdout);
                out.writeLong(number);
                out.writeInt(bytes.length);
                out.write(bytes);
                out.flush();
            }
        } catch (IOException e) {
            Runtime.getRuntime().halt(1);
        }
    }

    private static byte[] serialize(Answer answer) throws IOException {
        try {
            return bytes(answer);
        } catch (NotSerializableException e) {
            AssertionError error =
                    new AssertionError(answer.value + " cannot travel: " + e.getMessage());
            if (answer.error != null) {
                error = new AssertionError(answer.error.toString());
                error.setStackTrace(answer.error.getStackTrace());
            }
            return bytes(new Answer(null, error));
        }
    }

    /// @return the serialized form
    static byte[] bytes(Object object) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(object);
        }
        return bytes.toByteArray();
    }
}
