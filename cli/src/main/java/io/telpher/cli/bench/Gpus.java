package io.telpher.cli.bench;

import io.telpher.Device;
import java.util.List;
import java.util.stream.Collectors;

/// Which GPU belongs to which rank: those of CUDA, which the options are named after.
final class Gpus {
    private Gpus() {}

    /// @return those that this process sees
    static List<Device> all() {
        return Device.list().stream().filter(device -> device.runtime().equals("cuda")).toList();
    }

    /// @return the GPU of a rank: ranks take those that this process sees in turn
    /// @throws io.telpher.TelpherException.Unsupported when there is none; says why
    static Device of(int rank) {
        List<Device> all = all();
        return all.isEmpty() ? Device.of("cuda:0") : all.get(rank % all.size());
    }

    /// @return what the GPUs of the first two ranks are, for JSON
    static String kind() {
        List<Device> all = all();
        return all.isEmpty()
                ? "gpu"
                : all.stream()
                        .limit(2)
                        .map(Device::name)
                        .distinct()
                        .collect(Collectors.joining(", "));
    }

    /// @return the GPUs of these ranks, for people
    static String describe(int ranks) {
        int count = all().size();
        StringBuilder text = new StringBuilder();
        for (int rank = 0; rank < Math.min(ranks, count); rank++) {
            text.append(text.isEmpty() ? "" : "; ");
            text.append("rank ").append(rank).append(": ").append(of(rank));
        }
        return text + (count < ranks ? "; the ranks share " + count : "");
    }
}
