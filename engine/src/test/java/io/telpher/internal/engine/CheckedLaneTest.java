package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.spi.Lane;
import java.lang.reflect.Method;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

/// What wraps a lane must not answer for it by accident.
class CheckedLaneTest {
    /// A method that a lane need not have is the easy one to forget. Memory that is sent from
    /// without a copy is what this lane cannot have: it copies first.
    @Test
    void nothingIsAnsweredByTheInterfaceButSharing() {
        assertThat(
                        Arrays.stream(CheckedLane.class.getMethods())
                                .filter(Method::isDefault)
                                .filter(method -> method.getDeclaringClass() == Lane.class)
                                .map(Method::getName))
                .containsExactly("share");
    }
}
