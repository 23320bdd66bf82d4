package io.telpher.cli.doctor;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.ffi.linux.Clocks;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.GenericNetlink;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.internal.ffi.linux.Processes;
import io.telpher.internal.ffi.linux.RouteLookup;
import io.telpher.internal.ffi.linux.SocketAddresses;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Availability;
import io.telpher.spi.Transport;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.Socket;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// Tries it on this machine.
final class LiveProbes implements Probes {
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    /// Long enough to fill packets of any size, short enough to travel before its receive is there.
    private static final int MESSAGE_BYTES = 8 << 10;

    private static final int MESSAGES = 8;
    private static final long TAG = 0x646f63746f72L; // "doctor"

    /// Far more than a driver takes that works, the first start after a boot included.
    private static final long DRIVER_SECONDS = 40;

    /// Enough for eight GPUs whose driver takes seconds for each. What is begun just before it is
    /// over ends within 43 s: together with [#DRIVER_SECONDS] less than a check has.
    private static final Duration LOAD_LIMIT = Duration.ofSeconds(30);

    private @Nullable Neighbour neighbour;
    private @Nullable Gpus gpus;
    private @Nullable Rdma rdma;

    /// Several checks ask; a driver that hangs costs one wait.
    @Override
    public synchronized Gpus gpus() {
        Gpus known = gpus;
        if (known == null) {
            known = askDrivers();
            gpus = known;
        }
        return known;
    }

    @Override
    public List<Trial> trials() {
        if (gpus().gpus().isEmpty()) {
            return List.of(); // a driver that hangs was waited for there
        }
        return Runtimes.keptTrials().stream()
                .map(
                        kept ->
                                new Trial(
                                        kept.one().toString(),
                                        kept.other().toString(),
                                        kept.file().toString(),
                                        kept.good(),
                                        kept.found()))
                .toList();
    }

    private static Gpus askDrivers() {
        FutureTask<Gpus> asking = new FutureTask<>(GpuState::ask);
        Thread.ofPlatform().daemon().name("telpher-doctor-driver").start(asking);
        String reason;
        try {
            return asking.get(DRIVER_SECONDS, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            reason = "it did not answer within " + DRIVER_SECONDS + " s";
        } catch (ExecutionException e) {
            reason = String.valueOf(e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            reason = "interrupted";
        }
        Availability none =
                new Availability.Missing(
                        reason,
                        "look for Xid in the kernel log (dmesg), and whether nvidia-smi ends");
        return new Gpus(Map.of(GpuState.NVML, none), List.of(), List.of());
    }

    @Override
    public Map<String, Loaded> underLoad(List<GpuState> gpus) {
        return LinksUnderLoad.watch(gpus, LOAD_LIMIT);
    }

    /// Once for all checks: devices are opened for it.
    @Override
    public synchronized Rdma rdma() {
        Rdma known = rdma;
        if (known == null) {
            known = Rdma.ask();
            rdma = known;
        }
        return known;
    }

    @Override
    public String route(InetAddress source, InetAddress target) {
        int index = RouteLookup.interfaceTo(source, target);
        return index < 0 ? Errno.describe(-index) : nicName(index);
    }

    private static String nicName(int index) {
        try {
            NetworkInterface nic = NetworkInterface.getByIndex(index);
            return nic == null ? "interface " + index : nic.getName();
        } catch (SocketException e) {
            return "interface " + index;
        }
    }

    @Override
    public List<Route> routes() {
        List<Route> all = new ArrayList<>();
        for (RouteLookup.Sized route : RouteLookup.sized()) {
            String target = route.target().getHostAddress() + "/" + route.prefix();
            all.add(
                    new Route(
                            route.prefix() == 0 ? "default" : target,
                            nicName(route.nic()),
                            route.mtu()));
        }
        return all;
    }

    @Override
    public boolean bindsQueues() {
        return GenericNetlink.commands("netdev").contains(GenericNetlink.NETDEV_CMD_BIND_RX);
    }

    @Override
    public String headerSplit(String netdev) {
        int split = GenericNetlink.dataSplit(netdev);
        return switch (split) {
            case GenericNetlink.ETHTOOL_TCP_DATA_SPLIT_ENABLED -> "on";
            case GenericNetlink.ETHTOOL_TCP_DATA_SPLIT_DISABLED -> "off";
            case GenericNetlink.ETHTOOL_TCP_DATA_SPLIT_UNKNOWN -> "unknown";
            default -> Errno.describe(-split);
        };
    }

    @Override
    public @Nullable String neighbour(String netdev, InetAddress source, InetAddress peer) {
        return Neighbours.ask(netdev, source, peer);
    }

    @Override
    public Result open(String file) {
        int fd = Descriptors.open(file, Descriptors.O_RDWR | Descriptors.O_CLOEXEC, 0);
        if (fd >= 0) {
            int unused = Descriptors.close(fd);
        }
        return new Result("open(" + file + ")", Math.max(0, -fd));
    }

    @Override
    public Result sealedMemory() {
        int fd =
                Memory.memfdCreate("telpher-doctor", Memory.MFD_CLOEXEC | Memory.MFD_ALLOW_SEALING);
        if (fd < 0) {
            return new Result("memfd_create", -fd);
        }
        try {
            return sealed(fd, 2L << 20);
        } finally {
            int unused = Descriptors.close(fd);
        }
    }

    private static Result sealed(int fd, long bytes) {
        int sized = Memory.ftruncate(fd, bytes);
        if (sized < 0) {
            return new Result("ftruncate", -sized);
        }
        int protection = Memory.PROT_READ | Memory.PROT_WRITE;
        long address = Memory.mmap(0, bytes, protection, Memory.MAP_SHARED, fd, 0);
        if (address < 0) {
            return new Result("mmap", (int) -address);
        }
        int filled = Memory.madvise(address, bytes, Memory.MADV_POPULATE_WRITE);
        int unused = Memory.munmap(address, bytes);
        if (filled < 0 && filled != -Errno.EINVAL) { // kernels before 5.14 do not know the advice
            return new Result("madvise(MADV_POPULATE_WRITE)", -filled);
        }
        int seals = Memory.addSeals(fd, Memory.F_SEAL_SHRINK | Memory.F_SEAL_GROW);
        return new Result("fcntl(F_ADD_SEALS)", Math.max(0, -seals));
    }

    @Override
    public int dumpable() {
        return Processes.prctl(Processes.PR_GET_DUMPABLE, 0);
    }

    @Override
    public boolean nativeAccess() {
        return Endpoint.class.getModule().isNativeAccessEnabled();
    }

    @Override
    public int clockState() {
        return Clocks.adjtimex();
    }

    @Override
    public Map<String, Availability> transports() {
        Map<String, Availability> all = new TreeMap<>();
        for (Transport transport : ServiceLoader.load(Transport.class)) {
            all.put(transport.name(), probe(transport));
        }
        return all;
    }

    private static Availability probe(Transport transport) {
        try {
            return transport.probe();
        } catch (IllegalArgumentException e) {
            return new Availability.Missing(String.valueOf(e.getMessage()), "correct or unset it");
        }
    }

    /// Two checks ask, and a JVM takes a moment to start.
    @Override
    public synchronized Neighbour neighbour() {
        Neighbour known = neighbour;
        if (known == null) {
            known = tryNeighbour();
            neighbour = known;
        }
        return known;
    }

    private static Neighbour tryNeighbour() {
        try (Helper helper = Helper.start();
                Reach mine = new Reach()) {
            String[] here = helper.answer();
            int child = Math.toIntExact(helper.pid());
            long sent = ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);
            long returned = ThreadLocalRandom.current().nextLong(1, Long.MAX_VALUE);
            Result write = mine.write(child, Long.parseLong(here[1]), sent);
            Result copy = mine.copyDescriptor(child, Integer.parseInt(here[2]));
            String[] reached =
                    helper.ask(
                            "reach %d %s %d".formatted(Processes.getpid(), mine.text(), returned));
            if (write.worked() && Long.parseLong(reached[4]) != sent) {
                write = new Result("process_vm_writev without effect", Errno.EIO);
            }
            Result back = new Result("process_vm_writev", Integer.parseInt(reached[1]));
            if (back.worked() && mine.value() != returned) {
                back = new Result("process_vm_writev without effect", Errno.EIO);
            }
            Result copyBack = new Result(reached[2], Integer.parseInt(reached[3]));
            return new Neighbour(null, write, copy, back, copyBack);
        } catch (IOException e) {
            return Neighbour.missing(String.valueOf(e.getMessage()));
        }
    }

    @Override
    public Meeting meeting() {
        try (Helper helper = Helper.start()) {
            String[] unused = helper.answer();
            EndpointAddress address = EndpointAddress.parse(helper.ask("listen")[1]);
            try (Endpoint endpoint = Endpoint.open(options());
                    Connection connection = endpoint.connect(address, PATIENCE)) {
                RemoteMemory there = connection.lookup(HelperCommand.REGION, PATIENCE);
                MemoryRegion here = endpoint.allocate(HelperCommand.REGION_BYTES);
                Transfer transfer = connection.write(here.all(), there);
                boolean ended = transfer.await(PATIENCE);
                String failure =
                        ended ? null : "a write did not end within " + PATIENCE.toSeconds() + " s";
                return new Meeting(failure, transfer.path(), connection.explain());
            }
        } catch (IOException | TelpherException | IllegalArgumentException e) {
            return new Meeting(String.valueOf(e.getMessage()), "", "");
        }
    }

    /// The environment's, without what belongs to the program that is being examined.
    static EndpointOptions options() {
        return EndpointOptions.fromEnvironment().withPort(0).withSecret(null);
    }

    @Override
    public List<InetAddress> resolve(String host) {
        // The resolver has limits of its own, which are longer; a thread of it may be left behind.
        CompletableFuture<List<InetAddress>> lookup = new CompletableFuture<>();
        Thread.ofPlatform()
                .daemon()
                .name("telpher-doctor-lookup")
                .start(
                        () -> {
                            try {
                                lookup.complete(List.of(InetAddress.getAllByName(host)));
                            } catch (UnknownHostException e) {
                                lookup.completeExceptionally(e);
                            }
                        });
        try {
            return lookup.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw new IllegalArgumentException("the name " + host + " is unknown here", e);
        } catch (TimeoutException e) {
            throw new IllegalArgumentException(
                    "looking up " + host + " took longer than " + PATIENCE.toSeconds() + " s", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalArgumentException("interrupted while looking up " + host, e);
        }
    }

    /// Connects a datagram socket, which sends nothing: the kernel decides about the route.
    @Override
    public Egress egress(InetAddress peer) {
        boolean inet6 = peer instanceof Inet6Address;
        int family = inet6 ? Sockets.AF_INET6 : Sockets.AF_INET;
        int fd = Sockets.socket(family, Sockets.SOCK_DGRAM | Sockets.SOCK_CLOEXEC, 0);
        if (fd < 0) {
            return new Egress("socket: " + Errno.describe(-fd), null, 0);
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment address = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);
            int length = SocketAddresses.encode(new InetSocketAddress(peer, 9), address);
            int connected = Sockets.connect(fd, address, length);
            if (connected < 0) {
                return new Egress("connect: " + Errno.describe(-connected), null, 0);
            }
            int named = Sockets.getsockname(fd, address);
            if (named < 0) {
                return new Egress("getsockname: " + Errno.describe(-named), null, 0);
            }
            long mtu =
                    inet6
                            ? Sockets.getsockopt(fd, Sockets.IPPROTO_IPV6, Sockets.IPV6_MTU)
                            : Sockets.getsockopt(fd, Sockets.IPPROTO_IP, Sockets.IP_MTU);
            return new Egress(null, SocketAddresses.decode(address).getAddress(), Math.max(0, mtu));
        } finally {
            int unused = Descriptors.close(fd);
        }
    }

    @Override
    public @Nullable String dial(InetSocketAddress peer, Duration atMost) {
        try (Socket socket = new Socket()) {
            socket.connect(peer, (int) atMost.toMillis());
            return null;
        } catch (IOException e) {
            return String.valueOf(e.getMessage());
        }
    }

    @Override
    public Visit visit(EndpointAddress peer) {
        try (Endpoint endpoint = Endpoint.open(options());
                Connection connection = endpoint.connect(peer, PATIENCE)) {
            String explanation = settled(connection, 1000);
            return new Visit(null, false, fillPackets(endpoint, connection), explanation);
        } catch (TelpherException.AccessDenied e) {
            return new Visit(String.valueOf(e.getMessage()), true, null, "");
        } catch (TelpherException | IllegalArgumentException e) {
            return new Visit(String.valueOf(e.getMessage()), false, null, "");
        }
    }

    /// @return what a connection says of its paths once its lanes have joined, or so far
    static String settled(Connection connection, int atMostMillis) {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(atMostMillis);
        int before = -1;
        while (System.nanoTime() < end) {
            int lanes = connection.metrics().lanes().size();
            if (lanes == before) {
                break;
            }
            before = lanes;
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(200));
        }
        return connection.explain();
    }

    /// Sends messages that nobody receives: they are done when the peer's engine has them, and gone
    /// when the connection ends.
    private static @Nullable String fillPackets(Endpoint endpoint, Connection connection) {
        try (MemoryRegion memory = endpoint.allocate(MESSAGE_BYTES)) {
            for (int i = 0; i < MESSAGES; i++) {
                Transfer message = connection.send(TAG, memory.all());
                if (!message.await(PATIENCE)) {
                    return "a message of "
                            + MESSAGE_BYTES
                            + " bytes did not arrive within "
                            + PATIENCE.toSeconds()
                            + " s";
                }
            }
            return null;
        } catch (TelpherException e) {
            return String.valueOf(e.getMessage());
        }
    }
}
