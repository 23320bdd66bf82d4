package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.internal.transport.verbs.RdmaNode;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;

/// A slice of the contract between two nodes of the machine of `scripts/rdma-vm`: processes with
/// the ports of one each, on queue pairs of the kernel. That machine is slow, so the slice is thin:
/// what has the tag [RdmaNode#SLICE]. [ContractTest] has all of it, on a double in one process.
class VerbsContractTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);

    @BeforeAll
    static void checkMachine() {
        assumeThat(RdmaNode.isHere()).as("this is the machine of scripts/rdma-vm").isTrue();
    }

    @Nested
    @Setting.In(Place.TWO)
    class WriteRead extends WriteReadContract {}

    /// Of peers that stand still.
    @Nested
    @Setting.In(Place.TWO)
    class Standstill extends StandstillContract {}

    /// Of peers that end.
    @Nested
    @Setting.In(Place.TWO)
    class Death extends DeathContract {}

    /// Of processes that were killed, too: the kernel takes back what they have left.
    @AfterAll
    static void nothingIsLeft() throws IOException, InterruptedException {
        if (RdmaNode.isHere()) {
            long end = System.nanoTime() + LIMIT.toNanos();
            List<String> left;
            while (!(left = RdmaNode.left()).isEmpty()) {
                assertThat(System.nanoTime()).as("left: %s", left).isLessThan(end);
                Thread.sleep(50);
            }
        }
    }
}
