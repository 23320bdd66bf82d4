package io.telpher.sim;

import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.LocalRegion;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Who of other processes is inside which region of one endpoint: the hazard slots.
final class WindowRegistry {
    /// An announced access.
    static final class Access {
        final SimProcess by;
        final LocalRegion region;

        Access(SimProcess by, LocalRegion region) {
            this.by = by;
            this.region = region;
        }
    }

    private final SimProcess process;
    private final EndpointContext context;
    private final List<Access> inside = new ArrayList<>();

    WindowRegistry(SimProcess process, EndpointContext context) {
        this.process = process;
        this.context = context;
    }

    SimProcess process() {
        return process;
    }

    EndpointContext context() {
        return context;
    }

    /// @return the access, or null when the region is closed
    @Nullable Access enter(SimProcess by, LocalRegion region) {
        if (!context.isOpen(region.index(), region.generation())) {
            return null;
        }
        Access access = new Access(by, region);
        inside.add(access);
        return access;
    }

    void exit(Access access) {
        inside.remove(access);
    }

    /// Waits until nobody is inside a region that was closed.
    @Nullable String revoke(LocalRegion region, Deadline deadline) {
        int round = 0;
        while (true) {
            Access holder = null;
            for (Access one : inside) {
                if (one.region == region && !one.by.isOver()) {
                    holder = one;
                }
            }
            if (holder == null) {
                return null;
            }
            if (deadline.passed()) {
                return holder.by.name() + " is in the middle of an access";
            }
            process.pause(round++);
        }
    }
}
