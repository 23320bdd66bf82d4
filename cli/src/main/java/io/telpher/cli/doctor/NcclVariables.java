package io.telpher.cli.doctor;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/// The variables that NCCL reads, and which values they take.
final class NcclVariables {
    /// The version whose sources the list was taken from.
    static final String VERSION = "2.30.7";

    /// Every name, and whether its value is a number.
    static final Map<String, Boolean> NAMES = load();

    private static final List<String> LEVELS =
            List.of("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS");

    /// What the value means beyond being a number: the least and the greatest.
    private static final Map<String, long[]> RANGES =
            Map.ofEntries(
                    Map.entry("NCCL_P2P_DIRECT_DISABLE", new long[] {0, 1}),
                    Map.entry("NCCL_P2P_USE_CUDA_MEMCPY", new long[] {0, 1}),
                    Map.entry("NCCL_SHM_DISABLE", new long[] {0, 1}),
                    Map.entry("NCCL_IB_DISABLE", new long[] {0, 1}),
                    Map.entry("NCCL_IB_GID_INDEX", new long[] {-1, 255}),
                    Map.entry("NCCL_IB_TIMEOUT", new long[] {0, 31}),
                    Map.entry("NCCL_IB_RETRY_CNT", new long[] {0, 7}),
                    Map.entry("NCCL_IB_SL", new long[] {-1, 15}),
                    Map.entry("NCCL_IB_TC", new long[] {-1, 255}),
                    Map.entry("NCCL_IB_FIFO_TC", new long[] {-1, 255}),
                    Map.entry("NCCL_IB_QPS_PER_CONNECTION", new long[] {1, 128}),
                    Map.entry("NCCL_IB_ROCE_VERSION_NUM", new long[] {1, 2}),
                    Map.entry("NCCL_IB_SUBNET_PREFIX_LEN", new long[] {1, 32}),
                    Map.entry("NCCL_IB_PCI_RELAXED_ORDERING", new long[] {0, 2}));

    private NcclVariables() {}

    private static Map<String, Boolean> load() {
        Map<String, Boolean> names = new TreeMap<>();
        try (InputStream in =
                Objects.requireNonNull(
                        NcclVariables.class.getResourceAsStream("nccl-variables.txt"))) {
            String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
            text.lines()
                    .filter(line -> !line.startsWith("#"))
                    .map(line -> line.split(" "))
                    .forEach(words -> names.put(words[0], words.length > 1));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return Map.copyOf(names);
    }

    /// @return what is wrong with the value of a variable that NCCL reads; null when nothing is
    static @Nullable String wrong(Host host, String variable, String value) {
        if (value.isEmpty()) {
            return null; // as good as none
        }
        if (Boolean.TRUE.equals(NAMES.get(variable))) {
            Long number = number(value);
            if (number == null) {
                return "'%s' is no number: NCCL reads %s"
                        .formatted(
                                value, value.matches("\\s*[-+]?\\d.*") ? "its first digits" : "0");
            }
            return number(variable, number);
        }
        return switch (variable) {
            case "NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL" -> level(value);
            case "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME" ->
                    names(
                            value,
                            host.nics().stream().map(Nic::name).toList(),
                            "interface that is up");
            case "NCCL_IB_HCA" -> names(value, host.list(Pci.INFINIBAND), "RDMA device");
            case "NCCL_IB_ADDR_FAMILY", "NCCL_SOCKET_FAMILY" ->
                    value.equals("AF_INET") || value.equals("AF_INET6")
                            ? null
                            : "AF_INET and AF_INET6 are known, others are ignored";
            case "NCCL_IB_ADDR_RANGE" ->
                    value.matches("[0-9A-Fa-f.:]+/\\d{1,3}")
                            ? null
                            : "a subnet is needed, such as 10.0.0.0/8";
            default -> null;
        };
    }

    private static @Nullable String number(String variable, long value) {
        return switch (variable) {
            case "NCCL_P2P_DISABLE" ->
                    value == 0 || value == 1 ? null : "only 1 disables; this does nothing";
            case "NCCL_P2P_READ_ENABLE" ->
                    value == -1
                            ? "-1 forces reads: what leaves it to NCCL is -2, or no value"
                            : value < -2 || value > 1 ? "0, 1 or -2 (automatic) are known" : null;
            case "NCCL_CUMEM_ENABLE" ->
                    value < -2 || value > 1 || value == -1
                            ? "0, 1 or -2 (automatic) are known"
                            : null;
            default -> {
                long[] range = RANGES.get(variable);
                yield range == null || (value >= range[0] && value <= range[1])
                        ? null
                        : "%d is not in %d to %d".formatted(value, range[0], range[1]);
            }
        };
    }

    /// As C reads numbers: decimal, octal or hexadecimal.
    private static @Nullable Long number(String text) {
        try {
            return Long.decode(text.strip());
        } catch (NumberFormatException e) {
            return null;
        }
    }

    private static @Nullable String level(String value) {
        if (LEVELS.contains(value) || value.matches("\\d+")) {
            return null;
        }
        return LEVELS.contains(value.toUpperCase(Locale.ROOT))
                ? "NCCL knows it in capital letters only, and ignores this"
                : "'%s' is no path type (%s): NCCL ignores it"
                        .formatted(value, String.join(" ", LEVELS));
    }

    /// A list of prefixes; `=` in front makes them whole names, `^` leaves out what they name.
    private static @Nullable String names(String value, List<String> known, String what) {
        if (value.startsWith("^")) {
            return null;
        }
        boolean whole = value.startsWith("=");
        boolean any =
                Arrays.stream(value.substring(whole ? 1 : 0).split(","))
                        .map(name -> name.split(":", 2)[0]) // a port may follow
                        .filter(name -> !name.isEmpty())
                        .anyMatch(
                                name ->
                                        known.stream()
                                                .anyMatch(
                                                        k ->
                                                                whole
                                                                        ? k.equals(name)
                                                                        : k.startsWith(name)));
        return any
                ? null
                : "it names no %s: there are %s"
                        .formatted(what, known.isEmpty() ? "none" : String.join(", ", known));
    }
}
