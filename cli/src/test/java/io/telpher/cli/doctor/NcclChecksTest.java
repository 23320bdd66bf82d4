package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// What NCCL would find and read here.
class NcclChecksTest extends WrittenHost {
    @Test
    void librariesOfNcclAreFoundWithTheirVersions() throws IOException {
        assertThat(examine(new NcclCheck()))
                .singleElement()
                .matches(f -> f.summary().startsWith("no"));
        write("/usr/lib/x86_64-linux-gnu/libnccl.so.2.19.3", "");
        Files.createSymbolicLink(
                at("/usr/lib/x86_64-linux-gnu/libnccl.so.2"), Path.of("libnccl.so.2.19.3"));
        String packages = "/opt/venv/lib/python3.12/site-packages";
        environment.put("VIRTUAL_ENV", "/opt/venv");
        write(packages + "/nvidia/nccl/lib/libnccl.so.2", "");
        write(packages + "/nvidia_nccl_cu12-2.27.3.dist-info/METADATA", "");
        assertThat(examine(new NcclCheck()))
                .extracting(Finding::summary)
                .containsExactly("NCCL 2.19.3", "NCCL 2.27.3");
    }

    @ParameterizedTest
    @CsvSource({
        "NCCL_P2P_DISABL, 1, did you mean NCCL_P2P_DISABLE?",
        "NCCL_P2P_DISABLE, true, NCCL reads 0",
        "NCCL_P2P_DISABLE, 2, only 1 disables",
        "NCCL_P2P_LEVEL, pix, capital letters",
        "NCCL_P2P_LEVEL, NEAR, is no path type",
        "NCCL_P2P_READ_ENABLE, -1, forces reads",
        "NCCL_CUMEM_ENABLE, 3, are known",
        "NCCL_IB_TIMEOUT, 40, not in 0 to 31",
        "NCCL_SOCKET_IFNAME, ib0, names no interface",
        "NCCL_IB_ADDR_RANGE, 10.0.0.1, a subnet is needed",
        "NCCL_IB_HCA, =mlx5_0:1, names no RDMA device",
    })
    void aWrongVariableIsTold(String variable, String value, String said) {
        environment.put(variable, value);
        Finding finding = onlyWrong(new NcclSettingsCheck());
        assertThat(finding.evidence()).contains(variable + "=" + value + " (environment)");
        assertThat(finding.summary() + " " + finding.remedy()).contains(said);
    }

    @ParameterizedTest
    @CsvSource({
        "NCCL_P2P_LEVEL, PXB",
        "NCCL_P2P_LEVEL, 2",
        "NCCL_P2P_READ_ENABLE, -2",
        "NCCL_BUFFSIZE, 0x400000",
        "NCCL_SOCKET_IFNAME, ^docker",
        "NCCL_IB_ADDR_RANGE, 10.0.0.0/8",
        "NCCL_DEBUG, INFO",
        "NCCL_OUR_PLUGIN_SETTING, 5",
    })
    void aRightVariableIsNot(String variable, String value) {
        environment.put(variable, value);
        List<Finding> all = examine(new NcclSettingsCheck());
        assertThat(wrong(all)).isEmpty();
        boolean known = !variable.equals("NCCL_OUR_PLUGIN_SETTING");
        assertThat(all.stream().anyMatch(f -> f.summary().contains("a plugin")))
                .isNotEqualTo(known);
    }

    @Test
    void filesOfNcclCount() throws IOException {
        environment.put("HOME", "/root");
        environment.put("NCCL_P2P_DISABLE", "1");
        write("/root/.nccl.conf", "NCCL_P2P_DISABLE=2\nNCCL_IB_TC=106\n");
        write("/etc/nccl.conf", "# a comment\nNCCL_IB_TC=300\nNCCL_IB_SL=16\n");
        List<Finding> all = examine(new NcclSettingsCheck());
        assertThat(all.getFirst().evidence())
                .contains(
                        "NCCL_P2P_DISABLE=1 (environment)",
                        "NCCL_IB_TC=106 (/root/.nccl.conf)",
                        "NCCL_IB_SL=16 (/etc/nccl.conf)");
        assertThat(wrong(all)).singleElement().matches(f -> f.summary().startsWith("NCCL_IB_SL"));
    }
}
