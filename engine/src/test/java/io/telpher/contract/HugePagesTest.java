package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Memory on huge pages of the pool: taken where they are asked for, mapped by the peer, and given
/// back.
class HugePagesTest {
    private static final Path POOL = Path.of("/proc/sys/vm/nr_hugepages");
    private static final Path FREE =
            Path.of("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    private static final int NEEDED = 6;

    /// Not a multiple of a huge page.
    private static final int SIZE = 5_000_000;

    private static final int PAGES = 3;

    private int reserved;

    @BeforeEach
    void reserve() throws IOException {
        assumeTrue(Files.exists(FREE), "no huge pages of 2 MiB on this machine");
        reserved = read(POOL);
        if (read(FREE) < NEEDED) {
            assumeTrue(Files.isWritable(POOL), "run once: sysctl vm.nr_hugepages=" + NEEDED);
            Files.writeString(POOL, Integer.toString(reserved + NEEDED));
            assumeTrue(read(FREE) >= NEEDED, "the machine's memory is too fragmented for " + POOL);
        }
    }

    @AfterEach
    void giveBack() throws IOException {
        if (Files.exists(FREE) && read(POOL) != reserved) {
            Files.writeString(POOL, Integer.toString(reserved));
        }
    }

    private static int read(Path file) throws IOException {
        return Integer.parseInt(Files.readString(file).strip());
    }

    @Test
    void regionsTakeThemAndGiveThemBack() throws IOException {
        int free = read(FREE);
        try (PeerProcess peer = PeerProcess.start();
                Participant here = new Participant()) {
            peer.openWith(here, options -> TestPath.MAPPED.restrict(options).withHugePages(true));
            Couple.checkWorks(here, peer);
            Resources before = Resources.now();
            MemoryRegion source = here.add("source", Kind.TELPHER, SIZE);
            RemoteMemory target = peer.add("target", Kind.TELPHER, SIZE);
            assertThat(free - read(FREE)).isEqualTo(2 * PAGES);
            assertThat(source.toString()).contains("shared memory of huge pages of the pool");
            here.fill("source", 0, SIZE, 1);
            Outcome written = here.write("source", 0, SIZE, target).assertDone(SIZE);
            assertThat(written.path()).isEqualTo("mapped");
            peer.check("target", 0, SIZE, 1);
            source.segment().fill((byte) 0);
            Outcome.of(here.connection().read(source.all(), target)).assertDone(SIZE);
            here.check("source", 0, SIZE, 1);
            peer.tell(self -> self.closeRegion("target"));
            here.closeRegion("source");
            before.awaitSame();
            await().atMost(10, TimeUnit.SECONDS).until(() -> read(FREE) == free);
            // The pool is empty of what this one wants: it gets other pages, and works.
            MemoryRegion large = here.add("large", Kind.TELPHER, (free + 1L) * (2 << 20));
            assertThat(read(FREE)).isEqualTo(free);
            assertThat(large.toString()).doesNotContain("of the pool]");
        }
    }
}
