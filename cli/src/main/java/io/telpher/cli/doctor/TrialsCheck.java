package io.telpher.cli.doctor;

import java.util.ArrayList;
import java.util.List;

/// What trying pairs of GPUs has brought in this boot: it counts until the next one, whatever was
/// changed on the machine meanwhile.
final class TrialsCheck implements Check {
    /// For the remedies of what makes trials fail.
    static final String AGAIN =
            "; then have GPUs tried again that were found bad in this boot: telpher doctor --only"
                    + " trials names the files to remove";

    @Override
    public String name() {
        return "trials";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Probes.Trial> trials = host.probes().trials();
        if (trials.isEmpty()) {
            return List.of(
                    Finding.info(
                            name(),
                            "no two GPUs have been tried in this boot, with this driver",
                            "no file peers-*.probe of them in the user's cache folder"));
        }
        List<Finding> found = new ArrayList<>();
        for (Probes.Trial trial : trials) {
            String evidence = trial.file() + " = " + trial.found();
            String pair = "%s and %s".formatted(trial.one(), trial.other());
            String again = "rm '%s'".formatted(trial.file());
            String verify = "telpher bench --memory cuda, then telpher doctor --only trials";
            found.add(
                    trial.good()
                            ? Finding.advice(
                                    name(),
                                    pair + " have been tried: their bytes arrive",
                                    evidence,
                                    again
                                            + " has the next process try them again, say after ACS or"
                                            + " an IOMMU was turned on",
                                    verify)
                            : Finding.warning(
                                    name(),
                                    pair
                                            + " do not copy to each other: the bytes of a trial did"
                                            + " not arrive, so they are staged until the next boot",
                                    evidence,
                                    "mend the cause first (telpher doctor --only pci,iommu; telpher"
                                            + " topo --measure), then "
                                            + again
                                            + "; processes that run already keep what they found",
                                    verify));
        }
        return found;
    }
}
