package io.telpher.internal.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.internal.device.ExportRecord.Part;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class ExportRecordTest {
    private static final UUID DEVICE = new UUID(1, 2);
    private static final byte[] HANDLE = new byte[64];

    private static ExportRecord record(List<Part> parts, long offset, long size) {
        return new ExportRecord(Gpu.WAY_DESCRIPTOR, DEVICE, parts, offset, size, HANDLE);
    }

    private static ExportRecord random(Random random) {
        int count = 1 + random.nextInt(random.nextInt(4) == 0 ? ExportRecord.MOST_PARTS : 3);
        List<Part> parts =
                Stream.generate(() -> new Part(random.nextLong(), 1 + random.nextInt(1 << 20)))
                        .limit(count)
                        .toList();
        long offset = random.nextLong(parts.getFirst().size());
        long before = parts.stream().limit(count - 1).mapToLong(Part::size).sum();
        long least = Math.max(before + 1, offset + 1);
        long end = random.nextLong(least, before + parts.getLast().size() + 1);
        return record(parts, offset, end - offset);
    }

    @Test
    void whatIsWrittenIsRead() {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int i = 0; i < 2000; i++) {
            ExportRecord record = random(random);
            byte[] bytes = record.toBytes();
            assertThat(bytes.length).isLessThanOrEqualTo(ExportRecord.MAX);
            assertThat(ExportRecord.ofBytes(bytes)).as("seed %d", seed).isEqualTo(record);
        }
    }

    /// A peer may send anything: it makes a record whose ranges hold, or none.
    @Test
    void damagedBytesMakeSenseOrNone() {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int i = 0; i < 20_000; i++) {
            byte[] bytes = random(random).toBytes();
            for (int n = random.nextInt(4); n >= 0; n--) {
                bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
            }
            ExportRecord read = ExportRecord.ofBytes(bytes);
            if (read != null) {
                assertThat(ExportRecord.ofBytes(read.toBytes()))
                        .as("seed %d", seed)
                        .isEqualTo(read);
                assertThat(read.size()).isBetween(1L, read.allocationSize() - read.offset());
            }
        }
    }

    @Test
    void rangesBeginInTheFirstPartAndEndInTheLast() {
        List<Part> parts = List.of(new Part(1, 100), new Part(2, 50), new Part(3, 10));
        assertThat(record(parts, 99, 61).allocationSize()).isEqualTo(160);
        assertThat(record(parts, 99, 52).size()).isEqualTo(52);
        for (long[] wrong : new long[][] {{100, 60}, {99, 51}, {99, 62}, {-1, 160}, {0, 0}}) {
            assertThatThrownBy(() -> record(parts, wrong[0], wrong[1]))
                    .as("%d bytes at %d", wrong[1], wrong[0])
                    .isInstanceOf(IllegalArgumentException.class);
        }
        List<Part> endless = List.of(new Part(1, Long.MAX_VALUE), new Part(2, Long.MAX_VALUE));
        assertThatThrownBy(() -> record(endless, 0, 1))
                .isInstanceOf(IllegalArgumentException.class);
        List<Part> many = Collections.nCopies(ExportRecord.MOST_PARTS + 1, new Part(1, 8));
        assertThatThrownBy(() -> record(many, 0, 8L * many.size()))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("129 parts");
        assertThatThrownBy(() -> new ExportRecord(Gpu.WAY_IPC, DEVICE, parts, 0, 160, HANDLE))
                .isInstanceOf(IllegalArgumentException.class);
    }
}
