/* A libcuda.so.1 without a device: what runner/execution/canaries/gpu_canary.py calls, on a clock of its own.

   A launch takes 0.5 ms and a copy 1 ms of it. CUDA_FAKE says what fails: "memory", "answer", "launch" or
   "copy"; "old" is a card before bf16. Without the variable all is well. CUDA_FAKE_LOG is a file that the first
   launch is written to: blocks, threads, rounds, and what CUDA_VISIBLE_DEVICES says. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, INVALID_PTX = 218, LAUNCH_FAILED = 719 };

static double now_ms;
static unsigned rounds;

static int plays(const char *what) {
    const char *wanted = getenv("CUDA_FAKE");
    return wanted && strcmp(wanted, what) == 0;
}

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGet(int *device, int number) { return *device = number, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &now_ms, device; }
int cuCtxSetCurrent(void *context) { return context != &now_ms; }
int cuCtxSynchronize(void) { return 0; }
int cuMemsetD32_v2(uint64_t address, unsigned value, size_t count) { return !(address && value && count); }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 16 ? 132 : plays("old") ? 7 : 9;
    return device;
}

int cuGetErrorString(int code, const char **text) {
    *text = code == OUT_OF_MEMORY ? "out of memory" : code == INVALID_PTX ? "invalid PTX" : "launch failure";
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t size) {
    if (plays("memory") && size > 64u << 20) return OUT_OF_MEMORY;
    static uint64_t next = 1ull << 40;
    *address = next;
    next += size;
    return 0;
}

int cuModuleLoadData(void **module, const char *image) {
    *module = &rounds;
    return strstr(image, "mma.sync.aligned.m16n8k16") ? 0 : INVALID_PTX;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = module;
    return strcmp(name, "products");
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    if (plays("launch")) return LAUNCH_FAILED;
    if (function != &rounds || y * z * ty * tz != 1 || shared || stream || extra) return INVALID_PTX;
    unsigned given = *(unsigned *)parameters[1];
    const char *log = getenv("CUDA_FAKE_LOG"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!rounds && log) {
        FILE *file = fopen(log, "w");
        fprintf(file, "%u %u %u %s", x, threads, given, visible ? visible : "-");
        fclose(file);
    }
    rounds = given;
    now_ms += 0.5;
    return 0;
}

int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t size, void *stream) {
    if (plays("copy") || target == source || !size || stream) return LAUNCH_FAILED;
    now_ms += 1;
    return 0;
}

/* What eight chains come to: 16 a round in each of four results, from 0, 1, ... 7 on. */
int cuMemcpyDtoH_v2(float *target, uint64_t source, size_t size) {
    for (size_t place = 0; place < size / sizeof *target; place++)
        target[place] = 4 * (8 * 16 * (float)rounds + 28) + (plays("answer") && place == 77);
    return !source;
}

int cuEventCreate(double **event, unsigned flags) { return *event = calloc(1, sizeof **event), (int)flags; }
int cuEventRecord(double *event, void *stream) { return *event = now_ms, stream != NULL; }
int cuEventElapsedTime(float *ms, double *start, double *end) { return *ms = (float)(*end - *start), 0; }
