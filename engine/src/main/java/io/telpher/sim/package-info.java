/// The engine in virtual time, from a seed: hosts, links and their faults, for tests. Start with
/// [io.telpher.sim.Simulation]; `docs/simulation.md` says how it works and what it does not show.
@NullMarked
package io.telpher.sim;

import org.jspecify.annotations.NullMarked;
