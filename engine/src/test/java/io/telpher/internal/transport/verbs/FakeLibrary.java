package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.internal.ffi.verbs.ReceiveRequest;
import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.VerbsDevices;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.transport.verbs.FakeObjects.Channel;
import io.telpher.internal.transport.verbs.FakeObjects.Context;
import io.telpher.internal.transport.verbs.FakeObjects.Cq;
import io.telpher.internal.transport.verbs.FakeObjects.Domain;
import io.telpher.internal.transport.verbs.FakeObjects.FakePort;
import io.telpher.internal.transport.verbs.FakeObjects.Qp;
import io.telpher.internal.transport.verbs.FakeObjects.Region;
import io.telpher.spi.Availability;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// A double of libibverbs: devices whose queue pairs lead to each other inside this process,
/// carried out by a thread of its own ([FakeNic]). It refuses what a device refuses, and remembers
/// what no program should do. What tests do to it is in [FakeVerbs].
///
/// Everything is guarded by this object.
abstract class FakeLibrary implements Provider {
    /// Events that may wait in a completion channel: whoever asks for another one takes them.
    private static final int MOST_EVENTS = 2;

    /// Partitions of a port.
    private static final int PKEYS = 4;

    final Map<String, FakePort> ports = new LinkedHashMap<>();
    final FakeHandles handles = new FakeHandles(this::misuse);

    /// By number and by key; what is gone leaves a null, so that nothing comes back.
    final List<@Nullable Qp> byNumber = new ArrayList<>();

    final List<@Nullable Region> byKey = new ArrayList<>();

    /// Calls that fail the next time, each with its errno.
    final Map<String, Integer> failing = new ConcurrentHashMap<>();

    final Set<String> called = new HashSet<>();
    final List<String> misuses = new ArrayList<>();

    /// Nothing of one-sided transfers arrives.
    boolean holding;

    /// Devices keep what is written, until they have to put it into memory.
    boolean lazy;

    /// For how many milliseconds the completion of a refused request is later than an event that
    /// tells of its queue pair; 0 for no event.
    int rumoured;

    /// Bytes that a request can carry by itself.
    int mostInline = 256;

    /// Bytes of one registration.
    long longestRegion = 1L << 40;

    /// Send requests that were posted, and calls of `ibv_post_send`.
    long requests;

    long posts;

    /// Of the requests, those that read.
    long reads;

    /// Calls of `ibv_poll_cq` that found something.
    long takes;

    final FakeNic nic = new FakeNic(this);

    FakeLibrary() {
        byNumber.add(null); // numbers and keys begin with 1
        byKey.add(null);
    }

    synchronized void misuse(String what) {
        misuses.add(what);
    }

    // --- what the other half looks up -----------------------------------------------------------

    synchronized String deviceOf(long qp) {
        return deviceOf(handles.get(qp, Qp.class));
    }

    String deviceOf(Qp qp) {
        return device(qp.pd);
    }

    final String device(long pd) {
        return handles.find(pd) instanceof Domain domain
                        && handles.find(domain.context()) instanceof Context context
                ? context.device
                : "";
    }

    @Nullable FakePort portOf(Qp qp) {
        return ports.get(deviceOf(qp));
    }

    boolean isSilent(Qp qp) {
        FakePort port = portOf(qp);
        return port == null || port.silent || !port.active;
    }

    boolean isHolding() {
        return holding;
    }

    boolean isLazy() {
        return lazy;
    }

    @Nullable Qp byNumber(int number) {
        return number < byNumber.size() ? byNumber.get(number) : null;
    }

    /// @return whether a key names that range, of memory that may be used so
    boolean allows(int key, long pd, long address, long bytes, int access) {
        Region region = key < 0 || key >= byKey.size() ? null : byKey.get(key);
        return region != null
                && region.pd() == pd
                && (region.access() & access) == access
                && region.covers(address, bytes);
    }

    void complete(Qp qp, long id, int status, int opcode, int bytes, int immediate) {
        if (qp.withheld != null) {
            qp.withheld.add(new long[] {id, status, opcode, bytes, immediate});
            return;
        }
        if (!(handles.find(qp.cq) instanceof Cq cq)) {
            misuse("a completion queue was destroyed under its queue pair");
            return;
        }
        if (!cq.add(id, status, opcode, bytes, immediate)) {
            misuse("a completion queue of " + cq.capacity + " entries has overflowed");
        }
        if (cq.armed && handles.find(cq.channel) instanceof Channel channel) {
            cq.armed = false;
            if (++channel.events > MOST_EVENTS) {
                misuse("events pile up in a completion channel");
            }
            int unused = EventFd.signal(channel.descriptor);
        }
    }

    /// A request of a queue pair is refused: some devices tell so, and its completion follows.
    void announce(Qp qp) {
        if (rumoured > 0) {
            tellOf(qp, false, "local work queue error");
            qp.withheld = new ArrayList<>();
            qp.withheldFor = rumoured;
            nic.withhold(qp);
        }
    }

    /// Tells of a queue pair, or of its completion queue.
    final void tellOf(Qp qp, boolean completion, String text) {
        handles.forEach(
                (handle, object) -> {
                    if (object == qp
                            && handles.find(qp.pd) instanceof Domain domain
                            && handles.find(domain.context()) instanceof Context context) {
                        tell(context, new AsyncEvent(text, true, completion ? qp.cq : handle));
                    }
                });
    }

    static void tell(Context context, AsyncEvent event) {
        context.events.addLast(event);
        int unused = EventFd.signal(context.descriptor);
    }

    // --- the calls ------------------------------------------------------------------------------

    private int injected(String verb) {
        called.add(verb);
        Integer errno = failing.isEmpty() ? null : failing.remove(verb);
        return errno == null ? 0 : errno;
    }

    private void mayFail(String verb) {
        int errno = injected(verb);
        if (errno != 0) {
            throw failure(verb, errno);
        }
    }

    private static TelpherException.NativeFailure failure(String verb, int errno) {
        return Errno.failure(errno, verb);
    }

    /// @return 0, or the errno: the object is still there then, and does what it did
    private int destroy(String verb, long handle, boolean used) {
        int errno = injected(verb);
        return handles.destroy(verb, handle, used, errno == 0) ? errno : Errno.EBUSY;
    }

    @Override
    public Availability availability() {
        return new Availability.Available("a double");
    }

    @Override
    public synchronized List<String> devices() {
        return List.copyOf(ports.keySet());
    }

    @Override
    public synchronized long open(String device) {
        mayFail("ibv_open_device");
        return handles.add(new Context(device));
    }

    @Override
    public synchronized int close(long context) {
        int descriptor = handles.get(context, Context.class).descriptor;
        int errno =
                destroy(
                        "ibv_close_device",
                        context,
                        handles.any(
                                o ->
                                        (o instanceof Domain d && d.context() == context)
                                                || (o instanceof Channel c
                                                        && c.context == context)));
        if (errno == 0) {
            Descriptors.close(descriptor);
        }
        return errno;
    }

    @Override
    public synchronized VerbsDevices.Attributes attributes(long context) {
        mayFail("ibv_query_device");
        return new VerbsDevices.Attributes(
                "1", 0, 0, longestRegion, 1024, 4096, 16, 8192, 1024, 16, 16, 1);
    }

    @Override
    public synchronized VerbsPorts.Attributes port(long context, int number) {
        mayFail("ibv_query_port");
        @Nullable FakePort port = ports.get(handles.get(context, Context.class).device);
        port = port == null ? new FakePort() : port;
        int state = port.active ? VerbsPorts.IBV_PORT_ACTIVE : VerbsPorts.IBV_PORT_DOWN;
        int link =
                port.ethernet
                        ? VerbsPorts.IBV_LINK_LAYER_ETHERNET
                        : VerbsPorts.IBV_LINK_LAYER_INFINIBAND;
        int flags = port.global ? VerbsPorts.IBV_QPF_GRH_REQUIRED : 0;
        return new VerbsPorts.Attributes(
                state, 5, port.mtu, 16, PKEYS, 1 << 30, port.lid, 0, 0, 2, 32, 5, link, flags);
    }

    @Override
    public synchronized List<VerbsPorts.Gid> gids(long context, int port) {
        mayFail("ibv_query_gid_table");
        FakePort found = ports.get(handles.get(context, Context.class).device);
        return found == null ? List.of() : List.copyOf(found.gids);
    }

    @Override
    public synchronized int prefix(VerbsPorts.Gid gid) {
        return ports.values().stream()
                .filter(p -> p.gids.contains(gid))
                .mapToInt(p -> p.prefix)
                .findFirst()
                .orElse(-1);
    }

    @Override
    public boolean routes(byte[] local, byte[] remote) {
        return true; // the links lead everywhere
    }

    @Override
    public synchronized long allocatePd(long context) {
        mayFail("ibv_alloc_pd");
        return handles.add(new Domain(context));
    }

    @Override
    public synchronized int deallocatePd(long pd) {
        return destroy(
                "ibv_dealloc_pd",
                pd,
                handles.any(
                        o ->
                                (o instanceof Region r && r.pd() == pd)
                                        || (o instanceof Qp q && q.pd == pd)));
    }

    @Override
    public synchronized Registration register(long pd, long address, long bytes, int access) {
        mayFail("ibv_reg_mr");
        if ((access & VerbsMemory.IBV_ACCESS_REMOTE_WRITE) != 0
                && (access & VerbsMemory.IBV_ACCESS_LOCAL_WRITE) == 0) {
            throw failure("ibv_reg_mr", Errno.EINVAL);
        }
        if (bytes > longestRegion) {
            throw failure("ibv_reg_mr", Errno.EINVAL);
        }
        Region region = new Region(pd, address, bytes, access, byKey.size());
        byKey.add(region);
        return new Registration(handles.add(region), region.key(), region.key());
    }

    @Override
    public synchronized int deregister(long region) {
        int key = handles.get(region, Region.class).key();
        int errno = destroy("ibv_dereg_mr", region, false);
        if (errno == 0) {
            byKey.set(key, null);
        }
        return errno;
    }

    @Override
    public synchronized long createChannel(long context) {
        mayFail("ibv_create_comp_channel");
        return handles.add(new Channel(context));
    }

    @Override
    public synchronized int descriptor(long channel) {
        return handles.get(channel, Channel.class).descriptor;
    }

    @Override
    public synchronized int takeEvents(long channel) {
        int errno = injected("ibv_get_cq_event");
        if (errno != 0) {
            return -errno;
        }
        Channel found = handles.get(channel, Channel.class);
        long unused = EventFd.drain(found.descriptor);
        int events = found.events;
        found.events = 0;
        return events;
    }

    @Override
    public synchronized int destroyChannel(long channel) {
        int descriptor = handles.get(channel, Channel.class).descriptor;
        int errno =
                destroy(
                        "ibv_destroy_comp_channel",
                        channel,
                        handles.any(o -> o instanceof Cq c && c.channel == channel));
        if (errno == 0) {
            Descriptors.close(descriptor);
        }
        return errno;
    }

    @Override
    public synchronized long createCq(long context, int entries, long channel) {
        mayFail("ibv_create_cq");
        return handles.add(new Cq(channel, entries));
    }

    /// Threads that poll in vain do not take the lock, which others need.
    @Override
    public int pollCq(long cq, int most, long wcs) {
        Cq queue = handles.get(cq, Cq.class);
        return queue.isEmpty() && !nic.isOwing && failing.isEmpty() ? 0 : pollCq(queue, most, wcs);
    }

    private synchronized int pollCq(Cq queue, int most, long wcs) {
        int errno = injected("ibv_poll_cq");
        if (errno != 0) {
            return -errno;
        }
        nic.acknowledge();
        int n = 0;
        while (n < most && queue.take(wcs + (long) WorkCompletion.BYTES * n)) {
            n++;
        }
        takes += n > 0 ? 1 : 0;
        return n;
    }

    @Override
    public synchronized int requestNotification(long cq) {
        handles.get(cq, Cq.class).armed = true;
        return injected("ibv_req_notify_cq");
    }

    @Override
    public synchronized int destroyCq(long cq) {
        return destroy("ibv_destroy_cq", cq, handles.any(o -> o instanceof Qp q && q.cq == cq));
    }

    @Override
    public synchronized long createQp(long pd, long cq, VerbsQueuePairs.Capacity capacity) {
        mayFail("ibv_create_qp");
        if (capacity.inline() > mostInline) {
            throw failure("ibv_create_qp", Errno.EINVAL);
        }
        Qp qp = new Qp(byNumber.size(), pd, cq, capacity);
        byNumber.add(qp);
        return handles.add(qp);
    }

    @Override
    public synchronized int number(long qp) {
        return handles.get(qp, Qp.class).number;
    }

    private void move(Qp qp, int from, int to) {
        mayFail("ibv_modify_qp");
        if (qp.state != from) {
            throw failure("ibv_modify_qp", Errno.EINVAL);
        }
        qp.state = to;
    }

    @Override
    public synchronized void initialise(long qp, int port, int pkeyIndex, int access) {
        Qp pair = handles.get(qp, Qp.class);
        pair.pkey = pkeyIndex;
        if (pkeyIndex >= PKEYS) {
            throw failure("ibv_modify_qp", Errno.EINVAL);
        }
        move(pair, VerbsQueuePairs.IBV_QPS_RESET, VerbsQueuePairs.IBV_QPS_INIT);
        pair.access = access;
    }

    @Override
    public synchronized void readyToReceive(long qp, VerbsQueuePairs.Receiving receiving) {
        Qp pair = handles.get(qp, Qp.class);
        move(pair, VerbsQueuePairs.IBV_QPS_INIT, VerbsQueuePairs.IBV_QPS_RTR);
        pair.peer = receiving;
    }

    @Override
    public synchronized void readyToSend(long qp, VerbsQueuePairs.Sending sending) {
        Qp pair = handles.get(qp, Qp.class);
        move(pair, VerbsQueuePairs.IBV_QPS_RTR, VerbsQueuePairs.IBV_QPS_RTS);
        pair.reads = sending.reads();
        pair.sending = sending;
    }

    @Override
    public synchronized int fail(long qp) {
        nic.fail(handles.get(qp, Qp.class), WorkCompletion.IBV_WC_WR_FLUSH_ERR);
        return injected("ibv_modify_qp");
    }

    @Override
    public synchronized int postSend(long qp, long wr) {
        int errno = injected("ibv_post_send");
        if (errno != 0) {
            return errno;
        }
        Qp pair = handles.get(qp, Qp.class);
        posts++;
        for (long at = wr; at != 0; at = SendRequest.next(at)) {
            if (pair.state < VerbsQueuePairs.IBV_QPS_RTS) {
                return Errno.EINVAL;
            }
            if (pair.sends == pair.capacity.sends()) {
                misuse("a send queue of " + pair.sends + " requests is full");
                return Errno.ENOMEM;
            }
            pair.sends++;
            nic.add(pair, at);
            requests++;
            reads += SendRequest.opcode(at) == SendRequest.IBV_WR_RDMA_READ ? 1 : 0;
        }
        nic.deliver();
        return 0;
    }

    @Override
    public synchronized int postReceive(long qp, long wr) {
        int errno = injected("ibv_post_recv");
        if (errno != 0) {
            return errno;
        }
        Qp pair = handles.get(qp, Qp.class);
        for (long at = wr; at != 0; at = ReceiveRequest.next(at)) {
            if (pair.receives == pair.capacity.receives()) {
                misuse("a receive queue of " + pair.receives + " requests is full");
                return Errno.ENOMEM;
            }
            pair.receives++;
        }
        return 0;
    }

    @Override
    public synchronized int destroyQp(long qp) {
        Qp pair = handles.get(qp, Qp.class);
        int errno = destroy("ibv_destroy_qp", qp, false);
        if (errno == 0) {
            byNumber.set(pair.number, null);
            nic.forget(pair);
        }
        return errno;
    }

    @Override
    public synchronized int asyncDescriptor(long context) {
        return handles.get(context, Context.class).descriptor;
    }

    @Override
    public synchronized @Nullable AsyncEvent asyncEvent(long context) {
        Context found = handles.get(context, Context.class);
        mayFail("ibv_get_async_event");
        long unused = EventFd.drain(found.descriptor);
        return found.events.pollFirst();
    }
}
