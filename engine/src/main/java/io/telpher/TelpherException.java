package io.telpher;

import java.util.List;

/// Everything that goes wrong in Telpher beyond wrong arguments. The message names the thing, the
/// value and, where there is one, the remedy.
public abstract sealed class TelpherException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private TelpherException(String message) {
        super(message);
    }

    /// The peer died, restarted or cannot be reached any more.
    public static final class PeerLost extends TelpherException {
        private static final long serialVersionUID = 1L;

        /// @param message names the peer, the path and how it was noticed
        public PeerLost(String message) {
            super(message);
        }
    }

    /// A deadline passed.
    public static final class TimedOut extends TelpherException {
        private static final long serialVersionUID = 1L;

        /// @param message names what was waited for and how long
        public TimedOut(String message) {
            super(message);
        }
    }

    /// The transfer was cancelled.
    public static final class Cancelled extends TelpherException {
        private static final long serialVersionUID = 1L;

        /// @param message names the transfer
        public Cancelled(String message) {
            super(message);
        }
    }

    /// The owner does not allow this: wrong secret, wrong key, no right to read or write, outside
    /// the region.
    public static final class AccessDenied extends TelpherException {
        private static final long serialVersionUID = 1L;

        /// @param message names what was refused
        public AccessDenied(String message) {
            super(message);
        }
    }

    /// The descriptor names a region that was closed, or an endpoint that restarted.
    public static final class StaleRegion extends TelpherException {
        private static final long serialVersionUID = 1L;

        /// @param message names the region
        public StaleRegion(String message) {
            super(message);
        }
    }

    /// A region cannot be given back yet.
    public static final class RegionBusy extends TelpherException {
        private static final long serialVersionUID = 1L;

        /// @param message names the region and who holds it
        public RegionBusy(String message) {
            super(message);
        }
    }

    /// A message was longer than the receive that it met.
    public static final class Truncated extends TelpherException {
        private static final long serialVersionUID = 1L;

        private final long sent;
        private final long capacity;

        /// @param sent bytes of the message
        /// @param capacity bytes of the receive
        public Truncated(long sent, long capacity) {
            super("a message of " + sent + " bytes met a receive of " + capacity + " bytes");
            this.sent = sent;
            this.capacity = capacity;
        }

        /// @return bytes of the message
        public long sent() {
            return sent;
        }

        /// @return bytes of the receive
        public long capacity() {
            return capacity;
        }
    }

    /// No connection came to be.
    public static final class ConnectFailed extends TelpherException {
        private static final long serialVersionUID = 1L;

        private final String[] attempts;

        /// @param message names the peer
        /// @param attempts every way that was tried, and how it failed
        public ConnectFailed(String message, List<String> attempts) {
            super(attempts.isEmpty() ? message : message + ": " + String.join("; ", attempts));
            this.attempts = attempts.toArray(String[]::new);
        }

        /// @return every way that was tried, and how it failed
        public List<String> attempts() {
            return List.of(attempts);
        }
    }

    /// This machine or this peer cannot do that.
    public static final class Unsupported extends TelpherException {
        private static final long serialVersionUID = 1L;

        /// @param message names what is missing, and the remedy
        public Unsupported(String message) {
            super(message);
        }
    }

    /// The endpoint or connection was closed.
    public static final class Closed extends TelpherException {
        private static final long serialVersionUID = 1L;

        /// @param message names what was closed
        public Closed(String message) {
            super(message);
        }
    }

    /// The peer broke the protocol; the connection has been ended.
    public static final class ProtocolViolation extends TelpherException {
        private static final long serialVersionUID = 1L;

        /// @param message names what came and what was expected
        public ProtocolViolation(String message) {
            super(message);
        }
    }

    /// A call of the operating system, or of a GPU's library, failed.
    public static final class NativeFailure extends TelpherException {
        private static final long serialVersionUID = 1L;

        private final String call;
        private final int errno;
        private final String[] arguments;

        /// @param call the function's name in C; `allocate` where memory is refused that the system
        ///     says is not there
        /// @param errno the error number, or the library's own code
        /// @param arguments what it was called with, as far as it tells people anything
        /// @param description the error's name and text, and the remedy where there is one
        public NativeFailure(String call, int errno, List<String> arguments, String description) {
            super("%s(%s) failed: %s".formatted(call, String.join(", ", arguments), description));
            this.call = call;
            this.errno = errno;
            this.arguments = arguments.toArray(String[]::new);
        }

        /// @return the function's name in C, or `allocate`
        public String call() {
            return call;
        }

        /// @return the error number, or the library's own code
        public int errno() {
            return errno;
        }

        /// @return what it was called with, as far as it tells people anything
        public List<String> arguments() {
            return List.of(arguments);
        }
    }
}
