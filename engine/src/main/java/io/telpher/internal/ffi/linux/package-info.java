/// Hand-written FFM bindings to the few Linux and glibc functions that the engine needs, for x86-64
/// and aarch64.
///
/// The rules of this package:
///
/// - A call returns the result of the C function, or `-errno` when that failed. Nothing here throws
///   for a failed system call; only programming errors (a closed arena, a length beyond a segment)
///   are exceptions.
/// - Memory goes in as [java.lang.foreign.MemorySegment], so an arena cannot be closed under a
///   pending call. Where the addresses hide in an `iovec` or `msghdr`, the segment that owns them
///   goes along as `keep`, a trailing argument that the C function never looks at. Pass
///   [java.lang.foreign.MemorySegment#NULL] for memory that outlives the call anyway.
/// - Interrupted calls (`EINTR`) are repeated here, except `poll`, `epoll_wait` and `connect`,
///   which report it.
/// - A call that blocks holds its carrier: block on platform threads only.
@NullMarked
package io.telpher.internal.ffi.linux;

import org.jspecify.annotations.NullMarked;
