package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.transport.verbs.ControlMessage.Status;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ControlMessageTest {
    private static final List<ControlMessage> ALL =
            List.of(
                    new ControlMessage.Resolve(1L << 40, 7, 9, -3),
                    new ControlMessage.Resolved(
                            5, Status.GOOD, 3, -4096, 10_000, 4096, new int[] {1, -2, 3}, ""),
                    ControlMessage.Resolved.refusal(6, Status.FAILED, "ibv_reg_mr: no memory"),
                    new ControlMessage.Revoked(7, 9),
                    new ControlMessage.Offered(1, 0x123456, 0xfedcba, 16),
                    new ControlMessage.Accepted(
                            0, 5, Status.GOOD, 0x123456, 0, 1, 1L << 50, 77, ""),
                    new ControlMessage.Accepted(
                            1, 5, Status.FAILED, 0, 0, 0, 0, 0, "ibv_create_qp"));

    @Test
    void whatIsSaidIsUnderstood() {
        for (ControlMessage message : ALL) {
            byte[] frame = message.encode();
            assertThat(frame.length).as("docs/rdma.md").isGreaterThanOrEqualTo(64);
            assertThat(ControlMessage.decode(frame)).usingRecursiveComparison().isEqualTo(message);
        }
    }

    /// Keys that do not cover the region, queues that there are not, and anything at random.
    @Test
    void whatMakesNoSenseIsRefused() {
        for (ControlMessage message :
                List.of(
                        new ControlMessage.Resolved(
                                5, Status.GOOD, 3, 0, 10_000, 4096, new int[] {1, 2}, ""),
                        new ControlMessage.Resolved(
                                5, Status.GOOD, 3, 0, -1, 4096, new int[] {1, 2}, ""),
                        new ControlMessage.Resolved(
                                5, Status.GOOD, 3, 0, 100, 0, new int[] {1, 2}, ""),
                        new ControlMessage.Offered(ActivePairs.COUNT, 5, 5, 1),
                        new ControlMessage.Offered(0, 1 << 24, 5, 1),
                        new ControlMessage.Accepted(-1, 5, Status.GOOD, 5, 5, 1, 0, 0, ""))) {
            assertThat(ControlMessage.decode(message.encode())).as("%s", message).isNull();
        }
        long seed = System.nanoTime();
        System.out.println("ControlMessageTest: seed " + seed);
        Random random = new Random(seed);
        for (int i = 0; i < 10_000; i++) {
            byte[] frame = ALL.get(random.nextInt(ALL.size())).encode();
            for (int k = random.nextInt(8); k >= 0; k--) {
                frame[random.nextInt(frame.length)] = (byte) random.nextInt();
            }
            ControlMessage unused = ControlMessage.decode(frame); // must not throw
        }
    }
}
