package io.telpher.bootstrap;

/// A rendezvous server in a process of its own.
final class ServerMain {
    private ServerMain() {}

    /// @param args the port
    public static void main(String[] args) throws InterruptedException {
        try (RendezvousServer server =
                RendezvousServer.listen(Integer.parseInt(args[0]), Fixtures.secret())) {
            System.out.println("listening " + server.port());
            Thread.sleep(Long.MAX_VALUE);
        }
    }
}
