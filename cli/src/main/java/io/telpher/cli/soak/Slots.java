package io.telpher.cli.soak;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.cli.Content;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Writes, reads and counters of one end of a conversation, and what they must have made of the
/// other end's memory, which is looked at from outside as soon as they have ended. Used by the
/// conversation's thread.
final class Slots {
    private static final int MARGIN = 64;

    /// With so many slots out of use a new inbox is asked for.
    private static final int MANY_UNKNOWN = 3;

    /// A transfer that is posted again and again.
    private record Prepared(Transfer transfer, Shape shape) {}

    /// A range of the desk that nothing may write to any more.
    private record Retired(long low, long high, long seed) {}

    private final Conversation talk;
    private final Slot[] slots = new Slot[Layout.SLOTS];
    private final @Nullable Prepared[] prepared = new Prepared[Layout.SLOTS];
    private final @Nullable Retired[] retired = new Retired[Layout.SLOTS];
    private final MemorySegment desk;
    private final MemoryRegion region;
    private final MemorySegment stream;
    private final MemorySegment image;
    private final Sight sight;
    private final Words words;
    private Note.@Nullable Offer theirs;
    private Note.@Nullable Offer old;
    private @Nullable RemoteMemory promised;
    private long recycleAt;
    private long staleAt;

    Slots(Conversation talk) {
        this.talk = talk;
        for (int i = 0; i < slots.length; i++) {
            slots[i] = new Slot(i, talk.arena);
        }
        if (talk.chance(50)) {
            region = talk.side.endpoint().allocate(Layout.total(), io.telpher.Access.NONE);
            desk = region.segment();
        } else {
            desk = talk.arena.allocate(Layout.total(), 64);
            region = talk.side.endpoint().register(desk, io.telpher.Access.NONE);
        }
        stream = talk.arena.allocate(Layout.size(Layout.SLOTS - 1), 64);
        image = talk.arena.allocate(Layout.total(), 64);
        sight = new Sight(talk);
        words = new Words(sight);
    }

    // --- rounds ---------------------------------------------------------------------------------

    /// The other end offers memory.
    void begin(Note.Offer offer) {
        Note.Offer before = theirs;
        if (before != null && offer.round() <= before.round()) {
            return; // said twice, since nobody knew whether it had come
        }
        if (offer.round() != (before == null ? 1 : before.round() + 1)) {
            throw talk.wrong("round " + offer.round() + " came out of turn");
        }
        RemoteMemory expected = promised;
        if (expected != null && !expected.equals(offer.inbox())) {
            throw talk.wrong("a look-up gave memory that is none of this end's: " + expected);
        }
        old = before;
        theirs = offer;
        recycleAt = 0;
        staleAt = 0;
        words.begin();
        for (Slot slot : slots) {
            slot.begin(offer.seed());
            prepared[slot.number] = null;
        }
        RemoteMemory found = talk.lookup();
        promised = found == null || found.equals(offer.inbox()) ? null : found;
    }

    boolean isRound(long round) {
        Note.Offer offer = theirs;
        return offer != null && offer.round() == round;
    }

    /// Asks the other end to close its inbox, while operations are in flight, and to offer another.
    void recycle() {
        Note.Offer offer = theirs;
        if (offer == null || recycleAt != 0) {
            return;
        }
        for (Slot slot : slots) {
            if (slot.unknown && !slot.busy) {
                sight.check(slot, offer, 0, slot.size, Slot.Expect.EITHER);
            }
        }
        recycleAt = System.nanoTime();
        talk.tell(Note.of(Note.Kind.RECYCLE, offer.round()));
    }

    /// Looks at what takes too long.
    void check(long now, long patience) {
        if (recycleAt != 0 && now - recycleAt > patience) {
            throw talk.wrong("asked for a new inbox, and got none");
        }
        if (staleAt != 0 && now - staleAt > Sight.NOTICE) {
            throw talk.wrong("memory is called stale that nobody has closed");
        }
        int unknown = 0;
        for (Slot slot : slots) {
            unknown += slot.unknown ? 1 : 0;
        }
        if (unknown >= MANY_UNKNOWN && !talk.isEnding()) {
            recycle();
        }
    }

    void excuse(long nanos) {
        recycleAt += recycleAt == 0 ? 0 : nanos;
        staleAt += staleAt == 0 ? 0 : nanos;
    }

    /// @return whether nothing is in flight
    boolean ended() {
        for (Slot slot : slots) {
            if (slot.busy) {
                return false;
            }
        }
        return true;
    }

    /// Checks everything that is known.
    void checkAll() {
        Note.Offer offer = theirs;
        if (offer == null || recycleAt != 0) {
            return;
        }
        for (Slot slot : slots) {
            if (slot.isFree()) {
                sight.check(slot, offer, 0, slot.size, Slot.Expect.OLD);
            }
        }
    }

    // --- operations -----------------------------------------------------------------------------

    /// Posts an operation, if a slot is free.
    void post() {
        Note.Offer offer = theirs;
        Slot slot = slots[talk.random.nextInt(slots.length)];
        if (offer == null || !slot.isFree()) {
            return;
        }
        Retired before = retired[slot.number];
        if (before != null) {
            retired[slot.number] = null;
            long wrong =
                    Content.firstWrong(
                            desk, slot.base + before.low, before.high - before.low, before.seed, 0);
            if (wrong >= 0) {
                throw talk.wrong(
                        "byte %d of slot %d was written here after its operation had ended"
                                .formatted(before.low + wrong, slot.number));
            }
        }
        if (recycleAt == 0 && talk.chance(3)) {
            sight.check(slot, offer, 0, slot.size, Slot.Expect.OLD);
        }
        int dice = talk.random.nextInt(100);
        if (dice < 5 && old != null) {
            useOld(slot, old);
        } else if (dice < 60) {
            write(slot, offer);
        } else {
            read(slot, offer);
        }
    }

    private MemorySegment deskOf(Slot slot) {
        return desk.asSlice(slot.base, slot.size);
    }

    /// A descriptor of a round that is over is refused.
    private void useOld(Slot slot, Note.Offer before) {
        long length = 1 + talk.length(Shape.most(slot.size));
        RemoteMemory far = before.inbox().slice(slot.base, length);
        boolean write = talk.chance(50);
        Transfer transfer =
                write
                        ? talk.connection.write(
                                region.slice(slot.base, length), far, talk.options())
                        : talk.connection.read(
                                region.slice(slot.base, length), far, talk.options());
        slot.busy = true;
        talk.fly(
                Flight.Kind.ONE_SIDED,
                (write ? "write" : "read") + " with a stale descriptor, slot " + slot.number,
                Flight.Limit.SOON,
                transfer,
                outcome -> {
                    slot.busy = false;
                    if (outcome.done()) {
                        throw talk.wrong("a stale descriptor was good for " + length + " bytes");
                    }
                    retire(slot, 0, length);
                });
    }

    private void write(Slot slot, Note.Offer offer) {
        long id = talk.nextId();
        Prepared again = talk.chance(50) ? prepared[slot.number] : null;
        Shape shape = again == null ? Shape.draw(talk, slot.size) : again.shape;
        Pieces near = shape.near();
        Pieces far = shape.far();
        long total = near.total();
        Content.fill(stream, 0, total, Notes.seed(id), 0);
        near.scatter(stream, deskOf(slot));
        far.scatter(stream, slot.next());
        slot.busy = true;
        String text = "write %x slot %d %s to %s".formatted(id, slot.number, near, far);
        if (again != null) {
            again.transfer.post();
            talk.fly(
                    Flight.Kind.ONE_SIDED,
                    text + " again",
                    Flight.Limit.SOON,
                    again.transfer,
                    o -> wrote(slot, offer, id, far, Words.Tail.NOTHING, 0, o));
            return;
        }
        if (near.single() && far.single() && talk.chance(40)) {
            long token =
                    talk.connection.tryWrite(
                            region,
                            slot.base + near.low(),
                            offer.inbox(),
                            slot.base + far.low(),
                            total);
            if (!talk.flyToken(
                    Flight.Kind.ONE_SIDED,
                    text + " token",
                    Flight.Limit.SOON,
                    token,
                    o -> wrote(slot, offer, id, far, Words.Tail.NOTHING, 0, o))) {
                notPosted(slot, offer, far);
            }
            return;
        }
        Words.Tail tail = Words.Tail.draw(talk.random);
        boolean late = talk.chance(10);
        long value = talk.random.nextLong() | 1;
        TransferOptions options = options(slot, offer, id, far, tail, value);
        options = late ? options.withDeadline(talk.shortDeadline()) : options;
        Transfer transfer =
                near.single() && far.single()
                        ? talk.connection.prepareWrite(
                                region.slice(slot.base + near.low(), total),
                                offer.inbox().slice(slot.base + far.low(), total),
                                options)
                        : talk.connection.prepareWrite(
                                near.of(region, slot.base),
                                far.of(offer.inbox(), slot.base),
                                options);
        transfer.post();
        if (!late && tail == Words.Tail.NOTHING) {
            prepared[slot.number] = new Prepared(transfer, shape);
        }
        talk.fly(
                Flight.Kind.ONE_SIDED,
                text + " " + tail,
                late ? Flight.Limit.ITS_OWN : Flight.Limit.SOON,
                transfer,
                o -> wrote(slot, offer, id, far, tail, value, o));
    }

    private void notPosted(Slot slot, Note.Offer offer, Pieces far) {
        slot.busy = false;
        if (isRound(offer.round())) {
            slot.undo(far.low(), far.high());
        }
    }

    private TransferOptions options(
            Slot slot, Note.Offer offer, long id, Pieces far, Words.Tail tail, long value) {
        TransferOptions options = talk.options();
        return switch (tail) {
            case NOTHING -> options;
            case NOTE -> options.withNotification(talk.note(id, slot, offer, far));
            case ADD, SET, SHARED -> options.withCounter(words.update(slot, offer, tail, value));
        };
    }

    private void wrote(
            Slot slot,
            Note.Offer offer,
            long id,
            Pieces far,
            Words.Tail tail,
            long value,
            Outcome outcome) {
        slot.busy = false;
        if (tail == Words.Tail.NOTE) {
            talk.noteEnded(id, outcome);
        }
        if (outcome.done()) {
            talk.rank.moved(far.total());
        } else {
            retire(slot, 0, slot.size);
        }
        if (!isRound(offer.round())) {
            return;
        }
        if (outcome.why() == Outcome.Why.STALE && recycleAt == 0) {
            staleAt = staleAt == 0 ? System.nanoTime() : staleAt;
        }
        if (recycleAt != 0 || outcome.why() == Outcome.Why.ENDED) {
            slot.unknown = true;
            talk.rank.unchecked();
            return;
        }
        boolean answered = outcome.quiet() == io.telpher.RemoteQuiet.YES;
        if (outcome.done()) {
            if (tail != Words.Tail.NOTHING && tail != Words.Tail.NOTE) {
                words.check(slot, offer, tail, value);
            }
            sight.check(slot, offer, far.low(), far.high(), Slot.Expect.NEW);
        } else if (!answered || tail == Words.Tail.NOTE) {
            slot.unknown = true;
        } else {
            boolean raised =
                    (tail == Words.Tail.ADD || tail == Words.Tail.SET)
                            && words.raised(slot, offer, tail, value);
            // Its word is raised after its bytes.
            sight.check(
                    slot,
                    offer,
                    far.low(),
                    far.high(),
                    raised ? Slot.Expect.NEW : Slot.Expect.EITHER);
        }
    }

    // --- reads ----------------------------------------------------------------------------------

    private void read(Slot slot, Note.Offer offer) {
        long id = talk.nextId();
        Shape shape = Shape.draw(talk, slot.size);
        Pieces near = shape.near();
        Pieces far = shape.far();
        long total = near.total();
        boolean library = total <= Layout.LIBRARY && talk.chance(30);
        if (library) {
            far = Pieces.one(talk.random, total, Layout.LIBRARY);
            Content.fill(stream, 0, total, offer.seed(), far.low());
        } else {
            far.gather(slot.known(), stream);
        }
        long low = Math.max(0, near.low() - MARGIN);
        long high = Math.min(slot.size, near.high() + MARGIN);
        Content.fill(desk, slot.base + low, high - low, Content.seed(id, 3, 0), 0);
        MemorySegment expected = image.asSlice(slot.base, slot.size);
        MemorySegment.copy(deskOf(slot), low, expected, low, high - low);
        near.scatter(stream, expected);
        slot.busy = true;
        RemoteMemory memory = library ? offer.library() : offer.inbox();
        long base = library ? 0 : slot.base;
        String text =
                "read %x slot %d %s from %s%s"
                        .formatted(id, slot.number, near, library ? "library " : "", far);
        if (near.single() && far.single() && talk.chance(40)) {
            long token =
                    talk.connection.tryRead(
                            region, slot.base + near.low(), memory, base + far.low(), total);
            if (!talk.flyToken(
                    Flight.Kind.ONE_SIDED,
                    text + " token",
                    Flight.Limit.SOON,
                    token,
                    o -> hasRead(slot, offer, low, high, total, id, o))) {
                slot.busy = false;
            }
            return;
        }
        boolean late = talk.chance(10);
        TransferOptions options = talk.options();
        options = late ? options.withDeadline(talk.shortDeadline()) : options;
        Transfer transfer =
                talk.connection.read(near.of(region, slot.base), far.of(memory, base), options);
        talk.fly(
                Flight.Kind.ONE_SIDED,
                text,
                late ? Flight.Limit.ITS_OWN : Flight.Limit.SOON,
                transfer,
                o -> hasRead(slot, offer, low, high, total, id, o));
    }

    private void hasRead(
            Slot slot,
            Note.Offer offer,
            long low,
            long high,
            long total,
            long id,
            Outcome outcome) {
        slot.busy = false;
        if (outcome.why() == Outcome.Why.STALE && isRound(offer.round()) && recycleAt == 0) {
            staleAt = staleAt == 0 ? System.nanoTime() : staleAt;
        }
        MemorySegment is = deskOf(slot);
        MemorySegment expected = image.asSlice(slot.base, slot.size);
        if (outcome.done()) {
            talk.rank.moved(total);
            talk.rank.checked();
            long at = MemorySegment.mismatch(is, low, high, expected, low, high);
            if (at >= 0) {
                throw talk.wrong(
                        "read %x: byte %d of slot %d is %02x, not %02x"
                                .formatted(
                                        id,
                                        low + at,
                                        slot.number,
                                        is.get(JAVA_BYTE, low + at),
                                        expected.get(JAVA_BYTE, low + at)));
            }
            return;
        }
        retire(slot, low, high);
    }

    /// An operation is over that was not done: nothing may touch its memory here any more.
    private void retire(Slot slot, long low, long high) {
        long seed = talk.nextId();
        Content.fill(desk, slot.base + low, high - low, seed, 0);
        retired[slot.number] = new Retired(low, high, seed);
    }

    void close() {
        region.close();
        sight.close();
    }
}
