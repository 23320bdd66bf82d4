package io.telpher.bootstrap;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/// Reads what launchers leave in the environment. `docs/bootstrap.md` has the table.
final class LaunchVariables {
    /// Where rank 0 serves when nothing tells jobs on one host apart.
    private static final int PORT = 7171;

    /// Ports that are derived from a job's name lie below those that systems give out by
    /// themselves, from 32768.
    private static final int FIRST_DERIVED_PORT = 20_000;

    private static final int DERIVED_PORTS = 10_000;

    private final Map<String, String> env;

    private LaunchVariables(Map<String, String> env) {
        this.env = env;
    }

    /// What one launcher says of ranks.
    ///
    /// @param rankName variable of the rank
    /// @param worldName variable of the world's size
    private record Claim(
            String launcher,
            String rankName,
            int rank,
            String worldName,
            int world,
            OptionalInt local) {
        String text() {
            return "%s=%d, %s=%d".formatted(rankName, rank, worldName, world);
        }

        Claim by(String other) {
            return new Claim(other, rankName, rank, worldName, world, local);
        }

        boolean agrees(Claim other) {
            return rank == other.rank && world == other.world;
        }
    }

    static Launch read(Map<String, String> env) {
        return new LaunchVariables(env).read();
    }

    private Launch read() {
        Claim claim = claim();
        String job = job(claim.launcher);
        String server = text("TELPHER_RENDEZVOUS");
        return server != null
                ? launch(claim, job, uri(server), Launch.Host.ELSEWHERE)
                : launch(claim, job, served(claim, job), Launch.Host.RANK_0);
    }

    private static Launch launch(Claim claim, String job, URI rendezvous, Launch.Host host) {
        return new Launch(
                claim.launcher, claim.rank, claim.world, claim.local, job, rendezvous, host);
    }

    // --- ranks ----------------------------------------------------------------------------------

    /// The innermost launcher's, unless the user says something else.
    private Claim claim() {
        Claim own = claim("telpher", "TELPHER_RANK", "TELPHER_WORLD_SIZE", "TELPHER_LOCAL_RANK");
        if (own != null) {
            return own;
        }
        Claim plain = claim("script", "RANK", "WORLD_SIZE", "LOCAL_RANK");
        if (plain != null && text("TORCHELASTIC_RUN_ID") != null) {
            return plain.by("torchrun");
        }
        Claim inner = inner();
        Claim claim = inner != null ? inner : plain;
        if (claim == null) {
            throw new IllegalArgumentException(
                    "no launcher's variables are set, such as RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID"
                            + " or JOB_COMPLETION_INDEX: start with torchrun, mpirun, srun or as an"
                            + " indexed job, or set TELPHER_RANK and TELPHER_WORLD_SIZE");
        }
        if (plain != null && !claim.agrees(plain)) {
            throw new IllegalArgumentException(
                    "the launchers' variables contradict each other: %s, but %s; unset the wrong ones, or set TELPHER_RANK and TELPHER_WORLD_SIZE"
                            .formatted(claim.text(), plain.text()));
        }
        return claim;
    }

    /// mpirun inside a Slurm job, or either inside a pod: the inner one numbers the ranks.
    private @Nullable Claim inner() {
        Claim mpi = mpi();
        Claim slurm = mpi == null ? slurm() : null;
        return mpi != null ? mpi : slurm != null ? slurm : kubernetes();
    }

    private @Nullable Claim claim(
            String launcher, String rankName, String worldName, @Nullable String localName) {
        OptionalInt rank = number(rankName);
        OptionalInt world = number(worldName);
        if (rank.isEmpty()) {
            return null;
        }
        if (world.isEmpty()) {
            throw new IllegalArgumentException(
                    "%s=%d is set, but not the number of ranks: set %s"
                            .formatted(rankName, rank.getAsInt(), worldName));
        }
        if (rank.getAsInt() < 0 || rank.getAsInt() >= world.getAsInt()) {
            throw new IllegalArgumentException(
                    "%s=%d does not fit %s=%d: ranks are 0 to world - 1"
                            .formatted(rankName, rank.getAsInt(), worldName, world.getAsInt()));
        }
        return new Claim(
                launcher,
                rankName,
                rank.getAsInt(),
                worldName,
                world.getAsInt(),
                localName == null ? OptionalInt.empty() : number(localName));
    }

    private @Nullable Claim mpi() {
        Claim ompi =
                claim(
                        "mpi",
                        "OMPI_COMM_WORLD_RANK",
                        "OMPI_COMM_WORLD_SIZE",
                        "OMPI_COMM_WORLD_LOCAL_RANK");
        agree(ompi, "PMIX_RANK");
        return ompi;
    }

    private @Nullable Claim slurm() {
        Claim slurm =
                claim(
                        "slurm",
                        "SLURM_PROCID",
                        number("SLURM_STEP_NUM_TASKS").isPresent()
                                ? "SLURM_STEP_NUM_TASKS"
                                : "SLURM_NTASKS",
                        "SLURM_LOCALID");
        agree(slurm, "PMIX_RANK"); // srun --mpi=pmix
        return slurm;
    }

    private void agree(@Nullable Claim claim, String otherName) {
        OptionalInt other = number(otherName);
        if (claim != null && other.isPresent() && other.getAsInt() != claim.rank) {
            throw new IllegalArgumentException(
                    "the launcher's variables contradict each other: %s=%d, but %s=%d; set TELPHER_RANK and TELPHER_WORLD_SIZE"
                            .formatted(claim.rankName, claim.rank, otherName, other.getAsInt()));
        }
    }

    private @Nullable Claim kubernetes() {
        return claim("kubernetes", "JOB_COMPLETION_INDEX", "WORLD_SIZE", null);
    }

    // --- the job's name -------------------------------------------------------------------------

    private String job(String launcher) {
        String given = text("TELPHER_JOB");
        if (given != null) {
            return given;
        }
        String name =
                switch (launcher) {
                    case "torchrun" -> text("TORCHELASTIC_RUN_ID");
                    case "mpi" -> text("PMIX_NAMESPACE");
                    case "slurm" -> slurmJob();
                    case "kubernetes" -> podJob();
                    default -> null;
                };
        return name == null ? "default" : name;
    }

    private @Nullable String slurmJob() {
        String job = text("SLURM_JOB_ID");
        String step = text("SLURM_STEP_ID");
        return job == null || step == null ? job : job + "." + step;
    }

    /// A pod of an indexed job is called `JOB-INDEX`.
    private @Nullable String podJob() {
        String pod = text("HOSTNAME");
        String index = text("JOB_COMPLETION_INDEX");
        return pod != null && index != null && pod.endsWith("-" + index)
                ? pod.substring(0, pod.length() - index.length() - 1)
                : null;
    }

    // --- where rank 0 serves --------------------------------------------------------------------

    private URI served(Claim claim, String job) {
        String host = text("MASTER_ADDR");
        if (host == null) {
            host =
                    switch (claim.launcher) {
                        case "mpi" -> mpiHost(claim);
                        case "slurm" -> slurmHost();
                        case "kubernetes" -> podHost();
                        default -> claim.world == 1 ? "127.0.0.1" : null;
                    };
        }
        if (host == null) {
            throw new IllegalArgumentException(
                    "nothing says where rank 0 of %s runs: set MASTER_ADDR to its host, or TELPHER_RENDEZVOUS=tcp://HOST:PORT to a running telpher rendezvous --listen PORT"
                            .formatted(claim.text()));
        }
        return uri(
                "tcp://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + port(claim, job));
    }

    private int port(Claim claim, String job) {
        OptionalInt own = number("TELPHER_RENDEZVOUS_PORT");
        if (own.isPresent()) {
            return checked("TELPHER_RENDEZVOUS_PORT", own.getAsInt());
        }
        OptionalInt master = number("MASTER_PORT");
        if (master.isPresent()) {
            // torch's own store listens on that very port.
            return checked("MASTER_PORT", master.getAsInt()) % 65_535 + 1;
        }
        boolean shared = claim.launcher.equals("mpi") || claim.launcher.equals("slurm");
        return shared && !job.equals("default")
                ? FIRST_DERIVED_PORT + Math.floorMod(job.hashCode(), DERIVED_PORTS)
                : PORT;
    }

    private static int checked(String name, int port) {
        if (port < 1 || port > 65_535) {
            throw new IllegalArgumentException(name + "=" + port + " is not a TCP port");
        }
        return port;
    }

    private @Nullable String mpiHost(Claim claim) {
        OptionalInt local = number("OMPI_COMM_WORLD_LOCAL_SIZE");
        return local.isPresent() && local.getAsInt() == claim.world ? "127.0.0.1" : null;
    }

    private @Nullable String slurmHost() {
        for (String name : List.of("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")) {
            String nodes = text(name);
            if (nodes != null) {
                try {
                    return NodeList.first(nodes);
                } catch (IllegalArgumentException e) {
                    throw new IllegalArgumentException(
                            name + "=" + nodes + " is no list of nodes: " + e.getMessage(), e);
                }
            }
        }
        return null;
    }

    private String podHost() {
        String job = podJob();
        String service = text("TELPHER_SERVICE");
        if (job == null || service == null) {
            throw new IllegalArgumentException(
                    "nothing says where the pod of index 0 is: set TELPHER_SERVICE to the headless service that is the job's subdomain%s, or MASTER_ADDR to the pod's name"
                            .formatted(
                                    job == null
                                            ? " and HOSTNAME to the pod's own name, JOB-INDEX"
                                            : ""));
        }
        return job + "-0." + service;
    }

    // --- values ---------------------------------------------------------------------------------

    private @Nullable String text(String name) {
        String value = env.get(name);
        return value == null || value.isBlank() ? null : value.strip();
    }

    private OptionalInt number(String name) {
        String value = text(name);
        if (value == null) {
            return OptionalInt.empty();
        }
        try {
            return OptionalInt.of(Integer.parseInt(value));
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + "=" + value + " is not a whole number", e);
        }
    }

    private static URI uri(String text) {
        try {
            return new URI(text);
        } catch (URISyntaxException e) {
            throw new IllegalArgumentException(
                    "TELPHER_RENDEZVOUS is no address: write tcp://HOST:PORT or redis://HOST:PORT",
                    e);
        }
    }
}
