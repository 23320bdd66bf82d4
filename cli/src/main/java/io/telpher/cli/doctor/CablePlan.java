package io.telpher.cli.doctor;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// Which port of this machine should be cabled to whom: lines `PORT ADDRESS`, where the port is an
/// RDMA device (`mlx5_0`, `mlx5_0/2`) or an interface, and the address is the peer's on that cable.
/// What follows the address, empty lines and `#` are for people.
///
/// @param file where it was read
record CablePlan(Path file, List<Cable> cables) {
    /// One line.
    ///
    /// @param port of this machine
    /// @param peer the address at the other end
    record Cable(String port, InetAddress peer) {}

    /// @throws IllegalArgumentException when it cannot be understood: names the line
    static CablePlan read(Path file) throws IOException {
        List<Cable> cables = new ArrayList<>();
        List<String> lines = Files.readAllLines(file);
        for (int i = 0; i < lines.size(); i++) {
            String line = lines.get(i).replaceAll("#.*", "").strip();
            if (line.isEmpty()) {
                continue;
            }
            String[] words = line.split("\\s+");
            try {
                if (words.length < 2) {
                    throw new IllegalArgumentException("no address");
                }
                cables.add(new Cable(words[0], InetAddress.ofLiteral(words[1])));
            } catch (IllegalArgumentException e) {
                throw new IllegalArgumentException(
                        "%s:%d: '%s': write a port and the peer's address, such as mlx5_0 10.0.1.2"
                                .formatted(file, i + 1, line),
                        e);
            }
        }
        if (cables.isEmpty()) {
            throw new IllegalArgumentException(file + " names no cable");
        }
        return new CablePlan(file, List.copyOf(cables));
    }
}
