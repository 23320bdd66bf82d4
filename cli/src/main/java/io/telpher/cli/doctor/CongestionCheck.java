package io.telpher.cli.doctor;

import java.util.List;
import java.util.Optional;

/// TCP's congestion control. One that paces, such as bbr, is slow on loopback; there Telpher asks
/// for another, which the system must allow.
final class CongestionCheck implements Check {
    private static final String FOLDER = "/proc/sys/net/ipv4/";
    private static final String CURRENT = FOLDER + "tcp_congestion_control";
    private static final String ALLOWED = FOLDER + "tcp_allowed_congestion_control";
    private static final String AVAILABLE = FOLDER + "tcp_available_congestion_control";
    private static final List<String> FOR_LOOPBACK = List.of("cubic", "reno");

    @Override
    public String name() {
        return "congestion-control";
    }

    @Override
    public List<Finding> examine(Host host) {
        Optional<String> current = host.read(CURRENT);
        String evidence = host.evidence(CURRENT) + "; " + host.evidence(ALLOWED);
        if (current.isEmpty()) {
            return List.of(Finding.info(name(), "not known", evidence));
        }
        List<String> allowed = List.of(host.read(ALLOWED).orElse("").split("\\s+"));
        boolean paces = current.get().startsWith("bbr");
        if (paces && FOR_LOOPBACK.stream().noneMatch(allowed::contains)) {
            return List.of(
                    Finding.warning(
                            name(),
                            current.get()
                                    + " paces what it sends, and no other is allowed: TCP within"
                                    + " this host is several times slower than it could be",
                            evidence + "; " + host.evidence(AVAILABLE),
                            "sysctl -w net.ipv4.tcp_allowed_congestion_control='"
                                    + current.get()
                                    + " cubic reno'",
                            "telpher bench --path tcp"));
        }
        return List.of(
                Finding.info(
                        name(),
                        paces
                                ? current.get() + "; within this host another is used"
                                : current.get(),
                        evidence));
    }
}
