package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.internal.transport.verbs.RdmaNode;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
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
    class Deadline extends DeadlineContract {}

    /// Of peers that end.
    @Nested
    @Setting.In(Place.TWO)
    class Death extends DeathContract {
        /// The kernel takes back what a process has left when that was killed.
        @AfterEach
        void nothingIsLeftOfWhoWasKilled() throws IOException, InterruptedException {
            long end = System.nanoTime() + LIMIT.toNanos();
            for (String kind : List.of("qp", "cq", "mr", "pd")) {
                while (!RdmaNode.holders(kind).stream().allMatch(VerbsContractTest::isAlive)) {
                    assertThat(System.nanoTime()).as("%s of a dead process", kind).isLessThan(end);
                    Thread.sleep(50);
                }
                assertThat(RdmaNode.holders(kind)).as(kind).contains(ProcessHandle.current().pid());
            }
        }
    }

    private static boolean isAlive(long pid) {
        return ProcessHandle.of(pid).isPresent();
    }
}
