package io.telpher.cli.bench;

import java.util.OptionalLong;

/// What another program reached.
///
/// @param system its name: `ucx`, `iperf3`, `memcpy`, `nixl`, ...
/// @param version its version
/// @param client the language that calls it: `c`, `java`, `python`
/// @param tool which of its tests: `ucp_put_bw`, `-P 2`
/// @param transport the word that Telpher uses for it
/// @param path the way its bytes took, in its own words
/// @param memory `own` for its host memory, else the kinds that it stands for, such as `cuda:cuda`
/// @param op our word for what its test does
/// @param settings how it was called
/// @param iterations operations, 0 when unknown
/// @param gbps payload in 1e9 bytes a second, or NaN
/// @param usP50 median in microseconds, or NaN
/// @param usP99 99th percentile in microseconds, or NaN
/// @param cpuPerGb processor seconds of both sides for 1e9 bytes, or NaN
/// @param wrong bytes that were not what was sent; empty where its test does not look
record PeerResult(
        String system,
        String version,
        String client,
        String tool,
        String transport,
        String path,
        String memory,
        String op,
        String settings,
        long iterations,
        double gbps,
        double usP50,
        double usP99,
        double cpuPerGb,
        OptionalLong wrong) {
    /// Whether data was found wrong: then the rest says nothing.
    boolean isWrong() {
        return wrong.orElse(0) > 0;
    }
}
