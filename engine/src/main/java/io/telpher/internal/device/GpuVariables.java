package io.telpher.internal.device;

import java.util.OptionalLong;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// Environment variables for GPUs that are numbers. Telpher's own come before NCCL's of the same
/// name and must make sense; NCCL's count as far as NCCL understands them. Without a value they
/// are not set.
public final class GpuVariables {
    private static final String OWN = "TELPHER_";
    private static final String NCCL = "NCCL_";

    private GpuVariables() {}

    /// Telpher's variable, else NCCL's, else `unset`.
    ///
    /// @param environment gives a variable's value, or null
    /// @param name without what it begins with
    /// @param least of Telpher's own
    /// @param most of Telpher's own
    /// @throws IllegalArgumentException for a value of Telpher's own that makes no sense: names it
    public static long number(
            Function<String, @Nullable String> environment,
            String name,
            long least,
            long most,
            long unset) {
        OptionalLong own = own(environment, name, least, most);
        return own.isPresent() ? own.getAsLong() : nccl(environment, name).orElse(unset);
    }

    /// Telpher's variable alone.
    ///
    /// @throws IllegalArgumentException as [#number]
    public static OptionalLong own(
            Function<String, @Nullable String> environment, String name, long least, long most) {
        String text = text(environment, OWN + name);
        OptionalLong value = decode(text);
        boolean fits = value.isPresent() && value.getAsLong() >= least && value.getAsLong() <= most;
        if (fits || text.isEmpty()) {
            return value;
        }
        throw new IllegalArgumentException(
                "%s%s=%s: a number from %d to %d is needed; correct or unset it"
                        .formatted(OWN, name, text, least, most));
    }

    /// NCCL's variable alone: NCCL goes on without a value that is no number.
    public static OptionalLong nccl(Function<String, @Nullable String> environment, String name) {
        return decode(text(environment, NCCL + name));
    }

    /// A variable as it was set; empty where it is not.
    public static String text(Function<String, @Nullable String> environment, String variable) {
        String text = environment.apply(variable);
        return text == null ? "" : text.strip();
    }

    /// As C reads numbers: decimal, octal or hexadecimal.
    private static OptionalLong decode(String text) {
        try {
            return OptionalLong.of(Long.decode(text));
        } catch (NumberFormatException e) {
            return OptionalLong.empty();
        }
    }
}
