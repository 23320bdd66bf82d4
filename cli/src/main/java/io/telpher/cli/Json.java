package io.telpher.cli;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Writes and reads JSON: flat objects, one per line, are all that the tools put out.
public final class Json {
    private static final JsonFactory FACTORY = new JsonFactory();

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

    /// Reads one object as [#object(Map)] writes them.
    ///
    /// @return its fields in order: texts, longs, doubles, booleans; those that are null are
    ///     left out
    /// @throws IllegalArgumentException when it is none, or has objects or lists inside
    public static Map<String, Object> parse(String text) {
        Map<String, Object> fields = new LinkedHashMap<>();
        try (JsonParser parser = FACTORY.createParser(text)) {
            expect(parser.nextToken() == JsonToken.START_OBJECT, text);
            String name;
            while ((name = parser.nextFieldName()) != null) {
                switch (parser.nextToken()) {
                    case VALUE_STRING -> fields.put(name, parser.getText());
                    case VALUE_NUMBER_INT -> fields.put(name, parser.getLongValue());
                    case VALUE_NUMBER_FLOAT -> fields.put(name, parser.getDoubleValue());
                    case VALUE_TRUE, VALUE_FALSE -> fields.put(name, parser.getBooleanValue());
                    case VALUE_NULL -> {}
                    default -> expect(false, text);
                }
            }
            expect(parser.currentToken() == JsonToken.END_OBJECT, text);
            expect(parser.nextToken() == null, text);
        } catch (IOException e) {
            throw new IllegalArgumentException("no JSON object: " + text, e);
        }
        return fields;
    }

    private static void expect(boolean flat, String text) {
        if (!flat) {
            throw new IllegalArgumentException("no flat JSON object: " + text);
        }
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
