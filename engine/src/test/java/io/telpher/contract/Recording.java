package io.telpher.contract;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;

/// Bytes that an earlier version has said, by name: a resource with a name and hexadecimal digits
/// in each line, and comments behind `#`.
public final class Recording {
    private Recording() {}

    /// @param beside the class in whose package the resource is
    public static Map<String, byte[]> of(Class<?> beside, String file) {
        try (var stream = beside.getResourceAsStream(file)) {
            String text = new String(stream.readAllBytes(), StandardCharsets.UTF_8);
            Map<String, byte[]> found = new LinkedHashMap<>();
            text.lines()
                    .filter(line -> !line.startsWith("#"))
                    .map(line -> line.split(" "))
                    .forEach(line -> found.put(line[0], HexFormat.of().parseHex(line[1])));
            return found;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
