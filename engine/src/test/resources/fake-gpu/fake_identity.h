/* What a fake GPU is called, the same to CUDA and to NVML. */
#ifndef FAKE_IDENTITY_H
#define FAKE_IDENTITY_H

#include <stdio.h>
#include <string.h>

static inline void fake_uuid(int id, unsigned char *uuid) {
    static const unsigned char start[16] = {
        0xfa, 0x6e, 0xc0, 0xda, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 0};
    memcpy(uuid, start, 16);
    uuid[15] = (unsigned char) id;
}

static inline void fake_uuid_text(int id, char *text) {
    snprintf(text, 40, "fa6ec0da-0000-4000-8000-0000000000%02x", id & 0xff);
}

static inline int fake_bus(int id) { return 0x10 + id; }

#endif
