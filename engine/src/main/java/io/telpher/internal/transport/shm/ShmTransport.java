package io.telpher.internal.transport.shm;

import io.telpher.internal.device.Intermediates;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.spi.Availability;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Transport;
import io.telpher.spi.TransportEndpoint;
import java.util.List;

/// The same-host transport, `shm`: the first choice for peers under the same kernel.
public final class ShmTransport implements Transport {
    /// The transport's name.
    public static final String NAME = "shm";

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public List<String> paths() {
        return List.of(
                "self",
                "mapped",
                "cma",
                "shm-ring",
                "cuda-direct",
                "cuda-cumem",
                "cuda-ipc",
                Intermediates.PATH,
                "hip-direct");
    }

    @Override
    public int rank() {
        return 10;
    }

    @Override
    public Availability probe() {
        int fd = Memory.memfdCreate("telpher-probe", Memory.MFD_CLOEXEC | Memory.MFD_ALLOW_SEALING);
        if (fd < 0) {
            return new Availability.Missing(
                    "memfd_create: " + Errno.describe(-fd),
                    fd == -Errno.EMFILE || fd == -Errno.ENFILE
                            ? "raise the limit on open files (ulimit -n)"
                            : "allow memfd_create in the container's seccomp profile");
        }
        Mapping.closeDescriptor(fd);
        return new Availability.Available("memfd, Unix sockets");
    }

    @Override
    public TransportEndpoint open(EndpointContext context) {
        return ShmEndpoint.open(context);
    }
}
