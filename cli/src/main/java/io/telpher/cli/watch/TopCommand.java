package io.telpher.cli.watch;

import io.telpher.internal.observe.MetricsReader;
import io.telpher.internal.observe.Snapshot;
import java.io.Console;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/// `telpher top`.
@Command(
        name = "top",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Shows what running processes transfer: connections, paths, lanes, rates, failures.",
            "",
            "It has each process publish about once a second, and disturbs none. It must run"
                    + " as their user, or as root.%n"
        },
        footer = {
            "",
            "Ends when the last of the named processes has ended.",
            "Exit code: 0 good, 1 a process cannot be read, 2 wrong usage."
        })
public final class TopCommand implements Callable<Integer> {
    private static final String CLEAR = "\033[H\033[2J";

    /// How long to wait for two snapshots that rates are made of.
    private static final long NEWS_MILLIS = 3000;

    private static final long LOOK_MILLIS = 100;

    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @Parameters(
            paramLabel = "PID",
            arity = "0..*",
            description = "The processes; without: all of this user that have an endpoint.")
    private List<Long> pids = List.of();

    @Option(names = "--once", description = "Shows it once and ends: for scripts.")
    private boolean once;

    @Option(
            names = "--json",
            description =
                    "Prints a JSON object per line for each endpoint, path and lane, each time.")
    private boolean json;

    @Option(
            names = "--interval",
            paramLabel = "S",
            defaultValue = "2",
            description = "Seconds between two looks, 1 to 3600; default: ${DEFAULT-VALUE}.")
    private int interval;

    private final Map<Long, List<Snapshot>> before = new HashMap<>();

    @Override
    public Integer call() throws IOException, InterruptedException {
        if (interval < 1 || interval > 3600) {
            throw new CommandLine.ParameterException(
                    spec.commandLine(), "--interval " + interval + " is not within 1 and 3600");
        }
        PrintWriter out = spec.commandLine().getOut();
        PrintWriter err = spec.commandLine().getErr();
        Map<Long, List<Snapshot>> first;
        try {
            first = pids.isEmpty() ? all() : named(pids);
        } catch (MetricsReader.Gone | MetricsReader.Unreadable e) {
            err.println("telpher top: " + e.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
        if (first.isEmpty() && once) {
            err.println(
                    "telpher top: no process of this user has an open endpoint; those of others need"
                            + " their user or root");
            return CommandLine.ExitCode.SOFTWARE;
        }
        before.putAll(first);
        Console console = System.console();
        boolean screen = !json && !once && console != null && console.isTerminal();
        Map<Long, List<Snapshot>> now = news(first);
        while (true) {
            StringBuilder text = new StringBuilder(screen ? CLEAR : "");
            show(text, now);
            out.print(text);
            out.flush();
            if (once) {
                return CommandLine.ExitCode.OK;
            }
            before.clear();
            before.putAll(now);
            Thread.sleep(interval * 1000L);
            now = pids.isEmpty() ? all() : remaining(err, now.keySet());
            if (now.isEmpty() && !pids.isEmpty()) {
                return CommandLine.ExitCode.OK;
            }
        }
    }

    private static Map<Long, List<Snapshot>> named(List<Long> pids) throws IOException {
        MetricsReader.ask(pids);
        Map<Long, List<Snapshot>> found = new LinkedHashMap<>();
        for (long pid : pids) {
            found.put(pid, MetricsReader.read(pid));
        }
        return found;
    }

    private static Map<Long, List<Snapshot>> all() throws IOException {
        List<Long> running = MetricsReader.processes();
        MetricsReader.ask(running);
        Map<Long, List<Snapshot>> found = new LinkedHashMap<>();
        for (long pid : running) {
            try {
                found.put(pid, MetricsReader.read(pid));
            } catch (MetricsReader.Gone | MetricsReader.Unreadable e) {
                continue; // ended since
            }
        }
        return found;
    }

    /// Those that are still there; says which are not.
    private Map<Long, List<Snapshot>> remaining(PrintWriter err, Iterable<Long> last)
            throws IOException {
        MetricsReader.ask(last);
        Map<Long, List<Snapshot>> found = new LinkedHashMap<>();
        for (long pid : last) {
            try {
                found.put(pid, MetricsReader.read(pid));
            } catch (MetricsReader.Gone e) {
                err.println("telpher top: process " + pid + " has ended");
            } catch (MetricsReader.Unreadable e) {
                err.println("telpher top: " + e.getMessage());
            }
        }
        err.flush();
        return found;
    }

    /// Waits until every process has published once more, so that there are rates; a stopped one
    /// never does.
    private static Map<Long, List<Snapshot>> news(Map<Long, List<Snapshot>> first)
            throws IOException, InterruptedException {
        Map<Long, List<Snapshot>> now = new LinkedHashMap<>(first);
        long end = System.nanoTime() + NEWS_MILLIS * 1_000_000;
        List<Long> waiting = new ArrayList<>(first.keySet());
        while (!waiting.isEmpty() && System.nanoTime() - end < 0) {
            Thread.sleep(LOOK_MILLIS);
            for (long pid : List.copyOf(waiting)) {
                try {
                    List<Snapshot> next = MetricsReader.read(pid);
                    List<Snapshot> old = now.getOrDefault(pid, next);
                    if (next.getFirst().sequence() != old.getFirst().sequence()) {
                        now.put(pid, next);
                        waiting.remove(pid);
                    }
                } catch (MetricsReader.Gone | MetricsReader.Unreadable e) {
                    waiting.remove(pid); // what was read before is shown
                }
            }
        }
        return now;
    }

    private void show(StringBuilder text, Map<Long, List<Snapshot>> now) {
        long millis = System.currentTimeMillis();
        now.forEach(
                (pid, snapshots) -> {
                    List<Snapshot> old = before.getOrDefault(pid, List.of());
                    for (int i = 0; i < snapshots.size(); i++) {
                        @Nullable Snapshot earlier = i < old.size() ? old.get(i) : null;
                        text.append(
                                json
                                        ? TopView.json(pid, earlier, snapshots.get(i), millis)
                                        : TopView.table(pid, earlier, snapshots.get(i), millis));
                    }
                });
    }
}
