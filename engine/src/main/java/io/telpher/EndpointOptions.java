package io.telpher;

import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// How an endpoint behaves. Immutable; start from [#DEFAULTS] or [#fromEnvironment()].
///
/// @param secret what peers must hold to connect, 16 to 64 bytes; null: the endpoint makes one
/// @param transports allowed transports by name (`shm`, `tcp`), empty for all
/// @param paths allowed paths by name (`self`, `mapped`, `cma`, `shm-ring`, `tcp`), empty for all
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
/// @param maxNotification largest notification that peers may send, in bytes
/// @param socketDirectory folder for the same-host socket, for containers that share nothing but a
///     folder; null: an abstract name, which leaves no file
/// @param hugePages whether memory that Telpher allocates asks for huge pages
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
        boolean hugePages) {
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
                    false);

    /// Checks every value.
    public EndpointOptions {
        if (secret != null) {
            if (secret.length < 16 || secret.length > 64) {
                throw new IllegalArgumentException(
                        "a secret has 16 to 64 bytes, this one has " + secret.length);
            }
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
        Objects.requireNonNull(spin, "spin");
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

    /// The defaults, changed by the variables `TELPHER_SECRET` (text of 16 to 64 bytes),
    /// `TELPHER_TRANSPORTS`, `TELPHER_PATHS`, `TELPHER_INTERFACES` (else `NCCL_SOCKET_IFNAME` where
    /// it is a plain list), all comma-separated, `TELPHER_PORT`, `TELPHER_LANES`,
    /// `TELPHER_DEADLINE`, `TELPHER_CONNECT_DEADLINE`, `TELPHER_LIVENESS` (seconds, or with a unit:
    /// `500ms`).
    ///
    /// @throws IllegalArgumentException when a `TELPHER_` variable cannot be understood
    public static EndpointOptions fromEnvironment() {
        return fromEnvironment(System.getenv());
    }

    static EndpointOptions fromEnvironment(Map<String, String> env) {
        EndpointOptions options = DEFAULTS;
        String secret = env.get("TELPHER_SECRET");
        if (secret != null) {
            options = options.withSecret(secret.getBytes(java.nio.charset.StandardCharsets.UTF_8));
        }
        options = options.withTransports(list(env, "TELPHER_TRANSPORTS"));
        options = options.withPaths(list(env, "TELPHER_PATHS"));
        List<String> interfaces = list(env, "TELPHER_INTERFACES");
        String nccl = env.get("NCCL_SOCKET_IFNAME");
        if (interfaces.isEmpty()
                && nccl != null
                && nccl.matches("=?[A-Za-z0-9._-]+(,[A-Za-z0-9._-]+)*")) {
            interfaces = List.of(nccl.replaceFirst("^=", "").split(","));
        }
        options = options.withInterfaces(interfaces);
        options = options.withPort(number(env, "TELPHER_PORT", options.port()));
        options = options.withLanes(number(env, "TELPHER_LANES", options.lanes()));
        options = options.withDeadline(duration(env, "TELPHER_DEADLINE", options.deadline()));
        options =
                options.withConnectDeadline(
                        duration(env, "TELPHER_CONNECT_DEADLINE", options.connectDeadline()));
        return options.withLiveness(duration(env, "TELPHER_LIVENESS", options.liveness()));
    }

    private static List<String> list(Map<String, String> env, String name) {
        String value = env.getOrDefault(name, "").strip();
        return value.isEmpty() ? List.of() : List.of(value.split("\\s*,\\s*"));
    }

    private static int number(Map<String, String> env, String name, int otherwise) {
        String value = env.get(name);
        if (value == null || value.isBlank()) {
            return otherwise;
        }
        try {
            return Integer.parseInt(value.strip());
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + "=" + value + " is not a whole number", e);
        }
    }

    private static Duration duration(Map<String, String> env, String name, Duration otherwise) {
        String value = env.get(name);
        if (value == null || value.isBlank()) {
            return otherwise;
        }
        String text = value.strip().toLowerCase(Locale.ROOT);
        try {
            if (text.endsWith("ms")) {
                return Duration.ofMillis(
                        Long.parseLong(text.substring(0, text.length() - 2).strip()));
            }
            String seconds =
                    text.endsWith("s") ? text.substring(0, text.length() - 1).strip() : text;
            return Duration.ofNanos(Math.round(Double.parseDouble(seconds) * 1e9));
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(
                    name
                            + "="
                            + value
                            + " is not a time: write seconds (2.5) or milliseconds (500ms)",
                    e);
        }
    }

    /// @return the same with another `secret`
    public EndpointOptions withSecret(byte @Nullable [] value) {
        return new EndpointOptions(
                value,
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
                hugePages);
    }

    /// @return the same with another `transports`
    public EndpointOptions withTransports(List<String> value) {
        return new EndpointOptions(
                secret,
                value,
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
                hugePages);
    }

    /// @return the same with another `paths`
    public EndpointOptions withPaths(List<String> value) {
        return new EndpointOptions(
                secret,
                transports,
                value,
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
                hugePages);
    }

    /// @return the same with another `interfaces`
    public EndpointOptions withInterfaces(List<String> value) {
        return new EndpointOptions(
                secret,
                transports,
                paths,
                value,
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
                hugePages);
    }

    /// @return the same with another `port`
    public EndpointOptions withPort(int value) {
        return new EndpointOptions(
                secret,
                transports,
                paths,
                interfaces,
                value,
                lanes,
                maxSockets,
                deadline,
                connectDeadline,
                liveness,
                drainLimit,
                spin,
                maxNotification,
                socketDirectory,
                hugePages);
    }

    /// @return the same with another `lanes`
    public EndpointOptions withLanes(int value) {
        return new EndpointOptions(
                secret,
                transports,
                paths,
                interfaces,
                port,
                value,
                maxSockets,
                deadline,
                connectDeadline,
                liveness,
                drainLimit,
                spin,
                maxNotification,
                socketDirectory,
                hugePages);
    }

    /// @return the same with another `maxSockets`
    public EndpointOptions withMaxSockets(int value) {
        return new EndpointOptions(
                secret,
                transports,
                paths,
                interfaces,
                port,
                lanes,
                value,
                deadline,
                connectDeadline,
                liveness,
                drainLimit,
                spin,
                maxNotification,
                socketDirectory,
                hugePages);
    }

    /// @return the same with another `deadline`
    public EndpointOptions withDeadline(Duration value) {
        return new EndpointOptions(
                secret,
                transports,
                paths,
                interfaces,
                port,
                lanes,
                maxSockets,
                value,
                connectDeadline,
                liveness,
                drainLimit,
                spin,
                maxNotification,
                socketDirectory,
                hugePages);
    }

    /// @return the same with another `connectDeadline`
    public EndpointOptions withConnectDeadline(Duration value) {
        return new EndpointOptions(
                secret,
                transports,
                paths,
                interfaces,
                port,
                lanes,
                maxSockets,
                deadline,
                value,
                liveness,
                drainLimit,
                spin,
                maxNotification,
                socketDirectory,
                hugePages);
    }

    /// @return the same with another `liveness`
    public EndpointOptions withLiveness(Duration value) {
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
                value,
                drainLimit,
                spin,
                maxNotification,
                socketDirectory,
                hugePages);
    }

    /// @return the same with another `drainLimit`
    public EndpointOptions withDrainLimit(Duration value) {
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
                value,
                spin,
                maxNotification,
                socketDirectory,
                hugePages);
    }

    /// @return the same with another `spin`
    public EndpointOptions withSpin(Duration value) {
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
                value,
                maxNotification,
                socketDirectory,
                hugePages);
    }

    /// @return the same with another `maxNotification`
    public EndpointOptions withMaxNotification(int value) {
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
                value,
                socketDirectory,
                hugePages);
    }

    /// @return the same with another `socketDirectory`
    public EndpointOptions withSocketDirectory(@Nullable String value) {
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
                value,
                hugePages);
    }

    /// @return the same with another `hugePages`
    public EndpointOptions withHugePages(boolean value) {
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
                value);
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
