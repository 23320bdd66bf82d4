package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.doctor.Finding.Severity;
import io.telpher.internal.ffi.cuda.NvmlDevices;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.Availability;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Shows the checks for GPUs a machine with two of them behind a PCIe switch, and its faults.
class GpuChecksTest {
    private static final String SWITCH = "0000:16:00.0";
    private static final String FIRST = "0000:18:00.0";
    private static final String SECOND = "0000:19:00.0";

    @TempDir Path folder;

    private final FakeProbes probes = new FakeProbes();
    private final Map<String, String> environment = new HashMap<>();
    private List<Nic> nics = List.of();

    @BeforeEach
    void machine() throws IOException {
        pci(SWITCH, "0x060400", "0x1000", bridge(0x17, 0x1f, 0));
        pci(FIRST, "0x030200", "0x10de", gpu(true));
        pci(SECOND, "0x030200", "0x10de", gpu(false));
        pci("0000:40:00.0", "0x060400", "0x8086", bridge(0x41, 0x42, 0x1d));
    }

    private void pci(String address, String kind, String vendor, byte[] config) throws IOException {
        write("/sys/bus/pci/devices/" + address + "/class", kind + "\n");
        write("/sys/bus/pci/devices/" + address + "/vendor", vendor + "\n");
        Files.write(at("/sys/bus/pci/devices/" + address + "/config"), config);
    }

    private Path at(String path) throws IOException {
        Path file = folder.resolve(path.substring(1));
        Files.createDirectories(file.getParent());
        return file;
    }

    private void write(String path, String text) throws IOException {
        Files.writeString(at(path), text);
    }

    /// A vendor's capability first, then Access Control Services.
    private static byte[] bridge(int secondary, int subordinate, int control) {
        byte[] config = new byte[4096];
        config[0x19] = (byte) secondary;
        config[0x1a] = (byte) subordinate;
        capability(config, 0x100, 0x000b, 0x148);
        capability(config, 0x148, 0x000d, 0);
        config[0x14e] = (byte) control;
        return config;
    }

    private static byte[] gpu(boolean ats) {
        byte[] config = new byte[4096];
        capability(config, 0x100, 0x000f, 0);
        config[0x107] = (byte) (ats ? 0x80 : 0);
        return config;
    }

    private static void capability(byte[] config, int at, int id, int next) {
        int header = id | 1 << 16 | next << 20;
        for (int i = 0; i < 4; i++) {
            config[at + i] = (byte) (header >>> (8 * i));
        }
    }

    private List<Finding> examine(Check check) {
        List<Finding> found =
                check.examine(new Host(folder, Map.copyOf(environment), nics, probes));
        assertThat(found).isNotEmpty().allMatch(f -> f.check().equals(check.name()));
        return found;
    }

    private static List<Finding> wrong(List<Finding> all) {
        return all.stream().filter(f -> f.severity() != Severity.INFO).toList();
    }

    private Finding onlyWrong(Check check) {
        List<Finding> wrong = wrong(examine(check));
        assertThat(wrong).hasSize(1);
        assertThat(wrong.getFirst().remedy()).isNotBlank();
        assertThat(wrong.getFirst().verify()).isNotBlank();
        return wrong.getFirst();
    }

    // --- the bus --------------------------------------------------------------------------------

    @Test
    void aSwitchThatRedirectsIsToldWithTheCommand() throws IOException {
        assertThat(wrong(examine(new PciCheck()))).isEmpty();
        pci(SWITCH, "0x060400", "0x1000", bridge(0x17, 0x1f, 0x1d));
        Finding finding = onlyWrong(new PciCheck());
        assertThat(finding.summary()).contains("ACS of 1 bridges");
        assertThat(finding.evidence())
                .contains(
                        SWITCH
                                + "/config: ACSCtl = 0x001d (SrcValid ReqRedir CmpltRedir"
                                + " UpstreamFwd)")
                .doesNotContain("0000:40:00.0");
        assertThat(finding.remedy()).startsWith("setpci -s " + SWITCH + " ECAP_ACS+0x6.w=0000 ");
        assertThat(examine(new PciCheck()))
                .filteredOn(f -> f.summary().startsWith("ATS"))
                .singleElement()
                .satisfies(
                        f -> assertThat(f.summary()).isEqualTo("ATS is on at 1 of 2 GPUs"),
                        f -> assertThat(f.evidence()).contains(FIRST + ": on", SECOND + ": off"));
    }

    @Test
    void withoutPrivilegesTheBusSaysThatItIsHidden() throws IOException {
        byte[] header = new byte[64];
        header[0x19] = 0x17;
        header[0x1a] = 0x1f;
        pci(SWITCH, "0x060400", "0x1000", header);
        assertThat(wrong(examine(new PciCheck()))).isEmpty();
        assertThat(examine(new PciCheck()))
                .anyMatch(f -> f.summary().contains("run it as root"))
                .anyMatch(f -> f.evidence().contains(SWITCH + "/config: 64 bytes"));
    }

    @Test
    void whatNoPeerSuffersFromIsNoWarning() throws IOException {
        pci(SWITCH, "0x060400", "0x1000", bridge(0x17, 0x1f, 0x1d));
        Files.delete(at("/sys/bus/pci/devices/" + SECOND + "/class"));
        write("/proc/cpuinfo", "flags\t: fpu hypervisor lahf_lm\n");
        assertThat(examine(new PciCheck()))
                .extracting(f -> f.severity().word() + " " + f.summary())
                .anyMatch(s -> s.startsWith("info ACS is on, but there is no second GPU"))
                .anyMatch(s -> s.startsWith("info a virtual machine"));

        Files.createDirectories(at("/sys/class/iommu/dmar0"));
        assertThat(examine(new IommuCheck()).getFirst().summary())
                .isEqualTo("the IOMMU does not translate for GPUs");
        write("/sys/bus/pci/devices/" + FIRST + "/iommu_group/type", "DMA\n");
        assertThat(examine(new IommuCheck()).getFirst())
                .matches(f -> f.severity() == Severity.INFO)
                .matches(f -> f.summary().contains("translates for the only GPU"));
    }

    @Test
    void capabilitiesThatLeadInACircleEnd() throws IOException {
        byte[] config = bridge(0x17, 0x1f, 0);
        capability(config, 0x148, 0x0001, 0x100);
        pci(SWITCH, "0x060400", "0x1000", config);
        assertThat(examine(new PciCheck())).anyMatch(f -> f.evidence().contains("no ACS"));
    }

    @Test
    void aTranslatingIommuIsTold() throws IOException {
        assertThat(wrong(examine(new IommuCheck()))).isEmpty();
        write("/proc/cmdline", "root=/dev/sda1 intel_iommu=on quiet");
        Files.createDirectories(at("/sys/class/iommu/dmar0"));
        for (String gpu : List.of(FIRST, SECOND)) {
            write("/sys/bus/pci/devices/" + gpu + "/iommu_group/type", "DMA-FQ\n");
        }
        Finding finding = onlyWrong(new IommuCheck());
        assertThat(finding.evidence())
                .contains("dmar0", "intel_iommu=on", FIRST + "/iommu_group/type = DMA-FQ");
        assertThat(finding.remedy()).contains("iommu=pt");
        for (String gpu : List.of(FIRST, SECOND)) {
            write("/sys/bus/pci/devices/" + gpu + "/iommu_group/type", "identity\n");
        }
        assertThat(wrong(examine(new IommuCheck()))).isEmpty();
    }

    // --- the driver -----------------------------------------------------------------------------

    @Test
    void whatIsMissingMattersWhereThereIsAGpu() throws IOException {
        write("/proc/driver/nvidia/version", "NVRM version: 580.82");
        Finding finding = onlyWrong(new GpuDriverCheck());
        assertThat(finding.summary()).startsWith("CUDA driver is missing");
        assertThat(finding.evidence()).isEqualTo("no driver");
        Host none = new Host(folder.resolve("nothing"), Map.of(), List.of(), probes);
        assertThat(new GpuDriverCheck().examine(none))
                .singleElement()
                .matches(f -> f.severity() == Severity.INFO);
    }

    @Test
    void aGpuWithoutAKernelModuleIsTold() {
        probes.gpus =
                new Probes.Gpus(
                        Map.of(GpuState.CUDA, new Availability.Available("CUDA 13.0")),
                        List.of(),
                        List.of());
        assertThat(onlyWrong(new GpuDriverCheck()).remedy()).contains("modprobe nvidia");
    }

    @Test
    void aDeviceThatTheControlGroupRefusesIsTold() throws IOException {
        for (String file : List.of("nvidiactl", "nvidia0", "nvidia-uvm")) {
            write("/dev/" + file, "");
        }
        write("/proc/driver/nvidia/gpus/" + FIRST + "/information", "Device Minor: \t 0\n");
        write("/proc/driver/nvidia/gpus/" + SECOND + "/information", "Device Minor: \t 1\n");
        List<Finding> all = examine(new GpuDevicesCheck());
        assertThat(wrong(all)).isEmpty();
        assertThat(all).anyMatch(f -> f.summary().startsWith("1 of 2 GPUs of the machine"));

        probes.refusedFiles.put("/dev/nvidia0", Errno.EPERM);
        Finding finding = onlyWrong(new GpuDevicesCheck());
        assertThat(finding.evidence()).contains("open(/dev/nvidia0): EPERM");
        assertThat(finding.remedy()).contains("--gpus", "daemon-reload");

        Files.delete(at("/dev/nvidia-uvm"));
        assertThat(wrong(examine(new GpuDevicesCheck())))
                .extracting(Finding::remedy)
                .anyMatch(remedy -> remedy.contains("modprobe nvidia_uvm"));
    }

    @Test
    void gpusThatAreNotHandedInAreTold() throws IOException {
        write("/proc/driver/nvidia/gpus/" + FIRST + "/information", "Device Minor: \t 0\n");
        assertThat(onlyWrong(new GpuDevicesCheck()))
                .satisfies(
                        f -> assertThat(f.summary()).contains("1 GPUs, none of them in /dev"),
                        f -> assertThat(f.evidence()).contains(FIRST),
                        f -> assertThat(f.remedy()).contains("--gpus all"));

        for (String file : List.of("nvidiactl", "nvidia0", "nvidia-uvm")) {
            write("/dev/" + file, "");
        }
        assertThat(examine(new GpuDevicesCheck()))
                .extracting(Finding::summary)
                .containsExactly("all can be opened");
        probes.refusedFiles.put("/dev/nvidiactl", Errno.EACCES);
        assertThat(onlyWrong(new GpuDevicesCheck()).remedy()).contains("chmod 666 /dev/nvidiactl");
        probes.refusedFiles.put("/dev/nvidiactl", Errno.EIO);
        assertThat(onlyWrong(new GpuDevicesCheck()).remedy()).contains("dmesg");
    }

    @Test
    void whatTheDriversHaveIsTold() throws IOException {
        write("/proc/driver/nvidia/version", "NVRM version: 580.82");
        probes.gpus =
                new Probes.Gpus(
                        Map.of(
                                GpuState.NVML,
                                new Availability.Available(
                                        "NVML 580.82, /usr/lib/libnvidia-ml.so")),
                        List.of(),
                        List.of("GPU3: GPU is lost"));
        assertThat(onlyWrong(new GpuDriverCheck()).evidence()).isEqualTo("GPU3: GPU is lost");
        assertThat(examine(new GpuDriverCheck()))
                .extracting(f -> f.summary() + " | " + f.evidence())
                .contains(
                        "the kernel module is loaded | /proc/driver/nvidia/version = NVRM version:"
                                + " 580.82",
                        "NVML: works | NVML 580.82, /usr/lib/libnvidia-ml.so");
    }

    // --- GPUs and their links -------------------------------------------------------------------

    private static GpuState gpu(
            int width,
            long bar1,
            List<Integer> down,
            Map<String, Long> errors,
            NvmlDevices.@Nullable Fabric fabric) {
        return gpu(width, bar1, down, errors, fabric, 0);
    }

    private static GpuState gpu(
            int width,
            long bar1,
            List<Integer> down,
            Map<String, Long> errors,
            NvmlDevices.@Nullable Fabric fabric,
            int dmaBuf) {
        return new GpuState(
                "GPU0", "H100", "GPU-1", FIRST, 1, 5, width, 16, 16, down, errors, true, bar1,
                80L << 30, false, fabric, dmaBuf, 1);
    }

    private void show(GpuState gpu) {
        probes.gpus =
                new Probes.Gpus(
                        Map.of(GpuState.NVML, new Availability.Available("NVML")),
                        List.of(gpu),
                        List.of());
    }

    @Test
    void lanesAndLinksThatAreMissingAreTold() {
        show(gpu(16, 128L << 30, List.of(), Map.of(), null));
        assertThat(examine(new GpusCheck()))
                .extracting(Finding::summary)
                .anyMatch(s -> s.contains("Gen1 x16 now, Gen5 at most: idle links slow down"));
        assertThat(wrong(examine(new GpusCheck()))).isEmpty();
        assertThat(wrong(examine(new NvLinkCheck()))).isEmpty();

        probes.loaded = new Probes.Loaded(null, 5, 16);
        assertThat(examine(new GpusCheck()).getFirst())
                .matches(f -> f.severity() == Severity.INFO)
                .matches(
                        f -> f.summary().contains("PCIe Gen5 x16 under load, which is its maximum"))
                .matches(
                        f ->
                                f.evidence()
                                        .endsWith(
                                                "generation 1 of 5, width 16 of 16; under load:"
                                                        + " generation 5, width 16"));
        probes.loaded = new Probes.Loaded(null, 3, 16);
        assertThat(onlyWrong(new GpusCheck()))
                .matches(f -> f.summary().contains("PCIe Gen3 under load, though GPU and slot"))
                .matches(f -> f.remedy().contains("Auto or Gen5"));
        probes.loaded = new Probes.Loaded(null, 5, 8);
        assertThat(onlyWrong(new GpusCheck()).summary())
                .contains("uses 8 of the 16 lanes that it could, under load too");
        probes.loaded = new Probes.Loaded("no driver", 0, 0);

        show(gpu(4, 256L << 20, List.of(3, 7), Map.of("link 1 replay", 12L), null));
        assertThat(onlyWrong(new GpusCheck()).summary()).contains("uses 4 of the 16 lanes");
        assertThat(wrong(examine(new NvLinkCheck())))
                .extracting(Finding::evidence)
                .anyMatch(e -> e.contains("16 up, down: [3, 7]"))
                .anyMatch(e -> e.contains("link 1 replay: 12"));
    }

    @Test
    void windowsInstancesAndLinksThatAreNotThereAreTold() {
        show(
                new GpuState(
                        "GPU0",
                        "L4",
                        "GPU-1",
                        FIRST,
                        4,
                        4,
                        16,
                        16,
                        0,
                        List.of(0, 1),
                        Map.of(),
                        true,
                        256L << 20,
                        24L << 30,
                        true,
                        null,
                        0,
                        0));
        assertThat(onlyWrong(new GpusCheck()))
                .satisfies(
                        f -> assertThat(f.summary()).contains("shows 256 MiB of its memory"),
                        f -> assertThat(f.evidence()).contains("256 MiB; memory: 24 GiB"),
                        f -> assertThat(f.remedy()).contains("Resizable BAR"));
        assertThat(examine(new GpusCheck()))
                .extracting(Finding::summary)
                .anyMatch(s -> s.contains("PCIe Gen4 x16, which is its maximum"))
                .anyMatch(s -> s.startsWith("GPU0 is divided (MIG)"));
        assertThat(examine(new NvLinkCheck()))
                .extracting(Finding::summary)
                .containsExactly(
                        "GPU0: none of its NVLinks is connected (a bridge or NVSwitch is missing)",
                        "GPU0: no errors on its NVLinks");

        show(
                new GpuState(
                        "GPU0", "?", "GPU-1", FIRST, 0, 0, 0, 0, 2, List.of(), Map.of(), false, 0,
                        0, false, null, -1, -1));
        assertThat(examine(new GpusCheck()))
                .extracting(Finding::summary)
                .anyMatch(s -> s.contains("its PCIe link is not known"))
                .anyMatch(s -> s.contains("(BAR1) is not known"));
        assertThat(examine(new NvLinkCheck()))
                .extracting(Finding::summary)
                .anyMatch(s -> s.contains("NVML does not tell the errors"));
    }

    @Test
    void aFabricThatIsNotReadyIsTold() {
        show(
                gpu(
                        16,
                        128L << 30,
                        List.of(),
                        Map.of(),
                        new NvmlDevices.Fabric(
                                "00", 0, 0, NvmlDevices.NVML_GPU_FABRIC_STATE_IN_PROGRESS, 0)));
        assertThat(onlyWrong(new NvLinkCheck()).remedy()).contains("nvidia-fabricmanager");
        assertThat(examine(new NvLinkCheck()))
                .anyMatch(f -> f.summary().startsWith("no IMEX channel"));
    }

    @Test
    void rdmaWithoutAWayToGpusIsTold() throws IOException {
        show(gpu(16, 128L << 30, List.of(), Map.of(), null));
        assertThat(wrong(examine(new GpuDirectCheck()))).isEmpty();
        Files.createDirectories(at("/sys/class/infiniband/mlx5_0"));
        assertThat(onlyWrong(new GpuDirectCheck()).remedy()).contains("modprobe nvidia_peermem");
        Files.createDirectories(at("/sys/module/nvidia_peermem"));
        assertThat(wrong(examine(new GpuDirectCheck()))).isEmpty();
    }

    @Test
    void whatTcpIntoGpusLacksIsTold() throws IOException {
        assertThat(examine(new DeviceTcpCheck()))
                .singleElement()
                .matches(f -> f.summary().startsWith("not needed"));

        show(gpu(16, 128L << 30, List.of(), Map.of(), null));
        Finding none = examine(new DeviceTcpCheck()).getFirst();
        assertThat(none.summary())
                .contains("no kernel that binds queues", "Linux 6.12")
                .contains("no NIC that could split headers", "no GPU whose memory can be a dma-buf")
                .contains("stages");
        assertThat(none.evidence()).contains("has no bind-rx", "no NIC", "GPU0 no");

        write("/sys/class/net/eth0/device/vendor", "0x1ae0");
        Files.createSymbolicLink(
                at("/sys/class/net/eth0/device/driver"), Path.of("../../bus/pci/drivers/gve"));
        nics = List.of(new Nic("eth0", false, List.of()), new Nic("docker0", false, List.of()));
        probes.bindsQueues = true;
        probes.headerSplit.put("eth0", "off");
        Finding off = examine(new DeviceTcpCheck()).getFirst();
        assertThat(off.summary())
                .contains("ethtool -G eth0 tcp-data-split on")
                .doesNotContain("Linux 6.12");
        assertThat(off.evidence())
                .contains("has bind-rx; eth0: driver gve, tcp-data-split off")
                .doesNotContain("docker0");

        probes.headerSplit.put("eth0", "on");
        GpuState shareable = gpu(16, 128L << 30, List.of(), Map.of(), null, 1);
        show(shareable);
        assertThat(examine(new DeviceTcpCheck()))
                .singleElement()
                .matches(f -> f.summary().startsWith("TCP into memory of GPUs may be possible"));
    }

    // --- NCCL -----------------------------------------------------------------------------------

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
