package io.telpher.internal.transport.verbs;

import java.util.LinkedHashMap;
import java.util.Map;

/// What an endpoint knows of ways beyond the addresses of their rails: the kernel's routes,
/// what came of earlier tries, and which ports are near. Thread-safe.
final class Ways implements Rails.Known {
    /// Of how many pairs it is kept what came of them; those that were not asked for longest go.
    private static final int MOST = 4096;

    private final Provider provider;
    private final Nearness nearness;

    // Guarded by this.

    private final Map<Rails.Pair, Long> tried =
            new LinkedHashMap<>(16, 0.75f, true) {
                @Override
                protected boolean removeEldestEntry(Map.Entry<Rails.Pair, Long> eldest) {
                    return size() > MOST;
                }
            };

    private long failures;

    Ways(Provider provider, Nearness nearness) {
        this.provider = provider;
        this.nearness = nearness;
    }

    /// Packets have arrived, in both directions.
    synchronized void worked(Rails.Pair pair) {
        tried.put(pair, WORKED);
    }

    /// None has. Where some have before, the link is down, most likely, and its ends are the right
    /// ones.
    synchronized void failed(Rails.Pair pair) {
        if (tried(pair) != WORKED) {
            tried.put(pair, ++failures);
        }
    }

    @Override
    public synchronized long tried(Rails.Pair pair) {
        return tried.getOrDefault(pair, UNTRIED);
    }

    @Override
    public boolean routed(Rail from, Rail to) {
        return provider.routes(from.gid(), to.gid());
    }

    @Override
    public int distance(Rail local) {
        return nearness.distance(local);
    }
}
