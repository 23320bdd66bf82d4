package io.telpher.cli.bench;

import io.telpher.cli.Content;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Compares what a rank got in a phase with what was sent to it.
final class Comparer {
    private final Stand stand;
    private final Phase phase;
    private final int rank;
    private long wrong;
    private @Nullable String first;

    /// @param rank who got it
    Comparer(Stand stand, Phase phase, int rank) {
        this.stand = stand;
        this.phase = phase;
        this.rank = rank;
    }

    /// @return wrong bytes
    long wrong() {
        return wrong;
    }

    /// @return where the first of them is, or null
    @Nullable String first() {
        return first;
    }

    /// Compares the notifications of a rank: the last payload of each place.
    void notifications(MemorySegment[] payloads, int sender) {
        for (int slot = 0; slot < payloads.length; slot++) {
            compare(payloads[slot], 0, phase.bytes(), sender, slot * phase.spacing());
        }
    }

    /// Compares the operations that a rank initiated, or that were read from it.
    void operations(int sender) {
        for (int slot = 0; slot < phase.spread(); slot++) {
            long near = slot * phase.spacing();
            long base = stand.landing(sender) + near;
            if (phase.pieces() == 1) {
                whole(base, sender, near);
            } else {
                pieces(base, sender, near);
            }
        }
    }

    private void whole(long base, int sender, long position) {
        long part = RegionContent.part(stand.target);
        for (long at = 0; at < phase.bytes(); at += part) {
            long length = Math.min(part, phase.bytes() - at);
            RegionContent.Readable bytes = stand.content.read(stand.target, base + at, length);
            compare(bytes.memory(), bytes.offset(), length, sender, position + at);
            if (length < part) {
                return;
            }
        }
    }

    private void pieces(long base, int sender, long position) {
        RegionContent.Readable bytes = stand.content.read(stand.target, base, phase.bytes());
        long length = phase.bytes() / phase.pieces();
        for (int piece = 0; piece < phase.pieces(); piece++) {
            int place = phase.op() == Op.SEND ? piece : Scatter.place(piece, phase.pieces());
            compare(
                    bytes.memory(),
                    bytes.offset() + place * length,
                    length,
                    sender,
                    position + piece * length);
        }
    }

    private void compare(MemorySegment memory, long at, long length, int sender, long position) {
        long seed = Content.seed(phase.round(), sender, phase.bytes());
        long bad = Content.firstWrong(memory, at, length, seed, position);
        if (bad < 0) {
            return;
        }
        wrong += Content.countWrong(memory, at, length, seed, position);
        if (first == null) {
            first =
                    "byte %d of what rank %d got from rank %d in %s, round %d"
                            .formatted(position + bad, rank, sender, phase, phase.round());
        }
    }
}
