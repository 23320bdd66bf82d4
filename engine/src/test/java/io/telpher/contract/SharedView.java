package io.telpher.contract;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.stream.Stream;

/// A second view of a region that belongs to a peer: shows what really is in the peer's memory,
/// at once, and also after the peer was killed.
final class SharedView {
    private SharedView() {}

    /// Makes a region at a peer and maps its bytes here.
    ///
    /// @param bytes size that no other region of the peer has
    static MemorySegment add(Peer peer, String name, TestPath path, long bytes, Arena arena) {
        if (!(peer instanceof PeerProcess process)) {
            peer.add(name, Kind.TELPHER, bytes);
            return ((LocalPeer) peer).participant().segment(name);
        }
        try {
            if (path == TestPath.MAPPED) {
                peer.add(name, Kind.TELPHER, bytes);
                return map(memfd(process, bytes), bytes, arena);
            }
            Path file = Files.createTempFile(Path.of("/dev/shm"), "tlp-test-", ".memory");
            try {
                String text = file.toString();
                peer.tell(self -> register(self, name, text, bytes));
                return map(file, bytes, arena);
            } finally {
                Files.delete(file);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void register(Participant self, String name, String file, long bytes)
            throws IOException {
        Arena arena = Participant.arena();
        self.keep(name, self.endpoint().register(map(Path.of(file), bytes, arena)), arena);
    }

    private static MemorySegment map(Path file, long bytes, Arena arena) throws IOException {
        try (FileChannel channel =
                FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            return channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes, arena);
        }
    }

    /// The descriptor of the peer's region, found by its size.
    private static Path memfd(PeerProcess process, long bytes) throws IOException {
        try (Stream<Path> descriptors = Files.list(Path.of("/proc/" + process.pid() + "/fd"))) {
            return descriptors
                    .filter(descriptor -> isMemfd(descriptor, bytes))
                    .findFirst()
                    .orElseThrow(() -> new AssertionError("no memfd of " + bytes + " bytes"));
        }
    }

    private static boolean isMemfd(Path descriptor, long bytes) {
        try {
            String target = Files.readSymbolicLink(descriptor).toString();
            long page = 4096;
            long size = Files.size(descriptor);
            return target.startsWith("/memfd:") && size >= bytes && size < bytes + 16 * page;
        } catch (IOException e) {
            return false;
        }
    }
}
