package io.telpher;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/// One option of an endpoint as [EndpointOptions#fromEnvironment()] sets it: its value and where
/// that comes from. For tools and for people; programs read [EndpointOptions].
///
/// @param option its name in [EndpointOptions]; empty for what only a variable sets
/// @param variable the environment variable that sets it
/// @param value the value in force, as the variable would say it; never a secret
/// @param origin [#DEFAULT], or the variable that the value comes from
/// @param meaning what it does, one line
public record Setting(String option, String variable, String value, String origin, String meaning) {
    /// The origin of a value that nobody has set.
    public static final String DEFAULT = "default";

    private static final String PREFIX = "TELPHER_";

    /// @return every setting of this process, in the order of [EndpointOptions]
    /// @throws IllegalArgumentException when a variable cannot be understood: names it
    public static List<Setting> fromEnvironment() {
        return fromEnvironment(System.getenv());
    }

    /// As [#fromEnvironment()], of another environment.
    public static List<Setting> fromEnvironment(Map<String, String> environment) {
        EndpointOptions options = EndpointOptions.fromEnvironment(environment);
        List<Setting> all = new ArrayList<>();
        for (Variable variable : Variable.values()) {
            all.add(
                    new Setting(
                            variable.option(),
                            variable.variable(),
                            variable.show(options),
                            variable.origin(environment),
                            variable.meaning()));
        }
        return List.copyOf(all);
    }

    /// @return variables that begin with `TELPHER_` and that no setting reads: most likely
    ///     misspelt, unless a tool of their own reads them
    public static List<String> unknown(Map<String, String> environment) {
        List<String> known = new ArrayList<>();
        for (Variable variable : Variable.values()) {
            known.add(variable.variable());
        }
        return environment.keySet().stream()
                .filter(name -> name.startsWith(PREFIX) && !known.contains(name))
                .sorted()
                .toList();
    }
}
