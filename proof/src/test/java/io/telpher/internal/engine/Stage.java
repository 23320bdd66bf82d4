package io.telpher.internal.engine;

import io.telpher.EndpointOptions;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.internal.wire.AddressCodec;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/// The machine as it is, but for a [#park] that only [#unpark] ends: a wake-up that is lost shows,
/// where the engine itself would look again after a moment.
final class Stage extends NativePlatform {
    static final EndpointImpl ENDPOINT =
            new EndpointImpl(
                    EndpointOptions.DEFAULTS
                            .withSpin(Duration.ZERO)
                            .withTransports(List.of("tcp"))
                            .withInterfaces(List.of("lo")),
                    new Stage());

    /// Far longer than any scheduler's whim.
    private static final long LOST = 10_000_000_000L;

    /// Whether the last park of this thread ended by nobody's doing.
    static final ThreadLocal<Boolean> OVERSLEPT = ThreadLocal.withInitial(() -> false);

    static ConnectionCore connection() {
        return new ConnectionCore(
                ENDPOINT, 1, new AddressCodec.Address(new byte[0], ENDPOINT.self()));
    }

    /// A receive of nothing, which is pending; its connection has no lanes.
    static Transfer receive(ConnectionCore connection) {
        Transfer receive =
                new TransferImpl(
                        connection,
                        Operation.Kind.RECEIVE,
                        TransferOptions.DEFAULTS,
                        1,
                        null,
                        0,
                        null,
                        null,
                        null,
                        0);
        receive.post();
        return receive;
    }

    /// Ends a connection's only operation.
    static void end(ConnectionCore connection, int reason) {
        connection.lock.lock();
        try {
            connection.endings.finish(connection.table.at(0), reason);
        } finally {
            connection.lock.unlock();
        }
    }

    @Override
    public void park(Object blocker, long nanos) {
        long start = System.nanoTime();
        LockSupport.parkNanos(blocker, LOST);
        OVERSLEPT.set(System.nanoTime() - start >= LOST);
    }
}
