package io.telpher.internal.engine;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedTransferQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/// The executor for what may block. A task gets an idle thread, else a new one, else it waits for
/// one: never does it run on the thread that brought it, which may be the progress thread or hold a
/// lock.
final class Control {
    private static final int THREADS = 256;

    private Control() {}

    static ExecutorService create() {
        Handover handover = new Handover();
        return new ThreadPoolExecutor(
                0,
                THREADS,
                2,
                TimeUnit.SECONDS,
                handover,
                Control::thread,
                (task, pool) -> {
                    if (!pool.isShutdown()) {
                        handover.keep(task);
                    }
                });
    }

    private static Thread thread(Runnable task) {
        Thread thread = new Thread(task, "telpher-control");
        thread.setDaemon(true);
        thread.setUncaughtExceptionHandler(NativePlatform::uncaught);
        return thread;
    }

    /// Takes a task at first only when a thread waits for it.
    private static final class Handover extends LinkedTransferQueue<Runnable> {
        private static final long serialVersionUID = 1L;

        @Override
        public boolean offer(Runnable task) {
            return tryTransfer(task);
        }

        void keep(Runnable task) {
            boolean kept = super.offer(task);
            assert kept;
        }
    }
}
