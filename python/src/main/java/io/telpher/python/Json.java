package io.telpher.python;

import java.lang.reflect.RecordComponent;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Records as JSON, for Python's dictionaries: components under their names in Python's spelling,
/// times as seconds.
final class Json {
    private Json() {}

    static String of(@Nullable Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(@Nullable Object value, StringBuilder out) {
        switch (value) {
            case null -> out.append("null");
            case Number number -> out.append(number);
            case Boolean truth -> out.append(truth);
            case Duration time -> out.append(time.toNanos() / 1e9);
            case List<?> list -> {
                out.append('[');
                for (Iterator<?> each = list.iterator(); each.hasNext(); ) {
                    write(each.next(), out);
                    out.append(each.hasNext() ? "," : "");
                }
                out.append(']');
            }
            case Record record -> {
                out.append('{');
                String comma = "";
                for (RecordComponent component : record.getClass().getRecordComponents()) {
                    out.append(comma);
                    quote(snake(component.getName()), out);
                    out.append(':');
                    write(read(record, component), out);
                    comma = ",";
                }
                out.append('}');
            }
            default -> quote(value.toString(), out);
        }
    }

    private static @Nullable Object read(Record record, RecordComponent component) {
        try {
            return component.getAccessor().invoke(record);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(component + " cannot be read", e);
        }
    }

    private static String snake(String name) {
        StringBuilder out = new StringBuilder();
        for (char c : name.toCharArray()) {
            if (Character.isUpperCase(c)) {
                out.append('_');
            }
            out.append(Character.toLowerCase(c));
        }
        return out.toString();
    }

    private static void quote(String text, StringBuilder out) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append("\\u%04x".formatted((int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
