package io.telpher.internal.transport.tcp;

/// Where a peer says that it listens: an address that means the same when it is written again, or
/// an [IllegalArgumentException].
public final class TcpLocatorFuzz {
    private TcpLocatorFuzz() {}

    /// @param data the bytes of a locator
    public static void fuzzerTestOneInput(byte[] data) {
        NetAddress address;
        try {
            address = NetAddress.decode(data);
        } catch (IllegalArgumentException e) {
            return;
        }
        if (!address.covers(address.ip())) {
            throw new AssertionError(address.subnetText() + " does not cover itself");
        }
        // A name that is no text has become longer, perhaps longer than a locator can say.
        if (address.nic().indexOf('\ufffd') < 0
                && !NetAddress.decode(address.encode()).equals(address)) {
            throw new AssertionError(address + " was read again as another");
        }
    }
}
