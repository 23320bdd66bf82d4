package io.telpher.internal.transport.verbs;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/// What an endpoint knows of ways beyond the addresses of their rails: the kernel's routes,
/// what came of earlier tries, and which ports are near. Thread-safe.
final class Ways implements Rails.Known {
    /// Of how many tries the outcome is kept.
    private static final int MOST = 1024;

    private final Provider provider;
    private final Nearness nearness;

    // Guarded by this.

    private final Set<Rails.Pair> vain = bounded();

    /// Peers' rails that were reached.
    private final Set<Rail> reached = bounded();

    Ways(Provider provider, Nearness nearness) {
        this.provider = provider;
        this.nearness = nearness;
    }

    private static <E> Set<E> bounded() {
        return Collections.newSetFromMap(
                new LinkedHashMap<>() {
                    @Override
                    protected boolean removeEldestEntry(Map.Entry<E, Boolean> eldest) {
                        return size() > MOST;
                    }
                });
    }

    /// A packet has arrived.
    synchronized void worked(Rails.Pair pair) {
        vain.remove(pair);
        reached.add(pair.remote());
    }

    /// None has. Where one has arrived at that rail of the peer before, the link is down, most
    /// likely, and its ends are the right ones.
    synchronized void failed(Rails.Pair pair) {
        if (!reached.contains(pair.remote())) {
            vain.add(pair);
        }
    }

    @Override
    public boolean routed(Rail from, Rail to) {
        return provider.routes(from.gid(), to.gid());
    }

    @Override
    public synchronized boolean vain(Rails.Pair pair) {
        return vain.contains(pair);
    }

    @Override
    public int distance(Rail local) {
        return nearness.distance(local);
    }
}
