package io.telpher.internal.transport.shm;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Memory;
import java.lang.foreign.MemorySegment;

/// The memory of one ring: one direction of a lane. The consumer creates it and passes the memfd to
/// the producer; both map it.
///
/// ```text
/// header page(s), each word on a pair of cache lines of its own
///      0  magic, size of the data
///    128  HEAD     consumer: position up to which the space is free again
///    256  APPLIED  consumer: frames of the producer applied so far
///    384  PARKED   1 when the consumer sleeps and wants its doorbell rung
///    512  WAITING  1 when the producer met a full ring and wants to hear of space
/// data: records at multiples of 64 bytes: a frame's header (64 bytes) and its payload, rounded up
/// ```
///
/// The data is mapped twice, back to back, so that a record that runs over the end is contiguous in
/// memory: there is neither padding nor a second case for copies.
///
/// A record's first word is its commit word: zero until the record is complete, stored last with
/// release. Before a record is committed the producer zeroes the word where the next record will
/// start, so the consumer finds either zero or a complete record there and never writes into the
/// data. In a steady exchange one message costs the transfer of the lines it covers and no other.
final class RingMemory implements AutoCloseable {
    /// Bytes of data; a power of two and a multiple of every page size in use.
    static final int DATA = 64 << 10;

    /// Where the first mapping of the data starts; the second one follows at `HEADER + DATA`.
    static final int HEADER = Math.max(Memory.pageSize(), 4096);

    /// Bytes of the file.
    static final int FILE = HEADER + DATA;

    static final int ALIGNMENT = 64;
    static final long MAGIC_OFFSET = 0;
    static final long HEAD = 128;
    static final long APPLIED = 256;
    static final long PARKED = 384;
    static final long WAITING = 512;

    private static final String NAME = "telpher-ring";
    private static final long MAGIC = 0x31676e6972505454L + DATA;
    private static final long MAPPED = HEADER + 2L * DATA;

    private final MemorySegment segment;
    private int fd;
    private boolean closed;

    private RingMemory(long address, int fd) {
        this.segment = Memory.segment(address, MAPPED);
        this.fd = fd;
    }

    /// Creates an empty ring.
    static RingMemory create() {
        int fd = Mapping.createFile(NAME, FILE);
        long address = map(fd);
        int sealed = address < 0 ? (int) address : Mapping.seal(fd, Mapping.Others.WRITE);
        if (sealed < 0) {
            if (address > 0) {
                int unused = Memory.munmap(address, MAPPED);
            }
            Mapping.closeDescriptor(fd);
            throw Mapping.unusable(address, sealed, NAME, FILE);
        }
        RingMemory ring = new RingMemory(address, fd);
        Words.WORD.setRelease(ring.segment, MAGIC_OFFSET, MAGIC);
        return ring;
    }

    /// Maps a peer's ring. The descriptor stays the caller's.
    static RingMemory open(int fd) {
        Mapping.checkFile(fd, FILE, "ring");
        long address = map(fd);
        if (address < 0) {
            throw Mapping.failure(address, "mmap", "the peer's ring", FILE + " bytes");
        }
        RingMemory ring = new RingMemory(address, -1);
        if ((long) Words.WORD.getAcquire(ring.segment, MAGIC_OFFSET) != MAGIC) {
            ring.close();
            throw new TelpherException.Unsupported(
                    "the peer's ring has another layout than this version's");
        }
        return ring;
    }

    private static long map(int fd) {
        int reserve = Memory.MAP_PRIVATE | Memory.MAP_ANONYMOUS | Memory.MAP_NORESERVE;
        long base = Memory.mmap(0, MAPPED, Memory.PROT_NONE, reserve, -1, 0);
        if (base < 0) {
            return base;
        }
        long result = over(base, FILE, fd, 0);
        if (result >= 0) {
            result = over(base + FILE, DATA, fd, HEADER);
        }
        if (result < 0) {
            int unused = Memory.munmap(base, MAPPED);
            return result;
        }
        int unused = Memory.madvise(base, MAPPED, Memory.MADV_DONTFORK);
        return base;
    }

    private static long over(long address, long bytes, int fd, long offset) {
        return Memory.mmap(
                address,
                bytes,
                Memory.PROT_READ | Memory.PROT_WRITE,
                Memory.MAP_SHARED | Memory.MAP_FIXED,
                fd,
                offset);
    }

    /// @return header and both views of the data
    MemorySegment segment() {
        return segment;
    }

    /// @return where a position lies in the segment; [#DATA] bytes from there on are contiguous
    static long at(long position) {
        return HEADER + (position & (DATA - 1));
    }

    /// @return bytes of a record whose frame has so many bytes of payload
    static long recordBytes(int payload) {
        return ALIGNMENT + ((payload + (ALIGNMENT - 1L)) & -ALIGNMENT);
    }

    /// @return descriptor of a ring that this process created, else -1
    synchronized int fd() {
        return fd;
    }

    /// Closes the descriptor once the peer has it: the mapping stays.
    synchronized void forgetDescriptor() {
        Mapping.closeDescriptor(fd);
        fd = -1;
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            int unused = Memory.munmap(segment.address(), MAPPED);
            Mapping.closeDescriptor(fd);
        }
    }
}
