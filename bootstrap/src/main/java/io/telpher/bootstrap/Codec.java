package io.telpher.bootstrap;

import io.telpher.TelpherException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/// The bytes of requests and answers on a connection with the embedded server: little-endian; a
/// version byte, a type byte, then the fields of the record in order. Text and bytes follow their
/// length (4 bytes), lists their count (4).
final class Codec {
    private static final byte VERSION = 1;
    private static final int MAX_TEXT = 512;
    private static final int MAX_SEALED = 64 << 10;
    private static final int MAX_COUNT = 1 << 20;
    private static final Answer.Kind[] KINDS = Answer.Kind.values();
    private static final int BARRIER = KINDS.length;

    private Codec() {}

    static byte[] encode(Request request) {
        Out out = new Out();
        switch (request) {
            case Request.Announce r ->
                    out.type(1)
                            .text(r.job())
                            .number(r.rank())
                            .number(r.world())
                            .wide(r.incarnation())
                            .wide(r.lastEpoch())
                            .number(r.leaseMillis())
                            .bytes(r.sealed());
            case Request.Leave r ->
                    out.type(2).text(r.job()).number(r.rank()).wide(r.incarnation());
            case Request.Arrive r ->
                    out.type(3)
                            .text(r.job())
                            .text(r.barrier())
                            .number(r.rank())
                            .wide(r.incarnation())
                            .wide(r.ticket());
            case Request.Withdraw r ->
                    out.type(4)
                            .text(r.job())
                            .text(r.barrier())
                            .number(r.rank())
                            .wide(r.incarnation())
                            .wide(r.ticket());
            case Request.Changes r ->
                    out.type(5)
                            .text(r.job())
                            .wide(r.instance())
                            .wide(r.after())
                            .number(r.waitMillis());
        }
        return out.result();
    }

    /// @throws TelpherException.ProtocolViolation when the bytes are no request
    static Request request(byte[] bytes) {
        return new In(bytes, "request").read(Codec::request);
    }

    private static Request request(In in) {
        int type = in.type();
        String job = in.text();
        return switch (type) {
            case 1 -> {
                int rank = in.number();
                int world = in.number();
                if (world < 1 || world > MAX_COUNT || rank < 0 || rank >= world) {
                    throw in.bad("rank " + rank + " of " + world);
                }
                yield new Request.Announce(
                        job, rank, world, in.wide(), in.wide(), in.lease(), in.bytes(MAX_SEALED));
            }
            case 2 -> new Request.Leave(job, in.number(), in.wide());
            case 3 -> new Request.Arrive(job, in.text(), in.number(), in.wide(), in.wide());
            case 4 -> new Request.Withdraw(job, in.text(), in.number(), in.wide(), in.wide());
            case 5 -> new Request.Changes(job, in.wide(), in.wide(), in.lease());
            default -> throw in.bad("type " + type);
        };
    }

    static byte[] encode(Answer answer) {
        Out out = new Out();
        switch (answer) {
            case Answer.Ok a -> out.type(1).wide(a.epoch());
            case Answer.Held a ->
                    out.type(2).wide(a.incarnation()).wide(a.epoch()).number(a.leaseMillis());
            case Answer.OtherWorld a -> out.type(3).number(a.world()).number(a.leaseMillis());
            case Answer.Removed _ -> out.type(4);
            case Answer.Passed _ -> out.type(5);
            case Answer.Waiting a -> out.type(6).wide(a.generation());
            case Answer.Withdrawn a -> {
                out.type(7).number(a.missing().size());
                a.missing().forEach(out::number);
            }
            case Answer.Gone _ -> out.type(8);
            case Answer.Events a -> {
                out.type(9).number(a.changes().size());
                a.changes().forEach(change -> write(out, change));
            }
            case Answer.Snapshot a -> {
                out.type(10).wide(a.instance()).wide(a.revision()).number(a.entries().size());
                a.entries().forEach(entry -> write(out, entry));
            }
            case Answer.Refused a -> out.type(11).text(a.reason());
        }
        return out.result();
    }

    private static void write(Out out, Answer.Change change) {
        switch (change) {
            case Answer.RecordChange c -> {
                out.number(c.kind().ordinal()).wide(c.revision());
                write(out, c.entry());
            }
            case Answer.BarrierChange c ->
                    out.number(BARRIER).wide(c.revision()).text(c.barrier()).wide(c.generation());
        }
    }

    private static void write(Out out, Answer.Entry entry) {
        out.number(entry.rank())
                .number(entry.world())
                .wide(entry.incarnation())
                .wide(entry.epoch())
                .bytes(entry.sealed());
    }

    /// @throws TelpherException.ProtocolViolation when the bytes are no answer
    static Answer answer(byte[] bytes) {
        return new In(bytes, "answer").read(Codec::answer);
    }

    private static Answer answer(In in) {
        int type = in.type();
        return switch (type) {
            case 1 -> new Answer.Ok(in.wide());
            case 2 -> new Answer.Held(in.wide(), in.wide(), in.number());
            case 3 -> new Answer.OtherWorld(in.number(), in.number());
            case 4 -> new Answer.Removed();
            case 5 -> new Answer.Passed();
            case 6 -> new Answer.Waiting(in.wide());
            case 7 -> new Answer.Withdrawn(in.list(In::number));
            case 8 -> new Answer.Gone();
            case 9 -> new Answer.Events(in.list(Codec::change));
            case 10 -> new Answer.Snapshot(in.wide(), in.wide(), in.list(Codec::entry));
            case 11 -> new Answer.Refused(in.text());
            default -> throw in.bad("type " + type);
        };
    }

    private static Answer.Change change(In in) {
        int kind = in.number();
        long revision = in.wide();
        if (kind == BARRIER) {
            return new Answer.BarrierChange(revision, in.text(), in.wide());
        }
        if (kind < 0 || kind > BARRIER) {
            throw in.bad("change of kind " + kind);
        }
        return new Answer.RecordChange(revision, KINDS[kind], entry(in));
    }

    private static Answer.Entry entry(In in) {
        return new Answer.Entry(
                in.number(), in.number(), in.wide(), in.wide(), in.bytes(MAX_SEALED));
    }

    private static final class Out {
        private ByteBuffer buffer = ByteBuffer.allocate(256).order(ByteOrder.LITTLE_ENDIAN);

        private ByteBuffer room(int bytes) {
            if (buffer.remaining() < bytes) {
                int size = Math.max(2 * buffer.capacity(), buffer.position() + bytes);
                buffer =
                        ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN).put(buffer.flip());
            }
            return buffer;
        }

        Out type(int type) {
            room(2).put(VERSION).put((byte) type);
            return this;
        }

        Out number(int value) {
            room(4).putInt(value);
            return this;
        }

        Out wide(long value) {
            room(8).putLong(value);
            return this;
        }

        Out bytes(byte[] bytes) {
            room(4 + bytes.length).putInt(bytes.length).put(bytes);
            return this;
        }

        Out text(String text) {
            return bytes(text.getBytes(StandardCharsets.UTF_8));
        }

        byte[] result() {
            return Arrays.copyOf(buffer.array(), buffer.position());
        }
    }

    private static final class In {
        private final ByteBuffer buffer;
        private final String what;

        In(byte[] bytes, String what) {
            this.buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            this.what = what;
        }

        <T> T read(java.util.function.Function<In, T> reader) {
            try {
                T result = reader.apply(this);
                if (buffer.hasRemaining()) {
                    throw bad(buffer.remaining() + " bytes too many");
                }
                return result;
            } catch (BufferUnderflowException e) {
                throw bad("only " + buffer.capacity() + " bytes");
            }
        }

        TelpherException.ProtocolViolation bad(String found) {
            return new TelpherException.ProtocolViolation(
                    "a rendezvous " + what + " with " + found);
        }

        int type() {
            byte version = buffer.get();
            if (version != VERSION) {
                throw new TelpherException.ProtocolViolation(
                        ("a rendezvous %s of version %d, this is version %d:"
                                        + " all ranks and the server need the same version of Telpher")
                                .formatted(what, version, VERSION));
            }
            return buffer.get();
        }

        int number() {
            return buffer.getInt();
        }

        long wide() {
            return buffer.getLong();
        }

        int lease() {
            int millis = number();
            if (millis < 0 || millis > 3_600_000) {
                throw bad("a time of " + millis + " ms");
            }
            return millis;
        }

        byte[] bytes(int most) {
            int length = number();
            if (length < 0 || length > most || length > buffer.remaining()) {
                throw bad("a field of " + length + " bytes");
            }
            byte[] bytes = new byte[length];
            buffer.get(bytes);
            return bytes;
        }

        String text() {
            try {
                // Not with replacements: they would be longer, and a text that goes on to others
                // could not be read there.
                return StandardCharsets.UTF_8
                        .newDecoder()
                        .decode(ByteBuffer.wrap(bytes(MAX_TEXT)))
                        .toString();
            } catch (CharacterCodingException e) {
                throw bad("a text that is not UTF-8");
            }
        }

        <T> List<T> list(java.util.function.Function<In, T> reader) {
            int count = number();
            // Each element has four bytes at least: a false count cannot make a large list.
            if (count < 0 || count > MAX_COUNT || count > buffer.remaining() / 4) {
                throw bad("a list of " + count);
            }
            List<T> list = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                list.add(reader.apply(this));
            }
            return list;
        }
    }
}
