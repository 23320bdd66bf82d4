package io.telpher.cli.bench;

import io.telpher.TelpherException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The listening host of a full mesh: does with its ranks what the connecting host says.
final class MeshServer {
    private final MeshHardware hardware;
    private final Table table;

    MeshServer(MeshHardware hardware, Table table) {
        this.hardware = hardware;
        this.table = table;
    }

    /// Serves until the connecting host has finished.
    ///
    /// @return whether it asked for anything; `doctor` connects, looks and leaves
    /// @throws BenchFailure when the run failed, on whatever host
    boolean serve(Control control) {
        Message first = control.next();
        if (first == null) {
            return false;
        }
        @Nullable String end;
        try {
            MeshPlan plan = MeshPlan.decode(first);
            table.remark(
                    "%s here, %d there, processes: %s"
                            .formatted(hardware, plan.peers(), plan.processes().word()));
            try (MeshSide side = new MeshSide(plan, hardware, false)) {
                control.send(Message.combine("opened", side.descriptions()));
                end = serve(control, side);
            }
        } catch (BenchFailure | TelpherException | IllegalArgumentException e) {
            tell(control, MeshRankServer.failed(e));
            throw e;
        }
        if (end == null) {
            throw new BenchFailure("the connecting host is gone before the end of the run");
        }
        if (!end.isEmpty()) {
            throw new BenchFailure("the connecting host ended the run: " + end);
        }
        return true;
    }

    /// Tells the other host why this one ends, if it still listens.
    static void tell(Control control, Message message) {
        try {
            control.sendLast(message);
        } catch (BenchFailure | TelpherException e) {
            System.getLogger("io.telpher.cli.bench")
                    .log(System.Logger.Level.DEBUG, "telling the other host", e);
        }
    }

    /// @return what went wrong on the other host, empty for nothing, null when it is gone
    private static @Nullable String serve(Control control, MeshSide side) {
        Message message;
        while ((message = control.next()) != null) {
            switch (message.verb()) {
                case "accept" -> answer(control, side, message, "accepted");
                case "serve" -> side.tell(message);
                case "check" -> answer(control, side, message, "verdict");
                case "end" -> {
                    return message.text("failure");
                }
                default ->
                        throw new BenchFailure(
                                "'" + message.verb() + "' is no message of this version");
            }
        }
        return null;
    }

    private static void answer(Control control, MeshSide side, Message message, String verb) {
        List<Message> answers = side.ask(message, verb, MeshSide.PATIENCE);
        control.send(Message.combine(verb, answers));
    }
}
