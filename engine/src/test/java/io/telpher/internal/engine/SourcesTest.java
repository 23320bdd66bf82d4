package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

/// Which places the descriptors get that the progress thread waits for.
class SourcesTest {
    /// Keeps the keys that it is given, by descriptor.
    private static final class Kept implements Readiness {
        final List<Long> keys = new ArrayList<>();

        @Override
        public int add(int descriptor, int events, long key) {
            while (keys.size() <= descriptor) {
                keys.add(BELL);
            }
            keys.set(descriptor, key);
            return 0;
        }

        @Override
        public int modify(int descriptor, int events, long key) {
            return 0;
        }

        @Override
        public int remove(int descriptor) {
            return 0;
        }

        @Override
        public int await(int timeoutMillis) {
            return 0;
        }

        @Override
        public long key(int index) {
            return keys.get(index);
        }

        @Override
        public void ring() {}

        @Override
        public void close() {}
    }

    private final Kept kept = new Kept();
    private final Sources sources = new Sources(kept);

    private void watch(int descriptor) {
        sources.watch(descriptor, () -> {});
    }

    private int place(int descriptor) {
        return kept.keys.get(descriptor).intValue();
    }

    @Test
    void everyDescriptorHasAPlaceOfItsOwnAndTheLowestFreeOne() {
        Set<Integer> places = new HashSet<>();
        for (int descriptor = 0; descriptor < 200; descriptor++) {
            watch(descriptor);
            places.add(place(descriptor));
        }
        assertThat(places).hasSize(200).doesNotContain(0);
        long before = kept.keys.get(70);
        for (int descriptor : new int[] {150, 70, 90}) {
            sources.unwatch(descriptor);
        }
        assertThat(sources.source(before)).isNull();
        for (int descriptor : new int[] {70, 90, 150}) {
            int place = place(descriptor);
            watch(descriptor);
            assertThat(place(descriptor)).isEqualTo(place);
        }
        assertThat(sources.source(before)).as("a late event finds nobody").isNull();
        Sources.Source now = sources.source(kept.keys.get(70));
        assertThat(now).isNotNull().extracting(Sources.Source::descriptor).isEqualTo(70);
        watch(200);
        assertThat(place(200)).isEqualTo(201);
    }
}
