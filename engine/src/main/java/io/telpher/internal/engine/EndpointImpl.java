package io.telpher.internal.engine;
import io.telpher.*;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
public final class EndpointImpl implements Endpoint {
    public EndpointImpl(EndpointOptions o) { throw new IllegalStateException(); }
    public EndpointAddress address() { throw new IllegalStateException(); }
    public MemoryRegion allocate(long bytes) { throw new IllegalStateException(); }
    public MemoryRegion allocate(long bytes, Access access) { throw new IllegalStateException(); }
    public MemoryRegion register(MemorySegment memory) { throw new IllegalStateException(); }
    public MemoryRegion register(MemorySegment memory, Access access) { throw new IllegalStateException(); }
    public void publish(String name, RemoteMemory memory) { }
    public Connection connect(EndpointAddress peer, Duration atMost) { throw new IllegalStateException(); }
    public Connection accept(Duration atMost) { throw new IllegalStateException(); }
    public EndpointOptions options() { throw new IllegalStateException(); }
    public void close() {}
}
