package io.telpher.bootstrap;

import io.telpher.bootstrap.Answer.BarrierChange;
import io.telpher.bootstrap.Answer.Change;
import io.telpher.bootstrap.Answer.Entry;
import io.telpher.bootstrap.Answer.Kind;
import io.telpher.bootstrap.Answer.RecordChange;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.LongSupplier;

/// The state of one job at the embedded server: records, leases, barriers, the log of changes.
/// `ledger.lua` does the same inside Redis: change both. Thread-safe by its own monitor.
final class Ledger {
    /// Changes that are kept for watchers that were away.
    private static final int LOG = 4096;

    /// Barriers that nobody waits at and that are remembered nevertheless, for repeated requests.
    private static final int IDLE_BARRIERS = 1024;

    /// Most milliseconds that a change waits for others to come.
    private static final int MOST_PATIENCE = 50;

    /// The server was stopped itself when it has not looked at leases for so long.
    private static final long PAUSE_MILLIS = 1000;

    private static final class Slot {
        final Entry entry;
        long expires;

        Slot(Entry entry, long expires) {
            this.entry = entry;
            this.expires = expires;
        }
    }

    /// Where a rank's last ticket counted.
    private record Ticket(long incarnation, long number, long generation) {}

    private static final class Barrier {
        long generation;
        final Map<Integer, Ticket> tickets = new HashMap<>();
        final Map<Integer, Long> arrived = new TreeMap<>();
    }

    private final LongSupplier millis;
    private final long instance;
    private final Map<Integer, Slot> slots = new TreeMap<>();
    private final LinkedHashMap<String, Barrier> barriers = new LinkedHashMap<>(16, 0.75f, true);
    private final ArrayDeque<Change> log = new ArrayDeque<>();

    /// Who waits for changes or has just been told some, and the last revision that it is known to
    /// know.
    private final Map<Object, Long> heard = new HashMap<>();

    private long revision;
    private long epoch;
    private long looked;

    /// @param millis a clock that never goes back
    /// @param instance a random number, not 0
    Ledger(LongSupplier millis, long instance) {
        this.millis = millis;
        this.instance = instance;
        this.looked = millis.getAsLong();
    }

    /// Ends the leases that have run out. To be called often: a long time between two calls is
    /// taken for a pause of this very process, during which nobody could renew.
    synchronized void look() {
        long now = millis.getAsLong();
        long pause = now - looked;
        looked = now;
        if (pause > PAUSE_MILLIS) {
            slots.values().forEach(slot -> slot.expires += pause);
        }
        for (Slot slot : List.copyOf(slots.values())) {
            if (slot.expires <= now) {
                remove(slot, Kind.LOST);
            }
        }
    }

    synchronized Answer announce(Request.Announce request) {
        look();
        long now = millis.getAsLong();
        Slot slot = slots.get(request.rank());
        if (slot != null && slot.entry.incarnation() == request.incarnation()) {
            slot.expires = now + request.leaseMillis();
            return new Answer.Ok(slot.entry.epoch());
        }
        long longest = 0;
        int world = request.world();
        for (Slot other : slots.values()) {
            longest = Math.max(longest, other.expires - now);
            world = other.entry.world();
        }
        if (world != request.world()) {
            return new Answer.OtherWorld(world, (int) longest);
        }
        if (slot != null) {
            return new Answer.Held(
                    slot.entry.incarnation(), slot.entry.epoch(), (int) (slot.expires - now));
        }
        epoch = Math.max(epoch, request.lastEpoch()) + 1;
        Entry entry =
                new Entry(request.rank(), world, request.incarnation(), epoch, request.sealed());
        slots.put(request.rank(), new Slot(entry, now + request.leaseMillis()));
        append(new RecordChange(revision + 1, Kind.JOINED, entry));
        return new Answer.Ok(epoch);
    }

    synchronized Answer leave(Request.Leave request) {
        look();
        Slot slot = slots.get(request.rank());
        if (slot != null && slot.entry.incarnation() == request.incarnation()) {
            remove(slot, Kind.LEFT);
        }
        return new Answer.Removed();
    }

    private void remove(Slot slot, Kind kind) {
        int rank = slot.entry.rank();
        slots.remove(rank);
        barriers.values().forEach(barrier -> barrier.arrived.remove(rank));
        append(new RecordChange(revision + 1, kind, slot.entry));
    }

    synchronized Answer arrive(Request.Arrive request) {
        look();
        forgetBarriers();
        Slot slot = slots.get(request.rank());
        Barrier barrier = barriers.computeIfAbsent(request.barrier(), name -> new Barrier());
        if (hasPassed(barrier, request.rank(), request.incarnation(), request.ticket())) {
            return new Answer.Passed();
        }
        if (slot == null || slot.entry.incarnation() != request.incarnation()) {
            return new Answer.Gone();
        }
        barrier.tickets.put(
                request.rank(),
                new Ticket(request.incarnation(), request.ticket(), barrier.generation));
        barrier.arrived.put(request.rank(), request.ticket());
        if (barrier.arrived.size() < slot.entry.world()) {
            return new Answer.Waiting(barrier.generation);
        }
        barrier.arrived.clear();
        barrier.generation++;
        append(new BarrierChange(revision + 1, request.barrier(), barrier.generation));
        return new Answer.Passed();
    }

    private static boolean hasPassed(Barrier barrier, int rank, long incarnation, long number) {
        Ticket last = barrier.tickets.get(rank);
        return last != null
                && last.incarnation == incarnation
                && last.number == number
                && last.generation < barrier.generation;
    }

    synchronized Answer withdraw(Request.Withdraw request) {
        look();
        Barrier barrier = barriers.getOrDefault(request.barrier(), new Barrier());
        if (hasPassed(barrier, request.rank(), request.incarnation(), request.ticket())) {
            return new Answer.Passed();
        }
        Slot slot = slots.get(request.rank());
        boolean owns = slot != null && slot.entry.incarnation() == request.incarnation();
        int world = slot != null && owns ? slot.entry.world() : 0;
        List<Integer> missing = new ArrayList<>();
        for (int rank = 0; rank < world; rank++) {
            if (!barrier.arrived.containsKey(rank)) {
                missing.add(rank);
            }
        }
        barrier.arrived.remove(request.rank(), request.ticket());
        return new Answer.Withdrawn(missing);
    }

    /// Barriers that nobody waits at, the longest unused first.
    private void forgetBarriers() {
        if (barriers.size() > 2 * IDLE_BARRIERS) {
            List<String> idle = new ArrayList<>();
            barriers.forEach(
                    (name, barrier) -> {
                        if (barrier.arrived.isEmpty()) {
                            idle.add(name);
                        }
                    });
            idle.subList(0, Math.max(0, idle.size() - IDLE_BARRIERS)).forEach(barriers::remove);
        }
    }

    /// @return how many barriers are remembered
    synchronized int barriers() {
        return barriers.size();
    }

    private void append(Change change) {
        revision = change.revision();
        log.addLast(change);
        if (log.size() > LOG) {
            log.removeFirst();
        }
        notifyAll();
    }

    /// Waits for changes.
    ///
    /// @param who the caller's connection, for [#awaitHeard]
    synchronized Answer changes(Request.Changes request, Object who) throws InterruptedException {
        look();
        long end = System.nanoTime() + request.waitMillis() * 1_000_000L;
        heard.put(who, request.instance() == instance ? request.after() : -1);
        notifyAll();
        boolean waited = false;
        while (request.instance() == instance && request.after() == revision) {
            long left = (end - System.nanoTime()) / 1_000_000;
            if (left <= 0) {
                return new Answer.Events(List.of());
            }
            wait(left);
            waited = true;
        }
        if (waited) {
            awaitMore();
        }
        Change oldest = log.peekFirst();
        if (request.instance() != instance
                || request.after() > revision
                || oldest == null
                || request.after() < oldest.revision() - 1) {
            List<Entry> entries = slots.values().stream().map(slot -> slot.entry).toList();
            return new Answer.Snapshot(instance, revision, entries);
        }
        return new Answer.Events(
                log.stream().filter(change -> change.revision() > request.after()).toList());
    }

    /// When all ranks of a large world come or go at once, each change would wake all watchers: a
    /// moment's patience makes few large answers out of many small ones. Not where somebody waits:
    /// for a barrier, or for the last rank.
    private void awaitMore() throws InterruptedException {
        long end = System.nanoTime() + Math.min(MOST_PATIENCE, slots.size()) * 1_000_000L;
        long left;
        while (!isUrgent() && (left = (end - System.nanoTime()) / 1_000_000) > 0) {
            wait(left);
        }
    }

    private boolean isUrgent() {
        return log.peekLast() instanceof BarrierChange
                || slots.values().stream()
                        .limit(1)
                        .anyMatch(slot -> slot.entry.world() == slots.size());
    }

    /// Forgets a connection that has ended.
    synchronized void ended(Object who) {
        heard.remove(who);
        notifyAll();
    }

    /// Waits until every connected watcher knows the last change.
    ///
    /// @param end of [System#nanoTime()]
    synchronized void awaitHeard(long end) throws InterruptedException {
        long left;
        while (heard.values().stream().anyMatch(after -> after != revision)
                && (left = (end - System.nanoTime()) / 1_000_000) > 0) {
            wait(left);
        }
    }

    /// @return whether nothing would be lost with this object but the numbers
    synchronized boolean isIdle() {
        return slots.isEmpty() && heard.isEmpty();
    }
}
