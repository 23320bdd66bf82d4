package io.telpher.sim;

import io.telpher.internal.wire.Frame;
import io.telpher.spi.Availability;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Transport;
import io.telpher.spi.TransportEndpoint;
import java.lang.foreign.MemorySegment;
import java.util.List;

/// The only transport of a simulated process.
final class SimTransport implements Transport {
    static final String NAME = "sim";

    private final SimProcess process;

    SimTransport(SimProcess process) {
        this.process = process;
    }

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public List<String> paths() {
        return List.of(NAME, SimWindows.PATH);
    }

    @Override
    public int rank() {
        return 0;
    }

    @Override
    public Availability probe() {
        return new Availability.Available("simulated");
    }

    @Override
    public TransportEndpoint open(EndpointContext context) {
        return new SimTransportEndpoint(process, context);
    }

    static void log(SimProcess process, String verb, MemorySegment header, long at, Stream on) {
        process.scheduler()
                .log(
                        process.name(),
                        verb
                                + " frame "
                                + Frame.type(header, at)
                                + " of "
                                + Frame.length(header, at)
                                + " on "
                                + on.name());
    }
}
