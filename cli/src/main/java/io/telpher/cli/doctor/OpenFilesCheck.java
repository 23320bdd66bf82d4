package io.telpher.cli.doctor;

import java.util.List;
import java.util.Optional;

/// The limit on open files: each peer takes some.
final class OpenFilesCheck implements Check {
    private static final String NAME = "Max open files";
    private static final String OPEN = "/proc/self/fd";

    /// An endpoint, and one peer with all the sockets that it may have.
    private static final int LEAST = 64;

    private static final int COMFORTABLE = 1024;

    @Override
    public String name() {
        return "open-files";
    }

    @Override
    public List<Finding> examine(Host host) {
        Optional<Limit> limit = Limit.of(host, NAME);
        int open = host.list(OPEN).size();
        if (limit.isEmpty()) {
            return List.of(
                    Finding.info(name(), "the limit is not known", host.evidence(Limit.FILE)));
        }
        // The JVM raises the soft limit to the hard one when it starts.
        long soft = limit.get().soft();
        String evidence =
                "%s: %s = %s; %d are open".formatted(Limit.FILE, NAME, Limit.text(soft), open);
        String remedy =
                "raise it: ulimit -n 65536, LimitNOFILE=65536 in a systemd unit, --ulimit"
                        + " nofile=65536 for a container";
        String verify = "telpher doctor shows the new limit";
        if (soft - open < LEAST) {
            return List.of(
                    Finding.error(
                            name(),
                            "too few for an endpoint with one peer: connections will fail",
                            evidence,
                            remedy,
                            verify));
        }
        if (soft < COMFORTABLE) {
            return List.of(
                    Finding.warning(
                            name(),
                            "few: a peer takes up to 5 on this host, and one for each TCP lane"
                                    + " on others",
                            evidence,
                            remedy,
                            verify));
        }
        return List.of(Finding.info(name(), "enough", evidence));
    }
}
