package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class ClocksTest {
    @Test
    void theClocksStateCanBeRead() {
        // Where a sandbox refuses the call, the reason comes back and not a state.
        assertThat(Clocks.adjtimex())
                .satisfiesAnyOf(
                        state -> assertThat(state).isBetween(0, Clocks.TIME_ERROR),
                        state -> assertThat(state).isIn(-Errno.EPERM, -Errno.ENOSYS));
    }
}
