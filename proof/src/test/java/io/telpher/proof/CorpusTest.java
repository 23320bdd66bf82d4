package io.telpher.proof;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Every input that the fuzzer was given or has found goes through its target.
class CorpusTest {
    @ParameterizedTest
    @EnumSource
    void keptInputsDoNoHarm(Fuzzed fuzzed) throws IOException {
        List<Path> inputs;
        try (Stream<Path> files = Files.list(fuzzed.corpus())) {
            inputs = files.sorted().toList();
        }
        assertThat(inputs).isNotEmpty();
        for (Path input : inputs) {
            try {
                fuzzed.target.accept(Files.readAllBytes(input));
            } catch (RuntimeException | AssertionError e) {
                throw new AssertionError("input " + input, e);
            }
        }
    }
}
