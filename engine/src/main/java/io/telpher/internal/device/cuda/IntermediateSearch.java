package io.telpher.internal.device.cuda;

import io.telpher.Device;
import io.telpher.internal.device.Intermediates;
import io.telpher.topology.Gpu;
import io.telpher.topology.Topology;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.UUID;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/// Which devices may carry bytes between two others: those that reach both, and over which the
/// topology promises more than through the host. Makes no context.
///
/// @param visible the devices of this process
/// @param unreachable why the first does not reach memory of the second, or null
/// @param limit the job's switches, and the machine
record IntermediateSearch(
        List<Device> visible,
        BiFunction<UUID, UUID, @Nullable String> unreachable,
        PeerLimit limit) {

    private record Found(Device device, double rate) {}

    /// See [io.telpher.internal.device.GpuRuntime#intermediates].
    Intermediates between(UUID one, UUID other, boolean named) {
        List<Found> found = new ArrayList<>();
        List<String> reasons = new ArrayList<>();
        Topology machine = limit.machine().get();
        double staged = Math.min(toHost(machine, one), toHost(machine, other));
        for (Device device : visible) {
            UUID through = device.uuid();
            if (through.equals(one) || through.equals(other)) {
                continue;
            }
            String refused = refusal(one, through, other);
            double rate = Math.min(rate(machine, one, through), rate(machine, through, other));
            if (refused != null) {
                reasons.add(refused);
            } else if (named || rate > staged) {
                found.add(new Found(device, rate));
            } else {
                reasons.add(
                        "through GPU %s %.0f GB/s are to be expected, through the host %.0f"
                                .formatted(through, rate, staged));
            }
        }
        found.sort(Comparator.comparingDouble(Found::rate).reversed());
        return new Intermediates(
                found.stream().map(Found::device).toList(),
                found.isEmpty() && reasons.isEmpty()
                        ? "this process sees no third GPU (CUDA_VISIBLE_DEVICES hides devices)"
                        : String.join("; ", reasons));
    }

    /// The one in the middle makes both copies: that the ends reach it does not matter.
    private @Nullable String refusal(UUID one, UUID through, UUID other) {
        String refused = limit.refuses(one, through, other);
        refused = refused == null ? unreachable.apply(through, one) : refused;
        return refused == null ? unreachable.apply(through, other) : refused;
    }

    /// @return GB/s between two devices; 0 where the topology does not know
    private static double rate(Topology machine, UUID one, UUID other) {
        Gpu from = PeerLimit.find(machine, one);
        Gpu to = PeerLimit.find(machine, other);
        return from == null || to == null ? 0 : machine.path(from, to).bandwidth();
    }

    /// @return GB/s between a device and its host's memory; without end where the topology does not
    ///     know, so that nothing unknown is preferred
    private static double toHost(Topology machine, UUID device) {
        Gpu gpu = PeerLimit.find(machine, device);
        if (gpu == null) {
            return Double.POSITIVE_INFINITY;
        }
        return machine.numaNode(gpu)
                .map(node -> machine.path(gpu, node).bandwidth())
                .orElse(Double.POSITIVE_INFINITY);
    }
}
