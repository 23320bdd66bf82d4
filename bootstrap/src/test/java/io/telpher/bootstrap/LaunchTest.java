package io.telpher.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.net.URI;
import java.util.HashMap;
import java.util.Map;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class LaunchTest {
    private static Map<String, String> env(String... pairs) {
        Map<String, String> env = new HashMap<>();
        for (String pair : pairs) {
            String[] parts = pair.split("=", 2);
            env.put(parts[0], parts[1]);
        }
        return env;
    }

    private static Launch launch(String... pairs) {
        return Launch.from(env(pairs));
    }

    @Test
    void torchrun() {
        Launch launch =
                launch(
                        "TORCHELASTIC_RUN_ID=run7",
                        "RANK=5",
                        "WORLD_SIZE=16",
                        "LOCAL_RANK=1",
                        "MASTER_ADDR=node0",
                        "MASTER_PORT=29500",
                        // Its agent is a task of a Slurm job.
                        "SLURM_PROCID=1",
                        "SLURM_NTASKS=4",
                        "SLURM_JOB_NODELIST=other[1-4]");
        assertThat(launch)
                .isEqualTo(
                        new Launch(
                                "torchrun",
                                5,
                                16,
                                OptionalInt.of(1),
                                "run7",
                                URI.create("tcp://node0:29501"),
                                Launch.Host.RANK_0));
    }

    @Test
    void openMpiInASlurmJob() {
        Launch launch =
                launch(
                        "OMPI_COMM_WORLD_RANK=3",
                        "OMPI_COMM_WORLD_SIZE=4",
                        "OMPI_COMM_WORLD_LOCAL_RANK=3",
                        "OMPI_COMM_WORLD_LOCAL_SIZE=4",
                        "PMIX_RANK=3",
                        "PMIX_NAMESPACE=prterun-host-77@1",
                        "SLURM_PROCID=0",
                        "SLURM_NTASKS=1");
        assertThat(launch.launcher()).isEqualTo("mpi");
        assertThat(launch.rank()).isEqualTo(3);
        assertThat(launch.localRank()).hasValue(3);
        assertThat(launch.job()).isEqualTo("prterun-host-77@1");
        assertThat(launch.rendezvous().getHost()).isEqualTo("127.0.0.1");
        assertThat(launch.rendezvous().getPort()).isBetween(20_000, 29_999);
    }

    @Test
    void openMpiOnManyHostsNeedsToBeTold() {
        String[] mpi = {
            "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2"
        };
        assertThatThrownBy(() -> launch(mpi))
                .hasMessageContaining("MASTER_ADDR")
                .hasMessageContaining("TELPHER_RENDEZVOUS=tcp://HOST:PORT");
        Map<String, String> told = env(mpi);
        told.put("TELPHER_RENDEZVOUS", "redis://store:6380/2");
        assertThat(Launch.from(told).rendezvous()).isEqualTo(URI.create("redis://store:6380/2"));
        assertThat(Launch.from(told).host()).isEqualTo(Launch.Host.ELSEWHERE);
    }

    @Test
    void slurm() {
        String[] slurm = {
            "SLURM_PROCID=2",
            "SLURM_NTASKS=8",
            "SLURM_LOCALID=0",
            "SLURM_JOB_ID=4711",
            "SLURM_STEP_ID=0",
            "SLURM_JOB_NODELIST=gpu[007-009,12],login1"
        };
        Launch launch = launch(slurm);
        assertThat(launch.launcher()).isEqualTo("slurm");
        assertThat(launch.rank()).isEqualTo(2);
        assertThat(launch.world()).isEqualTo(8);
        assertThat(launch.localRank()).hasValue(0);
        assertThat(launch.job()).isEqualTo("4711.0");
        assertThat(launch.rendezvous().getHost()).isEqualTo("gpu007");
        Map<String, String> other = env(slurm);
        other.put("SLURM_STEP_NODELIST", "gpu012");
        other.put("TELPHER_RENDEZVOUS_PORT", "9000");
        assertThat(Launch.from(other).rendezvous()).isEqualTo(URI.create("tcp://gpu012:9000"));
        other.put("SLURM_JOB_ID", "4712");
        other.remove("TELPHER_RENDEZVOUS_PORT");
        assertThat(Launch.from(other).rendezvous().getPort())
                .as("another job on the same host")
                .isNotEqualTo(launch.rendezvous().getPort());
    }

    @Test
    void kubernetesIndexedJob() {
        Launch launch =
                launch(
                        "JOB_COMPLETION_INDEX=3",
                        "WORLD_SIZE=4",
                        "HOSTNAME=train-a-3",
                        "TELPHER_SERVICE=train-net");
        assertThat(launch.rank()).isEqualTo(3);
        assertThat(launch.world()).isEqualTo(4);
        assertThat(launch.job()).isEqualTo("train-a");
        assertThat(launch.rendezvous()).isEqualTo(URI.create("tcp://train-a-0.train-net:7171"));
        assertThatThrownBy(() -> launch("JOB_COMPLETION_INDEX=3"))
                .hasMessage(
                        "JOB_COMPLETION_INDEX=3 is set, but not the number of ranks: set WORLD_SIZE");
        assertThatThrownBy(
                        () ->
                                launch(
                                        "JOB_COMPLETION_INDEX=3",
                                        "WORLD_SIZE=4",
                                        "HOSTNAME=train-a-3"))
                .hasMessageContaining("TELPHER_SERVICE");
    }

    @Test
    void variablesOfAScript() {
        Launch launch = launch("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=::1", "MASTER_PORT=6000");
        assertThat(launch.launcher()).isEqualTo("script");
        assertThat(launch.rendezvous()).isEqualTo(URI.create("tcp://[::1]:6001"));
        assertThat(launch.job()).isEqualTo("default");
        assertThat(
                        launch(
                                        "RANK=1",
                                        "WORLD_SIZE=2",
                                        "SLURM_PROCID=1",
                                        "SLURM_NTASKS=2",
                                        "SLURM_JOB_NODELIST=n1")
                                .launcher())
                .as("they agree")
                .isEqualTo("slurm");
    }

    @Test
    void contradictionsNameBoth() {
        assertThatThrownBy(
                        () -> launch("RANK=1", "WORLD_SIZE=2", "SLURM_PROCID=0", "SLURM_NTASKS=4"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("SLURM_PROCID=0, SLURM_NTASKS=4, but RANK=1, WORLD_SIZE=2")
                .hasMessageContaining("TELPHER_RANK");
        assertThatThrownBy(() -> launch("SLURM_PROCID=0", "SLURM_NTASKS=4", "PMIX_RANK=2"))
                .hasMessageContaining("SLURM_PROCID=0, but PMIX_RANK=2");
        assertThat(
                        launch(
                                        "TELPHER_RANK=1",
                                        "TELPHER_WORLD_SIZE=2",
                                        "MASTER_ADDR=h",
                                        "RANK=7",
                                        "WORLD_SIZE=8")
                                .rank())
                .as("the user's word counts")
                .isEqualTo(1);
    }

    @Test
    void badValuesAreNamed() {
        assertThatThrownBy(() -> launch("RANK=one", "WORLD_SIZE=2"))
                .hasMessage("RANK=one is not a whole number");
        assertThatThrownBy(() -> launch("RANK=2", "WORLD_SIZE=2"))
                .hasMessageContaining("RANK=2 does not fit WORLD_SIZE=2");
        assertThatThrownBy(() -> launch("RANK=1")).hasMessageContaining("set WORLD_SIZE");
        assertThatThrownBy(() -> launch("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=0"))
                .hasMessage("MASTER_PORT=0 is not a TCP port");
        assertThatThrownBy(() -> launch()).hasMessageContaining("torchrun");
        assertThatThrownBy(() -> launch("RANK=0", "WORLD_SIZE=2"))
                .hasMessageContaining("MASTER_ADDR");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = ' ',
            textBlock =
                    """
                    n1 n1
                    n1,n2 n1
                    gpu[03-05,9],x gpu03
                    rack[1-2]n[01-16] rack1n01
                    a-b.example[7]-ib,c a-b.example7-ib
                    """)
    void firstHost(String list, String first) {
        assertThat(NodeList.first(list)).isEqualTo(first);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = ' ',
            value = {"n[1", "n[]", "n[a-b]", "n;x", ",n"})
    void noHost(String list) {
        assertThatThrownBy(
                        () ->
                                launch(
                                        "SLURM_PROCID=0",
                                        "SLURM_NTASKS=4",
                                        "SLURM_JOB_NODELIST=" + list))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("SLURM_JOB_NODELIST=" + list);
    }
}
