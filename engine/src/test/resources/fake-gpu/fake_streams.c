/* Streams and the work in them. */
#define _GNU_SOURCE
#include "fake_cuda.h"
#include <time.h>

#define STREAM 0x57aea300u

static long delay_us = -1;

void nap(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, 0);
}

void fakeCudaSetDelay(long us) {
    pthread_mutex_lock(&lock);
    delay_us = us;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void read_delay(void) {
    const char *us = getenv("FAKE_CUDA_DELAY_US");
    delay_us = us ? atol(us) : 0;
}

static void *serve(void *argument) {
    struct stream *stream = argument;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!stream->head && !stream->closing) pthread_cond_wait(&stream->more, &lock);
        struct work *work = stream->head;
        if (!work) break;
        long delay = delay_us;
        int lost = stream->context->sticky;
        char name[64];
        snprintf(name, sizeof name, "run.%s", work->call);
        int result = lost ? lost : fault(name);
        pthread_mutex_unlock(&lock);
        if (delay > 0) nap(delay);
        if (!result) result = work->run(work);
        pthread_mutex_lock(&lock);
        if (result && !lost) stream->context->sticky = result;
        if (!(stream->head = work->next)) stream->tail = &stream->head;
        copy_ended(work);
        free(work->staged);
        free(work);
        stream->completed++;
        pthread_cond_broadcast(&progress);
    }
    stream->magic = 0;
    pthread_cond_broadcast(&progress);
    pthread_mutex_unlock(&lock);
    return 0;
}

static struct stream *make_stream(struct context *context, unsigned flags) {
    struct stream *stream = calloc(1, sizeof *stream);
    stream->magic = STREAM;
    stream->context = context;
    stream->flags = flags;
    stream->tail = &stream->head;
    pthread_cond_init(&stream->more, 0);
    stream->next = streams;
    streams = stream;
    pthread_create(&stream->worker, 0, serve, stream);
    pthread_detach(stream->worker);
    return stream;
}

/* The stream behind a handle; 0 and 1 are the context's default stream. */
struct stream *stream_of(uint64_t handle, struct context *context) {
    if (handle <= 1) {
        if (!context->first) context->first = make_stream(context, 0);
        return context->first;
    }
    for (struct stream *stream = streams; stream; stream = stream->next) {
        if (stream == (void *) handle && stream->magic == STREAM && !stream->closing) return stream;
    }
    return 0;
}

/* Structures of streams are kept: waiting work may still look at them. */
static void close_stream(struct stream *stream) {
    stream->closing = 1;
    pthread_cond_signal(&stream->more);
}

/* Not for what others submit meanwhile. */
void drain(struct context *context) {
    for (struct stream *stream = streams; stream; stream = stream->next) {
        uint64_t ticket = stream->submitted;
        while (stream->context == context && stream->completed < ticket) {
            pthread_cond_wait(&progress, &lock);
        }
    }
}

void close_streams(struct context *context) {
    for (struct stream *stream = streams; stream; stream = stream->next) {
        if (stream->context == context && !stream->closing) {
            if (stream != context->first) live[LIVE_STREAMS]--;
            close_stream(stream);
        }
    }
    context->first = 0;
}

static void append(struct stream *stream, struct work work) {
    struct work *copy = malloc(sizeof *copy);
    *copy = work;
    copy->stream = stream;
    copy->next = 0;
    *stream->tail = copy;
    stream->tail = &copy->next;
    stream->submitted++;
    pthread_cond_signal(&stream->more);
}

static int run_wait_stream(struct work *work) {
    struct stream *other = work->object;
    pthread_mutex_lock(&lock);
    while (other->completed < work->ticket) pthread_cond_wait(&progress, &lock);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

static void order_after(struct stream *stream, struct stream *other) {
    if (other->completed < other->submitted) {
        append(stream, (struct work) {.call = "order", .run = run_wait_stream, .object = other,
                .ticket = other->submitted});
    }
}

/* Work in the default stream and in blocking streams waits for each other. */
int submit(struct stream *stream, struct work work) {
    struct stream *first = stream->context->first;
    if (stream == first) {
        for (struct stream *other = streams; other; other = other->next) {
            if (other != stream && other->context == stream->context && !(other->flags & 1)) {
                order_after(stream, other);
            }
        }
    } else if (first && !(stream->flags & 1)) {
        order_after(stream, first);
    }
    append(stream, work);
    return SUCCESS;
}

static int stream_create(uint64_t *out, unsigned flags) {
    struct context *context;
    TRY(current_context(&context));
    if (flags > 1) return INVALID_VALUE;
    TRY(fault("cuStreamCreate"));
    live[LIVE_STREAMS]++;
    *out = (uint64_t) make_stream(context, flags);
    return SUCCESS;
}

int cuStreamCreateWithPriority(uint64_t *out, unsigned flags, int priority) {
    (void) priority;
    LOCKED(stream_create(out, flags));
}

int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    struct context *context;
    TRY(current_context(&context));
    *least = 0;
    *greatest = -5;
    return SUCCESS;
}

static int stream_destroy(uint64_t handle) {
    struct context *context;
    TRY(current_context(&context));
    struct stream *stream = handle > 1 ? stream_of(handle, context) : 0;
    if (!stream || stream == context->first) return INVALID_HANDLE;
    live[LIVE_STREAMS]--;
    close_stream(stream);
    return SUCCESS;
}

int cuStreamDestroy_v2(uint64_t handle) { LOCKED(stream_destroy(handle)); }

int with_stream(uint64_t handle, const char *call, struct stream **stream) {
    struct context *context;
    TRY(current_context(&context));
    if (!(*stream = stream_of(handle, context))) return INVALID_HANDLE;
    TRY(fault(call));
    return (*stream)->context->sticky;
}

static int stream_query(uint64_t handle) {
    struct stream *stream;
    TRY(with_stream(handle, "cuStreamQuery", &stream));
    if (stream->capturing) return CAPTURE_UNSUPPORTED;
    return stream->completed < stream->submitted ? NOT_READY : SUCCESS;
}

int cuStreamQuery(uint64_t handle) { LOCKED(stream_query(handle)); }

static int stream_synchronize(uint64_t handle) {
    struct stream *stream;
    TRY(with_stream(handle, "cuStreamSynchronize", &stream));
    uint64_t ticket = stream->submitted;
    while (stream->completed < ticket) pthread_cond_wait(&progress, &lock);
    return stream->context->sticky;
}

int cuStreamSynchronize(uint64_t handle) { LOCKED(stream_synchronize(handle)); }

static int stream_context(uint64_t handle, struct context **out) {
    struct stream *stream;
    TRY(with_stream(handle, "cuStreamGetCtx", &stream));
    *out = stream->context;
    return SUCCESS;
}

int cuStreamGetCtx(uint64_t handle, struct context **out) { LOCKED(stream_context(handle, out)); }

/* A stream that records runs its work all the same: the fake only knows that it does. */

static int stream_is_capturing(uint64_t handle, int *status) {
    struct stream *stream;
    TRY(with_stream(handle, "cuStreamIsCapturing", &stream));
    *status = stream->capturing;
    return SUCCESS;
}

int cuStreamIsCapturing(uint64_t handle, int *status) {
    LOCKED(stream_is_capturing(handle, status));
}

static int stream_begin_capture(uint64_t handle) {
    struct stream *stream;
    TRY(with_stream(handle, "cuStreamBeginCapture", &stream));
    stream->capturing = 1;
    return SUCCESS;
}

int cuStreamBeginCapture_v2(uint64_t handle, int mode) {
    (void) mode;
    LOCKED(stream_begin_capture(handle));
}

/* Words that work writes and waits for. */

static int run_value(struct work *work) {
    int wide = work->flags & 0x100, wait = work->flags & 0x200;
    for (;;) {
        char *at;
        pthread_mutex_lock(&lock);
        int lost = work->stream->context->sticky;
        int result = check_range(work->stream->context, work->to, wide ? 8 : 4, !wait, &at);
        if (!result && !wait) {
            if (wide) __atomic_store_n((uint64_t *) at, work->value, __ATOMIC_SEQ_CST);
            else __atomic_store_n((uint32_t *) at, (uint32_t) work->value, __ATOMIC_SEQ_CST);
        }
        uint64_t seen = result || !wait ? 0
                : wide ? __atomic_load_n((uint64_t *) at, __ATOMIC_SEQ_CST)
                : __atomic_load_n((uint32_t *) at, __ATOMIC_SEQ_CST);
        pthread_mutex_unlock(&lock);
        if (result) return ILLEGAL_ADDRESS;
        if (lost || !wait) return lost;
        int done;
        switch (work->flags & 3) {
            case 0: done = wide ? (int64_t) (seen - work->value) >= 0
                    : (int32_t) ((uint32_t) seen - (uint32_t) work->value) >= 0; break;
            case 1: done = seen == work->value; break;
            case 2: done = (seen & work->value) != 0; break;
            default: done = wide ? ~(seen | work->value) != 0
                    : ~((uint32_t) seen | (uint32_t) work->value) != 0;
        }
        if (done) return SUCCESS;
        nap(50);
    }
}

static int submit_value(const char *call, uint64_t handle, address at, uint64_t value,
        unsigned flags, unsigned how) {
    struct stream *stream;
    char *view;
    TRY(with_stream(handle, call, &stream));
    if (at % (how & 0x100 ? 8 : 4)) return INVALID_VALUE;
    if (check_range(stream->context, at, how & 0x100 ? 8 : 4, !(how & 0x200), &view)) {
        return INVALID_VALUE;
    }
    return submit(stream, (struct work) {.call = call, .run = run_value, .to = at, .value = value,
            .flags = (flags & 3) | how});
}

int cuStreamWriteValue32_v2(uint64_t handle, address at, uint32_t value, unsigned flags) {
    LOCKED(submit_value("cuStreamWriteValue32", handle, at, value, flags, 0));
}

int cuStreamWriteValue64_v2(uint64_t handle, address at, uint64_t value, unsigned flags) {
    LOCKED(kept("cuStreamWriteValue64",
            submit_value("cuStreamWriteValue64", handle, at, value, flags, 0x100)));
}

int cuStreamWaitValue32_v2(uint64_t handle, address at, uint32_t value, unsigned flags) {
    LOCKED(submit_value("cuStreamWaitValue32", handle, at, value, flags, 0x200));
}

int cuStreamWaitValue64_v2(uint64_t handle, address at, uint64_t value, unsigned flags) {
    LOCKED(kept("cuStreamWaitValue64",
            submit_value("cuStreamWaitValue64", handle, at, value, flags, 0x300)));
}
