package io.telpher.spi;

import java.util.List;

/// A transport's share of one endpoint: listeners, and whatever it keeps for each region.
/// Thread-safe.
public interface TransportEndpoint extends AutoCloseable {
    /// @return what goes into the endpoint's address, as things are now
    List<Locator> locators();

    /// @return the port that peers know it by, the first one where there are several; 0 when they
    ///     know it otherwise
    default int port() {
        return 0;
    }

    /// Asked anew for each connection, and once more when the ways that were told have all failed:
    /// others may be told then.
    ///
    /// @return every way to the peer, best first; those that are not possible carry the reason
    List<Route> routes(PeerAddress peer);

    /// Opens a byte stream. Blocks, at most until the deadline.
    ///
    /// @throws io.telpher.TelpherException.ConnectFailed when nobody answers there
    /// @throws io.telpher.TelpherException.TimedOut at the deadline
    Channel dial(Route route, Deadline deadline);

    /// Turns an authenticated channel into a link; both sides call it, and may talk over the
    /// channel first. Blocks, at most until the deadline. The channel belongs to the link from then
    /// on, also when this fails.
    ///
    /// @param channel from [#dial] or an accepted one
    /// @param initiator whether this side dialled
    /// @param peer the authenticated peer
    /// @param deadline when to give up
    Link link(Channel channel, Role initiator, PeerAddress peer, Deadline deadline);

    /// A region was registered. Called before anybody can know of it.
    void opened(LocalRegion region);

    /// A region is being closed: makes sure that no peer reaches it by itself any more. Blocks, at
    /// most until the deadline.
    ///
    /// @return null, or who still reaches it
    @org.jspecify.annotations.Nullable
    String revoke(LocalRegion region, Deadline deadline);

    /// Stops listening and frees what is left. Links have been closed before.
    @Override
    void close();
}
