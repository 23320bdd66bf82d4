package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import io.telpher.spi.Availability;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.List;

/// NVRTC, NVIDIA's run-time compiler of CUDA C++. It needs no GPU. Opened at the first question
/// about it; system property `telpher.nvrtc.library` names one file instead of the places where
/// toolkits and PyPI's packages put it.
public final class Nvrtc {
    /// The property that names the library's file.
    public static final String LIBRARY_PROPERTY = "telpher.nvrtc.library";

    public static final int NVRTC_SUCCESS = 0;
    public static final int NVRTC_ERROR_INVALID_OPTION = 5;
    public static final int NVRTC_ERROR_COMPILATION = 6;

    private static final NativeLibrary LIBRARY =
            NativeLibrary.open(
                    "NVRTC",
                    LIBRARY_PROPERTY,
                    NvrtcFiles.candidates(),
                    "install it, such as by pip install nvidia-cuda-nvrtc-cu12 (or"
                            + " nvidia-cuda-nvrtc for CUDA 13), or name the file by -D"
                            + LIBRARY_PROPERTY);

    private static final FunctionDescriptor SIZE =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS);

    /// `const char *nvrtcGetErrorString(nvrtcResult result)`
    private static final MethodHandle GET_ERROR_STRING =
            link(FunctionDescriptor.of(ADDRESS, JAVA_INT), "nvrtcGetErrorString");

    /// `nvrtcResult nvrtcVersion(int *major, int *minor)`
    private static final MethodHandle VERSION =
            link(FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG), "nvrtcVersion");

    /// `nvrtcResult nvrtcGetNumSupportedArchs(int *numArchs)`
    private static final MethodHandle GET_NUM_SUPPORTED_ARCHS =
            link(FunctionDescriptor.of(JAVA_INT, ADDRESS), "nvrtcGetNumSupportedArchs");

    /// `nvrtcResult nvrtcGetSupportedArchs(int *supportedArchs)`
    private static final MethodHandle GET_SUPPORTED_ARCHS =
            link(FunctionDescriptor.of(JAVA_INT, ADDRESS), "nvrtcGetSupportedArchs");

    /// `nvrtcResult nvrtcCreateProgram(nvrtcProgram *prog, const char *src, const char *name, int
    /// numHeaders, const char * const *headers, const char * const *includeNames)`
    private static final MethodHandle CREATE_PROGRAM =
            link(
                    FunctionDescriptor.of(
                            JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_INT, JAVA_LONG, JAVA_LONG),
                    "nvrtcCreateProgram");

    /// `nvrtcResult nvrtcDestroyProgram(nvrtcProgram *prog)`
    private static final MethodHandle DESTROY_PROGRAM =
            link(FunctionDescriptor.of(JAVA_INT, ADDRESS), "nvrtcDestroyProgram");

    /// `nvrtcResult nvrtcCompileProgram(nvrtcProgram prog, int numOptions, const char * const
    /// *options)`
    private static final MethodHandle COMPILE_PROGRAM =
            link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, ADDRESS),
                    "nvrtcCompileProgram");

    /// `nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram prog, size_t *logSizeRet)`
    private static final MethodHandle GET_LOG_SIZE = link(SIZE, "nvrtcGetProgramLogSize");

    /// `nvrtcResult nvrtcGetProgramLog(nvrtcProgram prog, char *log)`
    private static final MethodHandle GET_LOG = link(SIZE, "nvrtcGetProgramLog");

    /// `nvrtcResult nvrtcGetPTXSize(nvrtcProgram prog, size_t *ptxSizeRet)`
    private static final MethodHandle GET_PTX_SIZE = link(SIZE, "nvrtcGetPTXSize");

    /// `nvrtcResult nvrtcGetPTX(nvrtcProgram prog, char *ptx)`
    private static final MethodHandle GET_PTX = link(SIZE, "nvrtcGetPTX");

    /// `nvrtcResult nvrtcGetCUBINSize(nvrtcProgram prog, size_t *cubinSizeRet)`
    private static final MethodHandle GET_CUBIN_SIZE = link(SIZE, "nvrtcGetCUBINSize");

    /// `nvrtcResult nvrtcGetCUBIN(nvrtcProgram prog, char *cubin)`
    private static final MethodHandle GET_CUBIN = link(SIZE, "nvrtcGetCUBIN");

    private Nvrtc() {}

    /// Whether NVRTC was found, with its version. Where the CUDA driver works, an NVRTC that is not
    /// newer than the driver is preferred, since the driver refuses what a newer one makes. Any
    /// thread, no exception.
    public static Availability availability() {
        return LIBRARY.availability() instanceof Availability.Available(String path)
                ? new Availability.Available("NVRTC " + versionText() + " (" + path + ")")
                : LIBRARY.availability();
    }

    /// NVRTC's version: 1000 * major + 10 * minor.
    public static int version() {
        MemorySegment out = Scratch.current();
        try {
            check((int) VERSION.invokeExact(out, out.address() + 4), "nvrtcVersion");
            return 1000 * out.get(JAVA_INT, 0) + 10 * out.get(JAVA_INT, 4);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The compute capabilities that it compiles for, 10 * major + minor each.
    public static int[] architectures() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment count = arena.allocate(JAVA_INT);
            check((int) GET_NUM_SUPPORTED_ARCHS.invokeExact(count), "nvrtcGetNumSupportedArchs");
            MemorySegment out = arena.allocate(JAVA_INT, count.get(JAVA_INT, 0));
            check((int) GET_SUPPORTED_ARCHS.invokeExact(out), "nvrtcGetSupportedArchs");
            return out.toArray(JAVA_INT);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// NVRTC's name for a result, or for minus a result, such as `NVRTC_ERROR_COMPILATION`.
    public static String errorString(int result) {
        try {
            return NativeLibrary.string(
                    (MemorySegment) GET_ERROR_STRING.invokeExact(Math.abs(result)));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Makes a program of a source text that includes no files. `name` shows in the compiler's
    /// messages.
    public static long create(String source, String name) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(JAVA_LONG);
            int result =
                    (int)
                            CREATE_PROGRAM.invokeExact(
                                    out,
                                    arena.allocateFrom(source),
                                    arena.allocateFrom(name),
                                    0,
                                    0L,
                                    0L);
            check(result, "nvrtcCreateProgram", name);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Compiles, for instance with `--gpu-architecture=sm_90`, which makes a cubin besides PTX.
    /// Returns 0 or minus NVRTC's code; [#log] says why.
    public static int tryCompile(long program, List<String> options) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment pointers = arena.allocate(ADDRESS, Math.max(1, options.size()));
            for (int i = 0; i < options.size(); i++) {
                pointers.setAtIndex(ADDRESS, i, arena.allocateFrom(options.get(i)));
            }
            return -(int) COMPILE_PROGRAM.invokeExact(program, options.size(), pointers);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// What the compiler said, warnings included.
    public static String log(long program) {
        byte[] log = bytes(GET_LOG_SIZE, GET_LOG, "nvrtcGetProgramLog", program);
        return text(log).strip();
    }

    /// The PTX text, without its final zero byte.
    public static String ptx(long program) {
        return text(bytes(GET_PTX_SIZE, GET_PTX, "nvrtcGetPTX", program));
    }

    /// The machine code; empty unless a real architecture (`sm_`) was compiled for.
    public static byte[] cubin(long program) {
        return bytes(GET_CUBIN_SIZE, GET_CUBIN, "nvrtcGetCUBIN", program);
    }

    public static void destroy(long program) {
        MemorySegment pointer = Scratch.current();
        pointer.set(JAVA_LONG, 0, program);
        try {
            check((int) DESTROY_PROGRAM.invokeExact(pointer), "nvrtcDestroyProgram", program);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static byte[] bytes(
            MethodHandle sizeFunction, MethodHandle function, String call, long program) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment size = arena.allocate(JAVA_LONG);
            check((int) sizeFunction.invokeExact(program, size), call + "Size", program);
            long bytes = size.get(JAVA_LONG, 0);
            if (bytes == 0) {
                return new byte[0];
            }
            MemorySegment out = arena.allocate(bytes);
            check((int) function.invokeExact(program, out), call, program);
            return out.toArray(JAVA_BYTE);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static String text(byte[] terminated) {
        return terminated.length == 0 ? "" : MemorySegment.ofArray(terminated).getString(0);
    }

    private static String versionText() {
        int version = version();
        return version / 1000 + "." + version % 1000 / 10;
    }

    private static void check(int result, String call, Object... arguments) {
        if (result != NVRTC_SUCCESS) {
            throw new TelpherException.NativeFailure(
                    call,
                    result,
                    NativeLibrary.arguments(arguments),
                    errorString(result) + " (" + result + ")");
        }
    }

    private static MethodHandle link(FunctionDescriptor descriptor, String symbol) {
        return LIBRARY.link(descriptor, symbol);
    }
}
