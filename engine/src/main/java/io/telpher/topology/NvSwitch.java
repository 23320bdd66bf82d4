package io.telpher.topology;

import java.util.List;

/// All NVSwitches of a machine together. Each GPU spreads its links over all of them, so that
/// between two GPUs they carry as much as the GPUs have links.
///
/// @param switches those whose address is known
public record NvSwitch(String id, int host, List<PciAddress> switches) implements Node {
    /// Copies the list.
    public NvSwitch {
        switches = List.copyOf(switches);
    }

    @Override
    public String label() {
        return switches.size() > 1 ? "NVSwitch x" + switches.size() : "NVSwitch";
    }
}
