package io.telpher.contract;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/// Network namespaces of this run, with links between them; removed when closed, or when the JVM
/// ends.
final class Namespaces implements AutoCloseable {
    private static final String PREFIX = "tlp-";
    private static int created;
    private static Namespaces contract;

    private final String prefix;
    private final List<String> names = new ArrayList<>();
    private int links;

    private Namespaces() {
        synchronized (Namespaces.class) {
            prefix = PREFIX + ProcessHandle.current().pid() + "-" + created++ + "-";
        }
        Runtime.getRuntime().addShutdownHook(new Thread(this::close));
    }

    /// @return why there can be none here, or null
    static String missing() {
        if (!"root".equals(System.getProperty("user.name"))) {
            return "network namespaces need root";
        }
        for (String[] tool : new String[][] {{"ip", "iproute2"}, {"iptables", "iptables"}}) {
            if (find(tool[0]) == null) {
                return "network namespaces need " + tool[0] + ": install the package " + tool[1];
            }
        }
        return Attempt.FAILURE;
    }

    /// Made once, when somebody asks: root of a container may not be allowed to.
    private static final class Attempt {
        static final String FAILURE = failure();

        private static String failure() {
            try {
                create("try").close();
                return null;
            } catch (AssertionError e) {
                return "no network namespaces can be made, though this is root: " + e.getMessage();
            }
        }
    }

    private static String find(String tool) {
        return Stream.of("/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/bin")
                .map(folder -> folder + "/" + tool)
                .filter(path -> Files.isExecutable(Path.of(path)))
                .findFirst()
                .orElse(null);
    }

    /// Creates namespaces; their own names for them are short ones.
    static Namespaces create(String... shortNames) {
        removeAbandoned();
        Namespaces namespaces = new Namespaces();
        try {
            for (String name : shortNames) {
                command("ip", "netns", "add", namespaces.prefix + name);
                namespaces.names.add(name);
                namespaces.run(name, "ip", "link", "set", "lo", "up");
                // Addresses can be used at once, without a second of looking for duplicates.
                namespaces.run(
                        name, "sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad");
            }
            return namespaces;
        } catch (RuntimeException e) {
            namespaces.close();
            throw e;
        }
    }

    /// One namespace `b`, two links away from the one of this process; for all contract tests
    /// together.
    static synchronized Namespaces contract() {
        if (contract == null) {
            Namespaces namespaces = create("b");
            int number = namespaces.linkAnywhere("10.213.");
            namespaces.link("", "b", "10.214." + number);
            contract = namespaces;
        }
        return contract;
    }

    /// Links `b` to this process's namespace by a subnet that no other run uses: the device is
    /// named after it, and the kernel makes no device twice.
    ///
    /// @param start the first two numbers of the subnet
    /// @return the third one
    private int linkAnywhere(String start) {
        int first = (int) (ProcessHandle.current().pid() % 256);
        AssertionError taken = null;
        for (int i = 0; i < 256; i++) {
            int number = (first + i) % 256;
            try {
                link("", "b", start + number);
                return number;
            } catch (AssertionError e) {
                if (!e.getMessage().contains("File exists")) {
                    throw e;
                }
                taken = e;
            }
        }
        throw taken;
    }

    /// Links two namespaces: the first gets address 1 of the subnet, the second address 2, each
    /// a device `v0`, `v1`, ... in the order of the calls. The empty name is the namespace of
    /// this process.
    ///
    /// @param subnet the first three numbers of a network of 24 bits
    /// @return the device's name, the same at both ends
    String link(String first, String second, String subnet) {
        String device = "v" + links;
        String ours = first.isEmpty() ? "t" + subnet.replace('.', '-') : device;
        List<String> add = new ArrayList<>(List.of("ip", "link", "add", ours));
        if (!first.isEmpty()) {
            add.addAll(List.of("netns", prefix + first));
        }
        add.addAll(List.of("type", "veth", "peer", "name", device, "netns", prefix + second));
        command(add.toArray(String[]::new));
        links++;
        up(first, ours, subnet + ".1/24");
        up(second, device, subnet + ".2/24");
        awaitUp(first, ours);
        awaitUp(second, device);
        return device;
    }

    /// The kernel takes up to a second to notice that a link carries.
    private void awaitUp(String name, String device) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!run(name, "cat", "/sys/class/net/" + device + "/operstate").strip().equals("up")) {
            if (System.nanoTime() > end) {
                throw new AssertionError(device + " does not come up");
            }
            Contract.sleep(20);
        }
    }

    private void up(String name, String device, String address) {
        run(name, "ip", "address", "add", address, "dev", device);
        run(name, "ip", "link", "set", device, "up");
    }

    /// Limits what a device sends.
    void limit(String name, String device, String rate) {
        run(
                name, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", rate, "burst",
                "256kb", "latency", "50ms");
    }

    /// Drops all packets that come in by a device.
    void drop(String name, String device) {
        run(name, "iptables", "-I", "INPUT", "-i", device, "-j", "DROP");
    }

    /// Drops some of the packets that come in by a device.
    void lose(String name, String device, String probability) {
        run(
                name,
                "iptables",
                "-I",
                "INPUT",
                "-i",
                device,
                "-m",
                "statistic",
                "--mode",
                "random",
                "--probability",
                probability,
                "-j",
                "DROP");
    }

    /// Ends all dropping.
    void dropNothing(String name) {
        run(name, "iptables", "-F", "INPUT");
    }

    /// @return the command that runs another one in a namespace
    String[] exec(String name) {
        return new String[] {"ip", "netns", "exec", prefix + name};
    }

    /// Runs a command in a namespace.
    ///
    /// @return what it printed
    String run(String name, String... command) {
        return name.isEmpty()
                ? command(command)
                : command(
                        Stream.concat(Arrays.stream(exec(name)), Arrays.stream(command))
                                .toArray(String[]::new));
    }

    private static String command(String... command) {
        try {
            ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
            builder.environment().merge("PATH", "/usr/sbin:/sbin", (a, b) -> a + ":" + b);
            String path = find(command[0]);
            if (path != null) {
                command[0] = path;
                builder.command(command);
            }
            Process process = builder.start();
            process.getOutputStream().close();
            String output = new String(process.getInputStream().readAllBytes(), UTF_8);
            if (!process.waitFor(20, TimeUnit.SECONDS) || process.exitValue() != 0) {
                process.destroyForcibly();
                throw new AssertionError(String.join(" ", command) + " failed: " + output);
            }
            return output;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted", e);
        }
    }

    /// Removes what a run left that was killed.
    private static void removeAbandoned() {
        Path folder = Path.of("/run/netns");
        if (!Files.isDirectory(folder)) {
            return;
        }
        try (Stream<Path> all = Files.list(folder)) {
            all.map(path -> path.getFileName().toString())
                    .filter(name -> name.matches(PREFIX + "[0-9]+-.*"))
                    .filter(name -> !Files.exists(Path.of("/proc", name.split("-")[1])))
                    .forEach(name -> command("ip", "netns", "delete", name));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public synchronized void close() {
        for (String name : names) {
            try {
                command("ip", "netns", "delete", prefix + name);
            } catch (AssertionError e) {
                System.err.println(e.getMessage());
            }
        }
        names.clear();
    }
}
