package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Protection domains and memory regions. Any thread.
public final class VerbsMemory {
    public static final int IBV_ACCESS_LOCAL_WRITE = 1;
    public static final int IBV_ACCESS_REMOTE_WRITE = 2;
    public static final int IBV_ACCESS_REMOTE_READ = 4;
    public static final int IBV_ACCESS_REMOTE_ATOMIC = 8;

    /// Lets writes of one request reach the memory in any order: a hint, which is left out where
    /// the library is too old for it.
    public static final int IBV_ACCESS_RELAXED_ORDERING = 1 << 20;

    /// The bits that a device may ignore.
    static final int IBV_ACCESS_OPTIONAL_RANGE = 0x3ff00000;

    /// `struct ibv_mr`: 16 addr   24 length   36 lkey   40 rkey
    static final int MR_LKEY = 36;

    static final int MR_RKEY = 40;

    /// `struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)`
    private static final MethodHandle ALLOC_PD =
            Verbs.link(FunctionDescriptor.of(JAVA_LONG, JAVA_LONG), "ibv_alloc_pd");

    /// `int ibv_dealloc_pd(struct ibv_pd *pd)`
    private static final MethodHandle DEALLOC_PD =
            Verbs.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG), "ibv_dealloc_pd");

    /// `struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)`
    private static final MethodHandle REG_MR =
            Verbs.link(
                    FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT),
                    "ibv_reg_mr");

    /// `struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t
    /// iova, unsigned int access)`
    private static final MethodHandle REG_MR_IOVA2 =
            Verbs.link(
                    FunctionDescriptor.of(
                            JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT),
                    "ibv_reg_mr_iova2");

    /// `struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
    /// uint64_t iova, int fd, int access)`
    private static final MethodHandle REG_DMABUF_MR =
            Verbs.link(
                    FunctionDescriptor.of(
                            JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT,
                            JAVA_INT),
                    "ibv_reg_dmabuf_mr");

    /// `int ibv_dereg_mr(struct ibv_mr *mr)`
    private static final MethodHandle DEREG_MR =
            Verbs.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG), "ibv_dereg_mr");

    private static final boolean HAS_OPTIONAL_ACCESS = Verbs.has("ibv_reg_mr_iova2");

    private VerbsMemory() {}

    public static long allocateProtectionDomain(long context) {
        try {
            MemorySegment state = Verbs.state();
            long domain = Verbs.pointer((long) ALLOC_PD.invokeExact(state, context), state);
            return Verbs.checked(domain, "ibv_alloc_pd", context);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Frees a domain that nothing uses any more. Returns 0 or the errno: EBUSY while it is used.
    public static int freeProtectionDomain(long domain) {
        try {
            MemorySegment state = Verbs.state();
            return Verbs.error((int) DEALLOC_PD.invokeExact(state, domain), state);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Pins memory of this process and makes it known to the device. Peers address it as this
    /// process does.
    ///
    /// @param access `IBV_ACCESS_`; remote writes and atomics need [#IBV_ACCESS_LOCAL_WRITE]
    /// @return the memory region, or minus errno: ENOMEM mostly means RLIMIT_MEMLOCK, EFAULT an
    ///     address that cannot be pinned
    public static long tryRegister(long domain, long address, long bytes, int access) {
        try {
            MemorySegment state = Verbs.state();
            boolean optional = (access & IBV_ACCESS_OPTIONAL_RANGE) != 0;
            long region =
                    optional && HAS_OPTIONAL_ACCESS
                            ? (long)
                                    REG_MR_IOVA2.invokeExact(
                                            state, domain, address, bytes, address, access)
                            : (long)
                                    REG_MR.invokeExact(
                                            state,
                                            domain,
                                            address,
                                            bytes,
                                            access & ~IBV_ACCESS_OPTIONAL_RANGE);
            return Verbs.pointer(region, state);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The same for memory behind a dma-buf descriptor, which the caller may close afterwards.
    ///
    /// @param offset where in the dma-buf the memory begins
    /// @param iova how requests address its first byte
    /// @return the memory region, or minus errno: EOPNOTSUPP from kernels and devices that cannot
    public static long tryRegisterDmaBuf(
            long domain, long offset, long bytes, long iova, int descriptor, int access) {
        try {
            MemorySegment state = Verbs.state();
            return Verbs.pointer(
                    (long)
                            REG_DMABUF_MR.invokeExact(
                                    state, domain, offset, bytes, iova, descriptor, access),
                    state);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Takes a memory region back. Requests of others that arrive later fail; none that is being
    /// worked on touches the memory once this has returned 0. Returns 0 or the errno.
    public static int deregister(long region) {
        try {
            MemorySegment state = Verbs.state();
            return Verbs.error((int) DEREG_MR.invokeExact(state, region), state);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The key by which requests of this process name a memory region.
    public static int localKey(long region) {
        return VerbsDevices.struct(region, MR_RKEY + 4).get(JAVA_INT, MR_LKEY);
    }

    /// The key by which peers name a memory region.
    public static int remoteKey(long region) {
        return VerbsDevices.struct(region, MR_RKEY + 4).get(JAVA_INT, MR_RKEY);
    }
}
