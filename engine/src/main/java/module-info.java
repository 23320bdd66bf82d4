import org.jspecify.annotations.NullMarked;

/// The Telpher engine: moves bytes between processes, hosts and accelerators.
@NullMarked
@SuppressWarnings("module") // the tools' module is compiled after this one
module io.telpher.engine {
    // Transitive, since the annotations stand in the public API; static, since nobody must have
    // them.
    requires static transitive org.jspecify;

    // Part of every JDK, and small. Nothing else brings it into a module graph, so without this a
    // recording that is started later would miss the engine's events. A class path does without.
    requires jdk.jfr;

    // Topologies are in NCCL's XML.
    requires java.xml;

    exports io.telpher;
    exports io.telpher.sim;
    exports io.telpher.spi;
    exports io.telpher.topology;

    // Diagnosis looks below the API: it makes the same system calls as the transports do, and reads
    // the addresses that they exchange. The bridge to Python asks which allocation an address of a
    // device lies in, and lends the memory of regions to arrays.
    exports io.telpher.internal.device to
            io.telpher.cli,
            io.telpher.python;
    exports io.telpher.internal.ffi.cuda to
            io.telpher.cli;
    exports io.telpher.internal.ffi.hip to
            io.telpher.cli;
    exports io.telpher.internal.ffi.linux to
            io.telpher.cli;
    exports io.telpher.internal.ffi.verbs to
            io.telpher.cli;
    exports io.telpher.internal.memory to
            io.telpher.cli,
            io.telpher.python;
    exports io.telpher.internal.observe to
            io.telpher.cli;
    exports io.telpher.internal.transport.tcp to
            io.telpher.cli;
    exports io.telpher.internal.transport.verbs to
            io.telpher.cli;
    exports io.telpher.internal.wire to
            io.telpher.cli;

    uses io.telpher.spi.Transport;

    provides io.telpher.spi.Transport with
            io.telpher.internal.transport.shm.ShmTransport,
            io.telpher.internal.transport.tcp.TcpTransport,
            io.telpher.internal.transport.verbs.VerbsTransport;
}
