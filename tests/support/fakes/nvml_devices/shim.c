/* A libnvidia-ml.so.1 that plays a script instead of asking a driver.

   The unmodified nvidia-ml-py loads it. The script is the file named by NVML_SHIM, to which lines may be
   added while it plays; each of its lines is

       MILLISECONDS DEVICE KEY VALUE...

   and holds from that moment on (counted from the first nvmlInit of the process, or from CLOCK_MONOTONIC
   in milliseconds where a line `origin MILLISECONDS` says so) until a later line of the same device and key.
   DEVICE is a number, or `-` for the library itself. Keys of the library: driver, cuda, confidential, and
   `fail FUNCTION CODE`, `block FUNCTION MILLISECONDS`. Keys of a device are those asked for below; a key
   that no line gives is answered NOT_SUPPORTED. Rates (power_mw, throttle_FIELD, gpm_METRIC) are integrated
   over time, as the counters of a driver are. An `xid CODE` of a device happens once.
   Each lock and reset of clocks is a line of the file that NVML_SHIM_CLOCKS names, where it names one.
   Compiled with -DOLD_DRIVER it lacks what old drivers lack. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT = 7, TIMEOUT = 10 };
enum { LINES = 4096, LIBRARY = -1 };

typedef struct { double at; int device; char key[48]; char value[160]; } Line;
typedef struct { int device; } Device;
typedef struct { double at; int device; } GpmSample;
typedef union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; int si; unsigned short us; } Value;

static Line lines[LINES];
static int count, ready;
static double origin = -1;
static long long loaded;
static Device devices[32];

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void load(void) {
    const char *path = getenv("NVML_SHIM");
    FILE *file = path ? fopen(path, "r") : NULL;
    char text[320], device[16];
    count = 0;
    loaded = file && !fseek(file, 0, SEEK_END) ? ftell(file) : 0;
    if (file) rewind(file);
    while (file && fgets(text, sizeof text, file) && count < LINES) {
        Line *line = &lines[count];
        double stated;
        line->value[0] = 0;
        if (sscanf(text, "origin %lf", &stated) == 1) { origin = stated; continue; }
        if (sscanf(text, "%lf %15s %47s %159[^\n]", &line->at, device, line->key, line->value) < 3) continue;
        line->device = device[0] == '-' ? LIBRARY : atoi(device);
        count++;
    }
    if (file) fclose(file);
    if (origin < 0) origin = now_ms();
    for (int i = 0; i < 32; i++) devices[i].device = i;
}

static double clock_ms(void) { return now_ms() - origin; }

static const char *held(int device, const char *key, double at) {
    const char *value = NULL;
    for (int i = 0; i < count; i++)
        if (lines[i].device == device && lines[i].at <= at && !strcmp(lines[i].key, key)) value = lines[i].value;
    return value;
}

/* The integral of a rate over milliseconds from `from` to `to`. */
static double integral(int device, const char *key, double from, double to) {
    double sum = 0, rate = 0, since = from;
    const char *first = held(device, key, from);
    if (first) rate = atof(first);
    for (int i = 0; i < count; i++) {
        Line *line = &lines[i];
        if (line->device != device || line->at <= from || line->at > to || strcmp(line->key, key)) continue;
        sum += rate * (line->at - since);
        since = line->at;
        rate = atof(line->value);
    }
    return sum + rate * (to - since);
}

/* What every call begins with: the script may have it blocked, or failing. */
static int enter(const char *function) {
    char name[64];
    int code = 0, wait = 0;
    struct stat script;
    if (!ready) return UNINITIALIZED;
    if (!stat(getenv("NVML_SHIM") ? getenv("NVML_SHIM") : "", &script) && script.st_size != loaded) load();
    for (int i = 0; i < count; i++) {
        Line *line = &lines[i];
        if (line->device != LIBRARY || line->at > clock_ms()) continue;
        int number;
        if (sscanf(line->value, "%63s %d", name, &number) != 2) continue;
        if (strcmp(name, function) && strcmp(name, "*")) continue;
        if (!strcmp(line->key, "fail")) code = number;
        if (!strcmp(line->key, "block")) wait = number;
    }
    if (wait) usleep(wait * 1000u);
    return code;
}

#define ENTER(name) do { int code_ = enter(name); if (code_) return code_; } while (0)
#define HELD(variable, device, key) \
    const char *variable = held((device)->device, key, clock_ms()); if (!variable) return NOT_SUPPORTED

static int whole(const char *function, Device *device, const char *key, unsigned *answer) {
    ENTER(function);
    HELD(value, device, key);
    *answer = (unsigned)strtoul(value, NULL, 0);
    return OK;
}

static int text(const char *function, const char *value, char *answer, unsigned length) {
    ENTER(function);
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) + 1 > length) return INSUFFICIENT;
    strcpy(answer, value);
    return OK;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    load();
    ready = 1;
    int code = enter("nvmlInitWithFlags");
    if (code) ready = 0;
    return code;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(int code) {
    switch (code) {
        case NOT_SUPPORTED: return "Not Supported";
        case NO_PERMISSION: return "Insufficient Permissions";
        case 9: return "Driver Not Loaded";
        case 15: return "GPU is lost";
        default: return "Scripted Error";
    }
}

int nvmlSystemGetDriverVersion(char *answer, unsigned length) {
    return text("nvmlSystemGetDriverVersion", held(LIBRARY, "driver", clock_ms()), answer, length);
}
int nvmlSystemGetCudaDriverVersion_v2(int *answer) {
    ENTER("nvmlSystemGetCudaDriverVersion");
    const char *value = held(LIBRARY, "cuda", clock_ms());
    if (!value) return NOT_SUPPORTED;
    *answer = atoi(value);
    return OK;
}
int nvmlSystemGetCudaDriverVersion(int *answer) { return nvmlSystemGetCudaDriverVersion_v2(answer); }

static int is_mig(int device) { return held(device, "mig_of", clock_ms()) != NULL; }
static int exists(int device) { return held(device, "uuid", clock_ms()) != NULL; }

int nvmlDeviceGetCount_v2(unsigned *answer) {
    ENTER("nvmlDeviceGetCount");
    *answer = 0;
    for (int i = 0; i < 32; i++) *answer += exists(i) && !is_mig(i);
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **answer) {
    ENTER("nvmlDeviceGetHandleByIndex");
    if (index >= 32 || !exists((int)index) || is_mig((int)index)) return INVALID;
    *answer = &devices[index];
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device **answer) {
    ENTER("nvmlDeviceGetHandleByUUID");
    for (int i = 0; i < 32; i++)
        if (exists(i) && !strcmp(held(i, "uuid", clock_ms()), uuid)) { *answer = &devices[i]; return OK; }
    return NOT_FOUND;
}
int nvmlDeviceGetName(Device *device, char *answer, unsigned length) {
    return text("nvmlDeviceGetName", held(device->device, "name", clock_ms()), answer, length);
}
int nvmlDeviceGetUUID(Device *device, char *answer, unsigned length) {
    return text("nvmlDeviceGetUUID", held(device->device, "uuid", clock_ms()), answer, length);
}
int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    ENTER("nvmlDeviceGetCudaComputeCapability");
    HELD(value, device, "cc");
    return sscanf(value, "%d.%d", major, minor) == 2 ? OK : INVALID;
}

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;

static int memory(const char *function, Device *device, MemoryV2 *answer) {
    ENTER(function);
    HELD(total, device, "memory_total");
    const char *used = held(device->device, "memory_used", clock_ms());
    const char *reserved = held(device->device, "memory_reserved", clock_ms());
    answer->total = strtoull(total, NULL, 10);
    answer->used = used ? strtoull(used, NULL, 10) : 0;
    answer->reserved = reserved ? strtoull(reserved, NULL, 10) : 0;
    answer->free = answer->total - answer->used - answer->reserved;
    return OK;
}
int nvmlDeviceGetMemoryInfo(Device *device, Memory *answer) {
    MemoryV2 all;
    int code = memory("nvmlDeviceGetMemoryInfo", device, &all);
    if (code == OK) *answer = (Memory){all.total, all.free, all.used + all.reserved};
    return code;
}

typedef struct { unsigned gpu, memory; } Utilization;
int nvmlDeviceGetUtilizationRates(Device *device, Utilization *answer) {
    ENTER("nvmlDeviceGetUtilizationRates");
    HELD(gpu, device, "gpu_busy");
    const char *share = held(device->device, "memory_busy", clock_ms());
    *answer = (Utilization){(unsigned)atoi(gpu), share ? (unsigned)atoi(share) : 0};
    return OK;
}
/* The mean over the last `power_window_ms` where a line gives that, as on Ampere and newer. */
int nvmlDeviceGetPowerUsage(Device *device, unsigned *answer) {
    int code = whole("nvmlDeviceGetPowerUsage", device, "power_mw", answer);
    const char *window = held(device->device, "power_window_ms", clock_ms());
    double now = clock_ms(), from = window ? fmax(0, now - atof(window)) : now;
    if (code == OK && now - from >= 1)
        *answer = (unsigned)lround(integral(device->device, "power_mw", from, now) / (now - from));
    return code;
}
int nvmlDeviceGetEnforcedPowerLimit(Device *d, unsigned *a) {
    return whole("nvmlDeviceGetEnforcedPowerLimit", d, "power_limit_mw", a);
}
int nvmlDeviceGetPowerManagementDefaultLimit(Device *d, unsigned *a) {
    return whole("nvmlDeviceGetPowerManagementDefaultLimit", d, "power_limit_default_mw", a);
}
int nvmlDeviceGetComputeMode(Device *d, unsigned *a) { return whole("nvmlDeviceGetComputeMode", d, "compute_mode", a); }
int nvmlDeviceGetPersistenceMode(Device *d, unsigned *a) {
    return whole("nvmlDeviceGetPersistenceMode", d, "persistence", a);
}
int nvmlDeviceGetEccMode(Device *device, unsigned *current, unsigned *pending) {
    int code = whole("nvmlDeviceGetEccMode", device, "ecc_mode", current);
    if (code == OK) *pending = *current;
    return code;
}
int nvmlDeviceGetVbiosVersion(Device *device, char *answer, unsigned length) {
    return text("nvmlDeviceGetVbiosVersion", held(device->device, "vbios", clock_ms()), answer, length);
}
int nvmlDeviceGetMaxPcieLinkGeneration(Device *d, unsigned *a) {
    return whole("nvmlDeviceGetMaxPcieLinkGeneration", d, "pcie_generation", a);
}
int nvmlDeviceGetCurrPcieLinkWidth(Device *d, unsigned *a) {
    return whole("nvmlDeviceGetCurrPcieLinkWidth", d, "pcie_width", a);
}
int nvmlDeviceGetMaxPcieLinkWidth(Device *d, unsigned *a) {
    return whole("nvmlDeviceGetMaxPcieLinkWidth", d, "pcie_width_possible", a);
}
/* `remapped_rows CORRECTED UNCORRECTED PENDING FAILED` */
int nvmlDeviceGetRemappedRows(Device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    ENTER("nvmlDeviceGetRemappedRows");
    HELD(value, device, "remapped_rows");
    return sscanf(value, "%u %u %u %u", corrected, uncorrected, pending, failed) == 4 ? OK : INVALID;
}
int nvmlDeviceGetNvLinkState(Device *device, unsigned link, unsigned *answer) {
    unsigned up;
    int code = whole("nvmlDeviceGetNvLinkState", device, "nvlinks", &up);
    if (code == OK) *answer = link < up;
    return code;
}
typedef struct { unsigned environment, confidential, development; } ConfidentialComputing;
int nvmlSystemGetConfComputeState(ConfidentialComputing *answer) {
    ENTER("nvmlSystemGetConfComputeState");
    const char *value = held(LIBRARY, "confidential", clock_ms());
    if (!value) return NOT_SUPPORTED;
    *answer = (ConfidentialComputing){0, (unsigned)atoi(value), 0};
    return OK;
}
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device *device, Pci *answer) {
    ENTER("nvmlDeviceGetPciInfo");
    HELD(value, device, "pci");
    memset(answer, 0, sizeof *answer);
    snprintf(answer->bus_id, sizeof answer->bus_id, "%s", value);
    return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *answer) {
    ENTER("nvmlDeviceGetTotalEnergyConsumption");
    HELD(base, device, "energy_mj");
    *answer = strtoull(base, NULL, 10) + (unsigned long long)(integral(device->device, "power_mw", 0, clock_ms()) / 1e3);
    return OK;
}
int nvmlDeviceGetClockInfo(Device *d, unsigned kind, unsigned *a) {
    return whole("nvmlDeviceGetClockInfo", d, kind == 2 ? "clock_memory" : "clock_sm", a);
}
int nvmlDeviceGetMaxClockInfo(Device *d, unsigned kind, unsigned *a) {
    return whole("nvmlDeviceGetMaxClockInfo", d, kind == 2 ? "clock_memory_max" : "clock_sm_max", a);
}
static int clocks(const char *function, Device *device, const char *text) {
    const char *path = getenv("NVML_SHIM_CLOCKS");
    ENTER(function);
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%d %s\n", device->device, text);
        fclose(file);
    }
    return OK;
}
int nvmlDeviceSetGpuLockedClocks(Device *device, unsigned least, unsigned most) {
    char text[32];
    snprintf(text, sizeof text, "%u-%u", least, most);
    return clocks("nvmlDeviceSetGpuLockedClocks", device, text);
}
int nvmlDeviceResetGpuLockedClocks(Device *device) { return clocks("nvmlDeviceResetGpuLockedClocks", device, "free"); }
int nvmlDeviceGetTemperature(Device *d, unsigned sensor, unsigned *a) {
    (void)sensor;
    return whole("nvmlDeviceGetTemperature", d, "temperature", a);
}
int nvmlDeviceGetPcieReplayCounter(Device *d, unsigned *a) {
    return whole("nvmlDeviceGetPcieReplayCounter", d, "pcie_replay", a);
}
int nvmlDeviceGetTotalEccErrors(Device *device, unsigned kind, unsigned counter, unsigned long long *answer) {
    unsigned number;
    /* Since the driver was loaded, or of the card's life where a line gives that. */
    const char *ever = kind && counter && held(device->device, "ecc_uncorrected_ever", clock_ms()) ? "ecc_uncorrected_ever" : NULL;
    int code = whole("nvmlDeviceGetTotalEccErrors", device, ever ? ever : kind ? "ecc_uncorrected" : "ecc_corrected", &number);
    if (code == OK) *answer = number;
    return code;
}
int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    int code = whole("nvmlDeviceGetMigMode", device, "mig_mode", current);
    if (code == OK) *pending = *current;
    return code;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *answer) {
    (void)device;
    ENTER("nvmlDeviceGetMaxMigDeviceCount");
    *answer = 7;
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **answer) {
    ENTER("nvmlDeviceGetMigDeviceHandleByIndex");
    for (int i = 0; i < 32; i++) {
        const char *parent = exists(i) ? held(i, "mig_of", clock_ms()) : NULL;
        if (parent && atoi(parent) == device->device && index-- == 0) { *answer = &devices[i]; return OK; }
    }
    return NOT_FOUND;
}
int nvmlDeviceGetGpuInstanceId(Device *d, unsigned *a) { return whole("nvmlDeviceGetGpuInstanceId", d, "gpu_instance", a); }

typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *size, Process *answer) {
    ENTER("nvmlDeviceGetComputeRunningProcesses");
    HELD(list, device, "processes");
    char copy[160], *rest = NULL;
    unsigned found = 0;
    strcpy(copy, list);
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        Process process = {0, 0, ~0u, ~0u};
        if (sscanf(part, "%u:%llu", &process.pid, &process.memory) != 2) continue;
        if (answer && found < *size) answer[found] = process;
        found++;
    }
    int fits = answer && found <= *size;
    *size = found;
    return fits || !found ? OK : INSUFFICIENT;
}

/* Line `working PID:PERCENT,...`: what processes use of the SMs from then on, sampled six times a second. */
typedef struct { unsigned pid; unsigned long long stamp; unsigned sm, memory, encoder, decoder; } ProcessSample;
static double wall_ms_at(double monotonic_ms);
int nvmlDeviceGetProcessUtilization(Device *device, ProcessSample *answer, unsigned *size, unsigned long long since) {
    ENTER("nvmlDeviceGetProcessUtilization");
    const double spacing = 1000.0 / 6;
    double last = floor(clock_ms() / spacing) * spacing;
    unsigned long long stamp = (unsigned long long)(wall_ms_at(origin + last) * 1e3);
    const char *list = held(device->device, "working", last);
    char copy[160], *rest = NULL;
    unsigned found = 0;
    if (!list || stamp <= since) return NOT_FOUND;
    strcpy(copy, list);
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        ProcessSample sample = {0, stamp, 0, 0, 0, 0};
        if (sscanf(part, "%u:%u", &sample.pid, &sample.sm) != 2) continue;
        if (answer && found < *size) answer[found] = sample;
        found++;
    }
    int fits = answer && found <= *size;
    *size = found;
    return !found ? NOT_FOUND : fits ? OK : INSUFFICIENT;
}

typedef struct { uint32_t field, scope; int64_t stamp, latency; int type, code; Value value; } Field;
int nvmlDeviceGetFieldValues(Device *device, int size, Field *fields) {
    ENTER("nvmlDeviceGetFieldValues");
    for (int i = 0; i < size; i++) {
        char key[48];
        if (fields[i].field == 82) {
            const char *degrees = held(device->device, "memory_temperature", clock_ms());
            fields[i].code = degrees ? OK : NOT_SUPPORTED;
            fields[i].type = 1;
            fields[i].value.ui = degrees ? (unsigned)atoi(degrees) : 0;
            continue;
        }
        snprintf(key, sizeof key, "throttle_%u", fields[i].field);
        fields[i].code = held(device->device, key, clock_ms()) ? OK : NOT_SUPPORTED;
        fields[i].type = 3;
        fields[i].value.ull = (unsigned long long)(integral(device->device, key, 0, clock_ms()) * 1e6);
    }
    return OK;
}

/* Where the wall clock is set in mid-run (clock.c), it tells what it was at any moment. */
double realtime_ms_at(double monotonic_ms) __attribute__((weak));

static double wall_ms_at(double monotonic_ms) {
    struct timespec wall;
    if (realtime_ms_at) return realtime_ms_at(monotonic_ms);
    clock_gettime(CLOCK_REALTIME, &wall);
    return wall.tv_sec * 1e3 + wall.tv_nsec / 1e6 - now_ms() + monotonic_ms;
}

typedef struct { unsigned long long stamp; Value value; } Sample;
int nvmlDeviceGetSamples(Device *device, int kind, unsigned long long since, int *type, unsigned *size, Sample *answer) {
    ENTER("nvmlDeviceGetSamples");
    const char *key = kind == 0 ? "power_mw" : kind == 1 ? "gpu_busy" : kind == 2 ? "memory_busy" : "";
    /* A driver keeps about a hundred of the last, six a second, each a mean stamped when it ends. */
    const double spacing = 1000.0 / 6;
    double now = clock_ms();
    unsigned found = 0;
    *type = 1;
    for (double slot = fmax(1, floor(now / spacing) - 96); slot * spacing <= now; slot++) {
        double to = slot * spacing, from = to - spacing;
        unsigned long long stamp = (unsigned long long)(wall_ms_at(origin + to) * 1e3);
        if (!held(device->device, key, from) || stamp <= since) continue;
        if (answer && found < *size) {
            answer[found].stamp = stamp;
            answer[found].value.ui = (unsigned)lround(integral(device->device, key, from, to) / spacing);
        }
        found++;
    }
    if (!found) return NOT_FOUND;
    if (!answer || found < *size) *size = found;
    return OK;
}

typedef struct { Device *watched[32]; int delivered; } EventSet;
typedef struct { Device *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;
int nvmlEventSetCreate(EventSet **answer) {
    ENTER("nvmlEventSetCreate");
    *answer = calloc(1, sizeof **answer);
    return OK;
}
int nvmlDeviceRegisterEvents(Device *device, unsigned long long types, EventSet *set) {
    ENTER("nvmlDeviceRegisterEvents");
    if (types & 8) set->watched[device->device] = device;
    return OK;
}
int nvmlEventSetWait_v2(EventSet *set, Event *answer, unsigned timeout) {
    (void)timeout;
    ENTER("nvmlEventSetWait");
    while (set->delivered < count && lines[set->delivered].at <= clock_ms()) {
        Line *line = &lines[set->delivered++];
        if (line->device < 0 || !set->watched[line->device] || strcmp(line->key, "xid")) continue;
        *answer = (Event){&devices[line->device], 8, strtoull(line->value, NULL, 10), ~0u, ~0u};
        return OK;
    }
    return TIMEOUT;
}
int nvmlEventSetFree(EventSet *set) { free(set); return OK; }

#ifndef OLD_DRIVER
int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *answer) {
    return memory("nvmlDeviceGetMemoryInfo_v2", device, answer);
}

typedef struct { unsigned id; int code; double value; struct { char *brief, *name, *unit; } about; } GpmMetric;
typedef struct { unsigned version, size; GpmSample *first, *last; GpmMetric metrics[]; } GpmMetrics;
typedef struct { unsigned version, supported; } GpmSupport;

int nvmlGpmQueryDeviceSupport(Device *device, GpmSupport *answer) {
    ENTER("nvmlGpmQueryDeviceSupport");
    HELD(value, device, "gpm");
    answer->supported = (unsigned)atoi(value);
    return OK;
}
int nvmlGpmSampleAlloc(GpmSample **answer) {
    ENTER("nvmlGpmSampleAlloc");
    *answer = calloc(1, sizeof **answer);
    return OK;
}
int nvmlGpmSampleFree(GpmSample *sample) { free(sample); return OK; }
int nvmlGpmSampleGet(Device *device, GpmSample *sample) {
    ENTER("nvmlGpmSampleGet");
    HELD(value, device, "gpm");
    *sample = (GpmSample){clock_ms(), device->device};
    return atoi(value) ? OK : NOT_SUPPORTED;
}
int nvmlGpmMigSampleGet(Device *device, unsigned instance, GpmSample *sample) {
    ENTER("nvmlGpmMigSampleGet");
    for (int i = 0; i < 32; i++) {
        const char *parent = held(i, "mig_of", clock_ms()), *id = held(i, "gpu_instance", clock_ms());
        if (!parent || !id || atoi(parent) != device->device || (unsigned)atoi(id) != instance) continue;
        *sample = (GpmSample){clock_ms(), i};
        return OK;
    }
    return NOT_FOUND;
}
int nvmlGpmMetricsGet(GpmMetrics *asked) {
    ENTER("nvmlGpmMetricsGet");
    double from = asked->first->at, to = asked->last->at;
    for (unsigned i = 0; i < asked->size; i++) {
        GpmMetric *metric = &asked->metrics[i];
        char key[48];
        snprintf(key, sizeof key, "gpm_%u", metric->id);
        metric->code = held(asked->first->device, key, to) ? OK : NOT_SUPPORTED;
        /* The driver's counters need 100 ms between two samples; what comes of less is no number. */
        metric->value = to - from < 100 ? NAN : integral(asked->first->device, key, from, to) / (to - from);
    }
    return OK;
}
#endif
