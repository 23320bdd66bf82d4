package io.telpher.internal.engine;

/// How many short copies a thread has made by itself from and to one region of the peer, and of how
/// many bytes. Whatever is counted is felt in a copy of 8 bytes: both numbers of a small copy go
/// into one word, in one addition, and that lies in the object that the copy has just looked at,
/// which extends this.
///
/// Such a word is `bytes * 2^29 + copies`. The difference of two looks at it tells both, as long as
/// fewer than 2^28 copies lie in between: one thread that does nothing else needs 6 s for so many,
/// and the progress thread looks about once a second ([#settle]).
///
/// Plain numbers: racing threads lose a few, and the fences of the windows make them seen.
class CopyCounts {
    /// Bytes of the largest copy that is small: 2^28 of these have 2^34 bytes, for which there is
    /// room.
    private static final long SMALL = 64;

    private static final int BITS = 29;

    private long written;
    private long read;

    // Of copies that are not small.
    private long large;
    private long largeWritten;
    private long largeRead;

    // Guarded by whoever calls #settle: how far the words were looked at, and what they have told.
    private long writtenSeen;
    private long readSeen;
    private long settled;
    private long settledWritten;
    private long settledRead;

    final void count(Operation.Kind kind, long length) {
        add(kind, length, 1);
    }

    /// A copy did not count after all.
    final void uncount(Operation.Kind kind, long length) {
        add(kind, length, -1);
    }

    private void add(Operation.Kind kind, long length, long times) {
        if (length > SMALL) {
            addLarge(kind, length * times, times);
            return;
        }
        long both = times * ((length << BITS) + 1);
        if (kind == Operation.Kind.READ) {
            read += both;
        } else {
            written += both;
        }
    }

    private void addLarge(Operation.Kind kind, long bytes, long times) {
        large += times;
        if (kind == Operation.Kind.READ) {
            largeRead += bytes;
        } else {
            largeWritten += bytes;
        }
    }

    /// Looks at what has been added since the last look. One thread at a time.
    final void settle() {
        long write = written;
        long more = write - writtenSeen;
        writtenSeen = write;
        settled += copies(more);
        settledWritten += bytes(more);
        long reading = read;
        more = reading - readSeen;
        readSeen = reading;
        settled += copies(more);
        settledRead += bytes(more);
    }

    /// The low bits, with their sign: more may have been taken back than was added.
    private static long copies(long difference) {
        return (difference << (Long.SIZE - BITS)) >> (Long.SIZE - BITS);
    }

    private static long bytes(long difference) {
        return (difference - copies(difference)) >> BITS;
    }

    /// Adds all there is. One thread at a time.
    final void addTo(Tally.OfPath path) {
        settle();
        path.done += settled + large;
        path.written += settledWritten + largeWritten;
        path.read += settledRead + largeRead;
    }
}
