package io.telpher.internal.transport.shm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Access;
import io.telpher.TelpherException;
import io.telpher.contract.Recording;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Link;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// What a process of version 1 said over the socket of a link is understood: its recorded greeting
/// makes a link, and its recorded question gets the recorded answer. Only what belongs to the
/// conversation is filled in: process, namespace, addresses, the region and its key.
class RecordedLinkTest {
    private static final Map<String, byte[]> RECORDED =
            Recording.of(RecordedLinkTest.class, "link-1.txt");
    private static final long PEER = little(recorded("GREETING")).getLong(16);

    private final ShmHarness here = new ShmHarness();
    private final RingMemory ring = RingMemory.create();
    private final Mapping table =
            Mapping.create("recorded-table", RegionEntries.BYTES, Mapping.Others.READ);
    private final Mapping hazards =
            Mapping.create("recorded-hazards", HazardPage.BYTES, Mapping.Others.READ);
    private final int doorbell = EventFd.create();
    private final int[] ends = new int[2];
    private UnixChannel peer;

    @BeforeEach
    void connect() {
        int made =
                Sockets.socketpair(
                        Sockets.AF_UNIX, Sockets.SOCK_STREAM | Sockets.SOCK_NONBLOCK, 0, ends);
        assertThat(made).isZero();
        peer = new UnixChannel(ends[1], "the recording");
    }

    @AfterEach
    void close() {
        peer.close();
        here.close();
        ring.close();
        table.close();
        hazards.close();
        Mapping.closeDescriptor(doorbell);
    }

    private static byte[] recorded(String name) {
        return RECORDED.get(name).clone();
    }

    private static ByteBuffer little(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    /// The greeting with this process in it.
    private static byte[] greeting() {
        byte[] greeting = recorded("GREETING");
        HostIdentity host = HostIdentity.here();
        little(greeting).putInt(8, host.pid()).putLong(24, host.pidNamespace());
        return greeting;
    }

    private void greet(byte[] greeting, byte[] verdict) {
        peer.send(
                greeting,
                ShmHarness.soon(),
                new int[] {ring.fd(), table.fd(), hazards.fd(), doorbell});
        peer.send(verdict, ShmHarness.soon());
    }

    private Link link() {
        PeerAddress address = new PeerAddress(PEER, HostIdentity.here(), List.of());
        UnixChannel channel = new UnixChannel(ends[0], "the peer's socket");
        return here.endpoint().link(channel, Role.ACCEPTOR, address, ShmHarness.soon());
    }

    @Test
    void theRecordedGreetingMakesALinkAndTheQuestionsGetTheirAnswers() {
        greet(greeting(), recorded("VERDICT"));
        Link link = link();
        UnixChannel.Parcel ours = peer.receive(128, ShmHarness.soon(), 4);
        for (int each : ours.descriptors()) {
            Mapping.closeDescriptor(each);
        }
        byte[] greeting = ours.bytes();
        assertThat(ours.descriptors()).hasSize(4);
        assertThat(Arrays.copyOf(greeting, 8)).isEqualTo(Arrays.copyOf(recorded("GREETING"), 8));
        assertThat(Arrays.copyOfRange(greeting, 56, 128))
                .as("sizes, and room for later versions")
                .isEqualTo(Arrays.copyOfRange(recorded("GREETING"), 56, 128));
        assertThat(peer.receive(64, ShmHarness.soon())).isEqualTo(recorded("VERDICT"));
        assertThat(link.windows().adverts()).as("what the peer does not know of").isNull();

        try (Arena arena = Arena.ofShared()) {
            MemorySegment memory = arena.allocate(8192, 8);
            ShmHarness.Region region = here.register(memory, Access.READ_WRITE);
            byte[] answer = recorded("ANSWER_CMA");
            little(answer).putLong(16, memory.address());
            assertThat(ask(region.index(), 1, region.key())).isEqualTo(answer);
            assertThat(ask(region.index(), 1, region.key() + 1))
                    .isEqualTo(recorded("ANSWER_DENIED"));
            assertThat(ask(region.index(), 2, region.key())).isEqualTo(recorded("ANSWER_STALE"));
            byte[] mappedOnly = question(region.index(), 1, region.key());
            mappedOnly[1] = RegionMessage.MAPPED;
            assertThat(ask(mappedOnly)).isEqualTo(recorded("ANSWER_NO_PATH"));
            link.windows().close();
            link.lane().close();
            peer.close();
            assertThat(here.revoke(region, java.time.Duration.ofSeconds(10))).isNull();
        }
    }

    private static byte[] question(int region, int generation, long key) {
        byte[] question = recorded("QUESTION");
        little(question).putInt(8, region).putInt(12, generation).putLong(16, key);
        return question;
    }

    private byte[] ask(int region, int generation, long key) {
        return ask(question(region, generation, key));
    }

    private byte[] ask(byte[] question) {
        peer.send(question, ShmHarness.soon());
        return peer.receive(64, ShmHarness.soon());
    }

    /// The kernel refuses to pass the region's memfd: the answer is a refusal, not silence.
    @Test
    void whatCannotBeSentIsRefused() {
        greet(greeting(), recorded("VERDICT"));
        Link link = link();
        UnixChannel.Parcel ours = peer.receive(128, ShmHarness.soon(), 4);
        UnixChannel.closeAll(ours.descriptors());
        byte[] unused = peer.receive(64, ShmHarness.soon());
        try (Arena arena = Arena.ofShared()) {
            MemorySegment memory = arena.allocate(8192, 8);
            int closed = Integer.MAX_VALUE;
            ShmHarness.Region region = here.add(0, 1, memory, Access.READ_WRITE, closed);
            byte[] question = question(region.index(), 1, region.key());
            question[1] = RegionMessage.MAPPED;
            assertThat(ask(question)).isEqualTo(recorded("ANSWER_NO_PATH"));
            link.windows().close();
            link.lane().close();
        }
    }

    @Test
    void theAdviceFitsWhatTheKernelSays() {
        assertThat(RegionExchange.notSent(3, Errno.ETOOMANYREFS))
                .contains("3 descriptors", "ETOOMANYREFS", "ulimit -n");
        assertThat(RegionExchange.notSent(3, Errno.EBADF))
                .contains("3 descriptors", "EBADF")
                .doesNotContain("ulimit");
    }

    /// A link that ends in the middle of a message gives back what came with its first bytes.
    @Test
    void descriptorsOfHalfAMessageAreClosed() {
        greet(greeting(), recorded("VERDICT"));
        Link link = link();
        UnixChannel.Parcel ours = peer.receive(128, ShmHarness.soon(), 4);
        UnixChannel.closeAll(ours.descriptors());
        byte[] unused = peer.receive(64, ShmHarness.soon());
        int[] pair = new int[2];
        assertThat(Sockets.socketpair(Sockets.AF_UNIX, Sockets.SOCK_STREAM, 0, pair)).isZero();
        peer.send(new byte[16], ShmHarness.soon(), new int[] {pair[1]});
        Mapping.closeDescriptor(pair[1]);
        long end = System.nanoTime() + 20_000_000_000L;
        while (Poll.poll(ends[0], Poll.POLLIN, 0) > 0) {
            assertThat(System.nanoTime()).as("it is read").isLessThan(end);
            Thread.onSpinWait();
        }
        link.windows().close();
        link.lane().close();
        assertThat(Poll.poll(pair[0], Poll.POLLRDHUP, 20_000))
                .as("nobody has it open")
                .isPositive();
        Mapping.closeDescriptor(pair[0]);
    }

    @Test
    void aRecordedVerdictIsTold() {
        greet(greeting(), recorded("VERDICT_FAILED"));
        assertThatThrownBy(this::link)
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageContaining("the peer gave up: the ring cannot be mapped");
    }

    /// Both sides hear why, so that the engine takes another transport.
    @Test
    void anotherVersionIsRefusedByItsNumber() {
        byte[] later = greeting();
        later[4] = 2;
        greet(later, recorded("VERDICT"));
        assertThatThrownBy(this::link)
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageContaining("another version of the same-host protocol");
        UnixChannel.Parcel ours = peer.receive(128, ShmHarness.soon(), 4);
        for (int each : ours.descriptors()) {
            Mapping.closeDescriptor(each);
        }
        byte[] verdict = peer.receive(64, ShmHarness.soon());
        assertThat(verdict[0]).isEqualTo((byte) 1);
    }
}
