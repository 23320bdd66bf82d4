/// Hand-written FFM bindings to AMD's HIP runtime (`libamdhip64`), as far as
/// `io.telpher.internal.device.hip` calls it.
///
/// **Unproven**: nobody has run this on an AMD GPU. What is known to hold is what a machine without
/// one can show: the library of ROCm 5.2 has every function that is called here and says that there
/// is no device; constants and prototypes are those of its headers; every call goes through on a
/// library of the tests' own. The rules are those of `io.telpher.internal.ffi.cuda`; system
/// property `telpher.hip.library` names the library's file.
@NullMarked
package io.telpher.internal.ffi.hip;

import org.jspecify.annotations.NullMarked;
