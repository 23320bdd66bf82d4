package io.telpher.cli.doctor;

import io.telpher.Setting;
import io.telpher.cli.Settings;
import java.util.ArrayList;
import java.util.List;

/// The `TELPHER_` variables: whether they are understood, and whether any is misspelt.
final class SettingsCheck implements Check {
    @Override
    public String name() {
        return "settings";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        try {
            List<Setting> all = new ArrayList<>(Setting.fromEnvironment(host.environment()));
            all.addAll(Settings.devices(host.environment()));
            List<String> changed = new ArrayList<>();
            for (Setting setting : all) {
                if (!setting.origin().equals(Setting.DEFAULT)) {
                    String option = setting.option();
                    changed.add(
                            "%s = %s (%s)"
                                    .formatted(
                                            option.isEmpty() ? setting.variable() : option,
                                            setting.value(),
                                            setting.origin()));
                }
            }
            found.add(
                    Finding.info(
                            name(),
                            changed.isEmpty() ? "all defaults" : changed.size() + " set",
                            changed.isEmpty()
                                    ? "no TELPHER_ variable of the engine is set"
                                    : String.join("; ", changed)));
        } catch (IllegalArgumentException e) {
            found.add(
                    Finding.error(
                            name(),
                            "a variable cannot be understood: no endpoint opens, or none that uses"
                                    + " the device that it is for",
                            String.valueOf(e.getMessage()),
                            "correct or unset it; telpher config lists them all",
                            "telpher config"));
        }
        for (String name : Settings.unknown(host.environment())) {
            found.add(
                    Finding.warning(
                            name(),
                            "nothing reads this variable",
                            name + " is set",
                            Settings.hint(name),
                            "telpher config"));
        }
        return found;
    }

    /// @return the settings in force; none when a variable cannot be understood
    static List<Setting> settings(Host host) {
        try {
            return Setting.fromEnvironment(host.environment());
        } catch (IllegalArgumentException e) {
            return List.of();
        }
    }
}
