/// Lanes over RDMA: InfiniBand and RoCE v2, by libibverbs. See `docs/rdma.md`.
@NullMarked
package io.telpher.internal.transport.verbs;

import org.jspecify.annotations.NullMarked;
