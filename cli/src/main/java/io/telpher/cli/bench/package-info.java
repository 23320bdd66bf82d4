/// `telpher bench`: measures what an application sees of the engine, checks every byte that it
/// counts, and sets the figures beside those of other programs.
///
/// Start reading at [BenchCommand]. A run is a list of [Stage]s (one path, memory and set of
/// processes) with [Case]s (one operation, size and depth). [Bench] drives the processes; each of
/// them is a [Rank], which runs [Phase]s: the driver's own rank by direct calls, the others by
/// [Message]s over a [Control].
@NullMarked
package io.telpher.cli.bench;

import org.jspecify.annotations.NullMarked;
