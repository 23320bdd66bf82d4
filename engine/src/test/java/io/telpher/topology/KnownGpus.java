package io.telpher.topology;

import java.util.List;
import java.util.Optional;

/// What a driver's library would say.
record KnownGpus(List<Fact> gpus, Optional<String> missing) implements GpuFacts {
    static GpuFacts of(Fact... gpus) {
        return new KnownGpus(List.of(gpus), Optional.empty());
    }
}
