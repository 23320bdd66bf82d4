/* Events, also between processes. */
#define _GNU_SOURCE
#include "fake_cuda.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

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
