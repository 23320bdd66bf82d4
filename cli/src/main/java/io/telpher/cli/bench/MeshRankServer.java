package io.telpher.cli.bench;

import io.telpher.TelpherException;
import io.telpher.cli.bench.MeshRank.Wrong;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A [MeshRank] that does what its host's [MeshSide] says.
final class MeshRankServer {
    private final Control control;

    MeshRankServer(Control control) {
        this.control = control;
    }

    /// Serves until the end. What goes wrong is told, as the last answer.
    ///
    /// @param seat the [MeshSeat], encoded
    void serve(Message seat) {
        try (MeshRank rank = new MeshRank(MeshSeat.decode(seat))) {
            control.send(rank.describe());
            Message message;
            while ((message = control.next()) != null && !message.verb().equals("end")) {
                answer(rank, message);
            }
        } catch (BenchFailure | TelpherException | IllegalArgumentException e) {
            control.send(failed(e));
        }
    }

    /// @return what went wrong, for whoever asked
    static Message failed(RuntimeException e) {
        String text = e.getMessage() == null ? e.toString() : e.getMessage();
        return Message.of("failed").with("error", text);
    }

    private void answer(MeshRank rank, Message message) {
        switch (message.verb()) {
            case "connect" -> {
                rank.connect(Message.all(message));
                control.send(Message.of("connected"));
            }
            case "accept" -> {
                rank.accept();
                control.send(Message.of("accepted"));
            }
            case "prepare" -> {
                rank.prepare(MeshRound.decode(message));
                control.send(Message.of("prepared"));
            }
            case "write" -> control.send(written(rank, MeshRound.decode(message)));
            case "serve" -> rank.serve(MeshRound.decode(message), control::ready);
            case "check" -> control.send(verdict(rank.check(MeshRound.decode(message))));
            default ->
                    throw new BenchFailure(
                            "'" + message.verb() + "' is no message of this version");
        }
    }

    private static Message written(MeshRank rank, MeshRound round) {
        List<Message> flows = rank.write(round);
        return Message.combine("written", flows);
    }

    private static Message verdict(@Nullable Wrong wrong) {
        Message verdict = Message.of("verdict");
        return wrong == null
                ? verdict
                : verdict.with("source", wrong.source()).with("wrong", wrong.text());
    }
}
