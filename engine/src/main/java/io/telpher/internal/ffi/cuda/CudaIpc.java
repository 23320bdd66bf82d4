package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.invoke.MethodHandle;

/// Legacy CUDA IPC: handles of whole `cuMemAlloc` allocations, and of events, as 64 bytes that any
/// process of the host with the same GPUs may open. A process cannot open its own.
public final class CudaIpc {
    public static final int CU_IPC_HANDLE_SIZE = 64;
    public static final int CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1;

    /// `struct CUipcMemHandle_st` and `struct CUipcEventHandle_st`, passed by value
    private static final StructLayout HANDLE =
            MemoryLayout.structLayout(MemoryLayout.sequenceLayout(CU_IPC_HANDLE_SIZE, JAVA_BYTE));

    private static final FunctionDescriptor GET =
            FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG);

    /// `CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)`
    private static final MethodHandle GET_MEM_HANDLE = Cuda.link(GET, "cuIpcGetMemHandle");

    /// `CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int
    /// Flags)`
    private static final MethodHandle OPEN_MEM_HANDLE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, HANDLE, JAVA_INT),
                    "cuIpcOpenMemHandle_v2");

    /// `CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)`
    private static final MethodHandle CLOSE_MEM_HANDLE =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG), "cuIpcCloseMemHandle");

    /// `CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)`
    private static final MethodHandle GET_EVENT_HANDLE = Cuda.link(GET, "cuIpcGetEventHandle");

    /// `CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)`
    private static final MethodHandle OPEN_EVENT_HANDLE =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, ADDRESS, HANDLE), "cuIpcOpenEventHandle");

    private CudaIpc() {}

    /// Writes the handle of the allocation that `address` lies in, whole, into `handle` (64 bytes).
    /// Returns 0 or minus the driver's code: memory of virtual memory management and of pools has
    /// no such handle.
    public static int tryGetMemHandle(long address, byte[] handle) {
        return tryGet(GET_MEM_HANDLE, address, handle);
    }

    /// Maps another process's allocation into the current context and returns where it begins, or
    /// minus the driver's code. The same handle opened again gives the same address, and is
    /// counted.
    public static long tryOpenMemHandle(byte[] handle) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(JAVA_LONG);
            int result =
                    (int)
                            OPEN_MEM_HANDLE.invokeExact(
                                    out, struct(arena, handle), CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
            return result == CudaError.CUDA_SUCCESS ? out.get(JAVA_LONG, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Takes back one [#tryOpenMemHandle]. Work that still uses the memory must be done.
    public static void closeMemHandle(long address) {
        try {
            int result = (int) CLOSE_MEM_HANDLE.invokeExact(address);
            CudaError.check(result, "cuIpcCloseMemHandle", address);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Writes the handle of an interprocess event into `handle` (64 bytes). Returns 0 or minus the
    /// driver's code.
    public static int tryGetEventHandle(long event, byte[] handle) {
        return tryGet(GET_EVENT_HANDLE, event, handle);
    }

    /// Another process's event, to be destroyed like one's own, or minus the driver's code.
    public static long tryOpenEventHandle(byte[] handle) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(JAVA_LONG);
            int result = (int) OPEN_EVENT_HANDLE.invokeExact(out, struct(arena, handle));
            return result == CudaError.CUDA_SUCCESS ? out.get(JAVA_LONG, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static int tryGet(MethodHandle function, long object, byte[] handle) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(HANDLE);
            int result = (int) function.invokeExact(out, object);
            if (result == CudaError.CUDA_SUCCESS) {
                MemorySegment.copy(out, JAVA_BYTE, 0, handle, 0, CU_IPC_HANDLE_SIZE);
            }
            return -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static MemorySegment struct(Arena arena, byte[] handle) {
        MemorySegment struct = arena.allocate(HANDLE);
        MemorySegment.copy(handle, 0, struct, JAVA_BYTE, 0, CU_IPC_HANDLE_SIZE);
        return struct;
    }
}
