package io.telpher.cli.soak;

import java.io.IOException;
import java.io.PrintStream;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;

/// The processes of `telpher soak`: talk to the driver by lines.
@Command(
        name = SoakRankCommand.NAME,
        hidden = true,
        description = "Runs one process of telpher soak; started by it.")
public final class SoakRankCommand implements Callable<Integer> {
    static final String NAME = "soak-rank";

    @Override
    public Integer call() throws IOException {
        PrintStream driver = System.out;
        System.setOut(System.err); // nothing else may get between the lines
        SoakRank.run(driver);
        return 0;
    }
}
