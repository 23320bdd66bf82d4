package io.telpher.internal.engine;

import io.telpher.DeviceStream;
import io.telpher.Transfer;
import io.telpher.internal.memory.Release;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Transfers that are posted together: what GPUs carry out of them may be held back until all are
/// posted, so that it goes out in one launch (docs/gpu.md, "Lists").
public final class TransferList {
    private TransferList() {}

    /// See [Transfer#postAll(List)].
    public static void post(List<? extends Transfer> transfers) {
        post(transfers, List.of(), StreamPoints.NONE, StreamWaits.lastKept());
    }

    /// See [Transfer#postAll(List, List)].
    public static void post(List<? extends Transfer> transfers, List<DeviceStream> after) {
        long begun = StreamWaits.lastKept();
        post(transfers, after, StreamPoints.of(after), begun);
    }

    /// @param begun [StreamWaits#lastKept] before the points were put into their streams
    static void post(
            List<? extends Transfer> transfers,
            List<DeviceStream> after,
            StreamPoints points,
            long begun) {
        int count = transfers.size();
        int reached = 0;
        long since = begun;
        Throwable first = null;
        try {
            while (reached < count) {
                Transfer next = transfers.get(reached++);
                first = post(next, count > 1, after, points, since, first);
                since = StreamWaits.lastKept(); // so that the next one does not overtake this one
            }
        } finally {
            letGo(transfers, reached);
        }
        if (first instanceof Error e) {
            throw e;
        }
        if (first instanceof RuntimeException e) {
            throw e;
        }
    }

    /// @param first what kept others before it from being posted, or null
    /// @return the same, or why this one is the first
    private static @Nullable Throwable post(
            Transfer transfer,
            boolean together,
            List<DeviceStream> after,
            StreamPoints points,
            long begun,
            @Nullable Throwable first) {
        try {
            if (transfer instanceof TransferImpl own) {
                own.post(together, points, begun);
            } else {
                transfer.post(after);
            }
        } catch (Release.Ended e) {
            throw e;
        } catch (RuntimeException | Error e) {
            if (first == null) {
                return e;
            }
            if (first != e) { // which Java refuses
                first.addSuppressed(e);
            }
        }
        return first;
    }

    private static void letGo(List<? extends Transfer> transfers, int count) {
        ConnectionCore before = null;
        for (int i = 0; i < count; i++) {
            if (transfers.get(i) instanceof TransferImpl own && own.connection != before) {
                before = own.connection;
                before.devices.letGo();
            }
        }
    }
}
