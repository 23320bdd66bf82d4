package io.telpher.python;

import static io.telpher.TransferOptions.DEFAULTS;
import static io.telpher.python.Bridge.HANDLES;
import static io.telpher.python.Request.at;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.DeviceStream;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.Priority;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// Functions of transfers.
///
/// Their result is 0 while the transfer is pending; [#DONE] and above when it is done: bits 0 to 47
/// bytes moved, bits 48 to 55 number of the path's name; a failure when it ended otherwise.
final class TransferCalls {
    private static final long DONE = 1L << 62;
    private static final Duration SLICE = Duration.ofMillis(50);

    /// Names of paths by number; there are about twenty. Replaced when one comes for the first
    /// time.
    private static volatile String[] paths = {};

    private TransferCalls() {}

    // --- one range, no options ------------------------------------------------------------------

    /// Request: connection 8, region 8, offset 8, length 8, streams that it begins after ([#after])
    /// 8, descriptor 48.
    ///
    /// @return as above, but a handle while it is pending or when it failed
    static long write(long request) {
        RemoteMemory remote = Request.remote(request + 40);
        return post(connection(request).prepareWrite(slice(request), remote, DEFAULTS), request);
    }

    /// Request: as [#write].
    static long read(long request) {
        RemoteMemory remote = Request.remote(request + 40);
        return post(connection(request).prepareRead(slice(request), remote, DEFAULTS), request);
    }

    /// Request: connection 8, region 8, offset 8, length 8, streams that it begins after 8, tag 8.
    static long send(long request) {
        MemorySlices local = MemorySlices.of(slice(request));
        return post(connection(request).prepareSend(at(request, 40), local, DEFAULTS), request);
    }

    /// Request: as [#send].
    static long receive(long request) {
        MemorySlices local = MemorySlices.of(slice(request));
        return post(connection(request).prepareReceive(at(request, 40), local, DEFAULTS), request);
    }

    private static long post(Transfer transfer, long request) {
        post(transfer, after(at(request, 32)));
        return posted(transfer);
    }

    private static void post(Transfer transfer, List<DeviceStream> after) {
        if (after.isEmpty()) {
            transfer.post(); // which allocates nothing
        } else {
            transfer.post(after);
        }
    }

    /// Streams by address: how many 8, then number of the device 8 and handle 8 of each.
    ///
    /// @param address 0 for none
    private static List<DeviceStream> after(long address) {
        if (address == 0) {
            return List.of();
        }
        DeviceStream[] streams = new DeviceStream[(int) at(address, 0)];
        for (int i = 0; i < streams.length; i++) {
            long of = address + 8 + 16L * i;
            streams[i] = new DeviceStream(device(at(of, 0)), at(of, 8));
        }
        return List.of(streams);
    }

    private static Connection connection(long request) {
        return HANDLES.get(at(request, 0), Connection.class);
    }

    private static MemorySlice slice(long request) {
        return new MemorySlice(
                HANDLES.get(at(request, 8), MemoryRegion.class), at(request, 16), at(request, 24));
    }

    private static long posted(Transfer transfer) {
        return transfer.state() == TransferState.DONE ? done(transfer) : HANDLES.put(transfer);
    }

    // --- everything else ------------------------------------------------------------------------

    /// Request: operation 8 (0 write, 1 read, 2 send, 3 receive, 4 notify; 8 is added to prepare it
    /// only), connection 8, local pieces 8, remote pieces 8, tag 8, deadline in nanoseconds 8 (-1:
    /// the endpoint's), priority 8, notification 8 and its length 8 (-1: none), counter 8 (0 none,
    /// 1 add, 2 set), its value 8, number of a stream's device 8 (-1: no stream) and its handle 8,
    /// streams that it begins after ([#after]; not of what is prepared) 8, the counter's descriptor
    /// 48.
    ///
    /// @return as [#write]; a handle when prepared
    static long transfer(long request) {
        boolean prepare = (at(request, 0) & 8) != 0;
        Connection connection = HANDLES.get(at(request, 8), Connection.class);
        TransferOptions options = options(request, prepare);
        if (at(request, 0) == 4) {
            return posted(
                    connection.notifyPeer(Objects.requireNonNull(options.notification()), options));
        }
        MemorySlices local = HANDLES.get(at(request, 16), MemorySlices.class);
        long tag = at(request, 32);
        Transfer transfer =
                switch ((int) at(request, 0) & 7) {
                    case 0 -> {
                        RemoteSlices remote = remote(request);
                        yield single(local, remote)
                                ? connection.prepareWrite(first(local), first(remote), options)
                                : connection.prepareWrite(local, remote, options);
                    }
                    case 1 -> {
                        RemoteSlices remote = remote(request);
                        yield single(local, remote)
                                ? connection.prepareRead(first(local), first(remote), options)
                                : connection.prepareRead(local, remote, options);
                    }
                    case 2 -> connection.prepareSend(tag, local, options);
                    case 3 -> connection.prepareReceive(tag, local, options);
                    default -> throw new IllegalArgumentException("operation " + at(request, 0));
                };
        if (prepare) {
            return HANDLES.put(transfer);
        }
        post(transfer, after(at(request, 104)));
        return posted(transfer);
    }

    /// Whether both sides are one range: those take the engine's short ways.
    private static boolean single(MemorySlices local, RemoteSlices remote) {
        return local.count() == 1
                && remote.count() == 1
                && !remote.isStrided()
                && local.totalBytes() == remote.totalBytes();
    }

    private static MemorySlice first(MemorySlices local) {
        return local.region(0).slice(local.offset(0), local.length(0));
    }

    private static RemoteMemory first(RemoteSlices remote) {
        RemoteMemory memory = remote.region(0);
        return memory.slice(remote.offset(0) - memory.offset(), remote.length(0));
    }

    private static RemoteSlices remote(long request) {
        return HANDLES.get(at(request, 24), RemoteSlices.class);
    }

    private static TransferOptions options(long request, boolean prepare) {
        TransferOptions options = DEFAULTS;
        if (at(request, 40) >= 0) {
            options = options.withDeadline(Duration.ofNanos(at(request, 40)));
        }
        if (at(request, 48) != 0) {
            options = options.withPriority(Priority.HIGH);
        }
        if (at(request, 64) >= 0) {
            MemorySegment given = Request.memory(at(request, 56), at(request, 64));
            options =
                    options.withNotification(
                            prepare
                                    ? Arena.ofAuto().allocate(given.byteSize()).copyFrom(given)
                                    : given);
        }
        if (at(request, 72) != 0) {
            options =
                    options.withCounter(
                            new CounterUpdate(
                                    Request.remote(request + 112),
                                    at(request, 72) == 1
                                            ? CounterUpdate.Kind.ADD
                                            : CounterUpdate.Kind.SET,
                                    at(request, 80)));
        }
        if (at(request, 88) >= 0) {
            options =
                    options.withStream(new DeviceStream(device(at(request, 88)), at(request, 96)));
        }
        return options;
    }

    private static Device device(long number) {
        List<Device> all = Device.list();
        if (number >= all.size()) {
            throw new IllegalArgumentException(
                    "the stream is of device %d, and this process sees %d"
                            .formatted(number, all.size()));
        }
        return all.get((int) number);
    }

    // --- what has been posted or prepared -------------------------------------------------------

    static long post(long transfer) {
        Transfer posted = get(transfer);
        posted.post();
        return now(posted);
    }

    /// Request: transfer 8, streams that it begins after 8, whether to wait one slice 8.
    static long postAfter(long request) {
        Transfer posted = get(at(request, 0));
        posted.post(after(at(request, 8)));
        if (at(request, 16) != 0) {
            boolean unused = posted.await(SLICE);
        }
        return now(posted);
    }

    private static long now(Transfer posted) {
        return posted.state() == TransferState.PENDING ? 0 : result(posted);
    }

    /// Request: count 8, address of the transfers' handles 8, streams that they begin after 8.
    /// Each handle is replaced by what [#post] gives for it, or by its failure: one that cannot be
    /// posted keeps no other from it.
    static long postAll(long request) {
        int count = (int) at(request, 0);
        long handles = at(request, 8);
        long end = handles + (long) Long.BYTES * count;
        List<Transfer> posted = new ArrayList<>(count);
        for (long place = handles; place < end; place += Long.BYTES) {
            try {
                posted.add(get(at(place, 0)));
            } catch (Throwable t) {
                Request.put(place, 0, Bridge.failed(t));
            }
        }
        Throwable first = null;
        try {
            Transfer.postAll(posted, after(at(request, 16)));
        } catch (Throwable t) {
            first = t;
        }
        int next = 0;
        boolean told = false;
        for (long place = handles; place < end; place += Long.BYTES) {
            if (at(place, 0) > 0) { // still a handle
                Transfer transfer = posted.get(next++);
                told |= transfer.state() == TransferState.IDLE;
                Request.put(place, 0, postedAs(transfer, first));
            }
        }
        // One that was posted before shows its old end, or is pending for ever: the call has to
        // tell.
        return first == null || told ? 0 : Bridge.failed(first);
    }

    /// @param failure what kept some of its list from being posted, or null
    private static long postedAs(Transfer transfer, @Nullable Throwable failure) {
        try {
            if (failure != null && transfer.state() == TransferState.IDLE) {
                return Bridge.failed(failure);
            }
            return now(transfer);
        } catch (Throwable t) {
            return Bridge.failed(t);
        }
    }

    /// Posts, and waits one slice.
    static long run(long transfer) {
        Transfer posted = get(transfer);
        posted.post();
        return posted.state().isTerminal() || posted.await(SLICE) ? result(posted) : 0;
    }

    static long poll(long transfer) {
        Transfer polled = get(transfer);
        return polled.poll().isTerminal() ? result(polled) : 0;
    }

    /// @return how often it has been posted
    static long postings(long transfer) {
        return get(transfer).postings();
    }

    /// Request: transfer 8, nanoseconds 8.
    static long waitFor(long request) {
        Transfer transfer = get(at(request, 0));
        return transfer.await(Duration.ofNanos(at(request, 8))) ? result(transfer) : 0;
    }

    /// @return 1, or 0 when it had ended already
    static long cancel(long transfer) {
        return get(transfer).cancel() ? 1 : 0;
    }

    /// Has its handle put into [Completions] when its current posting ends.
    static long watch(long transfer) {
        get(transfer).onEnd(_ -> Completions.add(transfer));
        return 0;
    }

    private static Transfer get(long handle) {
        return HANDLES.get(handle, Transfer.class);
    }

    private static long result(Transfer transfer) {
        if (transfer.state() == TransferState.DONE) {
            return done(transfer);
        }
        TelpherException why = transfer.error();
        if (why == null) { // posted again by another thread
            return 0;
        }
        throw new Ended(why, transfer);
    }

    private static long done(Transfer transfer) {
        return DONE | (long) pathNumber(transfer.path()) << 48 | transfer.bytesMoved();
    }

    // --- paths ----------------------------------------------------------------------------------

    private static int pathNumber(String name) {
        String[] known = paths;
        for (int i = 0; i < known.length; i++) {
            if (known[i].equals(name)) {
                return i;
            }
        }
        return addPath(name);
    }

    private static synchronized int addPath(String name) {
        String[] known = paths;
        int at = Arrays.asList(known).indexOf(name);
        if (at < 0) {
            at = known.length;
            String[] more = Arrays.copyOf(known, at + 1);
            more[at] = name;
            paths = more;
        }
        return at;
    }

    static String paths() {
        return String.join("\n", paths);
    }
}
