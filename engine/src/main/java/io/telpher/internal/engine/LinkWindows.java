package io.telpher.internal.engine;

import io.telpher.internal.memory.Release;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import org.jspecify.annotations.Nullable;

/// The windows of a connection's links, and those in use: of the first link that has some, and of
/// another one when it is lost.
final class LinkWindows {
    /// Between two looks at regions that the peer may have closed.
    private static final long LOOK = 500_000_000;

    /// Those in use.
    private volatile @Nullable Direct direct;

    /// Those of all links; replaced, under the connection's lock, never changed.
    private volatile Direct[] links = {};

    /// The progress thread's own.
    private long lastLook;

    /// Takes over the windows of a link, and forgets those of links that are lost. Under the
    /// connection's lock.
    void open(Direct opened) {
        List<Direct> more = new ArrayList<>();
        for (Direct each : links) {
            if (!each.isLost()) {
                more.add(each);
            }
        }
        more.add(opened);
        links = more.toArray(Direct[]::new);
        if (direct == null) {
            direct = opened;
        }
    }

    /// @return those in use, or null when there are none, or none any more
    @Nullable Direct current() {
        Direct now = direct;
        return now == null || !now.isLost() ? now : another();
    }

    /// @return those of all links, lost ones among them; not to be changed
    Direct[] all() {
        return links;
    }

    private @Nullable Direct another() {
        for (Direct each : links) {
            if (!each.isLost()) {
                direct = each; // whoever else looks finds the same
                return each;
            }
        }
        return null;
    }

    boolean areThere() {
        return current() != null;
    }

    // --- receives that the peer may store into, by whichever link -------------------------------

    /// Lets the peer in. A link that comes later does not.
    ///
    /// @return whether it can be kept out again
    boolean admit(long receive) {
        for (Direct each : links) {
            if (each.adverts == null) {
                return false;
            }
        }
        for (Direct each : links) {
            if (each.adverts != null) {
                each.adverts.admit(receive);
            }
        }
        return true;
    }

    /// Keeps the peer out of a receive that is revocable.
    void keepOut(long receive) {
        for (Direct each : links) {
            if (each.adverts != null) {
                each.adverts.keepOut(receive);
            }
        }
    }

    /// Whether this side tells the peer, through the windows, of the receives that it stores into.
    boolean tellOfSends() {
        for (Direct each : links) {
            if (each.adverts != null) {
                return true;
            }
        }
        return false;
    }

    /// Whether the peer may be storing into a receive that is revocable.
    boolean isInside(long receive) {
        for (Direct each : links) {
            if (each.adverts != null && each.adverts.isInside(receive)) {
                return true;
            }
        }
        return false;
    }

    /// Ends waits for windows, and looks now and then at what short copies have counted, and for
    /// regions that the peer has closed, whose memory this side still holds. Called by the progress
    /// thread only, without the lock.
    ///
    /// @param control gives memory back, which takes its time
    void tick(long now, Executor control) {
        for (Direct windows : links) {
            windows.opening.tick(now);
        }
        if (now - lastLook >= LOOK) {
            lastLook = now;
            for (Direct windows : links) {
                windows.settleCounts();
                if (windows.holdsClosed()) {
                    control.execute(windows::giveBackClosed);
                }
            }
        }
    }

    /// Closes them, from and to which no GPU copies.
    void close() {
        Release.all(List.of(links), Direct::close);
    }

    // --- for people -----------------------------------------------------------------------------

    void explain(StringBuilder text) {
        for (Direct windows : links) {
            text.append("  one-sided: ").append(windows.explain()).append('\n');
        }
    }

    /// Adds the short copies, which are no operations.
    void count(Tally into) {
        for (Direct windows : links) {
            windows.count(into);
        }
    }
}
