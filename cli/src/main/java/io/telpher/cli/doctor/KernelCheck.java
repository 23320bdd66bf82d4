package io.telpher.cli.doctor;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// The kernel's version: what older ones lack is worked around, at a price.
final class KernelCheck implements Check {
    private static final String RELEASE = "/proc/sys/kernel/osrelease";
    private static final Pattern VERSION = Pattern.compile("(\\d+)\\.(\\d+).*", Pattern.DOTALL);

    @Override
    public String name() {
        return "kernel";
    }

    @Override
    public List<Finding> examine(Host host) {
        String evidence = host.evidence(RELEASE);
        Matcher version = VERSION.matcher(host.read(RELEASE).orElse(""));
        if (!version.matches()) {
            return List.of(Finding.info(name(), "the kernel's version is not known", evidence));
        }
        int number = Integer.parseInt(version.group(1)) * 1000 + Integer.parseInt(version.group(2));
        if (number < 5_003) {
            return List.of(
                    Finding.warning(
                            name(),
                            "before Linux 5.3 there is no pidfd: the end of a peer process is"
                                    + " noticed by its socket only",
                            evidence,
                            "use Linux 5.14 or newer",
                            "uname -r"));
        }
        if (number < 5_014) {
            return List.of(
                    Finding.info(
                            name(),
                            "works; since Linux 5.14 a lack of memory is told when it is allocated",
                            evidence));
        }
        return List.of(Finding.info(name(), "has everything that Telpher uses", evidence));
    }
}
