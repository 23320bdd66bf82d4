package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// What [FakeLibrary] makes and destroys. Guarded by it.
final class FakeObjects {
    private FakeObjects() {}

    /// A port of a device, which the tests change.
    static final class FakePort {
        boolean active = true;
        boolean ethernet = true;

        /// Packets must carry GIDs.
        boolean global;

        /// As the library codes it.
        int mtu = 5;

        /// In its InfiniBand subnet.
        int lid;

        /// Nothing arrives, and nobody is told.
        boolean silent;

        /// The first request of each queue pair is lost on its way, until it is sent again because
        /// one that follows has arrived: the time-out of a queue pair is longer than a test lasts.
        boolean losesFirst;

        /// Nothing longer than that leaves it.
        int narrow = Integer.MAX_VALUE;

        /// What it carries of one-sided transfers in a millisecond; 0 for no limit.
        long bytesEachTick;

        /// How much of that is left, less than 0 behind a long request.
        long allowed;

        /// What it has carried of them since it has had a pace.
        long carried;

        /// What was posted of them before it has carried the first.
        long ahead;

        final List<VerbsPorts.Gid> gids = new ArrayList<>();
        int prefix = 24;
    }

    static final class Context {
        final String device;
        final int descriptor = EventFd.create();
        final ArrayDeque<Provider.AsyncEvent> events = new ArrayDeque<>();

        Context(String device) {
            this.device = device;
        }
    }

    record Domain(long context) {}

    record Region(long pd, long address, long bytes, int access, int key) {
        boolean covers(long at, long length) {
            return at >= address && length <= bytes && at - address <= bytes - length;
        }
    }

    static final class Channel {
        final long context;
        final int descriptor = EventFd.create();
        int events;

        Channel(long context) {
            this.context = context;
        }
    }

    static final class Cq {
        private static final int FIELDS = 5;

        final long channel;
        final int capacity;
        private final long[] completions;
        private volatile long first;
        private volatile long end;
        boolean armed;

        Cq(long channel, int capacity) {
            this.channel = channel;
            this.capacity = capacity;
            this.completions = new long[capacity * FIELDS];
        }

        private int at(long position) {
            return (int) (position % capacity) * FIELDS;
        }

        boolean add(long id, int status, int opcode, int bytes, int immediate) {
            if (end - first == capacity) {
                return false;
            }
            long position = end;
            int at = at(position);
            completions[at] = id;
            completions[at + 1] = status;
            completions[at + 2] = opcode;
            completions[at + 3] = bytes;
            completions[at + 4] = immediate;
            end = position + 1; // publishes the rest
            return true;
        }

        boolean isEmpty() {
            return first == end;
        }

        boolean take(long wc) {
            if (first == end) {
                return false;
            }
            long position = first;
            int at = at(position);
            WorkCompletion.set(
                    wc,
                    completions[at],
                    (int) completions[at + 1],
                    (int) completions[at + 2],
                    (int) completions[at + 3],
                    (int) completions[at + 4]);
            first = position + 1;
            return true;
        }
    }

    static final class Qp {
        final int number;
        final long pd;
        final long cq;
        final VerbsQueuePairs.Capacity capacity;
        int receives;
        int state;
        int sends;

        /// Something was posted to it.
        boolean used;

        /// The last pass in which one of its requests had to wait, and those behind it with it.
        long waited;

        /// What the far end may do.
        int access;

        /// Reads that it may have under way.
        int reads;

        VerbsQueuePairs.@Nullable Receiving peer;
        VerbsQueuePairs.@Nullable Sending sending;

        /// Index of its partition.
        int pkey;

        /// Completions that come later than the event that tells of them, or null.
        @Nullable List<long[]> withheld;

        /// For so many milliseconds.
        int withheldFor;

        Qp(int number, long pd, long cq, VerbsQueuePairs.Capacity capacity) {
            this.number = number;
            this.pd = pd;
            this.cq = cq;
            this.capacity = capacity;
        }
    }
}
