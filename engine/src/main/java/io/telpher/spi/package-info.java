/// What a transport implements. A transport is found by [java.util.ServiceLoader], knows bytes and
/// links and nothing of transfers; the engine knows transfers and nothing of links.
///
/// A transport opens a [io.telpher.spi.TransportEndpoint] for each endpoint. That dials and accepts
/// [io.telpher.spi.Channel]s, over which the engine authenticates; an authenticated channel becomes
/// a [io.telpher.spi.Link]: one [io.telpher.spi.Lane] that carries frames, and, where the peer's
/// memory can be reached without the peer's help, [io.telpher.spi.Windows].
@NullMarked
package io.telpher.spi;

import org.jspecify.annotations.NullMarked;
