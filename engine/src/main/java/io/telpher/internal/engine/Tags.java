package io.telpher.internal.engine;

import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Iterator;
import org.jspecify.annotations.Nullable;

/// The tags of a connection that are in use, or were of late. The others are forgotten, by both
/// sides together: positions begin anew at 0, so none of the two may be ahead.
///
/// ```
/// asking side:    OPEN --FORGET--> ASKED --FORGOTTEN: no---> OPEN
///                                        \--FORGOTTEN: yes-> gone
/// answering side: OPEN --yes--> PARTED --FORGOTTEN is confirmed, or the peer names the tag--> gone
/// ```
///
/// The side that has made the connection asks. Either side gives a tag up only when it is idle:
/// then every frame of its own that names the tag has been applied by the peer, so no late one can
/// meet the new beginning. What is posted meanwhile waits: at the asking side for the answer, at
/// the answering side until the peer has the answer. `docs/architecture.md` has the argument.
///
/// Guarded by the connection's lock, under which everything is called.
final class Tags {
    /// So many are kept at least, in use or not.
    private static final int KEPT = 512;

    /// Tag, position of the asking side's next send, and of its next receive.
    private static final int ENTRY = 3 * Long.BYTES;

    /// Tags in one question.
    private static final int MOST = ControlFrame.MAX_PAYLOAD / ENTRY;

    /// Questions that may be unanswered.
    private static final int MOST_QUESTIONS = 64;

    private enum Role {
        /// One of the sides does not know how to forget.
        NONE,
        ASKS,
        ANSWERS
    }

    /// Tags that were asked about, or that were forgotten for a question.
    private final class Question implements ControlFrame.Owner {
        final long number;
        final TagChannel[] channels = new TagChannel[MOST];
        int count;

        Question(long number) {
            this.number = number;
        }

        void add(TagChannel channel) {
            channels[count++] = channel;
        }

        /// The peer has the answer.
        @Override
        public void confirmed() {
            for (int i = 0; i < count; i++) {
                TagChannel channel = channels[i];
                if (channel.parting == this) {
                    open(channel);
                    dropBlank(channel);
                }
            }
        }
    }

    private final ConnectionCore connection;
    private final Outbound outbound;
    private final Matcher matcher;
    final LongMap<TagChannel> channels = new LongMap<>();
    private final ArrayDeque<TagChannel> spare = new ArrayDeque<>();
    private final ArrayDeque<Question> questions = new ArrayDeque<>();
    private @Nullable TagChannel oldest;
    private @Nullable TagChannel newest;
    private Role role = Role.NONE;

    /// Channels that are not open.
    private int closed;

    private long asked;

    /// The peer has forgotten nothing when it was asked last: it is not asked again before so many
    /// more uses of tags have ended.
    private int patience;

    /// Changed by tests alone.
    int kept = KEPT;

    Tags(ConnectionCore connection, Outbound outbound, Matcher matcher) {
        this.connection = connection;
        this.outbound = outbound;
        this.matcher = matcher;
    }

    /// Both sides know how to forget. Before the connection is used.
    void mayForget(boolean initiator) {
        role = initiator ? Role.ASKS : Role.ANSWERS;
    }

    /// The channel of a tag for which this side posts.
    TagChannel find(long tag) {
        TagChannel channel = newest;
        if (channel != null && channel.tag == tag) {
            return channel;
        }
        channel = channels.get(tag);
        if (channel == null) {
            channel = spare.pollFirst();
            if (channel == null) {
                channel = new TagChannel(this);
            }
            channel.tag = tag;
            channels.put(tag, channel);
            link(channel);
        } else if (channel.use == TagChannel.Use.OPEN) {
            unlink(channel);
            link(channel);
        }
        return channel;
    }

    /// The channel of a tag that the peer names: it knows that both begin anew.
    TagChannel named(long tag) {
        TagChannel channel = find(tag);
        if (channel.use == TagChannel.Use.PARTED) {
            open(channel);
        }
        return channel;
    }

    /// A channel has one user less.
    void left(TagChannel channel) {
        if (channel.users == 0) {
            dropBlank(channel);
            prune();
        }
    }

    /// Forgets a channel that is as if it had never been.
    void dropBlank(TagChannel channel) {
        if (channel.use == TagChannel.Use.OPEN
                && channel.isBlank()
                && channels.get(channel.tag) == channel) {
            unlink(channel);
            channels.remove(channel.tag);
            if (spare.size() < MOST) {
                spare.addFirst(channel);
            }
        }
    }

    private void link(TagChannel channel) {
        channel.older = newest;
        channel.newer = null;
        if (newest == null) {
            oldest = channel;
        } else {
            newest.newer = channel;
        }
        newest = channel;
    }

    private void unlink(TagChannel channel) {
        TagChannel before = channel.older;
        TagChannel after = channel.newer;
        if (before == null) {
            oldest = after;
        } else {
            before.newer = after;
        }
        if (after == null) {
            newest = before;
        } else {
            after.older = before;
        }
        channel.older = null;
        channel.newer = null;
    }

    private void close(TagChannel channel, TagChannel.Use why) {
        unlink(channel);
        channel.use = why;
        closed++;
    }

    /// Lets a channel be used, by what has waited for that first.
    private void open(TagChannel channel) {
        channel.use = TagChannel.Use.OPEN;
        channel.parting = null;
        closed--;
        link(channel);
        matcher.goOn(channel);
    }

    // --- the asking side ------------------------------------------------------------------------

    /// Asks about the tags that were used least of late, when there are too many.
    void prune() {
        if (role != Role.ASKS || patience-- > 0) {
            return;
        }
        patience = 0;
        while (channels.size() - closed >= kept + step()
                && questions.size() < MOST_QUESTIONS
                && ask()) {}
    }

    private int step() {
        return Math.clamp(kept / 8, 1, MOST);
    }

    /// @return false when none of those that were looked at can be forgotten
    private boolean ask() {
        int most = Math.min(MOST, channels.size() - closed - kept);
        Question question = new Question(++asked);
        for (int looks = 0; looks < 4 * MOST && question.count < most; looks++) {
            TagChannel channel = oldest;
            if (channel == null) {
                break;
            }
            if (channel.isIdle()) {
                close(channel, TagChannel.Use.ASKED);
                question.add(channel);
            } else {
                unlink(channel);
                link(channel);
            }
        }
        if (question.count == 0) {
            patience = step();
            return false;
        }
        byte[] entries = new byte[question.count * ENTRY];
        MemorySegment table = MemorySegment.ofArray(entries);
        for (int i = 0; i < question.count; i++) {
            TagChannel channel = question.channels[i];
            table.set(Frame.LONG, (long) i * ENTRY, channel.tag);
            table.set(Frame.LONG, (long) i * ENTRY + 8, channel.sendNext);
            table.set(Frame.LONG, (long) i * ENTRY + 16, channel.receiveNext);
        }
        questions.addLast(question);
        ControlFrame frame =
                outbound.control(Frame.FORGET, 0, question.count, 0).with(Frame.A, question.number);
        frame.payload(entries);
        outbound.enqueue(frame);
        return true;
    }

    /// The peer has answered.
    ///
    /// @param agreed a bit for each tag that it has forgotten
    void forgotten(long number, long agreed) {
        Question question = take(number);
        if (question == null || agreed >>> question.count != 0) {
            connection.violated("it forgets tags that it was not asked about");
            return;
        }
        for (int i = 0; i < question.count; i++) {
            TagChannel channel = question.channels[i];
            if ((agreed & 1L << i) != 0) {
                if (!channel.isQuiet()) {
                    connection.violated("it forgets tag " + channel.tag + ", which it uses");
                    return;
                }
                channel.reset();
            }
            open(channel);
            dropBlank(channel);
        }
        patience = agreed == 0 ? step() : 0;
        prune();
    }

    private @Nullable Question take(long number) {
        Iterator<Question> all = questions.iterator();
        while (all.hasNext()) {
            Question question = all.next();
            if (question.number == number) {
                all.remove();
                return question;
            }
        }
        return null;
    }

    // --- the answering side ---------------------------------------------------------------------

    /// The peer asks: forgets the tags that are idle here too and stand where it says.
    void forget(long number, int count, MemorySegment table, long at, int length) {
        if (role != Role.ANSWERS || count > MOST || length != count * ENTRY) {
            connection.violated("a question about tags that it may not ask");
            return;
        }
        long agreed = 0;
        Question question = new Question(number);
        for (int i = 0; i < count; i++) {
            long entry = at + (long) i * ENTRY;
            TagChannel channel = channels.get(table.get(Frame.LONG, entry));
            if (channel != null
                    && channel.use == TagChannel.Use.OPEN
                    && channel.isIdle()
                    && channel.receiveNext == table.get(Frame.LONG, entry + 8)
                    && channel.sendNext == table.get(Frame.LONG, entry + 16)) {
                agreed |= 1L << i;
                close(channel, TagChannel.Use.PARTED);
                channel.reset();
                channel.parting = question;
                question.add(channel);
            }
        }
        ControlFrame answer =
                outbound.control(Frame.FORGOTTEN, Frame.URGENT, 0, 0)
                        .with(Frame.A, number)
                        .with(Frame.B, agreed);
        answer.owner = question;
        outbound.enqueue(answer);
    }
}
