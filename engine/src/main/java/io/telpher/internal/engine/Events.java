package io.telpher.internal.engine;

import io.telpher.TelpherException;
import java.util.List;
import jdk.jfr.FlightRecorder;
import org.jspecify.annotations.Nullable;

/// What the engine tells Flight Recorder. Where the runtime has no `jdk.jfr`, which a class path
/// allows, or nobody has recorded yet, nothing is told and [Recordings] is not loaded: to load the
/// first event has all of Flight Recorder's own classes at work, which takes an endpoint 60 ms.
/// A recording that starts later finds the events from then on. While none wants an event, telling
/// it costs a call and a look; nothing here is called for a short copy or a frame that goes well.
///
/// May be called under the connection's lock: an event is written to a buffer of the thread.
final class Events {
    private static final boolean RECORDS = ModuleLayer.boot().findModule("jdk.jfr").isPresent();

    private static volatile boolean prepared;

    private Events() {}

    private static boolean wanted() {
        return RECORDS && FlightRecorder.isInitialized();
    }

    /// Loads the events once somebody records, without a lock: the first one that happens may come
    /// under a connection's. By the progress threads now and then; costs a look after the
    /// first time.
    static void prepare() {
        if (!prepared && wanted()) {
            prepared = true;
            Recordings.load();
        }
    }

    static void opened(ConnectionCore connection) {
        if (wanted()) {
            Recordings.opened(connection);
        }
    }

    static void ended(ConnectionCore connection, TelpherException cause) {
        if (wanted()) {
            Recordings.ended(connection, cause);
        }
    }

    static void connectFailed(EndpointImpl endpoint, String peer, List<String> attempts) {
        if (wanted()) {
            Recordings.connectFailed(endpoint, peer, attempts);
        }
    }

    static void laneAdded(ConnectionCore connection, LaneState lane) {
        if (wanted()) {
            Recordings.laneAdded(connection, lane);
        }
    }

    static void laneDied(ConnectionCore connection, LaneState lane, String reason) {
        if (wanted()) {
            Recordings.laneDied(connection, lane, reason);
        }
    }

    static void chosen(ConnectionCore connection, String what) {
        if (wanted()) {
            Recordings.chosen(connection, what);
        }
    }

    static void rejected(ConnectionCore connection, String what) {
        if (wanted()) {
            Recordings.rejected(connection, what);
        }
    }

    static void registered(RegionImpl region) {
        if (wanted()) {
            Recordings.registered(region);
        }
    }

    static void unregistered(RegionImpl region) {
        if (wanted()) {
            Recordings.unregistered(region);
        }
    }

    static void slow(
            ConnectionCore connection, Operation.Kind kind, long length, String path, long nanos) {
        if (wanted()) {
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
        if (wanted()) {
            Recordings.failed(connection, kind, length, path, reason, why);
        }
    }
}
