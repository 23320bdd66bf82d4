/// What goes over the wire: addresses, the handshake, frames. `docs/protocol.md` has the pictures.
@NullMarked
package io.telpher.internal.wire;

import org.jspecify.annotations.NullMarked;
