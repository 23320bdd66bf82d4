package io.telpher.cli.soak;

import io.telpher.Connection;
import io.telpher.Notification;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// One end of a connection: posts random operations, checks how they end, and serves the other end,
/// until the connection is over. One thread runs it; [#close] and [#recycle] may be called by
/// others.
final class Conversation {
    /// What an operation without a deadline of its own gets: nothing may stand still for so long.
    static final Duration DEADLINE = Duration.ofSeconds(20);

    /// From the deadline to the end, at most: the drain limit, and what a busy machine takes.
    private static final long SLACK = Duration.ofSeconds(10).toNanos();

    /// What the other end may take to answer.
    private static final long PATIENCE = Duration.ofSeconds(60).toNanos();

    private static final int DEPTH = 8;
    private static final int NOTES_AT_ONCE = 64;

    /// How it is to end.
    enum Wish {
        GO_ON,
        /// Let everything end, say goodbye, compare what was counted.
        PARTING,
        /// Close, whatever is in flight.
        ABRUPT
    }

    final SoakRank rank;
    final Side side;
    final Connection connection;
    final SplittableRandom random;
    final Arena arena = Arena.ofShared();
    final long salt;
    private final String peer;
    private final List<Flight> flights = new ArrayList<>();
    private final Deque<Note> mail = new ArrayDeque<>();
    private final AtomicLong callbacks = new AtomicLong();
    private final Slots slots;
    private final Messages messages;
    private final Notes notes;
    private volatile Wish wish = Wish.GO_ON;
    private volatile boolean recycleWanted;
    private volatile long turnAt = System.nanoTime();
    private Inbox inbox;
    private boolean recycling;
    private @Nullable Flight mailing;
    private long callbacksWanted;
    private long counter;
    private long pause;
    private long partingSince;
    private boolean byeSent;
    private @Nullable Note bye;

    /// @param peer name of the other end's side
    /// @param seed of everything that is drawn here
    Conversation(SoakRank rank, Side side, String peer, Connection connection, long seed) {
        this.rank = rank;
        this.side = side;
        this.peer = peer;
        this.connection = connection;
        random = new SplittableRandom(seed);
        salt = random.nextLong() >>> 33;
        slots = new Slots(this);
        messages = new Messages(this);
        notes = new Notes(this);
        inbox = newInbox(1);
    }

    private Inbox newInbox(long round) {
        boolean telpher = random.nextInt(100) < side.path().telpherShare();
        return new Inbox(
                side.endpoint(),
                telpher ? Inbox.Kind.TELPHER : Inbox.Kind.FOREIGN,
                round,
                salt,
                random.nextLong());
    }

    // --- for those who post ---------------------------------------------------------------------

    /// @return a number that no other operation of the whole run has
    long nextId() {
        return salt << 32 | ++counter;
    }

    boolean chance(int percent) {
        return random.nextInt(100) < percent;
    }

    /// @return a length from 0 on, short ones as often as long ones
    long length(long most) {
        if (random.nextInt(20) == 0) {
            return 0;
        }
        long bound = 1L << random.nextInt(1, 65 - Long.numberOfLeadingZeros(most));
        return Math.min(most, random.nextLong(1, bound + 1));
    }

    TransferOptions options() {
        return TransferOptions.DEFAULTS.withPriority(
                chance(20) ? io.telpher.Priority.HIGH : io.telpher.Priority.NORMAL);
    }

    /// @return a deadline that may well be missed
    Duration shortDeadline() {
        return Duration.ofNanos(20_000L << random.nextInt(16));
    }

    void fly(Flight flight) {
        rank.log(() -> name() + " posts " + flight);
        flights.add(flight);
    }

    /// Takes a transfer that was posted: some get a callback, some are cancelled at once.
    void fly(
            Flight.Kind kind,
            String text,
            Flight.Limit limit,
            Transfer transfer,
            Consumer<Outcome> end) {
        if (chance(20)) {
            callbacksWanted++;
            transfer.onEnd(t -> callbacks.incrementAndGet());
        }
        Flight flight = Flight.of(kind, text, limit, transfer, connection, end);
        fly(flight);
        if (chance(4)) {
            flight.cancel();
        }
    }

    /// Takes what a `try` method has returned.
    ///
    /// @return false when it was refused for want of room: nothing has been posted
    boolean flyToken(
            Flight.Kind kind, String text, Flight.Limit limit, long token, Consumer<Outcome> end) {
        if (token == Connection.BACK_PRESSURED) {
            return false;
        }
        if (token < 0) {
            Outcome outcome = Outcome.of((int) token, 0);
            rank.log(() -> name() + " could not post " + text + ": " + outcome);
            end.accept(outcome);
        } else {
            fly(Flight.of(kind, text, limit, token, connection, end));
        }
        return true;
    }

    /// A control note, which is repeated until it is taken.
    void tell(Note note) {
        mail.add(note);
    }

    Inbox inbox() {
        return inbox;
    }

    boolean isRecycling() {
        return recycling;
    }

    boolean isOpen() {
        return connection.isOpen();
    }

    boolean isEnding() {
        return wish != Wish.GO_ON || bye != null || !connection.isOpen();
    }

    SoakFailure wrong(String what) {
        return new SoakFailure(name() + ": " + what);
    }

    String name() {
        return side.name() + " with " + peer;
    }

    String peer() {
        return peer;
    }

    // --- asked by others ------------------------------------------------------------------------

    void close(Wish how) {
        wish = how;
    }

    void recycle() {
        recycleWanted = true;
    }

    /// @return when the last turn began
    long turnAt() {
        return turnAt;
    }

    // --- the loop -------------------------------------------------------------------------------

    /// Runs until the connection is over and nothing of this end is in use any more.
    void run() {
        try {
            talk();
            outlive();
        } finally {
            connection.close();
            rank.graveyard().take(inbox);
            slots.close();
            messages.close();
            arena.close();
        }
    }

    private void talk() {
        try {
            offer();
            while (turn()) {
                pace();
            }
        } catch (TelpherException.Closed | TelpherException.PeerLost e) {
            if (connection.isOpen()) {
                throw wrong("the connection is open, but says: " + e.getMessage());
            }
        }
        TelpherException why = connection.failure();
        rank.over(this, why == null ? "closed here" : String.valueOf(why.getMessage()));
    }

    private void offer() {
        side.endpoint().publish(side.name() + " for " + peer, inbox.offer().inbox());
        tell(inbox.offer().note());
    }

    /// @return whether there is more to come
    private boolean turn() {
        beginTurn();
        takeNotes();
        endFlights();
        if (!connection.isOpen()) {
            return false;
        }
        if (wish == Wish.ABRUPT) {
            rank.closing(connection, "in the middle");
            connection.close();
            return false;
        }
        notes.check(turnAt);
        sendMail();
        if (recycling && inbox.close(turnAt)) {
            rank.graveyard().take(inbox);
            recycling = false;
            inbox = newInbox(inbox.offer().round() + 1);
            offer();
        }
        if (recycleWanted && !isEnding()) {
            recycleWanted = false;
            slots.recycle();
        }
        slots.check(turnAt, PATIENCE);
        if (wish == Wish.PARTING || bye != null) {
            return part();
        }
        messages.receive();
        drawChurn();
        for (int i = random.nextInt(4); i > 0 && flights.size() < DEPTH + Messages.RECEIVES; i--) {
            post();
        }
        return true;
    }

    private void beginTurn() {
        long now = System.nanoTime();
        long gap = now - turnAt;
        turnAt = now;
        if (gap > Clock.GAP) {
            rank.log(() -> name() + " stood still for " + gap / 1_000_000 + " ms");
            flights.forEach(flight -> flight.excuse(gap));
            notes.excuse(gap);
            slots.excuse(gap);
            pause += gap;
            partingSince += partingSince == 0 ? 0 : gap;
        }
    }

    private void post() {
        int dice = random.nextInt(100);
        if (dice < 60) {
            slots.post();
        } else if (dice < 80) {
            messages.send();
        } else {
            notes.send();
        }
    }

    private void drawChurn() {
        int dice = random.nextInt(200_000);
        if (dice < 10) {
            wish = Wish.ABRUPT;
        } else if (dice < 20) {
            wish = Wish.PARTING;
        } else if (dice < 60) {
            recycleWanted = true;
        }
    }

    /// Between two turns: now and then waits in one of the ways that there are.
    private void pace() {
        int dice = random.nextInt(100);
        if (dice < 50 || flights.isEmpty()) {
            int unused = connection.poll();
            if (dice < 10) {
                LockSupport.parkNanos(random.nextLong(20_000, 4_000_000));
            }
        } else if (dice < 70) {
            flights.get(random.nextInt(flights.size()))
                    .await(Duration.ofNanos(random.nextLong(1, 2_000_000)));
        } else if (dice < 75) {
            try {
                notes.take(connection.awaitNotification(Duration.ofMillis(1)).payload());
            } catch (TelpherException.TimedOut e) {
                return; // none came
            }
        }
    }

    private void takeNotes() {
        for (int i = 0; i < NOTES_AT_ONCE; i++) {
            Notification next = connection.pollNotification();
            if (next == null) {
                return;
            }
            notes.take(next.payload());
        }
    }

    /// Tells the other end that its note has been taken.
    void acknowledge(long id) {
        tell(Note.of(Note.Kind.ACK, id));
    }

    /// @return the notification that goes with a write
    MemorySegment note(long id, Slot slot, Note.Offer offer, Pieces far) {
        return notes.with(id, slot, offer.round(), slot.next(), far.low(), far.high());
    }

    /// A write with a notification has ended.
    void noteEnded(long id, Outcome outcome) {
        notes.ended(id, outcome);
    }

    /// @return whether this is the round of the other end's inbox
    boolean isRound(long round) {
        return slots.isRound(round);
    }

    /// A note that is about the conversation itself.
    void heard(Note note) {
        switch (note.kind()) {
            case INBOX -> {
                Note.Offer offer = Note.Offer.of(note);
                messages.from(offer.salt());
                slots.begin(offer);
            }
            case RECYCLE -> recycling |= note.id() == inbox.offer().round();
            case BYE -> bye = note;
            case HELLO, PLAIN, WROTE, ACK -> throw wrong("it does not belong here: " + note.kind());
        }
    }

    /// @return memory of the other end, as it is looked up by name
    io.telpher.@Nullable RemoteMemory lookup() {
        try {
            return connection.lookup(peer + " for " + side.name(), Duration.ofSeconds(10));
        } catch (TelpherException.TimedOut e) {
            return null; // the peer is stopped
        }
    }

    private void endFlights() {
        for (int i = 0; i < flights.size(); i++) {
            Flight flight = flights.get(i);
            Outcome outcome = flight.poll();
            if (outcome != null) {
                flights.remove(i--);
                rank.log(() -> name() + " ended " + flight + ": " + outcome);
                judge(flight, outcome);
                rank.counted(outcome);
                flight.ended(outcome);
            } else if (flight.limit() != Flight.Limit.OPEN
                    && flight.age(turnAt) > DEADLINE.toNanos() + SLACK) {
                throw wrong(flight + " has not ended, long after its deadline");
            }
        }
    }

    private void judge(Flight flight, Outcome outcome) {
        boolean expected =
                switch (outcome.why()) {
                    case NOTHING, TRUNCATED, STALE -> true;
                    // Either end may withdraw a message; then it ends at both.
                    case CANCEL ->
                            flight.wasCancelled()
                                    || flight.kind() == Flight.Kind.SEND
                                    || flight.kind() == Flight.Kind.RECEIVE;
                    case ENDED -> !connection.isOpen();
                    case DEADLINE ->
                            flight.limit() != Flight.Limit.SOON || pause > DEADLINE.toNanos() / 2;
                    case OTHER -> false;
                };
        if (!expected) {
            throw wrong(flight + " ended in a way that nothing explains: " + outcome);
        }
    }

    private void sendMail() {
        if (mailing != null || mail.isEmpty()) {
            return;
        }
        Note note = mail.element();
        Transfer transfer = connection.notifyPeer(note.segment());
        Flight flight =
                Flight.of(
                        Flight.Kind.NOTE,
                        note.kind() + " " + note.id(),
                        Flight.Limit.SOON,
                        transfer,
                        connection,
                        outcome -> {
                            mailing = null;
                            if (outcome.done()) {
                                mail.remove();
                            }
                        });
        mailing = flight;
        fly(flight);
    }

    // --- the end --------------------------------------------------------------------------------

    /// Both ends let their own operations end, tell each other what they have counted, and compare.
    private boolean part() {
        if (partingSince == 0) {
            partingSince = turnAt;
        }
        if (turnAt - partingSince > PATIENCE) {
            throw wrong("the goodbye takes for ever; in flight: " + flights);
        }
        messages.receive();
        if (!byeSent && messages.sendsEnded() && notes.settled() && slots.ended()) {
            byeSent = true;
            tell(messages.bye());
        }
        Note theirs = bye;
        if (!byeSent || !mail.isEmpty() || theirs == null || !messages.agrees(theirs)) {
            return true;
        }
        slots.checkAll();
        rank.closing(connection, "after a goodbye");
        connection.close();
        return false;
    }

    /// The connection is over: everything ends soon, and is checked.
    private void outlive() {
        long since = System.nanoTime();
        connection.close();
        while (!flights.isEmpty()) {
            beginTurn();
            endFlights();
            if (turnAt - since - pause > SLACK) {
                throw wrong("the connection is over, but these have not ended: " + flights);
            }
            LockSupport.parkNanos(1_000_000);
        }
        while (callbacks.get() < callbacksWanted) {
            if (System.nanoTime() - since - pause > SLACK) {
                throw wrong(
                        "%d callbacks were wanted, %d have run"
                                .formatted(callbacksWanted, callbacks.get()));
            }
            LockSupport.parkNanos(1_000_000);
        }
        if (callbacks.get() > callbacksWanted) {
            throw wrong("a callback ran twice");
        }
    }
}
