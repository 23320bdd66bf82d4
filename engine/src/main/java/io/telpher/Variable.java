package io.telpher;

import io.telpher.internal.engine.Transports;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// The environment variables of [EndpointOptions]: the one place that knows their names, how their
/// text is read and how a value is written.
enum Variable {
    SECRET(
            "secret",
            "what peers must hold to connect: text of 16 to 64 bytes",
            (o, text) -> o.withSecret(text.getBytes(StandardCharsets.UTF_8)),
            o -> o.secret() == null ? "made anew for each endpoint" : "set, not shown"),
    TRANSPORTS(
            "transports",
            "allowed transports, comma-separated: shm, verbs, tcp; empty for all",
            (o, text) -> Transports.checked(o.withTransports(list(text))),
            o -> String.join(",", o.transports())),
    PATHS(
            "paths",
            "allowed paths, comma-separated: self, mapped, cma, shm-ring, tcp, verbs, verbs-ring,"
                    + " cuda-direct, cuda-cumem, cuda-ipc, cuda-via-gpu, hip-direct; empty for all",
            (o, text) -> Transports.checked(o.withPaths(list(text))),
            o -> String.join(",", o.paths())),
    INTERFACES(
            "interfaces",
            "network interfaces, comma-separated: eth0, 10.1.0.0/16, ^docker; empty for all",
            (o, text) -> o.withInterfaces(list(text)),
            o -> String.join(",", o.interfaces())),
    PORT(
            "port",
            "TCP port to listen on; 0: the system chooses",
            (o, text) -> o.withPort(number(text)),
            o -> Integer.toString(o.port())),
    LANES(
            "lanes",
            "bulk lanes for each pair of network addresses; 0: chosen by the link's speed",
            (o, text) -> o.withLanes(number(text)),
            o -> Integer.toString(o.lanes())),
    MAX_SOCKETS(
            "maxSockets",
            "most TCP sockets for one peer",
            (o, text) -> o.withMaxSockets(number(text)),
            o -> Integer.toString(o.maxSockets())),
    DEADLINE(
            "deadline",
            "default deadline of a transfer",
            (o, text) -> o.withDeadline(duration(text)),
            o -> show(o.deadline())),
    CONNECT_DEADLINE(
            "connectDeadline",
            "default deadline of a connect",
            (o, text) -> o.withConnectDeadline(duration(text)),
            o -> show(o.connectDeadline())),
    LIVENESS(
            "liveness",
            "how long the peer's host may acknowledge nothing before it is lost",
            (o, text) -> o.withLiveness(duration(text)),
            o -> show(o.liveness())),
    DRAIN_LIMIT(
            "drainLimit",
            "most time between a deadline or cancellation and the terminal state",
            (o, text) -> o.withDrainLimit(duration(text)),
            o -> show(o.drainLimit())),
    SPIN(
            "spin",
            "how long a waiting thread polls before it parks",
            (o, text) -> o.withSpin(duration(text)),
            o -> show(o.spin())),
    MAX_NOTIFICATION(
            "maxNotification",
            "largest notification that this side and its peers may send, in bytes",
            (o, text) -> o.withMaxNotification(number(text)),
            o -> Integer.toString(o.maxNotification())),
    SOCKET_DIRECTORY(
            "socketDirectory",
            "folder for the same-host socket, for containers that share one; empty: no file",
            (o, text) -> o.withSocketDirectory(text),
            o -> o.socketDirectory() == null ? "" : o.socketDirectory()),
    HUGE_PAGES(
            "hugePages",
            "whether memory that Telpher allocates asks for huge pages: true or false",
            (o, text) -> o.withHugePages(truth(text)),
            o -> Boolean.toString(o.hugePages())),
    SLOW_TRANSFER(
            "slowTransfer",
            "how long a transfer may take before it is counted and recorded as slow",
            (o, text) -> o.withSlowTransfer(duration(text)),
            o -> show(o.slowTransfer())),
    METRICS(
            "metrics",
            "whether telpher top and serve-metrics can read the counters: true or false",
            (o, text) -> o.withMetrics(truth(text)),
            o -> Boolean.toString(o.metrics())),
    CHECKSUMS(
            "checksums",
            "whether frames carry a CRC32C where the peer knows it: true or false",
            (o, text) -> o.withChecksums(truth(text)),
            o -> Boolean.toString(o.checksums()));

    /// NCCL's choice of interfaces counts where Telpher's is not set: both want the same thing.
    private static final String NCCL_INTERFACES = "NCCL_SOCKET_IFNAME";

    private final String option;
    private final String meaning;
    private final BiFunction<EndpointOptions, String, EndpointOptions> apply;
    private final Function<EndpointOptions, String> show;

    Variable(
            String option,
            String meaning,
            BiFunction<EndpointOptions, String, EndpointOptions> apply,
            Function<EndpointOptions, String> show) {
        this.option = option;
        this.meaning = meaning;
        this.apply = apply;
        this.show = show;
    }

    String option() {
        return option;
    }

    String variable() {
        return "TELPHER_" + name();
    }

    String meaning() {
        return meaning;
    }

    String show(EndpointOptions options) {
        return show.apply(options);
    }

    /// @return the variable that sets this in that environment, or [Setting#DEFAULT]
    String origin(Map<String, String> environment) {
        if (text(environment) == null) {
            return Setting.DEFAULT;
        }
        return isSet(environment) ? variable() : NCCL_INTERFACES;
    }

    /// @throws IllegalArgumentException when the variable cannot be understood
    EndpointOptions apply(EndpointOptions options, Map<String, String> environment) {
        String text = text(environment);
        if (text == null) {
            return options;
        }
        try {
            return apply.apply(options, text);
        } catch (IllegalArgumentException e) {
            String shown = this == SECRET ? "" : "=" + text;
            throw new IllegalArgumentException(variable() + shown + ": " + e.getMessage(), e);
        }
    }

    /// An empty variable is as good as none, but an empty secret is a mistake that must be told.
    private boolean isSet(Map<String, String> environment) {
        String value = environment.get(variable());
        return value != null && (this == SECRET || !value.isBlank());
    }

    private @Nullable String text(Map<String, String> environment) {
        if (isSet(environment)) {
            String value = environment.getOrDefault(variable(), "");
            return this == SECRET ? value : value.strip();
        }
        if (this == INTERFACES) {
            String nccl = environment.get(NCCL_INTERFACES);
            // Only a plain list: NCCL has forms with a meaning that differs from ours.
            if (nccl != null && nccl.matches("=?[A-Za-z0-9._-]+(,[A-Za-z0-9._-]+)*")) {
                return nccl.replaceFirst("^=", "");
            }
        }
        return null;
    }

    private static List<String> list(String text) {
        return List.of(text.split("\\s*,\\s*"));
    }

    private static int number(String text) {
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("not a whole number", e);
        }
    }

    private static boolean truth(String text) {
        return switch (text.toLowerCase(Locale.ROOT)) {
            case "true", "1", "yes", "on" -> true;
            case "false", "0", "no", "off" -> false;
            default -> throw new IllegalArgumentException("write true or false");
        };
    }

    private static Duration duration(String text) {
        String lower = text.toLowerCase(Locale.ROOT);
        double nanos = 1e9;
        int suffix = 0;
        if (lower.endsWith("us")) {
            nanos = 1e3;
            suffix = 2;
        } else if (lower.endsWith("ms")) {
            nanos = 1e6;
            suffix = 2;
        } else if (lower.endsWith("s")) {
            suffix = 1;
        }
        String number = lower.substring(0, lower.length() - suffix).strip();
        if (!number.matches("\\d{1,9}(\\.\\d{1,9})?")) {
            throw new IllegalArgumentException(
                    "not a time: write seconds (2.5), milliseconds (500ms) or microseconds (50us)");
        }
        return Duration.ofNanos(Math.round(Double.parseDouble(number) * nanos));
    }

    private static String show(Duration time) {
        long nanos = time.toNanos();
        if (nanos % 1_000_000_000 == 0) {
            return nanos / 1_000_000_000 + "s";
        }
        return nanos % 1_000_000 == 0 ? nanos / 1_000_000 + "ms" : nanos / 1_000 + "us";
    }
}
