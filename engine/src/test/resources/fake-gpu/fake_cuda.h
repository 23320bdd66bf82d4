/* A CUDA driver on host memory, for tests. README.md says what it does; here is what its files share. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define MAX_DEVICES 16
#define IPC_BYTES 64
#define GRANULARITY (2ul << 20)

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    PEER_ACCESS_UNSUPPORTED = 217,
    OPERATING_SYSTEM = 304,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    PEER_ACCESS_NOT_ENABLED = 705,
    CONTEXT_IS_DESTROYED = 709,
    HOST_MEMORY_ALREADY_REGISTERED = 712,
    HOST_MEMORY_NOT_REGISTERED = 713,
    NOT_PERMITTED = 800,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
};

/* What fakeCudaLive counts. */
enum {
    LIVE_ALLOCATIONS,
    LIVE_HOST_ALLOCATIONS,
    LIVE_HOST_REGISTRATIONS,
    LIVE_VMM_HANDLES,
    LIVE_VMM_RESERVATIONS,
    LIVE_VMM_MAPPINGS,
    LIVE_IPC_MAPPINGS,
    LIVE_STREAMS,
    LIVE_EVENTS,
    LIVE_MODULES,
    LIVE_CONTEXTS,
    LIVE_KINDS
};

typedef uint64_t address; /* CUdeviceptr */

struct device {
    int id; /* among all devices of the machine, visible or not */
    size_t used;
    int retained, made; /* the primary context: how often retained now, how often made so far */
    unsigned flags;
    struct context *context;
};

struct context {
    struct device *device;
    int alive;
    int sticky;           /* the error that it was lost with */
    uint32_t peers;       /* bits of the ordinals that it may reach */
    struct stream *first; /* its default stream */
};

/* Memory of a device: a file in memory. */
struct physical {
    int fd, device /* id */, handle_types;
    size_t bytes;
    int refs;    /* handles and mappings */
    int handles; /* CUmemGenericAllocationHandle counts */
    struct physical *next;
};

enum kind { ALLOCATED, MAPPED, IPC, HOST_ALLOCATED, HOST_REGISTERED };

/* A range of addresses that means memory. */
struct range {
    enum kind kind;
    address base;
    size_t bytes;
    char *view; /* where the fake itself reads and writes it */
    struct physical *physical;
    struct context *context; /* what it was made in; 0 for MAPPED */
    uint32_t readers, writers; /* MAPPED: bits of ordinals */
    uint64_t buffer_id;
    int opened; /* IPC: how often */
    ino_t inode;
    struct range *next;
};

struct reservation { address base; size_t bytes; struct reservation *next; };
struct reservation *reservation_of(address at);

/* One piece of work in a stream. Runs without the lock; answers with a result. */
struct work {
    const char *call;
    int (*run)(struct work *);
    struct stream *stream;
    address to, from;
    size_t bytes;
    uint64_t value;
    unsigned flags;
    void *object;    /* event, or the stream to wait for */
    uint64_t ticket; /* of the event's record, or of that stream's work */
    void *staged;    /* pageable source bytes, freed after the work */
    struct kernel *kernel;
    unsigned blocks, threads;
    uint64_t arguments[16];
    struct work *next;
};

struct stream {
    uint32_t magic;
    struct context *context;
    unsigned flags;
    pthread_t worker;
    pthread_cond_t more;
    struct work *head, **tail;
    uint64_t submitted, completed;
    int closing, capturing;
    struct stream *next;
};

/* A kernel's C version. `fake_memory` gives its memory, checked as the GPU would. */
struct kernel {
    const char *name;
    int parameters;
    int (*run)(struct work *);
    size_t structure; /* or one parameter, a structure of so many bytes: in `staged` */
};

/* Memory that the work's device reaches, or null: then return ILLEGAL_ADDRESS. */
char *fake_memory(struct work *work, address at, size_t bytes, int write);

extern struct kernel fake_kernels[];

/* One lock for everything; `progress` tells of completed work. */
extern pthread_mutex_t lock;
extern pthread_cond_t progress;
extern struct device devices[MAX_DEVICES];
extern int device_count;
extern struct stream *streams;
extern int live[LIVE_KINDS];

/* The current context in *context, ready for use, or the error to return. */
int current_context(struct context **context);
int fault(const char *call);
int fabric_granted(void);
int option(const char *name);
int peers_listed(const char *variable, int a, int b);
struct device *device_of(int ordinal);
int ordinal_of(int id);
int peer_possible(int ordinal, int peer);
int refused_peer(struct context *context, int id);

extern struct range *ranges;
extern struct physical *physicals;
size_t rounded(size_t bytes, size_t unit);
address reserve_addresses(size_t bytes);
void free_addresses(address base, size_t bytes);
struct range *add_range(enum kind kind, address base, size_t bytes, char *view,
        struct physical *physical, struct context *context);
void remove_range(struct range *range);
void free_range(struct range *range);
/* Makes memory of a device (id), paid for by `device` unless that is null. */
int create_memory(struct device *device, int id, size_t bytes, int types, struct physical **out);
void drop(struct physical *physical, struct device *account);
struct device *payer(struct physical *physical);
char *view_of(struct physical *physical);

struct range *find_range(address at);
size_t within_mapping(address at, size_t bytes);
int check_range(struct context *context, address at, size_t bytes, int write, char **view);
int is_pageable(address at, size_t bytes);
int owner_of(address at); /* ordinal of the device, -1 for host memory */
void free_context_memory(struct context *context);
void drain(struct context *context);
void close_streams(struct context *context);
void close_modules(struct context *context);
int submit(struct stream *stream, struct work work);
void copy_ended(struct work *work);
struct stream *stream_of(uint64_t handle, struct context *context);
int with_stream(uint64_t handle, const char *call, struct stream **stream);
void nap(long us);
int kept(const char *call, int result);

#define LOCKED(body)                  \
    do {                              \
        pthread_mutex_lock(&lock);    \
        int locked_result = body;     \
        pthread_mutex_unlock(&lock);  \
        return locked_result;         \
    } while (0)

#define TRY(expression)                 \
    do {                                \
        int tried = (expression);       \
        if (tried != SUCCESS) return tried; \
    } while (0)

#endif
