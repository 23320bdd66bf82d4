package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.spi.LocalRegion;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicInteger;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/// An importer announces itself, looks at the owner's table and writes; the owner closes the region
/// and waits until nobody is announced: nothing changes in it from there on.
@JCStressTest
@Outcome(id = "1, 1", expect = Expect.ACCEPTABLE, desc = "written before the close")
@Outcome(id = "0, 0", expect = Expect.ACCEPTABLE, desc = "turned away")
@Outcome(expect = Expect.FORBIDDEN, desc = "written after the close")
@State
public class HazardStress {
    private static final RegionEntries TABLE = new RegionEntries();
    private static final MemorySegment PAGE = MemorySegment.ofArray(new long[HazardPage.WORDS]);
    private static final AtomicInteger NEXT = new AtomicInteger();

    private final Region region = Region.next();
    private final long announcement = HazardPage.announcement(region.index(), region.generation());
    private int memory;

    private record Region(int index, int generation) implements LocalRegion {
        static Region next() {
            int number = NEXT.getAndIncrement();
            return new Region(number & (RegionEntries.CAPACITY - 1), number);
        }

        @Override
        public MemorySegment segment() {
            return MemorySegment.NULL;
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

    /// Opens the region.
    public HazardStress() {
        TABLE.open(region);
    }

    /// Writes, as a window does.
    @Actor
    public void importer() {
        int ticket = HazardPage.enter(PAGE, announcement);
        long at = RegionEntries.at(region.index());
        long entry = (long) Words.WORD.getVolatile(TABLE.segment(), at);
        if (entry == RegionEntries.openWord(region.generation())) {
            memory = 1;
        }
        HazardPage.exit(PAGE, ticket);
    }

    /// Closes.
    @Actor
    public void owner(II_Result r) {
        TABLE.close(region);
        while (HazardPage.names(PAGE, announcement)) {
            Thread.onSpinWait();
        }
        r.r1 = memory;
    }

    /// Looks again.
    @Arbiter
    public void arbiter(II_Result r) {
        r.r2 = memory;
    }
}
