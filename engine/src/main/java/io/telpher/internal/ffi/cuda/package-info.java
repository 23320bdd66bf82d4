/// Hand-written FFM bindings to NVIDIA's driver API (`libcuda`), NVML (`libnvidia-ml`) and NVRTC
/// (`libnvrtc`), for x86-64 and aarch64.
///
/// The rules of this package:
///
/// - Nothing here needs a GPU to be loaded. [Cuda#availability], [Nvml#availability] and
///   [Nvrtc#availability] open their library at the first call and say what is missing; ask them
///   before anything else. A call without its library throws
///   [io.telpher.TelpherException.Unsupported] with the reason and the remedy; so does a function
///   that the installed version lacks, and `has` asks for one beforehand.
/// - Each library can be named by a system property, for tests and unusual installations:
///   `telpher.cuda.library`, `telpher.nvml.library`, `telpher.nvrtc.library`. The named file alone
///   counts then.
/// - A call that fails throws [io.telpher.TelpherException.NativeFailure] with the arguments and
///   the library's own name and text of the error; its number is the library's code. Methods named
///   `try...` and `query` are for callers that decide themselves: they return the value (0 where
///   there is none), or minus the library's code.
/// - Device pointers, contexts, streams, events, modules, functions and handles are `long`s,
///   devices are the driver's `int`s; nothing here makes device memory a segment. Whoever made a
///   thing destroys it; this package keeps no lists.
/// - Most driver calls act on the calling thread's current context ([CudaContexts#setCurrent]).
///   Threads change under a virtual thread, so use platform threads.
/// - Calls that are made per operation allocate nothing: [CudaCopies#copy], [CudaModules#launch],
///   [CudaStreams#writeValue64], [CudaStreams#query], [CudaEvents#record], [CudaEvents#query],
///   [CudaContexts#setCurrent]. None is `critical`: any driver call may wait for a lock or a full
///   queue.
@NullMarked
package io.telpher.internal.ffi.cuda;

import org.jspecify.annotations.NullMarked;
