package io.telpher.python;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/// The numbers by which Python names Java objects.
class HandlesTest {
    private final Handles handles = new Handles();

    @Test
    void oneThatWasGivenBackIsRecognisedWhateverHasItsSlot() {
        List<Long> given = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            given.add(handles.put("object " + i));
        }
        assertThat(handles.count()).isEqualTo(1000);
        given.forEach(handles::remove);
        given.forEach(handles::remove);
        assertThat(handles.count()).isZero();
        for (int i = 0; i < 1000; i++) {
            assertThat(handles.put("other " + i)).isPositive().isLessThan(1L << 62);
        }
        for (long old : given) {
            assertThatThrownBy(() -> handles.get(old, String.class))
                    .isInstanceOf(TelpherException.Closed.class);
        }
    }

    @Test
    void oneThatIsKeptCannotBeGivenBack() {
        long kept = handles.keep("kept");
        handles.remove(kept);
        assertThat(handles.get(kept, String.class)).isEqualTo("kept");
        assertThat(handles.put("another")).isNotEqualTo(kept);
    }
}
