package io.telpher.cli.doctor;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/// A machine that was written down: `src/test/resources/doctor/NAME.txt`. Sections start with `===`
/// and a path, `link` and a path, `nic` and a name, or `env` and a name.
final class RecordedHost {
    private RecordedHost() {}

    static Host load(String name, Path folder, Probes probes) throws IOException {
        String text;
        try (InputStream in = RecordedHost.class.getResourceAsStream("/doctor/" + name + ".txt")) {
            text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
        Map<String, String> environment = new HashMap<>();
        List<Nic> nics = new ArrayList<>();
        for (String section : text.split("(?m)^=== ")) {
            if (section.startsWith("#")) {
                continue;
            }
            int line = section.indexOf('\n');
            String[] head = section.substring(0, line).split(" ");
            String body = section.substring(line + 1);
            switch (head[0]) {
                case "link" -> Files.createSymbolicLink(at(folder, head[1]), Path.of(body.strip()));
                case "nic" -> nics.add(nic(head[1], body));
                case "env" -> environment.put(head[1], body.strip());
                default -> Files.writeString(at(folder, head[0]), body);
            }
        }
        return new Host(folder, environment, nics, probes);
    }

    private static Path at(Path folder, String path) throws IOException {
        Path file = folder.resolve(path.substring(1));
        Files.createDirectories(file.getParent());
        return file;
    }

    private static Nic nic(String name, String addresses) {
        List<Nic.Subnet> all = new ArrayList<>();
        for (String address : addresses.strip().split("\\s+")) {
            String[] parts = address.split("/");
            all.add(new Nic.Subnet(InetAddress.ofLiteral(parts[0]), Integer.parseInt(parts[1])));
        }
        return new Nic(name, false, all);
    }
}
