package io.telpher.internal.observe;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.CRC32C;

/// The reading side of pages: looks at other processes of this machine, or at this one. Has no
/// state of its own; thread-safe.
public final class MetricsReader {
    /// The link of a descriptor begins with this, and ends with " (deleted)".
    private static final String LINK = "/memfd:" + MetricsPage.NAME + " ";

    /// The writer would have to publish twice during each of so many reads.
    private static final int TRIES = 100;

    /// What is older was written while nobody asked; of what is older than that the writer is
    /// stopped, and waiting for it is of no use.
    static final long FRESH_MILLIS = 2500;

    private static final long STOPPED_MILLIS = MetricsPage.SELDOM_NANOS / 1_000_000 + FRESH_MILLIS;

    /// The writer looks once a second whether somebody has asked.
    private static final long PATIENCE_NANOS = 1_500_000_000L;

    private static final long LOOK_MILLIS = 20;

    private MetricsReader() {}

    /// Why a process cannot be looked at; the message names the process and the remedy.
    public static final class Unreadable extends IOException {
        private static final long serialVersionUID = 1L;

        Unreadable(String message) {
            super(message);
        }
    }

    /// The process has ended.
    public static final class Gone extends IOException {
        private static final long serialVersionUID = 1L;

        Gone(long pid) {
            super("there is no process " + pid);
        }
    }

    /// @return the processes of this machine that have a page and that this user may look at
    /// @throws IOException when `/proc` cannot be read
    public static List<Long> processes() throws IOException {
        List<Long> found = new ArrayList<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc"), "[0-9]*")) {
            for (Path process : all) {
                long pid = Long.parseLong(process.getFileName().toString());
                try {
                    if (!pages(pid).isEmpty()) {
                        found.add(pid);
                    }
                } catch (Gone | Unreadable e) {
                    continue; // another user's, or it has just ended
                }
            }
        }
        return List.copyOf(found);
    }

    /// Reads what a process publishes; more than one snapshot when it has the library loaded more
    /// than once. Where nobody has asked of late this waits for a new one, a second or so.
    ///
    /// @return not empty
    /// @throws Gone when there is no such process
    /// @throws Unreadable when it cannot be looked at, or publishes nothing
    public static List<Snapshot> read(long pid) throws IOException {
        List<Path> pages = pages(pid);
        if (pages.isEmpty()) {
            throw new Unreadable(
                    ("process %d publishes no counters: it has no open endpoint, or was started with"
                                    + " TELPHER_METRICS=false")
                            .formatted(pid));
        }
        List<Snapshot> snapshots = new ArrayList<>();
        for (Path page : pages) {
            try {
                snapshots.add(fresh(pid, page));
            } catch (NoSuchFileException e) {
                if (pages.size() == 1) {
                    throw gone(pid); // closed since: so is its last endpoint
                }
            } catch (AccessDeniedException e) {
                throw denied(pid);
            }
        }
        return snapshots;
    }

    private static IOException gone(long pid) {
        return Files.exists(Path.of("/proc/" + pid))
                ? new Unreadable("process %d has closed its last endpoint".formatted(pid))
                : new Gone(pid);
    }

    private static Unreadable denied(long pid) {
        return new Unreadable(
                "process %d cannot be looked at: it belongs to another user, or has given itself other rights; run this as its user or as root"
                        .formatted(pid));
    }

    private static List<Path> pages(long pid) throws IOException {
        Path folder = Path.of("/proc/" + pid + "/fd");
        List<Path> pages = new ArrayList<>();
        try (DirectoryStream<Path> descriptors = Files.newDirectoryStream(folder)) {
            for (Path descriptor : descriptors) {
                try {
                    if (Files.readSymbolicLink(descriptor).toString().startsWith(LINK)) {
                        pages.add(descriptor);
                    }
                } catch (NoSuchFileException e) {
                    continue; // closed since
                }
            }
        } catch (NoSuchFileException | NotDirectoryException e) {
            throw new Gone(pid);
        } catch (AccessDeniedException e) {
            throw denied(pid);
        } catch (java.nio.file.DirectoryIteratorException e) {
            throw new Gone(pid); // it ended while its descriptors were listed
        }
        return pages;
    }

    static Snapshot fresh(long pid, Path file) throws IOException {
        Snapshot found = page(pid, file);
        ask(file);
        long age = System.currentTimeMillis() - found.writtenMillis();
        if (age <= FRESH_MILLIS || age > STOPPED_MILLIS) {
            return found;
        }
        long end = System.nanoTime() + PATIENCE_NANOS;
        Snapshot next = found;
        while (next.sequence() == found.sequence() && System.nanoTime() - end < 0) {
            LockSupport.parkNanos(LOOK_MILLIS * 1_000_000);
            next = page(pid, file);
        }
        return next;
    }

    /// Asks processes to publish, so that reading one after the other does not wait for each. Those
    /// that cannot be asked are left out; reading them says why.
    public static void ask(Iterable<Long> pids) {
        for (long pid : pids) {
            try {
                pages(pid).forEach(MetricsReader::ask);
            } catch (IOException e) {
                continue;
            }
        }
    }

    /// Has the process publish more often for a while, if this user may write into the page.
    static void ask(Path file) {
        try (FileChannel channel =
                FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            // By now the process may have another file under that number. A page that was never
            // written is left alone, too: it is filled at once anyway.
            if (read(channel, 0, Long.BYTES).getLong() == MetricsPage.MAGIC) {
                channel.write(
                        ByteBuffer.allocate(Long.BYTES).putLong(0, System.nanoTime()),
                        MetricsPage.ASKED);
            }
        } catch (IOException e) {
            return; // what is there can be read all the same
        }
    }

    static Snapshot page(long pid, Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            for (int i = 0; i < TRIES; i++) {
                ByteBuffer header = read(channel, 0, MetricsPage.HEADER);
                if (header.getLong() != MetricsPage.MAGIC) {
                    throw damaged(pid, "it does not begin as a page does");
                }
                int version = header.getInt();
                if (version != Snapshot.VERSION) {
                    throw new Unreadable(
                            "process %d writes its counters in form %d, this telpher reads form %d: use the telpher of its version"
                                    .formatted(pid, version, Snapshot.VERSION));
                }
                long sequence = header.getLong(MetricsPage.SEQUENCE);
                ByteBuffer slot =
                        read(channel, MetricsPage.slot(sequence), MetricsPage.SLOT_HEADER);
                long written = slot.getLong();
                long millis = slot.getLong();
                int length = slot.getInt();
                int crc = slot.getInt();
                if (written != sequence) {
                    continue; // overwritten by the one after the next
                }
                if (length < 0 || length > Snapshot.MOST_BYTES) {
                    throw damaged(pid, "a length of " + length);
                }
                byte[] body =
                        read(channel, MetricsPage.slot(sequence) + MetricsPage.SLOT_HEADER, length)
                                .array();
                CRC32C sum = new CRC32C();
                sum.update(body);
                if ((int) sum.getValue() == crc) {
                    return Snapshot.decode(sequence, millis, body);
                }
            }
            throw damaged(pid, "its checksum is wrong");
        } catch (EOFException e) {
            throw damaged(pid, "it is empty or too short; try again");
        }
    }

    private static Unreadable damaged(long pid, String how) {
        return new Unreadable("the counters of process %d cannot be read: %s".formatted(pid, how));
    }

    private static ByteBuffer read(FileChannel channel, long offset, int length)
            throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(length);
        while (buffer.hasRemaining()) {
            if (channel.read(buffer, offset + buffer.position()) < 0) {
                throw new EOFException();
            }
        }
        return buffer.flip();
    }
}
