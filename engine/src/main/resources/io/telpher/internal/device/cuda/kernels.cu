// Copies and counters of Telpher, compiled at run time for the device that runs them. (Tests compile
// them for the CPU, too.)
//
// A launch is a list of pieces, then updates of 64-bit words, then one flag in pinned host memory:
// whoever sees the flag sees the rest. The list is laid out along one line of work, on which a piece
// takes as much as its bytes and a constant for its start:
//
//   work  0 ........ start[1] ........... start[2] ..... total
//         | OVERHEAD | bytes |  OVERHEAD | bytes |  ...
//
// Each warp carries out one part of that line, whatever pieces lie in it, so that all warps end at
// about the same time with any mix of sizes. A part may begin or end in the middle of a piece: there
// at a boundary of 512 bytes of the target, which both neighbours compute alike.
//
// Layouts are those of Launch.java. No header is included: the compiler has none at run time.

typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned char u8;

static const u64 OVERHEAD = 1024;
static const u64 GRANULE = 16384;
static const int UPDATES = 16;
static const u32 WARPS = 32; // most of a block

struct __align__(16) Piece {
    u64 to, from, bytes, start;
};

struct Update {
    u64 address, add, value;
};

struct Head {
    u64 pieces;  // Piece[], where they are too many for the parameters
    u64 index;   // u32[], for them: the piece at each GRANULE of work
    u64 updates; // Update[], where they are too many for the parameters
    u64 total;   // work in all
    u64 share;   // of a warp
    u64 flag;
    u64 sequence; // what the flag becomes
    u64 arrived;  // u32: blocks that have ended; 0 before and after a launch
    u32 pieceCount, updateCount;
    u64 spare[3];
};

template <int N> struct Parameters {
    Head head;
    Update updates[UPDATES];
    Piece pieces[N];
};

template <> struct Parameters<0> {
    Head head;
    Update updates[UPDATES];
};

static_assert(sizeof(Head) == 96 && sizeof(Parameters<0>) == 480, "Launch.java");
static_assert(sizeof(Parameters<8>) == 480 + 8 * 32, "Launch.java");
static_assert(sizeof(Parameters<100>) == 480 + 100 * 32 && 480 + 100 * 32 <= 4096, "Launch.java");

// ---- memory -------------------------------------------------------------------------------------

// Not through the first-level cache, which nobody keeps coherent.
template <class T> static __device__ __forceinline__ T load(u64 address) {
    return __ldcg(reinterpret_cast<const T *>(address));
}

template <class T> static __device__ __forceinline__ void store(u64 address, T value) {
    __stcg(reinterpret_cast<T *>(address), value);
}

#ifdef __CUDACC__
// For words that others wait for, wherever they are.
static __device__ __forceinline__ void publish(u64 address, u64 value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

// For words that others change.
static __device__ __forceinline__ u64 look(u64 address) {
    u64 value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

static __device__ __forceinline__ u64 nanoseconds() {
    u64 value;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
    return value;
}
#endif

// ---- one warp copies a range --------------------------------------------------------------------

static const u64 FLIGHT = 8; // loads that a thread has in flight
static const u64 LANES = 32;

// Both sides aligned to T.
template <class T> static __device__ __forceinline__ void move(u64 to, u64 from, u64 count, u32 lane) {
    T held[FLIGHT];
    u64 at = lane;
    for (; at + (FLIGHT - 1) * LANES < count; at += FLIGHT * LANES) {
#pragma unroll
        for (u64 i = 0; i < FLIGHT; i++) {
            held[i] = load<T>(from + (at + i * LANES) * sizeof(T));
        }
#pragma unroll
        for (u64 i = 0; i < FLIGHT; i++) {
            store<T>(to + (at + i * LANES) * sizeof(T), held[i]);
        }
    }
#pragma unroll
    for (u64 i = 0; i < FLIGHT; i++) {
        if (at + i * LANES < count) {
            held[i] = load<T>(from + (at + i * LANES) * sizeof(T));
        }
    }
#pragma unroll
    for (u64 i = 0; i < FLIGHT; i++) {
        if (at + i * LANES < count) {
            store<T>(to + (at + i * LANES) * sizeof(T), held[i]);
        }
    }
}

// A body of whole Ts between at most sizeof(T) - 1 bytes at either end, which go at the same time:
// the head by the lower half of the warp, the tail by the upper half.
template <class T> static __device__ void range(u64 to, u64 from, u64 bytes, u32 lane) {
    u64 head = (0 - to) & (sizeof(T) - 1);
    if (head > bytes) {
        head = bytes;
    }
    const u64 count = (bytes - head) / sizeof(T);
    const u64 body = head + count * sizeof(T);
    const u64 at = lane < 16 ? lane : body + (lane - 16);
    if (lane < 16 ? at < head : at < bytes) {
        store<u8>(to + at, load<u8>(from + at));
    }
    move<T>(to + head, from + head, count, lane);
}

static __device__ void copy(u64 to, u64 from, u64 bytes, u32 lane) {
    const u64 apart = to ^ from;
    if ((apart & 15) == 0) {
        range<uint4>(to, from, bytes, lane);
    } else if ((apart & 7) == 0) {
        range<u64>(to, from, bytes, lane);
    } else if ((apart & 3) == 0) {
        range<u32>(to, from, bytes, lane);
    } else {
        move<u8>(to, from, bytes, lane);
    }
}

// ---- the line of work ---------------------------------------------------------------------------

// Which byte of a piece a point of the line stands for.
static __device__ u64 cut(const Piece &piece, u64 work) {
    if (work <= piece.start + OVERHEAD) {
        return 0;
    }
    const u64 byte = work - piece.start - OVERHEAD;
    if (byte >= piece.bytes) {
        return piece.bytes;
    }
    const u64 boundary = (piece.to + byte) & ~511ull;
    return boundary <= piece.to ? 0 : boundary - piece.to;
}

// Carries out what of the line from `at` to `end` lies in a piece, and returns where the piece ends.
static __device__ u64 part(const Piece &piece, u64 at, u64 end, u32 lane) {
    const u64 first = cut(piece, at);
    const u64 last = cut(piece, end);
    if (first < last) {
        copy(piece.to + first, piece.from + first, last - first, lane);
    }
    return piece.start + OVERHEAD + piece.bytes;
}

// The last of these pieces that begins at or before `work`; the first one does.
static __device__ u32 find(const Piece *pieces, u32 count, u64 work) {
    u32 low = 0;
    u32 high = count - 1;
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (pieces[middle].start <= work) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

// ---- the end ------------------------------------------------------------------------------------

static __device__ Update update(const Head &head, const Update *updates, u32 i) {
    if (!head.updates) {
        return updates[i];
    }
    const u64 at = head.updates + i * sizeof(Update);
    return {load<u64>(at), load<u64>(at + 8), load<u64>(at + 16)};
}

// The last block makes the updates and raises the flag. One thread's fence covers what the others of
// its block wrote before the barrier. A fence waits until the block's writes have arrived, a microsecond
// over NVLink: so there are no more of them than needed.
static __device__ void finish(const Head &head, const Update *updates) {
    __shared__ u32 last;
    const u32 others = gridDim.x - 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        last = 1;
        if (others) {
            last = atomicInc(reinterpret_cast<u32 *>(head.arrived), others) == others;
            if (last) {
                __threadfence_system();
            }
        }
        if (last && !head.updateCount) {
            publish(head.flag, head.sequence);
        }
    }
    if (!head.updateCount) {
        return;
    }
    __syncthreads();
    if (!last) {
        return;
    }
    for (u32 i = threadIdx.x; i < head.updateCount; i += blockDim.x) {
        const Update word = update(head, updates, i);
        __threadfence_system();
        if (word.add) {
            atomicAdd_system(reinterpret_cast<u64 *>(word.address), word.value);
        } else {
            publish(word.address, word.value);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        publish(head.flag, head.sequence);
    }
}

static __device__ u64 begin(const Head &head) {
    return (blockIdx.x * blockDim.x + threadIdx.x) / 32 * head.share;
}

// Pieces in the parameters: they reach the device with the launch, not one by one over PCIe.
template <int N> static __device__ __forceinline__ void few(const Parameters<N> &p) {
    u64 at = begin(p.head);
    const u64 end = min(at + p.head.share, p.head.total);
    if (at < end) {
        for (u32 i = find(p.pieces, p.head.pieceCount, at); at < end; i++) {
            at = part(p.pieces[i], at, end, threadIdx.x % 32);
        }
    }
    finish(p.head, p.updates);
}

extern "C" __global__ void telpher_copy_8(const __grid_constant__ Parameters<8> p) {
    few(p);
}

extern "C" __global__ void telpher_copy_100(const __grid_constant__ Parameters<100> p) {
    few(p);
}

// Pieces in pinned host memory. The lanes of a warp fetch 32 of them at once, so that a warp waits
// for PCIe once for the index and once for every 32 pieces.
extern "C" __global__ void telpher_copy_table(const __grid_constant__ Parameters<0> p) {
    __shared__ Piece fetched[WARPS][32];
    const u32 lane = threadIdx.x % 32;
    Piece *mine = fetched[threadIdx.x / 32];
    u64 at = begin(p.head);
    const u64 end = min(at + p.head.share, p.head.total);
    if (at < end) {
        u32 first = load<u32>(p.head.index + at / GRANULE * sizeof(u32));
        do {
            const u32 count = min(p.head.pieceCount - first, 32);
            __syncwarp();
            if (lane < count) {
                const u64 piece = p.head.pieces + (first + lane) * sizeof(Piece);
                const ulonglong2 ends = load<ulonglong2>(piece);
                const ulonglong2 extent = load<ulonglong2>(piece + 16);
                mine[lane] = {ends.x, ends.y, extent.x, extent.y};
            }
            __syncwarp();
            // At most 16 pieces begin in a granule, so the first 32 have the one that is wanted; the
            // next 32 begin with it.
            for (u32 i = find(mine, count, at); i < count && at < end; i++) {
                at = part(mine[i], at, end, lane);
            }
            first += 32;
        } while (at < end);
    }
    finish(p.head, p.updates);
}

// ---- the agent ----------------------------------------------------------------------------------

// Carries out small jobs without a launch each: looks for commands in a ring in pinned memory. A
// command is words of {value, number of the command}, 4 bytes each, so that each word says for itself
// whether it has arrived:
//
//   to (2 words)  from (2)  bytes (1)  what the update does (1)  its address (2)  its value (2)
//
// It leaves when nothing came for a while, or after its time though commands keep coming, lest others
// wait for the device for ever: says so, and takes what it still finds, a ring of commands at most.
// Whoever adds a command looks after that whether it was leaving, and launches the next one. Both go
// through a fence in between, so one of them sees the other; if both do, the next one finds nothing.
// What is added when the ring has gone round was added by somebody who saw the end of a command that
// it took while leaving, and so that it was.

static const u32 COMMAND = 128; // bytes
static const u32 WORDS = 10;

struct Agent {
    u64 ring;      // commands
    u64 flags;     // u64 for each: the number of the last one that ended
    u64 leaving;   // u64: the number of the last launch that is leaving
    u64 next;      // u64: the command that comes next, across launches
    u64 launch;    // number of this one
    u64 idle, life; // nanoseconds
    u64 size;      // commands of the ring, a power of two
};

static_assert(sizeof(Agent) == 64, "Agent.java");

// By one warp: the words of the command, one for each lane, once all are there.
static __device__ bool arrived(const Agent &agent, u64 number, u32 lane, u32 &word) {
    const u64 at = agent.ring + (number & (agent.size - 1)) * COMMAND;
    const u64 seen = lane < WORDS ? look(at + lane * 8) : 0;
    word = static_cast<u32>(seen);
    return __all_sync(0xffffffffu, lane >= WORDS || seen >> 32 == (number & 0xffffffffu));
}

extern "C" __global__ void telpher_agent(const __grid_constant__ Agent agent) {
    __shared__ u32 command[WORDS + 1];
    const u32 lane = threadIdx.x % 32;
    const u32 warps = blockDim.x / 32;
    u64 number = look(agent.next);
    const u64 born = nanoseconds();
    u64 last = born;
    u64 end = 0; // the command that it leaves to the next one; 0 while it stays
    for (;; number++) {
        if (threadIdx.x < 32) {
            u32 word = 0;
            bool found;
            u64 now = last;
            do {
                // The other lanes must take the same way.
                const bool over = __shfl_sync(
                    0xffffffffu, now - last > agent.idle || now - born > agent.life, 0);
                if (over && end == 0) {
                    end = number + agent.size;
                    if (lane == 0) {
                        publish(agent.leaving, agent.launch);
                    }
                    __threadfence_system();
                    __syncwarp();
                }
                found = number != end && arrived(agent, number, lane, word);
                if (!found) {
                    now = nanoseconds();
                }
            } while (!found && end == 0);
            if (lane < WORDS) {
                command[lane] = word;
            }
            if (lane == 0) {
                command[WORDS] = found;
            }
        }
        __syncthreads();
        if (!command[WORDS]) {
            break;
        }
        const u64 to = command[0] | static_cast<u64>(command[1]) << 32;
        const u64 from = command[2] | static_cast<u64>(command[3]) << 32;
        const u64 bytes = command[4];
        const u64 share = ((bytes + warps - 1) / warps + 511) & ~511ull;
        const u64 begin = threadIdx.x / 32 * share;
        if (begin < bytes) {
            copy(to + begin, from + begin, min(share, bytes - begin), lane);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence_system();
            const u64 word = command[6] | static_cast<u64>(command[7]) << 32;
            const u64 value = command[8] | static_cast<u64>(command[9]) << 32;
            if (command[5] == 1) {
                publish(word, value);
            } else if (command[5] == 2) {
                atomicAdd_system(reinterpret_cast<u64 *>(word), value);
            }
            if (command[5]) {
                __threadfence_system();
            }
            publish(agent.flags + (number & (agent.size - 1)) * 8, number);
        }
        last = nanoseconds();
    }
    if (threadIdx.x == 0) {
        publish(agent.next, number);
    }
}
