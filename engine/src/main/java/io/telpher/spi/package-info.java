/// What a transport implements.
@NullMarked
package io.telpher.spi;

import org.jspecify.annotations.NullMarked;
