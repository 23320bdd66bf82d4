package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.RouteLookup;
import io.telpher.internal.ffi.verbs.Verbs;
import io.telpher.internal.ffi.verbs.VerbsCompletions;
import io.telpher.internal.ffi.verbs.VerbsDevices;
import io.telpher.internal.ffi.verbs.VerbsEvents;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.internal.ffi.verbs.VerbsOperations;
import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Availability;
import java.lang.foreign.Arena;
import java.net.InetAddress;
import java.net.InterfaceAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// The system's library.
final class SystemProvider implements Provider {
    /// Where `ibv_post_send` and `ibv_post_recv` say which request they did not take. A queue pair
    /// that refuses one is given up, so nobody reads it, and threads may share it.
    private static final long BAD = Arena.global().allocate(8, 8).address();

    private final AtomicInteger nextVector = new AtomicInteger();

    @Override
    public Availability availability() {
        if (Verbs.availability() instanceof Availability.Missing missing) {
            return missing;
        }
        return availability(VerbsDevices.list());
    }

    /// Of a machine with these devices.
    static Availability availability(List<VerbsDevices.Device> all) {
        List<String> names = usable(all);
        if (!names.isEmpty()) {
            return new Availability.Available(String.join(", ", names));
        }
        if (all.isEmpty()) {
            return new Availability.Missing(
                    "libibverbs sees no RDMA device",
                    "load the driver of the NIC and install its provider (ibverbs-providers);"
                            + " in a container pass /dev/infiniband");
        }
        String seen =
                all.stream()
                        .map(d -> d.name() + " (" + transport(d.transportType()) + ")")
                        .collect(Collectors.joining(", "));
        return new Availability.Missing(
                "libibverbs sees no device with queue pairs of type RC that two programs connect by"
                        + " their numbers: "
                        + seen,
                "a NIC for InfiniBand or RoCE v2 is needed; without one other transports are used");
    }

    private static String transport(int type) {
        return switch (type) {
            case VerbsDevices.IBV_TRANSPORT_IWARP -> "iWARP";
            case VerbsDevices.IBV_TRANSPORT_USNIC, VerbsDevices.IBV_TRANSPORT_USNIC_UDP -> "usNIC";
            default -> "a transport of its own, such as EFA's";
        };
    }

    @Override
    public List<String> devices() {
        return usable(VerbsDevices.list());
    }

    private static List<String> usable(List<VerbsDevices.Device> all) {
        return all.stream()
                .filter(d -> d.transportType() == VerbsDevices.IBV_TRANSPORT_IB)
                .map(VerbsDevices.Device::name)
                .toList();
    }

    @Override
    public long open(String device) {
        long context = VerbsDevices.open(device);
        int result = Descriptors.setNonBlocking(VerbsDevices.asyncDescriptor(context), true);
        if (result < 0) {
            int unused = VerbsDevices.close(context);
            throw Errno.failure(result, "fcntl", "F_SETFL", "asynchronous events of " + device);
        }
        return context;
    }

    @Override
    public int close(long context) {
        return VerbsDevices.close(context);
    }

    @Override
    public VerbsDevices.Attributes attributes(long context) {
        return VerbsDevices.query(context);
    }

    @Override
    public VerbsPorts.Attributes port(long context, int number) {
        return VerbsPorts.query(context, number);
    }

    @Override
    public List<VerbsPorts.Gid> gids(long context, int port) {
        int most = VerbsPorts.query(context, port).gids() * attributes(context).ports();
        return VerbsPorts.gids(context, most).stream().filter(g -> g.port() == port).toList();
    }

    @Override
    public int prefix(VerbsPorts.Gid gid) {
        try {
            NetworkInterface nic =
                    gid.ifindex() == 0 ? null : NetworkInterface.getByIndex(gid.ifindex());
            InetAddress wanted = InetAddress.getByAddress(gid.gid());
            if (nic != null) {
                for (InterfaceAddress each : nic.getInterfaceAddresses()) {
                    if (each.getAddress().equals(wanted)) {
                        return each.getNetworkPrefixLength();
                    }
                }
            }
        } catch (SocketException | UnknownHostException e) {
            Log.debug("no prefix of GID " + gid.index(), e);
        }
        return -1;
    }

    @Override
    public boolean routes(byte[] local, byte[] remote) {
        try {
            InetAddress source = InetAddress.getByAddress(local);
            NetworkInterface nic = NetworkInterface.getByInetAddress(source);
            return nic == null // another network namespace's: the handshake will tell
                    || RouteLookup.leads(nic.getIndex(), source, InetAddress.getByAddress(remote));
        } catch (SocketException | UnknownHostException e) {
            Log.debug("no route from " + Rail.text(local), e);
            return true;
        }
    }

    @Override
    public long allocatePd(long context) {
        return VerbsMemory.allocateProtectionDomain(context);
    }

    @Override
    public int deallocatePd(long pd) {
        return VerbsMemory.freeProtectionDomain(pd);
    }

    @Override
    public Registration register(long pd, long address, long bytes, int access) {
        long region = VerbsMemory.tryRegister(pd, address, bytes, access);
        if (region < 0) {
            throw Errno.failure(region, "ibv_reg_mr", address, bytes, access);
        }
        return new Registration(
                region, VerbsMemory.localKey(region), VerbsMemory.remoteKey(region));
    }

    @Override
    public int deregister(long region) {
        return VerbsMemory.deregister(region);
    }

    @Override
    public long createChannel(long context) {
        long channel = VerbsCompletions.createChannel(context);
        int result = Descriptors.setNonBlocking(VerbsCompletions.descriptor(channel), true);
        if (result < 0) {
            int unused = VerbsCompletions.destroyChannel(channel);
            throw Errno.failure(result, "fcntl", "F_SETFL", "a completion channel");
        }
        return channel;
    }

    @Override
    public int descriptor(long channel) {
        return VerbsCompletions.descriptor(channel);
    }

    /// A channel has one completion queue here.
    @Override
    public int takeEvents(long channel) {
        int events = 0;
        long owner = 0;
        long cq;
        while ((cq = VerbsCompletions.tryGetEvent(channel)) > 0) {
            owner = cq;
            events++;
        }
        if (events > 0) {
            VerbsCompletions.acknowledge(owner, events);
        }
        return cq == -Errno.EAGAIN || cq == -Errno.EINTR ? events : (int) cq;
    }

    @Override
    public int destroyChannel(long channel) {
        return VerbsCompletions.destroyChannel(channel);
    }

    /// Queues take the device's interrupts in turn, so that they are spread over processors.
    @Override
    public long createCq(long context, int entries, long channel) {
        int vector =
                Math.floorMod(
                        nextVector.getAndIncrement(), VerbsDevices.completionVectors(context));
        return VerbsCompletions.createQueue(context, entries, channel, vector);
    }

    @Override
    public int pollCq(long cq, int most, long wcs) {
        return VerbsOperations.poll(cq, most, wcs);
    }

    @Override
    public int requestNotification(long cq) {
        return VerbsOperations.requestNotify(cq, 0);
    }

    @Override
    public int destroyCq(long cq) {
        return VerbsCompletions.destroyQueue(cq);
    }

    @Override
    public long createQp(long pd, long cq, VerbsQueuePairs.Capacity capacity) {
        return VerbsQueuePairs.create(pd, cq, cq, capacity);
    }

    @Override
    public int number(long qp) {
        return VerbsQueuePairs.number(qp);
    }

    @Override
    public void initialise(long qp, int port, int pkeyIndex, int access) {
        VerbsQueuePairs.initialise(qp, port, pkeyIndex, access);
    }

    @Override
    public void readyToReceive(long qp, VerbsQueuePairs.Receiving receiving) {
        VerbsQueuePairs.readyToReceive(qp, receiving);
    }

    @Override
    public void readyToSend(long qp, VerbsQueuePairs.Sending sending) {
        VerbsQueuePairs.readyToSend(qp, sending);
    }

    @Override
    public int fail(long qp) {
        return VerbsQueuePairs.stop(qp, VerbsQueuePairs.IBV_QPS_ERR);
    }

    @Override
    public int postSend(long qp, long wr) {
        return VerbsOperations.postSend(qp, wr, BAD);
    }

    @Override
    public int postReceive(long qp, long wr) {
        return VerbsOperations.postReceive(qp, wr, BAD);
    }

    @Override
    public int destroyQp(long qp) {
        return VerbsQueuePairs.destroy(qp);
    }

    @Override
    public int asyncDescriptor(long context) {
        return VerbsDevices.asyncDescriptor(context);
    }

    @Override
    public @Nullable AsyncEvent asyncEvent(long context) {
        return VerbsEvents.next(context).map(SystemProvider::event).orElse(null);
    }

    private static AsyncEvent event(VerbsEvents.Event event) {
        int type = event.type();
        String text = VerbsEvents.text(type);
        return VerbsEvents.isPorts(type)
                ? new AsyncEvent(text + " (port " + event.element() + ")", false, 0)
                : new AsyncEvent(
                        text,
                        VerbsEvents.isFatal(type),
                        type == VerbsEvents.IBV_EVENT_DEVICE_FATAL ? 0 : event.element());
    }
}
