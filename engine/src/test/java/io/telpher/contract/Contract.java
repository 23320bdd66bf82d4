package io.telpher.contract;

import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import java.time.Duration;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.params.AfterParameterizedClassInvocation;
import org.junit.jupiter.params.BeforeParameterizedClassInvocation;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.ArgumentsSource;
import org.opentest4j.TestAbortedException;

/// Promises that hold on every path. Subclasses hold the tests of one topic; [ContractTest],
/// [EndingsContractTest], [DeathContractTest] and [EnduranceContractTest] nest them all. Each runs
/// in one process and between two, with TCP also between two network namespaces, but for what makes
/// no sense there ([Setting.In]) or is no different:
///
/// - Death, deadlines, standstill, exec: in one process they would kill, stop or replace the test
///   itself. So `self` has none of these contracts: there nobody is left who could notice. That its
///   copies end at their deadlines is in [WriteReadContract].
/// - 5 GiB ([LargeTransferTest]): on each path once, `self` in one process and the others between
///   two, where the peer's half counts by itself: in one process the same code would run again. The
///   namespaces' TCP is that of two processes.
/// - The full mesh ([MeshTest]): a class of its own, in one process and between two.
/// - Hostile input ([HostileInputTest]): a stranger has a socket and no endpoint, and is the same
///   wherever it comes from: once for each door, the TCP port and the Unix socket.
/// - Links that fail, and connects that cross between hosts: only between namespaces
///   ([NetnsTest], [NetnsRoutesTest]); connects that cross within one process: [ConnectTest].
///
/// The tests of a class share two endpoints and a connection, and get a fresh connection when a
/// test left a broken one behind.
@ParameterizedClass(name = "{0}", allowZeroInvocations = true)
@ArgumentsSource(Setting.Provider.class)
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
@ExtendWith(Contract.Failures.class)
abstract class Contract {
    /// Bytes beside a range that must not change.
    static final int MARGIN = 64;

    static final long STALE = 0x5A5A_0001;
    private static final Duration DEADLINE = Duration.ofSeconds(20);

    @Parameter Setting setting;

    /// The test's own side.
    Participant here;

    /// The other side.
    Peer peer;

    Random random;

    private boolean failed;
    private boolean peerDials;

    /// @return what is changed in both sides' options, besides the path
    Participant.Tweak tweak() {
        return options -> options;
    }

    /// @return all changes to both sides' options
    Participant.Tweak options() {
        TestPath path = setting.path();
        boolean checked = setting.place() == Place.CHECKED;
        Participant.Tweak tweak = tweak();
        return options ->
                path.restrict(tweak.apply(options.withDeadline(DEADLINE).withChecksums(checked)));
    }

    @BeforeParameterizedClassInvocation
    void open(Setting on) {
        setting = on;
        peer = setting.startPeer();
        here = new Participant();
        connect();
    }

    @AfterParameterizedClassInvocation
    void close() {
        if (peer == null) {
            return; // Skipped.
        }
        if (failed) {
            failed = false;
            peer.abandon();
            return;
        }
        try {
            here.close();
        } finally {
            peer.close();
        }
    }

    @BeforeEach
    void prepare(TestInfo test) {
        random = Scale.random(test.getTestMethod().map(Object::toString).orElse("") + setting);
        if (failed) {
            startAnew();
        }
        boolean connected =
                here.connection().isOpen() && peer.run(self -> self.connection().isOpen());
        if (!connected) {
            reconnect();
        }
    }

    @AfterEach
    final void releaseAll() {
        if (!failed) {
            release();
        }
    }

    /// Gives back what a test that went well has made.
    void release() {
        here.closeRegions();
        peer.tell(Participant::closeRegions);
    }

    /// Remembers that a test failed: what it left behind must not disturb the next one. And says
    /// where, since reports name the method only.
    static final class Failures implements AfterTestExecutionCallback {
        @Override
        public void afterTestExecution(ExtensionContext context) {
            Throwable error = context.getExecutionException().orElse(null);
            if (error != null && !(error instanceof TestAbortedException)) {
                Contract contract = (Contract) context.getRequiredTestInstance();
                contract.failed = true;
                error.addSuppressed(new Exception("on path " + contract.setting));
            }
        }
    }

    private void startAnew() {
        failed = false;
        try {
            here.close();
        } catch (RuntimeException e) {
            // The failure was reported already.
        }
        peer.abandon();
        peer = setting.startPeer();
        here = new Participant();
        connect();
    }

    /// Opens both sides' endpoints and connects them.
    void connect() {
        Participant.Tweak options = options();
        here.open(options);
        peer.tell(self -> self.open(options));
        meet();
    }

    /// Makes a new connection of the same endpoints.
    void reconnect() {
        here.closeConnection();
        peer.tell(Participant::closeConnection);
        meet();
    }

    /// The sides take turns in dialling, since no promise depends on who did.
    private void meet() {
        if (peerDials) {
            peer.dial(here);
        } else {
            peer.acceptFrom(here);
        }
        peerDials = !peerDials;
    }

    /// Starts another peer in the place of the first, which is closed or dead.
    void replacePeer() {
        here.close();
        peer.close();
        peer = setting.startPeer();
        here = new Participant();
        connect();
    }

    Connection connection() {
        return here.connection();
    }

    Endpoint endpoint() {
        return here.endpoint();
    }

    /// Makes a local region.
    MemoryRegion region(String name, Kind kind, long bytes) {
        return here.add(name, kind, bytes);
    }

    /// Makes a region at the peer.
    RemoteMemory remote(String name, Kind kind, long bytes) {
        return peer.add(name, kind, bytes);
    }

    /// Makes a region at the peer.
    RemoteMemory remote(String name, Kind kind, long bytes, Access access) {
        return peer.add(name, kind, bytes, access);
    }

    /// Fills a range of a peer's region and what lies beside it with stale bytes.
    void soil(String name, long offset, long length) {
        peer.tell(self -> soil(self, name, offset, length));
    }

    /// Fills a range of a region and what lies beside it with stale bytes.
    static void soil(Participant self, String name, long offset, long length) {
        long from = Math.max(0, offset - MARGIN);
        long to = Math.min(self.segment(name).byteSize(), offset + length + MARGIN);
        Content.fill(self.segment(name), from, to - from, STALE, from);
    }

    /// Checks that a range of a peer's region holds new bytes, and what lies beside it the stale
    /// ones.
    void verify(String name, long offset, long length, long seed) {
        peer.tell(self -> verify(self, name, offset, length, seed));
    }

    /// Checks that a range of a region holds new bytes, and what lies beside it the stale ones.
    static void verify(Participant self, String name, long offset, long length, long seed) {
        self.check(name, offset, length, seed);
        verifyMargins(self, name, offset, length);
    }

    /// Checks what lies beside a range.
    static void verifyMargins(Participant self, String name, long offset, long length) {
        long from = Math.max(0, offset - MARGIN);
        long end = offset + length;
        long to = Math.min(self.segment(name).byteSize(), end + MARGIN);
        Content.check(self.segment(name), from, offset - from, STALE, from);
        Content.check(self.segment(name), end, to - end, STALE, end);
    }

    /// Checks that nothing of a range was changed since it was soiled.
    static void verifyUntouched(Participant self, String name, long offset, long length) {
        Content.check(self.segment(name), offset, length, STALE, offset);
        verifyMargins(self, name, offset, length);
    }

    static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted", e);
        }
    }
}
