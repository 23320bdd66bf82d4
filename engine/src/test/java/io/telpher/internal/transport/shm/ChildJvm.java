package io.telpher.internal.transport.shm;

import io.telpher.spi.HostIdentity;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.TimeUnit;

/// A second JVM with the same class path. Lines on its standard input and output are the
/// conversation; what it writes to standard error shows in the test's output.
final class ChildJvm implements AutoCloseable {
    private final Process process;
    private final BufferedReader in;
    private final PrintStream out;

    ChildJvm(Class<?> main, String... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(System.getProperty("java.home") + File.separator + "bin/java");
        command.add("--enable-native-access=ALL-UNNAMED");
        command.add("-cp");
        command.add(System.getProperty("java.class.path"));
        command.add(main.getName());
        command.addAll(List.of(arguments));
        process =
                new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        in =
                new BufferedReader(
                        new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        out = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
    }

    /// @return what the parent says, for the child's main program
    static BufferedReader parent() {
        return new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    }

    Process process() {
        return process;
    }

    int pid() {
        return (int) process.pid();
    }

    void say(String line) {
        out.println(line);
    }

    String hear() throws IOException {
        String line = in.readLine();
        if (line == null) {
            throw new IOException("the child ended");
        }
        return line;
    }

    /// One line that holds all that [#address(String)] needs.
    static String text(PeerAddress address) {
        Locator locator = address.locators().getFirst();
        HostIdentity host = address.host();
        return "%x %s %d %d %d %s %s"
                .formatted(
                        address.incarnation(),
                        host.bootId(),
                        host.pid(),
                        host.pidNamespace(),
                        host.netNamespace(),
                        HexFormat.of().formatHex(locator.data()),
                        locator.text());
    }

    static PeerAddress address(String text) {
        String[] parts = text.split(" ", 7);
        HostIdentity host =
                new HostIdentity(
                        parts[1],
                        Integer.parseInt(parts[2]),
                        Long.parseLong(parts[3]),
                        Long.parseLong(parts[4]));
        Locator locator =
                new Locator(ShmTransport.NAME, HexFormat.of().parseHex(parts[5]), parts[6]);
        return new PeerAddress(Long.parseUnsignedLong(parts[0], 16), host, List.of(locator));
    }

    @Override
    public void close() {
        process.destroyForcibly();
        try {
            process.waitFor(10, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
