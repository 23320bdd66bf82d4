package io.telpher.sim;

import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.internal.engine.EndpointImpl;
import org.jspecify.annotations.Nullable;

/// A host of a simulation, with one process at a time.
public final class SimHost {
    private final Simulation simulation;
    private final String name;
    private @Nullable SimProcess process;
    private int processes;
    private boolean vanished;

    /// What ran here when the host vanished.
    private @Nullable SimProcess ghost;

    SimHost(Simulation simulation, String name) {
        this.simulation = simulation;
        this.name = name;
    }

    /// @return its name
    public String name() {
        return name;
    }

    /// Starts a program in the host's process; starts a process where there is none. A host that
    /// had vanished is back with that.
    ///
    /// @param program the program's name, for logs and errors
    /// @param body what it does; it may wait in the engine and in the simulation, and nowhere else
    public void start(String program, Program body) {
        SimProcess here = processNow();
        here.log("starts '" + program + "'");
        here.start(
                here.scheduler()
                        .task(
                                here,
                                program,
                                true,
                                () -> {
                                    run(body);
                                    here.log("'" + program + "' has ended");
                                })
                        .thread);
    }

    private static void run(Program body) {
        try {
            body.run();
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private SimProcess processNow() {
        SimProcess now = process;
        if (now == null) {
            now = new SimProcess(simulation, this, ++processes);
            process = now;
            vanished = false;
            SimProcess before = ghost;
            if (before != null) {
                ghost = null;
                before.disown();
            }
        }
        return now;
    }

    /// Opens an endpoint in the host's process.
    ///
    /// @param options as for a real one; transports, paths, interfaces and ports mean nothing here
    public Endpoint open(EndpointOptions options) {
        return new EndpointImpl(options, processNow());
    }

    /// Stops the process where it stands. Its kernel goes on: it takes and acknowledges bytes.
    public void pause() {
        SimProcess now = process;
        if (now != null) {
            now.log("is paused");
            now.pause();
        }
    }

    /// Ends [#pause()].
    public void resume() {
        SimProcess now = process;
        if (now != null && now.isPaused()) {
            now.log("goes on");
            now.resume();
        }
    }

    /// Kills the process: its programs end where they stand, its kernel closes its streams. The
    /// next [#start] starts another process.
    public void kill() {
        end(true);
    }

    /// Takes the host away, as if its power had failed: nobody is told anything.
    public void vanish() {
        end(false);
    }

    private void end(boolean told) {
        SimProcess now = process;
        if (now != null) {
            now.log(told ? "is killed" : "vanishes");
            process = null;
            vanished = !told;
            ghost = told ? null : now;
            now.end(told);
        }
    }

    boolean isVanished() {
        return vanished;
    }

    @Nullable SimProcess process() {
        return process;
    }

    @Override
    public String toString() {
        return "SimHost[" + name + "]";
    }

    /// What a program does.
    @FunctionalInterface
    public interface Program {
        /// Runs it.
        ///
        /// @throws Exception whatever it likes: the simulation's `run` throws it
        void run() throws Exception;
    }
}
