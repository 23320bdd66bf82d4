/* NVRTC for the fake driver: an image lists the kernels whose definitions stand in the source. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct program { char *source, *image, *log; };

const char *nvrtcGetErrorString(int result) {
    return result == 0 ? "NVRTC_SUCCESS" : result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}

int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return 0;
}

int nvrtcGetNumSupportedArchs(int *out) {
    *out = 1;
    return 0;
}

int nvrtcGetSupportedArchs(int *out) {
    *out = 90;
    return 0;
}

int nvrtcCreateProgram(struct program **out, const char *source, const char *name, int headers,
        const char *const *texts, const char *const *names) {
    (void) name, (void) headers, (void) texts, (void) names;
    *out = calloc(1, sizeof **out);
    (*out)->source = strdup(source);
    (*out)->log = strdup("");
    return 0;
}

/* Takes the word before the parenthesis after each __global__; fails on #error. */
int nvrtcCompileProgram(struct program *program, int count, const char *const *options) {
    (void) count, (void) options;
    size_t bytes = 64 + strlen(program->source);
    program->image = calloc(1, bytes);
    strcpy(program->image, "FAKE-CUDA-MODULE\n");
    const char *error = strstr(program->source, "#error");
    if (error) {
        free(program->log);
        program->log = strndup(error, strcspn(error, "\n"));
        return 6;
    }
    for (const char *at = program->source; (at = strstr(at, "__global__")); at++) {
        const char *end = strchr(at, '('), *start;
        /* Not the one of an attribute such as __launch_bounds__(256). */
        while (end && end - at > 17 && strncmp(end - 17, "__launch_bounds__", 17) == 0) {
            end = strchr(end + 1, '(');
        }
        if (!end) break;
        while (end > at && isspace((unsigned char) end[-1])) end--;
        for (start = end; isalnum((unsigned char) start[-1]) || start[-1] == '_';) start--;
        strncat(program->image, start, (size_t) (end - start));
        strcat(program->image, "\n");
    }
    return 0;
}

static int size_of(const char *text, size_t *out) {
    *out = text ? strlen(text) + 1 : 0;
    return text ? 0 : 4;
}

int nvrtcGetProgramLogSize(struct program *program, size_t *out) {
    return size_of(program->log, out);
}

int nvrtcGetProgramLog(struct program *program, char *out) {
    strcpy(out, program->log);
    return 0;
}

int nvrtcGetPTXSize(struct program *program, size_t *out) { return size_of(program->image, out); }

int nvrtcGetPTX(struct program *program, char *out) {
    strcpy(out, program->image);
    return 0;
}

int nvrtcGetCUBINSize(struct program *program, size_t *out) { return size_of(program->image, out); }

int nvrtcGetCUBIN(struct program *program, char *out) {
    strcpy(out, program->image);
    return 0;
}

int nvrtcDestroyProgram(struct program **program) {
    free((*program)->source);
    free((*program)->image);
    free((*program)->log);
    free(*program);
    *program = 0;
    return 0;
}
