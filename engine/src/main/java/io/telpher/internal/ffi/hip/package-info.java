/// Hand-written FFM bindings to AMD's HIP runtime (`libamdhip64`), as far as it goes without
/// hardware: it loads, counts devices and names them.
///
/// **Unproven**: nobody has run this on an AMD GPU. What is known to work is what a machine without
/// one can show: the library of ROCm 5.2 loads, has every function that is called here, and says
// that
/// there is no device. The rules are those of `io.telpher.internal.ffi.cuda`; system property
/// `telpher.hip.library` names the library's file.
@NullMarked
package io.telpher.internal.ffi.hip;

import org.jspecify.annotations.NullMarked;
