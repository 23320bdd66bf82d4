/// Hand-written FFM bindings to libibverbs (`libibverbs.so.1` of rdma-core), for x86-64 and
/// aarch64.
///
/// The rules of this package:
///
/// - Nothing here needs an RDMA device or the library to be loaded. [Verbs#availability] opens it
///   at the first call and says what is missing; ask it before anything else. A call without its
///   library throws [io.telpher.TelpherException.Unsupported] with the reason and the remedy; so
///   does a function that the installed version lacks.
/// - A call that makes or changes something and fails throws
///   [io.telpher.TelpherException.NativeFailure] with the function, its arguments and errno.
///   Methods named `try...` are for callers that decide themselves: they return the value, or
///   minus errno. Calls that destroy something, and the operations of [VerbsOperations], return
///   what the C function does: 0 or the errno.
/// - Contexts, protection domains, memory regions, channels, completion queues and queue pairs are
///   the addresses of the library's structures, as `long`s. Whoever made a thing destroys it,
///   once; this package keeps no lists. An address that was destroyed must not come back: the
///   library would read freed memory.
/// - Memory that a device works on is an address and a length. The caller keeps it alive while it
///   is registered, and while a request that names it has not completed.
/// - Everything is thread-safe as in C: one queue pair or completion queue may be used by several
///   threads, which the provider's lock lines up.
/// - Operations allocate nothing. Requests and completions ([SendRequest], [ReceiveRequest],
///   [Sge], [WorkCompletion]) are C structs in memory that the caller keeps for them, read and
///   written by address.
///
/// What the header has as inline functions (`ibv_post_send`, `ibv_post_recv`, `ibv_poll_cq`,
/// `ibv_req_notify_cq`) goes through the function pointers of the context, as the header's own
/// code does. Every offset, constant and prototype is compared with the header by a test.
@NullMarked
package io.telpher.internal.ffi.verbs;

import org.jspecify.annotations.NullMarked;
