package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Two network namespaces with links between them, `d0`, `d1`, ... at both ends: two hosts, for
/// networks.
public final class TwoNamespaces implements AutoCloseable {
    private final String here;
    private final String there;

    private TwoNamespaces(String id) {
        here = id + "a";
        there = id + "b";
    }

    /// @return why there can be none here, or null
    public static @Nullable String missing() {
        if (!"root".equals(System.getProperty("user.name"))) {
            return "network namespaces need root";
        }
        if (Tool.find("ip") == null) {
            return "needs ip of the package iproute2";
        }
        return Attempt.WORKS ? null : "cannot make network namespaces, though root: a container?";
    }

    /// Made once, when somebody asks.
    private static final class Attempt {
        static final boolean WORKS = works();

        private static boolean works() {
            String name = "tlptry" + ProcessHandle.current().pid();
            int added = Tool.run(List.of("ip", "netns", "add", name), Map.of(), 20).exitCode();
            Tool.run(List.of("ip", "netns", "del", name), Map.of(), 20);
            return added == 0;
        }
    }

    /// Makes them with one link.
    ///
    /// @param prefix of their names, up to five letters
    public static TwoNamespaces create(String prefix) {
        return create(prefix, 1);
    }

    /// Makes them: addresses 10.77.1.1 and 10.77.1.2 on the first link, 10.77.2.1 and 10.77.2.2 on
    /// the second one.
    ///
    /// @param prefix of their names, up to five letters
    public static TwoNamespaces create(String prefix, int links) {
        TwoNamespaces made = new TwoNamespaces(prefix + ProcessHandle.current().pid());
        try {
            run("ip netns add " + made.here);
            run("ip netns add " + made.there);
            run("ip -n %s link set lo up".formatted(made.here));
            run("ip -n %s link set lo up".formatted(made.there));
            for (int link = 0; link < links; link++) {
                made.connect("d" + link, "10.77." + (link + 1));
            }
            return made;
        } catch (AssertionError e) {
            made.close();
            throw e;
        }
    }

    private void connect(String device, String subnet) {
        run(
                "ip -n %s link add %s type veth peer name %s netns %s"
                        .formatted(here, device, device, there));
        for (String namespace : List.of(here, there)) {
            String address = subnet + (namespace.equals(here) ? ".1/24" : ".2/24");
            run("ip -n %s addr add %s dev %s".formatted(namespace, address, device));
            run("ip -n %s link set %s up".formatted(namespace, device));
        }
        awaitLink(here, device);
        awaitLink(there, device);
    }

    /// The kernel notices some time after the second end is up that there is a link.
    private static void awaitLink(String namespace, String device) {
        long end = System.nanoTime() + 20_000_000_000L;
        Tool.Output link;
        do {
            link = Tool.run(List.of("ip", "-n", namespace, "link", "show", device), Map.of(), 20);
            assertThat(System.nanoTime()).as("no link yet: " + link.text()).isLessThan(end);
        } while (!link.text().contains("state UP"));
    }

    /// @return the name of the one
    public String here() {
        return here;
    }

    /// @return the name of the other
    public String there() {
        return there;
    }

    /// @return what starts a command in a namespace
    public static List<String> in(String namespace) {
        return List.of("ip", "netns", "exec", namespace);
    }

    /// Runs a command, its words separated by spaces.
    public static void run(String command) {
        Tool.Output output = Tool.run(Arrays.asList(command.split(" ")), Map.of(), 20);
        assertThat(output.exitCode()).as(command + ": " + output.error()).isZero();
    }

    @Override
    public void close() {
        for (String namespace : List.of(here, there)) {
            Tool.run(List.of("ip", "netns", "del", namespace), Map.of(), 20);
        }
    }
}
