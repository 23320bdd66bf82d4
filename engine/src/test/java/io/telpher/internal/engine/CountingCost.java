package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.CodeTransform;
import java.lang.classfile.Opcode;
import java.lang.classfile.instruction.FieldInstruction;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.LongUnaryOperator;

/// What counting costs a write of 8 bytes, the quickest operation there is, while nobody reads the
/// counters. Not a test: `docs/operations.md` has the figures.
///
/// Each JVM loads the engine twice. In the other copy the instructions that store into a counter
/// are replaced by ones that drop the value; the compiler then removes what led to it. The copies
/// run the same loop in turn, so that the machine's moods meet both. Two compilations of the same
/// code differ by more than counting costs, so there are many such JVMs, one after the other; every
/// second one loads the copies the other way round. One argument: the path. It ends with an error
/// unless the one copy counts every write, and the other none.
final class CountingCost {
    private static final int PAIRS = 40;
    private static final int ROUNDS = 21;
    private static final int WARM_UP = 15;
    private static final long ROUND_NANOS = 20_000_000L;
    private static final int BYTES = 8;
    private static final Duration LIMIT = Duration.ofSeconds(30);

    /// What is there to be looked at and for nothing else, so not `LaneState.framesReceived`.
    private static final Map<String, Set<String>> COUNTERS =
            Map.of(
                    "CopyCounts",
                    Set.of("written", "read", "large", "largeWritten", "largeRead"),
                    "Tally",
                    Set.of("slow", "notificationsSent", "notificationsReceived"),
                    "Tally$OfPath",
                    Set.of("done", "written", "read"),
                    "LaneState",
                    Set.of("framesSent", "bytesSent", "bytesReceived", "notesTaken"));

    private CountingCost() {}

    public static void main(String[] arguments) throws Exception {
        String path = arguments.length > 0 ? arguments[0] : "";
        if (!List.of("self", "mapped").contains(path)) {
            throw new IllegalArgumentException("one of self, mapped");
        }
        if (arguments.length > 1) {
            pair(path, Boolean.parseBoolean(arguments[1]));
            return;
        }
        double[] with = new double[PAIRS];
        double[] without = new double[PAIRS];
        double[] costs = new double[PAIRS];
        for (int i = 0; i < PAIRS; i++) {
            String[] nanos = inOwnJvm(path, i % 2 == 0).split(" ");
            with[i] = Double.parseDouble(nanos[0]);
            without[i] = Double.parseDouble(nanos[1]);
            costs[i] = with[i] - without[i];
        }
        System.out.printf(
                "%s, %d JVMs, median (quartiles): with %s ns, without %s ns, counting %s ns,"
                        + " %.2f %%%n",
                path,
                PAIRS,
                text(with),
                text(without),
                text(costs),
                quantile(costs, 0.5) / quantile(without, 0.5) * 100);
    }

    private static String inOwnJvm(String path, boolean countingFirst) throws Exception {
        Process jvm =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "--enable-native-access=ALL-UNNAMED",
                                "-cp",
                                System.getProperty("java.class.path"),
                                CountingCost.class.getName(),
                                path,
                                "" + countingFirst)
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
        String said = new String(jvm.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        if (jvm.waitFor() != 0) {
            throw new AssertionError("a JVM ended with " + jvm.exitValue());
        }
        return said.strip();
    }

    /// Prints how many nanoseconds a write takes with counters and without, in the quickest round
    /// of each: whatever disturbs a round makes it longer.
    private static void pair(String path, boolean countingFirst) throws Exception {
        LongUnaryOperator[] rows = new LongUnaryOperator[2];
        double[] quickest = {Double.MAX_VALUE, Double.MAX_VALUE};
        rows[0] = row(countingFirst, path);
        rows[1] = row(!countingFirst, path);
        long times = 1000;
        while (rows[0].applyAsLong(times) < ROUND_NANOS) {
            times *= 2;
        }
        for (int round = -WARM_UP; round < ROUNDS; round++) {
            for (int i = 0; i < 2; i++) {
                double nanos = rows[i].applyAsLong(times) / (double) times;
                if (round >= 0) {
                    quickest[i] = Math.min(quickest[i], nanos);
                }
            }
        }
        System.out.println(quickest[countingFirst ? 0 : 1] + " " + quickest[countingFirst ? 1 : 0]);
        System.exit(0); // the engines' threads are daemons, their endpoints go with the process
    }

    private static double quantile(double[] values, double part) {
        return Arrays.stream(values).sorted().toArray()[(int) (values.length * part)];
    }

    private static String text(double[] values) {
        return "%.2f (%.2f to %.2f)"
                .formatted(quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75));
    }

    private static LongUnaryOperator row(boolean counting, String path) throws Exception {
        Class<?> loaded = new Copy(counting).loadClass(CountingCost.class.getName() + "$Row");
        Constructor<?> made = loaded.getDeclaredConstructor(String.class);
        made.setAccessible(true); // another loader, so another package
        LongUnaryOperator row = (LongUnaryOperator) made.newInstance(path);
        long counted = row.applyAsLong(-1000);
        if (counted != (counting ? 1000 : 0)) {
            throw new AssertionError(
                    "counted %d of 1000, counting %b".formatted(counted, counting));
        }
        return row;
    }

    /// A copy of the engine, with or without its counters.
    private static final class Copy extends ClassLoader {
        private final boolean counting;

        Copy(boolean counting) {
            super(CountingCost.class.getClassLoader());
            this.counting = counting;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.startsWith("io.telpher.")) {
                return super.loadClass(name, resolve);
            }
            synchronized (getClassLoadingLock(name)) {
                Class<?> loaded = findLoadedClass(name);
                return loaded == null ? define(name) : loaded;
            }
        }

        private Class<?> define(String name) throws ClassNotFoundException {
            try (InputStream in = getResourceAsStream(name.replace('.', '/') + ".class")) {
                if (in == null) {
                    throw new ClassNotFoundException(name);
                }
                byte[] bytes = in.readAllBytes();
                if (!counting) {
                    bytes = withoutCounters(bytes);
                }
                return defineClass(name, bytes, 0, bytes.length);
            } catch (IOException e) {
                throw new ClassNotFoundException(name, e);
            }
        }

        private static byte[] withoutCounters(byte[] bytes) {
            CodeTransform drop =
                    (code, element) -> {
                        if (element instanceof FieldInstruction store
                                && store.opcode() == Opcode.PUTFIELD
                                && isCounter(store)) {
                            code.pop2().pop(); // the value, a long, and its object
                        } else {
                            code.with(element);
                        }
                    };
            return ClassFile.of()
                    .transformClass(
                            ClassFile.of().parse(bytes),
                            ClassTransform.transformingMethodBodies(drop));
        }

        private static boolean isCounter(FieldInstruction store) {
            String owner = store.owner().asInternalName();
            String simple = owner.substring(owner.lastIndexOf('/') + 1);
            return COUNTERS.getOrDefault(simple, Set.of()).contains(store.name().stringValue());
        }
    }

    /// Two connected endpoints. Takes how many writes to make, and answers how many nanoseconds
    /// they took; for a negative number of them, how many were counted.
    static final class Row implements LongUnaryOperator {
        private final Connection connection;
        private final MemoryRegion source;
        private final RemoteMemory target;

        Row(String path) throws Exception {
            EndpointOptions options =
                    EndpointOptions.DEFAULTS
                            .withTransports(List.of("shm"))
                            .withPaths(List.of(path, "shm-ring"));
            Endpoint one = Endpoint.open(options);
            Endpoint other = Endpoint.open(options);
            CompletableFuture<Connection> accepted =
                    CompletableFuture.supplyAsync(() -> other.accept(LIMIT));
            connection = one.connect(other.address(), LIMIT);
            accepted.get();
            source = one.allocate(BYTES);
            target = other.allocate(BYTES).remote();
            applyAsLong(1); // opens the window
        }

        @Override
        public long applyAsLong(long times) {
            if (times < 0) {
                long before = counted();
                applyAsLong(-times);
                return counted() - before;
            }
            long start = System.nanoTime();
            for (long i = 0; i < times; i++) {
                write();
            }
            return System.nanoTime() - start;
        }

        private long counted() {
            return connection.metrics().paths().stream()
                    .mapToLong(ConnectionMetrics.Path::transfersDone)
                    .sum();
        }

        private void write() {
            long token = connection.tryWrite(source, 0, target, 0, BYTES);
            int result;
            do {
                result = connection.poll(token);
            } while (result == Connection.PENDING);
            if (result != Connection.DONE) {
                throw new AssertionError(result);
            }
        }
    }
}
