package io.telpher.bootstrap;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.foreign.MemorySegment;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;

/// Some ranks of a group in a process of its own. Commands come line by line:
///
/// - `join`: all ranks join; `connect`: they connect with everybody; `check`: they exchange
///   messages with everybody; answers `ok MILLIS`
/// - `tell RANK TEXT`, `hear RANK`: the first rank talks with another; answers `ok` or the text
/// - `barrier NAME`: all ranks pass it; answers `ok MILLIS`
/// - `end`: leaves; answers `ended`
final class GroupMain {
    private final List<Endpoint> endpoints = new ArrayList<>();
    private final List<Group> groups = new ArrayList<>();
    private final String[] args;

    private GroupMain(String[] args) {
        this.args = args;
    }

    /// @param args server, job, first rank, number of ranks here, world, lease in ms; or none: then
    ///     the launcher's variables tell
    public static void main(String[] args) throws Exception {
        GroupMain self = new GroupMain(args);
        int here = args.length == 0 ? 1 : Integer.parseInt(args[3]);
        EndpointOptions options = EndpointOptions.DEFAULTS;
        for (int i = 0; i < here; i++) {
            self.endpoints.add(Endpoint.open(options));
        }
        System.out.println("ready");
        self.serve();
    }

    private void serve() throws IOException {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            try {
                System.out.println(answer(line.split(" ")));
            } catch (RuntimeException e) {
                System.out.println(e.toString());
            }
            if (line.equals("end")) {
                return;
            }
        }
        Runtime.getRuntime().halt(1);
    }

    private String answer(String[] words) {
        long begin = System.nanoTime();
        switch (words[0]) {
            case "join" -> join();
            case "connect" -> together(GroupMain::connect);
            case "check" -> together(GroupMain::exchange);
            case "barrier" ->
                    together(
                            group -> {
                                group.barrier(words[1], Fixtures.SOON);
                                return group;
                            });
            case "tell" ->
                    groups.getFirst()
                            .connection(Integer.parseInt(words[1]), Fixtures.SOON)
                            .notifyPeer(
                                    MemorySegment.ofArray(
                                            words[2].getBytes(StandardCharsets.UTF_8)))
                            .await();
            case "hear" -> {
                Connection from =
                        groups.getFirst().connection(Integer.parseInt(words[1]), Fixtures.SOON);
                return new String(
                        from.awaitNotification(Fixtures.SOON).payload(), StandardCharsets.UTF_8);
            }
            case "end" -> {
                together(
                        group -> {
                            group.close();
                            return null;
                        });
                endpoints.forEach(Endpoint::close);
                return "ended";
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        return "ok " + (System.nanoTime() - begin) / 1_000_000;
    }

    private void join() {
        List<Future<Group>> all = new ArrayList<>();
        for (int i = 0; i < endpoints.size(); i++) {
            int index = i;
            all.add(Fixtures.start(() -> join(index)));
        }
        all.forEach(one -> groups.add(Fixtures.result(one)));
    }

    private Group join(int index) {
        if (args.length == 0) {
            return Group.join(endpoints.get(index), Launch.fromEnvironment(), Fixtures.SOON);
        }
        RendezvousOptions options =
                RendezvousOptions.of(URI.create(args[0]), args[1], Fixtures.secret())
                        .withLease(Duration.ofMillis(Long.parseLong(args[5])));
        return Group.join(
                endpoints.get(index),
                Rendezvous.open(options),
                Integer.parseInt(args[2]) + index,
                Integer.parseInt(args[4]),
                Fixtures.SOON);
    }

    private interface Task {
        Object run(Group group);
    }

    private void together(Task task) {
        List<Future<Object>> all = new ArrayList<>();
        groups.forEach(group -> all.add(Fixtures.start(() -> task.run(group))));
        all.forEach(Fixtures::result);
    }

    private static Object connect(Group group) {
        group.connectAll(Fixtures.SOON);
        return group;
    }

    /// Says its own rank to each other one, and hears theirs.
    private static Object exchange(Group group) {
        for (int other = 0; other < group.size(); other++) {
            if (other != group.rank()) {
                byte[] own = {(byte) group.rank()};
                group.connection(other).notifyPeer(MemorySegment.ofArray(own)).await();
            }
        }
        for (int other = 0; other < group.size(); other++) {
            if (other != group.rank()) {
                byte[] heard = group.connection(other).awaitNotification(Fixtures.SOON).payload();
                if (heard.length != 1 || heard[0] != other) {
                    throw new IllegalStateException(
                            "rank %d heard %s from rank %d"
                                    .formatted(
                                            group.rank(), java.util.Arrays.toString(heard), other));
                }
            }
        }
        return group;
    }
}
