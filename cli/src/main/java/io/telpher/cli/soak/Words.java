package io.telpher.cli.soak;

import io.telpher.CounterUpdate;
import io.telpher.RemoteMemory;
import java.util.SplittableRandom;

/// The words in the other end's inbox that writes change after their bytes: one for each slot, and
/// one that all writes of this end share. Used by the conversation's thread.
final class Words {
    /// What comes after the bytes of a write.
    enum Tail {
        NOTHING,
        NOTE,
        /// The slot's word.
        ADD,
        SET,
        /// The word that all writes of this end share.
        SHARED;

        static Tail draw(SplittableRandom random) {
            int dice = random.nextInt(100);
            return dice < 60
                    ? NOTHING
                    : dice < 75 ? NOTE : dice < 83 ? ADD : dice < 91 ? SET : SHARED;
        }
    }

    private final Sight sight;

    /// Writes that raise the shared word, since the inbox is there.
    private long sharedPosted;

    private long sharedDone;

    Words(Sight sight) {
        this.sight = sight;
    }

    /// A new inbox, whose words are 0.
    void begin() {
        sharedDone = 0;
        sharedPosted = 0;
    }

    /// What a write that is about to be posted changes.
    ///
    /// @param tail `ADD`, `SET` or `SHARED`
    CounterUpdate update(Slot slot, Note.Offer offer, Tail tail, long value) {
        if (tail == Tail.SHARED) {
            sharedPosted++;
            return CounterUpdate.add(word(offer, Layout.SLOTS), 1);
        }
        RemoteMemory own = word(offer, slot.number);
        return tail == Tail.ADD ? CounterUpdate.add(own, value) : CounterUpdate.set(own, value);
    }

    private static RemoteMemory word(Note.Offer offer, int number) {
        return offer.inbox().slice(Layout.word(number), Long.BYTES);
    }

    private static long after(Slot slot, Tail tail, long value) {
        return tail == Tail.ADD ? slot.word + value : value;
    }

    /// Checks what a write that is done has made of its word.
    void check(Slot slot, Note.Offer offer, Tail tail, long value) {
        if (tail == Tail.SHARED) {
            sharedDone++;
        }
        Long is = sight.word(offer, Layout.word(tail == Tail.SHARED ? Layout.SLOTS : slot.number));
        if (is == null) {
            return; // the bytes cannot be seen either, which is looked into there
        }
        if (tail == Tail.SHARED) {
            if (is < sharedDone || is > sharedPosted) {
                sight.doubt(
                        "the shared word is %d after %d writes of %d that raise it were done"
                                .formatted(is, sharedDone, sharedPosted));
            }
            return;
        }
        long expected = after(slot, tail, value);
        slot.word = expected;
        if (is != expected) {
            sight.doubt("the word of slot %d is %x, not %x".formatted(slot.number, is, expected));
        }
    }

    /// @return whether the word of a write that is not done was raised nevertheless
    boolean raised(Slot slot, Note.Offer offer, Tail tail, long value) {
        Long is = sight.word(offer, Layout.word(slot.number));
        if (is == null || is == slot.word) {
            return false;
        }
        if (is != after(slot, tail, value)) {
            sight.doubt(
                    "the word of slot %d is %x, neither %x nor %x"
                            .formatted(slot.number, is, slot.word, after(slot, tail, value)));
        }
        slot.word = is;
        return true;
    }
}
