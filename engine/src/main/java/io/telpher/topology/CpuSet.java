package io.telpher.topology;

import java.util.BitSet;
import java.util.Locale;
import java.util.StringJoiner;

/// A set of logical CPUs.
public final class CpuSet {
    /// No CPU.
    public static final CpuSet NONE = new CpuSet(new BitSet());

    /// More than any kernel is built for; keeps a broken file from asking for all memory.
    private static final int LIMIT = 1 << 16;

    private static final int WORD = 32;

    private final BitSet cpus;

    private CpuSet(BitSet cpus) {
        this.cpus = cpus;
    }

    /// Reads the kernel's list form, `0-31,64-95`; empty for none.
    ///
    /// @throws IllegalArgumentException when it is none
    public static CpuSet parseList(String list) {
        BitSet cpus = new BitSet();
        for (String range : list.strip().split(",")) {
            if (range.isBlank()) {
                continue;
            }
            String[] ends = range.strip().split("-", 2);
            int first = number(ends[0], list);
            int last = ends.length == 1 ? first : number(ends[1], list);
            if (last < first) {
                throw new IllegalArgumentException("'" + list + "' is no list of CPUs");
            }
            cpus.set(first, last + 1);
        }
        return new CpuSet(cpus);
    }

    private static int number(String text, String list) {
        try {
            int cpu = Integer.parseInt(text.strip());
            if (cpu >= 0 && cpu < LIMIT) {
                return cpu;
            }
        } catch (NumberFormatException e) {
            // said below
        }
        throw new IllegalArgumentException("'" + list + "' is no list of CPUs such as 0-31,64-95");
    }

    /// Reads the kernel's mask form, which is NCCL's: `ffffffff,00000000`, words of 32 bits with
    /// the last CPUs first.
    ///
    /// @throws IllegalArgumentException when it is none
    public static CpuSet parseMask(String mask) {
        BitSet cpus = new BitSet();
        String[] words = mask.strip().isEmpty() ? new String[0] : mask.strip().split(",", -1);
        if (words.length > LIMIT / WORD) {
            throw new IllegalArgumentException("a mask of " + words.length + " words");
        }
        for (int i = 0; i < words.length; i++) {
            int base = (words.length - 1 - i) * WORD;
            long word;
            try {
                word = Integer.parseUnsignedInt(words[i], 16) & 0xffff_ffffL;
            } catch (NumberFormatException e) {
                throw new IllegalArgumentException(
                        "'" + mask + "' is no mask of CPUs such as ffffffff,00000000", e);
            }
            for (int bit = 0; bit < WORD; bit++) {
                if ((word >>> bit & 1) != 0) {
                    cpus.set(base + bit);
                }
            }
        }
        return new CpuSet(cpus);
    }

    /// @return the mask form
    public String mask() {
        StringJoiner words = new StringJoiner(",");
        for (int word = Math.max(0, cpus.length() - 1) / WORD; word >= 0; word--) {
            long bits = 0;
            for (int bit = 0; bit < WORD; bit++) {
                if (cpus.get(word * WORD + bit)) {
                    bits |= 1L << bit;
                }
            }
            String form = words.length() == 0 ? "%x" : "%08x";
            words.add(String.format(Locale.ROOT, form, bits));
        }
        return words.toString();
    }

    public boolean isEmpty() {
        return cpus.isEmpty();
    }

    /// @return how many
    public int size() {
        return cpus.cardinality();
    }

    public boolean contains(int cpu) {
        return cpus.get(cpu);
    }

    /// @return whether the two have a CPU in common
    public boolean intersects(CpuSet other) {
        return cpus.intersects(other.cpus);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof CpuSet set && cpus.equals(set.cpus);
    }

    @Override
    public int hashCode() {
        return cpus.hashCode();
    }

    /// @return the list form
    @Override
    public String toString() {
        StringJoiner ranges = new StringJoiner(",");
        for (int first = cpus.nextSetBit(0); first >= 0; ) {
            int end = cpus.nextClearBit(first);
            ranges.add(end - first == 1 ? "" + first : first + "-" + (end - 1));
            first = cpus.nextSetBit(end);
        }
        return ranges.toString();
    }
}
