package io.telpher.contract;

import static java.nio.charset.StandardCharsets.US_ASCII;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.Priority;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.internal.wire.Frame;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;

/// Records what today's endpoints say to each other over TCP: the handshake, and one frame of each
/// kind; with `checksums` a few frames that carry checksums, of which the first can be replayed as
/// they are; with `tags` what is said to forget tags; with `priorities` requests that are answered
/// first. Run it all ways when the protocol gets a new version, and keep the files of the old one:
/// [RecordedBytesTest], [RecordedChecksumsTest], [RecordedTagsTest] and [RecordedPrioritiesTest]
/// replay all of them.
///
/// ```text
/// java ... io.telpher.contract.RecordWire engine/src/test/resources/io/telpher/contract/wire-2.txt
/// java ... io.telpher.contract.RecordWire .../wire-2-checked.txt checksums
/// java ... io.telpher.contract.RecordWire .../wire-2-tags.txt tags
/// java ... io.telpher.contract.RecordWire .../wire-2-priorities.txt priorities
/// ```
final class RecordWire {
    static final byte[] SECRET = "recorded-secret-".getBytes(US_ASCII);

    /// Length of the region that everything is written to and read from.
    static final int REGION = 64 << 10;

    /// Longer than what is sent at once.
    static final int LONG = 9_000;

    private final Map<String, byte[]> found = new TreeMap<>();
    private final List<Stream> streams = new CopyOnWriteArrayList<>();

    /// One direction of a stream, as far as it went.
    private record Stream(boolean initiators, ByteArrayOutputStream bytes, Socket socket) {}

    private final String what;

    private RecordWire(String what) {
        this.what = what;
    }

    /// @param args the file to write, and `checksums`, `tags`, `priorities`, or nothing: all else
    public static void main(String[] args) throws Exception {
        RecordWire recorder = new RecordWire(args.length > 1 ? args[1] : "");
        recorder.run();
        StringBuilder text = new StringBuilder();
        text.append(
                "# Recorded by RecordWire: messages of the handshake, and frames. Never edit.\n");
        recorder.found.forEach(
                (name, bytes) ->
                        text.append(name)
                                .append(' ')
                                .append(HexFormat.of().formatHex(bytes))
                                .append('\n'));
        Files.writeString(Path.of(args[0]), text);
        System.out.println(recorder.found.keySet());
    }

    private void run() throws Exception {
        EndpointOptions options =
                EndpointOptions.DEFAULTS
                        .withTransports(List.of("tcp"))
                        .withSecret(SECRET)
                        .withLanes(1)
                        .withChecksums(what.equals("checksums"))
                        .withDeadline(Duration.ofSeconds(2));
        int port = Ports.free();
        try (Endpoint a = Endpoint.open(options);
                Endpoint b = Endpoint.open(options.withPort(port));
                ServerSocket proxy = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            Thread.ofPlatform().daemon().start(() -> accept(proxy, port));
            CompletableFuture<Connection> accepted =
                    CompletableFuture.supplyAsync(() -> b.accept(Duration.ofSeconds(10)));
            Connection to =
                    a.connect(EndpointAddress.of("127.0.0.1", proxy.getLocalPort(), SECRET));
            try (Connection from = accepted.join()) {
                switch (what) {
                    case "checksums" -> talkChecked(a, to, b, from);
                    case "tags" -> talkOfTags(a, to, b, from);
                    case "priorities" -> talkOfPriorities(a, to, b);
                    default -> talk(a, to, b, from);
                }
            }
            Thread.sleep(500);
        }
        for (Stream stream : streams) {
            dissect(stream);
        }
        if (what.isEmpty()) {
            made();
        }
    }

    private static void talkChecked(Endpoint a, Connection to, Endpoint b, Connection from) {
        for (int length : new int[] {20, 200}) {
            end(to.notifyPeer(Bytes.off(length, length)));
            from.awaitNotification(Duration.ofSeconds(2));
        }
        MemoryRegion mine = a.allocate(4096);
        MemoryRegion theirs = b.allocate(4096);
        end(to.write(mine.slice(0, 100), theirs.remote().slice(200, 100)));
    }

    /// A fresh tag for each message, until the oldest are forgotten.
    private static void talkOfTags(Endpoint a, Connection to, Endpoint b, Connection from) {
        MemoryRegion mine = a.allocate(4096);
        MemoryRegion theirs = b.allocate(4096);
        for (int tag = 100; tag < 700; tag++) {
            Transfer receive = from.receive(tag, theirs.slice(0, 10));
            end(to.send(tag, mine.slice(0, 10)));
            end(receive);
        }
    }

    private static void talkOfPriorities(Endpoint a, Connection to, Endpoint b) {
        MemoryRegion mine = a.allocate(4096);
        RemoteMemory remote = b.allocate(4096).remote();
        TransferOptions high = TransferOptions.DEFAULTS.withPriority(Priority.HIGH);
        end(to.read(mine.slice(0, 100), remote.slice(0, 100), high));
        end(
                to.read(
                        MemorySlices.of(mine.slice(0, 20), mine.slice(100, 21)),
                        RemoteSlices.of(remote.slice(0, 20), remote.slice(1000, 21)),
                        high));
    }

    private void talk(Endpoint a, Connection to, Endpoint b, Connection from) throws Exception {
        MemoryRegion mine = a.allocate(REGION);
        MemoryRegion theirs = b.allocate(REGION);
        Content.fill(mine.segment(), 0, REGION, 1);
        RemoteMemory remote = theirs.remote();
        end(to.write(mine.slice(0, 100), remote.slice(200, 100)));
        end(to.write(mine.slice(0, 8), remote.slice(0, 8)));
        List<MemorySlice> slices = new ArrayList<>();
        List<RemoteMemory> targets = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            slices.add(mine.slice(i * 100L, 20 + i));
            targets.add(remote.slice(1000L * i, 20 + i));
        }
        end(to.write(MemorySlices.of(slices), RemoteSlices.of(targets), TransferOptions.DEFAULTS));
        end(to.read(MemorySlices.of(slices), RemoteSlices.of(targets), TransferOptions.DEFAULTS));
        MemorySlices strided = MemorySlices.strided(mine, 0, 24, 64, 4);
        RemoteSlices stridedTarget = RemoteSlices.strided(remote, 24, 96, 4);
        end(to.write(strided, stridedTarget, TransferOptions.DEFAULTS));
        end(to.read(strided, stridedTarget, TransferOptions.DEFAULTS));
        end(to.read(mine.slice(0, 100), remote.slice(0, 100)));
        end(
                to.write(
                        mine.slice(0, 64),
                        remote.slice(0, 64),
                        TransferOptions.DEFAULTS.withCounter(
                                CounterUpdate.add(remote.slice(4096, 8), 5))));
        end(
                to.write(
                        mine.slice(0, 64),
                        remote.slice(0, 64),
                        TransferOptions.DEFAULTS.withCounter(
                                CounterUpdate.set(remote.slice(4096, 8), 9))));
        end(to.notifyPeer(Bytes.off(20, 1)));
        end(to.notifyPeer(Bytes.off(200, 2)));
        end(to.notifyPeer(Bytes.off(LONG, 3)));
        for (int i = 0; i < 3; i++) {
            from.awaitNotification(Duration.ofSeconds(2));
        }
        // Messages: at once, in the header, by request, cut, withdrawn.
        for (int length : new int[] {10, 300, LONG}) {
            Transfer receive = from.receive(7, theirs.slice(0, length));
            Thread.sleep(100);
            end(to.send(7, mine.slice(0, length)));
            end(receive);
        }
        Transfer request = to.send(8, mine.slice(0, LONG));
        Thread.sleep(100);
        end(from.receive(8, theirs.slice(0, 50)));
        end(request);
        Transfer withdrawn = from.receive(9, theirs.slice(0, LONG));
        Thread.sleep(100);
        withdrawn.cancel();
        end(withdrawn);
        // Refused, looked up, aborted.
        MemoryRegion closed = b.allocate(4096);
        RemoteMemory stale = closed.remote();
        closed.close();
        end(to.write(mine.slice(0, 64), stale.slice(0, 64)));
        b.publish("recorded", theirs);
        to.lookup("recorded", Duration.ofSeconds(2));
        Transfer aborted = to.send(11, mine.slice(0, LONG));
        Thread.sleep(100);
        aborted.cancel();
        end(aborted);
        for (int i = 0; i < 70; i++) { // brings credits back
            Transfer receive = from.receive(12, theirs.slice(0, 8));
            end(to.send(12, mine.slice(0, 8)));
            end(receive);
        }
        // One of two streams dies: fences, and sends again.
        for (Stream stream : streams) {
            if (stream.initiators && stream != streams.getFirst()) {
                stream.socket.close();
            }
        }
        Thread.sleep(1000);
        end(to.write(mine.slice(0, 100), remote.slice(200, 100)));
        Thread.sleep(100);
    }

    private static void end(Transfer transfer) {
        try {
            transfer.await(Duration.ofSeconds(5));
        } catch (RuntimeException e) {
            // Some are meant to fail; what is missing shows in the list of names.
        }
    }

    /// What does not come up over TCP, or only after a long time, made by the code that makes it.
    private void made() {
        found.computeIfAbsent("NOP", name -> frame(Frame.NOP));
        found.computeIfAbsent("PING", name -> frame(Frame.PING));
        found.computeIfAbsent("PONG", name -> frame(Frame.PONG));
        found.computeIfAbsent("ABORT", name -> frame(Frame.ABORT));
        found.computeIfAbsent("SEND_STORED", name -> frame(Frame.SEND_STORED));
    }

    private static byte[] frame(int type) {
        byte[] bytes = new byte[64];
        try (java.lang.foreign.Arena arena = java.lang.foreign.Arena.ofConfined()) {
            java.lang.foreign.MemorySegment header = arena.allocate(64, 8);
            Frame.start(header, 0, type, 0, type == Frame.ABORT ? -Connection.FAILED : 0, 0, 0);
            java.lang.foreign.MemorySegment.copy(
                    header, java.lang.foreign.ValueLayout.JAVA_BYTE, 0, bytes, 0, 64);
        }
        return bytes;
    }

    private void accept(ServerSocket proxy, int port) {
        try {
            while (true) {
                Socket near = proxy.accept();
                Socket far = new Socket("127.0.0.1", port);
                pump(near, far, true);
                pump(far, near, false);
            }
        } catch (IOException e) {
            // Closed.
        }
    }

    private void pump(Socket in, Socket out, boolean initiators) {
        Stream stream = new Stream(initiators, new ByteArrayOutputStream(), in);
        streams.add(stream);
        Thread.ofPlatform()
                .daemon()
                .start(
                        () -> {
                            byte[] buffer = new byte[65_536];
                            try (in;
                                    out) {
                                for (int n = in.getInputStream().read(buffer);
                                        n > 0;
                                        n = in.getInputStream().read(buffer)) {
                                    synchronized (stream) {
                                        stream.bytes.write(buffer, 0, n);
                                    }
                                    out.getOutputStream().write(buffer, 0, n);
                                }
                            } catch (IOException e) {
                                // One side has closed.
                            }
                        });
    }

    private void dissect(Stream stream) {
        ByteBuffer all;
        synchronized (stream) {
            all = ByteBuffer.wrap(stream.bytes.toByteArray()).order(ByteOrder.LITTLE_ENDIAN);
        }
        if (stream.initiators) {
            boolean connects = all.get(16) == 0;
            keep(connects ? "HELLO" : "HELLO_JOIN", take(all, 64));
            keep(
                    connects ? "PROOF" : "PROOF_JOIN",
                    take(all, 36 + all.getInt(all.position() + 32)));
            if (connects) {
                keep("GO", take(all, 4));
            }
        } else {
            boolean connects = !found.containsKey("CHALLENGE");
            keep(connects ? "CHALLENGE" : "CHALLENGE_JOIN", take(all, 32));
            keep(
                    connects ? "WELCOME" : "WELCOME_JOIN",
                    take(all, 40 + all.getInt(all.position() + 36)));
        }
        while (all.remaining() >= 64) {
            int length = all.getInt(all.position() + 4);
            if (all.remaining() < 64 + length) {
                return;
            }
            byte[] frame = take(all, 64 + length);
            keep(name(frame), frame);
        }
    }

    private static byte[] take(ByteBuffer from, int length) {
        byte[] bytes = new byte[length];
        from.get(bytes);
        return bytes;
    }

    private void keep(String name, byte[] bytes) {
        found.putIfAbsent(name, bytes);
    }

    private static final String[] NAMES = {
        "",
        "NOP",
        "WRITE",
        "WRITE_PIECES",
        "TAIL",
        "NOTE_PART",
        "READ",
        "READ_PIECES",
        "DATA",
        "SEND",
        "SEND_REQUEST",
        "ADVERT",
        "SEND_STORED",
        "TRUNCATED",
        "ABORT",
        "WITHDRAW",
        "WITHDRAWN",
        "CREDIT",
        "REFUSED",
        "LOOKUP",
        "FOUND",
        "GOODBYE",
        "KNOWN",
        "FORGET",
        "FORGOTTEN",
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        "APPLIED",
        "FENCE",
        "FENCED",
        "PING",
        "PONG"
    };

    private static String name(byte[] frame) {
        String name = NAMES[frame[0]];
        int flags = frame[1];
        if (frame[0] == Frame.TAIL
                && ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN).getLong(Frame.E) >= 0
                && (flags & Frame.NOTIFIES) != 0) {
            name += "_OF_PARTS";
        }
        name += (flags & Frame.INLINE) != 0 ? "_INLINE" : "";
        name += (flags & Frame.STRIDED) != 0 ? "_STRIDED" : "";
        name += name.startsWith("READ") && (flags & Frame.HIGH) != 0 ? "_HIGH" : "";
        name += (flags & Frame.COUNTER_ADD) != 0 ? "_ADD" : "";
        name += (flags & Frame.COUNTER_SET) != 0 ? "_SET" : "";
        return name;
    }
}
