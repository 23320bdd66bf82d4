/// The same-host transport: rings in shared memory carry frames, and peers reach each other's
/// regions by mapping them or by `process_vm_writev`.
///
/// Start reading at [io.telpher.internal.transport.shm.ShmEndpoint]. A link starts as a Unix socket
/// ([io.telpher.internal.transport.shm.UnixChannel]); both sides pass descriptors over it
/// ([io.telpher.internal.transport.shm.LinkSetup]) and keep it open as the sign of life
/// ([io.telpher.internal.transport.shm.ShmLink]). Frames go through
/// [io.telpher.internal.transport.shm.ShmRingLane]. One-sided access is announced in
/// [io.telpher.internal.transport.shm.HazardPage] and permitted by
/// [io.telpher.internal.transport.shm.RegionEntries], so that an owner can take memory back.
@NullMarked
package io.telpher.internal.transport.shm;

import org.jspecify.annotations.NullMarked;
