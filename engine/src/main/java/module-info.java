import org.jspecify.annotations.NullMarked;

/// The Telpher engine: moves bytes between processes, hosts and accelerators.
@NullMarked
module io.telpher.engine {
    // Transitive, since the annotations stand in the public API; static, since nobody must have
    // them.
    requires static transitive org.jspecify;

    exports io.telpher;
    exports io.telpher.spi;

    uses io.telpher.spi.Transport;

    provides io.telpher.spi.Transport with
            io.telpher.internal.transport.shm.ShmTransport,
            io.telpher.internal.transport.tcp.TcpTransport;
}
