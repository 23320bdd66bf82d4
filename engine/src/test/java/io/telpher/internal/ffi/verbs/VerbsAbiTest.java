package io.telpher.internal.ffi.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.internal.ffi.CConstants;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Compares every number and prototype in the bindings with the system's headers.
class VerbsAbiTest {
    private static final List<Class<?>> CLASSES =
            List.of(
                    ReceiveRequest.class,
                    SendRequest.class,
                    Sge.class,
                    VerbsCompletions.class,
                    VerbsDevices.class,
                    VerbsEvents.class,
                    VerbsMemory.class,
                    VerbsOperations.class,
                    VerbsPorts.class,
                    VerbsQueuePairs.class,
                    WorkCompletion.class);

    private static final String HEADERS =
            """
            #include <stddef.h>
            #include <stdio.h>
            #include <infiniband/verbs.h>
            """;

    private static final Path HEADER = Path.of("/usr/include/infiniband/verbs.h");

    @TempDir private Path folder;

    @BeforeAll
    static void needsHeaders() {
        CConstants.assumeCompiler();
        assumeThat(HEADER)
                .as("no headers of libibverbs: install the package libibverbs-dev")
                .exists();
    }

    @Test
    void numbersAreThoseOfTheHeader() throws Exception {
        Map<String, Long> java = new TreeMap<>();
        Map<String, String> c = new LinkedHashMap<>();
        Map<String, String> expressions = expressions();
        for (Class<?> owner : CLASSES) {
            CConstants.collect(owner, Set.of(), expressions, _ -> false, java, c);
        }
        assertThat(java).hasSizeGreaterThanOrEqualTo(180).containsKeys(keys(expressions));
        String program = CConstants.program(HEADERS, c, Set.of());
        assertThat(CConstants.run(folder, "numbers", program, List.of())).isEqualTo(java);
    }

    @Test
    void prototypesAreThoseOfTheHeader() throws Exception {
        Path bindings = Path.of("src/main/java/io/telpher/internal/ffi/verbs");
        assumeThat(bindings).as("no sources to compare the prototypes of").exists();
        assertThat(CConstants.comparePrototypes(bindings, HEADER, "_?ibv_", Set.of()))
                .hasSizeGreaterThanOrEqualTo(26);
    }

    private static String[] keys(Map<String, String> expressions) {
        return expressions.keySet().toArray(String[]::new);
    }

    /// What C calls the layouts. Everything else has its C name.
    private static Map<String, String> expressions() {
        Map<String, String> all = new HashMap<>();
        CConstants.put(
                all,
                "ReceiveRequest",
                "struct ibv_recv_wr",
                Map.of(
                        "BYTES", "",
                        "WR_ID", "wr_id",
                        "NEXT", "next",
                        "SG_LIST", "sg_list",
                        "NUM_SGE", "num_sge"));
        CConstants.put(
                all,
                "SendRequest",
                "struct ibv_send_wr",
                Map.of(
                        "BYTES", "",
                        "WR_ID", "wr_id",
                        "NEXT", "next",
                        "SG_LIST", "sg_list",
                        "NUM_SGE", "num_sge",
                        "OPCODE", "opcode",
                        "SEND_FLAGS", "send_flags",
                        "IMM_DATA", "imm_data",
                        "RDMA_REMOTE_ADDR", "wr.rdma.remote_addr",
                        "RDMA_RKEY", "wr.rdma.rkey"));
        CConstants.put(
                all,
                "Sge",
                "struct ibv_sge",
                Map.of("BYTES", "", "ADDR", "addr", "LENGTH", "length", "LKEY", "lkey"));
        CConstants.put(
                all,
                "WorkCompletion",
                "struct ibv_wc",
                Map.of(
                        "BYTES", "",
                        "WR_ID", "wr_id",
                        "STATUS", "status",
                        "OPCODE", "opcode",
                        "VENDOR_ERR", "vendor_err",
                        "BYTE_LEN", "byte_len",
                        "IMM_DATA", "imm_data"));
        CConstants.put(
                all, "VerbsCompletions", "struct ibv_comp_channel", Map.of("CHANNEL_FD", "fd"));
        CConstants.put(all, "VerbsCompletions", "struct ibv_cq", Map.of("CQ_CQE", "cqe"));
        CConstants.put(
                all,
                "VerbsDevices",
                "struct ibv_device",
                Map.of(
                        "DEVICE_NODE_TYPE", "node_type",
                        "DEVICE_TRANSPORT_TYPE", "transport_type"));
        CConstants.put(
                all,
                "VerbsDevices",
                "struct ibv_context",
                Map.of(
                        "CONTEXT_ASYNC_FD",
                        "async_fd",
                        "CONTEXT_NUM_COMP_VECTORS",
                        "num_comp_vectors"));
        upper(all, "VerbsDevices", "struct ibv_device_attr", VerbsDevices.class, "ATTR_");
        all.put("VerbsDevices.ATTR_FW_VER_BYTES", "sizeof(((struct ibv_device_attr *) 0)->fw_ver)");
        CConstants.put(
                all,
                "VerbsEvents",
                "struct ibv_async_event",
                Map.of(
                        "EVENT_BYTES", "",
                        "EVENT_ELEMENT", "element.qp",
                        "EVENT_PORT_NUM", "element.port_num",
                        "EVENT_TYPE", "event_type"));
        CConstants.put(
                all, "VerbsMemory", "struct ibv_mr", Map.of("MR_LKEY", "lkey", "MR_RKEY", "rkey"));
        CConstants.put(all, "VerbsOperations", "struct ibv_qp", Map.of("QP_CONTEXT", "context"));
        CConstants.put(all, "VerbsOperations", "struct ibv_cq", Map.of("CQ_CONTEXT", "context"));
        CConstants.put(
                all,
                "VerbsOperations",
                "struct ibv_context",
                Map.of(
                        "CONTEXT_POLL_CQ", "ops.poll_cq",
                        "CONTEXT_REQ_NOTIFY_CQ", "ops.req_notify_cq",
                        "CONTEXT_POST_SEND", "ops.post_send",
                        "CONTEXT_POST_RECV", "ops.post_recv"));
        upper(all, "VerbsPorts", "struct ibv_port_attr", VerbsPorts.class, "ATTR_");
        CConstants.put(
                all,
                "VerbsPorts",
                "struct ibv_gid_entry",
                Map.of(
                        "GID_ENTRY_BYTES", "",
                        "GID_ENTRY_GID", "gid",
                        "GID_ENTRY_INDEX", "gid_index",
                        "GID_ENTRY_PORT", "port_num",
                        "GID_ENTRY_TYPE", "gid_type",
                        "GID_ENTRY_IFINDEX", "ndev_ifindex"));
        all.put("VerbsPorts.GID_BYTES", "sizeof(union ibv_gid)");
        Class<?> pairs = VerbsQueuePairs.class;
        CConstants.put(all, "VerbsQueuePairs", "struct ibv_qp", Map.of("QP_NUM", "qp_num"));
        upper(all, "VerbsQueuePairs", "struct ibv_qp_init_attr", pairs, "INIT_ATTR_");
        upper(all, "VerbsQueuePairs", "struct ibv_qp_cap", pairs, "CAP_");
        upper(all, "VerbsQueuePairs", "struct ibv_qp_attr", pairs, "ATTR_");
        upper(all, "VerbsQueuePairs", "struct ibv_ah_attr", pairs, "AH_");
        CConstants.put(
                all,
                "VerbsQueuePairs",
                "struct ibv_ah_attr",
                Map.of(
                        "AH_DGID", "grh.dgid",
                        "AH_FLOW_LABEL", "grh.flow_label",
                        "AH_SGID_INDEX", "grh.sgid_index",
                        "AH_HOP_LIMIT", "grh.hop_limit",
                        "AH_TRAFFIC_CLASS", "grh.traffic_class"));
        return all;
    }

    /// Adds the constants with this prefix, whose rest is the field in capitals, `BYTES` the size.
    private static void upper(
            Map<String, String> expressions,
            String owner,
            String structure,
            Class<?> type,
            String prefix) {
        Map<String, String> fields = new HashMap<>();
        for (var constant : type.getDeclaredFields()) {
            String name = constant.getName();
            if (name.startsWith(prefix)) {
                String field = name.substring(prefix.length());
                fields.put(name, field.equals("BYTES") ? "" : field.toLowerCase(Locale.ROOT));
            }
        }
        CConstants.put(expressions, owner, structure, fields);
    }
}
