package io.telpher.internal.engine;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Runtimes;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/// Makes the [StagingMemory] of one lane and direction in the background, when it is first wanted:
/// page-locking blocks. Guarded by that direction's token.
final class StagingSetup {
    /// How long the far side may take to map memory that is shared with it.
    static final Duration LIMIT = Duration.ofSeconds(5);

    private final ConnectionCore connection;
    private final LaneState lane;
    private final Token token;
    private final Maker maker;
    private @Nullable StagingMemory memory;
    private boolean asked;

    /// What makes the memory. Blocks; without lock and tokens.
    interface Maker {
        /// @throws TelpherException when it cannot be had, with the reason
        StagingMemory make(Gpu gpu);
    }

    StagingSetup(ConnectionCore connection, LaneState lane, Token token, Maker maker) {
        this.connection = connection;
        this.lane = lane;
        this.token = token;
        this.maker = maker;
    }

    /// @return the memory, if it has been made
    @Nullable StagingMemory known() {
        return memory;
    }

    /// Asks for the memory.
    ///
    /// @return null while it is being made, and where it cannot be had
    @Nullable StagingMemory memory(Device by) {
        if (memory == null && !asked) {
            asked = true;
            connection.endpoint().control().execute(() -> prepare(by));
        }
        return memory;
    }

    private void prepare(Device by) {
        token.take();
        try {
            if (lane.closed) {
                return;
            }
            lane.copies.incrementAndGet(); // it stays open meanwhile
        } finally {
            token.giveBack();
        }
        StagingMemory made = null;
        try {
            made = maker.make(Runtimes.open(by));
        } catch (TelpherException e) {
            connection.note(
                    "%s: bytes of %s are staged without page-locked memory: %s"
                            .formatted(lane.name(), by, e.getMessage()));
        } finally {
            token.take();
            memory = made;
            token.giveBack();
            connection.keeper.copied(lane);
        }
        connection.afterwards(); // what was sent without it meanwhile goes on with it
    }

    /// The lane is closed, and no copy uses the memory.
    void close() {
        StagingMemory made = memory;
        memory = null;
        asked = true;
        if (made != null) {
            made.close();
        }
    }
}
