package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.tuple;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.transport.verbs.FakeObjects.Region;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Lane;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
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

    /// It is what has to be mended first.
    @Test
    void whyNothingCanBeUsedStaysTheReasonWhenClosingFails() {
        Provider failing =
                Altered.provider(
                        VERBS,
                        "close",
                        (usual, arguments) -> {
                            Object unused = usual.answer();
                            throw new IllegalStateException("of the test");
                        });
        IbSettings none = IbSettings.of(name -> name.equals("TELPHER_IB_HCA") ? "other" : null);
        assertThatThrownBy(() -> VerbsEndpoint.open(endpoint, failing, none))
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageContaining("no RDMA port can be used")
                .satisfies(e -> assertThat(e.getSuppressed()).isNotEmpty());
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

    /// Which is found once for each device.
    @Test
    void requestsCarryAsMuchByThemselvesAsTheDeviceHasRoomFor() {
        for (int[] each :
                new int[][] {{256, 192, 0}, {101, 96, 1}, {96, 96, 1}, {48, 48, 3}, {0, 0, 5}}) {
            VERBS.limitInline(each[0]);
            List<Integer> refused = new ArrayList<>();
            Provider counting =
                    Altered.provider(
                            VERBS,
                            "createQp",
                            (usual, arguments) -> {
                                int inline = ((VerbsQueuePairs.Capacity) arguments[2]).inline();
                                if (inline > each[0]) {
                                    refused.add(inline);
                                }
                                return usual.answer();
                            });
            Device device = new Device(counting, endpoint, "fake0");
            RingPair first = connect(device);
            RingPair second = connect(device);
            assertThat(first.queuePair().inline()).as("of %d", each[0]).isEqualTo(each[1]);
            assertThat(second.queuePair().inline()).as("of %d", each[0]).isEqualTo(each[1]);
            assertThat(refused).as("of %d", each[0]).hasSize(each[2]);
            first.close();
            second.close();
            device.close();
        }
    }

    /// It says nothing of the device.
    @Test
    void aShortageOfMemoryCostsNoInlineData() {
        Device device = open();
        VERBS.failNext("ibv_create_qp", Errno.ENOMEM);
        assertThatThrownBy(() -> connect(device))
                .hasMessageContaining("ibv_create_qp")
                .hasMessageContaining("RLIMIT_MEMLOCK is ");
        RingPair next = connect(device);
        assertThat(next.queuePair().inline()).isEqualTo(192);
        next.close();
        device.close();
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

    /// The peer's other queue pair on the link is being connected meanwhile: it hears of that, too.
    @Test
    void aTargetIsRefusedWhenAnotherOneCouldNotBeDestroyed() {
        AtomicReference<Runnable> meanwhile = new AtomicReference<>(() -> {});
        Provider hooked =
                Altered.provider(
                        VERBS,
                        "readyToReceive",
                        (usual, arguments) -> {
                            meanwhile.getAndSet(() -> {}).run();
                            return usual.answer();
                        });
        Device device = new Device(hooked, endpoint, "fake0");
        Registrations memory = new Registrations(device, endpoint, false);
        Rail rail = rails(device, new ArrayList<>()).getFirst();
        RingPair peer = connect(device);
        List<ControlMessage.Accepted> answers = new ArrayList<>();
        WindowTargets targets =
                new WindowTargets(
                        endpoint,
                        memory,
                        rail,
                        SETTINGS,
                        peer.offer(rail.gid(), true),
                        answeringInto(answers));
        ControlMessage.Offered small = new ControlMessage.Offered(0, 11, 1, 1);
        ControlMessage.Offered bulk = new ControlMessage.Offered(1, 12, 1, 1);
        targets.accept(bulk);
        meanwhile.set(
                () -> {
                    VERBS.failNext("ibv_destroy_qp", Errno.EBUSY);
                    targets.accept(bulk);
                });
        targets.accept(small);
        assertThat(answers)
                .extracting(ControlMessage.Accepted::offered, ControlMessage.Accepted::status)
                .containsExactly(
                        tuple(12, ControlMessage.Status.GOOD),
                        tuple(12, ControlMessage.Status.FAILED),
                        tuple(11, ControlMessage.Status.FAILED));
        assertThat(answers.getLast().reason()).contains("could not be ended");
        assertThat(targets.close()).isFalse();
        peer.close();
        memory.close();
        device.close();
        VERBS.forgetAll();
    }

    private static ControlStream answeringInto(List<ControlMessage.Accepted> answers) {
        return new ControlStream(
                (Lane)
                        Proxy.newProxyInstance(
                                DeviceTest.class.getClassLoader(),
                                new Class<?>[] {Lane.class},
                                (proxy, method, arguments) -> {
                                    if (method.getName().equals("send")) {
                                        byte[] frame =
                                                ((MemorySegment) arguments[0]).toArray(JAVA_BYTE);
                                        answers.add(
                                                (ControlMessage.Accepted)
                                                        ControlMessage.decode(frame));
                                    }
                                    return Lane.OK;
                                }));
    }

    private static List<Region> regions() {
        return VERBS.left().stream()
                .filter(Region.class::isInstance)
                .map(Region.class::cast)
                .toList();
    }
}
