package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.telpher.ConnectionMetrics;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// What the options of a run come to, between two ranks of one process that do not use that they
/// are.
class StandTest {
    private final Rank here = new Rank(0);
    private final Rank there = new Rank(1);

    @AfterEach
    void close() {
        here.close();
        there.close();
    }

    private ConnectionMetrics connect(String path, String memory, int lanes, List<String> rails) {
        Stage stage =
                new Stage(
                        path,
                        MemoryPair.parse(memory),
                        lanes,
                        rails,
                        Traffic.PAIR,
                        Traffic.Direction.ONE,
                        2,
                        1 << 16,
                        Stage.Waiting.POLL);
        List<Message> descriptions = List.of(here.open(stage), there.open(stage));
        here.connect(descriptions);
        there.connect(descriptions);
        return metrics();
    }

    private ConnectionMetrics metrics() {
        return here.stand().neighbour(1).connection().metrics();
    }

    @ParameterizedTest
    @CsvSource({
        "self, telpher",
        "self, foreign",
        "mapped, telpher",
        "cma, foreign",
        "cma, telpher",
        "shm-ring, telpher",
        "shm-ring, foreign",
        "tcp, telpher",
        "tcp, telpher:foreign"
    })
    void writesAndReadsOfEitherMemoryGoTheWayThatTheyAreMeasuredUnder(String path, String memory) {
        assertThat(connect(path, memory, 0, List.of()).paths())
                .filteredOn(used -> used.name().equals(path))
                .singleElement()
                .satisfies(used -> assertThat(used.transfersDone()).isGreaterThanOrEqualTo(2));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3})
    void thereAreAsManyLanesAsWereAskedFor(int lanes) {
        connect("tcp", "telpher", lanes, List.of("127.0.0.0/8"));
        await().untilAsserted(
                        () ->
                                assertThat(metrics().lanes())
                                        .filteredOn(ConnectionMetrics.Lane::alive)
                                        .hasSize(lanes + 1));
    }
}
