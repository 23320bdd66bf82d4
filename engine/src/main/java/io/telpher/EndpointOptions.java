package io.telpher;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// How an endpoint behaves. Immutable; start from [#DEFAULTS] or [#fromEnvironment()].
///
/// @param secret what peers must hold to connect, 16 to 64 bytes; null: the endpoint makes one
/// @param transports allowed transports by name (`shm`, `verbs`, `tcp`, or one that the program
///     brings), empty for all
/// @param paths allowed paths by name (`self`, `mapped`, `cma`, `shm-ring`, `tcp`, `cuda-direct`,
///     `cuda-cumem`, `cuda-ipc`, `cuda-via-gpu`, `hip-direct`, `verbs`, `verbs-ring`), empty for
///     all; a transport that has none of them is not used
/// @param interfaces network interfaces to use, by name (`eth0`) or subnet (`10.1.0.0/16`), empty
///     for all
/// @param port TCP port to listen on; 0: the system chooses
/// @param lanes bulk lanes for each pair of network addresses; 0: chosen by the link's speed
/// @param maxSockets most TCP sockets for one peer
/// @param deadline default deadline of a transfer
/// @param connectDeadline default deadline of a connect
/// @param liveness how long the peer's host may acknowledge nothing before it is lost
/// @param drainLimit most time between a deadline or cancellation and the terminal state
/// @param spin how long a waiting thread polls before it parks
/// @param maxNotification largest notification that this endpoint sends and takes, in bytes, up to
///     1 GiB; larger ones than 16 MiB need it raised at both ends
/// @param socketDirectory folder for the same-host socket, for containers that share nothing but a
///     folder; null: an abstract name, which leaves no file
/// @param hugePages whether memory that Telpher allocates asks for huge pages
/// @param slowTransfer how long a transfer may take before it is counted and recorded as slow; the
///     time that it waits for streams of the program's does not count
/// @param metrics whether `telpher top` and `telpher serve-metrics` can read the counters from
///     outside of the process
/// @param checksums whether every frame carries a CRC32C of its header and payload, in both
///     directions, where the peer knows it too; one side's wish is enough. Costs a copy and a pass
///     over the bytes at each end. Memory that is reached without frames (`self`, `mapped`, `cma`)
///     is not covered
public record EndpointOptions(
        byte @Nullable [] secret,
        List<String> transports,
        List<String> paths,
        List<String> interfaces,
        int port,
        int lanes,
        int maxSockets,
        Duration deadline,
        Duration connectDeadline,
        Duration liveness,
        Duration drainLimit,
        Duration spin,
        int maxNotification,
        @Nullable String socketDirectory,
        boolean hugePages,
        Duration slowTransfer,
        boolean metrics,
        boolean checksums) {
    /// Everything allowed, 30 s for a transfer, 10 s for a connect.
    public static final EndpointOptions DEFAULTS =
            new EndpointOptions(
                    null,
                    List.of(),
                    List.of(),
                    List.of(),
                    0,
                    0,
                    16,
                    Duration.ofSeconds(30),
                    Duration.ofSeconds(10),
                    Duration.ofSeconds(5),
                    Duration.ofSeconds(1),
                    Duration.ofNanos(50_000),
                    16 << 20,
                    null,
                    false,
                    Duration.ofSeconds(1),
                    true,
                    false);

    /// Checks every value.
    public EndpointOptions {
        if (secret != null) {
            checkSecret(secret);
            secret = secret.clone();
        }
        transports = List.copyOf(transports);
        paths = List.copyOf(paths);
        interfaces = List.copyOf(interfaces);
        checkInterval("port", port, 0, 65_535);
        checkInterval("lanes", lanes, 0, 64);
        checkInterval("maxSockets", maxSockets, 1, 256);
        checkInterval("maxNotification", maxNotification, 64, 1 << 30);
        checkPositive("deadline", deadline);
        checkPositive("connectDeadline", connectDeadline);
        checkPositive("liveness", liveness);
        checkPositive("drainLimit", drainLimit);
        checkPositive("slowTransfer", slowTransfer);
        Objects.requireNonNull(spin, "spin");
    }

    static void checkSecret(byte[] secret) {
        if (secret.length < 16 || secret.length > 64) {
            throw new IllegalArgumentException(
                    "a secret has 16 to 64 bytes, this one has " + secret.length);
        }
    }

    private static void checkInterval(String name, int value, int least, int most) {
        if (value < least || value > most) {
            throw new IllegalArgumentException(
                    "%s is %d; it must lie between %d and %d".formatted(name, value, least, most));
        }
    }

    private static void checkPositive(String name, Duration value) {
        if (value.isNegative() || value.isZero()) {
            throw new IllegalArgumentException(name + " is " + value + "; it must be positive");
        }
    }

    /// The defaults, changed by the variables `TELPHER_SECRET`, `TELPHER_TRANSPORTS`,
    /// `TELPHER_PATHS`, `TELPHER_INTERFACES` (else `NCCL_SOCKET_IFNAME` where it is a plain list),
    /// `TELPHER_PORT`, `TELPHER_LANES`, `TELPHER_MAX_SOCKETS`, `TELPHER_DEADLINE`,
    /// `TELPHER_CONNECT_DEADLINE`, `TELPHER_LIVENESS`, `TELPHER_DRAIN_LIMIT`, `TELPHER_SPIN`,
    /// `TELPHER_MAX_NOTIFICATION`, `TELPHER_SOCKET_DIRECTORY`, `TELPHER_HUGE_PAGES`,
    /// `TELPHER_SLOW_TRANSFER`, `TELPHER_METRICS` and `TELPHER_CHECKSUMS`: one for each option.
    /// Lists are comma-separated, times are seconds or have a unit: `2.5`, `500ms`, `50us`.
    /// [Setting#fromEnvironment()] tells what came of them.
    ///
    /// @throws IllegalArgumentException when a `TELPHER_` variable cannot be understood
    public static EndpointOptions fromEnvironment() {
        return fromEnvironment(System.getenv());
    }

    /// As [#fromEnvironment()], of another environment.
    public static EndpointOptions fromEnvironment(Map<String, String> environment) {
        EndpointOptions options = DEFAULTS;
        for (Variable variable : Variable.values()) {
            options = variable.apply(options, environment);
        }
        return options;
    }

    /// @return the same with another `secret`
    public EndpointOptions withSecret(byte @Nullable [] value) {
        return changed(draft -> draft.secret = value);
    }

    /// @return the same with another `transports`
    public EndpointOptions withTransports(List<String> value) {
        return changed(draft -> draft.transports = value);
    }

    /// @return the same with another `paths`
    public EndpointOptions withPaths(List<String> value) {
        return changed(draft -> draft.paths = value);
    }

    /// @return the same with another `interfaces`
    public EndpointOptions withInterfaces(List<String> value) {
        return changed(draft -> draft.interfaces = value);
    }

    /// @return the same with another `port`
    public EndpointOptions withPort(int value) {
        return changed(draft -> draft.port = value);
    }

    /// @return the same with another `lanes`
    public EndpointOptions withLanes(int value) {
        return changed(draft -> draft.lanes = value);
    }

    /// @return the same with another `maxSockets`
    public EndpointOptions withMaxSockets(int value) {
        return changed(draft -> draft.maxSockets = value);
    }

    /// @return the same with another `deadline`
    public EndpointOptions withDeadline(Duration value) {
        return changed(draft -> draft.deadline = value);
    }

    /// @return the same with another `connectDeadline`
    public EndpointOptions withConnectDeadline(Duration value) {
        return changed(draft -> draft.connectDeadline = value);
    }

    /// @return the same with another `liveness`
    public EndpointOptions withLiveness(Duration value) {
        return changed(draft -> draft.liveness = value);
    }

    /// @return the same with another `drainLimit`
    public EndpointOptions withDrainLimit(Duration value) {
        return changed(draft -> draft.drainLimit = value);
    }

    /// @return the same with another `spin`
    public EndpointOptions withSpin(Duration value) {
        return changed(draft -> draft.spin = value);
    }

    /// @return the same with another `maxNotification`
    public EndpointOptions withMaxNotification(int value) {
        return changed(draft -> draft.maxNotification = value);
    }

    /// @return the same with another `socketDirectory`
    public EndpointOptions withSocketDirectory(@Nullable String value) {
        return changed(draft -> draft.socketDirectory = value);
    }

    /// @return the same with another `hugePages`
    public EndpointOptions withHugePages(boolean value) {
        return changed(draft -> draft.hugePages = value);
    }

    /// @return the same with another `slowTransfer`
    public EndpointOptions withSlowTransfer(Duration value) {
        return changed(draft -> draft.slowTransfer = value);
    }

    /// @return the same with another `metrics`
    public EndpointOptions withMetrics(boolean value) {
        return changed(draft -> draft.metrics = value);
    }

    /// @return the same with another `checksums`
    public EndpointOptions withChecksums(boolean value) {
        return changed(draft -> draft.checksums = value);
    }

    /// All options, to be changed: whatever copies them is here, and only here.
    private static final class Draft {
        private byte @Nullable [] secret;
        private List<String> transports;
        private List<String> paths;
        private List<String> interfaces;
        private int port;
        private int lanes;
        private int maxSockets;
        private Duration deadline;
        private Duration connectDeadline;
        private Duration liveness;
        private Duration drainLimit;
        private Duration spin;
        private int maxNotification;
        private @Nullable String socketDirectory;
        private boolean hugePages;
        private Duration slowTransfer;
        private boolean metrics;
        private boolean checksums;

        Draft(EndpointOptions from) {
            secret = from.secret;
            transports = from.transports;
            paths = from.paths;
            interfaces = from.interfaces;
            port = from.port;
            lanes = from.lanes;
            maxSockets = from.maxSockets;
            deadline = from.deadline;
            connectDeadline = from.connectDeadline;
            liveness = from.liveness;
            drainLimit = from.drainLimit;
            spin = from.spin;
            maxNotification = from.maxNotification;
            socketDirectory = from.socketDirectory;
            hugePages = from.hugePages;
            slowTransfer = from.slowTransfer;
            metrics = from.metrics;
            checksums = from.checksums;
        }

        EndpointOptions done() {
            return new EndpointOptions(
                    secret,
                    transports,
                    paths,
                    interfaces,
                    port,
                    lanes,
                    maxSockets,
                    deadline,
                    connectDeadline,
                    liveness,
                    drainLimit,
                    spin,
                    maxNotification,
                    socketDirectory,
                    hugePages,
                    slowTransfer,
                    metrics,
                    checksums);
        }
    }

    private EndpointOptions changed(Consumer<Draft> change) {
        Draft draft = new Draft(this);
        change.accept(draft);
        return draft.done();
    }

    /// Leaves the secret out.
    @Override
    public String toString() {
        return "EndpointOptions[transports=%s, paths=%s, interfaces=%s, port=%d, lanes=%d, deadline=%s, connectDeadline=%s, liveness=%s]"
                .formatted(
                        transports,
                        paths,
                        interfaces,
                        port,
                        lanes,
                        deadline,
                        connectDeadline,
                        liveness);
    }
}
