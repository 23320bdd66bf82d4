package io.telpher.cli.doctor;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;

/// The second process of `doctor` and `explain`. Talks by lines, its own marked by
/// [Helper#MARK]: it starts with `here ADDRESS DESCRIPTOR`, a word and a descriptor for others to
/// reach, and then answers
///
/// - `reach PID ADDRESS DESCRIPTOR VALUE`, which it tries, by `reached WRITE-ERRNO GETFD-CALL
///   GETFD-ERRNO WORD`: what came of it, and what is in its own word now;
/// - `listen` by `address TEXT`: where it listens, with a region that is named [#REGION];
/// - `load PCI-ADDRESS`, upon which it copies to that GPU until `unload`, another `load` or its
///   end, by `loading`, or by `unloaded` and why;
/// - `unload` by `copied` where it has copied until then, or by `unloaded` and why not.
@Command(
        name = Helper.COMMAND,
        hidden = true,
        description = "The second process of telpher doctor and explain; started by them.")
public final class HelperCommand implements Runnable {
    /// The name of the region that it publishes, and its size in bytes.
    static final String REGION = "doctor";

    static final int REGION_BYTES = 64 << 10;

    @Override
    public void run() {
        PrintStream answers = System.out;
        System.setOut(System.err); // nothing else may get between the answers
        Listener listener = new Listener();
        GpuLoad load = new GpuLoad();
        try (Reach mine = new Reach();
                BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8))) {
            answers.println(Helper.MARK + "here " + mine.text());
            String line;
            while ((line = in.readLine()) != null) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "reach" -> answers.println(Helper.MARK + reach(mine, words));
                    case "listen" -> answers.println(Helper.MARK + "address " + listener.open());
                    case "load" -> {
                        load.close();
                        load = new GpuLoad();
                        answers.println(Helper.MARK + load.begin(words[1]));
                    }
                    case "unload" -> answers.println(Helper.MARK + load.end());
                    default -> answers.println(Helper.MARK + "unknown " + words[0]);
                }
            }
        } catch (IOException e) {
            // The parent is gone.
        } finally {
            load.close();
            listener.close();
        }
    }

    private static String reach(Reach mine, String[] words) {
        int pid = Integer.parseInt(words[1]);
        Probes.Result written = mine.write(pid, Long.parseLong(words[2]), Long.parseLong(words[4]));
        Probes.Result copied = mine.copyDescriptor(pid, Integer.parseInt(words[3]));
        return "reached %d %s %d %d"
                .formatted(written.error(), copied.call(), copied.error(), mine.value());
    }

    /// The endpoint that is opened on demand.
    private static final class Listener {
        private @Nullable Endpoint endpoint;

        String open() {
            // The port may be taken by the very program that is being examined.
            Endpoint opened =
                    Endpoint.open(EndpointOptions.fromEnvironment().withPort(0).withSecret(null));
            endpoint = opened;
            opened.publish(REGION, opened.allocate(REGION_BYTES));
            return opened.address().text();
        }

        void close() {
            Endpoint opened = endpoint;
            if (opened != null) {
                opened.close();
            }
        }
    }
}
