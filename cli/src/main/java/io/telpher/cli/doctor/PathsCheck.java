package io.telpher.cli.doctor;

import java.util.List;

/// Connects with a second process of this host and writes into its memory: everything else that
/// this doctor says of the same-host paths is only why.
final class PathsCheck implements Check {
    @Override
    public String name() {
        return "paths";
    }

    @Override
    public List<Finding> examine(Host host) {
        Probes.Meeting meeting = host.probes().meeting();
        if (meeting.failure() != null) {
            return List.of(
                    Finding.error(
                            name(),
                            "two processes of this host could not exchange data",
                            meeting.failure(),
                            "see the other findings, transports first",
                            "telpher explain"));
        }
        String evidence = meeting.explanation().strip().replaceAll("\\s*\\n\\s*", "; ");
        if (!meeting.path().equals("mapped")) {
            return List.of(
                    Finding.warning(
                            name(),
                            "a write between two processes of this host went by "
                                    + meeting.path()
                                    + ", not by mapped memory",
                            evidence,
                            "see what is said of shared-memory, transports and settings",
                            "telpher explain says 'mapped: yes'"));
        }
        return List.of(
                Finding.info(
                        name(),
                        "a write between two processes of this host is one copy",
                        evidence));
    }
}
