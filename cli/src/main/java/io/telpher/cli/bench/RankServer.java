package io.telpher.cli.bench;

import io.telpher.TelpherException;
import org.jspecify.annotations.Nullable;

/// A [Rank] that does what the driver's messages say, until the driver is gone or says `end`.
final class RankServer {
    private final Control control;
    private final IdleMeter idle = new IdleMeter();
    private final CudaLender lender = new CudaLender();
    private @Nullable Rank rank;

    RankServer(Control control) {
        this.control = control;
    }

    /// Serves until the end. What goes wrong is told to the driver, which then ends the run.
    ///
    /// @return whether the driver said anything at all
    boolean serve() {
        boolean asked = false;
        try {
            Message message;
            while ((message = control.next()) != null && !message.verb().equals("end")) {
                asked = true;
                try {
                    answer(message);
                } catch (BenchFailure | TelpherException | IllegalArgumentException e) {
                    String text = e.getMessage() == null ? e.toString() : e.getMessage();
                    control.send(Message.of("failed").with("error", text));
                }
            }
        } finally {
            Rank last = rank;
            if (last != null) {
                last.close();
            }
            idle.close();
            lender.close();
        }
        return asked;
    }

    private void answer(Message message) {
        switch (message.verb()) {
            case "rank" -> {
                rank = new Rank((int) message.number("number"));
                control.send(
                        Message.of("hello")
                                .with("pid", ProcessHandle.current().pid())
                                .with("machine", Machine.describe()));
            }
            case "pin" -> {
                String problem = rank().pin((int) message.number("core"));
                control.send(Message.of("pinned").with("problem", problem));
            }
            case "open" -> control.send(rank().open(Stage.decode(message)));
            case "connect" -> {
                rank().connect(Message.all(message));
                control.send(Message.of("connected").with("explain", rank().stand().explain()));
            }
            case "prepare" -> {
                rank().prepare(Phase.decode(message));
                control.send(Message.of("prepared"));
            }
            case "run" -> {
                control.send(rank().run().encode());
                rank().serve(control::ready);
            }
            case "check" -> control.send(rank().check().encode());
            case "leave" -> {
                rank().leave();
                control.send(Message.of("left"));
            }
            case "seat" -> new MeshRankServer(control).serve(message);
            case "lend" -> control.send(lender.answer(message));
            case "idle" -> control.send(idle.answer(message));
            default ->
                    throw new BenchFailure(
                            "'" + message.verb() + "' is no message of this version");
        }
    }

    private Rank rank() {
        Rank current = rank;
        if (current == null) {
            throw new BenchFailure("'rank' comes first");
        }
        return current;
    }
}
