package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.doctor.Finding.Severity;
import io.telpher.internal.ffi.linux.Clocks;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.Availability;
import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Shows the checks machines that are broken in various ways.
class ChecksTest {
    @TempDir Path folder;

    private final FakeProbes probes = new FakeProbes();

    private List<Finding> examine(String machine) throws IOException {
        List<Finding> all = new ArrayList<>();
        Doctor.examine(
                RecordedHost.load(machine, folder, probes), Doctor.checks(null, null), all::add);
        return all;
    }

    /// @return what is wrong according to one check
    private static List<Finding> wrong(List<Finding> all, String check) {
        return all.stream()
                .filter(f -> f.check().equals(check) && f.severity() != Severity.INFO)
                .toList();
    }

    private static Finding onlyWrong(List<Finding> all, String check) {
        List<Finding> wrong = wrong(all, check);
        assertThat(wrong).as("what is wrong by %s of %s", check, all).hasSize(1);
        return wrong.getFirst();
    }

    @Test
    void aSoundMachineHasNoWarnings() throws IOException {
        List<Finding> all = examine("sound");
        assertThat(all).allMatch(f -> f.severity() == Severity.INFO);
        assertThat(all)
                .extracting(f -> f.check() + ": " + f.summary())
                .containsExactly(
                        "kernel: has everything that Telpher uses",
                        "java: native access is enabled for the engine",
                        "settings: all defaults",
                        "cores: 32 can be used",
                        "cpu-quota: no quota: spinning takes nothing from the work",
                        "clock: source: tsc",
                        "clock: follows another clock",
                        "open-files: enough",
                        "memlock: shared memory and TCP lock none, and what NVIDIA's driver locks"
                                + " does not count",
                        "shared-memory: a sealed memfd can be made",
                        "shared-memory: Telpher does not use /dev/shm, whatever its size; other"
                                + " libraries do",
                        "huge-pages: 512 pages of 2 MiB are free in the pool",
                        "transparent-huge-pages: set to madvise",
                        "namespaces: pid: the machine's own",
                        "namespaces: ipc: the machine's own",
                        "namespaces: net: the machine's own",
                        "namespaces: user: the machine's own",
                        "ptrace: processes of one user reach each other's memory: path cma works",
                        "seccomp: no system call is refused",
                        "mtu: eth0: 9000 bytes",
                        "subnets: no two interfaces share a subnet",
                        "socket-buffers: the kernel's maxima are enough for this machine's links",
                        "congestion-control: cubic",
                        "rdma: there is no RDMA device: TCP carries what goes between hosts",
                        "gids: no port of an RDMA device is active",
                        "rdma-mtu: no port of an RDMA device can be asked",
                        "rdma-routes: no RoCE port with an address is active",
                        "rdma-errors: no port of an RDMA device is active",
                        "pci: no GPU on the PCI bus",
                        "iommu: no IOMMU is in use",
                        "pcie: no NIC, and no switch above a GPU, uses less of its link than it"
                                + " could",
                        "gpu-driver: CUDA driver: not here",
                        "gpu-devices: no GPU of NVIDIA in /dev",
                        "gpus: NVML shows no GPU",
                        "nvlink: no GPU",
                        "trials: no two GPUs have been tried in this boot, with this driver",
                        "gpudirect: not needed: there are no GPUs",
                        "devmem-tcp: not needed: there are no GPUs for TCP to reach",
                        "nccl: no NCCL library found: not needed, but for comparisons and the"
                                + " plugin",
                        "nccl-settings: none is set",
                        "transports: shm: works",
                        "transports: tcp: works",
                        "paths: a write between two processes of this host is one copy");
    }

    @ParameterizedTest
    @ValueSource(strings = {"sound", "container", "pod", "workstation", "locked-down"})
    void whatIsWrongComesWithEvidenceAndRemedy(String machine) throws IOException {
        List<Finding> all = examine(machine);
        for (Finding finding : all) {
            assertThat(finding.summary()).isNotBlank();
            assertThat(finding.evidence()).as(finding.summary()).isNotBlank();
            assertThat(finding.summary()).as(finding.check()).doesNotContain("check itself failed");
            if (finding.severity() != Severity.INFO) {
                assertThat(finding.remedy()).as(finding.summary()).isNotBlank();
                assertThat(finding.verify()).as(finding.summary()).isNotBlank();
            }
        }
        assertThat(all.toString()).doesNotContain("short-secret");
    }

    @Test
    void aQuotaBelowTheCoresIsTold() throws IOException {
        Finding finding = onlyWrong(examine("container"), "cpu-quota");
        assertThat(finding.severity()).isEqualTo(Severity.WARNING);
        assertThat(finding.summary()).contains("1.50 cores for 8", "spinning", "100 ms");
        assertThat(finding.evidence())
                .contains("/sys/fs/cgroup/cpu.max = 150000 100000", "nr_throttled 97");
        assertThat(finding.remedy()).contains("cpuset", "TELPHER_SPIN=0");
    }

    @Test
    void aQuotaOfAGroupAroundCounts() throws IOException {
        List<Finding> all = examine("pod");
        Finding finding = onlyWrong(all, "cpu-quota");
        assertThat(finding.summary()).contains("2.00 cores for 8");
        assertThat(finding.evidence())
                .contains("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us = 200000", "4321");
        assertThat(all)
                .filteredOn(f -> f.check().equals("shared-memory"))
                .anyMatch(f -> f.summary().contains("824 MiB are left"));
        assertThat(wrong(all, "shared-memory")).isEmpty();
    }

    @Test
    void aContainersLimitsAndNamespacesAreTold() throws IOException {
        List<Finding> all = examine("container");
        assertThat(onlyWrong(all, "shared-memory"))
                .satisfies(
                        f -> assertThat(f.summary()).contains("62 MiB are left"),
                        f -> assertThat(f.evidence()).contains("memory.max = 536870912"));
        assertThat(onlyWrong(all, "open-files").severity()).isEqualTo(Severity.WARNING);
        assertThat(wrong(all, "memlock")).isEmpty();
        assertThat(all)
                .filteredOn(f -> f.check().equals("namespaces"))
                .allMatch(f -> f.severity() == Severity.INFO)
                .allMatch(f -> f.remedy().isEmpty() == f.verify().isEmpty())
                .extracting(f -> f.summary() + "; " + f.remedy())
                .satisfiesExactly(
                        pid -> assertThat(pid).contains("separate", "no path cma", "--pid=host"),
                        ipc -> assertThat(ipc).contains("separate", "CUDA IPC", "--ipc=host"),
                        net -> assertThat(net).contains("not known", "TELPHER_SOCKET_DIRECTORY"),
                        user -> assertThat(user).contains("the machine's own"));
        assertThat(all).anyMatch(f -> f.evidence().contains("/dev/shm tmpfs shm rw,size=65536k"));
    }

    @Test
    void aMemfdThatIsRefusedIsExplained() throws IOException {
        probes.sealedMemory = new Probes.Result("memfd_create", Errno.EACCES);
        Finding byPolicy = onlyWrong(examine("locked-down"), "shared-memory");
        assertThat(byPolicy.evidence())
                .contains("memfd_create: EACCES", "/proc/sys/vm/memfd_noexec = 2");
        assertThat(byPolicy.remedy()).contains("vm.memfd_noexec");
    }

    @Test
    void anOldKernelAndWrongSettingsAreTold() throws IOException {
        List<Finding> all = examine("locked-down");
        assertThat(onlyWrong(all, "kernel").evidence()).contains("4.19.0-27-amd64");
        assertThat(onlyWrong(all, "settings"))
                .satisfies(
                        f -> assertThat(f.severity()).isEqualTo(Severity.ERROR),
                        f ->
                                assertThat(f.evidence())
                                        .containsAnyOf("TELPHER_PORT=seven", "SECRET"));
    }

    @Test
    void misspeltVariablesGetAProposal() throws IOException {
        assertThat(wrong(examine("workstation"), "settings"))
                .extracting(Finding::remedy)
                .satisfiesExactly(
                        near -> assertThat(near).isEqualTo("did you mean TELPHER_LANES?"),
                        far -> assertThat(far).contains("telpher config"));
    }

    @Test
    void yamaIsFoundByTheWayBack() throws IOException {
        probes.neighbour = FakeProbes.neighbour(0, 0, Errno.EPERM);
        List<Finding> all = examine("workstation");
        Finding finding = onlyWrong(all, "ptrace");
        assertThat(finding.evidence())
                .contains(
                        "/proc/sys/kernel/yama/ptrace_scope = 1",
                        "into a child, process_vm_writev: works",
                        "from the child, process_vm_writev: EPERM");
        assertThat(finding.remedy()).contains("kernel.yama.ptrace_scope=0", "SYS_PTRACE");
        assertThat(wrong(all, "seccomp")).isEmpty();
    }

    @Test
    void aFilterIsFoundByTheRefusal() throws IOException {
        probes.neighbour = FakeProbes.neighbour(Errno.EPERM, Errno.ENOSYS, Errno.EPERM);
        List<Finding> all = examine("container");
        assertThat(wrong(all, "seccomp"))
                .extracting(Finding::summary)
                .satisfiesExactly(
                        write -> assertThat(write).startsWith("process_vm_writev is refused"),
                        copy -> assertThat(copy).startsWith("pidfd_getfd is refused"));
        assertThat(onlyWrong(all, "ptrace").remedy()).contains("seccomp");
    }

    @Test
    void aFilterThatLetsEverythingThroughIsGood() throws IOException {
        assertThat(wrong(examine("container"), "seccomp")).isEmpty();
    }

    @Test
    void noSecondProcessIsTold() throws IOException {
        probes.neighbour = Probes.Neighbour.missing("the second process ended with exit code 1");
        probes.meeting = new Probes.Meeting("the second process ended", "", "");
        List<Finding> all = examine("sound");
        assertThat(onlyWrong(all, "ptrace").evidence()).contains("exit code 1");
        assertThat(onlyWrong(all, "paths").severity()).isEqualTo(Severity.ERROR);
    }

    @Test
    void aProcessThatIsNotDumpableIsTold() throws IOException {
        probes.dumpable = 2;
        assertThat(onlyWrong(examine("sound"), "ptrace"))
                .satisfies(
                        f -> assertThat(f.summary()).contains("not dumpable"),
                        f -> assertThat(f.evidence()).contains("PR_GET_DUMPABLE) = 2"));
    }

    @Test
    void twoCablesInOneSubnetAreTold() throws IOException {
        Finding finding = onlyWrong(examine("workstation"), "subnets");
        assertThat(finding.evidence())
                .contains(
                        "qsfp0 and qsfp1: 10.1.0.2/16 and 10.1.7.2/24",
                        "conf/qsfp0/arp_ignore = 0",
                        "conf/all/rp_filter = 1")
                .doesNotContain("qsfp1/arp_ignore", "qsfp1/rp_filter");
        assertThat(finding.remedy())
                .contains(
                        "net.ipv4.conf.qsfp0.arp_ignore=1",
                        "net.ipv4.conf.qsfp0.arp_announce=2",
                        "net.ipv4.conf.qsfp1.rp_filter=2");
    }

    @Test
    void networkSettingsAreHeldAgainstTheLinks() throws IOException {
        probes.sizedRoutes =
                List.of(
                        new Probes.Route("10.1.0.0/16", "qsfp0", 1450),
                        new Probes.Route("default", "qsfp1", 1500));
        List<Finding> all = examine("workstation");
        assertThat(wrong(all, "socket-buffers"))
                .extracting(Finding::evidence)
                .satisfiesExactly(
                        receive -> assertThat(receive).contains("tcp_rmem = 4096 131072 6291456"),
                        send -> assertThat(send).contains("tcp_wmem"),
                        selective -> assertThat(selective).contains("tcp_sack = 0"));
        assertThat(onlyWrong(all, "congestion-control").remedy()).contains("bbr cubic reno");
        assertThat(onlyWrong(all, "mtu").summary()).contains("wg0", "1200");
        assertThat(all)
                .filteredOn(f -> f.check().equals("mtu"))
                .extracting(Finding::summary)
                .anyMatch(s -> s.contains("qsfp1 is fast"))
                .anyMatch(s -> s.contains("the route to 10.1.0.0/16 takes packets of 1450 bytes"))
                .noneMatch(s -> s.contains("default"));
    }

    @Test
    void aNamespaceWithoutAnyInterfaceIsTold() throws IOException {
        // The recorded pod has none.
        assertThat(onlyWrong(examine("pod"), "mtu").remedy()).contains("ip link set lo up");
    }

    @Test
    void limitsOfTheProcessAreTold() throws IOException {
        List<Finding> all = examine("workstation");
        assertThat(onlyWrong(all, "open-files").severity()).isEqualTo(Severity.ERROR);
        assertThat(onlyWrong(all, "memlock").evidence()).contains("67108864", "mlx5_0");
        assertThat(onlyWrong(all, "cores").evidence()).contains("Cpus_allowed_list = 3");
        assertThat(onlyWrong(all, "clock").evidence()).contains("hpet");
        assertThat(onlyWrong(all, "huge-pages").summary()).contains("TELPHER_HUGE_PAGES");
        assertThat(onlyWrong(all, "transparent-huge-pages").evidence()).contains("[always]");
    }

    private void write(Map<String, String> files) throws IOException {
        for (Map.Entry<String, String> file : files.entrySet()) {
            Path path = folder.resolve(file.getKey().substring(1));
            Files.createDirectories(path.getParent());
            Files.writeString(path, file.getValue());
        }
    }

    /// What one check says of a machine of a few files.
    private List<String> summaries(Check check, Map<String, String> files) throws IOException {
        write(files);
        List<Finding> found = check.examine(new Host(folder, Map.of(), List.of(), probes));
        return found.stream().map(f -> f.severity().word() + " " + f.summary()).toList();
    }

    @Test
    void whatIsHalfGoodIsWorthKnowing() throws IOException {
        assertThat(summaries(new KernelCheck(), Map.of("/proc/sys/kernel/osrelease", "5.10.0-28")))
                .containsExactly(
                        "info works; since Linux 5.14 a lack of memory is told when it is allocated");
        assertThat(
                        summaries(
                                new CpuQuotaCheck(),
                                Map.of(
                                        "/proc/self/status", "Cpus_allowed_list:\t0-1",
                                        "/proc/self/cgroup", "0::/",
                                        "/proc/self/mountinfo",
                                                "29 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
                                        "/sys/fs/cgroup/cpu.max", "200000 100000")))
                .containsExactly("info the quota of 2.00 cores covers every core that can be used");
    }

    @Test
    void whatIsNotThereIsNotCalledGood() throws IOException {
        assertThat(summaries(new KernelCheck(), Map.of()))
                .containsExactly("info the kernel's version is not known");
        assertThat(summaries(new OpenFilesCheck(), Map.of()))
                .containsExactly("info the limit is not known");
        assertThat(summaries(new CongestionCheck(), Map.of())).containsExactly("info not known");
        assertThat(summaries(new HugePagesCheck(), Map.of()))
                .containsExactly("info there are none; the option hugePages changes nothing");
        assertThat(summaries(new SocketBuffersCheck(), Map.of()))
                .containsExactly("info the kernel's maxima are not known");
        assertThat(summaries(new MtuCheck(), Map.of()))
                .singleElement()
                .asString()
                .startsWith("warning no interface has an address");
    }

    @Test
    void aLimitOnLockedMemoryDoesNotBindWhoMayLockAll() throws IOException {
        Map<String, String> files =
                new HashMap<>(
                        Map.of(
                                "/proc/self/limits", "Max locked memory   65536   65536   bytes",
                                "/sys/class/infiniband/mlx5_0/node_guid", "0",
                                "/proc/self/status", "CapEff:\t000001ffffffffff"));
        String bound = "warning registering memory with an RDMA device fails beyond this limit";
        assertThat(summaries(new LockedMemoryCheck(), files)).containsExactly(bound);
        Files.createDirectories(folder.resolve("proc/self/ns"));
        Files.createSymbolicLink(folder.resolve("proc/self/ns/user"), Path.of("user:[4026531837]"));
        assertThat(summaries(new LockedMemoryCheck(), files))
                .singleElement()
                .asString()
                .startsWith("info the limit does not bind this process");
        files.put("/proc/self/status", "CapEff:\t00000000a80425fb"); // what Docker leaves to root
        assertThat(summaries(new LockedMemoryCheck(), files)).containsExactly(bound);
        files.put("/proc/self/limits", "Max locked memory   unlimited   unlimited   bytes");
        assertThat(summaries(new LockedMemoryCheck(), files))
                .containsExactly("info no limit on what RDMA devices may register");
    }

    @Test
    void cablesInOneSubnetThatAnswerForThemselvesAreGood() throws IOException {
        Map<String, String> files = new HashMap<>();
        for (String setting : List.of("arp_ignore", "arp_announce", "rp_filter")) {
            files.put("/proc/sys/net/ipv4/conf/all/" + setting, "2");
        }
        write(files);
        List<Nic> nics = new ArrayList<>();
        for (String each : List.of("a 10.1.0.2", "b 10.1.0.3")) {
            String[] words = each.split(" ");
            Nic.Subnet subnet = new Nic.Subnet(InetAddress.ofLiteral(words[1]), 24);
            nics.add(new Nic(words[0], false, List.of(subnet)));
        }
        assertThat(new SubnetsCheck().examine(new Host(folder, Map.of(), nics, probes)))
                .singleElement()
                .matches(f -> f.severity() == Severity.INFO)
                .matches(f -> f.summary().contains("answer for their own addresses only"))
                .matches(f -> f.evidence().contains("conf/all/arp_ignore = 2"));
    }

    @Test
    void anUnsetClockIsWorthKnowingOnly() throws IOException {
        probes.clockState = Clocks.TIME_ERROR;
        List<Finding> all = examine("sound");
        assertThat(wrong(all, "clock")).isEmpty();
        assertThat(all).anyMatch(f -> f.summary().contains("follows no other clock"));
    }

    @Test
    void missingTransportsAreGradedByWhatTheyNeed() throws IOException {
        probes.transports.put("cuda", new Availability.Missing("no driver", "install it"));
        probes.transports.put("shm", new Availability.Missing("memfd_create: ENOSYS", "allow it"));
        probes.meeting = new Probes.Meeting(null, "tcp", "lane 0 (tcp)");
        List<Finding> all = examine("sound");
        assertThat(onlyWrong(all, "transports").summary()).isEqualTo("shm: does not work here");
        assertThat(onlyWrong(all, "paths").summary()).contains("by tcp");

        probes.transports.put("tcp", new Availability.Missing("no sockets", "allow them"));
        Host here = new Host(folder, Map.of(), List.of(), probes);
        assertThat(wrong(new TransportsCheck().examine(here), "transports"))
                .extracting(Finding::severity)
                .containsExactly(Severity.WARNING, Severity.WARNING, Severity.ERROR);
    }

    @Test
    void missingNativeAccessIsTold() throws IOException {
        probes.nativeAccess = false;
        assertThat(onlyWrong(examine("sound"), "java").remedy()).contains("--enable-native-access");
    }

    @Test
    void aCheckThatThrowsDoesNotEndTheOthers() {
        Check broken =
                new Check() {
                    @Override
                    public String name() {
                        return "broken";
                    }

                    @Override
                    public List<Finding> examine(Host host) {
                        throw new IllegalStateException("oh");
                    }
                };
        List<Finding> all = new ArrayList<>();
        Host here = new Host(folder, Map.of(), List.of(), probes);
        Doctor.examine(here, List.of(broken, new PathsCheck()), all::add);
        assertThat(all)
                .extracting(Finding::check, Finding::severity)
                .containsExactly(
                        org.assertj.core.api.Assertions.tuple("broken", Severity.WARNING),
                        org.assertj.core.api.Assertions.tuple("paths", Severity.INFO));
    }
}
