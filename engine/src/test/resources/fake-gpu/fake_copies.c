/* Copies and fills. */
#define _GNU_SOURCE
#include "fake_cuda.h"
#include <unistd.h>

#define SLICE (1ul << 20)

static long copies_begun, copies_of[MAX_DEVICES];
static int copies_live, copies_most;

/* How many copies were begun so far by a device's streams; by all with -1. */
long fakeCudaCopies(int ordinal) {
    pthread_mutex_lock(&lock);
    long count = ordinal < 0 ? copies_begun : copies_of[ordinal];
    pthread_mutex_unlock(&lock);
    return count;
}

/* How many were under way at the same time, at most, since this was asked last. */
int fakeCudaMostCopies(void) {
    pthread_mutex_lock(&lock);
    int most = copies_most;
    copies_most = copies_live;
    pthread_mutex_unlock(&lock);
    return most;
}

/* Under the lock. */
void copy_ended(struct work *work) {
    if (strncmp(work->call, "cuMemcpy", 8) == 0) copies_live--;
}

/* Where one end of a copy is, seen by the stream's context: pinned, of a device, or pageable. */
static int end_of(struct work *work, address at, size_t bytes, int write, char **view) {
    int result = check_range(work->stream->context, at, bytes, write, view);
    if (result == INVALID_VALUE && is_pageable(at, bytes)) {
        *view = (char *) at;
        return SUCCESS;
    }
    return result ? ILLEGAL_ADDRESS : SUCCESS;
}

/* In slices, with the lock held during each, so that nobody unmaps under a copy. */
static int run_copy(struct work *work) {
    int from_id = -1, to_id = -1;
    for (size_t done = 0; done < work->bytes;) {
        size_t slice = work->bytes - done < SLICE ? work->bytes - done : SLICE;
        char *to, *from;
        pthread_mutex_lock(&lock);
        slice = within_mapping(work->to + done, slice);
        if (!work->staged) slice = within_mapping(work->from + done, slice);
        int result = end_of(work, work->to + done, slice, 1, &to);
        if (!result) {
            if (work->staged) from = (char *) work->staged + done;
            else result = end_of(work, work->from + done, slice, 0, &from);
        }
        if (!result) {
            int a = owner_of(work->from), b = owner_of(work->to);
            from_id = a < 0 ? -1 : devices[a].id;
            to_id = b < 0 ? -1 : devices[b].id;
            int direct = from_id >= 0 && to_id >= 0 && from_id != to_id;
            if (direct && peers_listed("FAKE_CUDA_CRASH_PEERS", from_id, to_id)) abort();
            if (direct && peers_listed("FAKE_CUDA_HANG_PEERS", from_id, to_id)) {
                pthread_mutex_unlock(&lock);
                for (;;) pause();
            }
            memmove(to, from, slice);
            if (direct && peers_listed("FAKE_CUDA_CORRUPT_PEERS", from_id, to_id)) {
                for (size_t i = 0; i < slice; i += 4096) to[i] ^= 0x5a;
            }
        }
        pthread_mutex_unlock(&lock);
        if (result) return result;
        done += slice;
    }
    return SUCCESS;
}

/* Unknown addresses are refused at once, as are ranges that leave their allocation; mappings side
   by side count as one. */
static int check_end(struct context *context, address at, size_t bytes, int write, int *pageable) {
    char *view;
    *pageable = 0;
    size_t first = within_mapping(at, bytes);
    int result = check_range(context, at, first, write, &view);
    while (!result && first < bytes) {
        at += first;
        bytes -= first;
        first = within_mapping(at, bytes);
        result = check_range(context, at, first, write, &view);
    }
    if (result == INVALID_VALUE && is_pageable(at, bytes)) {
        *pageable = 1;
        return SUCCESS;
    }
    /* What a device may not reach shows when the work runs. */
    return result == ILLEGAL_ADDRESS ? SUCCESS : result;
}

/* Leaves word for NVML, in whatever process, that the device's link is awake. */
static void wake(const struct device *device) {
    const char *prefix = getenv("FAKE_NVML_AWAKE");
    if (!prefix) return;
    char file[4096];
    snprintf(file, sizeof file, "%s%d", prefix, device->id);
    FILE *out = fopen(file, "w");
    if (out) fclose(out);
}

static int copy(const char *call, address to, address from, size_t bytes, uint64_t handle) {
    struct context *context;
    int to_pageable, from_pageable;
    TRY(current_context(&context));
    struct stream *stream = stream_of(handle, context);
    if (!stream) return INVALID_HANDLE;
    TRY(fault(call));
    TRY(stream->context->sticky);
    if (!bytes) return SUCCESS;
    TRY(check_end(stream->context, to, bytes, 1, &to_pageable));
    TRY(check_end(stream->context, from, bytes, 0, &from_pageable));
    struct work work = {.call = call, .run = run_copy, .to = to, .from = from, .bytes = bytes};
    if (from_pageable) {
        work.staged = malloc(bytes);
        memcpy(work.staged, (void *) from, bytes);
    }
    TRY(submit(stream, work));
    wake(stream->context->device);
    copies_begun++;
    copies_of[stream->context->device - devices]++;
    if (++copies_live > copies_most) copies_most = copies_live;
    if (to_pageable) {
        uint64_t ticket = stream->submitted;
        while (stream->completed < ticket) pthread_cond_wait(&progress, &lock);
        return stream->context->sticky;
    }
    return SUCCESS;
}

int cuMemcpyAsync(address to, address from, size_t bytes, uint64_t stream) {
    LOCKED(copy("cuMemcpyAsync", to, from, bytes, stream));
}

int cuMemcpyPeerAsync(address to, struct context *to_context, address from,
        struct context *from_context, size_t bytes, uint64_t stream) {
    if (!to_context || !from_context) return INVALID_CONTEXT;
    LOCKED(copy("cuMemcpyPeerAsync", to, from, bytes, stream));
}

static int batch(const address *to, const address *from, const size_t *bytes, size_t count,
        uint64_t stream) {
    TRY(fault("cuMemcpyBatchAsync"));
    for (size_t i = 0; i < count; i++) {
        TRY(copy("cuMemcpyBatchAsync.piece", to[i], from[i], bytes[i], stream));
    }
    return SUCCESS;
}

int cuMemcpyBatchAsync_v2(const address *to, const address *from, const size_t *bytes, size_t count,
        const void *attributes, const size_t *indices, size_t attribute_count, uint64_t stream) {
    if (!count || !attributes || attribute_count != 1 || *indices || stream <= 1) {
        return INVALID_VALUE;
    }
    LOCKED(batch(to, from, bytes, count, stream));
}

static int run_fill(struct work *work) {
    char *to;
    pthread_mutex_lock(&lock);
    int result = end_of(work, work->to, work->bytes * work->flags, 1, &to);
    for (size_t i = 0; !result && i < work->bytes; i++) {
        memcpy(to + i * work->flags, &work->value, work->flags);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static int fill(const char *call, address to, unsigned value, unsigned width, size_t count,
        uint64_t handle) {
    struct context *context;
    char *view;
    TRY(current_context(&context));
    struct stream *stream = stream_of(handle, context);
    if (!stream) return INVALID_HANDLE;
    TRY(fault(call));
    TRY(stream->context->sticky);
    if (to % width || check_range(stream->context, to, count * width, 1, &view) == INVALID_VALUE) {
        return INVALID_VALUE;
    }
    return submit(stream, (struct work) {.call = call, .run = run_fill, .to = to, .bytes = count,
            .value = value, .flags = width});
}

int cuMemsetD8Async(address to, unsigned char value, size_t count, uint64_t stream) {
    LOCKED(fill("cuMemsetD8Async", to, value, 1, count, stream));
}

int cuMemsetD32Async(address to, unsigned value, size_t count, uint64_t stream) {
    LOCKED(fill("cuMemsetD32Async", to, value, 4, count, stream));
}
