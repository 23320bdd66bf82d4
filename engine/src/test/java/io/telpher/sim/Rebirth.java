package io.telpher.sim;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.MemorySlice;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The second process of a host, after the first was killed or vanished: what was addressed to the
/// first must not reach it. It registers its memory in the same order as the first, so that indices
/// and generations are the same.
final class Rebirth {
    private static final Duration LONG = Duration.ofSeconds(60);
    private static final int BYTES = 4096;

    /// Where the survivor writes what may arrive; everything else stays zero.
    private static final int FRESH = 1024;

    private final RandomRun run;
    private final RandomRun.Side side;
    private final List<Area> areas = new ArrayList<>();
    private @Nullable EndpointAddress address;
    private boolean visited;

    Rebirth(RandomRun run, RandomRun.Side side) {
        this.run = run;
        this.side = side;
    }

    /// The program of the new process.
    void live() {
        try (Endpoint endpoint = side.host.open(run.options)) {
            for (int i = 0; i < 2; i++) {
                areas.add(new Area(endpoint, BYTES));
            }
            address = endpoint.address();
            Connection connection;
            try {
                connection = endpoint.accept(LONG);
            } catch (TelpherException.TimedOut e) {
                return; // nobody has survived, or nobody came in time
            }
            run.simulation.await(() -> visited || !connection.isOpen(), LONG.multipliedBy(5));
        }
    }

    /// The program of the survivor, who holds the address and the descriptors of the first process.
    void visit(Endpoint endpoint, RandomRun.Side survivor) {
        try {
            run.simulation.await(() -> address != null, LONG);
        } catch (TelpherException.TimedOut e) {
            return; // it was ended, too
        }
        EndpointAddress before = side.address;
        EndpointAddress now = address;
        if (before == null || now == null) {
            return;
        }
        try {
            endpoint.connect(before, Duration.ofSeconds(2)).close();
            run.violated("the address of a process that is gone led somewhere");
        } catch (TelpherException.AccessDenied
                | TelpherException.ConnectFailed
                | TelpherException.TimedOut e) {
            run.simulation.log(survivor.name, "the old address: " + e.getMessage());
        }
        try (Connection connection = endpoint.connect(now, Duration.ofSeconds(10))) {
            Area own = new Area(endpoint, BYTES);
            Ops.fill(own.memory, 0, BYTES, 1);
            for (Area old : side.areas) {
                RemoteMemory stale = old.region.remote();
                refused(connection, own, stale);
                refused(connection, own, inNewIncarnation(stale, now.incarnation()));
            }
            Transfer fresh =
                    connection.write(
                            new MemorySlice(own.region, 0, FRESH),
                            areas.getFirst().region.remote().slice(0, FRESH));
            if (!fresh.await(LONG)) {
                run.violated("a write to the new process does not end");
            } else if (fresh.state() == TransferState.DONE
                    && Ops.wrong(areas.getFirst().memory, 0, FRESH, 1) >= 0) {
                run.violated("a write to the new process is DONE without its bytes");
            }
        } catch (TelpherException.ConnectFailed
                | TelpherException.TimedOut
                | TelpherException.PeerLost e) {
            // Another fault may have come between.
            if (!run.hasOtherFaults()) {
                run.violated("no connection with the new process: " + e.getMessage());
            }
        }
        visited = true;
    }

    /// The old descriptor, as somebody would write it who wants to reach the new process.
    private static RemoteMemory inNewIncarnation(RemoteMemory old, long incarnation) {
        return new RemoteMemory(
                incarnation,
                old.region(),
                old.generation(),
                old.key(),
                0,
                BYTES,
                Access.READ_WRITE);
    }

    private void refused(Connection connection, Area own, RemoteMemory memory) {
        MemorySlice local = new MemorySlice(own.region, 0, FRESH);
        RemoteMemory part = memory.slice(FRESH, FRESH);
        for (Transfer transfer :
                List.of(connection.write(local, part), connection.read(local, part))) {
            if (!transfer.await(LONG)) {
                run.violated(transfer + " with an old descriptor does not end");
                continue;
            }
            TelpherException why = transfer.error();
            boolean told =
                    why instanceof TelpherException.StaleRegion
                            || why instanceof TelpherException.AccessDenied;
            if (transfer.state() == TransferState.DONE || (connection.isOpen() && !told)) {
                boolean late = transfer.state() == TransferState.TIMED_OUT && run.hasOtherFaults();
                if (!late) {
                    run.violated("an old descriptor gave %s, %s".formatted(transfer, why));
                }
            }
        }
        if (Ops.wrong(own.memory, 0, FRESH, 1) >= 0) {
            run.violated("a read with an old descriptor has brought something");
        }
    }

    /// What must hold when everything has come to rest.
    void checkAtRest() {
        for (Area area : areas) {
            MemorySegment rest =
                    area == areas.getFirst() ? area.memory.asSlice(FRESH) : area.memory;
            for (long i = 0; i < rest.byteSize(); i++) {
                if (rest.get(ValueLayout.JAVA_BYTE, i) != 0) {
                    run.violated("something was written into the memory of the new process");
                    break;
                }
            }
        }
    }
}
