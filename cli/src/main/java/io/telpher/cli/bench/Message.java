package io.telpher.cli.bench;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/// What the processes of a run tell each other: a verb and named values, as one line of text.
///
/// @param verb what is asked or answered
/// @param values names and values, in order
record Message(String verb, Map<String, String> values) {
    static Message of(String verb) {
        return new Message(verb, Map.of());
    }

    /// @return the same with one more value
    Message with(String name, Object value) {
        Map<String, String> more = new LinkedHashMap<>(values);
        more.put(name, String.valueOf(value));
        return new Message(verb, more);
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new BenchFailure("a '" + verb + "' message lacks '" + name + "'");
        }
        return value;
    }

    long number(String name) {
        return Long.parseLong(text(name));
    }

    double decimal(String name) {
        return Double.parseDouble(text(name));
    }

    boolean has(String name) {
        return values.containsKey(name);
    }

    /// Puts messages into one.
    static Message combine(String verb, List<Message> parts) {
        Message all = of(verb);
        for (int i = 0; i < parts.size(); i++) {
            all = all.with("rank" + i, new String(parts.get(i).encode(), UTF_8));
        }
        return all;
    }

    /// @return the messages that [#combine] put into one
    static List<Message> all(Message message) {
        List<Message> parts = new ArrayList<>();
        for (int i = 0; message.has("rank" + i); i++) {
            parts.add(decode(message.text("rank" + i).getBytes(UTF_8)));
        }
        return parts;
    }

    byte[] encode() {
        StringBuilder line = new StringBuilder(verb);
        values.forEach(
                (name, value) ->
                        line.append(' ')
                                .append(name)
                                .append('=')
                                .append(URLEncoder.encode(value, UTF_8)));
        return line.toString().getBytes(UTF_8);
    }

    static Message decode(byte[] bytes) {
        String[] words = new String(bytes, UTF_8).split(" ");
        Map<String, String> values = new LinkedHashMap<>();
        for (int i = 1; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            if (equals < 1) {
                throw new BenchFailure(
                        "'" + words[i] + "' in a '" + words[0] + "' message has no name");
            }
            values.put(
                    words[i].substring(0, equals),
                    URLDecoder.decode(words[i].substring(equals + 1), UTF_8));
        }
        return new Message(words[0], values);
    }
}
