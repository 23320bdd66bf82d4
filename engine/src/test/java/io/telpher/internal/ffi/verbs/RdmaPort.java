package io.telpher.internal.ffi.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Poll;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Comparator;
import java.util.List;
import java.util.function.ToIntFunction;

/// An open device with what a test needs of it, made and destroyed through the bindings: one queue
/// pair with its completion queue and channel, and registered memory.
final class RdmaPort implements AutoCloseable {
    static final int BYTES = 1 << 16;

    private static final int ACCESS =
            VerbsMemory.IBV_ACCESS_LOCAL_WRITE
                    | VerbsMemory.IBV_ACCESS_REMOTE_WRITE
                    | VerbsMemory.IBV_ACCESS_REMOTE_READ
                    | VerbsMemory.IBV_ACCESS_RELAXED_ORDERING;

    /// Long enough for a busy machine that emulates another one.
    private static final int ACK_TIMEOUT = 20;

    private static final int PATIENCE_MILLIS = 60_000;

    final String device;
    final long context;
    final VerbsPorts.Attributes attributes;
    final VerbsPorts.Gid gid;
    final long domain;
    final long region;
    final long channel;
    final long queue;
    final long pair;

    final Arena arena = Arena.ofShared();
    final MemorySegment memory = arena.allocate(BYTES, 4096);

    private final MemorySegment requests = arena.allocate(8 * SendRequest.BYTES, 8);
    private final MemorySegment pieces = arena.allocate(8 * Sge.BYTES, 8);
    private final MemorySegment completions = arena.allocate(8 * WorkCompletion.BYTES, 8);
    private final MemorySegment bad = arena.allocate(8);

    RdmaPort(String device) {
        this.device = device;
        context = VerbsDevices.open(device);
        attributes = VerbsPorts.query(context, 1);
        gid =
                VerbsPorts.gids(context, attributes.gids() * VerbsDevices.query(context).ports())
                        .stream()
                        .filter(entry -> entry.port() == 1)
                        .min(Comparator.comparingInt(RdmaPort::rank))
                        .orElseThrow(() -> new AssertionError(device + " has no GID"));
        domain = VerbsMemory.allocateProtectionDomain(context);
        region = VerbsMemory.tryRegister(domain, memory.address(), BYTES, ACCESS);
        assertThat(region).as("memory region, or minus errno").isPositive();
        channel = VerbsCompletions.createChannel(context);
        queue = VerbsCompletions.createQueue(context, 64, channel, 0);
        pair =
                VerbsQueuePairs.create(
                        domain, queue, queue, new VerbsQueuePairs.Capacity(16, 16, 2, 1, 64));
    }

    /// RoCE v2 with an IPv4 address first, then whatever there is.
    private static int rank(VerbsPorts.Gid entry) {
        boolean inet4 = entry.gid()[10] == -1 && entry.gid()[0] == 0;
        boolean v1 = entry.type() == VerbsPorts.IBV_GID_TYPE_ROCE_V1;
        return (v1 ? 2 : 0) + (inet4 ? 0 : 1);
    }

    /// Takes the queue pair to RTS, connected with the other port's.
    void connect(RdmaPort peer) {
        VerbsQueuePairs.initialise(
                pair,
                1,
                0,
                VerbsMemory.IBV_ACCESS_REMOTE_WRITE | VerbsMemory.IBV_ACCESS_REMOTE_READ);
        boolean ethernet = attributes.linkLayer() == VerbsPorts.IBV_LINK_LAYER_ETHERNET;
        VerbsQueuePairs.Path path =
                new VerbsQueuePairs.Path(
                        1, gid.index(), peer.gid.gid(), peer.attributes.lid(), ethernet, 64, 0, 0);
        VerbsQueuePairs.readyToReceive(
                pair,
                new VerbsQueuePairs.Receiving(
                        path,
                        Math.min(attributes.activeMtu(), peer.attributes.activeMtu()),
                        peer.number(),
                        peer.firstPacket(),
                        1,
                        12));
        VerbsQueuePairs.readyToSend(
                pair, new VerbsQueuePairs.Sending(firstPacket(), ACK_TIMEOUT, 6, 6, 1));
    }

    int number() {
        return VerbsQueuePairs.number(pair);
    }

    int firstPacket() {
        return number() * 7919 & 0xffffff;
    }

    /// Writes a request of one piece and its successor's address, 0 for none; returns its address.
    long request(int slot, long id, int opcode, int flags, long at, int length) {
        long piece = pieces.address() + (long) slot * Sge.BYTES;
        Sge.set(piece, memory.address() + at, length, VerbsMemory.localKey(region));
        long request = requests.address() + (long) slot * SendRequest.BYTES;
        SendRequest.set(request, id, opcode, flags, piece, 1);
        return request;
    }

    int post(long request) {
        return VerbsOperations.postSend(pair, request, bad.address());
    }

    /// The request that the last post stopped at.
    long firstRefused() {
        return bad.get(ValueLayout.JAVA_LONG, 0);
    }

    /// Posts a receive of a piece of the memory.
    void receive(long id, long at, int length) {
        try (Arena ours = Arena.ofConfined()) {
            long piece = ours.allocate(Sge.BYTES, 8).address();
            Sge.set(piece, memory.address() + at, length, VerbsMemory.localKey(region));
            long request = ours.allocate(ReceiveRequest.BYTES, 8).address();
            ReceiveRequest.set(request, id, 0, piece, 1);
            assertThat(VerbsOperations.postReceive(pair, request, bad.address())).isZero();
        }
    }

    /// Waits on the channel, as somebody does who has nothing else to do, until `count` completions
    /// are there, and returns what `fact` says of each.
    int[] await(int count, ToIntFunction<Long> fact) {
        int[] facts = new int[count];
        for (int i = 0; i < count; i++) {
            facts[i] = fact.applyAsInt(next());
        }
        return facts;
    }

    /// The next completion's address, valid until the one after it.
    private long next() {
        long at = completions.address();
        if (VerbsOperations.poll(queue, 1, at) == 1) {
            return at;
        }
        assertThat(VerbsOperations.requestNotify(queue, 0)).isZero();
        while (VerbsOperations.poll(queue, 1, at) == 0) {
            int descriptor = VerbsCompletions.descriptor(channel);
            assertThat(Poll.poll(descriptor, Poll.POLLIN, PATIENCE_MILLIS))
                    .as("events of the channel of %s", device)
                    .isEqualTo(Poll.POLLIN);
            assertThat(VerbsCompletions.tryGetEvent(channel)).isEqualTo(queue);
            VerbsCompletions.acknowledge(queue, 1);
            assertThat(VerbsOperations.requestNotify(queue, 0)).isZero();
        }
        return at;
    }

    /// Waits for events of the device and returns the first of one of these types.
    VerbsEvents.Event event(List<Integer> types) {
        int descriptor = VerbsDevices.asyncDescriptor(context);
        assertThat(Descriptors.setNonBlocking(descriptor, true)).isZero();
        while (true) {
            assertThat(Poll.poll(descriptor, Poll.POLLIN, PATIENCE_MILLIS))
                    .as("events of %s", device)
                    .isEqualTo(Poll.POLLIN);
            var event = VerbsEvents.next(context);
            if (event.isPresent() && types.contains(event.get().type())) {
                return event.get();
            }
        }
    }

    /// In the order of their dependence; a leak of one shows as EBUSY of another.
    @Override
    public void close() {
        assertThat(VerbsQueuePairs.destroy(pair)).isZero();
        assertThat(VerbsCompletions.destroyQueue(queue)).isZero();
        assertThat(VerbsCompletions.destroyChannel(channel)).isZero();
        assertThat(VerbsMemory.deregister(region)).isZero();
        assertThat(VerbsMemory.freeProtectionDomain(domain)).isZero();
        assertThat(VerbsDevices.close(context)).isZero();
        arena.close();
    }
}
