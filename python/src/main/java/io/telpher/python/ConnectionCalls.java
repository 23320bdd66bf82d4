package io.telpher.python;

import static io.telpher.python.Bridge.HANDLES;
import static io.telpher.python.Request.at;

import io.telpher.Connection;
import io.telpher.Notification;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/// Functions of connections, transfers apart.
final class ConnectionCalls {
    private ConnectionCalls() {}

    static long connectionClose(long connection) {
        HANDLES.get(connection, Connection.class).close();
        return 0;
    }

    /// @return frames handled
    static long connectionPoll(long connection) {
        return HANDLES.get(connection, Connection.class).poll();
    }

    /// @return 1 while transfers can be posted, else 0
    static long connectionIsOpen(long connection) {
        return HANDLES.get(connection, Connection.class).isOpen() ? 1 : 0;
    }

    /// @return 0, or the failure that ended the connection
    static long connectionFailure(long connection) {
        TelpherException why = HANDLES.get(connection, Connection.class).failure();
        if (why != null) {
            throw why;
        }
        return 0;
    }

    /// Request: connection 8, nanoseconds 8 (0: looks once).
    ///
    /// @return a handle of the notification, or 0 when there is none
    static long notification(long request) {
        Connection connection = HANDLES.get(at(request, 0), Connection.class);
        Notification taken = take(connection, at(request, 8));
        return taken == null ? 0 : HANDLES.put(taken);
    }

    private static @Nullable Notification take(Connection connection, long nanos) {
        if (nanos == 0) {
            return connection.pollNotification();
        }
        try {
            return connection.awaitNotification(Duration.ofNanos(nanos));
        } catch (TelpherException.TimedOut _) {
            return null;
        }
    }

    /// Request: connection 8, name 8, its length 8, nanoseconds 8.
    ///
    /// @return a [Task] that ends with a descriptor
    static long lookup(long request) {
        Connection connection = HANDLES.get(at(request, 0), Connection.class);
        String name = Request.text(at(request, 8), at(request, 16));
        Duration atMost = Duration.ofNanos(at(request, 24));
        return Task.startInterruptible(() -> connection.lookup(name, atMost));
    }

    /// Request: task 8, nanoseconds 8, room for a descriptor 8.
    ///
    /// @return 0 while it runs; a handle of the connection or group that it ended with; else 1, and
    ///     the descriptor, if it ended with one, is there
    static long taskWait(long request) throws Throwable {
        Task task = HANDLES.get(at(request, 0), Task.class);
        if (!task.await(at(request, 8))) {
            return 0;
        }
        if (task.result() instanceof RemoteMemory remote) {
            Request.answer(remote.toBytes(), at(request, 16), RemoteMemory.SIZE);
            return 1;
        }
        return task.result() == Task.DONE ? 1 : HANDLES.put(task.result());
    }

    static long taskAbandon(long task) throws InterruptedException {
        HANDLES.get(task, Task.class).abandon();
        return 0;
    }
}
