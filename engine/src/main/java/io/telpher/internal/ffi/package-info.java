/// What the bindings to optional libraries share. Each library has a package of its own below; how
/// libraries that may be missing are opened and linked is here.
@NullMarked
package io.telpher.internal.ffi;

import org.jspecify.annotations.NullMarked;
