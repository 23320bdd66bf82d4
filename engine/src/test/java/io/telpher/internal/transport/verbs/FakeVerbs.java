package io.telpher.internal.transport.verbs;

import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.transport.verbs.FakeObjects.Channel;
import io.telpher.internal.transport.verbs.FakeObjects.Context;
import io.telpher.internal.transport.verbs.FakeObjects.FakePort;
import io.telpher.internal.transport.verbs.FakeObjects.Qp;
import io.telpher.spi.Availability;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/// The double of libibverbs, and what tests do to it: every call can be made to fail once, each
/// link to carry nothing, devices to tell what they tell of themselves.
public final class FakeVerbs extends FakeLibrary {
    /// The one of this process.
    static final FakeVerbs HERE = new FakeVerbs();

    /// Whether this machine has devices.
    private static final Provider SYSTEM = new SystemProvider();

    private static final boolean REAL =
            SYSTEM.availability() instanceof Availability.Available && hasActivePort(SYSTEM);

    private FakeVerbs() {
        reset();
    }

    /// Whether a device opens and one of its ports is up.
    static boolean hasActivePort(Provider provider) {
        for (String device : provider.devices()) {
            long context = 0;
            try {
                context = provider.open(device);
                for (int port = 1; port <= provider.attributes(context).ports(); port++) {
                    if (provider.port(context, port).state() == VerbsPorts.IBV_PORT_ACTIVE) {
                        return true;
                    }
                }
            } catch (TelpherException.NativeFailure e) {
                continue; // of no use to tests either
            } finally {
                if (context != 0) {
                    int unused = provider.close(context);
                }
            }
        }
        return false;
    }

    /// Whether tests of the transport run on devices of this machine, not on the double: there is
    /// one with RC queue pairs whose port is up.
    public static boolean isReal() {
        return REAL;
    }

    /// Opens an endpoint; one that may use no other transport and has no device, on the double.
    public static Endpoint open(EndpointOptions options) {
        if (!options.transports().equals(List.of(VerbsTransport.NAME))) {
            return Endpoint.open(options);
        }
        if (REAL && RdmaNode.isHere()) {
            return RdmaNode.open(options);
        }
        return open(options, REAL ? SYSTEM : HERE);
    }

    /// Opens an endpoint on the double, with variables.
    static Endpoint open(EndpointOptions options, Provider provider, Map<String, String> settings) {
        synchronized (HERE) {
            Function<String, @Nullable String> before = VerbsTransport.environment;
            VerbsTransport.environment = settings::get;
            try {
                return open(options, provider);
            } finally {
                VerbsTransport.environment = before;
            }
        }
    }

    /// Opens an endpoint on a provider.
    static Endpoint open(EndpointOptions options, Provider provider) {
        synchronized (HERE) {
            Provider before = VerbsTransport.provider;
            VerbsTransport.provider = provider;
            try {
                return Endpoint.open(options);
            } finally {
                VerbsTransport.provider = before;
            }
        }
    }

    // --- what tests do --------------------------------------------------------------------------

    /// Two devices with one port each, each link a subnet of its own.
    synchronized void reset() {
        ports.clear();
        failing.clear();
        called.clear();
        misuses.clear();
        longestRegion = 1L << 40;
        mostInline = 256;
        holding = false;
        lazy = false;
        rumoured = 0;
        nic.forgetKept();
        nic.failNext(-1);
        addDevice(0);
        addDevice(1);
    }

    /// One more device, with a subnet of its own.
    synchronized void addDevice(int index) {
        FakePort port = new FakePort();
        port.gids.add(gid(0, VerbsPorts.IBV_GID_TYPE_ROCE_V1, 10, 77, index, 1));
        port.gids.add(gid(3, VerbsPorts.IBV_GID_TYPE_ROCE_V2, 10, 77, index, 1));
        ports.put("fake" + index, port);
    }

    /// One more device, in a subnet of others.
    ///
    /// @return its port
    synchronized FakePort addDevice(String name, VerbsPorts.Gid gid) {
        FakePort port = new FakePort();
        port.gids.add(gid);
        ports.put(name, port);
        return port;
    }

    /// One more device, on InfiniBand.
    ///
    /// @return its port
    synchronized FakePort addInfiniBand(String name, int lid) {
        byte[] gid = new byte[16];
        gid[0] = (byte) 0xfe;
        gid[1] = (byte) 0x80;
        gid[15] = (byte) lid;
        FakePort port =
                addDevice(name, new VerbsPorts.Gid(1, 0, VerbsPorts.IBV_GID_TYPE_IB, 0, gid));
        port.ethernet = false;
        port.lid = lid;
        return port;
    }

    /// The double with one of its devices: one host's.
    static Provider only(String device) {
        return Altered.provider(HERE, "devices", (usual, none) -> List.of(device));
    }

    /// A GID that holds an IPv4 address.
    static VerbsPorts.Gid gid(int index, int type, int... ip) {
        byte[] gid = new byte[16];
        gid[10] = (byte) 0xff;
        gid[11] = (byte) 0xff;
        for (int i = 0; i < 4; i++) {
            gid[12 + i] = (byte) ip[i];
        }
        return new VerbsPorts.Gid(1, index, type, 1, gid);
    }

    synchronized FakePort port(String device) {
        return ports.get(device);
    }

    synchronized void removeDevice(String device) {
        ports.remove(device);
    }

    /// Lets nothing arrive at or leave a device, or everything again.
    synchronized void silence(String device, boolean silent) {
        port(device).silent = silent;
        nic.deliver();
    }

    /// Lets nothing of what bears no immediate value arrive, which is all of one-sided transfers,
    /// or everything again.
    synchronized void holdOneSided(boolean hold) {
        holding = hold;
        nic.deliver();
    }

    /// Lets devices keep what is written without an immediate value, as long as they may: until
    /// they answer a read, or bring something with an immediate value. What another device does is
    /// no reason for them.
    synchronized void beLazy() {
        lazy = true;
    }

    /// Lets a device carry so many bytes of one-sided transfers in a millisecond, and counts them.
    synchronized void pace(String device, long bytes) {
        port(device).bytesEachTick = bytes;
        port(device).allowed = 0;
        port(device).carried = 0;
        port(device).ahead = 0;
    }

    /// Lets a device carry so many bytes in a millisecond from now on, and goes on counting.
    synchronized void quicken(String device, long bytes) {
        port(device).bytesEachTick = bytes;
    }

    /// @return bytes of one-sided transfers that a device has posted and carried since [#pace]
    synchronized long carried(String device) {
        return port(device).carried;
    }

    /// @return bytes of one-sided transfers that were posted to a device since [#pace] before it
    ///     had carried the first request
    synchronized long ahead(String device) {
        return port(device).ahead;
    }

    /// @return bytes of one-sided transfers that all devices have carried since [#pace]
    synchronized long carried() {
        return ports.values().stream().mapToLong(port -> port.carried).sum();
    }

    /// @return whether nothing of one-sided transfers was posted to a device and not carried yet
    synchronized boolean isIdle(String device) {
        return nic.isIdle(port(device));
    }

    /// Makes the next call of a verb fail.
    synchronized void failNext(String verb, int errno) {
        failing.put(verb, errno);
    }

    /// @return the verbs that are still to fail
    synchronized Set<String> unfailed() {
        return Set.copyOf(failing.keySet());
    }

    /// @return the verbs that were called since [#reset()]
    synchronized Set<String> called() {
        return Set.copyOf(called);
    }

    /// @return every object that was made and not destroyed
    synchronized List<Object> left() {
        return handles.all(Object.class);
    }

    /// As the kernel does when a process ends.
    synchronized void forgetAll() {
        handles.all(Qp.class).forEach(nic::forget);
        handles.all(Channel.class).forEach(channel -> Descriptors.close(channel.descriptor));
        handles.all(Context.class).forEach(context -> Descriptors.close(context.descriptor));
        handles.forgetAll();
        Collections.fill(byNumber, null);
        Collections.fill(byKey, null);
    }

    /// @return what no program should have done
    synchronized List<String> misuses() {
        return List.copyOf(misuses);
    }

    /// Moves every queue pair of a device into the error state, as a cable that is cut for long
    /// does.
    synchronized void breakQueuePairs(String device) {
        for (Qp qp : byNumber) {
            if (qp != null && deviceOf(qp).equals(device)) {
                nic.fail(qp, WorkCompletion.IBV_WC_RETRY_EXC_ERR);
            }
        }
    }

    /// Tells something of a device: an asynchronous event for everybody who has opened it.
    synchronized void tell(String device, String text, boolean fatal) {
        for (Context context : handles.all(Context.class)) {
            if (context.device.equals(device)) {
                tell(context, new AsyncEvent(text, fatal, 0));
            }
        }
    }

    /// Tells of each queue pair of a device, or of its completion queue, that it is of no use.
    void tellOfQueues(String device, String text, boolean completion) {
        tellOfQueues(text, completion, qp -> deviceOf(qp).equals(device));
    }

    /// Tells of each queue pair of a device by which peers' memory is reached, that it is of no
    /// use.
    void tellOfActive(String device, String text) {
        tellOfQueues(text, false, qp -> isActive(qp, device));
    }

    /// Tells of each queue pair of a device that has requests under way by which peers' memory is
    /// reached.
    void tellOfBusy(String device, String text) {
        tellOfQueues(text, false, qp -> isActive(qp, device) && qp.sends > 0);
    }

    private boolean isActive(Qp qp, String device) {
        return deviceOf(qp).equals(device) && qp.access == VerbsMemory.IBV_ACCESS_LOCAL_WRITE;
    }

    private synchronized void tellOfQueues(String text, boolean completion, Predicate<Qp> which) {
        for (Qp qp : handles.all(Qp.class)) {
            if (which.test(qp)) {
                tellOf(qp, completion, text);
            }
        }
    }

    /// Lets devices tell of a queue pair when one of its requests is refused, so many milliseconds
    /// before its completions come.
    synchronized void spreadRumours(int milliseconds) {
        rumoured = milliseconds;
    }

    /// Lets each queue pair of a device receive a message where a record is expected.
    synchronized void sendMessages(String device) {
        for (Qp qp : handles.all(Qp.class)) {
            if (deviceOf(qp).equals(device)) {
                qp.receives--;
                complete(qp, 0, WorkCompletion.IBV_WC_SUCCESS, WorkCompletion.IBV_WC_RECV, 0, 0);
            }
        }
    }

    /// Forgets the access to all registered memory of a device.
    synchronized void revokeKeys(String device) {
        byKey.replaceAll(r -> r != null && device(r.pd()).equals(device) ? null : r);
    }

    /// Lets devices that are opened from now on register so many bytes at a time.
    synchronized void limitRegions(long bytes) {
        longestRegion = bytes;
    }

    /// Lets requests carry so many bytes by themselves, and no more.
    synchronized void limitInline(int bytes) {
        mostInline = bytes;
    }

    /// Lets the next requests of an opcode complete with errors.
    synchronized void failNextRequest(int opcode, int... statuses) {
        nic.failNext(opcode, statuses);
    }

    /// @return every queue pair that was connected and is there
    synchronized List<Qp> connected() {
        return handles.all(Qp.class).stream().filter(qp -> qp.sending != null).toList();
    }

    /// @return send requests that were posted
    synchronized long requests() {
        return requests;
    }

    /// @return those among them that read
    synchronized long reads() {
        return reads;
    }

    /// @return calls that requests have cost: of `ibv_post_send`, and of `ibv_poll_cq` where that
    ///     found something
    synchronized long calls() {
        return posts + takes;
    }

    /// @return calls of `ibv_post_send`
    synchronized long posts() {
        return posts;
    }
}
