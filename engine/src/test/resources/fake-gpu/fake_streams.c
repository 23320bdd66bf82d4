/* Streams, the work in them, and events. */
#define _GNU_SOURCE
#include "fake_cuda.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STREAM 0x57aea300u
#define EVENT 0xe7e47000u

/* What tells how far an event has come; in a file in memory for events between processes. */
struct mark { _Atomic uint64_t recorded, completed; };

struct event {
    uint32_t magic;
    int flags, fd, refs;
    struct context *context;
    struct mark *mark;
    double time;
};

static long delay_us = -1;

static void nap(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, 0);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

void fakeCudaSetDelay(long us) {
    pthread_mutex_lock(&lock);
    delay_us = us;
    pthread_mutex_unlock(&lock);
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

void drain(struct context *context) {
    for (struct stream *stream = streams; stream; stream = stream->next) {
        while (stream->context == context && stream->completed < stream->submitted) {
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

static int with_stream(uint64_t handle, const char *call, struct stream **stream) {
    struct context *context;
    TRY(current_context(&context));
    if (!(*stream = stream_of(handle, context))) return INVALID_HANDLE;
    TRY(fault(call));
    return (*stream)->context->sticky;
}

static int stream_query(uint64_t handle) {
    struct stream *stream;
    TRY(with_stream(handle, "cuStreamQuery", &stream));
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
    LOCKED(submit_value("cuStreamWriteValue64", handle, at, value, flags, 0x100));
}

int cuStreamWaitValue32_v2(uint64_t handle, address at, uint32_t value, unsigned flags) {
    LOCKED(submit_value("cuStreamWaitValue32", handle, at, value, flags, 0x200));
}

int cuStreamWaitValue64_v2(uint64_t handle, address at, uint64_t value, unsigned flags) {
    LOCKED(submit_value("cuStreamWaitValue64", handle, at, value, flags, 0x300));
}

/* Events. */

static struct event *event_of(uint64_t handle) {
    struct event *event = (void *) handle;
    return handle > 4096 && event->magic == EVENT ? event : 0;
}

static void drop_event(struct event *event) {
    if (--event->refs) return;
    if (event->fd >= 0) {
        munmap(event->mark, sizeof *event->mark);
        close(event->fd);
    } else {
        free(event->mark);
    }
    event->magic = 0; /* kept, so that its handle is known to be dead */
}

static struct mark *map_mark(int fd) {
    struct mark *mark = mmap(0, sizeof *mark, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return mark == MAP_FAILED ? 0 : mark;
}

static int event_create(uint64_t *out, int flags) {
    struct context *context;
    TRY(current_context(&context));
    if (flags & ~7 || (flags & 6) == 4) return INVALID_VALUE;
    TRY(fault("cuEventCreate"));
    struct event *event = calloc(1, sizeof *event);
    *event = (struct event) {.magic = EVENT, .flags = flags, .fd = -1, .refs = 1,
            .context = context};
    if (flags & 4) {
        event->fd = memfd_create("fake-cuda-event", MFD_CLOEXEC);
        if (event->fd < 0 || ftruncate(event->fd, 4096) != 0) return OUT_OF_MEMORY;
        event->mark = map_mark(event->fd);
    } else {
        event->mark = calloc(1, sizeof *event->mark);
    }
    live[LIVE_EVENTS]++;
    *out = (uint64_t) event;
    return SUCCESS;
}

int cuEventCreate(uint64_t *out, unsigned flags) { LOCKED(event_create(out, (int) flags)); }

static int run_record(struct work *work) {
    struct event *event = work->object;
    pthread_mutex_lock(&lock);
    event->time = now();
    if (event->mark->completed < work->ticket) event->mark->completed = work->ticket;
    drop_event(event);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

static int event_record(uint64_t handle, uint64_t stream_handle) {
    struct stream *stream;
    struct event *event = event_of(handle);
    if (!event) return INVALID_HANDLE;
    TRY(with_stream(stream_handle, "cuEventRecord", &stream));
    if (event->context != stream->context) return INVALID_HANDLE;
    event->refs++;
    return submit(stream, (struct work) {.call = "cuEventRecord", .run = run_record,
            .object = event, .ticket = ++event->mark->recorded});
}

int cuEventRecord(uint64_t handle, uint64_t stream) { LOCKED(event_record(handle, stream)); }

static int event_query(uint64_t handle) {
    struct event *event = event_of(handle);
    if (!event) return INVALID_HANDLE;
    TRY(fault("cuEventQuery"));
    if (event->context->sticky) return event->context->sticky;
    return event->mark->completed < event->mark->recorded ? NOT_READY : SUCCESS;
}

int cuEventQuery(uint64_t handle) { LOCKED(event_query(handle)); }

/* Waits for another process's stream too, hence by looking now and then. */
static void wait_mark(struct event *event, uint64_t ticket) {
    while (event->mark->completed < ticket && !event->context->sticky) {
        pthread_mutex_unlock(&lock);
        nap(50);
        pthread_mutex_lock(&lock);
    }
}

static int event_synchronize(uint64_t handle) {
    struct event *event = event_of(handle);
    if (!event) return INVALID_HANDLE;
    event->refs++;
    wait_mark(event, event->mark->recorded);
    int sticky = event->context->sticky;
    drop_event(event);
    return sticky;
}

int cuEventSynchronize(uint64_t handle) { LOCKED(event_synchronize(handle)); }

static int event_destroy(uint64_t handle) {
    struct event *event = event_of(handle);
    if (!event) return INVALID_HANDLE;
    live[LIVE_EVENTS]--;
    drop_event(event);
    return SUCCESS;
}

int cuEventDestroy_v2(uint64_t handle) { LOCKED(event_destroy(handle)); }

static int elapsed(float *out, uint64_t start, uint64_t end) {
    struct event *first = event_of(start), *last = event_of(end);
    if (!first || !last || (first->flags | last->flags) & 2 || !first->mark->recorded
            || !last->mark->recorded) return INVALID_HANDLE;
    if (event_query(start) == NOT_READY || event_query(end) == NOT_READY) return NOT_READY;
    *out = (float) (last->time - first->time);
    return SUCCESS;
}

int cuEventElapsedTime(float *out, uint64_t start, uint64_t end) { LOCKED(elapsed(out, start, end)); }

static int run_wait_event(struct work *work) {
    struct event *event = work->object;
    pthread_mutex_lock(&lock);
    wait_mark(event, work->ticket);
    drop_event(event);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

static int stream_wait_event(uint64_t stream_handle, uint64_t handle) {
    struct stream *stream;
    struct event *event = event_of(handle);
    if (!event) return INVALID_HANDLE;
    TRY(with_stream(stream_handle, "cuStreamWaitEvent", &stream));
    event->refs++;
    return submit(stream, (struct work) {.call = "cuStreamWaitEvent", .run = run_wait_event,
            .object = event, .ticket = event->mark->recorded});
}

int cuStreamWaitEvent(uint64_t stream, uint64_t event, unsigned flags) {
    (void) flags;
    LOCKED(stream_wait_event(stream, event));
}

struct event_handle { uint32_t magic; int32_t pid, fd, flags; uint64_t inode; char rest[40]; };

static int get_event_handle(struct event_handle *out, uint64_t handle) {
    struct event *event = event_of(handle);
    struct stat stat;
    if (!event || event->fd < 0) return INVALID_HANDLE;
    fstat(event->fd, &stat);
    *out = (struct event_handle) {.magic = EVENT, .pid = getpid(), .fd = event->fd,
            .flags = event->flags, .inode = stat.st_ino};
    return SUCCESS;
}

int cuIpcGetEventHandle(struct event_handle *out, uint64_t handle) {
    LOCKED(get_event_handle(out, handle));
}

static int open_event_handle(uint64_t *out, struct event_handle *handle) {
    struct context *context;
    struct stat stat;
    char path[64];
    TRY(current_context(&context));
    if (handle->magic != EVENT) return INVALID_HANDLE;
    if (handle->pid == getpid()) return INVALID_CONTEXT;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->pid, handle->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &stat) != 0 || stat.st_ino != handle->inode) {
        if (fd >= 0) close(fd);
        return INVALID_HANDLE;
    }
    struct event *event = calloc(1, sizeof *event);
    *event = (struct event) {.magic = EVENT, .flags = handle->flags, .fd = fd, .refs = 1,
            .context = context, .mark = map_mark(fd)};
    live[LIVE_EVENTS]++;
    *out = (uint64_t) event;
    return SUCCESS;
}

int cuIpcOpenEventHandle(uint64_t *out, struct event_handle handle) {
    LOCKED(open_event_handle(out, &handle));
}

__attribute__((constructor)) static void read_delay(void) {
    const char *us = getenv("FAKE_CUDA_DELAY_US");
    delay_us = us ? atol(us) : 0;
}
