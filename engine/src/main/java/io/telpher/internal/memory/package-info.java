/// Memory that Telpher allocates itself, and how what was taken is given back.
@NullMarked
package io.telpher.internal.memory;

import org.jspecify.annotations.NullMarked;
