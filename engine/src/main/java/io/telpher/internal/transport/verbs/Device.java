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
import java.util.List;
import org.jspecify.annotations.Nullable;

/// An open device of one endpoint: its context, a protection domain for all lanes, its asynchronous
/// events. Thread-safe. Lives as long as the endpoint; the lanes have been closed before.
final class Device implements AutoCloseable {
    private static final Path LIMITS = Path.of("/proc/self/limits");

    private final Provider provider;
    private final EndpointContext endpoint;
    private final String name;
    private final long context;
    private final long pd;
    private final VerbsDevices.Attributes attributes;
    private volatile @Nullable String failure;

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
            endpoint.watch(provider.asyncDescriptor(context), this::takeEvents);
        } catch (RuntimeException e) {
            if (domain != 0) {
                close("ibv_dealloc_pd", provider.deallocatePd(domain));
            }
            close("ibv_close_device", provider.close(context));
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

    /// @return why the device is of no use any more, or null
    @Nullable String failure() {
        return failure;
    }

    /// Ports and GIDs as they are now.
    ///
    /// @param remarks gets a line for each port that is left out, such as one that cannot be asked
    List<Rail> rails(IbSettings settings, List<String> remarks) {
        List<Rail> rails = new ArrayList<>();
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
        return rails;
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
                            Speeds.mbps(port.width(), port.speed())));
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
            if (e.errno() != Errno.ENOMEM && e.errno() != Errno.EAGAIN) {
                throw e;
            }
            throw new TelpherException.NativeFailure(
                    e.call(),
                    e.errno(),
                    "%s for %d bytes on %s; RLIMIT_MEMLOCK is %s: raise it (ulimit -l unlimited,"
                                    .formatted(
                                            Errno.describe(e.errno()), bytes, name, lockedLimit())
                            + " LimitMEMLOCK=infinity, --ulimit memlock=-1)");
        }
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

    /// On the progress thread.
    private void takeEvents() {
        Provider.AsyncEvent event;
        while ((event = provider.asyncEvent(context)) != null) {
            Log.warning("RDMA device %s: %s".formatted(name, event.text()), null);
            if (event.fatal()) {
                failure = "the device %s failed: %s".formatted(name, event.text());
            }
        }
    }

    @Override
    public void close() {
        endpoint.unwatch(provider.asyncDescriptor(context));
        close("ibv_dealloc_pd", provider.deallocatePd(pd));
        close("ibv_close_device", provider.close(context));
    }

    private void close(String call, int error) {
        ended(call + " of " + name, error);
    }

    /// What ends things does not throw, so that the rest is ended too; but it is not silent.
    static void ended(String call, int error) {
        if (error != 0) {
            Log.warning("%s failed: %s".formatted(call, Errno.describe(error)), null);
        }
    }

    @Override
    public String toString() {
        return name;
    }
}
