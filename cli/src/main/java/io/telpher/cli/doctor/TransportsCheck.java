package io.telpher.cli.doctor;

import io.telpher.spi.Availability;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/// What each transport says of this machine.
final class TransportsCheck implements Check {
    /// Those that every Linux machine can be expected to have; others depend on devices.
    private static final List<String> EVERYWHERE = List.of("shm", "tcp");

    @Override
    public String name() {
        return "transports";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        int usable = 0;
        for (Map.Entry<String, Availability> one : host.probes().transports().entrySet()) {
            String transport = one.getKey();
            switch (one.getValue()) {
                case Availability.Available available -> {
                    usable++;
                    found.add(Finding.info(name(), transport + ": works", available.detail()));
                }
                case Availability.Missing missing ->
                        found.add(
                                EVERYWHERE.contains(transport)
                                        ? Finding.warning(
                                                name(),
                                                transport + ": does not work here",
                                                missing.reason(),
                                                missing.remedy(),
                                                "telpher explain")
                                        : Finding.info(
                                                name(),
                                                transport + ": not here; " + missing.remedy(),
                                                missing.reason()));
            }
        }
        if (usable == 0) {
            found.add(
                    Finding.error(
                            name(),
                            "no transport works: no endpoint opens",
                            found.size() + " transports were tried",
                            "see the findings of the single transports",
                            "telpher explain"));
        }
        return found;
    }
}
