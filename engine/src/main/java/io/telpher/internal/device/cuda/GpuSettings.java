package io.telpher.internal.device.cuda;

import io.telpher.Setting;
import io.telpher.internal.device.GpuVariables;
import io.telpher.internal.device.NumaPlacement;
import io.telpher.internal.device.PeerPolicy;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// The variables of GPUs as they are in force: for tools and people. What reads them is
/// [PeerLimit], [PeerPolicy] and [Tuning].
final class GpuSettings {
    private static final String OWN = "TELPHER_";
    private static final String NCCL = "NCCL_";

    private final Function<String, @Nullable String> environment;

    private GpuSettings(Function<String, @Nullable String> environment) {
        this.environment = environment;
    }

    /// Reads all of them.
    ///
    /// @param environment gives a variable's value, or null
    /// @throws IllegalArgumentException when one of Telpher's own makes no sense: names it
    static void check(Function<String, @Nullable String> environment) {
        PeerPolicy.of(environment);
        PeerLimit.of(environment, NumaPlacement::machine);
        Tuning.of(environment);
    }

    /// What they come to.
    ///
    /// @throws IllegalArgumentException as [#check]
    static List<Setting> inForce(Function<String, @Nullable String> environment) {
        check(environment);
        PeerLimit limit = PeerLimit.of(environment, NumaPlacement::machine);
        return new GpuSettings(environment).list(limit);
    }

    private List<Setting> list(PeerLimit limit) {
        return List.of(
                limit("P2P_DISABLE", limit, "0", "1 to keep them from each other's memory"),
                limit("P2P_LEVEL", limit, "", "the longest path between two, such as PXB"),
                number(
                        "P2P_READ_ENABLE",
                        "",
                        "which of two copies that this process uses: 1 the destination's, 0 the"
                                + " source's"),
                number(
                        "P2P_DIRECT_DISABLE",
                        "0",
                        "1 to export and import memory inside one process, too"),
                own("P2P_PROBE", "1", "0 to believe the driver without a trial"),
                number("CUMEM_ENABLE", "1", "0 for plain allocations"));
    }

    /// One of the two variables of which at most one sets the limit.
    private Setting limit(String name, PeerLimit limit, String otherwise, String meaning) {
        for (String origin : List.of(OWN + name, NCCL + name)) {
            if (limit.setting().startsWith(origin + "=")) {
                return setting(name, text(origin), origin, meaning);
            }
        }
        return own(name, otherwise, meaning);
    }

    private Setting number(String name, String otherwise, String meaning) {
        return text(OWN + name).isEmpty() && GpuVariables.nccl(environment, name).isPresent()
                ? setting(name, text(NCCL + name), NCCL + name, meaning)
                : own(name, otherwise, meaning);
    }

    private Setting own(String name, String otherwise, String meaning) {
        String text = text(OWN + name);
        return text.isEmpty()
                ? setting(name, otherwise, Setting.DEFAULT, meaning)
                : setting(name, text, OWN + name, meaning);
    }

    private static Setting setting(String name, String value, String origin, String meaning) {
        return new Setting("", OWN + name, value, origin, "GPUs: " + meaning);
    }

    private String text(String variable) {
        return GpuVariables.text(environment, variable);
    }
}
