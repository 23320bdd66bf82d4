// A HIP runtime for tests on machines without AMD GPUs, with the numbers of ROCm 6.
//
// Device memory is a file in memory, mapped twice: what programs are given cannot be read by the CPU. Work of a stream
// runs one piece at a time, each time an event behind it is asked for, or all of it when somebody waits. Wrong use gets
// an error: unknown memory, ranges that leave their allocation, memory of another device than the stream's.
//
// There are three devices, or FAKE_HIP_DEVICES; all but the first say the same UUID. FAKE_HIP_FAULT is a call that
// fails the first time, with hipErrorOutOfMemory. Functions for tests:
//   fakeHipFault(call, nth, code)  lets the nth call from now on of one function fail
//   fakeHipLastError()             what hipGetLastError would say to this thread
//   fakeHipLive()                  how many allocations and registrations there are

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_HANDLE = 400,
       NOT_READY = 600, ALREADY_REGISTERED = 712, NOT_REGISTERED = 713 };
enum { TYPE_HOST = 1, TYPE_DEVICE = 2 };
enum { MOST = 256 };

typedef struct { uintptr_t base; size_t bytes; char *view; int device, type; uint64_t id; } Memory;
typedef struct Piece { struct Piece *next; char *to, *from; size_t bytes; } Piece;
typedef struct { int device; uint64_t added, done; Piece *first, **last; } Stream;
typedef struct { Stream *stream; uint64_t mark; } Event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Memory memories[MOST];
static uint64_t ids;
static char fault_call[64];
static int fault_nth, fault_code;
static __thread int current, last_error;

static int failed(int code) {
    if (code != SUCCESS) last_error = code;
    return code;
}

static int fault(const char *call) {
    if (fault_nth == 0 || strcmp(call, fault_call) != 0 || --fault_nth > 0) return SUCCESS;
    return fault_code;
}

// Every call that can be told to fail begins with this, and ends with unlocking.
#define BEGIN pthread_mutex_lock(&lock); int result = fault(__func__); if (result != SUCCESS) goto end
#define END end: pthread_mutex_unlock(&lock); return failed(result)
#define REFUSE(condition, code) if (condition) { result = code; goto end; }

void fakeHipFault(const char *call, int nth, int code) {
    pthread_mutex_lock(&lock);
    snprintf(fault_call, sizeof fault_call, "%s", call);
    fault_nth = nth;
    fault_code = code;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void fault_from_environment(void) {
    const char *call = getenv("FAKE_HIP_FAULT");
    if (call != NULL) fakeHipFault(call, 1, OUT_OF_MEMORY);
}

int fakeHipLastError(void) { return last_error; }

int fakeHipLive(void) {
    int live = 0;
    for (int i = 0; i < MOST; i++) live += memories[i].bytes != 0;
    return live;
}

static int devices(void) {
    const char *text = getenv("FAKE_HIP_DEVICES");
    return text == NULL ? 3 : atoi(text);
}

static Memory *find(uintptr_t address) {
    for (int i = 0; i < MOST; i++)
        if (memories[i].bytes != 0 && address - memories[i].base < memories[i].bytes) return &memories[i];
    return NULL;
}

static int keep(uintptr_t base, size_t bytes, char *view, int type) {
    for (int i = 0; i < MOST; i++) {
        if (memories[i].bytes == 0) {
            memories[i] = (Memory){base, bytes, view, current, type, ++ids};
            return SUCCESS;
        }
    }
    return OUT_OF_MEMORY;
}

// Where the CPU sees a range; NULL where a stream of the device may not use it.
static char *seen(uintptr_t address, size_t bytes, int device) {
    Memory *memory = find(address);
    if (memory == NULL) return (char *)address;
    if (address - memory->base + bytes > memory->bytes) return NULL;
    if (memory->type == TYPE_DEVICE && memory->device != device) return NULL;
    return memory->view + (address - memory->base);
}

static void step(Stream *stream) {
    Piece *piece = stream->first;
    if (piece == NULL) return;
    memcpy(piece->to, piece->from, piece->bytes);
    stream->first = piece->next;
    if (stream->first == NULL) stream->last = &stream->first;
    stream->done++;
    free(piece);
}

int hipInit(unsigned flags) { BEGIN; REFUSE(flags != 0, INVALID_VALUE); END; }

int hipRuntimeGetVersion(int *version) { BEGIN; *version = 60241133; END; }

int hipGetDeviceCount(int *count) { BEGIN; *count = devices(); REFUSE(*count == 0, NO_DEVICE); END; }

int hipDeviceGetUuid(char *uuid, int device) {
    BEGIN;
    REFUSE(device < 0 || device >= devices(), INVALID_DEVICE);
    memcpy(uuid, device == 0 ? "0123456789abcdef" : "XXXXXXXXXXXXXXXX", 16);
    END;
}

int hipDeviceGetPCIBusId(char *id, int length, int device) {
    BEGIN;
    REFUSE(device < 0 || device >= devices(), INVALID_DEVICE);
    snprintf(id, (size_t)length, "0000:C%d:00.0", device);
    END;
}

int hipDeviceGetName(char *name, int length, int device) {
    BEGIN;
    REFUSE(device < 0 || device >= devices(), INVALID_DEVICE);
    snprintf(name, (size_t)length, "Fake Instinct %d", device);
    END;
}

int hipGetDevice(int *device) { BEGIN; *device = current; END; }

int hipSetDevice(int device) {
    BEGIN;
    REFUSE(device < 0 || device >= devices(), INVALID_DEVICE);
    current = device;
    END;
}

int hipGetLastError(void) {
    int error = last_error;
    last_error = SUCCESS;
    return error;
}

const char *hipGetErrorName(int error) {
    switch (error) {
        case INVALID_VALUE: return "hipErrorInvalidValue";
        case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
        case NOT_READY: return "hipErrorNotReady";
        default: return "hipErrorOfTheFake";
    }
}

const char *hipGetErrorString(int error) { return error == OUT_OF_MEMORY ? "out of memory" : "of the fake"; }

int hipMalloc(void **address, size_t bytes) {
    BEGIN;
    int file = memfd_create("fake-hip", MFD_CLOEXEC);
    REFUSE(file < 0 || bytes == 0 || ftruncate(file, (off_t)bytes) != 0, OUT_OF_MEMORY);
    char *view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    *address = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, file, 0);
    close(file);
    REFUSE(view == MAP_FAILED || *address == MAP_FAILED, OUT_OF_MEMORY);
    result = keep((uintptr_t)*address, bytes, view, TYPE_DEVICE);
    END;
}

int hipFree(void *address) {
    BEGIN;
    Memory *memory = find((uintptr_t)address);
    REFUSE(memory == NULL || memory->base != (uintptr_t)address || memory->type != TYPE_DEVICE, INVALID_VALUE);
    munmap(address, memory->bytes);
    munmap(memory->view, memory->bytes);
    memory->bytes = 0;
    END;
}

int hipHostRegister(void *address, size_t bytes, unsigned flags) {
    BEGIN;
    REFUSE(bytes == 0 || flags != 1, INVALID_VALUE);
    REFUSE(find((uintptr_t)address) != NULL || find((uintptr_t)address + bytes - 1) != NULL, ALREADY_REGISTERED);
    result = keep((uintptr_t)address, bytes, address, TYPE_HOST);
    END;
}

int hipHostUnregister(void *address) {
    BEGIN;
    Memory *memory = find((uintptr_t)address);
    REFUSE(memory == NULL || memory->base != (uintptr_t)address || memory->type != TYPE_HOST, NOT_REGISTERED);
    memory->bytes = 0;
    END;
}

int hipPointerGetAttribute(void *data, int attribute, void *address) {
    BEGIN;
    Memory *memory = find((uintptr_t)address);
    REFUSE(memory == NULL, INVALID_VALUE);
    switch (attribute) {
        case 2: *(int *)data = memory->type; break;
        case 7: *(unsigned *)data = (unsigned)memory->id; break;
        case 8: *(char *)data = 0; break;
        case 9: *(int *)data = memory->device; break;
        case 11: *(uintptr_t *)data = memory->base; break;
        case 12: *(size_t *)data = memory->bytes; break;
        default: result = INVALID_VALUE;
    }
    END;
}

int hipStreamCreateWithFlags(Stream **stream, unsigned flags) {
    BEGIN;
    REFUSE(flags != 1, INVALID_VALUE);
    *stream = calloc(1, sizeof **stream);
    (*stream)->device = current;
    (*stream)->last = &(*stream)->first;
    END;
}

int hipStreamSynchronize(Stream *stream) {
    BEGIN;
    while (stream->first != NULL) step(stream);
    END;
}

int hipEventCreateWithFlags(Event **event, unsigned flags) {
    BEGIN;
    REFUSE(flags != 2, INVALID_VALUE);
    *event = calloc(1, sizeof **event);
    END;
}

int hipEventRecord(Event *event, Stream *stream) {
    BEGIN;
    event->stream = stream;
    event->mark = stream->added;
    END;
}

int hipEventQuery(Event *event) {
    BEGIN;
    REFUSE(event->stream == NULL, INVALID_HANDLE);
    if (event->stream->done < event->mark) {
        step(event->stream);
        result = NOT_READY;
    }
    END;
}

int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, Stream *stream) {
    BEGIN;
    char *target = seen((uintptr_t)to, bytes, stream->device);
    char *source = seen((uintptr_t)from, bytes, stream->device);
    REFUSE(kind != 4 || target == NULL || source == NULL, INVALID_VALUE);
    Piece *piece = malloc(sizeof *piece);
    *piece = (Piece){NULL, target, source, bytes};
    *stream->last = piece;
    stream->last = &piece->next;
    stream->added++;
    END;
}
