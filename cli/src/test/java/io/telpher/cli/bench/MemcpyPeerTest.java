package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import org.junit.jupiter.api.Test;

class MemcpyPeerTest {
    /// Two of eight looks at the clock come a millisecond after the one before, the others two
    /// microseconds.
    private static LongSupplier clock() {
        AtomicLong looks = new AtomicLong();
        AtomicLong now = new AtomicLong();
        return () -> now.addAndGet(looks.getAndIncrement() % 8 < 2 ? 1_000_000 : 2_000);
    }

    @Test
    void oneAtATimeTheMedianIsNoMean() {
        try (MemcpyPeer memcpy = new MemcpyPeer(List.of(), clock())) {
            PeerResult alone = memcpy.measure(new Case(Op.WRITE, 65536, 1, 1), 0.1);
            assertThat(alone.usP50()).isCloseTo(2, within(0.01));
            assertThat(65536 / alone.gbps() / 1e3).as("mean").isGreaterThan(100);
            PeerResult deep = memcpy.measure(new Case(Op.WRITE, 65536, 1, 16), 0.1);
            assertThat(deep.usP50()).isNaN();
            assertThat(deep.gbps()).isPositive();
        }
    }

    @Test
    void copiesThatAreTooShortForTheClockAreTimedInGroups() {
        AtomicLong now = new AtomicLong();
        try (MemcpyPeer memcpy = new MemcpyPeer(List.of(), () -> now.addAndGet(6_400))) {
            PeerResult small = memcpy.measure(new Case(Op.WRITE, 8, 1, 1), 0.01);
            assertThat(small.settings()).endsWith(", p50 over groups of 19");
            assertThat(small.usP50()).isCloseTo(6.4 / 19, within(0.001));
        }
    }
}
