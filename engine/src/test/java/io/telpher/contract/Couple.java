package io.telpher.contract;

import io.telpher.RemoteMemory;

/// Two endpoints of this process, for tests that are not about one path.
///
/// @param here the one that dials
/// @param there the one that accepts
record Couple(Participant here, LocalPeer there) implements AutoCloseable {
    /// Opens both, not connected.
    static Couple open(Participant.Tweak options) {
        return open(options, options);
    }

    /// Opens both, not connected.
    ///
    /// @param theirs options of the one that accepts
    static Couple open(Participant.Tweak options, Participant.Tweak theirs) {
        Participant here = new Participant();
        here.open(options);
        LocalPeer there = new LocalPeer();
        there.run(self -> self.open(theirs));
        return new Couple(here, there);
    }

    /// Opens both, on one path.
    static Couple open(TestPath path) {
        return open(path::restrict);
    }

    byte[] address() {
        return there.run(self -> self.endpoint().address().toBytes());
    }

    /// Connects both.
    Couple connect() {
        return connect(address());
    }

    /// Connects both by another form of the address.
    Couple connect(byte[] address) {
        there.acceptFrom(here, address);
        return this;
    }

    /// Checks that bytes still get from one to the other.
    void checkWorks() {
        checkWorks(here, there);
    }

    /// Checks that bytes get from one side to the other, and back.
    static void checkWorks(Participant here, Peer there) {
        int size = 100_000;
        String name = "works" + System.nanoTime();
        here.add(name, Kind.FOREIGN, size);
        RemoteMemory target = there.add(name, Kind.TELPHER, size);
        here.fill(name, 0, size, 77);
        here.write(name, 0, size, target).assertDone(size);
        there.check(name, 0, size, 77);
        there.fill(name, 0, size, 78);
        Outcome.of(here.connection().read(here.region(name).all(), target)).assertDone(size);
        here.check(name, 0, size, 78);
        there.tell(self -> self.closeRegion(name));
        here.closeRegion(name);
    }

    @Override
    public void close() {
        try {
            here.close();
        } finally {
            there.close();
        }
    }
}
