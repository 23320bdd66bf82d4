package io.telpher.internal.ffi.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.internal.ffi.CConstants;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Compares every number in the bindings with NVIDIA's headers, where they can be found: in the
/// folder that system property `telpher.cuda.include` names, in toolkits, and in PyPI's packages.
class CudaAbiTest {
    private static final Set<String> NOT_IN_C =
            Set.of(
                    "CudaDevices.NAME_BYTES",
                    "CudaDevices.PCI_BUS_ID_BYTES",
                    "CudaModules.JIT_LOG_BYTES",
                    "Nvml.TEXT_BYTES",
                    "NvmlDevices.TEXT_BYTES",
                    // Grows with NVLink.
                    "NvmlLinks.NVML_NVLINK_MAX_LINKS");

    @TempDir private Path folder;

    @BeforeAll
    static void needsCompiler() {
        CConstants.assumeCompiler();
    }

    @Test
    void driverNumbersAreThoseOfTheHeader() throws Exception {
        Path include = include("cuda.h", "nvidia-cuda-runtime");
        Map<String, Long> version =
                run("version", "cuda.h", Map.of("CUDA_VERSION", "CUDA_VERSION"), include);
        assumeThat(version.get("CUDA_VERSION"))
                .as(include + "/cuda.h is older than CUDA 12.8, which has all names")
                .isGreaterThanOrEqualTo(12_080);
        Map<String, String> expressions = new HashMap<>();
        CConstants.put(
                expressions,
                "CudaCopies",
                "CUmemcpyAttributes",
                Map.of("COPY_ATTRIBUTES_BYTES", ""));
        CConstants.put(
                expressions,
                "CudaCopies",
                "CUmemcpyAttributes",
                Map.of("COPY_SRC_ACCESS_ORDER", "srcAccessOrder", "COPY_FLAGS", "flags"));
        CConstants.put(
                expressions,
                "CudaVmm",
                "CUmemAllocationProp",
                Map.of(
                        "PROP_BYTES", "",
                        "PROP_TYPE", "type",
                        "PROP_HANDLE_TYPES", "requestedHandleTypes",
                        "PROP_LOCATION_TYPE", "location.type",
                        "PROP_LOCATION_ID", "location.id",
                        "PROP_GPU_DIRECT_RDMA", "allocFlags.gpuDirectRDMACapable"));
        CConstants.put(
                expressions,
                "CudaVmm",
                "CUmemAccessDesc",
                Map.of(
                        "ACCESS_BYTES", "",
                        "ACCESS_LOCATION_TYPE", "location.type",
                        "ACCESS_LOCATION_ID", "location.id",
                        "ACCESS_FLAGS", "flags"));
        expressions.put("CudaVmm.FABRIC_HANDLE_BYTES", "sizeof(CUmemFabricHandle)");
        compare(
                "cuda.h",
                include,
                expressions,
                150,
                CudaContexts.class,
                CudaCopies.class,
                CudaDevices.class,
                CudaError.class,
                CudaEvents.class,
                CudaIpc.class,
                CudaMemory.class,
                CudaModules.class,
                CudaPointers.class,
                CudaStreams.class,
                CudaVmm.class);
        comparePrototypes(include, "cuda.h", "cu", 80);
    }

    @Test
    void nvmlNumbersAreThoseOfTheHeader() throws Exception {
        Map<String, String> expressions = new HashMap<>();
        CConstants.put(
                expressions,
                "NvmlDevices",
                "nvmlPciInfo_t",
                Map.of("PCI_BYTES", "", "PCI_BUS_ID", "busId"));
        CConstants.put(
                expressions,
                "NvmlDevices",
                "nvmlBAR1Memory_t",
                Map.of(
                        "BAR1_BYTES", "",
                        "BAR1_TOTAL", "bar1Total",
                        "BAR1_FREE", "bar1Free",
                        "BAR1_USED", "bar1Used"));
        CConstants.put(
                expressions,
                "NvmlDevices",
                "nvmlGpuFabricInfo_v2_t",
                Map.of(
                        "FABRIC_BYTES", "",
                        "FABRIC_VERSION", "version",
                        "FABRIC_CLUSTER_UUID", "clusterUuid",
                        "FABRIC_STATUS", "status",
                        "FABRIC_CLIQUE_ID", "cliqueId",
                        "FABRIC_STATE", "state",
                        "FABRIC_HEALTH_MASK", "healthMask"));
        expressions.put("NvmlDevices.FABRIC_V2", "nvmlGpuFabricInfo_v2");
        expressions.put("NvmlDevices.CLUSTER_UUID_BYTES", "NVML_GPU_FABRIC_UUID_LEN");
        CConstants.put(
                expressions,
                "NvmlDevices",
                "nvmlFieldValue_t",
                Map.of(
                        "FIELD_BYTES", "",
                        "FIELD_ID", "fieldId",
                        "FIELD_SCOPE_ID", "scopeId",
                        "FIELD_VALUE_TYPE", "valueType",
                        "FIELD_RETURN", "nvmlReturn",
                        "FIELD_VALUE", "value"));
        Path include = include("nvml.h", "nvidia-nvml-dev");
        compare("nvml.h", include, expressions, 70, Nvml.class, NvmlDevices.class, NvmlLinks.class);
        comparePrototypes(include, "nvml.h", "nvml", 30);
    }

    @Test
    void nvrtcNumbersAreThoseOfTheHeader() throws Exception {
        Path include = include("nvrtc.h", "nvidia-cuda-nvrtc");
        compare("nvrtc.h", include, Map.of(), 3, Nvrtc.class);
        comparePrototypes(include, "nvrtc.h", "nvrtc", 12);
    }

    /// Compares the C prototypes in the comments of the bindings.
    private static void comparePrototypes(Path include, String header, String prefix, int atLeast)
            throws Exception {
        Path bindings = Path.of("src/main/java/io/telpher/internal/ffi/cuda");
        assumeThat(bindings).as("no sources to compare the prototypes of").exists();
        assertThat(
                        CConstants.comparePrototypes(
                                bindings,
                                include.resolve(header),
                                prefix + "[A-Z]",
                                // CUDA 12 and 13 have one form each.
                                Set.of("cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync")))
                .hasSizeGreaterThanOrEqualTo(atLeast);
    }

    private void compare(
            String header,
            Path include,
            Map<String, String> expressions,
            int atLeast,
            Class<?>... classes)
            throws Exception {
        Map<String, Long> java = new TreeMap<>();
        Map<String, String> c = new LinkedHashMap<>();
        for (Class<?> owner : classes) {
            CConstants.collect(owner, NOT_IN_C, expressions, _ -> false, java, c);
        }
        assertThat(java).hasSizeGreaterThanOrEqualTo(atLeast);
        assertThat(run("numbers", header, c, include)).isEqualTo(java);
    }

    private Map<String, Long> run(
            String name, String header, Map<String, String> expressions, Path include)
            throws Exception {
        String headers =
                """
                #include <stddef.h>
                #include <stdio.h>
                #include <%s>
                """
                        .formatted(header);
        return CConstants.run(
                folder,
                name,
                CConstants.program(headers, expressions, Set.of()),
                List.of("-I", include.toString()));
    }

    private static Path include(String header, String packageName) {
        List<Path> folders = new ArrayList<>();
        String named = System.getProperty("telpher.cuda.include");
        if (named != null) {
            folders.add(Path.of(named));
        } else {
            folders.add(Path.of("/usr/local/cuda/include"));
            folders.add(Path.of("/usr/include"));
            for (Path packages : NvrtcFiles.pythonPackages()) {
                for (String folder :
                        List.of(
                                "cu13",
                                "cuda_runtime",
                                "cuda_nvrtc",
                                "nvml_dev",
                                "cuda_nvml_dev")) {
                    folders.add(packages.resolve("nvidia").resolve(folder).resolve("include"));
                }
            }
        }
        Path found =
                folders.stream()
                        .filter(folder -> Files.exists(folder.resolve(header)))
                        .findFirst()
                        .orElse(null);
        assumeThat(found)
                .as(
                        "no "
                                + header
                                + ": pip install "
                                + packageName
                                + ", or name the folder by -Dtelpher.cuda.include")
                .isNotNull();
        return found;
    }
}
