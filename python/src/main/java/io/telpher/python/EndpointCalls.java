package io.telpher.python;

import static io.telpher.python.Bridge.HANDLES;
import static io.telpher.python.Request.at;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.internal.device.GpuRuntime;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.memory.Lendable;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Map;

/// Functions of endpoints and their memory.
final class EndpointCalls {
    private EndpointCalls() {}

    /// Request: variables as a text of `NAME=value` with a NUL between them 8, its length 8, secret
    /// 8, its length 8 or -1.
    static long endpointOpen(long request) {
        Map<String, String> variables = Request.variables(at(request, 0), at(request, 8));
        EndpointOptions options = EndpointOptions.fromEnvironment(variables);
        if (at(request, 24) >= 0) {
            options = options.withSecret(Request.bytes(at(request, 16), at(request, 24)));
        }
        return HANDLES.put(Endpoint.open(options));
    }

    static long endpointClose(long endpoint) {
        HANDLES.get(endpoint, Endpoint.class).close();
        return 0;
    }

    /// @return the TCP port that it listens on, or 0
    static long endpointPort(long endpoint) {
        return HANDLES.get(endpoint, Endpoint.class).port();
    }

    /// Request: endpoint 8, bytes 8, access 8, device's name 8, its length 8 (0: host memory).
    static long allocate(long request) {
        Endpoint endpoint = HANDLES.get(at(request, 0), Endpoint.class);
        Access access = Request.access(at(request, 16));
        long size = at(request, 8);
        if (at(request, 32) == 0) {
            return HANDLES.put(endpoint.allocate(size, access));
        }
        Device device = Device.of(Request.text(at(request, 24), at(request, 32)));
        return HANDLES.put(endpoint.allocate(device, size, access));
    }

    /// Request: endpoint 8, address 8, bytes 8, access 8, kind 8: 0 host, 1 device, 2 as the
    /// device's driver says, if there is one. The caller keeps the memory until the region is
    /// closed.
    static long register(long request) {
        Endpoint endpoint = HANDLES.get(at(request, 0), Endpoint.class);
        long address = at(request, 8);
        long size = at(request, 16);
        Access access = Request.access(at(request, 24));
        if (at(request, 32) != 0) {
            try {
                return HANDLES.put(endpoint.register(DeviceMemory.of(address, size), access));
            } catch (TelpherException.Unsupported e) {
                if (at(request, 32) == 1) {
                    throw e;
                }
            }
        }
        return HANDLES.put(endpoint.register(Request.memory(address, size), access));
    }

    /// Request: address 8, bytes 8.
    ///
    /// @return the driver's number of the allocation, which no other one has; 0 where a GPU has
    ///     nothing there
    static long deviceAllocation(long request) {
        GpuRuntime.Pointer found = Runtimes.inspect(at(request, 0), at(request, 8));
        return found == null ? 0 : found.id();
    }

    static long regionClose(long region) {
        HANDLES.get(region, MemoryRegion.class).close();
        return 0;
    }

    /// The region's memory stays where it is for whoever holds the result.
    ///
    /// @return a handle, for [#regionGiveBack]
    static long regionLend(long region) {
        MemoryRegion lent = HANDLES.get(region, MemoryRegion.class);
        ((Lendable) lent).lend();
        try {
            return HANDLES.put(lent);
        } catch (Throwable e) { // there is no memory for a handle
            ((Lendable) lent).giveBack();
            throw e;
        }
    }

    static long regionGiveBack(long lent) {
        ((Lendable) HANDLES.get(lent, MemoryRegion.class)).giveBack();
        return 0;
    }

    /// Request: region 8, room for the answer 8: address 8, size 8, descriptor 48.
    ///
    /// @return 0 for host memory, else 1 and the device's number in the driver's order
    static long regionInfo(long request) {
        MemoryRegion region = HANDLES.get(at(request, 0), MemoryRegion.class);
        DeviceMemory device = region.deviceMemory();
        long answer = at(request, 8);
        Request.put(answer, 0, device == null ? region.segment().address() : device.address());
        Request.put(answer, 8, region.size());
        Request.answer(region.remote().toBytes(), answer + 16, 48);
        return device == null ? 0 : 1 + Device.list().indexOf(device.device());
    }

    /// Request: region 8, first byte in it 8, address 8, bytes 8.
    static long copyIn(long request) {
        HANDLES.get(at(request, 0), MemoryRegion.class).copyIn(at(request, 8), host(request));
        return 0;
    }

    /// Request: as [#copyIn].
    static long copyOut(long request) {
        HANDLES.get(at(request, 0), MemoryRegion.class).copyOut(at(request, 8), host(request));
        return 0;
    }

    private static MemorySegment host(long request) {
        return Request.memory(at(request, 16), at(request, 24));
    }

    /// Request: endpoint 8, name 8, its length 8, descriptor 48.
    static long publish(long request) {
        HANDLES.get(at(request, 0), Endpoint.class)
                .publish(
                        Request.text(at(request, 8), at(request, 16)),
                        Request.remote(request + 24));
        return 0;
    }

    /// Request: endpoint 8, address 8, its length 8, nanoseconds 8 or -1 for the endpoint's own.
    ///
    /// @return a [Task] that ends with a connection
    static long connect(long request) {
        Endpoint endpoint = HANDLES.get(at(request, 0), Endpoint.class);
        EndpointAddress peer =
                EndpointAddress.ofBytes(Request.bytes(at(request, 8), at(request, 16)));
        long nanos = at(request, 24);
        return Task.start(
                () ->
                        nanos < 0
                                ? endpoint.connect(peer)
                                : endpoint.connect(peer, Duration.ofNanos(nanos)));
    }

    /// Request: endpoint 8, nanoseconds 8.
    ///
    /// @return a connection, or 0 when none came
    static long accept(long request) {
        Endpoint endpoint = HANDLES.get(at(request, 0), Endpoint.class);
        Connection connection;
        try {
            connection = endpoint.accept(Duration.ofNanos(at(request, 8)));
        } catch (TelpherException.TimedOut _) {
            return 0;
        }
        return HANDLES.put(connection);
    }
}
