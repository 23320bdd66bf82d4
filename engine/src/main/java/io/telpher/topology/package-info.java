/// The machine as a graph: GPUs, NVLinks, PCIe switches, NUMA nodes and network cards, and how far
/// they are from each other. `docs/topology.md` says what a node and a link are and how types come
/// about.
///
/// Everything here is immutable and may be shared between threads.
@NullMarked
package io.telpher.topology;

import org.jspecify.annotations.NullMarked;
