package io.telpher.internal.engine;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// A connection that has some of everything under way takes in any frames that a peer may send.
/// They may end the lane or the connection, but only by what the protocol says; not a byte changes
/// outside of the region that may be written; and in the end every transfer has ended.
///
/// The first byte says how the lane confirms; then come frames as they stand on the wire. What a
/// fuzzer cannot guess is put in where the field holds a number that stands for it: regions and
/// their keys. Tokens need none of that: they are small numbers.
public final class FramesFuzz {
    /// Stand in field a for a region that may be written, one that may be read, one that is closed.
    private static final long OPEN = 0x11;

    private static final long READ_ONLY = 0x22;
    private static final long CLOSED = 0x33;

    /// Stands in field b for the key of the region.
    private static final long KEY = 0x4b;

    private static final int REGION = 64 << 10;
    private static final int AROUND = 4096;
    private static final int MAX_PAYLOAD = 64 << 10;
    private static final byte FILLING = 0x5a;

    private static final MemorySegment MEMORY = Arena.global().allocate(2 * REGION + 3 * AROUND, 8);
    private static final EndpointImpl ENDPOINT;
    private static final MemoryRegion WRITABLE;
    private static final MemoryRegion READABLE;
    private static final RemoteMemory GONE;
    private static final RemoteMemory THEIRS;

    static {
        MEMORY.fill(FILLING);
        ENDPOINT =
                (EndpointImpl)
                        Endpoint.open(
                                EndpointOptions.DEFAULTS
                                        .withTransports(List.of("tcp"))
                                        .withInterfaces(List.of("lo"))
                                        .withDeadline(Duration.ofMinutes(10)));
        WRITABLE = ENDPOINT.register(MEMORY.asSlice(AROUND, REGION));
        READABLE = ENDPOINT.register(MEMORY.asSlice(REGION + 2L * AROUND, REGION), Access.READ);
        MemoryRegion gone = ENDPOINT.allocate(REGION);
        GONE = gone.remote();
        gone.close();
        byte[] theirs = WRITABLE.remote().toBytes();
        theirs[0]++; // another incarnation
        THEIRS = RemoteMemory.ofBytes(theirs);
    }

    private FramesFuzz() {}

    /// @param data a byte of choices, then frames
    public static void fuzzerTestOneInput(byte[] data) {
        if (data.length == 0) {
            return;
        }
        ConnectionCore core =
                new ConnectionCore(
                        ENDPOINT, 1, new AddressCodec.Address(new byte[0], ENDPOINT.self()));
        Script lane = new Script(data);
        LaneState state = new LaneState(core, lane, 0, "script", Arena.ofAuto());
        if ((data[0] & 2) != 0) {
            core.matcher.tags.mayForget((data[0] & 4) != 0);
            core.matcher.tags.kept = 0;
        }
        core.lock.lock();
        try {
            core.lanes.add(state);
        } finally {
            core.lock.unlock();
        }
        Connection connection = new ConnectionImpl(core);
        List<Transfer> transfers = post(connection);
        while (!lane.over() && !core.isOver()) {
            core.turn();
        }
        core.turn();
        String death = state.death;
        if (death != null && death.startsWith("internal")) {
            throw new AssertionError(death);
        }
        core.fail(new TelpherException.Closed("the input is over"));
        core.afterwards();
        for (Transfer transfer : transfers) {
            if (transfer.state() == TransferState.PENDING) {
                throw new AssertionError("not ended: " + transfer);
            }
        }
        checkOutside(0, AROUND);
        checkOutside(AROUND + REGION, MEMORY.byteSize());
    }

    private static List<Transfer> post(Connection connection) {
        List<Transfer> posted = new ArrayList<>();
        posted.add(connection.read(WRITABLE.slice(0, 9000), THEIRS.slice(0, 9000)));
        posted.add(connection.receive(7, WRITABLE.slice(0, 1000)));
        posted.add(connection.receive(7, WRITABLE.slice(1000, 20_000)));
        posted.add(connection.send(8, WRITABLE.slice(0, 9000)));
        posted.add(connection.send(8, WRITABLE.slice(0, 100)));
        posted.add(connection.write(WRITABLE.slice(0, 100), THEIRS.slice(0, 100)));
        Transfer withdrawn = connection.receive(9, WRITABLE.slice(0, 9000));
        withdrawn.cancel();
        posted.add(withdrawn);
        return posted;
    }

    private static void checkOutside(long from, long to) {
        for (long i = from; i < to; i++) {
            if (MEMORY.get(JAVA_BYTE, i) != FILLING) {
                throw new AssertionError("a byte changed outside of the region, at " + i);
            }
        }
    }

    /// Plays the lane that brings the input.
    private static final class Script implements Lane {
        private final MemorySegment data;
        private final boolean confirms;
        private long at = 1;
        private final MemorySegment header = Arena.ofAuto().allocate(HEADER, 64);
        private final Placement placement = new Placement();
        private @Nullable String failure;

        Script(byte[] bytes) {
            data = Arena.ofAuto().allocate(bytes.length, 8).copyFrom(MemorySegment.ofArray(bytes));
            confirms = (bytes[0] & 1) != 0;
        }

        boolean over() {
            return failure != null;
        }

        @Override
        public int poll(Receiver receiver, int limit) {
            int frames = 0;
            while (failure == null && frames < limit) {
                if (at + HEADER > data.byteSize()) {
                    failure = "the input is over";
                } else if (take(receiver)) {
                    frames++;
                }
            }
            return frames > 0 ? frames : DEAD;
        }

        private boolean take(Receiver receiver) {
            MemorySegment.copy(data, at, header, 0, HEADER);
            at += HEADER;
            stand();
            int length = Frame.length(header, 0);
            placement.discard();
            if (!receiver.begin(header, 0, placement)) {
                failure = "a frame that makes no sense";
                return false;
            }
            if (length < 0 || length > MAX_PAYLOAD) {
                throw new AssertionError("a frame of " + length + " bytes was let in");
            }
            // What is missing of a payload is zero.
            MemorySegment payload = Arena.ofAuto().allocate(Math.max(1, length), 8);
            long there = Math.min(length, data.byteSize() - at);
            MemorySegment.copy(data, at, payload, 0, there);
            at += there;
            if (placement.mode() == Placement.Mode.INTO) {
                MemorySegment target = placement.segment();
                Objects.checkFromIndexSize(placement.offset(), (long) length, target.byteSize());
                MemorySegment.copy(payload, 0, target, placement.offset(), length);
            }
            receiver.end(header, 0, payload.asSlice(0, length), 0, placement);
            return true;
        }

        private void stand() {
            long region = Frame.field(header, 0, Frame.A);
            RemoteMemory memory =
                    region == OPEN
                            ? WRITABLE.remote()
                            : region == READ_ONLY
                                    ? READABLE.remote()
                                    : region == CLOSED ? GONE : null;
            if (memory != null) {
                Frame.set(header, 0, Frame.A, Frame.region(memory.region(), memory.generation()));
                if (Frame.field(header, 0, Frame.B) == KEY) {
                    Frame.set(header, 0, Frame.B, memory.key());
                }
            }
        }

        @Override
        public int send(
                MemorySegment from,
                long start,
                MemorySegment payload,
                long offset,
                int length,
                @Nullable Object owner) {
            Objects.checkFromIndexSize(offset, (long) length, Math.max(length, payload.byteSize()));
            return failure == null ? OK : DEAD;
        }

        @Override
        public String path() {
            return "fuzz";
        }

        @Override
        public String text() {
            return "the fuzzer's lane";
        }

        @Override
        public int maxPayload() {
            return MAX_PAYLOAD;
        }

        @Override
        public int flush() {
            return failure == null ? OK : DEAD;
        }

        @Override
        public void releaseOutbound(Object owner) {}

        @Override
        public void discardInbound(Object owner) {}

        @Override
        public boolean confirmsNatively() {
            return confirms;
        }

        @Override
        public void confirm(long sequence) {}

        @Override
        public long confirmed() {
            return 0;
        }

        @Override
        public int descriptor() {
            return -1;
        }

        @Override
        public boolean wantsWrite() {
            return false;
        }

        @Override
        public boolean park() {
            return false;
        }

        @Override
        public void unpark() {}

        @Override
        public long silence() {
            return 0;
        }

        @Override
        public @Nullable String failure() {
            return failure;
        }

        @Override
        public void close() {}
    }
}
