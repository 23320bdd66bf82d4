package io.telpher.internal.transport.verbs;

import io.telpher.EndpointOptions;
import io.telpher.Setting;
import io.telpher.internal.observe.Log;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// How ports and queue pairs are used: `TELPHER_IB_*`, or else NCCL's variable of the same meaning.
///
/// @param disabled the variable that forbids the transport, or null
/// @param ports `device[:port]` to use, empty for all
/// @param exact whether they are whole names, not beginnings
/// @param exclude whether they are what is not used
/// @param gidIndex index in each port's table, -1: by type and address
/// @param trafficClass 0 to 255
/// @param serviceLevel 0 to 15
/// @param pkeyIndex partition
/// @param timeout how long an acknowledgement may take: 4.096 us * 2^timeout
/// @param retries how often a packet is sent again
/// @param queuePairs lanes for each pair of rails
record IbSettings(
        @Nullable String disabled,
        List<String> ports,
        boolean exact,
        boolean exclude,
        int gidIndex,
        int trafficClass,
        int serviceLevel,
        int pkeyIndex,
        int timeout,
        int retries,
        int queuePairs) {
    /// NCCL's: 4.3 s.
    private static final int LONGEST_TIMEOUT = 20;

    private static final int SHORTEST_TIMEOUT = 10;

    /// The unit of [#timeout].
    private static final long TIMEOUT_NANOS = 4096;

    /// As many time-outs as a device may let pass before it sends again what was lost.
    private static final int LATE = 4;

    /// Reads the environment, for an endpoint with the usual options.
    ///
    /// @param environment gives a variable's value, or null
    static IbSettings of(Function<String, @Nullable String> environment) {
        return of(environment, EndpointOptions.DEFAULTS.liveness());
    }

    /// Reads the environment.
    ///
    /// @param environment gives a variable's value, or null
    /// @param liveness how long the peer may acknowledge nothing before it is lost
    /// @throws IllegalArgumentException when a variable of Telpher's cannot be understood; of
    ///     NCCL's that is a warning
    static IbSettings of(Function<String, @Nullable String> environment, Duration liveness) {
        return of(new Reader(environment), liveness);
    }

    /// What each variable comes to, in the order of this class, for tools and people.
    ///
    /// @throws IllegalArgumentException as [#of]
    static List<Setting> inForce(
            Function<String, @Nullable String> environment, Duration liveness) {
        Reader in = new Reader(environment);
        of(in, liveness);
        return List.copyOf(in.read);
    }

    /// @return the variable that says to do without RDMA, whatever the others say, or null
    /// @throws IllegalArgumentException as [#of]
    static @Nullable String disabledBy(Function<String, @Nullable String> environment) {
        return disabledBy(new Reader(environment));
    }

    private static @Nullable String disabledBy(Reader in) {
        return in.number("DISABLE", "1 to do without", 0, 1, 0) == 1 ? in.name("DISABLE") : null;
    }

    private static IbSettings of(Reader in, Duration liveness) {
        String disabled = disabledBy(in);
        String hca =
                in.text(
                        "HCA",
                        "ports to use, prefixes of device[:port]; = for whole names, ^ for all but"
                                + " these; empty for all");
        boolean exclude = hca.startsWith("^");
        String rest = exclude ? hca.substring(1) : hca;
        boolean exact = rest.startsWith("=");
        rest = exact ? rest.substring(1) : rest;
        return new IbSettings(
                disabled,
                rest.isEmpty() ? List.of() : List.of(rest.split("\\s*,\\s*")),
                exact,
                exclude,
                in.number(
                        "GID_INDEX",
                        "one entry of the tables of GIDs; -1: by type and address",
                        -1,
                        Gids.LAST,
                        -1),
                Math.max(0, in.number("TC", "traffic class", -1, 255, 0)),
                Math.max(0, in.number("SL", "service level", -1, 15, 0)),
                in.number("PKEY", "index of the partition key", 0, 65_535, 0),
                in.number(
                        "TIMEOUT",
                        "acknowledgements, 4.096 us * 2^N; by default as TELPHER_LIVENESS asks",
                        1,
                        31,
                        timeout(liveness)),
                in.number("RETRY_CNT", "how often packets are sent again", 0, 7, 7),
                in.number("QPS_PER_CONNECTION", "lanes of two ports", 1, 128, 1));
    }

    /// The longest time-out of which a lane that acknowledges nothing has four before it is given
    /// up, which is after two thirds of `liveness`: a lost packet is sent again by then, however
    /// slow the device counts. Eight of them, as many as there are with seven retries, are longer
    /// than that: an error of the queue pair does not come before.
    private static int timeout(Duration liveness) {
        long most = liveness.toNanos() / 3 * 2 / LATE;
        int code = LONGEST_TIMEOUT;
        while (code > SHORTEST_TIMEOUT && TIMEOUT_NANOS << code > most) {
            code--;
        }
        return code;
    }

    /// @return nanoseconds after which most devices have sent again what was lost
    long repeatNanos() {
        return 2 * (TIMEOUT_NANOS << timeout);
    }

    /// Whether a port may be used.
    boolean allows(String device, int port) {
        boolean named = false;
        for (String each : ports) {
            int colon = each.indexOf(':');
            String name = colon < 0 ? each : each.substring(0, colon);
            boolean device0 = exact ? device.equals(name) : device.startsWith(name);
            named |=
                    device0
                            && (colon < 0
                                    || each.substring(colon + 1).equals(Integer.toString(port)));
        }
        return ports.isEmpty() || named != exclude;
    }

    /// Reads variables, and remembers what they came to.
    private static final class Reader {
        private static final String OWN = "TELPHER_IB_";
        private static final String NCCL = "NCCL_IB_";

        private final Function<String, @Nullable String> environment;
        final List<Setting> read = new ArrayList<>();

        Reader(Function<String, @Nullable String> environment) {
            this.environment = environment;
        }

        private boolean isSet(String variable) {
            String value = environment.apply(variable);
            return value != null && !value.isBlank();
        }

        /// The variable that counts.
        String name(String what) {
            return isSet(OWN + what) ? OWN + what : NCCL + what;
        }

        private String value(String what) {
            String value = environment.apply(name(what));
            return value == null ? "" : value.strip();
        }

        String text(String what, String meaning) {
            String text = value(what);
            remember(what, meaning, text, !text.isEmpty());
            return text;
        }

        int number(String what, String meaning, int least, int most, int otherwise) {
            String text = value(what);
            OptionalInt number = parse(text, least, most);
            if (number.isEmpty() && !text.isEmpty()) {
                String message =
                        "%s=%s: write a whole number from %d to %d"
                                .formatted(name(what), text, least, most);
                if (isSet(OWN + what)) {
                    throw new IllegalArgumentException(message);
                }
                Log.warning(message + "; it is left out", null);
            }
            int value = number.orElse(otherwise);
            remember(what, meaning, Integer.toString(value), number.isPresent());
            return value;
        }

        private static OptionalInt parse(String text, int least, int most) {
            try {
                boolean hexadecimal = text.startsWith("0x") || text.startsWith("0X");
                int value =
                        hexadecimal
                                ? Integer.parseInt(text.substring(2), 16)
                                : Integer.parseInt(text);
                return value >= least && value <= most
                        ? OptionalInt.of(value)
                        : OptionalInt.empty();
            } catch (NumberFormatException e) {
                return OptionalInt.empty(); // as one that is out of range
            }
        }

        private void remember(String what, String meaning, String value, boolean given) {
            String origin = given ? name(what) : Setting.DEFAULT;
            read.add(new Setting("", OWN + what, value, origin, "RDMA: " + meaning));
        }
    }
}
