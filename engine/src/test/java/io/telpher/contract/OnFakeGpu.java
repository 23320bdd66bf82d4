package io.telpher.contract;

import io.telpher.RemoteMemory;
import io.telpher.internal.ffi.cuda.FakeGpu;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;

/// Tests of endpoints of this process on the fake driver, which each leaves as it was.
@Tag(FakeGpu.TAG)
abstract class OnFakeGpu {
    @BeforeAll
    static void checkDriver() {
        FakeGpu.assumeHere();
    }

    @AfterEach
    void restoreDriver() {
        FakeGpu.setFaults("");
        FakeGpu.setDelay(0);
    }

    /// Two endpoints, each with a region `gpu` of that size.
    static Couple couple(TestPath path, int size) {
        Couple couple = Couple.open(path).connect();
        couple.here().add("gpu", Kind.TELPHER, size);
        couple.there().run(self -> self.add("gpu", Kind.TELPHER, size));
        return couple;
    }

    /// The region `gpu` of the other side.
    static RemoteMemory target(Couple couple) {
        return target(couple, "gpu");
    }

    static RemoteMemory target(Couple couple, String name) {
        return couple.there().run(self -> self.region(name).remote());
    }
}
