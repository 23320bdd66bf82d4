package io.telpher.spi;

import java.util.Arrays;

/// One entry of an endpoint address that one transport understands.
///
/// @param transport the transport's name
/// @param data its own encoding; at most 64 KiB
/// @param text for people
public record Locator(String transport, byte[] data, String text) {
    @Override
    public boolean equals(Object other) {
        return other instanceof Locator that
                && transport.equals(that.transport)
                && Arrays.equals(data, that.data)
                && text.equals(that.text);
    }

    @Override
    public int hashCode() {
        return transport.hashCode() * 31 + Arrays.hashCode(data);
    }

    @Override
    public String toString() {
        return text;
    }
}
