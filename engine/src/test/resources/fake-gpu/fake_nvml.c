/* NVML for the same machine as fake_cuda.h describes: GPUs that are linked pairwise, or to a switch. */
#define _GNU_SOURCE
#include "fake_identity.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

#define LINKS_PER_PEER 2
#define MAX_DEVICES 16

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
};

struct fabric {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};

struct field {
    unsigned id, scope;
    long long time, latency;
    int type, result;
    uint64_t value;
};

static int initialized;

static int count(void) {
    const char *text = getenv("FAKE_CUDA_DEVICES");
    return text ? atoi(text) : 2;
}

static int switched(void) {
    const char *value = getenv("FAKE_NVML_SWITCH");
    return value && *value == '1';
}

/* Handles are the devices' numbers behind a prefix. */
static uint64_t handle_of(int id) { return 0xfa6e0000u + (unsigned) id; }

static int device(uint64_t handle) {
    int id = (int) (handle - 0xfa6e0000u);
    return id >= 0 && id < count() ? id : -1;
}

static void describe(struct pci *out, int bus) {
    memset(out, 0, sizeof *out);
    out->bus = (unsigned) bus;
    out->id = 0x233010de;
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", bus);
    snprintf(out->text, sizeof out->text, "00000000:%02X:00.0", bus);
}

/* The device at a link's other end, -1 for no such link. Links go round the other devices. */
static int peer(int id, unsigned link) {
    int others = count() - 1;
    if (others < 1 || link >= (unsigned) (others * LINKS_PER_PEER)) return -1;
    return (id + 1 + (int) link / LINKS_PER_PEER) % count();
}

int nvmlInit_v2(void) {
    initialized = 1;
    return SUCCESS;
}

const char *nvmlErrorString(int result) {
    switch (result) {
        case SUCCESS: return "Success";
        case UNINITIALIZED: return "Uninitialized";
        case INVALID_ARGUMENT: return "Invalid Argument";
        case NOT_SUPPORTED: return "Not Supported";
        case NOT_FOUND: return "Not Found";
        default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    snprintf(out, length, "580.0.fake");
    return initialized ? SUCCESS : UNINITIALIZED;
}

int nvmlSystemGetNVMLVersion(char *out, unsigned length) {
    snprintf(out, length, "13.580.0.fake");
    return initialized ? SUCCESS : UNINITIALIZED;
}

int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    *out = 13000;
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *out) {
    *out = (unsigned) count();
    return initialized ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, uint64_t *out) {
    if (index >= (unsigned) count()) return INVALID_ARGUMENT;
    *out = handle_of((int) index);
    return SUCCESS;
}

static int slice = -1;

/* From here on a device's UUID is that of a MIG instance; of none with -1. */
void fakeNvmlSetSlice(int id) { slice = id; }

int nvmlDeviceGetHandleByUUID(const char *text, uint64_t *out) {
    for (int i = 0; i < count(); i++) {
        char uuid[40];
        fake_uuid_text(i, uuid);
        const char *kind = i == slice ? "MIG-" : "GPU-";
        if (strncmp(text, kind, 4) == 0 && strcmp(text + 4, uuid) == 0) {
            *out = handle_of(i);
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *text, uint64_t *out) {
    unsigned domain, bus, slot;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) return INVALID_ARGUMENT;
    for (int i = 0; i < count(); i++) {
        if (fake_bus(i) == (int) bus) {
            *out = handle_of(i);
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(uint64_t handle, char *out, unsigned length) {
    char uuid[40];
    if (device(handle) < 0) return INVALID_ARGUMENT;
    fake_uuid_text(device(handle), uuid);
    snprintf(out, length, "GPU-%s", uuid);
    return SUCCESS;
}

int nvmlDeviceGetName(uint64_t handle, char *out, unsigned length) {
    snprintf(out, length, "Fake GPU");
    return device(handle) < 0 ? INVALID_ARGUMENT : SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(uint64_t handle, struct pci *out) {
    if (device(handle) < 0) return INVALID_ARGUMENT;
    describe(out, fake_bus(device(handle)));
    return SUCCESS;
}

static int number(uint64_t handle, unsigned *out, unsigned value) {
    if (device(handle) < 0) return INVALID_ARGUMENT;
    *out = value;
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(uint64_t handle, unsigned *out) {
    return number(handle, out, (unsigned) device(handle));
}

/* An idle link is slower than it can be; it wakes up by copies where the test has it so. */
int nvmlDeviceGetCurrPcieLinkGeneration(uint64_t handle, unsigned *out) {
    const char *prefix = getenv("FAKE_NVML_AWAKE");
    char file[4096] = "";
    if (prefix) snprintf(file, sizeof file, "%s%d", prefix, device(handle));
    return number(handle, out, prefix && access(file, F_OK) == 0 ? 5 : 1);
}

int nvmlDeviceGetMaxPcieLinkGeneration(uint64_t handle, unsigned *out) {
    return number(handle, out, 5);
}

int nvmlDeviceGetCurrPcieLinkWidth(uint64_t handle, unsigned *out) {
    static int answers;
    const char *most = getenv("FAKE_NVML_WIDTHS");
    if (most && ++answers > atoi(most)) return NOT_SUPPORTED;
    return number(handle, out, 16);
}

int nvmlDeviceGetMaxPcieLinkWidth(uint64_t handle, unsigned *out) {
    return number(handle, out, 16);
}

/* Two devices each on one PCIe switch. */
int nvmlDeviceGetTopologyCommonAncestor(uint64_t first, uint64_t second, int *out) {
    int a = device(first), b = device(second);
    if (a < 0 || b < 0) return INVALID_ARGUMENT;
    *out = a == b ? 0 : a / 2 == b / 2 ? 10 : 40;
    return SUCCESS;
}

int nvmlDeviceGetP2PStatus(uint64_t first, uint64_t second, int capability, int *out) {
    if (device(first) < 0 || device(second) < 0 || capability < 0 || capability > 4) {
        return INVALID_ARGUMENT;
    }
    *out = device(first) == device(second) ? 5 : 0;
    return SUCCESS;
}

int nvmlDeviceGetBAR1MemoryInfo(uint64_t handle, unsigned long long *out) {
    if (device(handle) < 0) return INVALID_ARGUMENT;
    out[0] = 128ull << 30;
    out[1] = 127ull << 30;
    out[2] = 1ull << 30;
    return SUCCESS;
}

static int modes(uint64_t handle, unsigned *current, unsigned *pending, unsigned mode) {
    if (device(handle) < 0) return INVALID_ARGUMENT;
    *current = *pending = mode;
    return SUCCESS;
}

int nvmlDeviceGetEccMode(uint64_t handle, unsigned *current, unsigned *pending) {
    return modes(handle, current, pending, 1);
}

int nvmlDeviceGetMigMode(uint64_t handle, unsigned *current, unsigned *pending) {
    return modes(handle, current, pending, 0);
}

int nvmlDeviceGetCudaComputeCapability(uint64_t handle, int *major, int *minor) {
    if (device(handle) < 0) return INVALID_ARGUMENT;
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

/* Only the second version of the structure, by its size and number. */
int nvmlDeviceGetGpuFabricInfoV(uint64_t handle, struct fabric *out) {
    if (device(handle) < 0) return INVALID_ARGUMENT;
    if (out->version != (sizeof *out | 2u << 24)) return 25;
    memset(out->cluster, 0xc1, sizeof out->cluster);
    out->status = SUCCESS;
    out->clique = 7;
    out->state = switched() ? 3 : 0;
    out->health = 2;
    return SUCCESS;
}

/* The speed of a link in MB/s, and the count of links, whatever the scope. */
int nvmlDeviceGetFieldValues(uint64_t handle, int fields, struct field *out) {
    if (device(handle) < 0) return INVALID_ARGUMENT;
    for (int i = 0; i < fields; i++) {
        out[i].type = 1;
        out[i].result = SUCCESS;
        if (out[i].id == 164 && peer(device(handle), out[i].scope) >= 0) {
            out[i].value = 0xdeadbeef00000000u | 26562;
        } else {
            out[i].result = NOT_SUPPORTED;
        }
    }
    return SUCCESS;
}

static int link_of(uint64_t handle, unsigned link) {
    return device(handle) < 0 ? -1 : peer(device(handle), link);
}

int nvmlDeviceGetNvLinkState(uint64_t handle, unsigned link, int *out) {
    *out = 1;
    return link_of(handle, link) < 0 ? INVALID_ARGUMENT : SUCCESS;
}

int nvmlDeviceGetNvLinkVersion(uint64_t handle, unsigned link, unsigned *out) {
    *out = 6;
    return link_of(handle, link) < 0 ? INVALID_ARGUMENT : SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(uint64_t handle, unsigned link, struct pci *out) {
    int other = link_of(handle, link);
    if (other < 0) return INVALID_ARGUMENT;
    describe(out, switched() ? 0xf0 : fake_bus(other));
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(uint64_t handle, unsigned link, int *out) {
    *out = switched() ? 2 : 0;
    return link_of(handle, link) < 0 ? INVALID_ARGUMENT : SUCCESS;
}

int nvmlDeviceGetNvLinkCapability(uint64_t handle, unsigned link, int capability, unsigned *out) {
    *out = capability != 4;
    return link_of(handle, link) < 0 || capability > 5 ? INVALID_ARGUMENT : SUCCESS;
}

int nvmlDeviceGetNvLinkErrorCounter(uint64_t handle, unsigned link, int counter,
        unsigned long long *out) {
    *out = (unsigned long long) counter << 33;
    return link_of(handle, link) < 0 || counter > 4 ? INVALID_ARGUMENT : SUCCESS;
}
