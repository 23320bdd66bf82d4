package io.telpher.cli.doctor;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InterfaceAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/// A network interface that is up.
///
/// @param name its name
/// @param loopback whether it leads nowhere else
/// @param addresses its addresses with the lengths of their subnets' prefixes
record Nic(String name, boolean loopback, List<Subnet> addresses) {
    /// An address and how many of its leading bits name the subnet.
    record Subnet(InetAddress ip, int prefix) {
        boolean inet4() {
            return ip instanceof Inet4Address;
        }

        /// @return whether the other address lies in this one's subnet
        boolean covers(InetAddress other) {
            byte[] mine = ip.getAddress();
            byte[] its = other.getAddress();
            if (mine.length != its.length) {
                return false;
            }
            for (int bit = 0; bit < prefix; bit++) {
                if (((mine[bit / 8] ^ its[bit / 8]) & (0x80 >> bit % 8)) != 0) {
                    return false;
                }
            }
            return true;
        }

        @Override
        public String toString() {
            return ip.getHostAddress() + "/" + prefix;
        }
    }

    /// @return this machine's; none where no interface has an address, which Java reports as an
    ///     exception
    static List<Nic> here() {
        List<Nic> all = new ArrayList<>();
        try (Stream<NetworkInterface> nics = NetworkInterface.networkInterfaces()) {
            for (NetworkInterface nic : nics.toList()) {
                if (nic.isUp()) {
                    List<Subnet> addresses = new ArrayList<>();
                    for (InterfaceAddress a : nic.getInterfaceAddresses()) {
                        addresses.add(new Subnet(a.getAddress(), a.getNetworkPrefixLength()));
                    }
                    all.add(new Nic(nic.getName(), nic.isLoopback(), List.copyOf(addresses)));
                }
            }
        } catch (SocketException e) {
            return List.of();
        }
        return List.copyOf(all);
    }
}
