package io.telpher.internal.engine;

import java.util.ArrayDeque;
import org.jspecify.annotations.Nullable;

/// Where the messages of one tag stand, in both directions, and what waits for its counterpart.
/// Guarded by the connection's lock; kept by [Tags].
final class TagChannel implements ControlFrame.Owner {
    /// Whether it can be used.
    enum Use {
        /// Yes.
        OPEN,
        /// The peer has been asked to forget it: what is posted waits for the answer.
        ASKED,
        /// This side has forgotten it and has said so: what is posted waits until the peer knows.
        PARTED
    }

    private final Tags tags;
    long tag;

    /// Positions of the next send and of the next receive.
    long sendNext;

    long receiveNext;

    final LongMap<Operation> receives = new LongMap<>();
    final LongMap<Receives.Arrival> arrivals = new LongMap<>();
    final LongMap<Operation> started = new LongMap<>();
    final LongMap<Sends.Advert> adverts = new LongMap<>();
    final LongMap<Boolean> withdrawn = new LongMap<>();

    /// Sends that have not started.
    final ArrayDeque<Operation> waiting = new ArrayDeque<>(4);

    /// Receives that have no position yet, since the channel is not open.
    final ArrayDeque<Operation> posted = new ArrayDeque<>(0);

    /// It is among the starved ones.
    boolean starving;

    /// Operations that have it, until their slots are given back, and frames that name its tag,
    /// until they are confirmed.
    int users;

    Use use = Use.OPEN;

    /// The answer with which it was forgotten, while it is `PARTED`.
    @Nullable Object parting;

    /// Its neighbours in the order of use, while it is `OPEN`.
    @Nullable TagChannel older;

    @Nullable TagChannel newer;

    TagChannel(Tags tags) {
        this.tags = tags;
    }

    /// Counts an operation in.
    void enter(Operation op) {
        op.channel = this;
        users++;
    }

    /// Counts a frame in that names the tag.
    ControlFrame enter(ControlFrame frame) {
        frame.owner = this;
        users++;
        return frame;
    }

    /// One user less.
    void leave() {
        users--;
        tags.left(this);
    }

    @Override
    public void confirmed() {
        leave();
    }

    /// Whether nothing has come or was promised that has not met its counterpart.
    boolean isQuiet() {
        return receives.size() == 0
                && arrivals.size() == 0
                && started.size() == 0
                && adverts.size() == 0
                && withdrawn.size() == 0
                && !starving;
    }

    /// Whether besides nobody has it, and no frame is under way that names it.
    boolean isIdle() {
        return users == 0 && isQuiet();
    }

    /// Whether it stands where it would if there were none.
    boolean isBlank() {
        return sendNext == 0 && receiveNext == 0 && isIdle();
    }

    /// Begins anew.
    void reset() {
        sendNext = 0;
        receiveNext = 0;
    }
}
