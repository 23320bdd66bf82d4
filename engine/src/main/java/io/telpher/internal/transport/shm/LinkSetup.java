package io.telpher.internal.transport.shm;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.internal.ffi.linux.Processes;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Deadline;
import io.telpher.spi.PeerAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// Turns an authenticated socket into the parts of a link. Each side sends a greeting with four
/// descriptors, maps what it got, and says whether that worked; only when both say so is there a
/// link. Otherwise both fail with the reason, and the engine takes another transport.
///
/// Greeting, 128 bytes, little-endian:
///
/// ```text
///  0 magic "TLSH"   4 version 1 (2)   6 size (2)   8 pid (4)   12 flags (4): 1 failed, 2 dumpable,
///    4 understands shared payloads, 8 the hazard page's file goes on with adverts ([ShmAdverts])
/// 16 incarnation (8)   24 PID namespace (8)   32 address of the cookie (8)   40 cookie (16)
/// 56 data bytes of a ring (4)   60 regions in the table (4)   64 bytes of the hazard page (4)
/// descriptors: inbound ring, table of regions, hazard page, doorbell
/// ```
///
/// Verdict, 64 bytes: 1 byte, 0 for success, then the reason as text.
final class LinkSetup {
    private static final int MAGIC = 0x48534c54; // "TLSH"
    private static final int VERSION = 1;
    private static final int GREETING = 128;
    private static final int VERDICT = 64;
    private static final int FAILED = 1;
    private static final int DUMPABLE = 2;
    private static final int SHARES = 4;
    private static final int ADVERTS = 8;
    private static final int DESCRIPTORS = 4;

    private final ShmEndpoint endpoint;
    private final UnixChannel channel;
    private final PeerAddress peer;
    private final Deadline deadline;

    // What has been made so far; given back together when the set-up fails, else the link's.
    private @Nullable RingMemory inbound;
    private @Nullable RingMemory outbound;
    private @Nullable Mapping writer;
    private @Nullable Mapping peerWriter;
    private @Nullable Mapping peerTable;
    private int table = -1;
    private int doorbell = -1;
    private int peerDoorbell = -1;
    private int pidfd = -1;

    private LinkSetup(
            ShmEndpoint endpoint, UnixChannel channel, PeerAddress peer, Deadline deadline) {
        this.endpoint = endpoint;
        this.channel = channel;
        this.peer = peer;
        this.deadline = deadline;
    }

    /// What the peer says about itself.
    ///
    /// @param pid in its own PID namespace
    /// @param flags failed, dumpable, shares, adverts
    /// @param incarnation of its endpoint
    /// @param pidNamespace inode of its PID namespace
    /// @param cookieAddress where the cookie lies in its memory
    /// @param cookie random bytes
    record Greeting(
            int pid,
            int flags,
            long incarnation,
            long pidNamespace,
            long cookieAddress,
            byte[] cookie) {
        boolean dumpable() {
            return (flags & DUMPABLE) != 0;
        }

        /// @return whether it takes in payloads that lie in memory which both share
        boolean shares() {
            return (flags & SHARES) != 0;
        }

        /// @return whether its file has words of adverts, and it looks at this side's
        boolean adverts() {
            return (flags & ADVERTS) != 0;
        }
    }

    /// Sets a link up. The channel is used up, also when this fails.
    ///
    /// @throws TelpherException.Unsupported when descriptors or mappings do not work here
    static ShmLink run(
            ShmEndpoint endpoint, UnixChannel channel, PeerAddress peer, Deadline deadline) {
        LinkSetup setup = new LinkSetup(endpoint, channel, peer, deadline);
        ShmLink link = null;
        try {
            link = setup.run();
            return link;
        } finally {
            if (link == null) {
                setup.free();
                channel.close();
            }
        }
    }

    /// Keeps a problem until the verdict, so that the peer hears of it instead of running into its
    /// deadline. Only a broken socket or the deadline ends the exchange early.
    private ShmLink run() {
        TelpherException problem = null;
        try {
            create();
        } catch (TelpherException e) {
            problem = e;
        }
        greet(problem != null);
        UnixChannel.Parcel parcel = channel.receive(GREETING, deadline, DESCRIPTORS);
        Greeting theirs = null;
        int pid = 0;
        try {
            theirs = decode(parcel.bytes());
            if (problem == null) {
                pid = checkIdentity(theirs);
                map(parcel.descriptors(), theirs);
                openPidfd(pid);
            }
        } catch (TelpherException e) {
            problem = problem != null ? problem : e;
        } finally {
            int[] rest = parcel.descriptors();
            for (int i = 0; i < rest.length; i++) {
                if (rest[i] != peerDoorbell) {
                    Mapping.closeDescriptor(rest[i]);
                }
            }
        }
        agree(problem);
        if (inbound != null && writer != null) {
            inbound.forgetDescriptor();
            writer.forgetDescriptor();
            forgetTable();
        }
        return new ShmLink(endpoint, peer, parts(theirs, pid));
    }

    /// Hands everything over to the link.
    private ShmLink.Parts parts(@Nullable Greeting theirs, int pid) {
        if (theirs == null
                || inbound == null
                || outbound == null
                || writer == null
                || peerWriter == null
                || peerTable == null) {
            throw new IllegalStateException("a link's parts are missing");
        }
        return new ShmLink.Parts(
                channel.text(),
                channel.give(),
                theirs,
                pid,
                inbound,
                outbound,
                writer,
                peerWriter,
                peerTable,
                doorbell,
                peerDoorbell,
                pidfd);
    }

    /// Makes what this side contributes.
    private void create() {
        inbound = RingMemory.create();
        writer = Mapping.createGuarded("telpher-hazards", ShmAdverts.FILE, Mapping.Others.READ);
        table = endpoint.entries().duplicate(); // the endpoint may be closed at any moment
        doorbell = EventFd.create();
        if (doorbell < 0) {
            throw Mapping.failure(doorbell, "eventfd");
        }
    }

    /// Sends the greeting; without descriptors when they could not be made.
    private void greet(boolean failed) {
        ByteBuffer out = ByteBuffer.allocate(GREETING).order(ByteOrder.LITTLE_ENDIAN);
        boolean dumpable = Processes.prctl(Processes.PR_GET_DUMPABLE, 0) == 1;
        out.putInt(MAGIC).putShort((short) VERSION).putShort((short) GREETING);
        out.putInt(endpoint.host().pid());
        out.putInt((failed ? FAILED : 0) | (dumpable ? DUMPABLE : 0) | SHARES | ADVERTS);
        out.putLong(endpoint.context().incarnation()).putLong(endpoint.host().pidNamespace());
        out.putLong(ProcessCookie.address()).put(ProcessCookie.bytes());
        out.putInt(RingMemory.DATA).putInt(RegionEntries.CAPACITY).putInt((int) HazardPage.BYTES);
        int[] descriptors =
                inbound == null || writer == null || table < 0 || doorbell < 0
                        ? new int[0]
                        : new int[] {inbound.fd(), table, writer.fd(), doorbell};
        channel.send(out.array(), deadline, descriptors);
    }

    /// Takes the peer's greeting apart and checks that both sides mean the same layout.
    private Greeting decode(byte[] bytes) {
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        int magic = in.getInt();
        int version = in.getShort();
        int size = in.getShort();
        if (magic != MAGIC || version != VERSION || size != GREETING) {
            throw new TelpherException.Unsupported(
                    "%s: the peer speaks another version of the same-host protocol: %08x, %d, %d"
                            .formatted(channel.text(), magic, version, size));
        }
        int pid = in.getInt();
        int flags = in.getInt();
        long incarnation = in.getLong();
        long namespace = in.getLong();
        long address = in.getLong();
        byte[] cookie = new byte[ProcessCookie.BYTES];
        in.get(cookie);
        int ring = in.getInt();
        int regions = in.getInt();
        int page = in.getInt();
        if ((flags & FAILED) != 0) {
            throw new TelpherException.Unsupported(
                    channel.text() + ": the peer could not set up its shared memory");
        }
        if (ring != RingMemory.DATA
                || regions != RegionEntries.CAPACITY
                || page != HazardPage.BYTES) {
            throw new TelpherException.Unsupported(
                    "%s: the peer lays out its memory differently: ring %d, regions %d, page %d"
                            .formatted(channel.text(), ring, regions, page));
        }
        return new Greeting(pid, flags, incarnation, namespace, address, cookie);
    }

    /// Compares what the peer says with what the kernel says.
    ///
    /// @return the peer's pid as this process sees it, 0 when it cannot be seen from here
    private int checkIdentity(Greeting theirs) {
        Sockets.PeerCredentials kernel = Sockets.peerCredentials(channel.fd());
        int pid = kernel == null ? 0 : kernel.pid();
        boolean sameNamespace = theirs.pidNamespace() == endpoint.host().pidNamespace();
        if (sameNamespace && pid != theirs.pid()) {
            throw new TelpherException.Unsupported(
                    "%s: the peer says that it is process %d, the kernel says %d"
                            .formatted(channel.text(), theirs.pid(), pid));
        }
        if (peer.incarnation() != 0 && theirs.incarnation() != peer.incarnation()) {
            throw new TelpherException.Unsupported(
                    "%s: the socket leads to endpoint %016x instead of %016x"
                            .formatted(channel.text(), theirs.incarnation(), peer.incarnation()));
        }
        return pid;
    }

    /// Maps what the peer sent. The descriptors are closed by the caller, except the doorbell's.
    private void map(int[] descriptors, Greeting theirs) {
        if (descriptors.length != DESCRIPTORS) {
            throw new TelpherException.Unsupported(
                    "%s: %d descriptors came instead of %d; SCM_RIGHTS may be forbidden here"
                            .formatted(channel.text(), descriptors.length, DESCRIPTORS));
        }
        outbound = RingMemory.open(descriptors[0]);
        peerTable = RegionEntries.open(descriptors[1]);
        peerWriter =
                Mapping.openGuarded(
                        descriptors[2],
                        theirs.adverts() ? ShmAdverts.FILE : HazardPage.BYTES,
                        Memory.PROT_READ,
                        "page of hazard slots");
        if (!isEventFd(descriptors[3])) {
            throw new TelpherException.Unsupported(
                    channel.text() + ": the peer's doorbell is not an eventfd");
        }
        int unused = Descriptors.setNonBlocking(descriptors[3], true);
        peerDoorbell = descriptors[3];
    }

    /// A doorbell of another kind could block the one who rings it.
    private static boolean isEventFd(int fd) {
        String target = Descriptors.target(fd);
        // No /proc to ask: it will be made non-blocking anyway.
        return target == null || target.equals("anon_inode:[eventfd]");
    }

    /// A descriptor that tells of the process's end; without one the socket's hang-up does.
    private void openPidfd(int pid) {
        long found = Sockets.getsockopt(channel.fd(), Sockets.SOL_SOCKET, Sockets.SO_PEERPIDFD);
        if (found < 0 && pid > 0) {
            found = Processes.pidfdOpen(pid);
        }
        pidfd = found < 0 ? -1 : (int) found;
        if (found == -Errno.ESRCH) {
            throw new TelpherException.PeerLost(channel.text() + ": process " + pid + " is gone");
        }
    }

    /// Tells the peer how it went here and hears how it went there.
    private void agree(@Nullable TelpherException problem) {
        byte[] ours = new byte[VERDICT];
        if (problem != null) {
            ours[0] = 1;
            byte[] text = String.valueOf(problem.getMessage()).getBytes(StandardCharsets.UTF_8);
            System.arraycopy(text, 0, ours, 1, Math.min(text.length, VERDICT - 1));
        }
        channel.send(ours, deadline);
        byte[] theirs = channel.receive(VERDICT, deadline);
        if (problem != null) {
            throw problem instanceof TelpherException.PeerLost
                            || problem instanceof TelpherException.Unsupported
                    ? problem
                    : new TelpherException.Unsupported(
                            channel.text() + ": " + problem.getMessage());
        }
        if (theirs[0] != 0) {
            String reason =
                    new String(Arrays.copyOfRange(theirs, 1, VERDICT), StandardCharsets.UTF_8)
                            .strip();
            throw new TelpherException.Unsupported(
                    channel.text() + ": the peer gave up: " + reason.replace("\0", ""));
        }
    }

    /// Gives back what has been made.
    private void free() {
        for (AutoCloseable part : Arrays.asList(inbound, outbound, writer, peerWriter, peerTable)) {
            switch (part) {
                case RingMemory ring -> ring.close();
                case Mapping mapping -> mapping.close();
                case null, default -> {}
            }
        }
        forgetTable();
        Mapping.closeDescriptor(doorbell);
        Mapping.closeDescriptor(peerDoorbell);
        Mapping.closeDescriptor(pidfd);
    }

    private void forgetTable() {
        Mapping.closeDescriptor(table);
        table = -1;
    }
}
