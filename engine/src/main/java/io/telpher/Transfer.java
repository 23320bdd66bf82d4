package io.telpher;

import io.telpher.internal.engine.TransferList;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// One operation. It ends exactly once per posting, as `DONE`, `FAILED`, `TIMED_OUT` or
/// `CANCELLED`, by its deadline plus the drain limit at the latest; from then on no byte of the
/// caller's memory is touched by it.
///
/// One exception: a receive into a region that its sender reaches by itself. When the receive ends
/// the sender is kept out; but one that stands still in the middle of storing a slice (`mapped` and
/// `cma` up to 4 MiB, GPUs what they were given) finishes that when it goes on. A receive that ends
/// at the drain limit, or with its connection or region, while that is so has [#remoteQuiet()]
/// `UNKNOWN`, and its memory may get that much until the region is closed. Over `verbs`, where
/// nothing keeps a sender out that does not answer, it may get everything. Closing the region makes
/// sure: it waits for the sender, takes the memory away from it, or says that it cannot
/// ([TelpherException.RegionBusy]).
///
/// A transfer from one of the `prepare` methods is `IDLE`; [#post()] starts it, and starts it again
/// once it has ended. The others are posted when the caller gets them. Thread-safe, but posting
/// again while another thread still looks at the previous result is the caller's race.
public interface Transfer {
    /// Posts a prepared or ended transfer. Allocates nothing.
    ///
    /// On a connection that has ended it ends at once with that failure, as one that was under way
    /// then does.
    ///
    /// @throws IllegalStateException when it is pending
    void post();

    /// Posts it to begin after streams: when each of them has done what was put into it up to now.
    /// The streams go on, and neither they nor the calling thread wait for anything. A stream that
    /// has nothing left to do costs a question to its driver; if all are so this is [#post()].
    ///
    /// The deadline counts from the posting, and what ends before the streams get there has touched
    /// nothing. Messages keep their order: a send or receive that is posted after this one with the
    /// same tag does not begin before it. For a stream that shall wait for the transfer, see
    /// [TransferOptions#stream()].
    ///
    /// A stream that cannot be asked (it records a graph, the driver refuses) makes the transfer
    /// `FAILED` with the reason. On AMD GPUs the calling thread waits for the streams.
    ///
    /// @param after of any devices; empty for none; read before this returns
    /// @throws IllegalStateException when it is pending
    void post(List<DeviceStream> after);

    /// Posts several transfers, each as by [#post()], in the order of the list: for many small ones
    /// that are independent. Writes and reads that a GPU of this process carries out go out
    /// together then, in one launch or a few, instead of one each; nothing else is different.
    /// Bytes that belong together are better one transfer of many pieces.
    ///
    /// Each ends by itself, and none is ordered behind another because of the list. They may belong
    /// to any connections and endpoints. What a GPU begins may wait until the last one is posted,
    /// for a few hundred microseconds at most, and does not wait for it where the list is long;
    /// what other threads post meanwhile, or callbacks, does not wait. Allocates nothing.
    ///
    /// One that cannot be posted keeps no other from it. The list is the caller's again when this
    /// returns; it must not change before.
    ///
    /// @param transfers prepared or ended ones; read by index, more than once
    /// @throws IllegalStateException when one was pending, or is in the list twice; all others are
    ///     posted. Of several failures the first is thrown, with the others as suppressed ones
    static void postAll(List<? extends Transfer> transfers) {
        TransferList.post(transfers);
    }

    /// Posts several transfers, each as by [#post(List)], in the order of the list: all of them
    /// begin after these streams. Where none of the streams has anything left to do this is
    /// [#postAll(List)].
    ///
    /// @param transfers as for [#postAll(List)]
    /// @param after of any devices; each is asked once
    /// @throws IllegalStateException as [#postAll(List)]
    static void postAll(List<? extends Transfer> transfers, List<DeviceStream> after) {
        TransferList.post(transfers, after);
    }

    /// @return where the transfer stands; progress is made by this call, so it can be polled
    TransferState poll();

    /// @return where the transfer stands, without making progress
    TransferState state();

    /// @return what is known of the far side; `UNKNOWN` while the transfer is pending
    RemoteQuiet remoteQuiet();

    /// @return how often it has been posted, as the thread sees it that posted it last
    long postings();

    /// Waits for the end: spins, then parks.
    ///
    /// @throws TelpherException that [#error()] names, when it did not end as `DONE`
    void await();

    /// Waits for the end, for a limited time; the transfer goes on when the time is over.
    ///
    /// @return whether it has ended, in whatever way
    boolean await(Duration atMost);

    /// @return a stage that completes with this transfer when it is done, or exceptionally with its
    ///     error
    CompletionStage<Transfer> completion();

    /// Runs an action once when the current posting ends, in whatever way; at once when it has
    /// ended already. It runs on an engine thread or on whichever thread makes progress, must not
    /// block, and may post other transfers.
    void onEnd(Consumer<Transfer> action);

    /// Asks for an early end. The terminal state follows within the drain limit.
    ///
    /// @return false when the transfer had ended already
    boolean cancel();

    /// @return bytes known to be in the target's memory; for a receive, the exact length received
    long bytesMoved();

    /// @return the path that the bytes took or will take: `mapped`, `cma`, `tcp`, ...; of one
    ///     that failed the path that was tried last; empty while none is chosen
    String path();

    /// @return why it did not end as `DONE`, or null
    @Nullable TelpherException error();
}
