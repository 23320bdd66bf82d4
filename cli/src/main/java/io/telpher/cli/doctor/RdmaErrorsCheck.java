package io.telpher.cli.doctor;

import io.telpher.topology.NicPort;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/// What the drivers have counted of packets that were lost, late or out of order: on a cable or a
/// lossless network nothing should be. Drivers name it differently, and count from when they were
/// loaded, a peer that died weeks ago as well: so it is read twice, and what grows is a warning.
final class RdmaErrorsCheck implements Check {
    /// Of mlx5, bnxt_re and soft-RoCE: packets that had to be sent again, here or by the peer.
    private static final List<String> LOST =
            List.of(
                    "packet_seq_err",
                    "local_ack_timeout_err",
                    "out_of_sequence",
                    "implied_nak_seq_err",
                    "to_retransmits",
                    "seq_err_naks_rcvd",
                    "oos_drop_count",
                    "max_retry_exceeded",
                    "rcvd_seq_err",
                    "out_of_seq_request",
                    "completer_retry_err",
                    "retry_exceeded_err");

    private static final Duration BETWEEN = Duration.ofSeconds(1);

    private final Runnable pause;

    RdmaErrorsCheck() {
        this(RdmaErrorsCheck::sleep);
    }

    /// @param pause what happens between the two readings
    RdmaErrorsCheck(Runnable pause) {
        this.pause = pause;
    }

    private static void sleep() {
        try {
            Thread.sleep(BETWEEN);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public String name() {
        return "rdma-errors";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<NicPort> ports = Rdma.rails(host);
        if (ports.isEmpty()) {
            return List.of(
                    Finding.info(name(), "no port of an RDMA device is active", Pci.INFINIBAND));
        }
        Map<String, Long> before = new HashMap<>();
        for (NicPort port : ports) {
            for (String file : host.list(folder(port))) {
                if (LOST.contains(file)) {
                    String path = folder(port) + "/" + file;
                    host.number(path).ifPresent(number -> before.put(path, number));
                }
            }
        }
        if (!before.isEmpty()) {
            pause.run();
        }
        return ports.stream().map(port -> port(host, port, before)).toList();
    }

    private static String folder(NicPort port) {
        return Pci.INFINIBAND + "/" + Rdma.verbsName(port).replace("/", "/ports/") + "/hw_counters";
    }

    private Finding port(Host host, NicPort port, Map<String, Long> before) {
        String at = folder(port);
        List<String> files = host.list(at);
        List<String> lost = new ArrayList<>();
        boolean grows = false;
        for (String file : files) {
            String path = at + "/" + file;
            long number = LOST.contains(file) ? host.number(path).orElse(0) : 0;
            if (number > 0) {
                long more = number - before.getOrDefault(path, number);
                grows |= more > 0;
                lost.add(
                        "%s = %d%s"
                                .formatted(
                                        path,
                                        number,
                                        more > 0 ? ", %d of them now".formatted(more) : ""));
            }
        }
        List<String> paused =
                counted(host, at, files.stream().filter(f -> f.contains("pause")).toList());
        if (files.stream().noneMatch(LOST::contains)) {
            return Finding.info(
                    name(),
                    Rdma.label(port) + ": its driver counts no lost packets",
                    at + ": " + (files.isEmpty() ? "(not there)" : files.size() + " others"));
        }
        if (grows) {
            lost.addAll(paused);
            return Finding.warning(
                    name(),
                    Rdma.label(port) + ": packets are being lost, late or out of order",
                    String.join("; ", lost),
                    "look at cables and transceivers, and at the"
                            + " switches' PFC and ECN, whose class TELPHER_IB_TC has to be; docs/rdma.md",
                    "watch -d grep . " + at + "/*");
        }
        if (!lost.isEmpty()) {
            lost.addAll(paused);
            return Finding.info(
                    name(),
                    Rdma.label(port)
                            + ": packets were lost, late or out of order since the driver was"
                            + " loaded, and none within the last second",
                    String.join("; ", lost));
        }
        return Finding.info(
                name(),
                Rdma.label(port)
                        + ": no packet was lost since the driver was loaded"
                        + (paused.isEmpty() ? "" : ", and the network has paused it"),
                paused.isEmpty()
                        ? at + ": " + files.size() + " counters"
                        : String.join("; ", paused));
    }

    private static List<String> counted(Host host, String at, List<String> files) {
        List<String> all = new ArrayList<>();
        for (String file : files) {
            if (host.number(at + "/" + file).orElse(0) > 0) {
                all.add(host.evidence(at + "/" + file));
            }
        }
        return all;
    }
}
