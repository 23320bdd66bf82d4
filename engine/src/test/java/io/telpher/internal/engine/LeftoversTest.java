package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;
import io.telpher.sim.LinkOptions;
import io.telpher.sim.SimHost;
import io.telpher.sim.Simulation;
import io.telpher.spi.Deadline;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// What is planted must be found: the random runs rely on [Leftovers].
class LeftoversTest {
    private static final Duration SHORT = Duration.ofSeconds(10);

    /// A leak, and a word of what is said of it.
    private enum Leak {
        NONE("", core -> {}),
        SLOT("slot", core -> slot(core).setState(Operation.ENDED)),
        MESSAGE_CREDIT("for messages", core -> core.outbound.credits.messages--),
        NOTE_CREDIT("for notifications", core -> core.outbound.credits.noteBytes -= 24),
        LARGE_NOTE_CREDIT("large", core -> core.outbound.credits.largeNoteOut = true),
        READ_CREDIT("unanswered", core -> core.outbound.credits.readsOut++),
        ANSWER("answers", core -> core.serving.running++),
        CONTROL("control", core -> core.outbound.enqueue(credit(core))),
        SIGNAL("signals", core -> core.outbound.signal(Frame.FENCE, 7, 0, 0)),
        SEND_TOKEN("send token", core -> core.lanes.all()[0].sendToken.take()),
        POLL_TOKEN("poll token", core -> core.lanes.all()[0].pollToken.take()),
        FRAME(
                "frames unconfirmed",
                core -> core.lanes.all()[0].remember(LaneState.Sent.NOP, core, 0, 0)),
        REFUSAL("refusals", core -> core.lanes.all()[0].held.add(1L)),
        PARTS("parts", core -> Objects.requireNonNull(core.mailbox.parts(7, 9000))),
        MAILBOX("not taken", core -> core.mailbox.notified(new byte[9000])),
        RECEIVE("receives", core -> core.matcher.receives.post(slot(core))),
        USER("users", core -> core.endpoint().regions().all().getFirst().users.incrementAndGet());

        final String said;
        final Consumer<ConnectionCore> plant;

        Leak(String said, Consumer<ConnectionCore> plant) {
            this.said = said;
            this.plant = plant;
        }
    }

    private static Operation slot(ConnectionCore core) {
        return Objects.requireNonNull(core.table.take());
    }

    private static ControlFrame credit(ConnectionCore core) {
        return core.outbound.control(Frame.CREDIT, 0, 0, 0);
    }

    @ParameterizedTest
    @EnumSource(Leak.class)
    void aLeakIsFound(Leak leak) {
        List<String> found = new ArrayList<>();
        run(
                (own, peer) -> {
                    leak.plant.accept(((ConnectionImpl) own).core);
                    found.addAll(Leftovers.between(own, peer));
                });
        if (leak == Leak.NONE) {
            assertThat(found).isEmpty();
        } else {
            assertThat(found).anyMatch(text -> text.contains(leak.said));
        }
    }

    /// A lane's death may reverse the two.
    @Test
    void anAdvertThatComesAfterItsWithdrawalIsForgotten() {
        List<String> found = new ArrayList<>();
        run(
                (own, peer) -> {
                    Matcher matcher = ((ConnectionImpl) own).core.matcher;
                    matcher.sends.withdraw(5, 3, 77);
                    matcher.sends.advert(5, 3, 100_000, 77, null);
                    found.addAll(Leftovers.between(own, peer));
                });
        assertThat(found).noneMatch(text -> text.contains("adverts"));
    }

    @Test
    void whoAskedForANameIsForgottenWithItsConnection() {
        AtomicReference<EndpointImpl> asked = new AtomicReference<>();
        run(
                (own, peer) -> {
                    assertThatThrownBy(() -> own.lookup("nothing", Duration.ofMillis(10)))
                            .isInstanceOf(TelpherException.TimedOut.class);
                    EndpointImpl endpoint = ((ConnectionImpl) peer).core.endpoint();
                    assertThat(endpoint.directory().asked()).isEqualTo(1);
                    asked.set(endpoint);
                });
        assertThat(asked.get().directory().asked()).isZero();
    }

    /// A region is closed, and its place taken by another one, while its window is being opened.
    @Test
    void aWindowThatComesTooLateIsGivenBackOnce() {
        List<String> events = new ArrayList<>();
        run(
                (own, peer) -> {
                    ConnectionCore core = ((ConnectionImpl) own).core;
                    AtomicReference<Direct> direct = new AtomicReference<>();
                    Windows windows =
                            new Windows() {
                                @Override
                                public CompletableFuture<Window> open(
                                        RemoteMemory memory, Deadline deadline) {
                                    if (memory.generation() == 1) {
                                        place(direct.get(), core, 2);
                                    }
                                    events.add("opened " + memory.generation());
                                    return CompletableFuture.completedFuture(
                                            new StubWindow(
                                                    () ->
                                                            events.add(
                                                                    "closed "
                                                                            + memory
                                                                                    .generation())));
                                }

                                @Override
                                public String explain() {
                                    return "stubs";
                                }

                                @Override
                                public void close() {}
                            };
                    LaneState lane = Objects.requireNonNull(core.lanes.control());
                    direct.set(new Direct(windows, core, lane));
                    place(direct.get(), core, 1);
                    direct.get().giveBackClosed();
                    direct.get().giveBackClosed();
                });
        assertThat(events).containsExactly("opened 2", "opened 1", "closed 1", "closed 2");
    }

    private static void place(Direct direct, ConnectionCore core, int generation) {
        Operation op = slot(core);
        op.remote = new RemoteMemory(1, 3, generation, 7, 0, 100, Access.READ_WRITE);
        direct.opening.of(op, "by frames", () -> {}).run();
    }

    /// A window to a region that its owner has closed.
    private record StubWindow(Runnable closed) implements Window {
        @Override
        public String path() {
            return "stub";
        }

        @Override
        public int enter() {
            return STALE;
        }

        @Override
        public void exit(int ticket) {}

        @Override
        public long write(
                int ticket, MemorySegment local, long at, long offset, long length, Guard guard) {
            return STALE;
        }

        @Override
        public long read(
                int ticket, MemorySegment local, long at, long offset, long length, Guard guard) {
            return STALE;
        }

        @Override
        public boolean updatesCounters() {
            return false;
        }

        @Override
        public int update(int ticket, long offset, CounterUpdate.Kind kind, long value) {
            return STALE;
        }

        @Override
        public void close() {
            closed.run();
        }
    }

    /// Runs something in the middle of a conversation that has come to rest.
    private static void run(BiConsumer<Connection, Connection> between) {
        try (Simulation simulation = new Simulation(1)) {
            SimHost left = simulation.host("left");
            SimHost right = simulation.host("right");
            simulation.link(left, right, LinkOptions.DEFAULTS);
            AtomicReference<EndpointAddress> address = new AtomicReference<>();
            AtomicReference<Connection> accepted = new AtomicReference<>();
            right.start(
                    "right",
                    () -> {
                        try (Endpoint endpoint = right.open(EndpointOptions.DEFAULTS)) {
                            endpoint.publish("inbox", endpoint.allocate(1 << 16));
                            address.set(endpoint.address());
                            Connection peer = endpoint.accept(SHORT);
                            accepted.set(peer);
                            assertThat(peer.awaitNotification(SHORT).payload()).hasSize(100);
                            simulation.await(() -> !peer.isOpen(), SHORT);
                        }
                    });
            left.start(
                    "left",
                    () -> {
                        simulation.await(() -> address.get() != null, SHORT);
                        try (Endpoint endpoint = left.open(EndpointOptions.DEFAULTS)) {
                            Connection peer = endpoint.connect(address.get());
                            use(endpoint, peer);
                            simulation.sleep(Duration.ofMillis(100));
                            between.accept(peer, accepted.get());
                            // With what was planted it might not end in order.
                            simulation.after(Duration.ofMillis(1), left::kill);
                            simulation.sleep(SHORT);
                        }
                    });
            simulation.run();
        }
    }

    /// A little of everything, so that something could be left.
    private static void use(Endpoint endpoint, Connection peer) {
        MemoryRegion own = endpoint.allocate(1 << 16);
        RemoteMemory inbox = peer.lookup("inbox", SHORT);
        peer.write(new MemorySlice(own, 0, 1 << 16), inbox).await();
        peer.read(new MemorySlice(own, 0, 1 << 16), inbox).await();
        peer.notifyPeer(MemorySegment.ofArray(new byte[100])).await();
    }
}
