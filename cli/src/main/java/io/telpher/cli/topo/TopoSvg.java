package io.telpher.cli.topo;

import io.telpher.topology.Gpu;
import io.telpher.topology.Link;
import io.telpher.topology.Nic;
import io.telpher.topology.NicPort;
import io.telpher.topology.Node;
import io.telpher.topology.NumaNode;
import io.telpher.topology.NvSwitch;
import io.telpher.topology.PciBridge;
import io.telpher.topology.PciDevice;
import io.telpher.topology.Topology;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/// The machine as a drawing: a box for each NUMA node, in it boxes for switches, in these the
/// devices; NVLinks are arcs below them. It needs nothing from elsewhere: no script, no font, no
/// image. Used once.
final class TopoSvg {
    private static final int MARGIN = 24;
    private static final int GAP = 12;
    private static final int PAD = 12;
    private static final int LINE = 15;
    private static final int CHARACTER = 7;
    private static final int LEAST_WIDTH = 116;

    /// Room for two NVLinks of one pair of GPUs, or the links to a bar of NVSwitches.
    private static final int BAR_DISTANCE = 56;

    /// For the link from chip to chip, above its GPU.
    private static final int LINK_ROOM = 20;

    private static final int BAR_HEIGHT = 34;
    private static final int TITLE_HEIGHT = 56;

    private static final String STYLE =
            """
            text{font:12px system-ui,sans-serif;fill:#1b1f24}
            .title{font-size:17px;font-weight:600}
            .head{font-weight:600}
            .small{font-size:11px;fill:#57606a}
            .numa{fill:#f6f8fa;stroke:#8c959f}
            .switch{fill:#eaeef2;stroke:#8c959f}
            .gpu{fill:#dafbe1;stroke:#2da44e}
            .nic{fill:#ddf4ff;stroke:#0969da}
            .down{fill:#ffebe9;stroke:#cf222e}
            .slow{fill:#cf222e}
            .nvlink{fill:none;stroke:#2da44e;opacity:.75}
            .c2c{fill:none;stroke:#8250df;stroke-width:4}
            .bar{fill:#2da44e;stroke:none}
            .bartext{fill:#fff;font-weight:600}
            """;

    private final Topology machine;
    private final Map<String, Box> boxes = new HashMap<>();
    private final StringBuilder body = new StringBuilder();
    private final StringBuilder arcs = new StringBuilder();

    TopoSvg(Topology machine) {
        this.machine = machine;
    }

    /// A rectangle with lines of text, and rows of boxes below them.
    private static final class Box {
        private final Node node;
        private final String style;
        private final List<String> lines;
        private final List<List<Box>> rows;

        /// Between the text and what is inside.
        private final int room;

        private int x;
        private int y;
        private int width;
        private int height;

        Box(Node node, String style, List<String> lines, List<List<Box>> rows) {
            this.node = node;
            this.style = style;
            this.lines = lines;
            this.rows = rows;
            boolean joined = rows.stream().flatMap(List::stream).anyMatch(b -> isJoined(b.node));
            room = joined ? LINK_ROOM : 0;
            int longest = lines.stream().mapToInt(String::length).max().orElse(0);
            width = Math.max(LEAST_WIDTH, longest * CHARACTER + 2 * PAD);
            height = lines.size() * LINE + 2 * PAD - 4 + room;
            for (List<Box> row : rows) {
                int all = row.stream().mapToInt(box -> box.width).sum();
                width = Math.max(width, all + GAP * (row.size() - 1) + 2 * PAD);
                height += height(row) + PAD;
            }
        }

        private static int height(List<Box> row) {
            return row.stream().mapToInt(box -> box.height).max().orElse(0);
        }

        void place(int left, int top) {
            x = left;
            y = top;
            int down = top + lines.size() * LINE + 2 * PAD - 4 + room;
            for (List<Box> row : rows) {
                int next = left + PAD;
                for (Box box : row) {
                    box.place(next, down);
                    next += box.width + GAP;
                }
                down += height(row) + PAD;
            }
        }

        private static boolean isJoined(Node node) {
            return node instanceof Gpu gpu && gpu.c2c() != null;
        }

        int middle() {
            return x + width / 2;
        }

        int bottom() {
            return y + height;
        }
    }

    /// @return a file of SVG
    String text() {
        int x = MARGIN;
        int bottom = 0;
        List<Box> tops = new ArrayList<>();
        for (NumaNode numa : machine.numaNodes()) {
            Box box = box(numa);
            box.place(x, MARGIN + TITLE_HEIGHT);
            x += box.width + 2 * GAP;
            bottom = Math.max(bottom, box.bottom());
            tops.add(box);
        }
        // All NUMA nodes are as high as the highest, which leaves one line below for the arcs.
        for (Box box : tops) {
            box.height = bottom - box.y;
            draw(box);
        }
        int end = links(bottom, x - 2 * GAP);
        int width = Math.max(x - 2 * GAP, 420) + MARGIN;
        return head(width, end + MARGIN) + body + arcs + "</svg>\n";
    }

    private Box box(Node node) {
        List<Box> cards = new ArrayList<>();
        List<Box> others = new ArrayList<>();
        for (Node child : machine.children(node)) {
            if (!(child instanceof NicPort)) {
                (child instanceof Nic ? cards : others).add(box(child));
            }
        }
        List<List<Box>> rows = new ArrayList<>();
        if (node instanceof NumaNode) {
            others.addAll(cards);
        } else if (!cards.isEmpty()) {
            rows.add(cards); // above the GPUs of a switch, whose lower edges the NVLinks need
        }
        if (!others.isEmpty()) {
            rows.add(others);
        }
        Box box = new Box(node, style(node), lines(node), rows);
        boxes.put(node.id(), box);
        return box;
    }

    private String style(Node node) {
        return switch (node) {
            case NumaNode n -> "numa";
            case PciBridge b -> "switch";
            case Gpu g -> "gpu";
            case NvSwitch s -> "bar";
            case NicPort p -> "nic";
            case Nic n -> {
                List<Node> ports = machine.children(n);
                boolean down =
                        !ports.isEmpty()
                                && ports.stream()
                                        .allMatch(
                                                p ->
                                                        p instanceof NicPort port
                                                                && port.state()
                                                                        == NicPort.State.DOWN);
                yield down ? "nic down" : "nic";
            }
        };
    }

    private List<String> lines(Node node) {
        List<String> lines = new ArrayList<>();
        switch (node) {
            case NumaNode numa -> {
                lines.add(numa.label());
                lines.add("CPUs " + TopoText.orUnknown(numa.cpus().toString()));
            }
            case PciBridge bridge -> {
                lines.add("PCIe switch");
                pci(bridge.pci(), lines);
            }
            case Gpu gpu -> {
                lines.add(gpu.label());
                if (!gpu.name().isEmpty()) {
                    lines.add(gpu.name());
                }
                pci(gpu.pci(), lines);
                if (gpu.nvLinksDown() > 0) {
                    lines.add(gpu.nvLinksDown() + " NVLinks down");
                }
            }
            case Nic nic -> {
                if (nic.pci() == null) {
                    lines.add("Network card");
                } else {
                    pci(nic.pci(), lines);
                }
                for (Node child : machine.children(nic)) {
                    if (child instanceof NicPort port) {
                        lines.add(port.label() + "  " + port.name());
                        lines.add(
                                TopoText.words(
                                        TopoText.fabric(port),
                                        TopoText.speed(port),
                                        port.state() == NicPort.State.DOWN ? "down" : ""));
                    }
                }
            }
            case NicPort port -> lines.add(port.label());
            case NvSwitch all -> lines.add(all.label());
        }
        return lines;
    }

    private static void pci(PciDevice pci, List<String> lines) {
        lines.add(pci.address().toString());
        String link = TopoText.link(pci.link());
        if (!link.isEmpty()) {
            lines.add(link);
        }
    }

    private void draw(Box box) {
        body.append("<g><title>").append(escape(title(box.node))).append("</title>");
        rectangle(body, box.x, box.y, box.width, box.height, box.style);
        for (int i = 0; i < box.lines.size(); i++) {
            String line = box.lines.get(i);
            boolean bad = line.contains("(now ") || line.endsWith(" down");
            String style = i == 0 ? "head" : bad ? "small slow" : "small";
            label(body, box.x + PAD, box.y + PAD + 8 + i * LINE, style, "start", line);
        }
        body.append("</g>\n");
        box.rows.forEach(row -> row.forEach(this::draw));
    }

    private String title(Node node) {
        String numa = machine.numaNode(node).map(n -> " of " + n.label()).orElse("");
        return node.label() + (node instanceof NumaNode ? "" : numa);
    }

    /// @param bottom of the boxes
    /// @param right of the boxes
    /// @return the bottom of all
    private int links(int bottom, int right) {
        int end = bottom;
        Box bar = null;
        for (Link link : machine.links()) {
            if (link.kind() != Link.Kind.NVLINK && link.kind() != Link.Kind.C2C) {
                continue;
            }
            Box one = boxes.get(link.a().id());
            Box other = boxes.get(link.b().id());
            if (link.kind() == Link.Kind.C2C || link.a() instanceof NumaNode) {
                if (one != null && other != null) {
                    toCpu(other, one, link);
                }
            } else if (link.b() instanceof NvSwitch all) {
                if (bar == null) {
                    bar = bar(all, bottom + BAR_DISTANCE, right);
                    end = bar.bottom();
                }
                if (one != null) {
                    String path = "M%d %dV%d".formatted(one.middle(), one.bottom(), bar.y);
                    arc(path, link, one.middle() + 5, bottom + BAR_DISTANCE / 2, "start");
                }
            } else if (one != null && other != null) {
                end = Math.max(end, between(one, other, link, bottom));
            }
        }
        return end;
    }

    /// From the GPU's upper edge to its NUMA node's lines of text.
    private void toCpu(Box gpu, Box cpu, Link link) {
        int top = cpu.y + cpu.lines.size() * LINE + PAD;
        arcs.append("<g><title>")
                .append(escape(what(link)))
                .append(
                        "</title><path class=\"c2c\" d=\"M%d %dV%d\"/>"
                                .formatted(gpu.middle(), gpu.y, top));
        label(
                arcs,
                gpu.middle() + 6,
                gpu.y - 6,
                "small",
                "start",
                (link.kind() == Link.Kind.C2C ? "C2C " : "NVLink ")
                        + TopoText.bandwidth(link.bandwidth()));
        arcs.append("</g>\n");
    }

    private Box bar(NvSwitch all, int top, int right) {
        Box bar = new Box(all, "bar", List.of(all.label()), List.of());
        bar.x = MARGIN;
        bar.y = top;
        bar.width = Math.max(right - MARGIN, LEAST_WIDTH);
        bar.height = BAR_HEIGHT;
        rectangle(arcs, bar.x, bar.y, bar.width, bar.height, "bar");
        label(arcs, bar.middle(), top + 21, "bartext", "middle", all.label());
        return bar;
    }

    /// The farther the GPUs are from each other, the deeper the arc, so that arcs stay apart.
    private int between(Box one, Box other, Link link, int bottom) {
        Box left = one.middle() <= other.middle() ? one : other;
        Box right = left == one ? other : one;
        int span = right.middle() - left.middle();
        int depth = bottom + 28 + span / 5;
        String path =
                "M%d %dC%d %d %d %d %d %d"
                        .formatted(
                                left.middle(),
                                left.bottom(),
                                left.middle(),
                                depth,
                                right.middle(),
                                depth,
                                right.middle(),
                                right.bottom());
        // Where a curve of this form is lowest: three quarters of the way to its guides.
        int lowest = (left.bottom() + right.bottom()) / 8 + depth * 3 / 4;
        arc(path, link, left.middle() + span / 2, lowest - 4, "middle");
        return lowest + LINE;
    }

    private void arc(String path, Link link, int x, int y, String anchor) {
        // Thicker for more, but never a blot.
        double thickness = Math.clamp(link.bandwidth() / 40, 1.5, 6);
        arcs.append("<g><title>")
                .append(escape(what(link)))
                .append("</title><path class=\"nvlink\" stroke-width=\"")
                .append(String.format(Locale.ROOT, "%.1f", thickness))
                .append("\" d=\"")
                .append(path)
                .append("\"/>");
        label(arcs, x, y, "small", anchor, TopoText.bandwidth(link.bandwidth()));
        arcs.append("</g>\n");
    }

    private static String what(Link link) {
        return "%s to %s, %s, %s each way"
                .formatted(
                        link.a().label(),
                        link.b().label(),
                        link.kind() == Link.Kind.C2C ? "chip to chip" : "NVLink",
                        TopoText.bandwidth(link.bandwidth()));
    }

    private String head(int width, int height) {
        StringBuilder head = new StringBuilder();
        head.append(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n"
                        .formatted(width, height, width, height));
        head.append("<title>Topology</title>\n<style>\n").append(STYLE).append("</style>\n");
        head.append("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
        label(head, MARGIN, MARGIN + 14, "title", "start", summary());
        label(head, MARGIN, MARGIN + 36, "small", "start", explanation());
        return head.append('\n').toString();
    }

    private String summary() {
        return "%d GPUs, %d NIC ports, %d NUMA nodes"
                .formatted(
                        machine.gpus().size(), machine.ports().size(), machine.numaNodes().size());
    }

    private String explanation() {
        double socket =
                machine.links().stream()
                        .filter(link -> link.kind() == Link.Kind.SOCKET)
                        .mapToDouble(Link::bandwidth)
                        .min()
                        .orElse(0);
        return "What is in a box is plugged into it, over the PCIe link that it names. Figures are GB/s each way"
                + (socket == 0 ? "." : "; between NUMA nodes " + TopoText.bandwidth(socket) + ".");
    }

    private static void rectangle(
            StringBuilder to, int x, int y, int width, int height, String style) {
        to.append(
                "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>"
                        .formatted(style, x, y, width, height));
    }

    private static void label(
            StringBuilder to, int x, int y, String style, String anchor, String text) {
        to.append(
                        "<text class=\"%s\" x=\"%d\" y=\"%d\" text-anchor=\"%s\">"
                                .formatted(style, x, y, anchor))
                .append(escape(text))
                .append("</text>");
    }

    private static String escape(String text) {
        StringBuilder escaped = new StringBuilder();
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            switch (c) {
                case '&' -> escaped.append("&amp;");
                case '<' -> escaped.append("&lt;");
                case '>' -> escaped.append("&gt;");
                case '"' -> escaped.append("&quot;");
                default -> escaped.append(c < ' ' ? ' ' : c);
            }
        }
        return escaped.toString();
    }
}
