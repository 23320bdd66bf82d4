package io.telpher.internal.engine;

import io.telpher.TelpherException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// What the engine tells Flight Recorder. Where the runtime has no `jdk.jfr`, which a class path
/// allows, nothing is told and [Recordings] is never loaded. While no recording wants an event,
/// telling it costs a call and a look; nothing here is called for a short copy or a frame that goes
/// well.
///
/// May be called under the connection's lock: an event is written to a buffer of the thread.
final class Events {
    private static final boolean RECORDS = ModuleLayer.boot().findModule("jdk.jfr").isPresent();

    private Events() {}

    static void opened(ConnectionCore connection) {
        if (RECORDS) {
            Recordings.opened(connection);
        }
    }

    static void ended(ConnectionCore connection, TelpherException cause) {
        if (RECORDS) {
            Recordings.ended(connection, cause);
        }
    }

    static void connectFailed(EndpointImpl endpoint, String peer, List<String> attempts) {
        if (RECORDS) {
            Recordings.connectFailed(endpoint, peer, attempts);
        }
    }

    static void laneAdded(ConnectionCore connection, LaneState lane) {
        if (RECORDS) {
            Recordings.laneAdded(connection, lane);
        }
    }

    static void laneDied(ConnectionCore connection, LaneState lane, String reason) {
        if (RECORDS) {
            Recordings.laneDied(connection, lane, reason);
        }
    }

    static void chosen(ConnectionCore connection, String what) {
        if (RECORDS) {
            Recordings.chosen(connection, what);
        }
    }

    static void rejected(ConnectionCore connection, String what) {
        if (RECORDS) {
            Recordings.rejected(connection, what);
        }
    }

    static void registered(RegionImpl region) {
        if (RECORDS) {
            Recordings.registered(region);
        }
    }

    static void unregistered(RegionImpl region) {
        if (RECORDS) {
            Recordings.unregistered(region);
        }
    }

    static void slow(
            ConnectionCore connection, Operation.Kind kind, long length, String path, long nanos) {
        if (RECORDS) {
            Recordings.slow(connection, kind, length, path, nanos);
        }
    }

    static void failed(
            ConnectionCore connection,
            Operation.Kind kind,
            long length,
            String path,
            int reason,
            @Nullable TelpherException why) {
        if (RECORDS) {
            Recordings.failed(connection, kind, length, path, reason, why);
        }
    }
}
