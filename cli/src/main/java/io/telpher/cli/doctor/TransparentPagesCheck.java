package io.telpher.cli.doctor;

import java.util.List;

/// Transparent huge pages: good for large buffers, but collecting them can stop a thread for
/// milliseconds.
final class TransparentPagesCheck implements Check {
    private static final String ENABLED = "/sys/kernel/mm/transparent_hugepage/enabled";
    private static final String DEFRAG = "/sys/kernel/mm/transparent_hugepage/defrag";

    @Override
    public String name() {
        return "transparent-huge-pages";
    }

    @Override
    public List<Finding> examine(Host host) {
        String enabled = chosen(host.read(ENABLED).orElse(""));
        String defrag = chosen(host.read(DEFRAG).orElse(""));
        String evidence = host.evidence(ENABLED) + "; " + host.evidence(DEFRAG);
        if (enabled.equals("always") && defrag.equals("always")) {
            return List.of(
                    Finding.warning(
                            name(),
                            "every touch of new memory may wait while the kernel moves pages:"
                                    + " pauses of milliseconds",
                            evidence,
                            "echo madvise > " + DEFRAG,
                            "cat " + DEFRAG));
        }
        return List.of(
                Finding.info(
                        name(),
                        enabled.isEmpty() ? "this kernel has none" : "set to " + enabled,
                        evidence));
    }

    /// @param choices such as `always [madvise] never`
    /// @return the one in brackets, empty when there is none
    static String chosen(String choices) {
        int open = choices.indexOf('[');
        int close = choices.indexOf(']', open + 1);
        return open < 0 || close < 0 ? "" : choices.substring(open + 1, close);
    }
}
