/// `telpher soak`: random operations and faults over real processes of this host, for as long as
/// one likes, with every byte checked. `docs/soak.md` says who decides what, and how a checker
/// knows what is right while ranks are killed.
///
/// The driver ([io.telpher.cli.soak.Soak]) starts the ranks, does harm to them, and judges. A rank
/// ([io.telpher.cli.soak.SoakRank]) has a [io.telpher.cli.soak.Side] for each path; two sides talk
/// by a [io.telpher.cli.soak.Conversation] at each end of their connection.
@NullMarked
package io.telpher.cli.soak;

import org.jspecify.annotations.NullMarked;
