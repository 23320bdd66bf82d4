package io.telpher.internal.engine;

import io.telpher.TelpherException;
import java.util.List;
import java.util.Locale;
import jdk.jfr.Category;
import jdk.jfr.DataAmount;
import jdk.jfr.Description;
import jdk.jfr.Event;
import jdk.jfr.Label;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import jdk.jfr.Timespan;
import org.jspecify.annotations.Nullable;

/// The events of Flight Recorder, `io.telpher.*`; `docs/operations.md` lists them. Only [Events]
/// uses this class, since it needs the module `jdk.jfr`.
@SuppressWarnings("UnusedVariable") // Flight Recorder reads the fields
final class Recordings {
    private Recordings() {}

    /// Has Flight Recorder take notice of all of them.
    static void load() {
        for (Event event :
                List.of(
                        new ConnectionOpened(),
                        new ConnectionEnded(),
                        new ConnectFailed(),
                        new LaneAdded(),
                        new LaneDied(),
                        new PathChosen(),
                        new PathRejected(),
                        new RegionRegistered(),
                        new RegionClosed(),
                        new SlowTransfer(),
                        new TransferFailed())) {
            boolean unused = event.isEnabled();
        }
    }

    /// What every event has.
    @Category("Telpher")
    @StackTrace(false)
    private abstract static class OfEndpoint extends Event {
        @Label("Endpoint")
        @Description("Incarnation of this side's endpoint")
        String endpoint = "";
    }

    /// What every event of a connection has.
    private abstract static class OfConnection extends OfEndpoint {
        @Label("Connection")
        @Description("The connection's number, the same on both sides")
        String connection = "";

        @Label("Peer")
        @Description("Incarnation of the peer's endpoint")
        String peer = "";

        void about(ConnectionCore core) {
            endpoint = hex(core.endpoint().incarnation());
            connection = hex(core.id());
            peer = hex(core.peerIncarnation());
        }
    }

    @Name("io.telpher.ConnectionOpened")
    @Label("Connection Opened")
    private static final class ConnectionOpened extends OfConnection {}

    @Name("io.telpher.ConnectionEnded")
    @Label("Connection Ended")
    private static final class ConnectionEnded extends OfConnection {
        @Label("Closed")
        @Description("One of the sides closed it; else it was lost")
        boolean closed;

        @Label("Reason")
        String reason = "";
    }

    @Name("io.telpher.ConnectFailed")
    @Label("Connect Failed")
    private static final class ConnectFailed extends OfEndpoint {
        @Label("Peer")
        String peer = "";

        @Label("Attempts")
        @Description("Every way that was tried, and why it did not work")
        String attempts = "";
    }

    /// What every event of a lane has.
    private abstract static class OfLane extends OfConnection {
        @Label("Lane")
        @Description("Its number in the connection, the same on both sides")
        int lane;

        @Label("Path")
        String path = "";

        @Label("Ends")
        String ends = "";

        void about(ConnectionCore core, LaneState state) {
            about(core);
            lane = state.index;
            path = state.lane.path();
            ends = state.lane.text();
        }
    }

    @Name("io.telpher.LaneAdded")
    @Label("Lane Added")
    private static final class LaneAdded extends OfLane {}

    @Name("io.telpher.LaneDied")
    @Label("Lane Died")
    @Description("Without the connection; what it had not delivered goes out on the others")
    private static final class LaneDied extends OfLane {
        @Label("Reason")
        String reason = "";
    }

    @Name("io.telpher.PathChosen")
    @Label("Path Chosen")
    private static final class PathChosen extends OfConnection {
        @Label("Path")
        @Description("A route of the network, or a window into one region of the peer")
        String path = "";
    }

    @Name("io.telpher.PathRejected")
    @Label("Path Rejected")
    private static final class PathRejected extends OfConnection {
        @Label("Path and Reason")
        String path = "";
    }

    /// What every event of a region has.
    private abstract static class OfRegion extends OfEndpoint {
        @Label("Region")
        @Description("Its index and generation, as messages name it")
        String region = "";

        @Label("Size")
        @DataAmount
        long size;

        @Label("Mappable")
        @Description("Telpher allocated it, and peers on this host can map it")
        boolean mappable;

        void about(RegionImpl of) {
            endpoint = hex(of.endpoint().incarnation());
            region = of.index() + "." + of.generation();
            size = of.size();
            mappable = of.memfd() >= 0;
        }
    }

    @Name("io.telpher.RegionRegistered")
    @Label("Region Registered")
    private static final class RegionRegistered extends OfRegion {}

    @Name("io.telpher.RegionClosed")
    @Label("Region Closed")
    private static final class RegionClosed extends OfRegion {}

    /// What every event of a transfer has.
    private abstract static class OfTransfer extends OfConnection {
        @Label("Operation")
        String operation = "";

        @Label("Length")
        @DataAmount
        long length;

        @Label("Path")
        String path = "";

        void about(ConnectionCore core, Operation.Kind kind, long bytes, String way) {
            about(core);
            operation = kind.name().toLowerCase(Locale.ROOT);
            length = bytes;
            path = way;
        }
    }

    @Name("io.telpher.SlowTransfer")
    @Label("Slow Transfer")
    @Description("Done, but it took longer than the option slowTransfer")
    private static final class SlowTransfer extends OfTransfer {
        @Label("Time")
        @Description("From post to end; up to 50 ms too short")
        @Timespan(Timespan.NANOSECONDS)
        long time;
    }

    @Name("io.telpher.TransferFailed")
    @Label("Transfer Failed")
    private static final class TransferFailed extends OfTransfer {
        @Label("Reason")
        @Description("The name of the reason's code in Connection")
        String reason = "";

        @Label("Message")
        String message = "";
    }

    private static String hex(long number) {
        return "%016x".formatted(number);
    }

    static void opened(ConnectionCore connection) {
        ConnectionOpened event = new ConnectionOpened();
        if (event.isEnabled()) {
            event.about(connection);
            event.commit();
        }
    }

    static void ended(ConnectionCore connection, TelpherException cause) {
        ConnectionEnded event = new ConnectionEnded();
        if (event.isEnabled()) {
            event.about(connection);
            event.closed = connection.wasClosed();
            event.reason = String.valueOf(cause.getMessage());
            event.commit();
        }
    }

    static void connectFailed(EndpointImpl endpoint, String peer, List<String> attempts) {
        ConnectFailed event = new ConnectFailed();
        if (event.isEnabled()) {
            event.endpoint = hex(endpoint.incarnation());
            event.peer = peer;
            event.attempts = String.join("; ", attempts);
            event.commit();
        }
    }

    static void laneAdded(ConnectionCore connection, LaneState lane) {
        LaneAdded event = new LaneAdded();
        if (event.isEnabled()) {
            event.about(connection, lane);
            event.commit();
        }
    }

    static void laneDied(ConnectionCore connection, LaneState lane, String reason) {
        LaneDied event = new LaneDied();
        if (event.isEnabled()) {
            event.about(connection, lane);
            event.reason = reason;
            event.commit();
        }
    }

    static void chosen(ConnectionCore connection, String what) {
        PathChosen event = new PathChosen();
        if (event.isEnabled()) {
            event.about(connection);
            event.path = what;
            event.commit();
        }
    }

    static void rejected(ConnectionCore connection, String what) {
        PathRejected event = new PathRejected();
        if (event.isEnabled()) {
            event.about(connection);
            event.path = what;
            event.commit();
        }
    }

    static void registered(RegionImpl region) {
        RegionRegistered event = new RegionRegistered();
        if (event.isEnabled()) {
            event.about(region);
            event.commit();
        }
    }

    static void unregistered(RegionImpl region) {
        RegionClosed event = new RegionClosed();
        if (event.isEnabled()) {
            event.about(region);
            event.commit();
        }
    }

    static void slow(
            ConnectionCore connection, Operation.Kind kind, long length, String path, long nanos) {
        SlowTransfer event = new SlowTransfer();
        if (event.isEnabled()) {
            event.about(connection, kind, length, path);
            event.time = nanos;
            event.commit();
        }
    }

    static void failed(
            ConnectionCore connection,
            Operation.Kind kind,
            long length,
            String path,
            int reason,
            @Nullable TelpherException why) {
        TransferFailed event = new TransferFailed();
        if (event.isEnabled()) {
            event.about(connection, kind, length, path);
            event.reason = Failures.name(reason);
            event.message = why == null ? "" : String.valueOf(why.getMessage());
            event.commit();
        }
    }
}
