package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.VerbsDevices;
import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.internal.observe.Log;
import io.telpher.spi.EndpointContext;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// An open device of one endpoint: its context, a protection domain for all lanes, its asynchronous
/// events. Thread-safe. Shared by the endpoint and everything that is made on the device: whoever
/// lets go of it last closes it. A lane may outlive the endpoint for a moment, such as one that a
/// control thread still connects; new ones are refused by then.
///
/// What cannot be destroyed keeps what it uses, the device included, until the process ends: the
/// device may still write there.
final class Device implements AutoCloseable {
    private static final Path LIMITS = Path.of("/proc/self/limits");

    private final Provider provider;
    private final EndpointContext endpoint;
    private final String name;
    private final long context;
    private final long pd;
    private final VerbsDevices.Attributes attributes;
    private final int events;

    // Guarded by this.

    /// The endpoint, while it is open, and what was made here.
    private int users = 1;

    private boolean closing;

    /// The queue pairs, each by its own handle and by that of its completion queue.
    private final Map<Long, QueuePair> byElement = new HashMap<>();

    private @Nullable String failure;

    /// What requests can carry by themselves, as far as is known. Anybody's.
    private volatile int mostInline = Integer.MAX_VALUE;

    /// @throws TelpherException.NativeFailure when the device does not let itself be opened
    Device(Provider provider, EndpointContext endpoint, String name) {
        this.provider = provider;
        this.endpoint = endpoint;
        this.name = name;
        this.context = provider.open(name);
        long domain = 0;
        try {
            this.attributes = provider.attributes(context);
            domain = provider.allocatePd(context);
            this.pd = domain;
            this.events = provider.asyncDescriptor(context);
            endpoint.watch(events, this::takeEvents);
        } catch (RuntimeException e) {
            if (domain == 0 || ended("ibv_dealloc_pd", provider.deallocatePd(domain))) {
                boolean unused = ended("ibv_close_device", provider.close(context));
            }
            throw e;
        }
    }

    Provider provider() {
        return provider;
    }

    String name() {
        return name;
    }

    long context() {
        return context;
    }

    long pd() {
        return pd;
    }

    VerbsDevices.Attributes attributes() {
        return attributes;
    }

    /// @return bytes that a request can carry by itself, as far as is known
    int mostInline() {
        return mostInline;
    }

    /// A queue pair could be made with so many and not with more.
    void limitInline(int bytes) {
        mostInline = bytes;
    }

    /// Keeps the device open until [#release].
    ///
    /// @throws TelpherException.Closed when the endpoint has let go of it
    synchronized void retain() {
        if (closing) {
            throw new TelpherException.Closed(name + ": the endpoint was closed");
        }
        users++;
    }

    void release() {
        boolean last;
        synchronized (this) {
            last = --users == 0;
        }
        if (last && ended("ibv_dealloc_pd", provider.deallocatePd(pd))) {
            boolean unused = ended("ibv_close_device", provider.close(context));
        }
    }

    /// Lets queue pairs know what the device tells of them, until [#forget].
    synchronized void remember(QueuePair queuePair, long qp, long cq) {
        byElement.put(qp, queuePair);
        byElement.put(cq, queuePair);
        if (failure != null) {
            queuePair.broken(failure);
        }
    }

    /// Before the queue pair is destroyed: its handles may be another one's at once.
    synchronized void forget(QueuePair queuePair) {
        byElement.values().removeIf(each -> each == queuePair);
    }

    /// Whether one of its ports is among those to use, be it active or not.
    boolean mayBeUsed(IbSettings settings) {
        boolean any = false;
        for (int number = 1; number <= attributes.ports(); number++) {
            any |= settings.allows(name, number);
        }
        return any;
    }

    /// Ports and GIDs as they are now.
    ///
    /// @param remarks gets a line for each port that is left out, such as one that cannot be asked
    List<Rail> rails(IbSettings settings, List<String> remarks) {
        List<Rail> rails = new ArrayList<>();
        String useless;
        synchronized (this) {
            useless = closing ? "the endpoint was closed" : failure;
            if (useless == null) {
                users++;
            }
        }
        if (useless != null) {
            remarks.add(name + ": " + useless);
            return rails;
        }
        try {
            addRails(settings, rails, remarks);
        } finally {
            release();
        }
        return rails;
    }

    private void addRails(IbSettings settings, List<Rail> rails, List<String> remarks) {
        for (int number = 1; number <= attributes.ports(); number++) {
            if (!settings.allows(name, number)) {
                remarks.add("%s/%d: not among the ports to use".formatted(name, number));
                continue;
            }
            try {
                addRails(number, settings, rails, remarks);
            } catch (TelpherException.NativeFailure e) {
                // Of this device alone: other ones and other transports go on.
                remarks.add("%s/%d: %s".formatted(name, number, e.getMessage()));
            }
        }
    }

    private void addRails(int number, IbSettings settings, List<Rail> rails, List<String> remarks) {
        VerbsPorts.Attributes port = provider.port(context, number);
        if (port.state() != VerbsPorts.IBV_PORT_ACTIVE) {
            remarks.add("%s/%d: not active".formatted(name, number));
            return;
        }
        boolean ethernet = port.linkLayer() == VerbsPorts.IBV_LINK_LAYER_ETHERNET;
        List<VerbsPorts.Gid> gids =
                Gids.usable(provider.gids(context, number), ethernet, settings.gidIndex());
        if (gids.isEmpty()) {
            remarks.add(
                    "%s/%d: no %s GID%s%s"
                            .formatted(
                                    name,
                                    number,
                                    ethernet ? "RoCE v2" : "InfiniBand",
                                    settings.gidIndex() < 0
                                            ? ""
                                            : " at index " + settings.gidIndex(),
                                    ethernet ? "; give its interface an address" : ""));
        }
        for (VerbsPorts.Gid gid : gids) {
            rails.add(
                    new Rail(
                            name,
                            number,
                            ethernet,
                            gid.gid(),
                            gid.index(),
                            provider.prefix(gid),
                            port.lid(),
                            port.activeMtu(),
                            Speeds.mbps(port.width(), port.speed()),
                            (port.flags() & VerbsPorts.IBV_QPF_GRH_REQUIRED) != 0));
        }
    }

    /// Registers memory of this process.
    ///
    /// @param access `IBV_ACCESS_` bits
    /// @throws TelpherException.NativeFailure when the kernel or the device refuses; where the
    ///     limit on locked memory may be the reason, with its value and the remedy
    Provider.Registration register(long address, long bytes, int access) {
        try {
            return provider.register(pd, address, bytes, access);
        } catch (TelpherException.NativeFailure e) {
            throw explained(e, bytes + " bytes");
        }
    }

    /// What the kernel pins for the device counts against a limit: the memory that is registered,
    /// and what the provider allocates for queues.
    ///
    /// @param what it was for
    /// @return the failure with that limit and the remedy, where they may be the reason
    TelpherException.NativeFailure explained(TelpherException.NativeFailure e, String what) {
        if (!isShortage(e)) {
            return e;
        }
        TelpherException.NativeFailure explained =
                new TelpherException.NativeFailure(
                        e.call(),
                        e.errno(),
                        e.arguments(),
                        "%s for %s on %s; RLIMIT_MEMLOCK is %s: raise it (ulimit -l unlimited,"
                                        .formatted(
                                                Errno.describe(e.errno()),
                                                what,
                                                name,
                                                lockedLimit())
                                + " LimitMEMLOCK=infinity, --ulimit memlock=-1)");
        explained.addSuppressed(e);
        return explained;
    }

    /// Whether memory that can be pinned has run out, it may be.
    static boolean isShortage(TelpherException.NativeFailure e) {
        return e.errno() == Errno.ENOMEM || e.errno() == Errno.EAGAIN;
    }

    private static String lockedLimit() {
        try {
            for (String line : Files.readAllLines(LIMITS)) {
                if (line.startsWith("Max locked memory")) {
                    String[] words =
                            line.substring("Max locked memory".length()).strip().split(" +");
                    return words[0].equals("unlimited") ? words[0] : words[0] + " bytes";
                }
            }
        } catch (IOException e) {
            Log.debug("no " + LIMITS, e);
        }
        return "unknown";
    }

    /// On the progress thread. Under the lock, so that nothing is closed that events are taken
    /// from, and no queue pair is made that has the handle of one whose event was just taken.
    private synchronized void takeEvents() {
        if (closing) {
            return;
        }
        try {
            Provider.AsyncEvent event;
            while ((event = provider.asyncEvent(context)) != null) {
                Log.warning("RDMA device %s: %s".formatted(name, event.text()), null);
                if (event.fatal()) {
                    broken(event);
                }
            }
        } catch (TelpherException.NativeFailure e) {
            // A device that was pulled out. The descriptor would stay readable for ever.
            endpoint.unwatch(events);
            fail("its events cannot be read: " + e.getMessage());
        }
    }

    private void broken(Provider.AsyncEvent event) {
        if (event.element() == 0) {
            fail(event.text());
            return;
        }
        QueuePair queuePair = byElement.get(event.element());
        if (queuePair != null) {
            queuePair.told(event.element(), event.text());
        }
    }

    private void fail(String why) {
        String reason = "the device %s failed: %s".formatted(name, why);
        failure = reason;
        byElement.values().forEach(queuePair -> queuePair.broken(reason));
    }

    /// The endpoint lets go of it.
    @Override
    public void close() {
        synchronized (this) {
            closing = true;
        }
        endpoint.unwatch(events);
        release();
    }

    /// What ends things does not throw, so that the rest is ended too; but it is not silent. What
    /// is left keeps the device open.
    ///
    /// @param error 0 or the errno of the call
    /// @return whether it was ended
    boolean ended(String call, int error) {
        if (error == 0) {
            return true;
        }
        synchronized (this) {
            users++;
        }
        Log.warning(
                "%s on %s failed: %s; what it uses is kept until the process ends, since the device"
                                .formatted(call, name, Errno.describe(error))
                        + " may still write there",
                null);
        return false;
    }

    @Override
    public String toString() {
        return name;
    }
}
