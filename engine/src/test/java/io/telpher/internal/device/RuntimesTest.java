package io.telpher.internal.device;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Device;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class RuntimesTest {
    private static final Device THERE = device(9);
    private static final List<Device> HERE = List.of(device(0), device(1), device(2));

    private static Device device(int number) {
        return new Device("cuda", new UUID(1, number), "0000:0%d:00.0".formatted(number), "GPU");
    }

    private static Device copier(List<Device> visible, List<Device> reaching, List<Device> open) {
        return Runtimes.copierFor(THERE, visible, reaching::contains, open::contains);
    }

    @Test
    void theOneThatReachesThePeersCopiesForTheHost() {
        assertThat(copier(HERE, HERE, List.of())).isEqualTo(device(0));
        assertThat(copier(HERE, List.of(device(1), device(2)), HERE)).isEqualTo(device(1));
        assertThat(copier(HERE, HERE, List.of(device(2)))).as("in use").isEqualTo(device(2));
        assertThat(copier(HERE, List.of(device(1)), List.of(device(2)))).isEqualTo(device(1));
    }

    @Test
    void thePeersOwnComesFirstAndWithoutAnyTheFirstSaysWhy() {
        assertThat(copier(List.of(device(0), THERE), List.of(device(0)), List.of()))
                .isEqualTo(THERE);
        assertThat(copier(HERE, List.of(), List.of(device(2)))).isEqualTo(device(0));
        assertThat(copier(List.of(), List.of(), List.of())).isNull();
    }
}
