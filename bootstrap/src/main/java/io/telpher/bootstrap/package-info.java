/// Brings the ranks of a job together. [io.telpher.bootstrap.Group] is what most programs need;
/// [io.telpher.bootstrap.Rendezvous] is what it is made of.
///
/// How it works, and what each failure does, is written in `docs/bootstrap.md`. Inside,
/// `RendezvousClient` holds the logic of a member, `Store` is what a server offers it (`TcpStore`
/// and `Sessions` over Telpher's connections, `RedisStore` with a script), and `Ledger` is the
/// state of a job at the embedded server.
@NullMarked
package io.telpher.bootstrap;

import org.jspecify.annotations.NullMarked;
