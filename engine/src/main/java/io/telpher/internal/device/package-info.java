/// Memory of devices: what the engine needs of a GPU runtime, and the runtimes.
///
/// Start reading at [io.telpher.internal.device.GpuRuntime]. The engine sees these interfaces
/// only; the packages `internal.device.cuda` and `internal.device.hip` implement them. Device
/// addresses are plain `long`s here and never become segments.
@NullMarked
package io.telpher.internal.device;

import org.jspecify.annotations.NullMarked;
