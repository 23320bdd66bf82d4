package io.telpher.cli.doctor;

import io.telpher.EndpointAddress;
import io.telpher.spi.Availability;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/// Everything works, until a test says otherwise.
final class FakeProbes implements Probes {
    Result sealedMemory = new Result("fcntl(F_ADD_SEALS)", 0);
    int dumpable = 1;
    boolean nativeAccess = true;
    int clockState;
    Map<String, Availability> transports =
            new TreeMap<>(
                    Map.of(
                            "shm", new Availability.Available("memfd"),
                            "tcp", new Availability.Available("IPv4")));
    Neighbour neighbour = neighbour(0, 0, 0);
    Meeting meeting = new Meeting(null, "mapped", "one-sided: mapped: yes");
    List<InetAddress> resolved = List.of();
    Egress egress = new Egress(null, InetAddress.ofLiteral("10.1.0.2"), 9000);
    Gpus gpus = new Gpus(Map.of(GpuState.CUDA, missing()), List.of(), List.of());
    List<Trial> trials = List.of();
    Loaded loaded = new Loaded("no driver", 0, 0);
    final List<GpuState> putUnderLoad = new ArrayList<>();
    Rdma rdma = new Rdma(new Availability.Available("libibverbs.so.1"), Map.of(), Map.of());

    /// Hardware addresses by interface and address: `eth0 10.0.0.2`.
    final Map<String, String> neighbours = new TreeMap<>();

    /// Interfaces by source and target: `10.0.0.1 10.0.0.2`.
    final Map<String, String> routes = new TreeMap<>();

    List<Route> sizedRoutes = List.of();
    boolean bindsQueues;
    /// By interface.
    final Map<String, String> headerSplit = new TreeMap<>();
    final Map<String, Integer> refusedFiles = new TreeMap<>();
    String dialled;
    Visit visit = new Visit(null, false, null, "lane 0 (tcp): in use");

    static Availability missing() {
        return new Availability.Missing("no driver", "install it");
    }

    static Neighbour neighbour(int toChild, int descriptor, int toParent) {
        return new Neighbour(
                null,
                new Result("process_vm_writev", toChild),
                new Result("pidfd_getfd", descriptor),
                new Result("process_vm_writev", toParent),
                new Result("pidfd_getfd", toParent));
    }

    @Override
    public List<Trial> trials() {
        return trials;
    }

    @Override
    public Gpus gpus() {
        return gpus;
    }

    @Override
    public Map<String, Loaded> underLoad(List<GpuState> gpus) {
        putUnderLoad.addAll(gpus);
        return gpus.stream().collect(Collectors.toMap(GpuState::address, gpu -> loaded));
    }

    @Override
    public Rdma rdma() {
        return rdma;
    }

    @Override
    public String route(InetAddress source, InetAddress target) {
        return routes.getOrDefault(
                source.getHostAddress() + " " + target.getHostAddress(), "ENETUNREACH");
    }

    @Override
    public List<Route> routes() {
        return sizedRoutes;
    }

    @Override
    public boolean bindsQueues() {
        return bindsQueues;
    }

    @Override
    public String headerSplit(String netdev) {
        return headerSplit.getOrDefault(netdev, "unknown");
    }

    @Override
    public String neighbour(String netdev, InetAddress source, InetAddress peer) {
        return neighbours.get(netdev + " " + peer.getHostAddress());
    }

    @Override
    public Result open(String file) {
        return new Result("open(" + file + ")", refusedFiles.getOrDefault(file, 0));
    }

    @Override
    public Result sealedMemory() {
        return sealedMemory;
    }

    @Override
    public int dumpable() {
        return dumpable;
    }

    @Override
    public boolean nativeAccess() {
        return nativeAccess;
    }

    @Override
    public int clockState() {
        return clockState;
    }

    @Override
    public Map<String, Availability> transports() {
        return transports;
    }

    @Override
    public Neighbour neighbour() {
        return neighbour;
    }

    @Override
    public Meeting meeting() {
        return meeting;
    }

    @Override
    public List<InetAddress> resolve(String host) {
        if (resolved.isEmpty()) {
            throw new IllegalArgumentException("the name " + host + " is unknown here");
        }
        return resolved;
    }

    @Override
    public Egress egress(InetAddress peer) {
        return egress;
    }

    @Override
    public String dial(InetSocketAddress peer, Duration atMost) {
        return dialled;
    }

    @Override
    public Visit visit(EndpointAddress peer) {
        return visit;
    }
}
