package io.telpher.internal.engine;

import io.telpher.DeviceStream;
import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Runtimes;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Where callers' streams stood when something was posted that is to begin after them: see
/// docs/gpu.md, "After a stream". Immutable; nobody has to give it back.
///
/// @param streams all of them
/// @param ahead where those stood that had something left to do
/// @param refused why one of them cannot be waited for, which fails what is posted, or null
record StreamPoints(
        List<DeviceStream> streams, List<Gpu.Point> ahead, @Nullable TelpherException refused) {
    /// Of what begins after no streams.
    static final StreamPoints NONE = new StreamPoints(List.of(), List.of(), null);

    /// Looks where these streams stand now. For posting threads, which hold neither lock nor
    /// tokens.
    static StreamPoints of(List<DeviceStream> streams) {
        if (streams.isEmpty()) {
            return NONE;
        }
        List<DeviceStream> all = List.copyOf(streams);
        List<Gpu.Point> ahead = new ArrayList<>(all.size());
        try {
            for (DeviceStream stream : all) {
                Gpu.Point point = Runtimes.open(stream.device()).point(stream.handle());
                if (point != null) {
                    ahead.add(point);
                }
            }
        } catch (TelpherException e) {
            return new StreamPoints(all, List.of(), e);
        }
        return ahead.isEmpty() ? NONE : new StreamPoints(all, ahead, null);
    }

    /// Whether there is nothing to wait for.
    boolean isEmpty() {
        return ahead.isEmpty();
    }

    /// Whether all streams have got there.
    boolean areReached() {
        for (int i = 0; i < ahead.size(); i++) {
            if (!ahead.get(i).isReached()) {
                return false;
            }
        }
        return true;
    }
}
