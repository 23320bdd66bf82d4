package io.telpher.topology;

import java.io.StringReader;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamException;
import javax.xml.stream.XMLStreamReader;

/// Reads NCCL's XML. The text may come from anywhere: there are no DTDs and no entities, and its
/// size and depth are bounded.
final class XmlReader {
    /// The largest that NCCL itself takes is far below.
    static final int MAX_CHARACTERS = 16 << 20;

    private static final int MAX_DEPTH = 64;
    private static final int MAX_ELEMENTS = 100_000;

    /// What may be inside of what; anything else is left out with all that is in it, as NCCL does.
    private static final Map<String, List<String>> INSIDE =
            Map.of(
                    "system", List.of("cpu"),
                    "cpu", List.of("pci", "nic"),
                    "pci", List.of("pci", "gpu", "nic", "pcilink"),
                    "gpu", List.of("nvlink", "c2c"),
                    "nic", List.of("net"));

    private XmlReader() {}

    /// @throws IllegalArgumentException when it is not NCCL's XML: says what and where
    static Element parse(String xml) {
        if (xml.length() > MAX_CHARACTERS) {
            throw new IllegalArgumentException(
                    "a topology of %d characters; the most is %d"
                            .formatted(xml.length(), MAX_CHARACTERS));
        }
        XMLInputFactory factory = XMLInputFactory.newDefaultFactory();
        factory.setProperty(XMLInputFactory.SUPPORT_DTD, false);
        factory.setProperty(XMLInputFactory.IS_SUPPORTING_EXTERNAL_ENTITIES, false);
        factory.setProperty(XMLInputFactory.IS_REPLACING_ENTITY_REFERENCES, false);
        try {
            XMLStreamReader reader = factory.createXMLStreamReader(new StringReader(xml));
            try {
                return read(reader);
            } finally {
                reader.close();
            }
        } catch (IllegalArgumentException e) {
            throw e;
        } catch (XMLStreamException | RuntimeException e) {
            // The JDK's parser lacks the text of some of its own errors, and throws that instead.
            throw new IllegalArgumentException("no XML of a topology: " + oneLine(e), e);
        }
    }

    private static String oneLine(Exception e) {
        return String.valueOf(e.getMessage()).replaceAll("\\s+", " ");
    }

    private static Element read(XMLStreamReader reader) throws XMLStreamException {
        Deque<Element> open = new ArrayDeque<>();
        Element system = null;
        int elements = 0;
        while (reader.hasNext()) {
            switch (reader.next()) {
                case XMLStreamConstants.START_ELEMENT -> {
                    Element element = element(reader);
                    if (++elements > MAX_ELEMENTS || open.size() >= MAX_DEPTH) {
                        throw new IllegalArgumentException(
                                "line %d: more than %d elements, or deeper than %d"
                                        .formatted(line(reader), MAX_ELEMENTS, MAX_DEPTH));
                    }
                    Element parent = open.peek();
                    if (parent == null) {
                        system = top(element, reader);
                    } else if (INSIDE.getOrDefault(parent.name, List.of()).contains(element.name)) {
                        parent.add(element);
                    }
                    open.push(element);
                }
                case XMLStreamConstants.END_ELEMENT -> open.pop();
                case XMLStreamConstants.DTD ->
                        throw new IllegalArgumentException(
                                "line %d: a topology has no DTD".formatted(line(reader)));
                default -> {}
            }
        }
        if (system == null) {
            throw new IllegalArgumentException("no element <system>");
        }
        return system;
    }

    private static Element element(XMLStreamReader reader) {
        Element element = new Element(reader.getLocalName());
        for (int i = 0; i < reader.getAttributeCount(); i++) {
            element.with(reader.getAttributeLocalName(i), reader.getAttributeValue(i));
        }
        return element;
    }

    private static Element top(Element element, XMLStreamReader reader) {
        if (!element.name.equals("system")) {
            throw new IllegalArgumentException(
                    "line %d: <%s>, and not <system>: this is no topology of NCCL"
                            .formatted(line(reader), element.name));
        }
        if (!element.text("version").equals("1")) {
            throw new IllegalArgumentException(
                    "line %d: version \"%s\" of NCCL's topology; only 1 is known"
                            .formatted(line(reader), element.text("version")));
        }
        return element;
    }

    private static int line(XMLStreamReader reader) {
        return reader.getLocation().getLineNumber();
    }
}
