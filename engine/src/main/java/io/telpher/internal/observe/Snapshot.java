package io.telpher.internal.observe;

import io.telpher.ConnectionMetrics;
import io.telpher.EndpointMetrics;
import io.telpher.TransferFailures;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;

/// The counters of all endpoints of a process at one moment.
///
/// @param sequence how many snapshots came before
/// @param writtenMillis when it was taken, milliseconds since 1970
/// @param leftOut connections that had no room
/// @param endpoints the endpoints
public record Snapshot(
        long sequence, long writtenMillis, int leftOut, List<EndpointMetrics> endpoints) {
    /// Of the form of [#encode]; another one cannot be read.
    static final int VERSION = 2;

    /// Most bytes of a body: connections that do not fit are left out, while the totals count them.
    static final int MOST_BYTES = 4 << 20;

    /// Two numbers at the beginning.
    private static final int HEADER_BYTES = 8;

    /// An endpoint without its connections: 24 numbers, and how many connections follow.
    private static final int ENDPOINT_BYTES = 24 * 8 + 4;

    /// Keeps a copy of the list.
    public Snapshot {
        endpoints = List.copyOf(endpoints);
    }

    /// @return the body of a page
    static byte[] encode(List<EndpointMetrics> endpoints) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(1024);
        DataOutputStream out = new DataOutputStream(bytes);
        try {
            List<Fitting> fitting = new ArrayList<>();
            int leftOut = 0;
            int room = MOST_BYTES - HEADER_BYTES - ENDPOINT_BYTES * endpoints.size();
            for (EndpointMetrics endpoint : endpoints) {
                Fitting one = fitting(endpoint.connections(), room);
                fitting.add(one);
                leftOut += endpoint.connections().size() - one.count;
                room -= one.bytes.size();
            }
            out.writeInt(leftOut);
            out.writeInt(endpoints.size());
            for (int i = 0; i < endpoints.size(); i++) {
                write(out, endpoints.get(i), fitting.get(i));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e); // memory does not fail
        }
        return bytes.toByteArray();
    }

    /// The connections of an endpoint that there is room for: the first `count`, as the page has
    /// them.
    private record Fitting(int count, ByteArrayOutputStream bytes) {}

    private static Fitting fitting(List<ConnectionMetrics> connections, int room)
            throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream(1024);
        ByteArrayOutputStream one = new ByteArrayOutputStream(1024);
        int count = 0;
        for (ConnectionMetrics connection : connections) {
            one.reset();
            write(new DataOutputStream(one), connection);
            if (all.size() + one.size() > room) {
                break;
            }
            one.writeTo(all);
            count++;
        }
        return new Fitting(count, all);
    }

    private static void write(DataOutputStream out, EndpointMetrics e, Fitting fitting)
            throws IOException {
        // Who is left out is in the totals, as if it had ended.
        int count = fitting.count;
        EndpointMetrics.Totals ended = e.ended();
        for (ConnectionMetrics connection :
                e.connections().subList(count, e.connections().size())) {
            ended = ended.plus(connection);
        }
        longs(
                out,
                e.incarnation(),
                e.connectionsOpened(),
                e.connectionsClosed(),
                e.connectionsLost(),
                e.regions(),
                e.regionBytes(),
                e.sharedBytes(),
                ended.bytesSent(),
                ended.bytesReceived(),
                ended.transfersDone(),
                ended.slowTransfers(),
                ended.notificationsSent(),
                ended.notificationsReceived(),
                ended.resends(),
                ended.stalls(),
                ended.checksumFailures());
        write(out, ended.failures());
        out.writeInt(count);
        fitting.bytes.writeTo(out);
    }

    private static void write(DataOutputStream out, ConnectionMetrics c) throws IOException {
        longs(
                out,
                c.id(),
                c.peer(),
                c.slowTransfers(),
                c.notificationsSent(),
                c.notificationsReceived());
        write(out, c.failures());
        out.writeInt(c.paths().size());
        for (ConnectionMetrics.Path path : c.paths()) {
            out.writeUTF(path.name());
            longs(out, path.bytesSent(), path.bytesReceived(), path.transfersDone());
        }
        out.writeInt(c.lanes().size());
        for (ConnectionMetrics.Lane lane : c.lanes()) {
            out.writeInt(lane.index());
            out.writeUTF(lane.path());
            out.writeUTF(lane.description());
            out.writeBoolean(lane.alive());
            longs(
                    out,
                    lane.framesSent(),
                    lane.framesReceived(),
                    lane.bytesSent(),
                    lane.bytesReceived(),
                    lane.resends(),
                    lane.stalls(),
                    lane.checksumFailures(),
                    lane.roundTripNanos());
        }
    }

    private static void write(DataOutputStream out, TransferFailures f) throws IOException {
        longs(
                out,
                f.closed(),
                f.peerLost(),
                f.stale(),
                f.denied(),
                f.timedOut(),
                f.truncated(),
                f.cancelled(),
                f.other());
    }

    private static void longs(DataOutputStream out, long... values) throws IOException {
        for (long value : values) {
            out.writeLong(value);
        }
    }

    /// @throws IOException when the body is not one that [#encode] makes
    static Snapshot decode(long sequence, long writtenMillis, byte[] body) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(body));
        int leftOut = in.readInt();
        int count = count(in);
        List<EndpointMetrics> endpoints = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            endpoints.add(endpoint(in));
        }
        return new Snapshot(sequence, writtenMillis, leftOut, endpoints);
    }

    /// A text of another process, perhaps of another user's: nothing in it is for the terminal.
    private static String text(DataInputStream in) throws IOException {
        return in.readUTF().replaceAll("[\\p{Cntrl}\\x80-\\x9f]", "?");
    }

    private static int count(DataInputStream in) throws IOException {
        int count = in.readInt();
        if (count < 0 || count > in.available()) {
            throw new IOException("a count of " + count);
        }
        return count;
    }

    private static EndpointMetrics endpoint(DataInputStream in) throws IOException {
        long[] n = longs(in, 7);
        long[] t = longs(in, 9);
        EndpointMetrics.Totals ended =
                new EndpointMetrics.Totals(
                        t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], failures(in));
        int count = count(in);
        List<ConnectionMetrics> connections = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            connections.add(connection(in));
        }
        return new EndpointMetrics(n[0], n[1], n[2], n[3], n[4], n[5], n[6], ended, connections);
    }

    private static ConnectionMetrics connection(DataInputStream in) throws IOException {
        long[] n = longs(in, 5);
        TransferFailures failures = failures(in);
        int pathCount = count(in);
        List<ConnectionMetrics.Path> paths = new ArrayList<>();
        for (int i = 0; i < pathCount; i++) {
            String name = text(in);
            long[] p = longs(in, 3);
            paths.add(new ConnectionMetrics.Path(name, p[0], p[1], p[2]));
        }
        int laneCount = count(in);
        List<ConnectionMetrics.Lane> lanes = new ArrayList<>();
        for (int i = 0; i < laneCount; i++) {
            int index = in.readInt();
            String path = text(in);
            String description = text(in);
            boolean alive = in.readBoolean();
            long[] l = longs(in, 8);
            lanes.add(
                    new ConnectionMetrics.Lane(
                            index,
                            path,
                            description,
                            alive,
                            l[0],
                            l[1],
                            l[2],
                            l[3],
                            l[4],
                            l[5],
                            l[6],
                            l[7]));
        }
        return new ConnectionMetrics(n[0], n[1], n[2], n[3], n[4], failures, paths, lanes);
    }

    private static TransferFailures failures(DataInputStream in) throws IOException {
        long[] f = longs(in, 8);
        return new TransferFailures(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]);
    }

    private static long[] longs(DataInputStream in, int count) throws IOException {
        long[] values = new long[count];
        for (int i = 0; i < count; i++) {
            values[i] = in.readLong();
        }
        return values;
    }
}
