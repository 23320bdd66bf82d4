package io.telpher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.reflect.RecordComponent;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SettingTest {
    @Test
    void everyOptionHasAVariable() {
        List<String> options =
                Arrays.stream(EndpointOptions.class.getRecordComponents())
                        .map(RecordComponent::getName)
                        .toList();
        assertThat(Setting.fromEnvironment(Map.of()))
                .extracting(Setting::option)
                .containsExactlyElementsOf(options);
    }

    @Test
    void anEmptyEnvironmentGivesTheDefaults() {
        assertThat(EndpointOptions.fromEnvironment(Map.of("TELPHER_LANES", " ")))
                .isEqualTo(EndpointOptions.DEFAULTS);
        assertThat(Setting.fromEnvironment(Map.of("TELPHER_LANES", "")))
                .extracting(Setting::origin)
                .containsOnly(Setting.DEFAULT);
    }

    @Test
    void whatIsShownCanBeSetAgain() {
        Map<String, String> environment =
                Map.ofEntries(
                        Map.entry("TELPHER_TRANSPORTS", "tcp"),
                        Map.entry("TELPHER_PATHS", "mapped, cma"),
                        Map.entry("TELPHER_INTERFACES", "eth0,10.1.0.0/16"),
                        Map.entry("TELPHER_PORT", "7070"),
                        Map.entry("TELPHER_LANES", "3"),
                        Map.entry("TELPHER_MAX_SOCKETS", "5"),
                        Map.entry("TELPHER_DEADLINE", "2.5"),
                        Map.entry("TELPHER_CONNECT_DEADLINE", "500ms"),
                        Map.entry("TELPHER_LIVENESS", "7 s"),
                        Map.entry("TELPHER_DRAIN_LIMIT", "250ms"),
                        Map.entry("TELPHER_SPIN", "20us"),
                        Map.entry("TELPHER_MAX_NOTIFICATION", "4096"),
                        Map.entry("TELPHER_SOCKET_DIRECTORY", "/run/telpher"),
                        Map.entry("TELPHER_HUGE_PAGES", "yes"),
                        Map.entry("TELPHER_SLOW_TRANSFER", "300ms"),
                        Map.entry("TELPHER_METRICS", "off"),
                        Map.entry("TELPHER_CHECKSUMS", "on"));
        EndpointOptions options = EndpointOptions.fromEnvironment(environment);
        assertThat(options.deadline()).isEqualTo(Duration.ofMillis(2500));
        assertThat(options.spin()).isEqualTo(Duration.ofNanos(20_000));
        assertThat(options.paths()).containsExactly("mapped", "cma");
        assertThat(options.hugePages()).isTrue();
        assertThat(options.slowTransfer()).isEqualTo(Duration.ofMillis(300));
        assertThat(options.metrics()).isFalse();

        Map<String, String> shown = new java.util.HashMap<>();
        for (Setting setting : Setting.fromEnvironment(environment)) {
            if (!setting.option().equals("secret")) {
                shown.put(setting.variable(), setting.value());
                assertThat(setting.origin()).isEqualTo(setting.variable());
            }
        }
        assertThat(EndpointOptions.fromEnvironment(shown)).isEqualTo(options);
    }

    @Test
    void theSecretIsNeverShown() {
        String secret = "correct horse battery staple";
        assertThat(Setting.fromEnvironment(Map.of("TELPHER_SECRET", secret)).toString())
                .contains("set, not shown")
                .doesNotContain("horse");
        assertThatThrownBy(
                        () -> EndpointOptions.fromEnvironment(Map.of("TELPHER_SECRET", "tooshort")))
                .hasMessageContaining("TELPHER_SECRET")
                .hasMessageContaining("this one has 8")
                .hasMessageNotContaining("tooshort");
        assertThatThrownBy(() -> EndpointOptions.fromEnvironment(Map.of("TELPHER_SECRET", "")))
                .hasMessageContaining("this one has 0");
    }

    @Test
    void interfacesOfNcclCountWhereTelphersAreNotSet() {
        Map<String, String> nccl = Map.of("NCCL_SOCKET_IFNAME", "=eth1");
        assertThat(EndpointOptions.fromEnvironment(nccl).interfaces()).containsExactly("eth1");
        assertThat(Setting.fromEnvironment(nccl))
                .filteredOn(s -> s.option().equals("interfaces"))
                .singleElement()
                .extracting(Setting::origin)
                .isEqualTo("NCCL_SOCKET_IFNAME");
        assertThat(EndpointOptions.fromEnvironment(Map.of("NCCL_SOCKET_IFNAME", "^docker")))
                .isEqualTo(EndpointOptions.DEFAULTS);
    }

    @ParameterizedTest
    @CsvSource({
        "TELPHER_PORT,seven",
        "TELPHER_PORT,70000",
        "TELPHER_LANES,-1",
        "TELPHER_DEADLINE,soon",
        "TELPHER_DEADLINE,0",
        "TELPHER_DEADLINE,-3s",
        "TELPHER_DEADLINE,NaN",
        "TELPHER_LIVENESS,5m",
        "TELPHER_HUGE_PAGES,perhaps",
        "TELPHER_TRANSPORTS,'shm,tpc'",
        "TELPHER_PATHS,mappd"
    })
    void whatCannotBeUnderstoodIsNamed(String variable, String value) {
        assertThatThrownBy(() -> EndpointOptions.fromEnvironment(Map.of(variable, value)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith(variable + "=" + value + ": ");
    }

    @Test
    void misspeltVariablesAreFound() {
        assertThat(Setting.unknown(Map.of("TELPHER_LANEZ", "1", "TELPHER_LANES", "1", "HOME", "/")))
                .containsExactly("TELPHER_LANEZ");
    }
}
