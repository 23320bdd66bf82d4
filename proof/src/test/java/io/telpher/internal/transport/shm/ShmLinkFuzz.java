package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.EndpointOptions;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.internal.ffi.linux.FdPassing;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Link;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import io.telpher.spi.TransportEndpoint;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// A process on this host says anything over the socket of a link: its greeting, its verdict, then
/// questions about regions, answers, and whatever else. A link comes about only from a greeting
/// that fits; nothing but Telpher's errors is thrown; and when the link is over, nothing that came
/// along, or was made for it, is still open.
///
/// Input: a byte of choices, a byte that says which descriptors go with the greeting (two bits for
/// each) and a byte that says which goes with the first message; then greeting, verdict and
/// messages as they stand on the wire. What a fuzzer cannot guess, pid and namespace of this
/// process, is put in where the greeting has [#STAND_IN].
public final class ShmLinkFuzz {
    /// Choices: the input is a locator; a region is being asked for.
    private static final int LOCATOR = 1;

    private static final int ASKING = 2;

    private static final int STAND_IN = 0x1111_1111;
    private static final long PEER = 7;
    private static final int GREETING = 128;
    private static final int VERDICT = 64;
    private static final int MESSAGE = 64;
    private static final int PID_AT = 8;
    private static final int NAMESPACE_AT = 24;
    private static final int REGION = 64 << 10;
    private static final Duration LIMIT = Duration.ofSeconds(10);

    private static final Context CONTEXT = new Context();
    private static final ShmEndpoint ENDPOINT = ShmEndpoint.open(CONTEXT);

    private ShmLinkFuzz() {}

    /// @param data choices, then what the peer sends
    public static void fuzzerTestOneInput(byte[] data) {
        if (data.length < 3) {
            return;
        }
        byte[] bytes = Arrays.copyOfRange(data, 3, data.length);
        if ((data[0] & LOCATOR) != 0) {
            locator(bytes);
            return;
        }
        CONTEXT.watched.clear();
        List<String> before = descriptors();
        int[] ends = new int[2];
        int made =
                Sockets.socketpair(
                        Sockets.AF_UNIX, Sockets.SOCK_STREAM | Sockets.SOCK_NONBLOCK, 0, ends);
        if (made < 0) {
            throw new IllegalStateException("socketpair failed: " + made);
        }
        try {
            talk(ends, data[0], data[1], data[2], bytes);
        } finally {
            closeAll(ends[1]);
        }
        List<String> after = descriptors();
        if (!after.equals(before)) {
            throw new AssertionError("open before: " + before + ", after: " + after);
        }
    }

    private static void locator(byte[] bytes) {
        ShmLocator locator = ShmLocator.of(new Locator(ShmTransport.NAME, bytes, "the fuzzer's"));
        if (locator == null || locator.name().indexOf('\ufffd') >= 0) {
            return; // what is no text is not written again as it was
        }
        if (!locator.equals(ShmLocator.of(locator.toLocator()))) {
            throw new AssertionError(locator + " was read again as another");
        }
    }

    private static void talk(int[] ends, int choices, int kinds, int kind, byte[] bytes) {
        ByteBuffer greeting =
                ByteBuffer.wrap(Arrays.copyOf(bytes, GREETING)).order(ByteOrder.LITTLE_ENDIAN);
        if (greeting.getInt(PID_AT) == STAND_IN) {
            greeting.putInt(PID_AT, HostIdentity.here().pid());
            greeting.putLong(NAMESPACE_AT, HostIdentity.here().pidNamespace());
        }
        int[] along = new int[4];
        for (int i = 0; i < along.length; i++) {
            along[i] = descriptor(kinds >> (2 * i) & 3, i);
        }
        send(ends[1], greeting.array(), along);
        closeAll(along);
        int verdictAt = Math.min(GREETING, bytes.length);
        byte[] verdict = Arrays.copyOfRange(bytes, verdictAt, verdictAt + VERDICT);
        send(ends[1], verdict);
        PeerAddress peer = new PeerAddress(PEER, HostIdentity.here(), List.of());
        Link link;
        try {
            UnixChannel channel = new UnixChannel(ends[0], "the fuzzer");
            link = ENDPOINT.link(channel, Role.ACCEPTOR, peer, Deadline.in(LIMIT));
        } catch (TelpherException e) {
            return;
        }
        try {
            if (verdict[0] != 0) {
                throw new AssertionError("a link, though the peer gave up");
            }
            int at = Math.min(GREETING + VERDICT, bytes.length);
            converse(ends, link, choices, kind, Arrays.copyOfRange(bytes, at, bytes.length));
        } finally {
            if (link.windows() != null) {
                link.windows().close();
            }
            link.lane().close();
            int unused = Sockets.shutdown(ends[1], Sockets.SHUT_RDWR);
            CONTEXT.look(ends[0]);
        }
    }

    /// Messages come in; a question of this side waits for its answer meanwhile.
    private static void converse(int[] ends, Link link, int choices, int kind, byte[] messages) {
        CompletableFuture<Void> asked = CompletableFuture.completedFuture(null);
        if ((choices & ASKING) != 0 && link.windows() != null) {
            asked = CompletableFuture.runAsync(() -> ask(link));
            int unused = Poll.poll(ends[1], Poll.POLLIN, (int) LIMIT.toMillis());
        }
        int along = descriptor(kind & 3, kind >> 2 & 3);
        int first = Math.min(MESSAGE, messages.length);
        send(ends[1], Arrays.copyOf(messages, first), along);
        closeAll(along);
        send(ends[1], Arrays.copyOfRange(messages, first, messages.length));
        CONTEXT.look(ends[0]);
        int unused = Sockets.shutdown(ends[1], Sockets.SHUT_RDWR);
        CONTEXT.look(ends[0]);
        asked.join();
    }

    private static void ask(Link link) {
        RemoteMemory memory = new RemoteMemory(PEER, 1, 1, 1, 0, REGION, Access.READ_WRITE);
        try {
            link.windows().open(memory, Deadline.in(LIMIT)).join().close();
        } catch (TelpherException expected) {
            // The answer was a refusal, made no sense, or never came.
        }
    }

    /// @param kind 0 for the right one, which differs by place
    /// @return a new descriptor, or -1 for none
    private static int descriptor(int kind, int place) {
        return switch (kind) {
            case 0 ->
                    switch (place) {
                        case 0 -> file(RingMemory.create());
                        case 1 -> file(RegionEntries.BYTES, Mapping.Others.READ);
                        case 2 -> file(HazardPage.BYTES, Mapping.Others.READ);
                        default -> EventFd.create();
                    };
            case 1 -> file(REGION, Mapping.Others.WRITE);
            case 2 -> Mapping.createFile("fuzzed", 4096); // its size is not fixed
            default -> -1;
        };
    }

    private static int file(long bytes, Mapping.Others others) {
        Mapping mapping = Mapping.create("fuzzed", bytes, others);
        try {
            return Mapping.duplicate(mapping.fd());
        } finally {
            mapping.close();
        }
    }

    private static int file(RingMemory ring) {
        try {
            return Mapping.duplicate(ring.fd());
        } finally {
            ring.close();
        }
    }

    private static void send(int fd, byte[] bytes, int... along) {
        if (bytes.length == 0) {
            return;
        }
        int[] there = Arrays.stream(along).filter(each -> each >= 0).toArray();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment all = arena.allocate(bytes.length);
            all.copyFrom(MemorySegment.ofArray(bytes));
            // The other end may have been closed: then nothing of it arrives.
            long unused =
                    there.length > 0
                            ? FdPassing.send(fd, all, there)
                            : Sockets.send(fd, all, bytes.length, Sockets.MSG_NOSIGNAL);
        }
    }

    private static void closeAll(int... descriptors) {
        for (int each : descriptors) {
            if (each >= 0) {
                int unused = Descriptors.close(each);
            }
        }
    }

    /// What is open of the kinds that a link has.
    private static List<String> descriptors() {
        try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
            return all.map(ShmLinkFuzz::target)
                    .filter(each -> each.matches("(/memfd:|socket:|anon_inode:).*"))
                    .map(each -> each.replaceAll("[0-9]+", "N"))
                    .sorted()
                    .toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String target(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor).toString();
        } catch (IOException e) {
            return "-"; // closed meanwhile: the one that lists them
        }
    }

    /// An engine without a progress thread: the fuzzer says when descriptors are looked at.
    private static final class Context implements EndpointContext {
        final Map<Integer, Runnable> watched = new HashMap<>();
        /// Names the listener, of which there may be others on this host.
        private final long incarnation = ThreadLocalRandom.current().nextLong(8, Long.MAX_VALUE);

        private final MemorySegment memory = Arena.global().allocate(REGION, 8);

        void look(int descriptor) {
            Runnable ready = watched.get(descriptor);
            if (ready != null) {
                ready.run();
            }
        }

        @Override
        public EndpointOptions options() {
            return EndpointOptions.DEFAULTS.withPaths(List.of("mapped", "cma", "shm-ring"));
        }

        @Override
        public long incarnation() {
            return incarnation;
        }

        @Override
        public void accepted(TransportEndpoint from, Channel channel) {
            channel.close();
        }

        @Override
        public Executor control() {
            return Runnable::run;
        }

        @Override
        public @Nullable LocalRegion region(int index, int generation, long key) {
            return index == 1 && generation == 1 && key == 1 ? new Region(memory) : null;
        }

        @Override
        public boolean isOpen(int index, int generation) {
            return index == 1 && generation == 1;
        }

        @Override
        public void watch(int descriptor, Runnable ready) {
            watched.put(descriptor, ready);
        }

        @Override
        public void unwatch(int descriptor) {
            watched.remove(descriptor);
        }
    }

    private record Region(MemorySegment segment) implements LocalRegion {
        @Override
        public int index() {
            return 1;
        }

        @Override
        public int generation() {
            return 1;
        }

        @Override
        public Access access() {
            return Access.READ_WRITE;
        }

        @Override
        public int memfd() {
            return -1;
        }
    }
}
