package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.doctor.Finding.Severity;
import io.telpher.internal.ffi.cuda.NvmlDevices;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.Availability;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Shows the checks for GPUs a machine with two of them, and its faults.
class GpuChecksTest extends WrittenHost {
    private static final String FIRST = "0000:18:00.0";
    private static final String SECOND = "0000:19:00.0";

    @BeforeEach
    void machine() throws IOException {
        pci(FIRST, "0x030200", "0x10de", new byte[64]);
        pci(SECOND, "0x030200", "0x10de", new byte[64]);
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
        assertThat(examine(new GpusCheck()))
                .anyMatch(f -> f.remedy().contains("nvidia-smi -i " + FIRST + " -mig 0"));
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

    /// The fabric manager has died, say: nothing else tells where the fabric has no record.
    @Test
    void linksThatAreAllDownAreTold() throws IOException {
        show(unlinked("NVIDIA A100-SXM4-80GB", false));
        assertThat(onlyWrong(new NvLinkCheck()).summary()).contains("all 2 NVLinks are down");
        show(unlinked("NVIDIA A100-SXM4-80GB", true));
        assertThat(wrong(examine(new NvLinkCheck()))).as("divided").isEmpty();

        show(unlinked("NVIDIA H200", false));
        assertThat(onlyWrong(new NvLinkCheck()).summary()).contains("all 2 NVLinks are down");

        GpuState card = unlinked("NVIDIA H100 PCIe", false);
        show(card);
        assertThat(wrong(examine(new NvLinkCheck()))).as("a card without a bridge").isEmpty();
        GpuState linked = gpu(16, 128L << 30, List.of(), Map.of(), null);
        probes.gpus = new Probes.Gpus(probes.gpus.software(), List.of(card, linked), List.of());
        assertThat(onlyWrong(new NvLinkCheck()).remedy()).contains("nvidia-fabricmanager");
        show(card);
        pci("0000:c0:00.0", "0x068000", "0x10de", new byte[64]);
        assertThat(onlyWrong(new NvLinkCheck()).summary()).contains("all 2 NVLinks are down");
    }

    private static GpuState unlinked(String name, boolean mig) {
        return new GpuState(
                "GPU0",
                name,
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
                128L << 30,
                80L << 30,
                mig,
                null,
                0,
                0);
    }

    @Test
    void aSeparatePidNamespaceMattersWhereThereAreGpus() throws IOException {
        Files.createSymbolicLink(at("/proc/self/ns/pid"), Path.of("pid:[4026532000]"));
        assertThat(wrong(examine(new NamespacesCheck()))).isEmpty();
        show(gpu(16, 128L << 30, List.of(), Map.of(), null));
        assertThat(onlyWrong(new NamespacesCheck()))
                .matches(f -> f.summary().contains("CUDA IPC"))
                .matches(f -> f.remedy().contains("--pid=host"));
    }

    @Test
    void whatTrialsHaveBroughtIsToldWithTheFileToRemove() {
        probes.trials =
                List.of(
                        new Probes.Trial("a", "b", "/cache/peers-1-a-b.probe", true, "good"),
                        new Probes.Trial("a", "c", "/cache/peers-1-a-c.probe", false, "7 is 8"));
        Finding bad = onlyWrong(new TrialsCheck());
        assertThat(bad.summary()).startsWith("a and c do not copy to each other");
        assertThat(bad.evidence()).isEqualTo("/cache/peers-1-a-c.probe = 7 is 8");
        assertThat(bad.remedy()).contains("rm '/cache/peers-1-a-c.probe'", "run already");
        Finding good = examine(new TrialsCheck()).getFirst();
        assertThat(DoctorCommand.text(good, false)).doesNotContain("remedy");
        assertThat(DoctorCommand.text(good, true))
                .contains("remedy: rm '/cache/peers-1-a-b.probe'");
        assertThat(good.fields()).containsEntry("remedy", good.remedy());
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
                .anyMatch(f -> f.summary().contains("no fabric handles"));
    }

    @Test
    void whetherRdmaCouldReachGpusIsToldAndThatTelpherStages() throws IOException {
        show(gpu(16, 128L << 30, List.of(), Map.of(), null));
        assertThat(examine(new GpuDirectCheck()).getFirst().summary()).startsWith("not needed");
        Files.createDirectories(at("/sys/class/infiniband/mlx5_0"));
        assertGpuDirect("cannot reach memory of GPUs");
        Files.createDirectories(at("/sys/module/nvidia_peermem"));
        assertGpuDirect("could reach memory of GPUs by nvidia_peermem");
    }

    /// Whatever the machine has, there is nothing to be done for Telpher.
    private void assertGpuDirect(String what) {
        assertThat(examine(new GpuDirectCheck()))
                .singleElement()
                .matches(f -> f.severity() == Severity.INFO)
                .matches(f -> f.summary().contains(what))
                .matches(f -> f.summary().contains("stages through page-locked memory"))
                .matches(f -> f.remedy().isEmpty());
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
}
