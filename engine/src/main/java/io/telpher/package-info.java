/// The public API: an [io.telpher.Endpoint] registers memory, connects to peers, and moves bytes.
@NullMarked
package io.telpher;

import org.jspecify.annotations.NullMarked;
