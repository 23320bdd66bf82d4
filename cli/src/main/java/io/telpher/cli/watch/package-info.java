/// Looks at running processes from outside: `telpher top` and `telpher serve-metrics`. Both read
/// the snapshots that the engine publishes (`io.telpher.internal.observe`); neither disturbs a
/// process.
@NullMarked
package io.telpher.cli.watch;

import org.jspecify.annotations.NullMarked;
