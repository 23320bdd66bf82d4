package io.telpher.cli.soak;

import io.telpher.EndpointOptions;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/// The paths that are soaked, each with the options that leave no other choice.
enum SoakPath {
    /// Memory that Telpher allocated, mapped by the peer; other memory goes through the ring.
    MAPPED("mapped", "shm", List.of("mapped", "shm-ring"), 85),
    /// Any memory, by system calls.
    CMA("cma", "shm", List.of("cma", "shm-ring"), 30),
    RING("shm-ring", "shm", List.of("shm-ring"), 50),
    TCP("tcp", "tcp", List.of("tcp"), 50),
    /// Two endpoints of each process.
    SELF("self", "self", List.of("self"), 50);

    private final String text;
    private final String transport;
    private final List<String> paths;
    private final int telpherShare;

    SoakPath(String text, String transport, List<String> paths, int telpherShare) {
        this.text = text;
        this.transport = transport;
        this.paths = paths;
        this.telpherShare = telpherShare;
    }

    /// @throws IllegalArgumentException when there is no such path
    static SoakPath parse(String name) {
        return Arrays.stream(values())
                .filter(path -> path.text.equals(name))
                .findFirst()
                .orElseThrow(
                        () ->
                                new IllegalArgumentException(
                                        "there is no path '%s': take some of %s"
                                                .formatted(name, names())));
    }

    static String names() {
        return Arrays.stream(values()).map(p -> p.text).collect(Collectors.joining(", "));
    }

    /// @return the engine's name of it
    String text() {
        return text;
    }

    String transport() {
        return transport;
    }

    /// @return how many of a hundred inboxes Telpher allocates
    int telpherShare() {
        return telpherShare;
    }

    /// @return options that allow this path alone
    EndpointOptions options() {
        return EndpointOptions.DEFAULTS
                .withTransports(this == SELF ? List.of() : List.of(transport))
                .withPaths(paths)
                .withDeadline(Conversation.DEADLINE);
    }
}
