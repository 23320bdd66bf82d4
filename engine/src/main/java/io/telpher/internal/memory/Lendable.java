package io.telpher.internal.memory;

/// A region whose bytes somebody uses by their address, where nothing shows that the memory has
/// gone: an array of Python's. Thread-safe.
public interface Lendable {
    /// The memory stays where it is until it is given back as often as it was lent, also when the
    /// region is closed meanwhile; peers and transfers are shut out by that as always. A peer that
    /// stands still in the middle of a copy cannot be, so closing is `RegionBusy` then.
    ///
    /// @throws io.telpher.TelpherException.Closed when the region is closed
    void lend();

    /// The memory goes now, if the region is closed and this was the last loan.
    ///
    /// @throws io.telpher.TelpherException.RegionBusy when a native call works on it at this
    ///     moment; then it stays for as long as the process
    void giveBack();
}
