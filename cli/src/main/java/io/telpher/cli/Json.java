package io.telpher.cli;

import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Writes JSON: flat objects, one per line, are all that the tools put out.
public final class Json {
    private Json() {}

    /// @return a JSON object; numbers that are not finite become null
    public static String object(Map<String, ? extends @Nullable Object> fields) {
        StringBuilder json = new StringBuilder("{");
        for (Map.Entry<String, ? extends @Nullable Object> field : fields.entrySet()) {
            if (json.length() > 1) {
                json.append(',');
            }
            quote(json, field.getKey());
            json.append(':');
            value(json, field.getValue());
        }
        return json.append('}').toString();
    }

    private static void value(StringBuilder json, @Nullable Object value) {
        switch (value) {
            case null -> json.append("null");
            case Double d when !Double.isFinite(d) -> json.append("null");
            case Double d -> json.append(decimal(d));
            case Number n -> json.append(n);
            case Boolean b -> json.append(b);
            default -> quote(json, value.toString());
        }
    }

    /// Six significant digits, without an exponent.
    private static String decimal(double value) {
        if (value == 0) {
            return "0";
        }
        int digits = Math.clamp(5 - (int) Math.floor(Math.log10(Math.abs(value))), 0, 12);
        String text = String.format(Locale.ROOT, "%." + digits + "f", value);
        return digits == 0 ? text : text.replaceFirst("\\.?0+$", "");
    }

    private static void quote(StringBuilder json, String text) {
        json.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            switch (c) {
                case '"' -> json.append("\\\"");
                case '\\' -> json.append("\\\\");
                case '\n' -> json.append("\\n");
                case '\t' -> json.append("\\t");
                default -> {
                    if (c < ' ') {
                        json.append(String.format(Locale.ROOT, "\\u%04x", (int) c));
                    } else {
                        json.append(c);
                    }
                }
            }
        }
        json.append('"');
    }
}
