package io.telpher.internal.ffi.hip;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.internal.ffi.CConstants;
import io.telpher.spi.Availability;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The bindings against AMD's own library and headers, as far as that goes without hardware.
class HipTest {
    private static final Path BINDINGS = Path.of("src/main/java/io/telpher/internal/ffi/hip");
    private static final Path INCLUDE =
            Path.of(System.getProperty("telpher.hip.include", "/usr/include"));

    @TempDir private Path folder;

    private static void needsTheRuntime() {
        assumeThat(Hip.has("hipInit"))
                .as("no HIP runtime: install the package libamdhip64-5")
                .isTrue();
    }

    private static void needsHeaders() {
        CConstants.assumeCompiler();
        assumeThat(INCLUDE.resolve("hip/hip_runtime_api.h"))
                .as(
                        "no headers of HIP: install the package libamdhip64-dev, or name the folder by"
                                + " -Dtelpher.hip.include")
                .exists();
    }

    @Test
    void withoutAGpuItSaysSo() {
        needsTheRuntime();
        assumeThat(HipDevices.tryCount()).as("there is an AMD GPU").isNotPositive();
        assertThat(Hip.availability())
                .isInstanceOfSatisfying(
                        Availability.Missing.class,
                        missing -> {
                            assertThat(missing.reason()).contains("libamdhip64", "sees no device");
                            assertThat(missing.remedy()).contains("rocminfo");
                        });
        assertThat(HipDevices.tryCount()).isEqualTo(-HipError.hipErrorNoDevice);
    }

    @Test
    void theLibraryHasEveryFunctionThatIsCalled() throws Exception {
        needsTheRuntime();
        assumeThat(BINDINGS).as("no sources to take the functions' names from").exists();
        Set<String> called = new TreeSet<>();
        Pattern quoted = Pattern.compile("\"(hip[A-Z]\\w+)\"");
        try (Stream<Path> sources = Files.list(BINDINGS)) {
            for (Path source : sources.toList()) {
                Matcher matcher = quoted.matcher(Files.readString(source));
                while (matcher.find()) {
                    called.add(matcher.group(1));
                }
            }
        }
        assertThat(called).hasSizeGreaterThanOrEqualTo(22).allMatch(Hip::has);
        assertThat(Hip.has("hipNoSuchFunction")).isFalse();
    }

    @Test
    void errorsHaveNames() {
        needsTheRuntime();
        assertThat(HipError.describe(HipError.hipErrorNoDevice))
                .startsWith("hipErrorNoDevice (100, ");
        assertThat(HipError.describe(-HipError.hipErrorInvalidDevice))
                .startsWith("hipErrorInvalidDevice (101, ");
    }

    @Test
    void numbersAndPrototypesAreThoseOfTheHeaders() throws Exception {
        needsHeaders();
        Map<String, Long> java = new TreeMap<>();
        Map<String, String> c = new LinkedHashMap<>();
        for (Class<?> owner :
                List.of(HipError.class, HipMemory.class, HipStreams.class, HipDevices.class)) {
            CConstants.collect(
                    owner,
                    Set.of(
                            "HipMemory.CUDA_TYPES_VERSION",
                            "HipDevices.NAME_BYTES",
                            "HipDevices.PCI_BUS_ID_BYTES"),
                    Map.of(),
                    _ -> false,
                    java,
                    c);
        }
        assertThat(java).hasSizeGreaterThanOrEqualTo(16);
        // What the code takes for granted without a constant for it.
        Map<String, Long> taken = new HashMap<>(java);
        taken.put("sizeof(hipUUID)", 16L);
        taken.put("sizeof(hipDeviceptr_t)", 8L);
        taken.put("hipMemoryTypeHost - (HIP_VERSION_MAJOR >= 6)", 0L);
        taken.put("hipMemoryTypeDevice - (HIP_VERSION_MAJOR >= 6)", 1L);
        taken.forEach((name, _) -> c.putIfAbsent(name, name));
        String headers =
                """
                #include <stddef.h>
                #include <stdio.h>
                #define __HIP_PLATFORM_AMD__
                #include <hip/hip_runtime_api.h>
                """;
        assertThat(
                        CConstants.run(
                                folder,
                                "numbers",
                                CConstants.program(headers, c, Set.of()),
                                List.of("-I", INCLUDE.toString())))
                .isEqualTo(taken);

        assumeThat(BINDINGS).as("no sources to compare the prototypes of").exists();
        assertThat(
                        CConstants.comparePrototypes(
                                BINDINGS,
                                INCLUDE.resolve("hip/hip_runtime_api.h"),
                                "hip[A-Z]",
                                // Their last parameter has a default in C++.
                                Set.of("hipMemcpyAsync", "hipEventRecord")))
                .hasSizeGreaterThanOrEqualTo(20);
    }
}
