package io.telpher.python;

import static io.telpher.python.Bridge.HANDLES;
import static io.telpher.python.Request.at;

import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointMetrics;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.Notification;
import io.telpher.RemoteSlices;
import io.telpher.bootstrap.Group;
import java.nio.charset.StandardCharsets;

/// Functions of any object, and of none.
final class ObjectCalls {
    private ObjectCalls() {}

    /// Request: kind 8, object 8, buffer 8, its size 8.
    ///
    /// @return length; more than the size when it did not fit, and nothing was written then
    static long text(long request) {
        long object = at(request, 8);
        byte[] answer =
                switch ((int) at(request, 0)) {
                    case 0 -> HANDLES.get(object, Endpoint.class).address().toBytes();
                    case 1 -> utf8(HANDLES.get(object, Endpoint.class).explain());
                    case 2 -> utf8(metrics(HANDLES.get(object, Endpoint.class).metrics()));
                    case 3 ->
                            utf8(
                                    Json.of(
                                            HANDLES.get(object, Endpoint.class)
                                                    .options()
                                                    .withSecret(null)));
                    case 4 -> HANDLES.get(object, Connection.class).peer().toBytes();
                    case 5 -> utf8(HANDLES.get(object, Connection.class).explain());
                    case 6 -> utf8(Json.of(HANDLES.get(object, Connection.class).metrics()));
                    case 7 -> HANDLES.get(object, Notification.class).payload();
                    case 8 -> HANDLES.get(object, Failure.class).encode();
                    case 9 -> utf8(TransferCalls.paths());
                    case 10 -> utf8(device(HANDLES.get(object, MemoryRegion.class)));
                    case 11 -> utf8(Json.of(Device.list()));
                    case 12 -> GroupCalls.addresses(HANDLES.get(object, Group.class));
                    default -> throw new IllegalArgumentException("text " + at(request, 0));
                };
        return Request.answer(answer, at(request, 16), at(request, 24));
    }

    private static String device(MemoryRegion region) {
        var memory = region.deviceMemory();
        return memory == null ? "" : Json.of(memory.device());
    }

    /// Counters, and their sums as one more member.
    private static String metrics(EndpointMetrics metrics) {
        String counters = Json.of(metrics);
        return "%s,\"totals\":%s}"
                .formatted(counters.substring(0, counters.length() - 1), Json.of(metrics.totals()));
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /// An address by host, port and secret. Request: host 8, its length 8, port 8, secret 8, its
    /// length 8, buffer 8, its size 8.
    ///
    /// @return length, as [#text]
    static long addressOf(long request) {
        EndpointAddress address =
                EndpointAddress.of(
                        Request.text(at(request, 0), at(request, 8)),
                        Math.toIntExact(at(request, 16)),
                        Request.bytes(at(request, 24), at(request, 32)));
        return Request.answer(address.toBytes(), at(request, 40), at(request, 48));
    }

    /// Request: pieces 8, room for their number and bytes 8.
    static long piecesInfo(long request) {
        long answer = at(request, 8);
        switch (HANDLES.get(at(request, 0), Object.class)) {
            case MemorySlices local -> {
                Request.put(answer, 0, local.count());
                Request.put(answer, 8, local.totalBytes());
            }
            case RemoteSlices remote -> {
                Request.put(answer, 0, remote.count());
                Request.put(answer, 8, remote.totalBytes());
            }
            case Object other ->
                    throw new IllegalArgumentException(
                            other.getClass().getSimpleName() + " has no pieces");
        }
        return 0;
    }

    /// Gives handles back, which takes no memory. Request: count 8, address of the handles 8.
    static long release(long request) {
        long count = at(request, 0);
        long handles = at(request, 8);
        for (long i = 0; i < count; i++) {
            HANDLES.remove(at(handles + Long.BYTES * i, 0));
        }
        Bridge.reserve();
        return 0;
    }

    /// @return how many handles are out
    static long handles(long unused) {
        return HANDLES.count();
    }

    /// Request: nanoseconds 8, address of an array 8, how many handles fit 8.
    ///
    /// @return how many handles there are
    static long completions(long request) throws InterruptedException {
        return Completions.take(at(request, 0), at(request, 8), at(request, 16));
    }

    /// Puts a handle, or 0, into what [#completions] gives: somebody waits there for it.
    static long complete(long handle) {
        Completions.add(handle);
        return 0;
    }
}
