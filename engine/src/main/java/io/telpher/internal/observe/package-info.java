/// How other processes see the counters of this one.
///
/// The progress thread writes a snapshot of all endpoints into an anonymous file: every ten seconds
/// while nobody looks, and about once a second for some minutes after a reader has asked
/// ([MetricsPage]). A reader finds that file among the descriptors of the process
/// ([MetricsReader]), so that the kernel decides who may look, nothing has a name in any folder,
/// and nothing is left when the process is killed.
///
/// ```
/// offset 0        magic (8 bytes), version (4), 0 (4), sequence (8), asked (8)
/// offset 4 KiB    slot 0: sequence (8), time (8), length (4), CRC32C of the body (4), body
/// offset 8 MiB    slot 1: the same
/// ```
///
/// Snapshot n goes into slot n mod 2, then n into the sequence: what the sequence names is whole at
/// any moment, also when the writer is stopped or killed in the middle of the next. `asked` belongs
/// to the readers: each writes a value of its own, and the writer sees that it is another one. Who
/// may read but not write gets the seldom snapshots. All numbers are
/// big-endian. Both sides use read and write calls: a mapping would end a reader by SIGBUS when
/// somebody shortens the file.
@NullMarked
package io.telpher.internal.observe;

import org.jspecify.annotations.NullMarked;
