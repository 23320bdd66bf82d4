package io.telpher.topology;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// Where a device is on the PCI bus: `0000:3b:00.0`.
///
/// @param domain 0 to 2^32 - 1; more than 16 bits behind some host bridges that software makes up
/// @param bus 0 to 255
/// @param device 0 to 31
/// @param function 0 to 7
public record PciAddress(long domain, int bus, int device, int function)
        implements Comparable<PciAddress> {
    private static final Pattern TEXT =
            Pattern.compile(
                    "(?:(\\p{XDigit}{1,8}):)?(\\p{XDigit}{1,2}):(\\p{XDigit}{1,2})\\.([0-7])");

    public PciAddress {
        if (domain < 0
                || domain > 0xffff_ffffL
                || bus < 0
                || bus > 255
                || device < 0
                || device > 31
                || function < 0
                || function > 7) {
            throw new IllegalArgumentException(
                    "no PCI address: domain %x, bus %x, device %x, function %x"
                            .formatted(domain, bus, device, function));
        }
    }

    /// Reads what the kernel, NVML and `lspci` write: four or eight digits of domain, or none.
    ///
    /// @throws IllegalArgumentException when it is none of these
    public static PciAddress parse(String text) {
        Matcher parts = TEXT.matcher(text.strip());
        if (!parts.matches()) {
            throw new IllegalArgumentException(
                    "'" + text + "' is no PCI address such as 0000:3b:00.0");
        }
        String domain = parts.group(1);
        return new PciAddress(
                domain == null ? 0 : Long.parseLong(domain, 16),
                Integer.parseInt(parts.group(2), 16),
                Integer.parseInt(parts.group(3), 16),
                Integer.parseInt(parts.group(4)));
    }

    /// @return whether [#parse(String)] reads it
    public static boolean matches(String text) {
        return TEXT.matcher(text.strip()).matches();
    }

    /// @return the address of another function of the same device
    public PciAddress withFunction(int other) {
        return new PciAddress(domain, bus, device, other);
    }

    @Override
    public int compareTo(PciAddress other) {
        int order = Long.compare(domain, other.domain);
        order = order != 0 ? order : Integer.compare(bus, other.bus);
        order = order != 0 ? order : Integer.compare(device, other.device);
        return order != 0 ? order : Integer.compare(function, other.function);
    }

    /// @return as the kernel writes it: `0000:3b:00.0`
    @Override
    public String toString() {
        return String.format(Locale.ROOT, "%04x:%02x:%02x.%d", domain, bus, device, function);
    }
}
