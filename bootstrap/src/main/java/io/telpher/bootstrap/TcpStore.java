package io.telpher.bootstrap;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.TransferOptions;
import io.telpher.spi.Deadline;
import java.lang.foreign.MemorySegment;
import java.net.URI;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// The embedded server, seen from a client: two connections, since one of them waits for changes.
final class TcpStore implements Store {
    private final Endpoint endpoint =
            Endpoint.open(RendezvousServer.control(EndpointOptions.fromEnvironment()));
    private final EndpointAddress server;
    private final Line calls = new Line();
    private final Line changes = new Line();

    TcpStore(URI uri, byte[] secret) {
        String host = uri.getHost().replaceAll("^\\[|]$", "");
        server = EndpointAddress.of(host, uri.getPort(), secret);
    }

    @Override
    public Answer call(Request request, Deadline deadline) {
        return calls.ask(request, deadline);
    }

    @Override
    public Answer changes(Request.Changes request, Deadline deadline) {
        return changes.ask(request, deadline);
    }

    @Override
    public void close() {
        endpoint.close();
    }

    /// A connection on which one question is asked at a time. After a failure it is given up, so
    /// that a late answer cannot be taken for the next one's.
    private final class Line {
        private final ReentrantLock lock = new ReentrantLock();
        private @Nullable Connection connection;

        Answer ask(Request request, Deadline deadline) {
            try {
                if (!lock.tryLock(Math.max(0, deadline.left()), TimeUnit.NANOSECONDS)) {
                    throw new TelpherException.TimedOut(
                            "another request is waiting for its answer");
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new TelpherException.Cancelled("interrupted at the rendezvous");
            }
            Connection used = connection;
            boolean answered = false;
            try {
                if (used == null || !used.isOpen()) {
                    used = endpoint.connect(server, left(deadline));
                    connection = used;
                }
                used.notifyPeer(
                        MemorySegment.ofArray(Codec.encode(request)),
                        TransferOptions.DEFAULTS.withDeadline(left(deadline)));
                Answer answer = Codec.answer(used.awaitNotification(left(deadline)).payload());
                answered = true;
                return answer;
            } finally {
                if (!answered && used != null) {
                    connection = null;
                    used.close();
                }
                lock.unlock();
            }
        }

        private Duration left(Deadline deadline) {
            return Duration.ofNanos(Math.max(1, deadline.left()));
        }
    }
}
