package io.telpher.cli.bench;

import io.telpher.Device;
import io.telpher.EndpointOptions;
import java.util.Arrays;
import java.util.List;

/// One rank of a full mesh: a GPU, or host memory in the place of one.
///
/// @param plan what both hosts agree on
/// @param source whether it writes; else it is written to
/// @param number its place among the ranks of its host
/// @param ranks how many those are
/// @param name the GPU's number on its host, for people
/// @param device the GPU's UUID, the same in every process; empty for host memory
/// @param rails network interfaces by name or subnet, empty for all
record MeshSeat(
        MeshPlan plan,
        boolean source,
        int number,
        int ranks,
        String name,
        String device,
        List<String> rails) {
    boolean onGpu() {
        return !device.isEmpty();
    }

    /// @throws io.telpher.TelpherException.Unsupported when this process does not see it
    Device gpu() {
        return Device.of(device);
    }

    MeshLayout layout(long bytes) {
        return source
                ? plan.layout(bytes, ranks, plan.peers())
                : plan.layout(bytes, plan.peers(), ranks);
    }

    EndpointOptions options() {
        EndpointOptions options =
                EndpointOptions.fromEnvironment()
                        .withTransports(plan.transports())
                        .withPort(0)
                        .withLanes(plan.lanes());
        return rails.isEmpty() ? options : options.withInterfaces(rails);
    }

    Message encode() {
        return new Message("seat", plan.encode().values())
                .with("source", source)
                .with("number", number)
                .with("ranks", ranks)
                .with("name", name)
                .with("device", device)
                .with("rails", String.join(",", rails));
    }

    static MeshSeat decode(Message message) {
        String rails = message.text("rails");
        return new MeshSeat(
                MeshPlan.decode(message),
                Boolean.parseBoolean(message.text("source")),
                (int) message.number("number"),
                (int) message.number("ranks"),
                message.text("name"),
                message.text("device"),
                rails.isEmpty() ? List.of() : Arrays.asList(rails.split(",")));
    }
}
