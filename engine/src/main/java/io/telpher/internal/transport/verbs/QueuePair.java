package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.internal.ffi.verbs.VerbsDevices;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.observe.Log;
import java.security.SecureRandom;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/// A queue pair of type RC with a completion queue and a channel of its own, and the reason of its
/// end: the first one counts. Made and closed by one thread; what lies between is its user's, but
/// for [#broken]. Whoever closes it has taken it from its user before; a call that comes all the
/// same is refused with EBADF, since the library would touch memory that it has unmapped.
final class QueuePair {
    /// What a queue pair is made for.
    ///
    /// @param use what it does, for people
    /// @param sends requests that the send queue holds
    /// @param receives requests that the receive queue holds
    /// @param inline bytes that a request is to carry by itself, where the device can
    /// @param access `IBV_ACCESS_` bits: what the far end may do
    /// @param renewed whether its user has it made anew when a request is refused, and so wants to
    ///     know which: what the device tells of the queue pair is no [#failure] then, but a
    ///     [#rumour]
    record Shape(String use, int sends, int receives, int inline, int access, boolean renewed) {}

    /// What the device has told of the queue pair.
    ///
    /// @param since when that was
    private record Rumour(String reason, long since) {}

    /// Reads at a time of a queue pair that makes none: devices want at least one.
    static final int NO_READS = 1;

    /// Routers that packets may pass.
    private static final int HOPS = 64;

    /// Receives are always posted: these would only count where the far end breaks the protocol,
    /// whose lane ends then.
    private static final int NOT_READY_TIMER = 12;

    private static final int NOT_READY_RETRIES = 1;

    /// Bytes of inline data that are tried where a device has less than a shape wants: some have
    /// 96, 101 or 48.
    private static final int[] SMALLER = {96, 64, 48, 32};

    private static final SecureRandom RANDOM = new SecureRandom();

    private final Provider provider;
    private final Device device;
    private final Rail rail;
    private final IbSettings settings;
    private final boolean renewed;
    private final int psn = RANDOM.nextInt(1 << 24);
    private final AtomicReference<@Nullable String> failure = new AtomicReference<>();
    private volatile @Nullable Rumour rumour;

    /// Readable once the device has told that this is of no use any more: a completion may never
    /// come then.
    private final int alarm;

    // 0 where there is none, or none any more.
    private long channel;
    private long cq;
    private long qp;

    private int number;
    private int inline;

    /// Makes it, in the state INIT.
    ///
    /// @throws TelpherException.NativeFailure when a verb fails
    /// @throws TelpherException.Unsupported when the device's queues are too short
    /// @throws TelpherException.Closed when the endpoint has let go of the device
    QueuePair(Device device, Rail rail, IbSettings settings, Shape shape) {
        this.provider = device.provider();
        this.device = device;
        this.rail = rail;
        this.settings = settings;
        this.renewed = shape.renewed();
        VerbsDevices.Attributes limits = device.attributes();
        int longer = Math.max(shape.sends(), shape.receives());
        int completions = shape.sends() + shape.receives();
        if (limits.maxQpWr() < longer || limits.maxCqe() < completions) {
            throw new TelpherException.Unsupported(
                    "%s: queues of %d requests and %d completions; %s needs %d and %d"
                            .formatted(
                                    device,
                                    limits.maxQpWr(),
                                    limits.maxCqe(),
                                    shape.use(),
                                    longer,
                                    completions));
        }
        boolean made = false;
        device.retain();
        alarm = EventFd.create();
        try {
            if (alarm < 0) {
                throw Errno.failure(alarm, "eventfd");
            }
            channel = provider.createChannel(device.context());
            try {
                cq = provider.createCq(device.context(), completions, channel);
                create(shape);
            } catch (TelpherException.NativeFailure e) {
                throw device.explained(
                        e,
                        "%s (%d send and %d receive requests)"
                                .formatted(shape.use(), shape.sends(), shape.receives()));
            }
            number = provider.number(qp);
            device.remember(this, qp, cq);
            provider.initialise(qp, rail.port(), settings.pkeyIndex(), shape.access());
            made = true;
        } finally {
            if (!made) {
                boolean unused = close(); // what is left uses nothing of the caller's
            }
        }
    }

    /// With as much inline data as the device has room for, which it does not tell otherwise. Which
    /// error says that there is too little is the provider's choice; one that says that memory has
    /// run out tells nothing of the device.
    private void create(Shape shape) {
        TelpherException.NativeFailure first = null;
        int most = Math.min(shape.inline(), device.mostInline());
        for (int bytes = most; ; bytes = less(bytes)) {
            try {
                qp = provider.createQp(device.pd(), cq, capacity(shape, bytes));
                inline = bytes;
                if (bytes < most) {
                    device.limitInline(bytes);
                }
                return;
            } catch (TelpherException.NativeFailure e) {
                if (bytes == 0 || Device.isShortage(e)) {
                    if (first != null) {
                        e.addSuppressed(first);
                    }
                    throw e;
                }
                first = first == null ? e : first;
            }
        }
    }

    /// @return how many bytes to try where so many are too many
    private static int less(int inline) {
        for (int bytes : SMALLER) {
            if (bytes < inline) {
                return bytes;
            }
        }
        return 0;
    }

    private static VerbsQueuePairs.Capacity capacity(Shape shape, int inline) {
        return new VerbsQueuePairs.Capacity(shape.sends(), shape.receives(), 1, 1, inline);
    }

    /// Lets it receive, then send.
    ///
    /// @param reads how many reads each side has under way at a time
    /// @throws TelpherException.NativeFailure when the peer's address cannot be resolved, or
    ///     another reason of the kernel
    void connect(Offer peer, int reads) {
        long pair = qp;
        if (pair == 0) {
            throw Errno.failure(Errno.EBADF, "ibv_modify_qp", number);
        }
        VerbsQueuePairs.Path path =
                new VerbsQueuePairs.Path(
                        rail.port(),
                        rail.gidIndex(),
                        peer.gid(),
                        peer.lid(),
                        rail.ethernet() || rail.global() || peer.global(),
                        HOPS,
                        settings.trafficClass(),
                        settings.serviceLevel());
        int mtu = Math.min(peer.mtu(), rail.mtu());
        provider.readyToReceive(
                pair,
                new VerbsQueuePairs.Receiving(
                        path, mtu, peer.qpn(), peer.psn(), reads, NOT_READY_TIMER));
        provider.readyToSend(
                pair,
                new VerbsQueuePairs.Sending(
                        psn, settings.timeout(), settings.retries(), NOT_READY_RETRIES, reads));
    }

    Provider provider() {
        return provider;
    }

    Device device() {
        return device;
    }

    Rail rail() {
        return rail;
    }

    int psn() {
        return psn;
    }

    /// @return nanoseconds that its device takes to send again what was lost
    long repeatNanos() {
        return settings.repeatNanos();
    }

    /// @return its 24-bit number, which may be another one's once this is closed
    int number() {
        return number;
    }

    /// @return most bytes that a request carries by itself
    int inline() {
        return inline;
    }

    /// @return a descriptor that becomes readable with what [#requestNotification] asked for, or
    ///     `-EBADF`
    int descriptor() {
        long of = channel;
        return of == 0 ? -Errno.EBADF : provider.descriptor(of);
    }

    /// @return a descriptor that becomes readable with [#broken], and stays so until [#takeAlarm]
    int alarm() {
        return alarm;
    }

    /// @return 0 or an errno
    int postSend(long wr) {
        long to = qp;
        return to == 0 ? Errno.EBADF : provider.postSend(to, wr);
    }

    /// @return 0 or an errno
    int postReceive(long wr) {
        long to = qp;
        return to == 0 ? Errno.EBADF : provider.postReceive(to, wr);
    }

    /// @return how many completions, negative when the queue failed
    int poll(int most, long wcs) {
        long from = cq;
        return from == 0 ? -Errno.EBADF : provider.pollCq(from, most, wcs);
    }

    /// @return whether a completion that comes from now on makes the descriptor readable
    boolean requestNotification() {
        long of = cq;
        int error = of == 0 ? Errno.EBADF : provider.requestNotification(of);
        if (error != 0) {
            fail("ibv_req_notify_cq failed: " + Errno.describe(error));
        }
        return error == 0;
    }

    /// Empties the channel.
    void takeEvents() {
        long from = channel;
        int taken = from == 0 ? -Errno.EBADF : provider.takeEvents(from);
        if (taken < 0) {
            fail("ibv_get_cq_event failed: " + Errno.describe(taken));
        }
    }

    /// Notes why it is of no use any more; the first reason stays.
    void fail(String reason) {
        failure.compareAndSet(null, rail + ": " + reason);
    }

    /// As [#fail], by what the device tells of itself: any thread, until [#close]. Wakes the lane.
    void broken(String reason) {
        fail(reason);
        int unused = EventFd.signal(alarm);
    }

    /// The device tells that the queue pair, or its completion queue, is in error. Some devices
    /// tell of the queue pair whenever a request is refused, before the completion that says which:
    /// so of one that is renewed this is a rumour at first. Completions follow, since everything
    /// that was posted ends in the error state. Under the device's monitor, which keeps it open.
    ///
    /// @param element the handle of the queue pair or of the completion queue
    void told(long element, String reason) {
        if (!renewed || element != qp || rumour != null) {
            broken(reason);
            return;
        }
        rumour = new Rumour(rail + ": " + reason, System.nanoTime());
        int error = provider.fail(element); // it is in error already, or will be now
        if (error != 0) {
            fail("%s; ibv_modify_qp to ERR failed: %s".formatted(reason, Errno.describe(error)));
        }
        int unused = EventFd.signal(alarm);
    }

    /// @return what the device has told of the queue pair and no completion has explained yet
    @Nullable String rumour() {
        Rumour heard = rumour;
        return heard == null ? null : heard.reason();
    }

    /// @return nanoseconds since the [#rumour], 0 where there is none
    long rumourAge() {
        Rumour heard = rumour;
        return heard == null ? 0 : System.nanoTime() - heard.since();
    }

    /// Whoever heard the [#alarm] does no more for it. Not after [#close].
    void takeAlarm() {
        long unused = EventFd.drain(alarm);
    }

    @Nullable String failure() {
        return failure.get();
    }

    /// Ends it; once. What cannot be destroyed is told, and keeps what it uses.
    ///
    /// @return whether the queue pair is gone: then nothing of the process's memory is touched on
    ///     its behalf any more, and nothing that the peer sends arrives
    boolean close() {
        try {
            return destroy();
        } finally {
            device.release();
        }
    }

    private boolean destroy() {
        device.forget(this);
        if (alarm >= 0) {
            Descriptors.close(alarm);
        }
        long pair = qp;
        long completions = cq;
        long events = channel;
        qp = 0;
        cq = 0;
        channel = 0;
        if (pair != 0) {
            int error = provider.fail(pair);
            if (error != 0) {
                Log.debug("ibv_modify_qp to ERR failed: " + Errno.describe(error), null);
            }
            if (!device.ended("ibv_destroy_qp", provider.destroyQp(pair))) {
                return false;
            }
        }
        if (completions != 0) {
            provider.takeEvents(events); // those that are not acknowledged would be waited for
            if (!device.ended("ibv_destroy_cq", provider.destroyCq(completions))) {
                return true;
            }
        }
        if (events != 0) {
            boolean unused =
                    device.ended("ibv_destroy_comp_channel", provider.destroyChannel(events));
        }
        return true;
    }
}
