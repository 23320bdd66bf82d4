package io.telpher.cli.doctor;

import java.util.List;

/// The JVM's version and flags.
final class JavaCheck implements Check {
    @Override
    public String name() {
        return "java";
    }

    @Override
    public List<Finding> examine(Host host) {
        String version =
                "%s %s, %s"
                        .formatted(
                                System.getProperty("java.vm.name"),
                                Runtime.version(),
                                System.getProperty("java.home"));
        if (!host.probes().nativeAccess()) {
            return List.of(
                    Finding.warning(
                            name(),
                            "the engine calls the system without leave: the JVM prints a warning,"
                                    + " and a later Java will refuse",
                            version + "; native access = not enabled",
                            "start java with --enable-native-access=io.telpher.engine on the"
                                    + " module path, or ALL-UNNAMED on the class path",
                            "the JVM's warning about restricted methods is gone"));
        }
        return List.of(Finding.info(name(), "native access is enabled for the engine", version));
    }
}
