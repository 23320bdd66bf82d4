package io.telpher.topology;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// An element of NCCL's XML. Mutable while a tree is being made by one thread; a [Topology] keeps
/// its tree to itself and never changes it.
final class Element {
    private static final String INDENT = "  ";

    final String name;
    final Map<String, String> attributes = new LinkedHashMap<>();
    final List<Element> children = new ArrayList<>();

    Element(String name) {
        this.name = name;
    }

    /// @return an element that stands for a machine with nothing in it
    static Element system() {
        return new Element("system").with("version", "1");
    }

    Element with(String attribute, String value) {
        attributes.put(attribute, value);
        return this;
    }

    Element with(String attribute, long value) {
        return with(attribute, Long.toString(value));
    }

    /// Sets what is known, and nothing otherwise.
    Element withKnown(String attribute, String value) {
        return value.isEmpty() ? this : with(attribute, value);
    }

    /// @return the child
    Element add(Element child) {
        children.add(child);
        return child;
    }

    /// @return the attribute's value; empty when it has none
    String text(String attribute) {
        return attributes.getOrDefault(attribute, "");
    }

    /// @return the attribute as a number, decimal or `0x` and hexadecimal
    /// @throws IllegalArgumentException when it is none: names the element and the attribute
    int number(String attribute, int absent) {
        String text = text(attribute).strip();
        if (text.isEmpty()) {
            return absent;
        }
        try {
            return Math.toIntExact(Long.decode(text));
        } catch (NumberFormatException | ArithmeticException e) {
            throw new IllegalArgumentException(
                    "<%s %s>: %s=\"%s\" is no number"
                            .formatted(name, text(firstAttribute()), attribute, text),
                    e);
        }
    }

    private String firstAttribute() {
        return attributes.isEmpty() ? "" : attributes.keySet().iterator().next();
    }

    List<Element> children(String wanted) {
        return children.stream().filter(child -> child.name.equals(wanted)).toList();
    }

    @Nullable Element child(String wanted) {
        return children.stream().filter(c -> c.name.equals(wanted)).findFirst().orElse(null);
    }

    /// @return the first child of that name with that value of an attribute
    @Nullable Element child(String wanted, String attribute, String value) {
        return children.stream()
                .filter(c -> c.name.equals(wanted) && c.text(attribute).equals(value))
                .findFirst()
                .orElse(null);
    }

    /// Shows this element and all below it, from above to below.
    void walk(Consumer<Element> visitor) {
        visitor.accept(this);
        children.forEach(child -> child.walk(visitor));
    }

    /// @return the same without the children
    Element shallowCopy() {
        Element copy = new Element(name);
        copy.attributes.putAll(attributes);
        return copy;
    }

    /// Writes what NCCL's own parser takes: no declaration, one element on a line, one space
    /// before each attribute.
    String toXml() {
        StringBuilder text = new StringBuilder();
        write(text, 0);
        return text.toString();
    }

    private void write(StringBuilder text, int depth) {
        text.repeat(INDENT, depth).append('<').append(name);
        attributes.forEach(
                (key, value) -> {
                    text.append(' ').append(key).append("=\"");
                    escape(text, value);
                    text.append('"');
                });
        if (children.isEmpty()) {
            text.append("/>\n");
            return;
        }
        text.append(">\n");
        children.forEach(child -> child.write(text, depth + 1));
        text.repeat(INDENT, depth).append("</").append(name).append(">\n");
    }

    /// Line breaks and other controls become spaces: NCCL takes an element from one line.
    private static void escape(StringBuilder text, String value) {
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            switch (c) {
                case '&' -> text.append("&amp;");
                case '<' -> text.append("&lt;");
                case '>' -> text.append("&gt;");
                case '"' -> text.append("&quot;");
                default -> text.append(c < ' ' ? ' ' : c);
            }
        }
    }
}
