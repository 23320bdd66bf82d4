package io.telpher.cli.bench;

import io.telpher.Device;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/// What one host puts into a full mesh.
///
/// @param numbers its GPUs, by their number in the driver's order; or numbers of host memory
/// @param onGpu whether it is memory of GPUs
/// @param rails network interfaces by name or subnet, empty for all
record MeshHardware(List<Integer> numbers, boolean onGpu, List<String> rails) {
    /// Ranks where there is no GPU and nobody says how many.
    static final int HOST_RANKS = 2;

    /// Finds out what is there.
    ///
    /// @param memory `cuda`, `host`, or null for GPUs where there are some
    /// @param ranks how many ranks have host memory, or null
    /// @param chosen the numbers to use, or empty for all
    /// @throws IllegalArgumentException when that is not here; says what is
    static MeshHardware find(
            @Nullable String memory,
            @Nullable Integer ranks,
            List<Integer> chosen,
            List<String> rails) {
        if (memory != null && !memory.equals("cuda") && !memory.equals("host")) {
            throw new IllegalArgumentException("--memory is '" + memory + "'; it is cuda or host");
        }
        int gpus = Gpus.all().size();
        boolean onGpu = memory == null ? gpus > 0 && ranks == null : memory.equals("cuda");
        if (onGpu && ranks != null) {
            throw new IllegalArgumentException(
                    "--ranks counts ranks of host memory: --gpus chooses GPUs");
        }
        if (onGpu && gpus == 0) {
            // Says why there is none.
            Device unused = Gpus.of(0);
        }
        int count = onGpu ? gpus : ranks == null ? HOST_RANKS : ranks;
        if (count < 1) {
            throw new IllegalArgumentException("--ranks is " + ranks + "; it must be above 0");
        }
        for (int number : chosen) {
            if (number < 0 || number >= count) {
                throw new IllegalArgumentException(
                        "there is no %s %d here: they are numbered from 0 to %d"
                                .formatted(onGpu ? "GPU" : "rank", number, count - 1));
            }
        }
        if (chosen.stream().distinct().count() < chosen.size()) {
            throw new IllegalArgumentException("--gpus names one twice: " + chosen);
        }
        List<Integer> all = IntStream.range(0, count).boxed().toList();
        return new MeshHardware(chosen.isEmpty() ? all : chosen, onGpu, rails);
    }

    /// @return the ranks of this host
    List<MeshSeat> seats(MeshPlan plan, boolean source) {
        List<MeshSeat> seats = new ArrayList<>();
        for (int i = 0; i < numbers.size(); i++) {
            int number = numbers.get(i);
            String device = onGpu ? Gpus.all().get(number).uuid().toString() : "";
            String name = (onGpu ? "GPU " : "rank ") + number;
            seats.add(new MeshSeat(plan, source, i, numbers.size(), name, device, rails));
        }
        return seats;
    }

    @Override
    public String toString() {
        return onGpu
                ? numbers.size() + " GPU" + (numbers.size() == 1 ? "" : "s")
                : numbers.size() + " ranks of host memory";
    }
}
