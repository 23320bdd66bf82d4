package io.telpher.cli.soak;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/// Memory whose conversation or round is over: its regions are closed here, and it is looked at
/// once more before it is freed. Thread-safe by its monitor.
final class Graveyard {
    private static final long PATIENCE = 40_000_000_000L;

    private final List<Inbox> inboxes = new ArrayList<>();

    synchronized void take(Inbox inbox) {
        inboxes.add(inbox);
    }

    /// Does what is due; to be called often.
    ///
    /// @throws SoakFailure when something has arrived in closed memory
    void look() {
        look(false);
    }

    private synchronized boolean look(boolean atOnce) {
        long now = System.nanoTime();
        inboxes.removeIf(inbox -> inbox.close(now) && inbox.bury(now, atOnce));
        return inboxes.isEmpty();
    }

    /// Does everything; the rank ends.
    void empty() {
        long since = Clock.OWN.now();
        while (!look(true)) {
            if (Clock.OWN.now() - since > PATIENCE) {
                throw new SoakFailure("regions cannot be closed");
            }
            LockSupport.parkNanos(10_000_000);
        }
    }
}
