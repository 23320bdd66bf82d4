package io.telpher.internal.transport.tcp;

import io.telpher.EndpointOptions;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.internal.ffi.linux.Sockets;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/// Uses up all descriptors of its process, which the caller has limited: a connection that comes in
/// then must be dropped instead of keeping the listener busy. Ends with status 0 if it is.
public final class DescriptorLimit {
    private static final int TRIES = 20;

    private DescriptorLimit() {}

    public static void main(String[] args) throws Exception {
        FakeContext context = new FakeContext(EndpointOptions.DEFAULTS);
        TcpEndpoint endpoint = TcpEndpoint.open(context);
        int port = NetAddress.decode(endpoint.locators().getFirst().data()).port();
        List<Integer> used = new ArrayList<>();
        // Whatever the first connection loads needs descriptors too.
        Descriptors.close(TcpPair.dial(port));
        context.next().close();
        useAll(used);
        int dialled = dialWithoutOneLeft(used, port);
        for (int i = 0; i < TRIES && awaitTaken(context); i++) {
            // The listener was quicker than this thread, and had one.
            context.next().close();
            Descriptors.close(dialled);
            useAll(used);
            dialled = dialWithoutOneLeft(used, port);
        }
        int events = Poll.poll(dialled, Poll.POLLIN, 5000);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment buffer = arena.allocate(1);
            long result = Sockets.recv(dialled, buffer, 1, 0);
            boolean taken = context.channels.poll() != null;
            if (events <= 0 || (result != 0 && result != -Errno.ECONNRESET) || taken) {
                System.out.println("events " + events + ", recv " + result + ", taken " + taken);
                System.exit(1);
            }
        }
        Descriptors.close(dialled);
        used.forEach(Descriptors::close);
        Descriptors.close(TcpPair.dial(port));
        context.next().close();
        System.exit(0);
    }

    private static void useAll(List<Integer> used) {
        int fd = Descriptors.duplicate(0);
        while (fd >= 0) {
            used.add(fd);
            fd = Descriptors.duplicate(0);
        }
    }

    /// The dialler needs two for a moment and keeps one.
    private static int dialWithoutOneLeft(List<Integer> used, int port) {
        Descriptors.close(used.removeLast());
        Descriptors.close(used.removeLast());
        int dialled = TcpPair.dial(port);
        useAll(used);
        return dialled;
    }

    /// Waits a moment for the listener to have seen the connection.
    private static boolean awaitTaken(FakeContext context) throws InterruptedException {
        for (int i = 0; i < 20 && context.channels.isEmpty(); i++) {
            Thread.sleep(10);
        }
        return !context.channels.isEmpty();
    }
}
