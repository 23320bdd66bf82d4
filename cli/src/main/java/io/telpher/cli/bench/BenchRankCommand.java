package io.telpher.cli.bench;

import java.io.PrintStream;
import picocli.CommandLine.Command;

/// The other processes of `telpher bench`: talks to the driver over standard input and output.
@Command(
        name = RankProcess.COMMAND,
        hidden = true,
        description = "Runs one process of telpher bench; started by it.")
public final class BenchRankCommand implements Runnable {
    @Override
    public void run() {
        PrintStream messages = System.out;
        System.setOut(System.err); // nothing else may get between the messages
        boolean unused = new RankServer(new StreamControl(System.in, messages, () -> null)).serve();
    }
}
