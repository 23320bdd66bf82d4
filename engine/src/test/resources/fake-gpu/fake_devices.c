/* Devices, contexts, peers, faults and the report of what is left. */
#define _GNU_SOURCE
#include "fake_cuda.h"
#include "fake_identity.h"
#include <fcntl.h>
#include <unistd.h>

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
struct device devices[MAX_DEVICES];
int device_count;
struct stream *streams;
int live[LIVE_KINDS];

static int initialized;
static char faults[256];
static struct { char call[48]; int count; } calls[128];

static __thread struct context *stack[16];
static __thread int depth;

int option(const char *name) {
    const char *value = getenv(name);
    return value && strcmp(value, "0") != 0 && *value;
}

int fabric_granted(void) { return option("FAKE_CUDA_FABRIC"); }

/* Whether a variable such as "0-1,1-2" lists this pair of device ids, either way round. */
int peers_listed(const char *variable, int a, int b) {
    const char *value = getenv(variable);
    for (int x, y, read; value && sscanf(value, "%d-%d%n", &x, &y, &read) == 2;) {
        if ((x == a && y == b) || (x == b && y == a)) return 1;
        value = value[read] == ',' ? value + read + 1 : 0;
    }
    return 0;
}

/* Counts a call and answers with the result that FAKE_CUDA_FAULT has for it. */
int fault(const char *call) {
    int count = 0;
    for (int i = 0; i < 128; i++) {
        if (!calls[i].call[0]) snprintf(calls[i].call, sizeof calls[i].call, "%s", call);
        if (strcmp(calls[i].call, call) == 0) {
            count = ++calls[i].count;
            break;
        }
    }
    char copy[256], *rest = copy, *each;
    snprintf(copy, sizeof copy, "%s", faults);
    while ((each = strsep(&rest, ","))) {
        char name[48], how[16] = "";
        int which, code;
        if (sscanf(each, "%47[^:]:%d:%d:%15s", name, &which, &code, how) < 3) continue;
        if (strcmp(name, call) != 0 || which != count) continue;
        if (strcmp(how, "sticky") == 0 && depth && stack[depth - 1]) {
            stack[depth - 1]->sticky = code;
        }
        return code;
    }
    return SUCCESS;
}

static char kept_call[48];
static int keeping;

/* Where a call ends, with the lock: keeps the first one of the name that is set until another is. */
int kept(const char *call, int result) {
    if (!keeping && strcmp(kept_call, call) == 0) {
        keeping = 1;
        while (strcmp(kept_call, call) == 0) pthread_cond_wait(&progress, &lock);
        keeping = 0;
    }
    return result;
}

void fakeCudaKeep(const char *call) {
    pthread_mutex_lock(&lock);
    snprintf(kept_call, sizeof kept_call, "%s", call);
    pthread_cond_broadcast(&progress);
    pthread_mutex_unlock(&lock);
}

/* Whether a call is kept. */
int fakeCudaKeeps(void) { LOCKED(keeping); }

static void see_devices(void) {
    const char *text = getenv("FAKE_CUDA_DEVICES");
    int all = text ? atoi(text) : 2;
    if (all > MAX_DEVICES) all = MAX_DEVICES;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible) {
        for (int i = 0; i < all; i++) devices[device_count++].id = i;
        return;
    }
    char copy[1024], *rest = copy, *each;
    snprintf(copy, sizeof copy, "%s", visible);
    while ((each = strsep(&rest, ",")) && device_count < MAX_DEVICES) {
        int id = -1;
        if (strncmp(each, "GPU-", 4) == 0) {
            for (int i = 0; i < all; i++) {
                char uuid[40];
                fake_uuid_text(i, uuid);
                if (strncasecmp(uuid, each + 4, strlen(each + 4)) == 0) id = i;
            }
        } else if (*each) {
            id = atoi(each);
        }
        /* The driver stops at the first one that it does not know. */
        if (id < 0 || id >= all) break;
        devices[device_count++].id = id;
    }
}

int cuInit(unsigned flags) {
    pthread_mutex_lock(&lock);
    if (!initialized) {
        see_devices();
        const char *fault_text = getenv("FAKE_CUDA_FAULT");
        if (fault_text) snprintf(faults, sizeof faults, "%s", fault_text);
        initialized = 1;
    }
    int result = flags ? INVALID_VALUE : device_count ? fault("cuInit") : NO_DEVICE;
    pthread_mutex_unlock(&lock);
    return result;
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return SUCCESS;
}

struct device *device_of(int ordinal) {
    return ordinal >= 0 && ordinal < device_count ? &devices[ordinal] : 0;
}

int ordinal_of(int id) {
    for (int i = 0; i < device_count; i++) {
        if (devices[i].id == id) return i;
    }
    return -1;
}

int cuDeviceGetCount(int *count) {
    if (!initialized) return NOT_INITIALIZED;
    *count = device_count;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
    if (!initialized) return NOT_INITIALIZED;
    if (!device_of(ordinal)) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

int cuDeviceGetName(char *name, int length, int ordinal) {
    if (!device_of(ordinal)) return INVALID_DEVICE;
    snprintf(name, length, "Fake GPU");
    return SUCCESS;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int ordinal) {
    if (!device_of(ordinal)) return INVALID_DEVICE;
    fake_uuid(devices[ordinal].id, uuid);
    return SUCCESS;
}

int cuDeviceGetPCIBusId(char *text, int length, int ordinal) {
    if (!device_of(ordinal)) return INVALID_DEVICE;
    snprintf(text, length, "0000:%02X:00.0", fake_bus(devices[ordinal].id));
    return SUCCESS;
}

int cuDeviceGetByPCIBusId(int *ordinal, const char *text) {
    unsigned domain, bus, slot;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) return INVALID_VALUE;
    for (int i = 0; i < device_count; i++) {
        if (domain == 0 && slot == 0 && fake_bus(devices[i].id) == (int) bus) {
            *ordinal = i;
            return SUCCESS;
        }
    }
    return INVALID_DEVICE;
}

int cuDeviceTotalMem_v2(size_t *bytes, int ordinal) {
    if (!device_of(ordinal)) return INVALID_DEVICE;
    const char *mib = getenv("FAKE_CUDA_MEMORY_MIB");
    *bytes = (size_t) (mib ? atoi(mib) : 1024) << 20;
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int ordinal) {
    if (!device_of(ordinal)) return INVALID_DEVICE;
    switch (attribute) {
        case 16: *value = 4; break;           /* multiprocessors */
        case 33: *value = fake_bus(devices[ordinal].id); break;
        case 40: *value = 2; break;           /* copy engines */
        case 41: *value = 1; break;           /* unified addressing */
        case 75: *value = 9; break;           /* compute capability */
        case 91: *value = 1; break;           /* registered memory keeps its address */
        case 99: *value = 1; break;           /* host memory can be registered */
        case 102: case 103: *value = !option("FAKE_CUDA_NO_VMM"); break;
        case 122: *value = 1; break;          /* 64-bit stream memory operations */
        case 124: *value = option("FAKE_CUDA_DMABUF"); break;
        case 125: *value = !option("FAKE_CUDA_NO_IPC"); break;
        case 128: *value = fabric_granted(); break;
        case 131: case 134: *value = 0; break; /* NUMA nodes */
        case 18: case 34: case 50: case 76: case 83: case 86: case 88: case 98: case 110: case 116:
        case 117: case 118: *value = 0; break;
        default: return INVALID_VALUE;
    }
    return SUCCESS;
}

int peer_possible(int ordinal, int peer) {
    return ordinal != peer
            && !peers_listed("FAKE_CUDA_REFUSE_PEERS", devices[ordinal].id, devices[peer].id);
}

int cuDeviceCanAccessPeer(int *can, int ordinal, int peer) {
    if (!device_of(ordinal) || !device_of(peer)) return INVALID_DEVICE;
    *can = peer_possible(ordinal, peer);
    return SUCCESS;
}

int cuDeviceGetP2PAttribute(int *value, int attribute, int from, int to) {
    if (!device_of(from) || !device_of(to) || from == to) return INVALID_DEVICE;
    if (attribute < 1 || attribute > 4) return INVALID_VALUE;
    *value = attribute == 1 ? 0 : peer_possible(from, to);
    return SUCCESS;
}

/* Contexts. A destroyed one is kept, so that its handle is known as such. */

static int known(struct context *context) {
    for (int i = 0; i < device_count; i++) {
        if (devices[i].context && devices[i].context == context) return 1;
    }
    return 0;
}

int current_context(struct context **context) {
    if (!initialized) return NOT_INITIALIZED;
    struct context *top = depth ? stack[depth - 1] : 0;
    if (!top) return INVALID_CONTEXT;
    if (!top->alive) return CONTEXT_IS_DESTROYED;
    *context = top;
    return top->sticky;
}

static int retain(struct context **context, int ordinal) {
    struct device *device = device_of(ordinal);
    if (!device) return INVALID_DEVICE;
    TRY(fault("cuDevicePrimaryCtxRetain"));
    if (!device->retained++) {
        if (!device->context) device->context = calloc(1, sizeof *device->context);
        memset(device->context, 0, sizeof *device->context);
        device->context->device = device;
        device->context->alive = 1;
        device->made++;
        live[LIVE_CONTEXTS]++;
    }
    *context = device->context;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(struct context **context, int ordinal) {
    LOCKED(retain(context, ordinal));
}

static int release(int ordinal) {
    struct device *device = device_of(ordinal);
    if (!device) return INVALID_DEVICE;
    if (!device->retained) return INVALID_CONTEXT;
    if (--device->retained) return SUCCESS;
    drain(device->context);
    close_streams(device->context);
    close_modules(device->context);
    free_context_memory(device->context);
    device->context->alive = 0;
    live[LIVE_CONTEXTS]--;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int ordinal) { LOCKED(release(ordinal)); }

int cuDevicePrimaryCtxGetState(int ordinal, unsigned *flags, int *active) {
    if (!device_of(ordinal)) return INVALID_DEVICE;
    *flags = devices[ordinal].flags;
    *active = devices[ordinal].retained > 0;
    return SUCCESS;
}

int cuDevicePrimaryCtxSetFlags_v2(int ordinal, unsigned flags) {
    if (!device_of(ordinal)) return INVALID_DEVICE;
    devices[ordinal].flags = flags;
    return SUCCESS;
}

static int set_current(struct context *context) {
    if (context && !known(context)) return INVALID_CONTEXT;
    if (context && !context->alive) return CONTEXT_IS_DESTROYED;
    TRY(fault("cuCtxSetCurrent"));
    if (!depth) depth = 1;
    stack[depth - 1] = context;
    return SUCCESS;
}

int cuCtxSetCurrent(struct context *context) { LOCKED(set_current(context)); }

int cuCtxGetCurrent(struct context **context) {
    *context = depth ? stack[depth - 1] : 0;
    return initialized ? SUCCESS : NOT_INITIALIZED;
}

int cuCtxPushCurrent_v2(struct context *context) {
    if (!known(context) || !context->alive || depth == 16) return INVALID_CONTEXT;
    stack[depth++] = context;
    return SUCCESS;
}

int cuCtxPopCurrent_v2(struct context **context) {
    if (!depth || !stack[depth - 1]) return INVALID_CONTEXT;
    *context = stack[--depth];
    return SUCCESS;
}

int cuCtxGetDevice(int *ordinal) {
    struct context *context;
    TRY(current_context(&context));
    *ordinal = context->device - devices;
    return SUCCESS;
}

static int peer_access(struct context *peer, int enable) {
    struct context *context;
    TRY(current_context(&context));
    if (!known(peer) || !peer->alive) return INVALID_CONTEXT;
    TRY(fault(enable ? "cuCtxEnablePeerAccess" : "cuCtxDisablePeerAccess"));
    uint32_t bit = 1u << (peer->device - devices);
    if (!enable) {
        if (!(context->peers & bit)) return PEER_ACCESS_NOT_ENABLED;
        context->peers &= ~bit;
        return SUCCESS;
    }
    if (peer == context) return INVALID_CONTEXT;
    if (!peer_possible(context->device - devices, peer->device - devices)) {
        return PEER_ACCESS_UNSUPPORTED;
    }
    if (context->peers & bit) return PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= bit;
    return SUCCESS;
}

int cuCtxEnablePeerAccess(struct context *peer, unsigned flags) {
    if (flags) return INVALID_VALUE;
    LOCKED(peer_access(peer, 1));
}

int cuCtxDisablePeerAccess(struct context *peer) { LOCKED(peer_access(peer, 0)); }

/* Whether the context's device has no way to a device, by id. */
int refused_peer(struct context *context, int id) {
    return context->device->id != id
            && peers_listed("FAKE_CUDA_REFUSE_PEERS", context->device->id, id);
}

/* Names of errors: the ones that the fake gives. */

static const struct { int code; const char *name, *text; } errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported"},
    {OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "already enabled"},
    {PEER_ACCESS_NOT_ENABLED, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "not enabled"},
    {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "registered"},
    {HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "not registered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

static int error_text(int code, const char **text, int name) {
    *text = 0;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code == code) {
            *text = name ? errors[i].name : errors[i].text;
            return SUCCESS;
        }
    }
    return INVALID_VALUE;
}

int cuGetErrorName(int code, const char **text) { return error_text(code, text, 1); }

int cuGetErrorString(int code, const char **text) { return error_text(code, text, 0); }

/* For tests. */

int fakeCudaLive(int kind) {
    if (kind < 0 || kind >= LIVE_KINDS) return -1;
    pthread_mutex_lock(&lock);
    int count = live[kind];
    pthread_mutex_unlock(&lock);
    return count;
}

int fakeCudaContextsMade(int ordinal) {
    return device_of(ordinal) ? devices[ordinal].made : -1;
}

void fakeCudaSetFault(const char *text) {
    pthread_mutex_lock(&lock);
    snprintf(faults, sizeof faults, "%s", text);
    memset(calls, 0, sizeof calls);
    pthread_mutex_unlock(&lock);
}

/* Says what is live, such as "allocations 1 streams 2"; "" when nothing is. */
void fakeCudaReport(char *text, size_t bytes) {
    static const char *names[LIVE_KINDS] = {
        "allocations", "host-allocations", "host-registrations", "vmm-handles",
        "vmm-reservations", "vmm-mappings", "ipc-mappings", "streams", "events", "modules",
        "contexts"};
    size_t at = 0;
    *text = 0;
    for (int i = 0; i < LIVE_KINDS; i++) {
        if (live[i] && at < bytes) {
            at += snprintf(text + at, bytes - at, "%s%s %d", at ? " " : "", names[i], live[i]);
        }
    }
}

__attribute__((destructor)) static void report_at_exit(void) {
    const char *file = getenv("FAKE_CUDA_REPORT");
    if (!file || !initialized) return;
    char text[512], line[600];
    fakeCudaReport(text, sizeof text);
    int bytes = snprintf(line, sizeof line, "%d %s\n", getpid(), *text ? text : "clean");
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, bytes) != bytes) fprintf(stderr, "%s: no report\n", file);
    if (fd >= 0) close(fd);
}
