/* Virtual memory management, and handles for other processes. */
#define _GNU_SOURCE
#include "fake_cuda.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct reservation *reservations;

struct properties { /* CUmemAllocationProp */
    int type, handle_types, location_type, location;
    void *meta_data;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
};

struct access { int location_type, location, flags; }; /* CUmemAccessDesc */

struct ipc_handle {
    uint32_t magic;
    int32_t pid, fd, device;
    uint64_t bytes, inode;
    char rest[IPC_BYTES - 32];
};

#define IPC_MAGIC 0xfa6e0001u
#define FABRIC_MAGIC 0xfa6e0002u

/* Virtual memory management. Its handles are the addresses of struct physical. */

static struct physical *physical_of(uint64_t handle) {
    for (struct physical *physical = physicals; physical; physical = physical->next) {
        if (physical == (void *) handle && physical->handles) return physical;
    }
    return 0;
}

static int check_properties(const struct properties *properties) {
    if (option("FAKE_CUDA_NO_VMM")) return NOT_SUPPORTED;
    if (properties->type != 1 || properties->location_type != 1) return INVALID_VALUE;
    return device_of(properties->location) ? SUCCESS : INVALID_DEVICE;
}

int cuMemGetAllocationGranularity(size_t *out, const struct properties *properties, int option) {
    (void) option;
    TRY(check_properties(properties));
    *out = GRANULARITY;
    return SUCCESS;
}

static int vmm_create(uint64_t *handle, size_t bytes, const struct properties *properties) {
    struct physical *made;
    TRY(check_properties(properties));
    TRY(fault("cuMemCreate"));
    if (!bytes || bytes % GRANULARITY || properties->handle_types & ~9) return INVALID_VALUE;
    if (properties->handle_types & 8 && !fabric_granted()) return NOT_PERMITTED;
    struct device *device = &devices[properties->location];
    TRY(create_memory(device, device->id, bytes, properties->handle_types, &made));
    made->handles = 1;
    live[LIVE_VMM_HANDLES]++;
    *handle = (uint64_t) made;
    return SUCCESS;
}

int cuMemCreate(uint64_t *handle, size_t bytes, const struct properties *properties,
        unsigned long long flags) {
    if (flags) return INVALID_VALUE;
    LOCKED(vmm_create(handle, bytes, properties));
}

static int vmm_release(uint64_t handle) {
    struct physical *physical = physical_of(handle);
    if (!physical) return INVALID_VALUE;
    TRY(fault("cuMemRelease"));
    live[LIVE_VMM_HANDLES]--;
    physical->handles--;
    drop(physical, payer(physical));
    return SUCCESS;
}

int cuMemRelease(uint64_t handle) { LOCKED(vmm_release(handle)); }

static int vmm_reserve(address *out, size_t bytes) {
    if (!bytes || bytes % GRANULARITY) return INVALID_VALUE;
    TRY(fault("cuMemAddressReserve"));
    address base = reserve_addresses(bytes);
    if (!base) return OUT_OF_MEMORY;
    struct reservation *entry = malloc(sizeof *entry);
    *entry = (struct reservation) {base, bytes, reservations};
    reservations = entry;
    live[LIVE_VMM_RESERVATIONS]++;
    *out = base;
    return SUCCESS;
}

int cuMemAddressReserve(address *out, size_t bytes, size_t alignment, address at,
        unsigned long long flags) {
    if (flags || at || alignment > GRANULARITY) return INVALID_VALUE;
    LOCKED(vmm_reserve(out, bytes));
}

struct reservation *reservation_of(address at) {
    struct reservation *found = reservations;
    while (found && (at < found->base || at >= found->base + found->bytes)) found = found->next;
    return found;
}

static int mapped_within(address base, size_t bytes) {
    for (struct range *range = ranges; range; range = range->next) {
        if (range->kind == MAPPED && range->base < base + bytes
                && base < range->base + range->bytes) return 1;
    }
    return 0;
}

static int vmm_free_addresses(address base, size_t bytes) {
    for (struct reservation **at = &reservations; *at; at = &(*at)->next) {
        if ((*at)->base == base && (*at)->bytes == bytes) {
            if (mapped_within(base, bytes)) return INVALID_VALUE;
            struct reservation *found = *at;
            *at = found->next;
            free(found);
            free_addresses(base, bytes);
            live[LIVE_VMM_RESERVATIONS]--;
            return SUCCESS;
        }
    }
    return INVALID_VALUE;
}

int cuMemAddressFree(address base, size_t bytes) { LOCKED(vmm_free_addresses(base, bytes)); }

static int vmm_map(address base, size_t bytes, uint64_t handle) {
    struct physical *physical = physical_of(handle);
    if (!physical || bytes != physical->bytes || base % GRANULARITY) return INVALID_VALUE;
    int reserved = 0;
    for (struct reservation *at = reservations; at; at = at->next) {
        reserved |= base >= at->base && base + bytes <= at->base + at->bytes;
    }
    if (!reserved || mapped_within(base, bytes)) return INVALID_VALUE;
    TRY(fault("cuMemMap"));
    char *view = view_of(physical);
    if (!view) return OUT_OF_MEMORY;
    physical->refs++;
    add_range(MAPPED, base, bytes, view, physical, 0);
    live[LIVE_VMM_MAPPINGS]++;
    return SUCCESS;
}

int cuMemMap(address base, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags) {
    if (offset || flags) return INVALID_VALUE;
    LOCKED(vmm_map(base, bytes, handle));
}

static int vmm_unmap(address base, size_t bytes) {
    TRY(fault("cuMemUnmap"));
    for (size_t done = 0; done < bytes;) {
        struct range *range = find_range(base + done);
        if (!range || range->kind != MAPPED || range->base != base + done
                || range->bytes > bytes - done) return INVALID_VALUE;
        done += range->bytes;
    }
    while (bytes) {
        struct range *range = find_range(base);
        struct physical *physical = range->physical;
        base += range->bytes;
        bytes -= range->bytes;
        munmap(range->view, range->bytes);
        drop(physical, payer(physical));
        remove_range(range);
        live[LIVE_VMM_MAPPINGS]--;
    }
    return SUCCESS;
}

int cuMemUnmap(address base, size_t bytes) { LOCKED(vmm_unmap(base, bytes)); }

static int vmm_access(address base, size_t bytes, const struct access *access) {
    if (access->location_type != 1 || !device_of(access->location)) return INVALID_DEVICE;
    TRY(fault("cuMemSetAccess"));
    for (size_t done = 0; done < bytes;) {
        struct range *range = find_range(base + done);
        if (!range || range->kind != MAPPED) return INVALID_VALUE;
        int id = devices[access->location].id, owner = range->physical->device;
        if (id != owner && peers_listed("FAKE_CUDA_REFUSE_PEERS", id, owner)) return INVALID_DEVICE;
        uint32_t bit = 1u << access->location;
        range->readers = access->flags & 1 ? range->readers | bit : range->readers & ~bit;
        range->writers = access->flags & 2 ? range->writers | bit : range->writers & ~bit;
        done += range->bytes;
    }
    return SUCCESS;
}

int cuMemSetAccess(address base, size_t bytes, const struct access *access, size_t count) {
    if (count != 1) return INVALID_VALUE;
    LOCKED(vmm_access(base, bytes, access));
}

static int retain(uint64_t *handle, address at) {
    struct range *range = find_range(at);
    if (!range || range->kind != MAPPED) return INVALID_VALUE;
    range->physical->refs++;
    range->physical->handles++;
    live[LIVE_VMM_HANDLES]++;
    *handle = (uint64_t) range->physical;
    return SUCCESS;
}

int cuMemRetainAllocationHandle(uint64_t *handle, void *at) { LOCKED(retain(handle, (address) at)); }

static int get_properties(struct properties *out, uint64_t handle) {
    struct physical *physical = physical_of(handle);
    if (!physical) return INVALID_VALUE;
    *out = (struct properties) {.type = 1, .handle_types = abs(physical->handle_types),
            .location_type = 1, .location = ordinal_of(physical->device)};
    return SUCCESS;
}

int cuMemGetAllocationPropertiesFromHandle(struct properties *out, uint64_t handle) {
    LOCKED(get_properties(out, handle));
}

/* Handles for other processes. */

static void write_handle(struct ipc_handle *out, uint32_t magic, struct physical *physical) {
    struct stat stat;
    fstat(physical->fd, &stat);
    *out = (struct ipc_handle) {.magic = magic, .pid = getpid(), .fd = physical->fd,
            .device = physical->device, .bytes = physical->bytes, .inode = stat.st_ino};
}

/* Opens the file that a handle means in its maker, unless that is another file or gone by now. */
static int open_handle(const struct ipc_handle *handle, uint32_t magic, int *out) {
    if (handle->magic != magic) return INVALID_VALUE;
    char path[64];
    struct stat stat;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->pid, handle->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return INVALID_VALUE;
    if (fstat(fd, &stat) != 0 || stat.st_ino != handle->inode) {
        close(fd);
        return INVALID_VALUE;
    }
    *out = fd;
    return SUCCESS;
}

static struct physical *adopt(int fd, int device, int types, size_t bytes) {
    struct physical *made = calloc(1, sizeof *made);
    /* Minus: not paid for here. */
    *made = (struct physical) {.fd = fd, .device = device, .handle_types = -types, .bytes = bytes,
            .refs = 1, .next = physicals};
    return physicals = made;
}

static int export(void *out, uint64_t handle, int type) {
    struct physical *physical = physical_of(handle);
    if (!physical || !(abs(physical->handle_types) & type)) return INVALID_VALUE;
    TRY(fault("cuMemExportToShareableHandle"));
    if (type == 8) {
        write_handle(out, FABRIC_MAGIC, physical);
        return SUCCESS;
    }
    int fd = fcntl(physical->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return OPERATING_SYSTEM;
    *(int *) out = fd;
    return SUCCESS;
}

int cuMemExportToShareableHandle(void *out, uint64_t handle, int type, unsigned long long flags) {
    if (flags) return INVALID_VALUE;
    LOCKED(export(out, handle, type));
}

static int import(uint64_t *out, void *os_handle, int type) {
    int fd, device, types;
    TRY(fault("cuMemImportFromShareableHandle"));
    if (type == 8) {
        if (!fabric_granted()) return NOT_PERMITTED;
        TRY(open_handle(os_handle, FABRIC_MAGIC, &fd));
    } else if (type == 1) {
        fd = fcntl((int) (intptr_t) os_handle, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) return INVALID_VALUE;
    } else {
        return INVALID_VALUE;
    }
    char link[64], name[256];
    struct stat stat;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length < 0 ? 0 : length] = 0;
    if (sscanf(name, "/memfd:fake-cuda:%d:%d", &device, &types) != 2 || fstat(fd, &stat) != 0) {
        close(fd);
        return INVALID_VALUE;
    }
    if (ordinal_of(device) < 0) {
        close(fd);
        return INVALID_DEVICE;
    }
    struct physical *physical = adopt(fd, device, types, stat.st_size);
    physical->handles = 1;
    live[LIVE_VMM_HANDLES]++;
    *out = (uint64_t) physical;
    return SUCCESS;
}

int cuMemImportFromShareableHandle(uint64_t *out, void *os_handle, int type) {
    LOCKED(import(out, os_handle, type));
}

static int ipc_get(struct ipc_handle *out, address at) {
    struct range *range = find_range(at);
    if (!range || range->kind != ALLOCATED) return INVALID_VALUE;
    if (option("FAKE_CUDA_NO_IPC")) return NOT_SUPPORTED;
    TRY(fault("cuIpcGetMemHandle"));
    write_handle(out, IPC_MAGIC, range->physical);
    return SUCCESS;
}

int cuIpcGetMemHandle(struct ipc_handle *out, address at) { LOCKED(ipc_get(out, at)); }

static int ipc_open(address *out, const struct ipc_handle *handle) {
    struct context *context;
    int fd;
    TRY(current_context(&context));
    if (option("FAKE_CUDA_NO_IPC")) return NOT_SUPPORTED;
    TRY(fault("cuIpcOpenMemHandle"));
    if (handle->magic != IPC_MAGIC) return INVALID_VALUE;
    if (handle->pid == getpid()) return INVALID_CONTEXT;
    if (ordinal_of(handle->device) < 0) return INVALID_DEVICE;
    if (refused_peer(context, handle->device)) return PEER_ACCESS_UNSUPPORTED;
    for (struct range *range = ranges; range; range = range->next) {
        if (range->kind == IPC && range->context == context && range->inode == handle->inode) {
            range->opened++;
            *out = range->base;
            return SUCCESS;
        }
    }
    TRY(open_handle(handle, IPC_MAGIC, &fd));
    struct physical *physical = adopt(fd, handle->device, 1, handle->bytes);
    char *view = view_of(physical);
    address base = view ? reserve_addresses(rounded(handle->bytes, 4096)) : 0;
    if (!base) return OUT_OF_MEMORY;
    struct range *range = add_range(IPC, base, handle->bytes, view, physical, context);
    range->opened = 1;
    range->inode = handle->inode;
    live[LIVE_IPC_MAPPINGS]++;
    *out = base;
    return SUCCESS;
}

int cuIpcOpenMemHandle_v2(address *out, struct ipc_handle handle, unsigned flags) {
    if (flags != 1) return INVALID_VALUE;
    LOCKED(ipc_open(out, &handle));
}

static int ipc_close(address at) {
    struct range *range = find_range(at);
    if (!range || range->kind != IPC || range->base != at) return INVALID_VALUE;
    if (--range->opened) return SUCCESS;
    drain(range->context);
    free_range(range);
    return SUCCESS;
}

int cuIpcCloseMemHandle(address at) { LOCKED(ipc_close(at)); }

static int range_handle(int *out, address at, size_t bytes) {
    struct range *range = find_range(at);
    if (!range || !range->physical || at % 4096 || bytes % 4096) return INVALID_VALUE;
    if (!option("FAKE_CUDA_DMABUF")) return NOT_SUPPORTED;
    *out = fcntl(range->physical->fd, F_DUPFD_CLOEXEC, 3);
    return *out < 0 ? OPERATING_SYSTEM : SUCCESS;
}

int cuMemGetHandleForAddressRange(int *out, address at, size_t bytes, int type,
        unsigned long long flags) {
    (void) flags;
    if (type != 1) return INVALID_VALUE;
    LOCKED(range_handle(out, at, bytes));
}
