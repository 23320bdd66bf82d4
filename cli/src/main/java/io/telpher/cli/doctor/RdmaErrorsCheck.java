package io.telpher.cli.doctor;

import io.telpher.topology.NicPort;
import java.util.ArrayList;
import java.util.List;

/// What the drivers have counted of packets that were lost, late or out of order, since they were
/// loaded: on a cable or a lossless network nothing should be. Drivers name it differently.
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

    @Override
    public String name() {
        return "rdma-errors";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        for (NicPort port : Rdma.rails(host)) {
            found.add(port(host, port));
        }
        if (found.isEmpty()) {
            found.add(Finding.info(name(), "no port of an RDMA device is active", Pci.INFINIBAND));
        }
        return found;
    }

    private Finding port(Host host, NicPort port) {
        String at =
                Pci.INFINIBAND
                        + "/"
                        + Rdma.verbsName(port).replace("/", "/ports/")
                        + "/hw_counters";
        List<String> files = host.list(at);
        List<String> lost = counted(host, at, files.stream().filter(LOST::contains).toList());
        List<String> paused =
                counted(host, at, files.stream().filter(f -> f.contains("pause")).toList());
        if (files.stream().noneMatch(LOST::contains)) {
            return Finding.info(
                    name(),
                    Rdma.label(port) + ": its driver counts no lost packets",
                    at + ": " + (files.isEmpty() ? "(not there)" : files.size() + " others"));
        }
        if (!lost.isEmpty()) {
            lost.addAll(paused);
            return Finding.warning(
                    name(),
                    Rdma.label(port)
                            + ": packets were lost, late or out of order since the driver was"
                            + " loaded",
                    String.join("; ", lost),
                    "where the numbers still grow: look at cables and transceivers, and at the"
                            + " switches' PFC and ECN, whose class TELPHER_IB_TC has to be; docs/rdma.md",
                    "watch -d grep . " + at + "/*");
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
