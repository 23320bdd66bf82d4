package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.List;

/// Modules (compiled code in a context), their functions, and launches.
public final class CudaModules {
    public static final int CU_JIT_ERROR_LOG_BUFFER = 5;
    public static final int CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6;

    public static final int CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
    public static final int CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1;
    public static final int CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3;
    public static final int CU_FUNC_ATTRIBUTE_NUM_REGS = 4;
    public static final int CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6;
    public static final int CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;

    private static final int JIT_LOG_BYTES = 16 << 10;

    /// `CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
    /// CUjit_option *options, void **optionValues)`
    private static final MethodHandle LOAD_DATA =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT, ADDRESS, ADDRESS),
                    "cuModuleLoadDataEx");

    /// `CUresult cuModuleUnload(CUmodule hmod)`
    private static final MethodHandle UNLOAD =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG), "cuModuleUnload");

    /// `CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)`
    private static final MethodHandle GET_FUNCTION =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS),
                    "cuModuleGetFunction");

    /// `CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)`
    private static final MethodHandle GET_ATTRIBUTE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_LONG),
                    "cuFuncGetAttribute");

    /// `CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)`
    private static final MethodHandle SET_ATTRIBUTE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT),
                    "cuFuncSetAttribute");

    /// `CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int
    /// blockSize, size_t dynamicSMemSize)`
    private static final MethodHandle OCCUPANCY =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT, JAVA_LONG),
                    "cuOccupancyMaxActiveBlocksPerMultiprocessor");

    /// `CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
    /// unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int
    /// blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void
    /// **extra)`
    private static final MethodHandle LAUNCH_KERNEL =
            Cuda.link(
                    FunctionDescriptor.of(
                            JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT,
                            JAVA_INT, JAVA_INT, JAVA_LONG, ADDRESS, JAVA_LONG),
                    "cuLaunchKernel");

    private CudaModules() {}

    /// Loads a cubin, fat binary or PTX text into the current context. What the driver's compiler
    /// says of PTX stands in the exception.
    public static long load(byte[] image) {
        try (Arena arena = Arena.ofConfined()) {
            // PTX ends with a zero byte; the other kinds know their size.
            MemorySegment copy = arena.allocate(image.length + 1L, 16);
            MemorySegment.copy(image, 0, copy, JAVA_BYTE, 0, image.length);
            MemorySegment log = arena.allocate(JIT_LOG_BYTES);
            MemorySegment options =
                    arena.allocateFrom(
                            JAVA_INT, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
            MemorySegment values = arena.allocateFrom(JAVA_LONG, log.address(), log.byteSize());
            MemorySegment out = arena.allocate(JAVA_LONG);
            int result = (int) LOAD_DATA.invokeExact(out, copy, 2, options, values);
            if (result != CudaError.CUDA_SUCCESS) {
                String said = log.getString(0).strip();
                throw new TelpherException.NativeFailure(
                        "cuModuleLoadDataEx",
                        result,
                        List.of(image.length + " bytes"),
                        CudaError.describe(result) + (said.isEmpty() ? "" : ": " + said));
            }
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Unloads the module. Its kernels must have ended.
    public static void unload(long module) {
        try {
            int result = (int) UNLOAD.invokeExact(module);
            CudaError.check(result, "cuModuleUnload", module);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The function of this name (for C++, the mangled one). Lives as long as the module.
    public static long function(long module, String name) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(JAVA_LONG);
            int result = (int) GET_FUNCTION.invokeExact(out, module, arena.allocateFrom(name));
            CudaError.check(result, "cuModuleGetFunction", module, name);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The value of a `CU_FUNC_ATTRIBUTE_`.
    public static int attribute(long function, int attribute) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_ATTRIBUTE.invokeExact(out, attribute, function);
            CudaError.check(result, "cuFuncGetAttribute", attribute, function);
            return out.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    public static void setAttribute(long function, int attribute, int value) {
        try {
            int result = (int) SET_ATTRIBUTE.invokeExact(function, attribute, value);
            CudaError.check(result, "cuFuncSetAttribute", function, attribute, value);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// How many blocks of this size one multiprocessor can hold at a time.
    public static int maxActiveBlocks(long function, int threads, long dynamicSharedBytes) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) OCCUPANCY.invokeExact(out, function, threads, dynamicSharedBytes);
            CudaError.check(
                    result,
                    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                    function,
                    threads,
                    dynamicSharedBytes);
            return out.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Starts `blocks` blocks of `threads` threads each. Allocates nothing.
    public static void launch(
            long function,
            int blocks,
            int threads,
            int dynamicSharedBytes,
            long stream,
            KernelArguments arguments) {
        try {
            int result =
                    (int)
                            LAUNCH_KERNEL.invokeExact(
                                    function,
                                    blocks,
                                    1,
                                    1,
                                    threads,
                                    1,
                                    1,
                                    dynamicSharedBytes,
                                    stream,
                                    arguments.pointers(),
                                    0L);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(
                        result,
                        "cuLaunchKernel",
                        function,
                        blocks,
                        threads,
                        dynamicSharedBytes,
                        stream);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}
