package io.telpher.internal.wire;

import io.telpher.EndpointAddress;
import java.util.Arrays;

/// Whatever the bytes: they are an address that leads back to the same bytes, or an
/// [IllegalArgumentException] that speaks of an address.
public final class AddressFuzz {
    private AddressFuzz() {}

    /// @param data the bytes of an address
    public static void fuzzerTestOneInput(byte[] data) {
        AddressCodec.Address address;
        try {
            address = AddressCodec.decode(data);
        } catch (IllegalArgumentException e) {
            if (!String.valueOf(e.getMessage()).contains("address")) {
                throw e;
            }
            return;
        }
        byte[] encoded = AddressCodec.encode(address);
        AddressCodec.Address again = AddressCodec.decode(encoded);
        if (!again.peer().equals(address.peer())
                || !Arrays.equals(again.secret(), address.secret())) {
            throw new AssertionError(address + " became " + again);
        }
        EndpointAddress shown = EndpointAddress.ofBytes(encoded);
        if (!EndpointAddress.parse(shown.text()).equals(shown)) {
            throw new AssertionError("the text form of " + shown + " leads elsewhere");
        }
    }
}
