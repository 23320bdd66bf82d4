package io.telpher.cli.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// All ranks of a run: the driver's own, number 0, and those behind controls. Used by one thread.
final class Crew implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final Rank own = new Rank(0);
    private final List<Control> others = new ArrayList<>();
    private final List<AutoCloseable> resources = new ArrayList<>();
    private final List<String> machines = new ArrayList<>();
    private final List<String> pins = new ArrayList<>();
    private final long spoiled;

    Crew() {
        this(0);
    }

    /// @param spoiled size of the operations that are to go wrong, which shows that the checks can
    ///     fail: rank 0 changes a byte of what it writes and sends; 0 for none
    Crew(long spoiled) {
        this.spoiled = spoiled;
    }

    /// Takes a rank in.
    ///
    /// @param control leads to it
    /// @param resource closed with the crew
    void add(Control control, AutoCloseable resource) {
        others.add(control);
        resources.add(resource);
        control.send(Message.of("rank").with("number", others.size()));
        machines.add(expect(control, "hello").text("machine"));
    }

    int size() {
        return others.size() + 1;
    }

    /// @return what the other ranks say of their machines, without repetitions
    List<String> machines() {
        return machines.stream().distinct().toList();
    }

    /// Pins the thread with which rank i measures to the i-th of these cores.
    ///
    /// @return what could not be done, without repetitions
    List<String> pin(List<Integer> cores) {
        List<String> problems = new ArrayList<>();
        for (int i = 0; i < size(); i++) {
            int core = cores.get(i % cores.size());
            String problem;
            if (i == 0) {
                problem = own.pin(core);
            } else {
                others.get(i - 1).send(Message.of("pin").with("core", core));
                problem = expect(others.get(i - 1), "pinned").text("problem");
            }
            if (!problem.isEmpty()) {
                problems.add(problem);
            } else {
                pins.add(Integer.toString(core));
            }
        }
        return problems.stream().distinct().toList();
    }

    /// @return the cores that ranks are pinned to, for people
    String pins() {
        return pins.isEmpty() ? "not pinned" : "pinned to cores " + String.join(",", pins);
    }

    /// Opens endpoints and memory on all ranks and connects them.
    ///
    /// @return what the engine says about the path
    String open(Stage stage) {
        List<Message> descriptions = new ArrayList<>();
        others.forEach(control -> control.send(stage.encode()));
        descriptions.add(own.open(stage));
        for (Control control : others) {
            descriptions.add(expect(control, "opened"));
        }
        Message connect = Message.combine("connect", descriptions);
        for (Control control : others) {
            control.send(connect);
        }
        own.connect(descriptions);
        for (Control control : others) {
            expect(control, "connected");
        }
        return own.stand().explain();
    }

    /// @return the driver's own endpoint and memory
    Stand stand() {
        return own.stand();
    }

    /// @return lanes that the first of the driver's own connections has
    int lanes() {
        return own.stand().lanes();
    }

    /// Runs one phase on all ranks.
    ///
    /// @throws BenchFailure when a rank fails
    PhaseOutcome run(Phase phase) {
        try {
            others.forEach(control -> control.send(phase.encode()));
            own.prepare(phase);
            if (phase.bytes() == spoiled) {
                own.spoil();
            }
            others.forEach(control -> expect(control, "prepared"));
            others.forEach(control -> control.send(Message.of("run")));
            List<PhaseResult> results = new ArrayList<>();
            results.add(own.run());
            for (Control control : others) {
                own.serve(control::ready);
                results.add(PhaseResult.decode(expect(control, "result")));
            }
            Verdict verdict = own.check();
            others.forEach(control -> control.send(Message.of("check")));
            long wrong = verdict.wrong();
            String first = verdict.first();
            long cpu = verdict.cpuNanos();
            for (Control control : others) {
                Verdict other = Verdict.decode(expect(control, "verdict"));
                wrong += other.wrong();
                cpu += own.stand().stage.path().equals("self") ? 0 : other.cpuNanos();
                first = first == null ? other.first() : first;
            }
            return new PhaseOutcome(results, new Verdict(wrong, first, cpu));
        } catch (BenchFailure e) {
            throw explained(e);
        }
    }

    /// Another rank may know better why this one's connection ended.
    private BenchFailure explained(BenchFailure failure) {
        for (Control control : others) {
            if (control.ready()) {
                try {
                    Message message = control.receive(Duration.ofSeconds(1));
                    if (message.verb().equals("failed")) {
                        return new BenchFailure(
                                failure.getMessage() + "; the other side: " + message.text("error"),
                                failure);
                    }
                } catch (BenchFailure lost) {
                    return new BenchFailure(
                            failure.getMessage() + "; " + lost.getMessage(), failure);
                }
            }
        }
        return failure;
    }

    /// Closes the stage's endpoints on all ranks.
    void leave() {
        others.forEach(control -> control.send(Message.of("leave")));
        own.leave();
        for (Control control : others) {
            // Answers to an attempt that failed may still stand before it.
            while (!control.receive(PATIENCE).verb().equals("left")) {
                continue;
            }
        }
    }

    private static Message expect(Control control, String verb) {
        return control.expect(verb, PATIENCE);
    }

    @Override
    public void close() {
        @Nullable Exception problem = null;
        own.close();
        for (Control control : others) {
            try {
                control.send(Message.of("end"));
            } catch (RuntimeException e) {
                problem = e; // the process is gone already
            }
        }
        for (AutoCloseable resource : resources) {
            try {
                resource.close();
            } catch (Exception e) {
                problem = e;
            }
        }
        if (problem != null) {
            System.getLogger("io.telpher.cli.bench")
                    .log(System.Logger.Level.DEBUG, "closing the ranks", problem);
        }
    }
}
