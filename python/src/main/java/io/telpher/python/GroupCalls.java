package io.telpher.python;

import static io.telpher.python.Bridge.HANDLES;
import static io.telpher.python.Request.at;

import io.telpher.Endpoint;
import io.telpher.bootstrap.Group;
import io.telpher.bootstrap.Launch;
import io.telpher.bootstrap.Member;
import io.telpher.bootstrap.RendezvousOptions;
import java.io.ByteArrayOutputStream;
import java.time.Duration;
import java.util.Map;

/// Functions of groups: the ranks of a job, brought together by the engine's own rendezvous.
final class GroupCalls {
    private GroupCalls() {}

    /// Request: endpoint 8, variables as of [EndpointCalls#endpointOpen] 8, their length 8, secret
    /// 8, its length 8 or -1 for that of the variables, nanoseconds 8.
    ///
    /// @return a [Task] that ends with a group
    static long groupJoin(long request) {
        Endpoint endpoint = HANDLES.get(at(request, 0), Endpoint.class);
        Map<String, String> variables = Request.variables(at(request, 8), at(request, 16));
        Launch launch = Launch.from(variables);
        RendezvousOptions options =
                at(request, 32) < 0
                        ? RendezvousOptions.of(launch, variables)
                        : RendezvousOptions.of(
                                launch.rendezvous(),
                                launch.job(),
                                Request.bytes(at(request, 24), at(request, 32)));
        Duration atMost = Duration.ofNanos(at(request, 40));
        return Task.startInterruptible(() -> Group.join(endpoint, launch, options, atMost));
    }

    /// @return this process's rank
    static long groupRank(long group) {
        return HANDLES.get(group, Group.class).rank();
    }

    /// Request: group 8, name 8, its length 8, nanoseconds 8.
    ///
    /// @return a [Task] that ends when all have come
    static long groupBarrier(long request) {
        Group group = HANDLES.get(at(request, 0), Group.class);
        String name = Request.text(at(request, 8), at(request, 16));
        Duration atMost = Duration.ofNanos(at(request, 24));
        return Task.startInterruptible(
                () -> {
                    group.barrier(name, atMost);
                    return Task.DONE;
                });
    }

    static long groupClose(long group) {
        HANDLES.get(group, Group.class).close();
        return 0;
    }

    /// The addresses of all ranks, as last heard, each as [Request#add] writes it; empty for a rank
    /// that is not there.
    static byte[] addresses(Group group) {
        byte[][] addresses = new byte[group.size()][0];
        for (Member member : group.members()) {
            addresses[member.rank()] = member.address().toBytes();
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] address : addresses) {
            Request.add(out, address);
        }
        return out.toByteArray();
    }
}
