package io.telpher.internal.device.cuda;

import io.telpher.Device;
import io.telpher.internal.device.Intermediates;
import io.telpher.internal.device.NumaPlacement;
import io.telpher.topology.Gpu;
import io.telpher.topology.Topology;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import java.util.function.BiFunction;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/// Which devices may carry bytes between two others: those that reach both, which this process uses
/// already and over which the topology promises more than through the host, or which it was asked
/// for by the path's name. Makes no context.
///
/// @param visible the devices of this process
/// @param isOpen whether this process uses a device already
/// @param unreachable why the first does not reach memory of the second, or null
/// @param limit the job's switches, and the machine
record IntermediateSearch(
        List<Device> visible,
        Predicate<Device> isOpen,
        BiFunction<UUID, UUID, @Nullable String> unreachable,
        PeerLimit limit) {

    private record Found(Device device, double rate) {}

    /// See [io.telpher.internal.device.GpuRuntime#intermediates].
    Intermediates between(UUID one, UUID other, boolean named) {
        List<Device> candidates = new ArrayList<>();
        List<String> reasons = new ArrayList<>();
        for (Device device : visible) {
            UUID through = device.uuid();
            if (through.equals(one) || through.equals(other)) {
                continue;
            }
            String refused =
                    named || isOpen.test(device)
                            ? refusal(one, through, other)
                            : "GPU %s is not used by this process, and the option 'paths' does not name %s"
                                    .formatted(through, Intermediates.PATH);
            if (refused == null) {
                candidates.add(device);
            } else {
                reasons.add(refused);
            }
        }
        return rank(one, other, named, candidates, reasons);
    }

    private Intermediates rank(
            UUID one, UUID other, boolean named, List<Device> candidates, List<String> reasons) {
        List<Found> found = new ArrayList<>();
        if (!candidates.isEmpty()) { // else nobody has to look at the machine
            Topology machine = limit.machine().get();
            double staged = Math.min(toHost(machine, one), toHost(machine, other));
            for (Device device : candidates) {
                UUID through = device.uuid();
                double rate = Math.min(rate(machine, one, through), rate(machine, through, other));
                if (named || rate > staged) {
                    found.add(new Found(device, rate));
                } else {
                    reasons.add(
                            "through GPU %s %.0f GB/s are to be expected, through the host %.0f"
                                    .formatted(through, rate, staged));
                }
            }
        }
        found.sort(Comparator.comparingDouble(Found::rate).reversed());
        return new Intermediates(
                found.stream().map(Found::device).toList(),
                found.isEmpty() && reasons.isEmpty()
                        ? "this process sees no third GPU (CUDA_VISIBLE_DEVICES hides devices)"
                        : String.join("; ", reasons));
    }

    /// The one in the middle makes both copies; but a trial has pairs copy in both directions, so
    /// that those that reach each other in one alone are never trusted.
    private @Nullable String refusal(UUID one, UUID through, UUID other) {
        String refused = limit.refuses(one, through, other);
        for (UUID end : List.of(one, other)) {
            refused = refused == null ? unreachable.apply(through, end) : refused;
            refused = refused == null ? unreachable.apply(end, through) : refused;
        }
        return refused;
    }

    /// @return GB/s between two devices; 0 where the topology does not know
    private static double rate(Topology machine, UUID one, UUID other) {
        Gpu from = NumaPlacement.find(machine, one);
        Gpu to = NumaPlacement.find(machine, other);
        if (from == null || to == null) {
            return 0;
        }
        return machine.directPath(from, to).bandwidth();
    }

    /// @return GB/s between a device and its host's memory; without end where the topology does not
    ///     know, so that nothing unknown is preferred
    private static double toHost(Topology machine, UUID device) {
        Gpu gpu = NumaPlacement.find(machine, device);
        if (gpu == null) {
            return Double.POSITIVE_INFINITY;
        }
        return machine.numaNode(gpu)
                .map(node -> machine.path(gpu, node).bandwidth())
                .orElse(Double.POSITIVE_INFINITY);
    }
}
