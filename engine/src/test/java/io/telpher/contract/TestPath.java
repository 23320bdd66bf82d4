package io.telpher.contract;

import io.telpher.EndpointOptions;
import io.telpher.internal.transport.verbs.FakeVerbs;
import java.util.List;

/// The paths that the contract is tested on, each with the options that leave no other choice.
enum TestPath {
    /// Both endpoints in one process.
    SELF("self", List.of(), List.of("self"), Place.ONE),
    /// Memory that Telpher allocated, mapped by the peer. Other memory goes through the ring.
    MAPPED("mapped", List.of("shm"), List.of("mapped", "shm-ring"), Place.ONE, Place.TWO),
    /// Any memory, by `process_vm_writev` and `process_vm_readv`.
    CMA("cma", List.of("shm"), List.of("cma", "shm-ring"), Place.ONE, Place.TWO),
    /// Any memory, through a shared ring.
    RING("shm-ring", List.of("shm"), List.of("shm-ring"), Place.ONE, Place.CHECKED, Place.TWO),
    /// Any memory, over sockets.
    TCP("tcp", List.of("tcp"), List.of("tcp"), Place.values()),
    /// Any memory, by RDMA writes and reads of the NIC: of a double inside this process, or of this
    /// machine's devices. Messages go through rings.
    VERBS(
            "verbs",
            List.of("verbs"),
            List.of("verbs", "verbs-ring"),
            FakeVerbs.isReal() ? new Place[] {Place.ONE, Place.TWO} : new Place[] {Place.ONE}),
    /// Memory of GPUs, of both endpoints in one process. What Telpher does not allocate is the
    /// host's on all of these paths.
    CUDA_DIRECT(
            "cuda-direct", List.of("shm"), List.of("cuda-direct", "self", "shm-ring"), Place.ONE),
    /// Memory of GPUs of two processes.
    CUDA_CUMEM(
            "cuda-cumem", List.of("shm"), List.of("cuda-cumem", "mapped", "shm-ring"), Place.TWO),
    /// Memory of GPUs of two processes, between which a third GPU copies.
    CUDA_VIA(
            "cuda-via-gpu",
            List.of("shm"),
            List.of("cuda-via-gpu", "mapped", "shm-ring"),
            Place.TWO),
    /// Memory of GPUs that travels by a ring, staged at both ends. (The second path, of a transport
    /// that is not allowed, has no effect: it tells both sides to use GPUs.)
    CUDA_RING("shm-ring", List.of("shm"), List.of("shm-ring", "tcp"), Place.ONE),
    /// Memory of GPUs that travels by sockets, staged at both ends.
    CUDA_TCP("tcp", List.of("tcp"), List.of("tcp", "shm-ring"), Place.ONE);

    private final String path;
    private final List<String> transports;
    private final List<String> paths;
    private final List<Place> places;

    TestPath(String path, List<String> transports, List<String> paths, Place... places) {
        this.path = path;
        this.transports = transports;
        this.paths = paths;
        this.places = List.of(places);
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
        return this == SELF
                || this == MAPPED
                || this == CMA
                || this == CUDA_DIRECT
                || this == CUDA_CUMEM
                || this == CUDA_VIA;
    }

    /// @return whether memory that Telpher allocates is a GPU's
    boolean isOnGpus() {
        return compareTo(CUDA_DIRECT) >= 0;
    }

    /// @return whether an endpoint's options are those of a path on GPUs
    static boolean isOnGpus(EndpointOptions options) {
        return options.paths().stream().anyMatch(path -> path.startsWith("cuda-"))
                || options.paths().containsAll(List.of("shm-ring", "tcp"));
    }

    /// @return where the path's other end can be
    List<Place> places() {
        return places;
    }

    @Override
    public String toString() {
        return path;
    }
}
