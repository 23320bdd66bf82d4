package io.telpher.cli.doctor;

import io.telpher.cli.doctor.CablePlan.Cable;
import io.telpher.internal.transport.verbs.VerbsTransport;
import io.telpher.topology.Gid;
import io.telpher.topology.NicPort;
import java.net.Inet4Address;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.jspecify.annotations.Nullable;

/// Which port reaches which peer's address, against a plan, and which reaches each RoCE port of a
/// peer. Each port asks for each address by ARP,
/// out of its own interface only; who answers there is at the other end of the cable, or behind its
/// switch.
final class CablesCheck implements Check {
    private static final String VERIFY = "telpher doctor --only cables --cables FILE";

    private final @Nullable CablePlan plan;
    private final List<VerbsTransport.Port> peer;

    /// @param peer its ports, which no plan has to name
    CablesCheck(@Nullable CablePlan plan, List<VerbsTransport.Port> peer) {
        this.plan = plan;
        this.peer = peer;
    }

    @Override
    public String name() {
        return "cables";
    }

    /// A port of this machine that can ask.
    private record Asker(NicPort port, InetAddress source) {}

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        List<Asker> askers = new ArrayList<>();
        for (NicPort port : Rdma.rails(host)) {
            Optional<InetAddress> source = inet4(port);
            if (source.isPresent() && !port.netdev().isEmpty()) {
                askers.add(new Asker(port, source.get()));
            } else {
                found.add(
                        Finding.info(
                                name(),
                                Rdma.label(port)
                                        + " cannot ask: it has no interface with an IPv4 address",
                                "its GIDs: " + port.gids()));
            }
        }
        if (plan != null) {
            for (Cable cable : plan.cables()) {
                found.add(
                        cable.peer() instanceof Inet4Address
                                ? cable(host, plan, cable, askers)
                                : Finding.info(
                                        name(),
                                        cable.peer().getHostAddress()
                                                + " is not looked for: no IPv4",
                                        plan.file().toString()));
            }
        }
        for (VerbsTransport.Port port : peer) {
            if (port.ethernet() && port.address() instanceof Inet4Address) {
                found.add(reached(port, answers(host, port.address(), askers)));
            }
        }
        if (found.isEmpty()) {
            found.add(
                    Finding.info(
                            name(), "no RoCE port that could ask or be asked", Pci.INFINIBAND));
        }
        return found;
    }

    /// A line of the matrix.
    private Finding reached(VerbsTransport.Port port, Map<String, String> answers) {
        String what = "the peer's %s %s".formatted(port.name(), port.address().getHostAddress());
        return Finding.info(
                name(),
                answers.isEmpty()
                        ? what + " is on no cable or switch of a port here"
                        : what + " is reached by " + String.join(", ", answers.keySet()),
                "ARP answers: " + (answers.isEmpty() ? "none" : answers));
    }

    /// Asks by all ports at once, since each may wait in vain.
    ///
    /// @return hardware addresses that have answered, by the port that has asked
    private static Map<String, String> answers(Host host, InetAddress peer, List<Asker> askers) {
        Map<String, String> answers = new LinkedHashMap<>();
        try (ExecutorService all = Executors.newVirtualThreadPerTaskExecutor()) {
            List<CompletableFuture<@Nullable String>> asked = new ArrayList<>();
            for (Asker asker : askers) {
                asked.add(
                        CompletableFuture.supplyAsync(
                                () ->
                                        host.probes()
                                                .neighbour(
                                                        asker.port().netdev(),
                                                        asker.source(),
                                                        peer),
                                all));
            }
            for (int i = 0; i < askers.size(); i++) {
                String answer = asked.get(i).join();
                if (answer != null) {
                    answers.put(Rdma.label(askers.get(i).port()), answer);
                }
            }
        }
        return answers;
    }

    private static Optional<InetAddress> inet4(NicPort port) {
        return port.gids().stream()
                .filter(gid -> gid.type() == Gid.Type.ROCE_V2)
                .map(gid -> InetAddress.ofLiteral(gid.address()))
                .filter(Inet4Address.class::isInstance)
                .findFirst();
    }

    private Finding cable(Host host, CablePlan plan, Cable cable, List<Asker> askers) {
        String peer = cable.peer().getHostAddress();
        Asker planned =
                askers.stream()
                        .filter(asker -> names(cable.port(), asker.port()))
                        .findFirst()
                        .orElse(null);
        Map<String, String> answers = answers(host, cable.peer(), askers);
        String evidence =
                "%s: %s %s; ARP answers: %s"
                        .formatted(
                                plan.file(),
                                cable.port(),
                                peer,
                                answers.isEmpty() ? "none" : answers);
        if (planned == null) {
            return Finding.error(
                    name(),
                    "the plan's port " + cable.port() + " is not there, not active or without IPv4",
                    evidence,
                    "correct the plan, or bring the port up and give its interface an address",
                    VERIFY);
        }
        return verdict(planned, peer, answers, evidence);
    }

    private Finding verdict(
            Asker planned, String peer, Map<String, String> answers, String evidence) {
        String label = Rdma.label(planned.port());
        @Nullable String answer = answers.get(label);
        if (answer != null && answers.size() == 1) {
            return Finding.info(name(), label + " reaches " + peer + " at " + answer, evidence);
        }
        if (answer != null) {
            return Finding.warning(
                    name(),
                    "%s is reached by %s as planned, and by others: %s"
                            .formatted(peer, label, String.join(", ", answers.keySet())),
                    evidence,
                    "where each cable goes to one port: let ports answer for their own addresses"
                            + " only (sysctl net.ipv4.conf.all.arp_ignore=1 at the peer); ports"
                            + " behind one switch may stay so",
                    VERIFY);
        }
        if (!answers.isEmpty()) {
            return Finding.error(
                    name(),
                    "miscabled: %s should be at %s and is at %s"
                            .formatted(peer, label, String.join(", ", answers.keySet())),
                    evidence,
                    "swap the cables, or the addresses",
                    VERIFY);
        }
        return Finding.error(
                name(),
                "nobody answers for %s at %s".formatted(peer, label),
                evidence,
                "see that the peer is up, has this address, and is cabled to this port",
                VERIFY);
    }

    private static boolean names(String text, NicPort port) {
        return text.equals(port.name())
                || text.equals(port.netdev())
                || text.equals(Rdma.verbsName(port));
    }
}
