package io.telpher.internal.ffi.linux;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class GenericNetlinkTest {
    private static final int CTRL_CMD_GETPOLICY = 10;

    @Test
    void theCommandsOfAFamilyAreTold() {
        assertThat(GenericNetlink.commands("nlctrl"))
                .contains(GenericNetlink.CTRL_CMD_GETFAMILY, CTRL_CMD_GETPOLICY)
                .doesNotContain(-1);
        assertThat(GenericNetlink.commands("telpher")).isEmpty();
    }

    @Test
    void theKernelAnswersForADevice() {
        // That it looks for the name shows that it has understood the question.
        assertThat(GenericNetlink.dataSplit("telpher-none")).isEqualTo(-Errno.ENODEV);
        assertThat(GenericNetlink.dataSplit("lo")).as("has no rings").isEqualTo(-Errno.EOPNOTSUPP);
    }
}
