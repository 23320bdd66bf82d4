package io.telpher.cli.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// One host's ranks of a full mesh, in this process or in one each. Used by one thread.
final class MeshSide implements AutoCloseable {
    /// How long opening and checking may take, whatever the size.
    static final Duration PATIENCE = Duration.ofSeconds(120);

    private static final long BETWEEN_LOOKS = 1_000_000;
    private static final Duration ENDING = Duration.ofSeconds(10);

    private final List<Control> controls = new ArrayList<>();
    private final List<RankProcess> processes = new ArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private final List<Message> descriptions;

    /// Starts the ranks.
    ///
    /// @param hardware what is here
    /// @param source whether they write
    MeshSide(MeshPlan plan, MeshHardware hardware, boolean source) {
        try {
            for (MeshSeat seat : hardware.seats(plan, source)) {
                Control control =
                        plan.processes() == MeshPlan.Processes.ONE
                                ? inThisProcess(seat)
                                : inItsOwn(seat);
                controls.add(control);
                control.send(seat.encode());
            }
            descriptions = gather("opened", PATIENCE);
        } catch (RuntimeException e) {
            close();
            throw e;
        }
    }

    private Control inThisProcess(MeshSeat seat) {
        Control[] ends = QueueControl.pair();
        threads.add(
                Thread.ofPlatform()
                        .daemon()
                        .name("telpher-fullmesh-rank-" + seat.number())
                        .start(
                                () -> {
                                    try (Control end = ends[1]) {
                                        Message first = end.next();
                                        if (first != null) {
                                            new MeshRankServer(end).serve(first);
                                        }
                                    }
                                }));
        return ends[0];
    }

    private Control inItsOwn(MeshSeat seat) {
        RankProcess process = RankProcess.start(seat.number(), List.of());
        processes.add(process);
        return process.control();
    }

    /// @return what each rank said of itself
    List<Message> descriptions() {
        return descriptions;
    }

    int size() {
        return descriptions.size();
    }

    /// Tells all ranks something that they do not answer.
    void tell(Message message) {
        controls.forEach(control -> control.send(message));
    }

    /// Tells all ranks something and takes their answers.
    ///
    /// @param verb what they are to say
    /// @throws BenchFailure the first failure of a rank
    List<Message> ask(Message message, String verb, Duration atMost) {
        tell(message);
        return gather(verb, atMost);
    }

    private List<Message> gather(String verb, Duration atMost) {
        Map<Integer, Message> answers = new TreeMap<>();
        long end = System.nanoTime() + atMost.toNanos();
        while (answers.size() < controls.size()) {
            if (System.nanoTime() > end) {
                throw new BenchFailure(
                        "%d of %d ranks of this host have answered within %d s"
                                .formatted(answers.size(), controls.size(), atMost.toSeconds()));
            }
            for (int i = 0; i < controls.size(); i++) {
                // In the order in which they come: a failure is not to wait for the others.
                if (!answers.containsKey(i) && controls.get(i).ready()) {
                    answers.put(i, controls.get(i).expect(verb, atMost));
                }
            }
            LockSupport.parkNanos(BETWEEN_LOOKS);
        }
        return List.copyOf(answers.values());
    }

    /// Ends the ranks; those that do not end within seconds are left to the process's end.
    @Override
    public void close() {
        @Nullable RuntimeException problem = null;
        for (Control control : controls) {
            try {
                control.send(Message.of("end"));
            } catch (BenchFailure e) {
                problem = e; // the process is gone already
            }
        }
        processes.forEach(RankProcess::close);
        long end = System.nanoTime() + ENDING.toNanos();
        for (Thread thread : threads) {
            try {
                thread.join(Duration.ofNanos(Math.max(1, end - System.nanoTime())));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        if (problem != null) {
            System.getLogger("io.telpher.cli.bench")
                    .log(System.Logger.Level.DEBUG, "closing the ranks", problem);
        }
    }
}
