package io.telpher.contract;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;

/// Transfers between memory of GPUs of two processes, on a machine that has some: what works, and
/// how long it takes. A program, not a test: `java -cp TEST-CLASSPATH io.telpher.contract.GpuSmoke
/// [MOST-BYTES [PATHS]]`. Prints a line for each thing; ends with 1 when one failed.
public final class GpuSmoke {
    private static final Duration LIMIT = Duration.ofSeconds(30);

    private final Endpoint endpoint;
    private final Connection connection;
    private final BufferedReader answers;
    private final PrintStream questions;
    private final Device device;
    private final long most;
    private boolean failed;

    private GpuSmoke(
            Endpoint endpoint,
            Connection connection,
            BufferedReader answers,
            PrintStream questions,
            Device device,
            long most) {
        this.endpoint = endpoint;
        this.connection = connection;
        this.answers = answers;
        this.questions = questions;
        this.device = device;
        this.most = most;
    }

    /// Runs everything.
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals("child")) {
            child(arguments[1], Long.parseLong(arguments[2]), arguments[3]);
            return;
        }
        long most = arguments.length > 0 ? Long.parseLong(arguments[0]) : 1L << 30;
        String paths = arguments.length > 1 ? arguments[1] : "";
        List<Device> devices = Device.list();
        System.out.println("devices: " + devices);
        if (devices.isEmpty()) {
            return;
        }
        Device mine = devices.getFirst();
        Device theirs = devices.get(devices.size() > 1 ? 1 : 0);
        List<String> command = new ArrayList<>();
        command.add(System.getProperty("java.home") + "/bin/java");
        command.addAll(
                List.of("--enable-native-access=ALL-UNNAMED", "-XX:+UseSerialGC", "-Xmx512m"));
        System.getProperties()
                .forEach(
                        (name, value) -> {
                            if (name.toString().startsWith("telpher.")) {
                                command.add("-D" + name + "=" + value);
                            }
                        });
        command.addAll(
                List.of("-cp", System.getProperty("java.class.path"), GpuSmoke.class.getName()));
        command.addAll(List.of("child", theirs.uuid().toString(), Long.toString(most), paths));
        Process process =
                new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try (BufferedReader answers = process.inputReader();
                PrintStream questions = new PrintStream(process.getOutputStream(), true);
                Endpoint endpoint = Endpoint.open(options(paths))) {
            EndpointAddress address =
                    EndpointAddress.ofBytes(HexFormat.of().parseHex(answers.readLine()));
            Connection connection = endpoint.connect(address, LIMIT);
            GpuSmoke smoke = new GpuSmoke(endpoint, connection, answers, questions, mine, most);
            smoke.run();
            questions.println("end");
            System.out.println(connection.explain());
            connection.close();
            if (smoke.failed || process.waitFor() != 0) {
                System.exit(1);
            }
        }
    }

    private static EndpointOptions options(String paths) {
        return paths.isEmpty()
                ? EndpointOptions.DEFAULTS
                : EndpointOptions.DEFAULTS.withPaths(Arrays.asList(paths.split(",")));
    }

    // --- the other process ------------------------------------------------------------------

    private static void child(String uuid, long most, String paths) throws Exception {
        Device device = Device.of(uuid);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Endpoint endpoint = Endpoint.open(options(paths))) {
            MemoryRegion target = endpoint.allocate(device, most);
            MemoryRegion host = endpoint.allocate(64 << 20);
            MemoryRegion counter = endpoint.allocate(device, 64);
            counter.copyIn(0, Arena.ofAuto().allocate(64));
            endpoint.publish("target", target);
            endpoint.publish("host", host);
            endpoint.publish("counter", counter);
            System.out.println(HexFormat.of().formatHex(endpoint.address().toBytes()));
            Connection connection = endpoint.accept(LIMIT);
            String line;
            while ((line = in.readLine()) != null && !line.equals("end")) {
                String[] words = line.split(" ");
                String answer;
                try {
                    answer = answer(words, connection, target, host, counter);
                } catch (RuntimeException e) {
                    answer = e.toString().replace('\n', ' ');
                }
                System.out.println(answer);
            }
        }
    }

    private static String answer(
            String[] words,
            Connection connection,
            MemoryRegion target,
            MemoryRegion host,
            MemoryRegion counter) {
        MemoryRegion region = words[1].equals("host") ? host : target;
        long offset = Long.parseLong(words[2]);
        long length = Long.parseLong(words[3]);
        long seed = Long.parseLong(words[4]);
        switch (words[0]) {
            case "fill" -> fill(region, offset, length, seed);
            case "check" -> check(region, offset, length, seed);
            case "receive" -> {
                Transfer transfer = connection.receive(seed, region.slice(offset, length));
                transfer.await();
            }
            case "counter" -> {
                MemorySegment word = Arena.ofAuto().allocate(8);
                counter.copyOut(0, word);
                return Long.toString(word.get(ValueLayout.JAVA_LONG, 0));
            }
            default -> throw new IllegalArgumentException(words[0]);
        }
        return "ok";
    }

    private static void fill(MemoryRegion region, long offset, long length, long seed) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(Math.max(1, length), 64);
            Content.fill(bytes, 0, length, seed);
            region.copyIn(offset, bytes.asSlice(0, length));
        }
    }

    private static void check(MemoryRegion region, long offset, long length, long seed) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(Math.max(1, length), 64);
            region.copyOut(offset, bytes.asSlice(0, length));
            Content.check(bytes, 0, length, seed);
        } catch (AssertionError e) {
            throw new IllegalStateException(e.getMessage(), e);
        }
    }

    // --- this process -----------------------------------------------------------------------

    private String ask(String question) {
        questions.println(question);
        try {
            return answers.readLine();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void tell(String command) {
        String answer = ask(command);
        if (!"ok".equals(answer)) {
            throw new IllegalStateException(command + ": " + answer);
        }
    }

    private interface Step {
        String run();
    }

    private void step(String name, Step step) {
        long start = System.nanoTime();
        try {
            String result = step.run();
            System.out.printf(
                    Locale.ROOT,
                    "OK     %-40s %s (%.0f ms)%n",
                    name,
                    result,
                    (System.nanoTime() - start) / 1e6);
        } catch (RuntimeException | AssertionError e) {
            failed = true;
            System.out.printf("FAILED %-40s %s%n", name, e);
        }
    }

    private void run() {
        MemoryRegion local = endpoint.allocate(device, most);
        MemoryRegion host = endpoint.allocate(64 << 20);
        RemoteMemory target = connection.lookup("target", LIMIT);
        RemoteMemory far = connection.lookup("host", LIMIT);
        RemoteMemory counter = connection.lookup("counter", LIMIT);
        step("write GPU to GPU", () -> once(local, target, "target", 1_000_003, 17));
        step("write host to GPU", () -> once(host, target, "target", 1_000_003, 33));
        step("write GPU to host", () -> once(local, far, "host", 1_000_003, 5));
        step("write 8 B GPU to GPU", () -> once(local, target, "target", 8, 1));
        step("read GPU from GPU", () -> read(local, target, "target"));
        step("read host from GPU", () -> read(host, target, "target"));
        step("read GPU from host", () -> read(local, far, "host"));
        step(
                "counter in a GPU's memory",
                () -> {
                    connection
                            .write(
                                    local.slice(0, 4096),
                                    target.slice(0, 4096),
                                    TransferOptions.DEFAULTS.withCounter(
                                            CounterUpdate.add(counter.slice(0, 8), 7)))
                            .await();
                    String value = ask("counter target 0 0 0");
                    if (!"7".equals(value)) {
                        throw new IllegalStateException("the counter is " + value);
                    }
                    return value;
                });
        for (long bytes : new long[] {8, 4096, 1 << 20}) {
            step("send " + bytes + " GPU to GPU", () -> send(local, bytes));
        }
        step("1,000 pieces of 64 KiB", () -> pieces(local, target, 1000, 64 << 10));
        step("10,000 pieces of 4 KiB", () -> pieces(local, target, 10_000, 4 << 10));
        for (long bytes = 8; bytes <= most; bytes *= bytes < 1 << 20 ? 8 : 16) {
            long size = bytes;
            step("one write of " + bytes, () -> time(local, target, size));
        }
        step("8 B, 32 in flight", () -> flight(local, target, 8, 32, 20_000));
        step("64 KiB, 32 in flight", () -> flight(local, target, 64 << 10, 32, 20_000));
        step("1 MiB, 16 in flight", () -> flight(local, target, 1 << 20, 16, 5000));
        step("host 8 MiB to GPU", () -> time(host, target, 8 << 20));
        step("GPU 8 MiB to host", () -> time(local, far, 8 << 20));
        step("GPU 64 MiB to host", () -> time(local, far, 64 << 20));
        local.close();
        host.close();
    }

    private String once(MemoryRegion from, RemoteMemory to, String name, long length, long offset) {
        fill(from, offset, length, 42 + offset);
        tell("fill %s 0 %d 1".formatted(name, length + 200));
        Transfer transfer = connection.write(from.slice(offset, length), to.slice(100, length));
        transfer.await();
        tell("check %s 100 %d %d".formatted(name, length, 42 + offset));
        tell("check %s 0 100 1".formatted(name));
        return transfer.path();
    }

    private String read(MemoryRegion into, RemoteMemory from, String name) {
        tell("fill %s 0 300000 9".formatted(name));
        Transfer transfer = connection.read(into.slice(64, 299_999), from.slice(0, 299_999));
        transfer.await();
        check(into, 64, 299_999, 9);
        return transfer.path();
    }

    private String send(MemoryRegion from, long bytes) {
        fill(from, 0, bytes, bytes);
        tell("fill target 0 %d 1".formatted(bytes));
        Transfer sent = connection.send(bytes, from.slice(0, bytes));
        tell("receive target 0 %d %d".formatted(bytes, bytes));
        sent.await();
        tell("check target 0 %d %d".formatted(bytes, bytes));
        return sent.path();
    }

    private String pieces(MemoryRegion from, RemoteMemory to, int count, int size) {
        long bytes = (long) count * size;
        if (2 * bytes > most) {
            return "too large";
        }
        fill(from, 0, bytes, 5);
        tell("fill target 0 %d 1".formatted(bytes));
        long[] offsets = new long[count];
        long[] lengths = new long[count];
        for (int i = 0; i < count; i++) {
            offsets[i] = (i * 7919L % count) * size;
            lengths[i] = size;
        }
        MemorySlices here = MemorySlices.of(from, offsets, lengths);
        List<RemoteMemory> slices = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            slices.add(to.slice(offsets[i], lengths[i]));
        }
        RemoteSlices there = RemoteSlices.of(slices);
        double[] millis = new double[15];
        for (int i = 0; i < millis.length; i++) {
            long start = System.nanoTime();
            connection.write(here, there, TransferOptions.DEFAULTS).await();
            millis[i] = (System.nanoTime() - start) / 1e6;
        }
        tell("check target 0 %d 5".formatted(bytes));
        Arrays.sort(millis);
        return "%.3f ms".formatted(millis[millis.length / 2]);
    }

    private String time(MemoryRegion from, RemoteMemory to, long bytes) {
        int rounds = bytes <= 1 << 20 ? 3000 : bytes <= 64 << 20 ? 200 : 20;
        double[] micros = new double[rounds];
        for (int i = -rounds / 4; i < rounds; i++) {
            long start = System.nanoTime();
            connection.write(from.slice(0, bytes), to.slice(0, bytes)).await();
            if (i >= 0) {
                micros[i] = (System.nanoTime() - start) / 1e3;
            }
        }
        Arrays.sort(micros);
        double median = micros[rounds / 2];
        return "%.2f us, p99 %.2f, %.2f GB/s"
                .formatted(median, micros[rounds * 99 / 100], bytes / median / 1e3);
    }

    private String flight(MemoryRegion from, RemoteMemory to, long bytes, int depth, int count) {
        Transfer[] transfers = new Transfer[depth];
        long start = 0;
        for (int i = -count / 4; i < count; i++) {
            if (i == 0) {
                start = System.nanoTime();
            }
            int slot = Math.floorMod(i, depth);
            if (transfers[slot] != null) {
                transfers[slot].await();
            }
            transfers[slot] =
                    connection.write(
                            from.slice(slot * bytes, bytes), to.slice(slot * bytes, bytes));
        }
        for (Transfer transfer : transfers) {
            transfer.await();
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        return "%.3f M/s, %.2f GB/s"
                .formatted(count / seconds / 1e6, count * bytes / seconds / 1e9);
    }
}
