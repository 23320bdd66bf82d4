package io.telpher.bootstrap;

/// What goes wrong between ranks at the rendezvous. Deadlines, secrets and closed objects are told
/// by [io.telpher.TelpherException], as everywhere.
public abstract sealed class RendezvousException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private RendezvousException(String message) {
        super(message);
    }

    /// Another process that is alive has this rank.
    public static final class RankTaken extends RendezvousException {
        private static final long serialVersionUID = 1L;

        RankTaken(String message) {
            super(message);
        }
    }

    /// This process lost its lease, and another one has its rank now. The rendezvous is over for
    /// this process; its connections are not touched.
    public static final class Superseded extends RendezvousException {
        private static final long serialVersionUID = 1L;

        Superseded(String message) {
            super(message);
        }
    }

    /// The ranks of the job do not agree on the size of the world.
    public static final class WorldDiffers extends RendezvousException {
        private static final long serialVersionUID = 1L;

        WorldDiffers(String message) {
            super(message);
        }
    }
}
