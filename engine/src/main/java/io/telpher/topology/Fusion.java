package io.telpher.topology;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// Joins the tree of a file with that of the machine: the file says how things hang together, the
/// machine what there is. Used once.
final class Fusion {
    private final Map<String, Element> inFile = new HashMap<>();
    private final Set<String> inMachine = new HashSet<>();

    private Fusion(Element file, Element machine) {
        file.walk(e -> inFile.putIfAbsent(key(e), e));
        machine.walk(e -> inMachine.add(key(e)));
    }

    /// @param file becomes the result
    /// @param machine stays as it is
    static Element fuse(Element file, Element machine) {
        // Whichever host wrote it: it stands for this one.
        file.children.forEach(cpu -> cpu.attributes.remove("host_hash"));
        Fusion fusion = new Fusion(file, machine);
        for (Element cpu : machine.children) {
            fusion.bring(cpu, file);
        }
        fusion.dropAbsent(file);
        trim(file);
        return file;
    }

    private static String key(Element element) {
        return switch (element.name) {
            case "cpu" -> "cpu " + element.text("numaid");
            case "pci" -> "pci " + address(element);
            case "net" -> "net " + element.text("name");
            default -> "";
        };
    }

    private static String address(Element pci) {
        String text = pci.text("busid");
        return PciAddress.matches(text) ? PciAddress.parse(text).toString() : text;
    }

    /// Finds what the machine has in the file, wherever it is, and adds what the file does not say
    /// of it; or else puts it where its next of kin is.
    private void bring(Element fromMachine, Element parent) {
        Element known = known(fromMachine, parent);
        if (known == null) {
            known = parent.add(fromMachine.shallowCopy());
        } else {
            fromMachine.attributes.forEach(known.attributes::putIfAbsent);
        }
        for (Element child : fromMachine.children) {
            bring(child, known);
        }
    }

    private @Nullable Element known(Element element, Element parent) {
        String key = key(element);
        if (!key.isEmpty()) {
            return inFile.get(key);
        }
        return element.name.equals("nvlink")
                ? parent.child("nvlink", "target", element.text("target"))
                : parent.child(element.name);
    }

    /// Takes out devices that only the file has: it may be of the whole server, and this a part.
    private void dropAbsent(Element parent) {
        parent.children.removeIf(
                child ->
                        child.name.equals("pci")
                                && (child.child("gpu") != null || child.child("nic") != null)
                                && !inMachine.contains(key(child)));
        parent.children.forEach(this::dropAbsent);
    }

    /// Takes out switches with nothing below.
    private static void trim(Element parent) {
        parent.children.forEach(Fusion::trim);
        parent.children.removeIf(
                child ->
                        child.name.equals("pci")
                                && child.child("gpu") == null
                                && child.child("nic") == null
                                && child.child("pci") == null);
    }
}
