/* Ranges of addresses, device memory, pinned host memory, what an address is. */
#define _GNU_SOURCE
#include "fake_cuda.h"
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

struct range *ranges;
struct physical *physicals;
static struct reservation *freed; /* addresses to be given out again, last freed first */
static uint64_t buffer_ids;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/* Addresses that mean nothing to the CPU. */
address reserve_addresses(size_t bytes) {
    for (struct reservation **at = &freed; *at; at = &(*at)->next) {
        if ((*at)->bytes == bytes) {
            struct reservation *found = *at;
            address base = found->base;
            *at = found->next;
            free(found);
            return base;
        }
    }
    char *raw = mmap(0, bytes + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
            -1, 0);
    if (raw == MAP_FAILED) return 0;
    address base = rounded((address) raw, GRANULARITY);
    if (base > (address) raw) munmap(raw, base - (address) raw);
    munmap((char *) base + bytes, (address) raw + GRANULARITY - base);
    return base;
}

void free_addresses(address base, size_t bytes) {
    struct reservation *entry = malloc(sizeof *entry);
    *entry = (struct reservation) {base, bytes, freed};
    freed = entry;
}

struct range *add_range(enum kind kind, address base, size_t bytes, char *view,
        struct physical *physical, struct context *context) {
    struct range *range = calloc(1, sizeof *range);
    *range = (struct range) {.kind = kind, .base = base, .bytes = bytes, .view = view,
            .physical = physical, .context = context, .buffer_id = ++buffer_ids, .next = ranges};
    return ranges = range;
}

void remove_range(struct range *range) {
    struct range **at = &ranges;
    while (*at != range) at = &(*at)->next;
    *at = range->next;
    free(range);
}

struct range *find_range(address at) {
    for (struct range *range = ranges; range; range = range->next) {
        if (at - range->base < range->bytes) return range;
    }
    return 0;
}

int owner_of(address at) {
    struct range *range = find_range(at);
    return range && range->physical ? ordinal_of(range->physical->device) : -1;
}

/* Finds where bytes are, all in one range, unless the context may not reach them. */
int check_range(struct context *context, address at, size_t bytes, int write, char **view) {
    struct range *range = find_range(at);
    if (!range || bytes > range->bytes - (at - range->base)) return INVALID_VALUE;
    if (range->kind == MAPPED) {
        uint32_t bit = 1u << (context->device - devices);
        if (!((write ? range->writers : range->readers) & bit)) return ILLEGAL_ADDRESS;
    }
    *view = range->view + (at - range->base);
    return SUCCESS;
}

/* How many of these bytes lie in the mapping of the first; all, where that is in none. */
size_t within_mapping(address at, size_t bytes) {
    struct range *range = find_range(at);
    if (!range || range->kind != MAPPED) return bytes;
    size_t left = range->bytes - (at - range->base);
    return left < bytes ? left : bytes;
}

/* Ordinary memory of the process; device addresses are not, freed ones neither. */
int is_pageable(address at, size_t bytes) {
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *) at, 1};
    if (!at || find_range(at)) return 0;
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1) return 0;
    there.iov_base = (void *) (at + (bytes ? bytes - 1 : 0));
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1;
}

static size_t capacity(void) {
    const char *mib = getenv("FAKE_CUDA_MEMORY_MIB");
    return (size_t) (mib ? atoi(mib) : 1024) << 20;
}

/* The file's name tells other processes whose memory it is. */
int create_memory(struct device *device, int id, size_t bytes, int types, struct physical **out) {
    if (device && device->used + bytes > capacity()) return OUT_OF_MEMORY;
    char name[64];
    snprintf(name, sizeof name, "fake-cuda:%d:%d", id, types);
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, bytes) != 0) {
        if (fd >= 0) close(fd);
        return OUT_OF_MEMORY;
    }
    struct physical *made = calloc(1, sizeof *made);
    *made = (struct physical) {.fd = fd, .device = id, .handle_types = types, .bytes = bytes,
            .refs = 1, .next = physicals};
    physicals = *out = made;
    if (device) device->used += bytes;
    return SUCCESS;
}

void drop(struct physical *physical, struct device *account) {
    if (--physical->refs) return;
    if (account) account->used -= physical->bytes;
    struct physical **at = &physicals;
    while (*at != physical) at = &(*at)->next;
    *at = physical->next;
    close(physical->fd);
    free(physical);
}

/* Who pays for memory that this process made; imported memory is nobody's here. */
struct device *payer(struct physical *physical) {
    int ordinal = ordinal_of(physical->device);
    return ordinal < 0 || physical->handle_types < 0 ? 0 : &devices[ordinal];
}

char *view_of(struct physical *physical) {
    char *view = mmap(0, physical->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, physical->fd, 0);
    return view == MAP_FAILED ? 0 : view;
}

static int alloc(address *out, size_t bytes) {
    struct context *context;
    struct physical *physical;
    TRY(current_context(&context));
    if (!bytes) return INVALID_VALUE;
    TRY(fault("cuMemAlloc"));
    TRY(create_memory(context->device, context->device->id, bytes, 0, &physical));
    char *view = view_of(physical);
    address base = view ? reserve_addresses(rounded(bytes, 4096)) : 0;
    if (!base) return OUT_OF_MEMORY;
    add_range(ALLOCATED, base, bytes, view, physical, context);
    live[LIVE_ALLOCATIONS]++;
    *out = base;
    return SUCCESS;
}

int cuMemAlloc_v2(address *out, size_t bytes) { LOCKED(alloc(out, bytes)); }

void free_range(struct range *range) {
    struct physical *physical = range->physical;
    munmap(range->view, range->bytes);
    free_addresses(range->base, rounded(range->bytes, 4096));
    live[range->kind == IPC ? LIVE_IPC_MAPPINGS : LIVE_ALLOCATIONS]--;
    drop(physical, payer(physical));
    remove_range(range);
}

static int free_memory(address at) {
    struct context *context;
    TRY(current_context(&context));
    struct range *range = find_range(at);
    if (!range || range->kind != ALLOCATED || range->base != at) return INVALID_VALUE;
    TRY(fault("cuMemFree"));
    drain(range->context);
    free_range(range);
    return SUCCESS;
}

int cuMemFree_v2(address at) { LOCKED(free_memory(at)); }

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    struct context *context;
    TRY(current_context(&context));
    *total = capacity();
    *free_bytes = capacity() - context->device->used;
    return SUCCESS;
}

static int address_range(address *base, size_t *bytes, address at) {
    struct range *range = find_range(at);
    if (!range || range->kind == HOST_REGISTERED) return NOT_FOUND;
    if (base) *base = range->base;
    if (bytes) *bytes = range->bytes;
    return SUCCESS;
}

int cuMemGetAddressRange_v2(address *base, size_t *bytes, address at) {
    LOCKED(address_range(base, bytes, at));
}

/* Pinned host memory. */

static int host_alloc(void **out, size_t bytes) {
    struct context *context;
    TRY(current_context(&context));
    if (!bytes) return INVALID_VALUE;
    TRY(fault("cuMemHostAlloc"));
    char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return OUT_OF_MEMORY;
    add_range(HOST_ALLOCATED, (address) memory, bytes, memory, 0, context);
    live[LIVE_HOST_ALLOCATIONS]++;
    *out = memory;
    return SUCCESS;
}

int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    (void) flags;
    LOCKED(host_alloc(out, bytes));
}

static int free_host(void *at) {
    struct range *range = find_range((address) at);
    if (!range || range->kind != HOST_ALLOCATED || range->view != at) return INVALID_VALUE;
    drain(range->context);
    munmap(at, range->bytes);
    live[LIVE_HOST_ALLOCATIONS]--;
    remove_range(range);
    return SUCCESS;
}

int cuMemFreeHost(void *at) { LOCKED(free_host(at)); }

static int host_register(void *at, size_t bytes) {
    struct context *context;
    TRY(current_context(&context));
    TRY(fault("cuMemHostRegister"));
    if (!bytes || !at) return INVALID_VALUE;
    for (struct range *range = ranges; range; range = range->next) {
        if ((address) at < range->base + range->bytes && range->base < (address) at + bytes) {
            return HOST_MEMORY_ALREADY_REGISTERED;
        }
    }
    if (!is_pageable((address) at, bytes)) return INVALID_VALUE;
    add_range(HOST_REGISTERED, (address) at, bytes, at, 0, context);
    live[LIVE_HOST_REGISTRATIONS]++;
    return SUCCESS;
}

int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
    (void) flags;
    LOCKED(host_register(at, bytes));
}

static int host_unregister(void *at) {
    struct range *range = find_range((address) at);
    if (!range || range->kind != HOST_REGISTERED || range->view != at) {
        return HOST_MEMORY_NOT_REGISTERED;
    }
    drain(range->context);
    live[LIVE_HOST_REGISTRATIONS]--;
    remove_range(range);
    return SUCCESS;
}

int cuMemHostUnregister(void *at) { LOCKED(host_unregister(at)); }

static int device_pointer(address *out, void *at) {
    struct range *range = find_range((address) at);
    if (!range || range->physical) return INVALID_VALUE;
    *out = (address) at;
    return SUCCESS;
}

int cuMemHostGetDevicePointer_v2(address *out, void *at, unsigned flags) {
    if (flags) return INVALID_VALUE;
    LOCKED(device_pointer(out, at));
}

/* What an address is. An unknown one has the attributes 0, and device -2. */
static int attribute(void *out, int which, address at, int strict) {
    struct range *range = find_range(at);
    if (strict && !range) return INVALID_VALUE;
    struct physical *physical = range ? range->physical : 0;
    int vmm = range && range->kind == MAPPED;
    struct reservation *around = vmm ? reservation_of(at) : 0; /* real drivers name all of it */
    switch (which) {
        case 1: *(void **) out = range ? range->context : 0; break;
        case 2: *(unsigned *) out = !range ? 0 : physical ? 2 : 1; break;
        case 3: *(address *) out = range ? at : 0; break;
        case 4: *(address *) out = range && !physical ? at : 0; break;
        case 7: *(uint64_t *) out = range ? range->buffer_id : 0; break;
        case 8: *(unsigned *) out = 0; break;
        case 9: *(int *) out = !range ? -2 : physical ? ordinal_of(physical->device)
                : (int) (range->context->device - devices); break;
        case 10: *(unsigned *) out = range && range->kind == ALLOCATED
                && !option("FAKE_CUDA_NO_IPC"); break;
        case 11: *(address *) out = around ? around->base : range ? range->base : 0; break;
        case 12: *(size_t *) out = around ? around->bytes : range ? range->bytes : 0; break;
        case 18: *(size_t *) out = range ? range->bytes : 0; break;
        case 19: *(address *) out = range ? range->base : 0; break;
        case 13: *(unsigned *) out = range != 0; break;
        case 14: *(uint64_t *) out = vmm ? abs(physical->handle_types) : 0;
                break;
        case 17: *(void **) out = 0; break;
        case 20: *(uint64_t *) out = vmm ? (uint64_t) physical->fd : 0; break;
        default: return INVALID_VALUE;
    }
    return SUCCESS;
}

static int attributes(unsigned count, const int *which, void **out, address at, int strict) {
    struct context *context;
    TRY(current_context(&context));
    TRY(fault("cuPointerGetAttribute"));
    for (unsigned i = 0; i < count; i++) TRY(attribute(out[i], which[i], at, strict));
    return SUCCESS;
}

int cuPointerGetAttribute(void *out, int which, address at) {
    LOCKED(attributes(1, &which, &out, at, 1));
}

int cuPointerGetAttributes(unsigned count, const int *which, void **out, address at) {
    LOCKED(attributes(count, which, out, at, 0));
}

/* With a context goes its memory, but not that of virtual memory management. */
void free_context_memory(struct context *context) {
    for (struct range *range = ranges, *next; range; range = next) {
        next = range->next;
        if (range->context != context) continue;
        if (range->kind == ALLOCATED || range->kind == IPC) {
            free_range(range);
        } else if (range->kind == HOST_ALLOCATED) {
            munmap(range->view, range->bytes);
            live[LIVE_HOST_ALLOCATIONS]--;
            remove_range(range);
        } else {
            live[LIVE_HOST_REGISTRATIONS]--;
            remove_range(range);
        }
    }
}

/* For tests: bytes of any memory that the fake knows, as they are now. */

static int transfer(address at, char *bytes, size_t count, int write) {
    struct range *range = find_range(at);
    if (!range || count > range->bytes - (at - range->base)) return INVALID_VALUE;
    char *view = range->view + (at - range->base);
    memcpy(write ? view : bytes, write ? bytes : view, count);
    return SUCCESS;
}

int fakeCudaPeek(address at, char *bytes, size_t count) { LOCKED(transfer(at, bytes, count, 0)); }

/* Where the fake itself sees that byte, for tests that use a device's memory as if it were the host's.
   Valid until the memory is freed. */
static int seen_at(address at, char **seen) {
    struct range *range = find_range(at);
    if (!range) return INVALID_VALUE;
    *seen = range->view + (at - range->base);
    return SUCCESS;
}

int fakeCudaView(address at, char **seen) { LOCKED(seen_at(at, seen)); }

int fakeCudaPoke(address at, char *bytes, size_t count) { LOCKED(transfer(at, bytes, count, 1)); }
