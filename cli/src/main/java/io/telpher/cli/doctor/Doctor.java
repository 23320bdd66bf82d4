package io.telpher.cli.doctor;

import io.telpher.EndpointAddress;
import io.telpher.cli.Main;
import io.telpher.internal.transport.verbs.VerbsTransport;
import io.telpher.internal.wire.AddressCodec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// Runs the checks one after another.
final class Doctor {
    /// Every probe has a deadline of its own, so this one is for mistakes only.
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    private Doctor() {}

    /// @param peer whose ways are looked at too, or null
    /// @param cables how the ports should be cabled, or null
    static List<Check> checks(@Nullable EndpointAddress peer, @Nullable CablePlan cables) {
        List<Check> all =
                new ArrayList<>(
                        List.of(
                                new KernelCheck(),
                                new JavaCheck(),
                                new SettingsCheck(),
                                new CoresCheck(),
                                new CpuQuotaCheck(),
                                new ClockCheck(),
                                new OpenFilesCheck(),
                                new LockedMemoryCheck(),
                                new SharedMemoryCheck(),
                                new HugePagesCheck(),
                                new TransparentPagesCheck(),
                                new NamespacesCheck(),
                                new ProcessAccessCheck(),
                                new SeccompCheck(),
                                new MtuCheck(),
                                new SubnetsCheck(),
                                new SocketBuffersCheck(),
                                new CongestionCheck(),
                                new RdmaDevicesCheck(),
                                new RdmaGidsCheck(),
                                new RdmaMtuCheck(),
                                new RdmaRoutesCheck(),
                                new RdmaErrorsCheck(),
                                new PciCheck(),
                                new IommuCheck(),
                                new PcieLinksCheck(),
                                new GpuDriverCheck(),
                                new GpuDevicesCheck(),
                                new GpusCheck(),
                                new NvLinkCheck(),
                                new TrialsCheck(),
                                new GpuDirectCheck(),
                                new DeviceTcpCheck(),
                                new NcclCheck(),
                                new NcclSettingsCheck(),
                                new TransportsCheck(),
                                new PathsCheck()));
        List<VerbsTransport.Port> ports =
                peer == null
                        ? List.of()
                        : VerbsTransport.ports(AddressCodec.decode(peer.toBytes()).peer());
        if (cables != null || !ports.isEmpty()) {
            all.add(new CablesCheck(cables, ports));
        }
        if (peer != null) {
            all.add(new PeerCheck(peer));
        }
        return all;
    }

    /// Runs checks and hands over what each found as soon as it has ended.
    static void examine(Host host, List<Check> checks, Consumer<Finding> to) {
        for (Check check : checks) {
            examine(host, check).forEach(to);
        }
    }

    private static List<Finding> examine(Host host, Check check) {
        FutureTask<List<Finding>> task = new FutureTask<>(() -> check.examine(host));
        Thread.ofPlatform().daemon().name("telpher-doctor-" + check.name()).start(task);
        try {
            return task.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            task.cancel(true);
            return List.of(failed(check, "it did not end within " + PATIENCE.toSeconds() + " s"));
        } catch (ExecutionException e) {
            Throwable cause = e.getCause();
            return List.of(
                    cause == null || Main.isFault(cause)
                            ? failed(check, String.valueOf(cause))
                            : refused(check, String.valueOf(cause.getMessage())));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return List.of(failed(check, "interrupted"));
        }
    }

    private static Finding refused(Check check, String why) {
        return Finding.warning(
                check.name(),
                "this check was refused what it needs",
                why,
                "as the evidence says; see the other findings, too",
                "telpher doctor");
    }

    private static Finding failed(Check check, String why) {
        return Finding.warning(
                check.name(),
                "this check itself failed",
                why,
                "please report it, with the output of telpher --version",
                "telpher doctor");
    }
}
