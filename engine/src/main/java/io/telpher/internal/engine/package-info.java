/// The engine: endpoints, connections, operations, matching, striping, fencing, liveness, progress.
@NullMarked
package io.telpher.internal.engine;

import org.jspecify.annotations.NullMarked;
