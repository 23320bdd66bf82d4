/// `telpher doctor` and `telpher explain`: what works on this machine, what does not, and what to
/// do about it.
///
/// A [io.telpher.cli.doctor.Check] reads a [io.telpher.cli.doctor.Host] and gives
/// [io.telpher.cli.doctor.Finding]s. The host is a folder that holds `/proc` and `/sys`, an
/// environment, network interfaces, and [io.telpher.cli.doctor.Probes]: what can only be known by
/// trying. So each check can be shown machines that are broken in ways that the one at hand is not.
///
/// Nothing is believed from a flag that can be tried: a second process is started, and memory is
/// really copied into it.
@NullMarked
package io.telpher.cli.doctor;

import org.jspecify.annotations.NullMarked;
