package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JavaCommandTest {
    @ParameterizedTest
    @ValueSource(
            strings = {
                "-agentlib:jdwp=transport=dt_socket",
                "-XX:StartFlightRecording=filename=a.jfr",
                "-XX:AOTCacheOutput=/cache/aot",
                "--module-path=lib"
            })
    void whatBelongsToOneProcessIsNotInherited(String flag) {
        assertThat(JavaCommand.isInherited(flag)).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"-Xmx1g", "-XX:AOTCache=/cache/aot", "-Xlog:aot*=off"})
    void otherFlagsAreInherited(String flag) {
        assertThat(JavaCommand.isInherited(flag)).isTrue();
    }
}
