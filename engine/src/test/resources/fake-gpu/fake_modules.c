/* Modules, functions and launches. An image is text: a first line, then a line for each kernel. */
#include "fake_cuda.h"

#define FIRST_LINE "FAKE-CUDA-MODULE\n"
#define MODULE 0x30d01e00u
#define FUNCTION 0xf0c71000u

struct function {
    uint32_t magic;
    struct module *module;
    struct kernel *kernel;
    int dynamic_shared;
    struct function *next;
};

struct module {
    uint32_t magic;
    struct context *context;
    char *text;
    struct function *functions;
    struct module *next;
};

static struct module *modules;

static int load(struct module **out, const char *image) {
    struct context *context;
    TRY(current_context(&context));
    TRY(fault("cuModuleLoadData"));
    if (strncmp(image, FIRST_LINE, strlen(FIRST_LINE)) != 0) return INVALID_IMAGE;
    struct module *module = calloc(1, sizeof *module);
    *module = (struct module) {.magic = MODULE, .context = context, .text = strdup(image),
            .next = modules};
    modules = module;
    live[LIVE_MODULES]++;
    *out = module;
    return SUCCESS;
}

/* The error log's buffer is the first option. */
int cuModuleLoadDataEx(struct module **out, const char *image, unsigned count, const int *options,
        void **values) {
    pthread_mutex_lock(&lock);
    int result = load(out, image);
    pthread_mutex_unlock(&lock);
    if (result == INVALID_IMAGE && count >= 2 && options[0] == 5 && options[1] == 6) {
        snprintf(values[0], (size_t) values[1], "the fake takes images that begin with %s",
                FIRST_LINE);
    }
    return result;
}

static void close_module(struct module *module) {
    for (struct function *function = module->functions; function; function = function->next) {
        function->magic = 0;
    }
    module->magic = 0;
    live[LIVE_MODULES]--;
}

static int unload(struct module *module) {
    if (!module || module->magic != MODULE) return INVALID_HANDLE;
    drain(module->context);
    close_module(module);
    return SUCCESS;
}

void close_modules(struct context *context) {
    for (struct module *module = modules; module; module = module->next) {
        if (module->magic == MODULE && module->context == context) close_module(module);
    }
}

int cuModuleUnload(struct module *module) { LOCKED(unload(module)); }

static int get_function(struct function **out, struct module *module, const char *name) {
    if (!module || module->magic != MODULE) return INVALID_HANDLE;
    char line[256];
    snprintf(line, sizeof line, "\n%s\n", name);
    if (!strstr(module->text, line)) return NOT_FOUND;
    for (struct kernel *kernel = fake_kernels; kernel->name; kernel++) {
        if (strcmp(kernel->name, name) == 0 && kernel->run) {
            struct function *function = calloc(1, sizeof *function);
            *function = (struct function) {.magic = FUNCTION, .module = module, .kernel = kernel,
                    .next = module->functions};
            *out = module->functions = function;
            return SUCCESS;
        }
    }
    fprintf(stderr, "fake_kernels.c has no kernel '%s': add its C version there\n", name);
    return NOT_FOUND;
}

int cuModuleGetFunction(struct function **out, struct module *module, const char *name) {
    LOCKED(get_function(out, module, name));
}

static int is_function(struct function *function) { return function && function->magic == FUNCTION; }

static int most_threads = 1024; /* of a block of any kernel */

void fakeCudaSetMostThreads(int most) {
    pthread_mutex_lock(&lock);
    most_threads = most;
    pthread_mutex_unlock(&lock);
}

int cuFuncGetAttribute(int *out, int attribute, struct function *function) {
    if (!is_function(function)) return INVALID_HANDLE;
    switch (attribute) {
        case 0: *out = most_threads; return SUCCESS;
        case 4: *out = 32; return SUCCESS;
        case 8: *out = function->dynamic_shared; return SUCCESS;
        case 6: *out = 90; return SUCCESS;
        case 1: case 3: *out = 0; return SUCCESS;
        default: return INVALID_VALUE;
    }
}

int cuFuncSetAttribute(struct function *function, int attribute, int value) {
    if (!is_function(function)) return INVALID_HANDLE;
    if (attribute != 8 || value < 0 || value > 227 << 10) return INVALID_VALUE;
    function->dynamic_shared = value;
    return SUCCESS;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, struct function *function, int threads,
        size_t shared) {
    if (!is_function(function)) return INVALID_HANDLE;
    if (threads < 1 || threads > 1024) return INVALID_VALUE;
    *out = shared > 227u << 10 ? 0 : 2048 / threads;
    return SUCCESS;
}

static int run_kernel(struct work *work) { return work->kernel->run(work); }

static long kernels_launched;

static int launch(struct function *function, unsigned blocks, unsigned threads, unsigned shared,
        uint64_t handle, void **arguments) {
    struct context *context;
    TRY(current_context(&context));
    if (!is_function(function)) return INVALID_HANDLE;
    struct stream *stream = stream_of(handle, context);
    if (!stream || stream->context != context || function->module->context != context) {
        return INVALID_HANDLE;
    }
    TRY(fault("cuLaunchKernel"));
    if (!blocks || !threads || threads > 1024) return INVALID_VALUE;
    if (threads > (unsigned) most_threads) return LAUNCH_OUT_OF_RESOURCES;
    if (shared > (48u << 10) && shared > (unsigned) function->dynamic_shared) return INVALID_VALUE;
    struct work work = {.call = "cuLaunchKernel", .run = run_kernel, .kernel = function->kernel,
            .blocks = blocks, .threads = threads};
    for (int i = 0; i < function->kernel->parameters; i++) {
        memcpy(&work.arguments[i], arguments[i], 8);
    }
    if (function->kernel->structure) {
        work.staged = malloc(function->kernel->structure);
        memcpy(work.staged, arguments[0], function->kernel->structure);
    }
    kernels_launched++;
    return submit(stream, work);
}

/* How many kernels were launched so far. */
long fakeCudaLaunches(void) {
    pthread_mutex_lock(&lock);
    long count = kernels_launched;
    pthread_mutex_unlock(&lock);
    return count;
}

int cuLaunchKernel(struct function *function, unsigned blocks_x, unsigned blocks_y,
        unsigned blocks_z, unsigned threads_x, unsigned threads_y, unsigned threads_z,
        unsigned shared, uint64_t stream, void **arguments, void **extra) {
    if (blocks_y != 1 || blocks_z != 1 || threads_y != 1 || threads_z != 1 || extra) {
        return INVALID_VALUE;
    }
    LOCKED(launch(function, blocks_x, threads_x, shared, stream, arguments));
}

/* Kernels reach their own device's memory, that of enabled peers, and pinned host memory. */
static char *reach(struct work *work, address at, size_t bytes, int write) {
    struct context *context = work->stream->context;
    char *view;
    if (check_range(context, at, bytes, write, &view)) return 0;
    struct range *range = find_range(at);
    int owner = owner_of(at), self = context->device - devices;
    /* IPC mappings enable what they need; mappings have accesses of their own. */
    if (range->kind == ALLOCATED && owner != self && !(context->peers & 1u << owner)) return 0;
    return view;
}

char *fake_memory(struct work *work, address at, size_t bytes, int write) {
    pthread_mutex_lock(&lock);
    char *view = reach(work, at, bytes, write);
    pthread_mutex_unlock(&lock);
    return view;
}
