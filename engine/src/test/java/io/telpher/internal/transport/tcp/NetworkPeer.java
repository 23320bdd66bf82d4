package io.telpher.internal.transport.tcp;

import io.telpher.EndpointOptions;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Lane;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import io.telpher.spi.Role;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/// The far side of [NetworkScenarios], in another network namespace: prints its locators, takes in
/// whatever comes and throws it away, until its standard input ends.
public final class NetworkPeer {
    private static final PeerAddress ANYBODY = new PeerAddress(0, HostIdentity.UNKNOWN, List.of());

    private NetworkPeer() {}

    /// @param args names or subnets of interfaces
    public static void main(String[] args) throws Exception {
        Thread.ofPlatform()
                .daemon()
                .start(
                        () -> {
                            try {
                                while (System.in.read() >= 0) {
                                    Thread.onSpinWait();
                                }
                            } catch (java.io.IOException e) {
                                // as its end
                            }
                            Runtime.getRuntime().halt(0);
                        });
        FakeContext context =
                new FakeContext(EndpointOptions.DEFAULTS.withInterfaces(List.of(args)));
        TcpEndpoint endpoint = TcpEndpoint.open(context);
        for (Locator locator : endpoint.locators()) {
            System.out.println(HexFormat.of().formatHex(locator.data()));
        }
        System.out.println("ready " + ProcessHandle.current().pid());
        List<Lane> lanes = new ArrayList<>();
        Receiver receiver =
                new Receiver() {
                    @Override
                    public boolean begin(MemorySegment header, long at, Placement placement) {
                        return true;
                    }

                    @Override
                    public void end(
                            MemorySegment header,
                            long at,
                            MemorySegment payload,
                            long payloadAt,
                            Placement placement) {}
                };
        while (true) {
            Channel channel = context.channels.poll();
            if (channel != null) {
                Deadline soon = Deadline.in(Duration.ofSeconds(5));
                lanes.add(endpoint.link(channel, Role.ACCEPTOR, ANYBODY, soon).lane());
            }
            lanes.removeIf(lane -> lane.poll(receiver, 4) == Lane.DEAD);
            Thread.sleep(1);
        }
    }
}
