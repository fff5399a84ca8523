// An NVML that answers from machine.txt beside it, for tests. It is built
// against the same nvml.h as go-nvml, so the compiler checks every signature.
//
// A line is "nvmlDeviceGetName 3 = NVIDIA H100": the function without version
// suffix, its arguments (a device by index, a slice of one as 3/0; * is any),
// and the answer. The first line that fits counts. An answer is text, numbers
// in the order of the function's results, "!15" for an error, or "hang". What
// has no line is NOT_SUPPORTED.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvml.h"

static char *machine; // machine.txt
static int ready;     // nvmlInit has succeeded

static void load(void) {
    Dl_info self;
    char path[4096];
    if (machine || !dladdr((void *)load, &self))
        return;
    const char *slash = strrchr(self.dli_fname, '/');
    snprintf(path, sizeof path, "%.*s/machine.txt", (int)(slash - self.dli_fname), self.dli_fname);
    FILE *f = fopen(path, "r");
    machine = calloc(1, 1 << 20);
    if (f && fread(machine, 1, (1 << 20) - 1, f) == 0)
        abort();
}

// fits tells whether the words of a line's left side are those of key.
static int fits(const char *line, const char *key) {
    while (*line && *key) {
        size_t a = strcspn(line, " ="), b = strcspn(key, " ");
        if (!(a == 1 && *line == '*') && (a != b || memcmp(line, key, a)))
            return 0;
        line += a + strspn(line + a, " ");
        key += b + strspn(key + b, " ");
    }
    return *line == '=' && !*key;
}

// ask finds the answer to a call; key is "function arguments".
static nvmlReturn_t ask(char *value, size_t size, const char *format, ...) {
    char key[256];
    va_list args;
    va_start(args, format);
    vsnprintf(key, sizeof key, format, args);
    va_end(args);
    load();
    if (!ready && strcmp(key, "nvmlInit")) {
        fprintf(stderr, "%s was called before nvmlInit had succeeded\n", key);
        abort();
    }
    for (const char *line = machine; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (!fits(line, key))
            continue;
        const char *v = strchr(line, '=') + 1;
        v += strspn(v, " ");
        snprintf(value, size, "%.*s", (int)strcspn(v, "\n"), v);
        if (!strcmp(value, "hang"))
            for (;;)
                pause();
        return *value == '!' ? atoi(value + 1) : NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

// device is the handle of one: its index + 1, and above 16 bits that of a slice.
// (go-nvml's header makes the handle a struct of the pointer that it is.)
static nvmlDevice_t device(unsigned n) { return (nvmlDevice_t){(void *)(uintptr_t)n}; }

// name writes a device as a key has it.
static const char *name(nvmlDevice_t d) {
    static char buffers[4][24];
    static int next;
    char *b = buffers[next++ % 4];
    unsigned n = (unsigned)(uintptr_t)d.handle;
    snprintf(b, sizeof buffers[0], n >> 16 ? "%u/%u" : "%u", (n & 0xffff) - 1, (n >> 16) - 1);
    return b;
}

#define ASK(...)                                                   \
    char value[512] = "";                                          \
    nvmlReturn_t ret = ask(value, sizeof value, __VA_ARGS__);      \
    if (ret != NVML_SUCCESS)                                       \
    return ret

// NUMBER takes the next one from at.
#define NUMBER(type, to) *(to) = (type)strtoull(at, &at, 0)

// Functions by the shape of their results.
#define TEXT(f) \
    nvmlReturn_t f(nvmlDevice_t d, char *s, unsigned n) { ASK(#f " %s", name(d)); snprintf(s, n, "%s", value); return ret; }
#define ONE(f, type) \
    nvmlReturn_t f(nvmlDevice_t d, type *v) { ASK(#f " %s", name(d)); char *at = value; NUMBER(type, v); return ret; }
#define TWO(f, type) \
    nvmlReturn_t f(nvmlDevice_t d, type *v, type *w) { ASK(#f " %s", name(d)); char *at = value; NUMBER(type, v); NUMBER(type, w); return ret; }
#define LINK(f, type) \
    nvmlReturn_t f(nvmlDevice_t d, unsigned link, type *v) { ASK(#f " %s %u", name(d), link); char *at = value; NUMBER(type, v); return ret; }

nvmlReturn_t nvmlInit_v2(void) { ASK("nvmlInit"); ready = 1; return ret; }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t ret) { (void)ret; return "an error"; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *s, unsigned n) { ASK("nvmlSystemGetDriverVersion"); snprintf(s, n, "%s", value); return ret; }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *v) { ASK("nvmlSystemGetCudaDriverVersion"); *v = atoi(value); return ret; }
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *s, unsigned n) { ASK("nvmlSystemGetProcessName %u", pid); snprintf(s, n, "%s", value); return ret; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) { ASK("nvmlDeviceGetCount"); *n = atoi(value); return ret; }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *d) {
    char value[64];
    nvmlReturn_t ret = ask(value, sizeof value, "nvmlDeviceGetHandleByIndex %u", i);
    *d = device(i + 1);
    return ret == NVML_ERROR_NOT_SUPPORTED ? NVML_SUCCESS : ret;
}

TEXT(nvmlDeviceGetName)
TEXT(nvmlDeviceGetUUID)
ONE(nvmlDeviceGetMinorNumber, unsigned)
ONE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned)
ONE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned)
ONE(nvmlDeviceGetCurrPcieLinkWidth, unsigned)
ONE(nvmlDeviceGetMaxPcieLinkWidth, unsigned)
ONE(nvmlDeviceGetNumaNodeId, unsigned)
ONE(nvmlDeviceGetPersistenceMode, nvmlEnableState_t)
ONE(nvmlDeviceGetComputeMode, nvmlComputeMode_t)
ONE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)
ONE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long)
ONE(nvmlDeviceGetMaxMigDeviceCount, unsigned)
TWO(nvmlDeviceGetMigMode, unsigned)
TWO(nvmlDeviceGetEccMode, nvmlEnableState_t)
LINK(nvmlDeviceGetNvLinkState, nvmlEnableState_t)
LINK(nvmlDeviceGetNvLinkRemoteDeviceType, nvmlIntNvLinkDeviceType_t)

static void address(nvmlPciInfo_t *p, const char *value) {
    memset(p, 0, sizeof *p);
    snprintf(p->busId, sizeof p->busId, "%s", value);
    p->pciDeviceId = 0x233010de;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *p) { ASK("nvmlDeviceGetPciInfo %s", name(d)); address(p, value); return ret; }

// The oldest form fills in the short address alone.
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t d, nvmlPciInfo_t *p) {
    ASK("nvmlDeviceGetPciInfo %s", name(d));
    address(p, "");
    snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%.15s", value + 4);
    return ret;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned link, nvmlPciInfo_t *p) {
    ASK("nvmlDeviceGetNvLinkRemotePciInfo %s %u", name(d), link);
    address(p, value);
    return ret;
}

ONE(nvmlDeviceGetPowerUsage, unsigned)
ONE(nvmlDeviceGetEnforcedPowerLimit, unsigned)

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t sensor, unsigned *v) {
    ASK("nvmlDeviceGetTemperature %s %d", name(d), sensor);
    *v = atoi(value);
    return ret;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u) {
    ASK("nvmlDeviceGetUtilizationRates %s", name(d));
    char *at = value;
    NUMBER(unsigned, &u->gpu);
    NUMBER(unsigned, &u->memory);
    return ret;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m) {
    ASK("nvmlDeviceGetMemoryInfo %s", name(d));
    char *at = value;
    NUMBER(unsigned long long, &m->total);
    NUMBER(unsigned long long, &m->used);
    m->free = m->total - m->used;
    return ret;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, nvmlMemoryErrorType_t kind, nvmlEccCounterType_t since, unsigned long long *n) {
    ASK("nvmlDeviceGetTotalEccErrors %s %d %d", name(d), kind, since);
    *n = strtoull(value, 0, 0);
    return ret;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    ASK("nvmlDeviceGetRemappedRows %s", name(d));
    char *at = value;
    NUMBER(unsigned, corrected);
    NUMBER(unsigned, uncorrected);
    NUMBER(unsigned, pending);
    NUMBER(unsigned, failed);
    return ret;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned i, nvmlDevice_t *slice) {
    ASK("nvmlDeviceGetMigDeviceHandleByIndex %s %u", name(d), i);
    *slice = device((unsigned)(uintptr_t)d.handle | (i + 1) << 16);
    return ret;
}

// processes is "pid bytes pid bytes …".
static nvmlReturn_t processes(char *value, unsigned *count, nvmlProcessInfo_t *infos) {
    unsigned n = 0;
    for (char *at = value; *(at += strspn(at, " ")); n++) {
        unsigned pid = strtoul(at, &at, 0);
        unsigned long long bytes = strtoull(at, &at, 0);
        if (n < *count)
            infos[n] = (nvmlProcessInfo_t){.pid = pid, .usedGpuMemory = bytes, .gpuInstanceId = ~0u, .computeInstanceId = ~0u};
    }
    nvmlReturn_t ret = n > *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
    *count = n;
    return ret;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *infos) {
    ASK("nvmlDeviceGetComputeRunningProcesses %s", name(d));
    return processes(value, count, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *infos) {
    ASK("nvmlDeviceGetMPSComputeRunningProcesses %s", name(d));
    return processes(value, count, infos);
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *v) {
    for (int i = 0; i < n; i++) {
        char value[64] = "";
        v[i].nvmlReturn = ask(value, sizeof value, "nvmlDeviceGetFieldValues %s %u", name(d), v[i].fieldId);
        // Both types of counters occur.
        v[i].valueType = v[i].fieldId % 2 ? NVML_VALUE_TYPE_UNSIGNED_INT : NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        if (v[i].valueType == NVML_VALUE_TYPE_UNSIGNED_INT)
            v[i].value.uiVal = strtoul(value, 0, 0);
        else
            v[i].value.ullVal = strtoull(value, 0, 0);
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t *level) {
    ASK("nvmlDeviceGetTopologyCommonAncestor %s %s", name(a), name(b));
    *level = atoi(value);
    return ret;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t *status) {
    ASK("nvmlDeviceGetP2PStatus %s %s %d", name(a), name(b), index);
    *status = atoi(value);
    return ret;
}

// fabric is "state status clique mask summary cluster", the last in hex.
static void fabric(char *at, nvmlGpuFabricInfo_v3_t *f) {
    NUMBER(unsigned char, &f->state);
    NUMBER(nvmlReturn_t, &f->status);
    NUMBER(unsigned, &f->cliqueId);
    NUMBER(unsigned, &f->healthMask);
    NUMBER(unsigned char, &f->healthSummary);
    at += strspn(at, " ");
    for (int i = 0; i < 16 && at[0] && at[1]; i++, at += 2) {
        char digits[3] = {at[0], at[1], 0};
        f->clusterUuid[i] = strtoul(digits, 0, 16);
    }
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfoV_t *info) {
    char newest[64] = "3"; // the newest version that this library knows
    ask(newest, sizeof newest, "fabric version");
    ASK("nvmlDeviceGetGpuFabricInfo %s", name(d));
    nvmlGpuFabricInfo_v3_t f = {.version = info->version};
    fabric(value, &f);
    if (info->version == nvmlGpuFabricInfo_v3 && atoi(newest) >= 3) {
        *info = f;
        return ret;
    }
    if (info->version != nvmlGpuFabricInfo_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlGpuFabricInfo_v2_t *v2 = (nvmlGpuFabricInfo_v2_t *)info;
    memcpy(v2->clusterUuid, f.clusterUuid, sizeof f.clusterUuid);
    v2->status = f.status;
    v2->cliqueId = f.cliqueId;
    v2->state = f.state;
    v2->healthMask = f.healthMask;
    return ret;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *info) {
    ASK("nvmlDeviceGetGpuFabricInfo %s", name(d));
    nvmlGpuFabricInfo_v3_t f = {0};
    fabric(value, &f);
    memcpy(info->clusterUuid, f.clusterUuid, sizeof f.clusterUuid);
    info->status = f.status;
    info->cliqueId = f.cliqueId;
    info->state = f.state;
    return ret;
}
