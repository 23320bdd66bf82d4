package io.telpher;

import io.telpher.internal.engine.EndpointImpl;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;

/// One participant: owns listeners, memory and connections. Usually one per process or per GPU.
/// Thread-safe; several endpoints may live in one process.
public interface Endpoint extends AutoCloseable {
    /// Opens an endpoint with the default options and the environment's settings.
    static Endpoint open() {
        return open(EndpointOptions.fromEnvironment());
    }

    /// Opens an endpoint.
    ///
    /// @throws IllegalArgumentException when the options name a transport or path that is not there
    /// @throws TelpherException.Unsupported when none of the wanted transports can be had here
    static Endpoint open(EndpointOptions options) {
        return new EndpointImpl(options);
    }

    /// Made anew at each call: an RDMA port that has come up since is in it, one that is down is
    /// not. An address that was given away before stays good, without that port.
    ///
    /// @return every way to reach this endpoint, and its secret: whoever holds it may connect
    EndpointAddress address();

    /// Allocates memory that peers on this host can map: a write into it is one copy.
    ///
    /// @param bytes more than zero
    MemoryRegion allocate(long bytes);

    /// Allocates memory.
    ///
    /// @param bytes more than zero
    /// @param access what peers may do
    MemoryRegion allocate(long bytes, Access access);

    /// Allocates memory of a device that peers may read and write: see [#allocate(Device, long,
    /// Access)].
    default MemoryRegion allocate(Device device, long bytes) {
        return allocate(device, bytes, Access.READ_WRITE);
    }

    /// Allocates memory of a device. Opens the device: its primary context stays until the process
    /// ends. The bytes are not cleared.
    ///
    /// @param device a device of this process
    /// @param bytes more than zero
    /// @param access what peers may do
    /// @throws TelpherException.Unsupported when this process does not see the device
    MemoryRegion allocate(Device device, long bytes, Access access);

    /// Registers the caller's memory for reading and writing by peers.
    MemoryRegion register(MemorySegment memory);

    /// Registers memory of a device for reading and writing by peers: see [#register(DeviceMemory,
    /// Access)].
    default MemoryRegion register(DeviceMemory memory) {
        return register(memory, Access.READ_WRITE);
    }

    /// Registers memory of a device that somebody else allocated. It must not be freed before the
    /// region is closed: under a peer that has mapped it, that is undefined by the driver's rules.
    ///
    /// @param memory where it lies; [DeviceMemory#of] asks the driver
    /// @param access what peers may do
    MemoryRegion register(DeviceMemory memory, Access access);

    /// Registers the caller's memory: a native segment of a shared, automatic or global arena, or a
    /// mapped file. The same memory may be registered several times; each region is closed on its
    /// own.
    ///
    /// @throws IllegalArgumentException for heap memory and for segments confined to a thread
    MemoryRegion register(MemorySegment memory, Access access);

    /// Registers a direct buffer, from position to limit.
    ///
    /// @throws IllegalArgumentException when the buffer is not direct
    default MemoryRegion register(ByteBuffer buffer) {
        if (!buffer.isDirect()) {
            throw new IllegalArgumentException(
                    "only direct buffers can be registered: allocateDirect");
        }
        return register(MemorySegment.ofBuffer(buffer));
    }

    /// Makes memory known to all peers by name; they find it by [Connection#lookup(String,
    /// Duration)]. Publishing a name again replaces it.
    void publish(String name, RemoteMemory memory);

    /// Publishes a whole region.
    default void publish(String name, MemoryRegion region) {
        publish(name, region.remote());
    }

    /// Connects, within the endpoint's connect deadline.
    default Connection connect(EndpointAddress peer) {
        return connect(peer, options().connectDeadline());
    }

    /// Connects: tries the ways that both sides have, best first and several at once. When the peer
    /// connects at the same time both get the same connection.
    ///
    /// @throws TelpherException.ConnectFailed when no way works (names every one that was tried),
    ///     or when the peer has restarted and another incarnation answers
    /// @throws TelpherException.TimedOut when the deadline passed
    /// @throws TelpherException.AccessDenied when the peer refused the secret
    Connection connect(EndpointAddress peer, Duration atMost);

    /// Waits for the next connection that a peer made.
    ///
    /// @throws TelpherException.TimedOut when none came
    Connection accept(Duration atMost);

    /// @return the TCP port that it listens on, the first one where there are several; 0 when it
    ///     does not listen by TCP
    int port();

    /// @return which transports this endpoint uses and where they listen, and why not the others;
    ///     one line for each, for people
    String explain();

    /// @return counters since the endpoint was opened, of its connections, paths and lanes too
    EndpointMetrics metrics();

    /// @return what this endpoint was opened with
    EndpointOptions options();

    /// Closes connections, regions and listeners, in this order, each within its limit. Closing
    /// again does nothing; whoever closes at the same time waits, and hears the same.
    ///
    /// @throws TelpherException.RegionBusy when a region could not be closed, as by
    ///     [MemoryRegion#close()]; everything else is closed then, and the region can be closed
    ///     again by itself
    @Override
    void close();
}
