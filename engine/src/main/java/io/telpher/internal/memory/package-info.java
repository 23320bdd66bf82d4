/// Memory that Telpher allocates itself.
@NullMarked
package io.telpher.internal.memory;

import org.jspecify.annotations.NullMarked;
