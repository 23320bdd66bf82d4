package io.telpher.cli.watch;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.ConnectionMetrics;
import io.telpher.EndpointMetrics;
import io.telpher.TransferFailures;
import io.telpher.internal.observe.Snapshot;
import java.util.List;
import org.junit.jupiter.api.Test;

class PrometheusTextTest {
    private static ConnectionMetrics connection(String path, long sent) {
        return new ConnectionMetrics(
                1,
                2,
                0,
                0,
                0,
                TransferFailures.NONE,
                List.of(new ConnectionMetrics.Path(path, sent, 0, 1)),
                List.of());
    }

    private static String page(ConnectionMetrics... connections) {
        PrometheusText text = new PrometheusText();
        text.add(
                7,
                new Snapshot(
                        1,
                        1000,
                        0,
                        List.of(
                                new EndpointMetrics(
                                        2,
                                        2,
                                        0,
                                        0,
                                        0,
                                        0,
                                        0,
                                        EndpointMetrics.Totals.NONE,
                                        List.of(connections)))),
                2500);
        return text.toString();
    }

    /// Both ends of a connection with itself have the same labels: a series twice would make the
    /// whole page unreadable.
    @Test
    void aSeriesComesOnce() {
        String page = page(connection("self", 100), connection("self", 23));
        assertThat(page.lines().filter(l -> l.startsWith("telpher_path_sent_bytes_total")))
                .containsExactly(
                        "telpher_path_sent_bytes_total{pid=\"7\",endpoint=\"0000000000000002\","
                                + "connection=\"0000000000000001\",peer=\"0000000000000002\","
                                + "path=\"self\"} 123");
        List<String> names = page.lines().filter(l -> l.startsWith("# TYPE")).toList();
        assertThat(names).doesNotHaveDuplicates();
    }

    @Test
    void valuesAndLabelsAreWrittenAsTheFormatSays() {
        String page = page(connection("a\"b\\c\nd", 9_007_199_254_740_993L));
        assertThat(page)
                .contains("path=\"a\\\"b\\\\c\\nd\"} 9007199254740992\n")
                .contains("telpher_snapshot_age_seconds{pid=\"7\"} 1.50000000\n");
    }
}
