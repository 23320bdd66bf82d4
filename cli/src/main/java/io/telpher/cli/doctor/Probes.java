package io.telpher.cli.doctor;

import io.telpher.EndpointAddress;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.Availability;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// What can only be known by trying. Every probe ends by itself within some seconds, leaves nothing
/// behind, and reports a failure instead of throwing.
interface Probes {
    /// What became of a system call.
    ///
    /// @param call its name
    /// @param error its errno, 0 when it worked
    record Result(String call, int error) {
        boolean worked() {
            return error == 0;
        }

        @Override
        public String toString() {
            return call + ": " + (worked() ? "works" : Errno.describe(error));
        }
    }

    /// What this process and one that it started could do to each other.
    ///
    /// @param failure why there was no second process, or null
    /// @param writeToChild `process_vm_writev` into the child, checked by the child
    /// @param descriptorOfChild `pidfd_getfd` of one of the child's descriptors
    /// @param writeToParent the same from the child to this process, which is not its descendant
    /// @param descriptorOfParent the same from the child
    record Neighbour(
            @Nullable String failure,
            Result writeToChild,
            Result descriptorOfChild,
            Result writeToParent,
            Result descriptorOfParent) {
        static Neighbour missing(String failure) {
            Result none = new Result("not tried", 0);
            return new Neighbour(failure, none, none, none, none);
        }
    }

    /// How two processes of this host reach each other.
    ///
    /// @param failure what went wrong, or null
    /// @param path the path that a write into memory of Telpher's took; empty when it failed
    /// @param explanation what the connection says of its paths
    record Meeting(@Nullable String failure, String path, String explanation) {}

    /// Where packets to an address leave.
    ///
    /// @param failure why there is no way, or null
    /// @param local the address that they leave from
    /// @param mtu the largest packet on the way, as far as the kernel knows; 0 when it says nothing
    record Egress(@Nullable String failure, @Nullable InetAddress local, long mtu) {}

    /// A route that was given a size of packets of its own.
    ///
    /// @param target where it leads, `10.1.0.0/16`
    /// @param nic the interface that it takes
    /// @param mtu bytes
    record Route(String target, String nic, int mtu) {}

    /// What a connection to a peer is like.
    ///
    /// @param failure why there is none, or null
    /// @param refused whether the peer answered, but refused the secret or is another one now
    /// @param fullSize null when messages that fill packets arrived, else what happened instead
    /// @param explanation what the connection says of its paths
    record Visit(
            @Nullable String failure,
            boolean refused,
            @Nullable String fullSize,
            String explanation) {}

    /// What the drivers of GPUs say.
    ///
    /// @param software the libraries by name, in the order in which they are looked for
    /// @param gpus what NVML shows
    /// @param failures GPUs that NVML does not show, and why
    record Gpus(Map<String, Availability> software, List<GpuState> gpus, List<String> failures) {}

    /// Asks the drivers; makes no context on any GPU.
    Gpus gpus();

    /// What trying two GPUs has brought in this boot of the machine.
    ///
    /// @param one a GPU's UUID
    /// @param other the other one's
    /// @param file where it is kept
    /// @param good whether their bytes arrive
    /// @param found what the file says
    record Trial(String one, String other, String file, boolean good, String found) {}

    /// Looks at what this user's processes have kept; tries nothing.
    List<Trial> trials();

    /// A GPU's PCIe link while bytes go over it.
    ///
    /// @param failure why nothing was seen, or null
    /// @param generation the highest that was seen, above 0; 0 with a failure
    /// @param width the most lanes that were seen, likewise
    record Loaded(@Nullable String failure, int generation, int width) {}

    /// Has a second process copy to GPUs, one after another, each of which gets a context for that,
    /// and looks at their PCIe links meanwhile. After half a minute no other one is begun with.
    ///
    /// @return what was seen, by address; each of the GPUs is in there
    Map<String, Loaded> underLoad(List<GpuState> gpus);

    /// Asks libibverbs.
    Rdma rdma();

    /// @return the interface by which packets from one address to the other leave, or why none does
    String route(InetAddress source, InetAddress target);

    /// @return the routes that have a size of packets of their own, of all tables
    List<Route> routes();

    /// @return whether the kernel can bind queues of a network device to memory of other devices
    boolean bindsQueues();

    /// Asks whether a network device splits headers from data.
    ///
    /// @return `on`, `off`, `unknown` where its driver does not say, or why it cannot be asked
    String headerSplit(String netdev);

    /// Asks for an IPv4 address by ARP, out of one interface.
    ///
    /// @param source an address of that interface
    /// @return the hardware address that answers there, or null
    @Nullable String neighbour(String netdev, InetAddress source, InetAddress peer);

    /// Opens a file of `/dev` for reading and writing, and closes it.
    Result open(String file);

    /// Makes memory as the `mapped` path needs it: a memfd that is sized, written and sealed.
    ///
    /// @return the call that failed, or the last one
    Result sealedMemory();

    /// @return what `prctl(PR_GET_DUMPABLE)` says: 1 where others of the same user may look into
    ///     this process
    int dumpable();

    /// @return whether the engine may call the system without a warning
    boolean nativeAccess();

    /// @return what `adjtimex` says
    int clockState();

    /// @return the transports by name
    Map<String, Availability> transports();

    /// Starts a second process and tries what each can do to the other.
    Neighbour neighbour();

    /// Starts a second process and connects with it.
    Meeting meeting();

    /// Looks a name up.
    ///
    /// @throws IllegalArgumentException when it is unknown or nobody answers: says which
    List<InetAddress> resolve(String host);

    /// @return where packets to that address leave
    Egress egress(InetAddress peer);

    /// Opens a TCP connection and closes it.
    ///
    /// @return why it cannot be opened, or null
    @Nullable String dial(InetSocketAddress peer, Duration atMost);

    /// Connects with a peer and sends it messages that fill packets.
    Visit visit(EndpointAddress peer);
}
