package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.Availability;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;
import java.util.List;
import java.util.stream.Collectors;

/// The library as a whole, opened at the first question about it. System property
/// `telpher.verbs.library` names another file than `libibverbs.so.1`.
public final class Verbs {
    /// The property that names the library's file.
    public static final String LIBRARY_PROPERTY = "telpher.verbs.library";

    private static final NativeLibrary LIBRARY =
            NativeLibrary.open(
                    "libibverbs",
                    LIBRARY_PROPERTY,
                    List.of("libibverbs.so.1"),
                    "install rdma-core (apt-get install ibverbs-providers, or dnf install"
                            + " libibverbs)");

    private static final StructLayout STATE = Linker.Option.captureStateLayout();
    private static final long ERRNO = STATE.byteOffset(PathElement.groupElement("errno"));
    private static final ThreadLocal<MemorySegment> CURRENT_STATE =
            ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(STATE));

    private Verbs() {}

    /// Whether the library and the kernel work, and there is a device. Asks anew each time, since
    /// devices come and go. Any thread, no exception.
    public static Availability availability() {
        if (!(LIBRARY.availability() instanceof Availability.Available(String path))) {
            return LIBRARY.availability();
        }
        List<VerbsDevices.Device> devices;
        try {
            devices = VerbsDevices.list();
        } catch (TelpherException.NativeFailure e) {
            return new Availability.Missing(
                    "no RDMA in this kernel: %s says %s".formatted(path, e.getMessage()),
                    "load the modules of the device and ib_uverbs (modprobe ib_uverbs)");
        }
        if (devices.isEmpty()) {
            return new Availability.Missing(
                    "libibverbs (" + path + ") sees no RDMA device",
                    "see what 'rdma link' lists; load the device's module and install its provider"
                            + " (ibverbs-providers); in a container, give it /dev/infiniband");
        }
        return new Availability.Available(
                devices.stream()
                        .map(VerbsDevices.Device::name)
                        .collect(Collectors.joining(", ", "libibverbs (" + path + "): ", "")));
    }

    /// Whether the library has this function.
    public static boolean has(String symbol) {
        return LIBRARY.has(symbol);
    }

    /// Where the calling thread's downcalls leave errno.
    static MemorySegment state() {
        return CURRENT_STATE.get();
    }

    static MethodHandle link(FunctionDescriptor descriptor, String symbol) {
        return LIBRARY.linkErrno(descriptor, symbol);
    }

    /// Links a function that cannot fail.
    static MethodHandle linkPlain(FunctionDescriptor descriptor, String symbol) {
        return LIBRARY.link(descriptor, symbol);
    }

    /// A pointer, or minus errno for a null pointer.
    static long pointer(long returned, MemorySegment state) {
        return returned == 0 ? -errno(state) : returned;
    }

    /// 0 or the errno: verbs return it, except some that return -1 and set it.
    static int error(int returned, MemorySegment state) {
        return returned == -1 ? errno(state) : Math.abs(returned);
    }

    /// Throws unless `error` is 0.
    static void check(int error, String call, Object... arguments) {
        if (error != 0) {
            throw Errno.failure(error, call, arguments);
        }
    }

    /// Throws for minus errno, returns everything else.
    static long checked(long result, String call, Object... arguments) {
        if (result < 0) {
            throw Errno.failure(result, call, arguments);
        }
        return result;
    }

    /// A provider that fails without an errno must not look like success.
    private static int errno(MemorySegment state) {
        int errno = state.get(JAVA_INT, ERRNO);
        return errno > 0 ? errno : Errno.EIO;
    }
}
