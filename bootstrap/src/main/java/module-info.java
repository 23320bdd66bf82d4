import org.jspecify.annotations.NullMarked;

/// Brings the ranks of a job together: address exchange, barriers, leases, watches, groups.
@NullMarked
module io.telpher.bootstrap {
    requires transitive io.telpher.engine;
    requires static transitive org.jspecify;
    // Only redis:// needs it: nobody else must have it.
    requires static redis.clients.jedis;

    exports io.telpher.bootstrap;
}
