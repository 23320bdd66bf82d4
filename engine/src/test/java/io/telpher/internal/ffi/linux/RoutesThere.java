package io.telpher.internal.ffi.linux;

import java.net.InetAddress;
import java.net.NetworkInterface;

/// What [RouteLookupTest] asks in another network namespace.
public final class RoutesThere {
    private RoutesThere() {}

    /// Prints for each question whether there is a route.
    ///
    /// @param args an interface, its address and a target each
    public static void main(String[] args) throws Exception {
        for (int i = 0; i < args.length; i += 3) {
            int nic = NetworkInterface.getByName(args[i]).getIndex();
            InetAddress source = InetAddress.ofLiteral(args[i + 1]);
            InetAddress target = InetAddress.ofLiteral(args[i + 2]);
            System.out.println(RouteLookup.leads(nic, source, target));
        }
    }
}
