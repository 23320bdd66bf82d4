package io.telpher.bootstrap;

import io.telpher.TelpherException;
import io.telpher.spi.Deadline;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.SslOptions;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.exceptions.JedisAccessControlException;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.XReadParams;
import redis.clients.jedis.util.JedisURIHelper;

/// A Redis server as a rendezvous: each request is one run of `ledger.lua`, and waiting for changes
/// is waiting for the stream that the script writes. Two connections, since one of them waits.
final class RedisStore implements Store {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int CONNECT_MILLIS = 3000;

    private final URI uri;
    private final byte[] script;
    private final Line calls = new Line();
    private final Line changes = new Line();
    private volatile boolean closed;

    /// SHA-1 of the script, once the server has it.
    private volatile byte @Nullable [] digest;

    /// Does not connect yet.
    RedisStore(URI uri) {
        this.uri = uri;
        try (InputStream in = RedisStore.class.getResourceAsStream("ledger.lua")) {
            this.script = Objects.requireNonNull(in, "ledger.lua").readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public Answer call(Request request, Deadline deadline) {
        return calls.with(deadline, jedis -> run(jedis, request));
    }

    @Override
    public Answer changes(Request.Changes request, Deadline deadline) {
        return changes.with(
                deadline,
                jedis -> {
                    Answer first = run(jedis, request);
                    if (!(first instanceof Answer.Events events)
                            || !events.changes().isEmpty()
                            || request.waitMillis() == 0) {
                        return first;
                    }
                    // Only to wait: what there is to say the script says, with its checks.
                    Object ignored =
                            jedis.xread(
                                    XReadParams.xReadParams().count(1).block(request.waitMillis()),
                                    Map.of(
                                            key(request.job(), "changes"),
                                            new StreamEntryID(request.after(), 0)));
                    assert ignored == null || ignored instanceof List<?>;
                    return run(jedis, request);
                });
    }

    /// The braces keep a job's keys on one node of a cluster.
    private static String key(String job, String what) {
        return "telpher:{" + URLEncoder.encode(job, StandardCharsets.UTF_8) + "}:" + what;
    }

    private Answer run(Jedis jedis, Request request) {
        List<byte[]> keys = new ArrayList<>();
        for (String name : List.of("state", "records", "leases", "changes", "arrivals")) {
            keys.add(bytes(key(request.job(), name)));
        }
        List<byte[]> arguments = new ArrayList<>();
        String barrier = "";
        String operation =
                switch (request) {
                    case Request.Announce r -> {
                        add(arguments, r.rank(), r.world(), hex(r.incarnation()), r.lastEpoch());
                        add(arguments, r.leaseMillis());
                        arguments.add(r.sealed());
                        yield "announce";
                    }
                    case Request.Leave r -> {
                        add(arguments, r.rank(), hex(r.incarnation()));
                        yield "leave";
                    }
                    case Request.Arrive r -> {
                        barrier = r.barrier();
                        add(arguments, barrier, r.rank(), hex(r.incarnation()), hex(r.ticket()));
                        yield "arrive";
                    }
                    case Request.Withdraw r -> {
                        barrier = r.barrier();
                        add(arguments, barrier, r.rank(), hex(r.incarnation()), hex(r.ticket()));
                        yield "withdraw";
                    }
                    case Request.Changes r -> {
                        add(arguments, hex(r.instance()), r.after());
                        yield "changes";
                    }
                };
        keys.add(bytes(key(request.job(), "barrier:" + barrier)));
        arguments.addFirst(bytes(hex(RANDOM.nextLong() | 1)));
        arguments.addFirst(bytes(operation));
        return answer((List<?>) evaluate(jedis, keys, arguments));
    }

    private Object evaluate(Jedis jedis, List<byte[]> keys, List<byte[]> arguments) {
        byte[] known = digest;
        if (known != null) {
            try {
                return jedis.evalsha(known, keys, arguments);
            } catch (JedisNoScriptException e) {
                // The server was restarted.
            }
        }
        known = jedis.scriptLoad(script);
        digest = known;
        return jedis.evalsha(known, keys, arguments);
    }

    private static void add(List<byte[]> arguments, Object... values) {
        for (Object value : values) {
            arguments.add(bytes(value.toString()));
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String hex(long value) {
        return Long.toHexString(value);
    }

    // --- answers --------------------------------------------------------------------------------

    private static Answer answer(List<?> fields) {
        Reader in = new Reader(fields);
        return switch (in.text()) {
            case "ok" -> new Answer.Ok(in.number());
            case "held" -> new Answer.Held(in.hex(), in.number(), (int) in.number());
            case "world" -> new Answer.OtherWorld((int) in.number(), (int) in.number());
            case "removed" -> new Answer.Removed();
            case "passed" -> new Answer.Passed();
            case "waiting" -> new Answer.Waiting(in.number());
            case "gone" -> new Answer.Gone();
            case "withdrawn" -> {
                List<Integer> missing = new ArrayList<>();
                while (in.hasMore()) {
                    missing.add((int) in.number());
                }
                yield new Answer.Withdrawn(missing);
            }
            case "events" -> {
                List<Answer.Change> changes = new ArrayList<>();
                while (in.hasMore()) {
                    changes.add(in.change());
                }
                yield new Answer.Events(changes);
            }
            case "snapshot" -> {
                long instance = in.hex();
                long revision = in.number();
                List<Answer.Entry> entries = new ArrayList<>();
                while (in.hasMore()) {
                    entries.add(in.entry());
                }
                yield new Answer.Snapshot(instance, revision, entries);
            }
            case String other ->
                    throw new TelpherException.ProtocolViolation(
                            "the script in Redis answered " + other);
        };
    }

    /// Reads the flat list that the script returns.
    private static final class Reader {
        private final List<?> fields;
        private int next;

        Reader(List<?> fields) {
            this.fields = fields;
        }

        boolean hasMore() {
            return next < fields.size();
        }

        byte[] bytes() {
            if (!hasMore() || !(fields.get(next++) instanceof byte[] bytes)) {
                throw new TelpherException.ProtocolViolation(
                        "the script in Redis gave an answer of " + fields.size() + " fields");
            }
            return bytes;
        }

        String text() {
            return new String(bytes(), StandardCharsets.UTF_8);
        }

        long number() {
            return Long.parseLong(text());
        }

        long hex() {
            return Long.parseUnsignedLong(text(), 16);
        }

        Answer.Change change() {
            long revision = number();
            String kind = text();
            return kind.equals("PASSED")
                    ? new Answer.BarrierChange(revision, text(), number())
                    : new Answer.RecordChange(revision, Answer.Kind.valueOf(kind), entry());
        }

        /// A rank, then `WORLD:INCARNATION:EPOCH:SEALED`.
        Answer.Entry entry() {
            int rank = (int) number();
            byte[] packed = bytes();
            String[] head =
                    new String(packed, StandardCharsets.ISO_8859_1).split(":", 4); // byte = char
            if (head.length < 4) {
                throw new TelpherException.ProtocolViolation(
                        "the record of rank " + rank + " in Redis is broken");
            }
            return new Answer.Entry(
                    rank,
                    Integer.parseInt(head[0]),
                    Long.parseUnsignedLong(head[1], 16),
                    Long.parseLong(head[2]),
                    head[3].getBytes(StandardCharsets.ISO_8859_1));
        }
    }

    // --- connections ----------------------------------------------------------------------------

    @Override
    public void close() {
        closed = true;
        calls.disconnect();
        changes.disconnect();
    }

    private interface Work {
        Answer with(Jedis jedis);
    }

    /// A connection that one thread uses at a time; given up after a failure.
    private final class Line {
        private final ReentrantLock lock = new ReentrantLock();
        private volatile @Nullable Jedis connection;

        Answer with(Deadline deadline, Work work) {
            try {
                if (!lock.tryLock(Math.max(0, deadline.left()), TimeUnit.NANOSECONDS)) {
                    throw new TelpherException.TimedOut(
                            "another request is waiting for its answer");
                }
            } catch (InterruptedException e) {
                throw interrupted();
            }
            boolean answered = false;
            try {
                Jedis used = connection;
                if (used == null) {
                    used = connect(deadline);
                    connection = used;
                }
                if (closed) {
                    throw new TelpherException.Closed("the rendezvous was closed");
                }
                used.getConnection().setSoTimeout(Math.max(1, deadline.leftMillis()));
                Answer answer = work.with(used);
                answered = true;
                return answer;
            } catch (JedisException e) {
                throw translated(e);
            } catch (IllegalArgumentException e) {
                throw new TelpherException.ProtocolViolation("Redis gave a bad answer: " + e);
            } finally {
                if (!answered) {
                    disconnect();
                }
                lock.unlock();
            }
        }

        /// Also from another thread: a read that waits ends with an error.
        void disconnect() {
            Jedis used = connection;
            connection = null;
            if (used != null) {
                try {
                    used.getConnection().disconnect();
                } catch (JedisException e) {
                    // It was broken already.
                }
            }
        }
    }

    /// Connects on a thread of its own, since looking up a name may take longer than the deadline.
    private Jedis connect(Deadline deadline) {
        CompletableFuture<Jedis> attempt = new CompletableFuture<>();
        Thread.ofVirtual()
                .start(
                        () -> {
                            try {
                                Jedis jedis = dial();
                                if (!attempt.complete(jedis)) {
                                    jedis.close();
                                }
                            } catch (Throwable e) {
                                attempt.completeExceptionally(e);
                            }
                        });
        try {
            return attempt.get(Math.max(0, deadline.left()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            // Whoever comes later finds the future complete, and closes its connection.
            if (attempt.completeExceptionally(e)) {
                throw new TelpherException.TimedOut(
                        "no connection with " + RendezvousOptions.hidden(uri) + " in time");
            }
            return attempt.join();
        } catch (InterruptedException e) {
            attempt.cancel(false);
            throw interrupted();
        } catch (ExecutionException e) {
            if (e.getCause() instanceof JedisException cause) {
                throw cause;
            }
            throw new TelpherException.ConnectFailed(
                    "cannot connect to " + RendezvousOptions.hidden(uri) + ": " + e.getCause(),
                    List.of());
        }
    }

    private Jedis dial() {
        DefaultJedisClientConfig.Builder config =
                DefaultJedisClientConfig.builder()
                        .connectionTimeoutMillis(CONNECT_MILLIS)
                        .socketTimeoutMillis(CONNECT_MILLIS)
                        // XREAD waits a second at most.
                        .blockingSocketTimeoutMillis(2 * CONNECT_MILLIS)
                        .user(JedisURIHelper.getUser(uri))
                        .password(JedisURIHelper.getPassword(uri))
                        .database(JedisURIHelper.getDBIndex(uri));
        if (JedisURIHelper.isRedisSSLScheme(uri)) {
            config.sslOptions(SslOptions.defaults());
        }
        int port = uri.getPort() < 0 ? 6379 : uri.getPort();
        Jedis jedis = new Jedis(new HostAndPort(uri.getHost(), port), config.build());
        jedis.connect();
        return jedis;
    }

    private TelpherException translated(JedisException e) {
        String server = RendezvousOptions.hidden(uri);
        if (closed) {
            return new TelpherException.Closed("the rendezvous was closed");
        }
        return switch (e) {
            case JedisAccessControlException denied ->
                    new TelpherException.AccessDenied(
                            server + " refuses the user or the password: " + denied.getMessage());
            case JedisDataException data
                    when String.valueOf(data.getMessage()).contains("NOAUTH") ->
                    new TelpherException.AccessDenied(
                            server + " wants a password: write redis://USER:PASSWORD@HOST:PORT");
            case JedisDataException data ->
                    new TelpherException.ProtocolViolation(server + ": " + data.getMessage());
            case JedisConnectionException broken ->
                    new TelpherException.PeerLost(server + ": " + reason(broken));
            default -> new TelpherException.PeerLost(server + ": " + e);
        };
    }

    /// Jedis wraps what happened several times.
    private static String reason(Throwable e) {
        Throwable cause = e.getCause();
        if (cause == null && e.getSuppressed().length > 0) {
            cause = e.getSuppressed()[0];
        }
        return cause == null ? String.valueOf(e.getMessage()) : reason(cause);
    }

    private static TelpherException interrupted() {
        Thread.currentThread().interrupt();
        return new TelpherException.Cancelled("interrupted at the rendezvous");
    }
}
