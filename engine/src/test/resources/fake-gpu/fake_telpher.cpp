/* Telpher's own kernels, from their real source: a small CUDA on the CPU. Each thread of a block is a
 * coroutine that runs until a barrier; blocks run one after the other. Memory is reached through
 * `fake_memory`, so what a GPU could not reach is refused. */
#include <ucontext.h>
#include <time.h>
#include <unistd.h>

#include <sys/mman.h>

extern "C" {
#include "fake_cuda.h"
}

#define STACK (64ul << 10)
#define MOST_THREADS 1024

namespace telpher {

struct index3 { unsigned x; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };

enum state { RUNS, AT_WARP, AT_BLOCK, ENDED };

/* What runs on this thread of the CPU. */
static thread_local struct work *current_work;
static thread_local void (*current_body)(struct work *);
static thread_local int wrong;
static thread_local ucontext_t scheduler, fibers[MOST_THREADS];
static thread_local enum state states[MOST_THREADS];
static thread_local char *stacks;
static thread_local index3 threadIdx, blockIdx, blockDim, gridDim;

static void wait_at(enum state where) {
    unsigned self = threadIdx.x;
    states[self] = where;
    swapcontext(&fibers[self], &scheduler);
}

static void body() {
    current_body(current_work);
    states[threadIdx.x] = ENDED;
}

/* Lets the threads from `first` to `end` go on where all that have not ended wait at the barrier. */
static int release(unsigned first, unsigned end, enum state where) {
    int any = 0;
    for (unsigned i = first; i < end; i++) {
        if (states[i] != where && states[i] != ENDED) return 0;
        any |= states[i] == where;
    }
    for (unsigned i = first; any && i < end; i++) {
        if (states[i] == where) states[i] = RUNS;
    }
    return any;
}

static void run_block(unsigned threads) {
    for (unsigned i = 0; i < threads; i++) {
        states[i] = RUNS;
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stacks + i * STACK;
        fibers[i].uc_stack.ss_size = STACK;
        fibers[i].uc_link = &scheduler;
        makecontext(&fibers[i], body, 0);
    }
    for (unsigned ended = 0; ended < threads;) {
        for (unsigned i = 0; i < threads; i++) {
            if (states[i] != RUNS) continue;
            threadIdx.x = i;
            swapcontext(&scheduler, &fibers[i]);
        }
        ended = 0;
        for (unsigned i = 0; i < threads; i++) ended += states[i] == ENDED;
        int moved = ended == threads || release(0, threads, AT_BLOCK);
        for (unsigned i = 0; i < threads; i += 32) {
            moved |= release(i, i + 32 < threads ? i + 32 : threads, AT_WARP);
        }
        if (!moved) {
            fprintf(stderr, "threads of a block wait at different barriers\n");
            abort();
        }
    }
}

static int run(struct work *work, void (*function)(struct work *)) {
    if (!stacks) {
        stacks = (char *) mmap(0, MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    current_work = work;
    current_body = function;
    wrong = 0;
    gridDim.x = work->blocks;
    blockDim.x = work->threads;
    for (blockIdx.x = 0; blockIdx.x < work->blocks; blockIdx.x++) run_block(work->threads);
    return wrong ? ILLEGAL_ADDRESS : SUCCESS;
}

static char *at(const volatile void *pointer, size_t bytes, int write) {
    address where = (address) pointer;
    char *view = where % bytes == 0 ? fake_memory(current_work, where, bytes, write) : 0;
    if (!view) wrong = 1;
    return view;
}

template <class T> static T __ldcg(const T *pointer) {
    T value = {};
    char *view = at(pointer, sizeof(T), 0);
    if (view) memcpy(&value, view, sizeof(T));
    return value;
}

template <class T> static void __stcg(T *pointer, T value) {
    char *view = at(pointer, sizeof(T), 1);
    if (view) memcpy(view, &value, sizeof(T));
}

static void publish(unsigned long long where, unsigned long long value) {
    char *view = at((void *) where, 8, 1);
    if (view) __atomic_store_n((uint64_t *) view, value, __ATOMIC_SEQ_CST);
}

static void atomicAdd_system(unsigned long long *pointer, unsigned long long value) {
    char *view = at(pointer, 8, 1);
    if (view) __atomic_fetch_add((uint64_t *) view, value, __ATOMIC_SEQ_CST);
}

static unsigned atomicInc(unsigned *pointer, unsigned most) {
    unsigned *word = (unsigned *) at(pointer, 4, 1);
    if (!word) return 0;
    unsigned old = *word;
    *word = old >= most ? 0 : old + 1;
    return old;
}

static unsigned long long look(unsigned long long where) {
    char *view = at((void *) where, 8, 0);
    return view ? __atomic_load_n((uint64_t *) view, __ATOMIC_SEQ_CST) : 0;
}

/* Whoever asks for the time waits for something: others may use the CPU, once for a warp. */
static unsigned long long nanoseconds() {
    struct timespec now;
    if (threadIdx.x % 32 == 0) usleep(20);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static void __syncthreads() { wait_at(AT_BLOCK); }
static void __syncwarp() { wait_at(AT_WARP); }

static thread_local int votes[MOST_THREADS];

static int __all_sync(unsigned, int vote) {
    unsigned first = threadIdx.x & ~31u;
    int all = 1;
    votes[threadIdx.x] = vote;
    __syncwarp();
    for (unsigned i = 0; i < 32; i++) all &= votes[first + i] != 0;
    __syncwarp();
    return all;
}

static int __shfl_sync(unsigned, int value, unsigned lane) {
    unsigned first = threadIdx.x & ~31u;
    votes[threadIdx.x] = value;
    __syncwarp();
    int other = votes[first + lane];
    __syncwarp();
    return other;
}

static unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }

#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __shared__ static thread_local
#define __align__(bytes) alignas(bytes)
#include "kernels.cu"

} // namespace telpher

#define KERNEL(name, parameters)                                                    \
    static void body_of_##name(struct work *work) {                                 \
        telpher::name(*(telpher::parameters *) work->staged);                       \
    }                                                                               \
    extern "C" int run_##name(struct work *work) { return telpher::run(work, body_of_##name); } \
    extern "C" const int bytes_of_##name = sizeof(telpher::parameters);

KERNEL(telpher_copy_8, Parameters<8>)
KERNEL(telpher_copy_100, Parameters<100>)
KERNEL(telpher_copy_table, Parameters<0>)
KERNEL(telpher_agent, Agent)
