package io.telpher.sim;

import io.telpher.Connection;
import java.time.Duration;
import java.util.List;
import java.util.random.RandomGenerator;

/// What goes wrong in a random run.
final class Faults {
    private final RandomRun run;
    private final List<SimLink> links;
    private final Simulation simulation;
    private final RandomGenerator random;

    Faults(RandomRun run, List<SimLink> links) {
        this.run = run;
        this.links = links;
        this.simulation = run.simulation;
        this.random = run.random;
    }

    /// Lets one thing go wrong, at once; as a program of no host.
    void strike() {
        if (run.over) {
            return;
        }
        RandomRun.Side victim = random.nextBoolean() ? run.left : run.right;
        SimLink link = links.get(random.nextInt(links.size()));
        int lane = random.nextInt(8);
        Duration shortly = Duration.ofNanos(random.nextLong(1, 400_000_000));
        switch (random.nextInt(20)) {
            case 0, 1, 2 -> link.stall(lane, shortly);
            case 3, 4 -> link.stall(shortly);
            case 5, 6, 7, 8, 9 -> link.reset(lane);
            case 10 -> link.reset();
            case 11, 12 -> link.delay(Duration.ofNanos(random.nextLong(20_000_000)));
            case 13, 14 -> {
                link.cut();
                simulation.sleep(shortly.multipliedBy(random.nextInt(1, 6)));
                link.mend();
            }
            case 15 -> {
                simulation.partition(run.left.host);
                // It ends before anybody gives the other up, or long after that.
                simulation.sleep(
                        random.nextBoolean()
                                ? shortly.multipliedBy(random.nextInt(1, 5))
                                : RandomRun.LIVENESS.plus(
                                        shortly.multipliedBy(random.nextInt(1, 6))));
                simulation.heal();
            }
            case 16, 17 -> {
                victim.pause();
                simulation.sleep(shortly.multipliedBy(random.nextInt(1, 5)));
                victim.resume();
            }
            case 18 -> {
                Connection connection = victim.connection;
                if (connection != null && victim.host.process() != null) {
                    victim.host.start("closer", connection::close);
                }
            }
            default -> {
                Rebirth next = random.nextBoolean() ? new Rebirth(run, victim) : null;
                if (victim.dead) {
                    return; // nobody would come to a third process
                }
                victim.dead = true;
                victim.rebirth = next;
                if (random.nextBoolean()) {
                    victim.host.kill();
                } else {
                    victim.host.vanish();
                }
                if (next != null) {
                    simulation.sleep(shortly.multipliedBy(random.nextInt(1, 12)));
                    if (!run.over) {
                        victim.host.start("reborn", next::live);
                    }
                }
            }
        }
    }
}
