package io.telpher.contract;

import io.telpher.EndpointOptions;
import java.util.List;

/// The paths that the contract is tested on, each with the options that leave no other choice.
enum TestPath {
    /// Both endpoints in one process.
    SELF("self", List.of(), List.of("self")),
    /// Memory that Telpher allocated, mapped by the peer. Other memory goes through the ring.
    MAPPED("mapped", List.of("shm"), List.of("mapped", "shm-ring")),
    /// Any memory, by `process_vm_writev` and `process_vm_readv`.
    CMA("cma", List.of("shm"), List.of("cma", "shm-ring")),
    /// Any memory, through a shared ring.
    RING("shm-ring", List.of("shm"), List.of("shm-ring")),
    /// Any memory, over sockets.
    TCP("tcp", List.of("tcp"), List.of("tcp"));

    private final String path;
    private final List<String> transports;
    private final List<String> paths;

    TestPath(String path, List<String> transports, List<String> paths) {
        this.path = path;
        this.transports = transports;
        this.paths = paths;
    }

    /// @return the name that the engine gives to the path
    String path() {
        return path;
    }

    /// @return the same options, restricted to this path
    EndpointOptions restrict(EndpointOptions options) {
        return options.withTransports(transports).withPaths(paths);
    }

    /// @return whether the initiator of a write or read moves the bytes without the owner's help
    boolean oneSided() {
        return this == SELF || this == MAPPED || this == CMA;
    }

    /// @return whether the path's two ends can be in different processes
    boolean crossesProcesses() {
        return this != SELF;
    }
}
