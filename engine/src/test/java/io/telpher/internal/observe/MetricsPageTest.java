package io.telpher.internal.observe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.ConnectionMetrics;
import io.telpher.EndpointMetrics;
import io.telpher.TransferFailures;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class MetricsPageTest {
    private static final long SELF = ProcessHandle.current().pid();

    @Test
    void whatIsWrittenIsRead() throws Exception {
        long seed = System.nanoTime();
        System.out.println("MetricsPageTest: seed " + seed);
        Random random = new Random(seed);
        try (MetricsPage page = MetricsPage.create()) {
            Path file = page.file();
            for (int i = 1; i <= 50; i++) {
                List<EndpointMetrics> written = endpoints(random);
                page.write(written);
                Snapshot read = MetricsReader.page(SELF, file);
                assertThat(read.endpoints()).isEqualTo(written);
                assertThat(read.sequence()).isEqualTo(i);
                assertThat(read.leftOut()).isZero();
            }
        }
    }

    /// Every snapshot says one number in many places: a mixture of two would say two.
    @Test
    void readersSeeWholeSnapshotsWhileTheWriterWrites() throws Exception {
        try (MetricsPage page = MetricsPage.create()) {
            Path file = page.file();
            page.write(List.of(endpoint(1, 40)));
            AtomicBoolean stop = new AtomicBoolean();
            CompletableFuture<Long> writer =
                    CompletableFuture.supplyAsync(
                            () -> {
                                long n = 1;
                                while (!stop.get()) {
                                    n++;
                                    page.write(List.of(endpoint(n, (int) (n % 80))));
                                }
                                return n;
                            });
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(700);
            long before = 0;
            long reads = 0;
            while (System.nanoTime() < end) {
                Snapshot read;
                try {
                    read = MetricsReader.page(SELF, file);
                } catch (MetricsReader.Unreadable e) {
                    // A writer without a pause may win every time; it must not be believed then.
                    assertThat(e).hasMessageContaining("checksum");
                    continue;
                }
                reads++;
                long number = read.endpoints().getFirst().incarnation();
                assertThat(number).isGreaterThanOrEqualTo(before).isEqualTo(read.sequence());
                before = number;
                for (ConnectionMetrics connection : read.endpoints().getFirst().connections()) {
                    assertThat(connection.bytesSent()).isEqualTo(number);
                    assertThat(connection.lanes().getFirst().stalls()).isEqualTo(number);
                }
            }
            stop.set(true);
            assertThat(writer.get(20, TimeUnit.SECONDS)).isGreaterThan(10);
            assertThat(reads).isPositive();
        }
    }

    @Test
    void aPageThatNobodyAsksForIsWrittenSeldom() {
        long start = System.nanoTime();
        try (MetricsPage page = MetricsPage.create("telpher-test")) {
            assertThat(page.isWanted(start)).as("the first snapshot").isTrue();
            page.write(List.of(endpoint(1, 3)));
            assertThat(page.isWanted(start + 1_000_000_000L)).isFalse();
            assertThat(page.isWanted(start + MetricsPage.SELDOM_NANOS - 1)).isFalse();
            long seldom = start + MetricsPage.SELDOM_NANOS;
            assertThat(page.isWanted(seldom)).isTrue();
            page.write(List.of(endpoint(2, 3)));
            assertThat(page.isWanted(seldom + 1)).isFalse();

            MetricsReader.ask(page.file());
            long asked = seldom + 2;
            assertThat(page.isWanted(asked)).isTrue();
            page.write(List.of(endpoint(3, 3)));
            assertThat(page.isWanted(asked + 1)).as("for a while").isTrue();
            assertThat(page.isWanted(asked + MetricsPage.WANTED_NANOS - 1)).isTrue();
            assertThat(page.isWanted(asked + MetricsPage.WANTED_NANOS)).isFalse();
            MetricsReader.ask(page.file());
            assertThat(page.isWanted(asked + MetricsPage.WANTED_NANOS)).isTrue();
        }
    }

    /// Before anything was written, too: a question must not make a page of an empty file.
    @Test
    void askingChangesNothingThatIsRead() throws Exception {
        try (MetricsPage page = MetricsPage.create()) {
            MetricsReader.ask(page.file());
            assertThatThrownBy(() -> MetricsReader.page(SELF, page.file()))
                    .hasMessageContaining("empty or too short");
            page.write(List.of(endpoint(1, 3)));
            Snapshot before = MetricsReader.page(SELF, page.file());
            MetricsReader.ask(page.file());
            assertThat(MetricsReader.page(SELF, page.file())).isEqualTo(before);
        }
    }

    @Test
    void whoReadsWaitsForANewSnapshotInsteadOfAnOldOne() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        try (MetricsPage page = MetricsPage.create("telpher-test")) {
            page.isWanted(System.nanoTime());
            page.write(List.of(endpoint(1, 3)));
            Thread.sleep(MetricsReader.FRESH_MILLIS + 100);
            CompletableFuture<Void> writer =
                    CompletableFuture.runAsync(
                            () -> {
                                while (!stop.get()) {
                                    if (page.isWanted(System.nanoTime())) {
                                        page.write(List.of(endpoint(2, 3)));
                                    }
                                }
                            });
            try {
                assertThat(MetricsReader.fresh(SELF, page.file()).endpoints())
                        .isEqualTo(List.of(endpoint(2, 3)));
            } finally {
                stop.set(true);
                writer.get(20, TimeUnit.SECONDS); // before its file is closed
            }
        }
    }

    /// A process may have opened something else under the number that a page had.
    @Test
    void anotherFileIsNotWrittenTo(@TempDir Path folder) throws Exception {
        byte[] content = new byte[8192];
        new Random(1).nextBytes(content);
        Path file = Files.write(folder.resolve("file"), content);
        MetricsReader.ask(file);
        assertThat(file).hasBinaryContent(content);
    }

    /// One lane; those of a connection over TCP; as many as one can have had.
    @ParameterizedTest
    @ValueSource(ints = {1, 17, 256})
    void connectionsWithoutRoomStayInTheTotals(int lanes) throws Exception {
        int all = 4 * Snapshot.MOST_BYTES / (100 * lanes);
        EndpointMetrics many = endpoint(7, all, lanes);
        EndpointMetrics more = endpoint(9, 10, lanes);
        byte[] body = Snapshot.encode(List.of(many, more));
        assertThat(body.length)
                .isLessThanOrEqualTo(Snapshot.MOST_BYTES)
                .isGreaterThan(Snapshot.MOST_BYTES * 9 / 10);
        try (MetricsPage page = MetricsPage.create()) {
            page.write(List.of(many, more));
            Snapshot read = MetricsReader.page(SELF, page.file());
            int kept = read.endpoints().get(0).connections().size();
            assertThat(read.endpoints().get(0).connections())
                    .isEqualTo(many.connections().subList(0, kept));
            assertThat(read.leftOut())
                    .isEqualTo(all - kept + 10 - read.endpoints().get(1).connections().size());
            assertThat(read.endpoints().get(0).totals()).isEqualTo(many.totals());
            assertThat(read.endpoints().get(1).totals()).isEqualTo(more.totals());
        }
    }

    @Test
    void whatIsNoPageIsRefused() throws Exception {
        try (MetricsPage page = MetricsPage.create()) {
            Path file = page.file();
            assertThatThrownBy(() -> MetricsReader.page(SELF, file))
                    .isInstanceOf(MetricsReader.Unreadable.class)
                    .hasMessageContaining("process " + SELF)
                    .hasMessageContaining("empty or too short");
            page.write(List.of(endpoint(1, 3)));
            try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
                long body = MetricsPage.slot(1) + MetricsPage.SLOT_HEADER;
                channel.write(ByteBuffer.wrap(new byte[] {99}), body + 20);
                assertThatThrownBy(() -> MetricsReader.page(SELF, file))
                        .hasMessageContaining("checksum");
                page.write(List.of(endpoint(2, 3)));
                assertThat(MetricsReader.page(SELF, file).sequence()).isEqualTo(2);
                channel.write(ByteBuffer.allocate(4).putInt(0, 9), 8);
                assertThatThrownBy(() -> MetricsReader.page(SELF, file))
                        .hasMessageContaining("form 9")
                        .hasMessageContaining("use the telpher of its version");
                channel.write(ByteBuffer.allocate(8), 0);
                assertThatThrownBy(() -> MetricsReader.page(SELF, file))
                        .hasMessageContaining("does not begin as a page does");
            }
        }
    }

    private static EndpointMetrics endpoint(long number, int connections) {
        return endpoint(number, connections, 1);
    }

    private static EndpointMetrics endpoint(long number, int connections, int lanes) {
        List<ConnectionMetrics> all = new ArrayList<>();
        ConnectionMetrics.Lane lane =
                new ConnectionMetrics.Lane(
                        0,
                        "tcp",
                        "10.0.0.1:40000 to 10.0.0.2:7070",
                        true,
                        1,
                        2,
                        3,
                        4,
                        5,
                        number,
                        6,
                        -1);
        for (int i = 0; i < connections; i++) {
            all.add(
                    new ConnectionMetrics(
                            i,
                            number,
                            0,
                            number,
                            0,
                            TransferFailures.NONE,
                            List.of(new ConnectionMetrics.Path("tcp", number, 0, number)),
                            Collections.nCopies(lanes, lane)));
        }
        return new EndpointMetrics(number, 1, 0, 0, 2, 4096, 0, EndpointMetrics.Totals.NONE, all);
    }

    private static List<EndpointMetrics> endpoints(Random random) {
        List<EndpointMetrics> all = new ArrayList<>();
        for (int i = random.nextInt(4); i > 0; i--) {
            List<ConnectionMetrics> connections = new ArrayList<>();
            for (int j = random.nextInt(5); j > 0; j--) {
                List<ConnectionMetrics.Path> paths = new ArrayList<>();
                for (int k = random.nextInt(4); k > 0; k--) {
                    paths.add(
                            new ConnectionMetrics.Path(
                                    "path \u00e4" + k,
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong()));
                }
                List<ConnectionMetrics.Lane> lanes = new ArrayList<>();
                for (int k = random.nextInt(4); k > 0; k--) {
                    lanes.add(
                            new ConnectionMetrics.Lane(
                                    random.nextInt(),
                                    "tcp",
                                    "from " + random.nextInt(),
                                    random.nextBoolean(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong()));
                }
                connections.add(
                        new ConnectionMetrics(
                                random.nextLong(),
                                random.nextLong(),
                                random.nextLong(),
                                random.nextLong(),
                                random.nextLong(),
                                failures(random),
                                paths,
                                lanes));
            }
            all.add(
                    new EndpointMetrics(
                            random.nextLong(),
                            random.nextLong(),
                            random.nextLong(),
                            random.nextLong(),
                            random.nextLong(),
                            random.nextLong(),
                            random.nextLong(),
                            new EndpointMetrics.Totals(
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    random.nextLong(),
                                    failures(random)),
                            connections));
        }
        return all;
    }

    private static TransferFailures failures(Random random) {
        return new TransferFailures(
                random.nextLong(),
                random.nextLong(),
                random.nextLong(),
                random.nextLong(),
                random.nextLong(),
                random.nextLong(),
                random.nextLong(),
                random.nextLong());
    }
}
