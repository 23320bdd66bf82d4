package io.telpher.cli.doctor;

import java.util.ArrayList;
import java.util.List;

/// How far the kernel lets TCP's buffers grow. Telpher sets no sizes, which leaves them to the
/// kernel's tuning; its maxima bound the throughput of one stream to a buffer per round trip.
final class SocketBuffersCheck implements Check {
    private static final String RECEIVE = "/proc/sys/net/ipv4/tcp_rmem";
    private static final String SEND = "/proc/sys/net/ipv4/tcp_wmem";
    private static final String TUNING = "/proc/sys/net/ipv4/tcp_moderate_rcvbuf";
    private static final String SCALING = "/proc/sys/net/ipv4/tcp_window_scaling";
    private static final String SELECTIVE = "/proc/sys/net/ipv4/tcp_sack";

    /// A slow round trip of one building.
    private static final long MICROS = 1000;

    private static final long LEAST = 1 << 20;

    @Override
    public String name() {
        return "socket-buffers";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        long needed = needed(host);
        for (String file : List.of(RECEIVE, SEND)) {
            long most = third(host.read(file).orElse(""));
            if (most > 0 && most < needed) {
                found.add(
                        Finding.warning(
                                name(),
                                "a stream holds at most %d KiB; this machine's fastest link takes"
                                                .formatted(most >> 10)
                                        + " %d KiB in a round trip of 1 ms".formatted(needed >> 10),
                                host.evidence(file),
                                "sysctl -w net.ipv4."
                                        + file.substring(file.lastIndexOf('/') + 1)
                                        + "='4096 131072 "
                                        + Math.max(needed, 6 << 20)
                                        + "'",
                                "telpher bench --path tcp between the two machines"));
            }
        }
        off(host, TUNING, "the receive buffer does not grow by itself", found);
        off(host, SCALING, "windows are bounded to 64 KiB", found);
        off(host, SELECTIVE, "a lost packet is followed by what had arrived already", found);
        if (found.isEmpty()) {
            boolean known = host.exists(RECEIVE) && host.exists(SEND);
            found.add(
                    Finding.info(
                            name(),
                            known
                                    ? "the kernel's maxima are enough for this machine's links"
                                    : "the kernel's maxima are not known",
                            host.evidence(RECEIVE) + "; " + host.evidence(SEND)));
        }
        return found;
    }

    private static long needed(Host host) {
        long megabits = 0;
        for (Nic nic : host.nics()) {
            megabits =
                    Math.max(
                            megabits,
                            host.number("/sys/class/net/" + nic.name() + "/speed").orElse(0));
        }
        return Math.max(LEAST, megabits * MICROS / 8);
    }

    private static long third(String triple) {
        String[] parts = triple.split("\\s+");
        return parts.length == 3 && parts[2].matches("\\d{1,18}") ? Long.parseLong(parts[2]) : 0;
    }

    private void off(Host host, String file, String meaning, List<Finding> found) {
        if (host.number(file).orElse(1) == 0) {
            String setting = "net.ipv4." + file.substring(file.lastIndexOf('/') + 1);
            found.add(
                    Finding.warning(
                            name(),
                            setting + " is off: " + meaning,
                            host.evidence(file),
                            "sysctl -w " + setting + "=1",
                            "cat " + file));
        }
    }
}
