package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.transport.verbs.FakeObjects.Region;
import io.telpher.spi.EndpointContext;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Who closes a device, when, and what it does that something cannot be destroyed.
class DeviceTest {
    private static final FakeVerbs VERBS = FakeVerbs.HERE;
    private static final IbSettings SETTINGS = IbSettings.of(name -> null);

    private final Map<Integer, Runnable> watched = new HashMap<>();

    private final EndpointContext endpoint =
            (EndpointContext)
                    Proxy.newProxyInstance(
                            DeviceTest.class.getClassLoader(),
                            new Class<?>[] {EndpointContext.class},
                            (proxy, method, arguments) -> {
                                switch (method.getName()) {
                                    case "watch" ->
                                            watched.put(
                                                    (Integer) arguments[0],
                                                    (Runnable) arguments[1]);
                                    case "unwatch" -> watched.remove(arguments[0]);
                                    default -> throw new AssertionError(method);
                                }
                                return null;
                            });

    @BeforeEach
    void reset() {
        VERBS.reset();
    }

    @AfterEach
    void nothingIsLeft() {
        assertThat(VERBS.misuses()).isEmpty();
        assertThat(VERBS.left()).isEmpty();
        VERBS.reset();
    }

    private Device open() {
        return new Device(VERBS, endpoint, "fake0");
    }

    private static RingPair connect(Device device) {
        return new RingPair(device, rails(device, new ArrayList<>()).getFirst(), SETTINGS);
    }

    private static List<Rail> rails(Device device, List<String> remarks) {
        return device.rails(SETTINGS, remarks);
    }

    /// A control thread may still connect a lane when the endpoint has gone.
    @Test
    void aDeviceStaysOpenUnderItsQueuePairs() {
        Device device = open();
        RingPair late = connect(device);
        Rail rail = rails(device, new ArrayList<>()).getFirst();
        device.close();
        assertThat(VERBS.left()).hasSizeGreaterThan(5);
        assertThatThrownBy(() -> new RingPair(device, rail, SETTINGS))
                .isInstanceOf(TelpherException.Closed.class)
                .hasMessageContaining("fake0");
        List<String> remarks = new ArrayList<>();
        assertThat(rails(device, remarks)).isEmpty();
        assertThat(remarks).containsExactly("fake0: the endpoint was closed");
        late.close();
    }

    /// The progress thread may have been on its way.
    @Test
    void noEventsAreTakenFromADeviceThatIsClosed() {
        Device device = open();
        Runnable ready = watched.values().iterator().next();
        VERBS.tell("fake0", "port error", false);
        ready.run();
        device.close();
        assertThat(watched).isEmpty();
        ready.run();
    }

    @Test
    void aDeviceWhoseEventsCannotBeReadHasFailedAndIsNotWatchedAnyMore() {
        Device device = open();
        RingPair rings = connect(device);
        VERBS.failNext("ibv_get_async_event", Errno.EIO);
        watched.values().iterator().next().run();
        assertThat(watched).isEmpty();
        assertThat(rings.queuePair().failure()).contains("fake0", "cannot be read", "EIO");
        List<String> remarks = new ArrayList<>();
        assertThat(rails(device, remarks)).as("for new lanes").isEmpty();
        assertThat(remarks).hasSize(1).first().asString().contains("cannot be read");
        rings.close();
        device.close();
    }

    /// The device may still write there: nobody else gets it.
    @Test
    void memoryUnderAQueuePairThatCannotBeDestroyedIsNotUsedAgain() {
        Device device = open();
        for (String verb : List.of("ibv_destroy_qp", "ibv_dereg_mr")) {
            RingPair lost = connect(device);
            VERBS.failNext(verb, Errno.EBUSY);
            lost.close();
        }
        List<Region> kept = regions();
        assertThat(kept).hasSize(3);
        List<RingPair> others = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            others.add(connect(device));
        }
        assertThat(regions())
                .filteredOn(region -> !kept.contains(region))
                .hasSize(2 * others.size())
                .noneMatch(
                        region ->
                                kept.stream()
                                        .anyMatch(
                                                k ->
                                                        k.covers(region.address(), 1)
                                                                || region.covers(k.address(), 1)));
        others.forEach(RingPair::close);
        device.close();
        VERBS.forgetAll();
    }

    private static List<Region> regions() {
        return VERBS.left().stream()
                .filter(Region.class::isInstance)
                .map(Region.class::cast)
                .toList();
    }
}
