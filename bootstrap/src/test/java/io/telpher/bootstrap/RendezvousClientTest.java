package io.telpher.bootstrap;

import static io.telpher.bootstrap.Fixtures.SOON;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import io.telpher.spi.Deadline;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/// What a client makes of a store that stops answering.
class RendezvousClientTest {
    /// Answers requests as if the other rank never came.
    private static final class Dying implements Store {
        final BlockingQueue<Thread> withdrawers = new LinkedBlockingQueue<>();
        private byte[] sealed = {};
        volatile boolean diesOnceSomebodyHasArrived;
        volatile boolean dead;

        @Override
        public Answer call(Request request, Deadline deadline) {
            if (request instanceof Request.Withdraw) {
                withdrawers.add(Thread.currentThread());
            }
            checkAlive();
            return switch (request) {
                case Request.Announce announce -> {
                    sealed = announce.sealed();
                    yield new Answer.Ok(1);
                }
                case Request.Arrive _ -> {
                    dead = diesOnceSomebodyHasArrived;
                    yield new Answer.Waiting(0);
                }
                case Request.Withdraw _ -> new Answer.Withdrawn(List.of(1));
                case Request.Leave _ -> new Answer.Removed();
                case Request.Changes _ -> throw new AssertionError("not by this call");
            };
        }

        @Override
        public Answer changes(Request.Changes request, Deadline deadline) {
            checkAlive();
            if (request.instance() != 0) {
                pause();
                return new Answer.Events(List.of());
            }
            Answer.Entry own = new Answer.Entry(0, 1, ADDRESS.incarnation(), 1, sealed);
            return new Answer.Snapshot(5, 1, List.of(own));
        }

        private void checkAlive() {
            if (dead) {
                throw new TelpherException.TimedOut("no answer");
            }
        }

        private static void pause() {
            try {
                Thread.sleep(5);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }

        @Override
        public void close() {}
    }

    private static final EndpointAddress ADDRESS = Fixtures.address();

    private final Dying store = new Dying();
    private final RendezvousClient client =
            new RendezvousClient(
                    RendezvousOptions.of(URI.create("tcp://127.0.0.1:1"), "j", Fixtures.secret()),
                    store);

    /// A barrier's deadline has passed: the caller does not wait for a server that is known to be
    /// away, and the arrival is taken back once it is there again.
    @Test
    void anArrivalAtASilentServerIsTakenBackLaterAndByTheFollower() throws Exception {
        client.join(0, 1, ADDRESS, SOON);
        store.diesOnceSomebodyHasArrived = true;
        assertThatThrownBy(() -> client.barrier("b", Duration.ofSeconds(1)))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining("no answer");
        store.dead = false;
        assertThat(store.withdrawers.poll(SOON.toSeconds(), TimeUnit.SECONDS))
                .isNotNull()
                .isNotSameAs(Thread.currentThread());
        client.close();
    }

    @Test
    void aServerThatAnswersSaysWhoIsMissing() throws Exception {
        client.join(0, 1, ADDRESS, SOON);
        assertThatThrownBy(() -> client.barrier("b", Duration.ofMillis(10)))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining("missing: rank 1");
        assertThat(store.withdrawers.take()).isSameAs(Thread.currentThread());
        client.close();
    }
}
