package io.telpher.internal.engine;

import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/// A lane to nobody: takes what it is told to take, remembers it, and brings nothing.
class StubLane implements Lane {
    /// What was sent: the fields that tests look at.
    record Sent(int type, int flags, int length, long transfer, long a, long e) {}

    private final int maxPayload;

    /// In the order in which they went out.
    final List<Sent> sent = new CopyOnWriteArrayList<>();

    /// How many frames it still takes before it is full.
    volatile int room = Integer.MAX_VALUE;

    StubLane(int maxPayload) {
        this.maxPayload = maxPayload;
    }

    /// Puts a lane into a connection whose progress thread does not know of it: nothing happens
    /// but what the test does.
    LaneState addTo(ConnectionCore core, int index) {
        LaneState added = new LaneState(core, this, index, "stub", Arena.ofAuto());
        core.lock.lock();
        try {
            core.lanes.add(added);
        } finally {
            core.lock.unlock();
        }
        return added;
    }

    @Override
    public String path() {
        return "stub";
    }

    @Override
    public String text() {
        return "to nobody";
    }

    @Override
    public int maxPayload() {
        return maxPayload;
    }

    @Override
    public int send(
            MemorySegment header,
            long at,
            MemorySegment payload,
            long offset,
            int length,
            Object owner) {
        if (room == 0) {
            return FULL;
        }
        room = Math.max(room - 1, 0);
        sent.add(
                new Sent(
                        Frame.type(header, at),
                        Frame.flags(header, at),
                        length,
                        Frame.field(header, at, Frame.TRANSFER),
                        Frame.field(header, at, Frame.A),
                        Frame.field(header, at, Frame.E)));
        return OK;
    }

    @Override
    public int flush() {
        return room == 0 ? FULL : OK;
    }

    @Override
    public void releaseOutbound(Object owner) {}

    @Override
    public int poll(Receiver receiver, int limit) {
        return 0;
    }

    @Override
    public void discardInbound(Object owner) {}

    @Override
    public boolean confirmsNatively() {
        return false;
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
    public String failure() {
        return null;
    }

    @Override
    public void close() {}
}
