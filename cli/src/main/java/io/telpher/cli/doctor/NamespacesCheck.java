package io.telpher.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/// The namespaces of this process, and what each means for peers in others.
final class NamespacesCheck implements Check {
    private static final String OWN = "/proc/self/ns/";
    private static final String VERIFY =
            "telpher explain @FILE, in the container, of a peer in another one";

    /// The numbers of the namespaces that a machine starts with; that of the network is fixed since
    /// Linux 6.18 only.
    private static final Map<String, String> INITIAL =
            Map.of(
                    "pid", "pid:[4026531836]",
                    "ipc", "ipc:[4026531839]",
                    "net", "net:[4026531833]",
                    "user", "user:[4026531837]");

    private static final List<String> KINDS = List.of("pid", "ipc", "net", "user");

    @Override
    public String name() {
        return "namespaces";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        for (String kind : KINDS) {
            Optional<String> own = host.link(OWN + kind);
            String evidence = OWN + kind + " = " + own.orElse("(not readable)");
            found.add(
                    switch (place(host, kind, own)) {
                        case MACHINE ->
                                Finding.info(name(), kind + ": the machine's own", evidence);
                        case UNKNOWN ->
                                Finding.advice(
                                        name(),
                                        kind
                                                + ": not known; if it is a separate one, "
                                                + what(kind),
                                        evidence,
                                        remedy(kind),
                                        VERIFY);
                        case SEPARATE -> separate(host, kind, evidence);
                    });
        }
        return found;
    }

    /// GPUs' memory that somebody else allocated goes by handles of CUDA IPC alone, and those
    /// depend on processes that see each other.
    private Finding separate(Host host, String kind, String evidence) {
        boolean matters = kind.equals("pid") && !host.probes().gpus().gpus().isEmpty();
        return new Finding(
                matters ? Finding.Severity.WARNING : Finding.Severity.INFO,
                name(),
                kind + ": a separate one; " + what(kind),
                evidence,
                remedy(kind),
                VERIFY);
    }

    private static String remedy(String kind) {
        return switch (kind) {
            case "pid" ->
                    "share it with the peers: docker --pid=host or --pid=container:NAME, a pod's"
                            + " shareProcessNamespace";
            case "net" -> "share it (docker --network=host), or set TELPHER_SOCKET_DIRECTORY";
            case "user" -> "run the peers in one";
            default -> "share it with the peers: docker --ipc=host or --ipc=container:NAME";
        };
    }

    /// @return whether this process is in that namespace of the machine, as far as its number says
    static boolean isMachines(Host host, String kind) {
        return place(host, kind, host.link(OWN + kind)) == Place.MACHINE;
    }

    private enum Place {
        MACHINE,
        SEPARATE,
        UNKNOWN
    }

    private static Place place(Host host, String kind, Optional<String> own) {
        String initial = INITIAL.get(kind);
        if (own.isEmpty()) {
            return Place.UNKNOWN;
        }
        if (own.get().equals(initial)) {
            return Place.MACHINE;
        }
        if (!kind.equals("net")) {
            return Place.SEPARATE;
        }
        // Process 1 stands for the machine where it is the machine's own.
        boolean inContainer =
                !host.link(OWN + "pid").equals(Optional.ofNullable(INITIAL.get("pid")));
        Optional<String> first = host.link("/proc/1/ns/net");
        if (inContainer || first.isEmpty()) {
            return Place.UNKNOWN;
        }
        return first.equals(own) ? Place.MACHINE : Place.SEPARATE;
    }

    private static String what(String kind) {
        return switch (kind) {
            case "pid" ->
                    "peers in another see no process of this one: no path cma with them, mapped"
                            + " and the ring work; of GPUs' memory descriptors work (cuda-cumem),"
                            + " handles of CUDA IPC (cuda-ipc) do not";
            case "net" ->
                    "peers of this host in another network namespace find the same-host socket"
                            + " only through a shared folder (TELPHER_SOCKET_DIRECTORY), else"
                            + " they use TCP; GPUs' memory is then staged";
            case "user" -> "peers in another may not reach this process's memory: no path cma";
            default ->
                    "host memory and descriptors of GPUs' memory do not depend on it, the driver"
                            + " may refuse handles of CUDA IPC";
        };
    }
}
