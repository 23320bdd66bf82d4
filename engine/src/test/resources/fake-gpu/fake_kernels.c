/* C versions of kernels, by name. They run on the stream's thread, once for the whole grid.
 *
 * To add one: write `static int run_NAME(struct work *work)`, take the parameters from
 * `work->arguments` in their order (8 bytes each, whatever their type; cast down), turn each
 * address into memory with `fake_memory` and return ILLEGAL_ADDRESS where that gives null, else
 * SUCCESS. Then add a line to the table with the number of parameters (16 at most). `work->blocks`
 * and `work->threads` are the launch's. A kernel that waits for a word reads it with __atomic_load_n
 * and naps in between. */
#include "fake_cuda.h"

/* vector_add(const float *a, const float *b, float *sum, int count) */
static int run_vector_add(struct work *work) {
    int count = (int) work->arguments[3];
    float *a = (float *) fake_memory(work, work->arguments[0], 4ul * count, 0);
    float *b = (float *) fake_memory(work, work->arguments[1], 4ul * count, 0);
    float *sum = (float *) fake_memory(work, work->arguments[2], 4ul * count, 1);
    if (!a || !b || !sum) return ILLEGAL_ADDRESS;
    /* A thread per element: what the grid does not cover stays as it is. */
    for (int i = 0; i < count && i < (int) (work->blocks * work->threads); i++) sum[i] = a[i] + b[i];
    return SUCCESS;
}

/* fake_telpher.cpp; without a C++ compiler there are none. */
#define WEAK __attribute__((weak))
WEAK int run_telpher_copy_8(struct work *work);
WEAK int run_telpher_copy_100(struct work *work);
WEAK int run_telpher_copy_table(struct work *work);
WEAK int run_telpher_agent(struct work *work);

struct kernel fake_kernels[] = {
    {"vector_add", 4, run_vector_add, 0},
    {"telpher_copy_8", 0, run_telpher_copy_8, 480 + 8 * 32},
    {"telpher_copy_100", 0, run_telpher_copy_100, 480 + 100 * 32},
    {"telpher_copy_table", 0, run_telpher_copy_table, 480},
    {"telpher_agent", 0, run_telpher_agent, 64},
    {0, 0, 0, 0},
};
