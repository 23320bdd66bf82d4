/// The public API of the engine.
@NullMarked
package io.telpher;

import org.jspecify.annotations.NullMarked;
