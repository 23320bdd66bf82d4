package io.telpher.topology;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// An address by which RDMA reaches a port.
///
/// @param index its place in the port's table, which changes as addresses come and go
/// @param type the packets that it stands for
/// @param address IPv6, or IPv4 where the GID is an IPv4 address mapped into IPv6
public record Gid(int index, Type type, String address) {
    private static final Pattern WRITTEN =
            Pattern.compile("(\\d{1,5}):(ib|v1|v2):([0-9a-f:.]{2,39})");

    /// NCCL reads attributes up to this length.
    private static final int MAX_CHARACTERS = 255;

    /// Packets that a GID stands for.
    public enum Type {
        INFINIBAND("ib"),
        ROCE_V1("v1"),
        ROCE_V2("v2");

        private final String written;

        Type(String written) {
            this.written = written;
        }
    }

    /// @return whether the address is an IPv6 one that means something on its own link only
    public boolean linkLocal() {
        return address.matches("fe[89ab].*");
    }

    /// @param digits 32 hexadecimal digits, with or without colons
    /// @return empty when they are something else, or all 0: a free entry
    static Optional<Gid> of(int index, Type type, String digits) {
        String plain = digits.replace(":", "");
        if (!plain.matches("\\p{XDigit}{32}") || plain.matches("0+")) {
            return Optional.empty();
        }
        try {
            // A mapped one becomes an IPv4 address.
            InetAddress address = InetAddress.getByAddress(HexFormat.of().parseHex(plain));
            return Optional.of(new Gid(index, type, address.getHostAddress()));
        } catch (UnknownHostException e) {
            throw new AssertionError("16 bytes make an address", e);
        }
    }

    /// Which GIDs of one port are used where nobody names an index: that is an accident of the
    /// order in which addresses were configured.
    ///
    /// @param gids those of the port
    /// @return best first: on InfiniBand the first one alone; on Ethernet those for RoCE v2, IPv4
    ///     before global IPv6, and link-local ones where there is nothing else. None for RoCE v1
    public static List<Gid> usable(List<Gid> gids) {
        List<Gid> fit =
                gids.stream()
                        .filter(gid -> gid.type != Type.ROCE_V1)
                        .sorted(Comparator.comparingInt(Gid::rank).thenComparingInt(Gid::index))
                        .toList();
        if (fit.isEmpty() || fit.getFirst().type == Type.INFINIBAND) {
            return fit.stream().limit(1).toList();
        }
        boolean onlyLocal = fit.getFirst().linkLocal();
        return fit.stream().filter(gid -> onlyLocal || !gid.linkLocal()).toList();
    }

    private int rank() {
        if (type == Type.INFINIBAND || !address.contains(":")) {
            return 0;
        }
        return linkLocal() ? 2 : 1;
    }

    /// @return as an attribute of the XML, such as `1:v2:10.0.0.1 3:v2:fd00:0:0:0:0:0:0:1`. Those
    ///     that are not used most likely are left out where it gets too long
    static String write(List<Gid> gids) {
        List<Gid> kept = new ArrayList<>();
        int length = 0;
        List<Gid> likely =
                gids.stream()
                        .sorted(
                                Comparator.comparing((Gid gid) -> gid.type == Type.ROCE_V1)
                                        .thenComparing(Gid::rank))
                        .toList();
        for (Gid gid : likely) {
            length += gid.written().length() + 1;
            if (length <= MAX_CHARACTERS) {
                kept.add(gid);
            }
        }
        kept.sort(Comparator.comparingInt(Gid::index));
        return String.join(" ", kept.stream().map(Gid::written).toList());
    }

    private String written() {
        return index + ":" + type.written + ":" + address;
    }

    /// Reads [#write]. What is written otherwise is skipped.
    static List<Gid> read(String text) {
        List<Gid> gids = new ArrayList<>();
        for (String word : text.split(" ")) {
            Matcher matcher = WRITTEN.matcher(word);
            if (matcher.matches()) {
                for (Type type : Type.values()) {
                    if (type.written.equals(matcher.group(2))) {
                        gids.add(
                                new Gid(
                                        Integer.parseInt(matcher.group(1)),
                                        type,
                                        matcher.group(3)));
                    }
                }
            }
        }
        return List.copyOf(gids);
    }
}
