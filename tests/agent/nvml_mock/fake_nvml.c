/* NVML's calls on a node and a GPU as the agent makes them, answered from a state file: library.py has its keys.
 *
 * With -DOLD_DRIVER the newer functions are missing, as in an old library.
 */
#include "fake_nvml.h"

/* ---- the node ---- */

int nvmlInitWithFlags(unsigned flags) { (void)flags; ENTER; initialised++; return SUCCESS; }
int nvmlShutdown(void) { ENTER; initialised--; return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the fake library"; }
int nvmlSystemGetDriverVersion(char *version, unsigned room) { ENTER; return copy(get("", "driver"), version, room); }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { ENTER; *version = (int)number("", "cuda"); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { ENTER; *count = (unsigned)number("", "gpus"); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    ENTER;
    char prefix[64];
    if (index >= number("", "gpus")) return INVALID_ARGUMENT;
    snprintf(prefix, sizeof prefix, "gpu.%u.", index);
    int code = fault(prefix, __func__);
    if (!code) *device = handle_of(get(prefix, "uuid"), "");
    return code;
}

/* ---- a GPU or a MIG device ---- */

#define TEXT(function, key) \
    int function(Device *device, char *into, unsigned room) { ENTER_DEVICE(device); return copy(get(prefix, key), into, room); }
#define NUMBER(function, key, type) \
    int function(Device *device, type *value) { \
        ENTER_DEVICE(device); \
        if (!get(prefix, key)) return NOT_SUPPORTED; \
        *value = (type)number(prefix, key); \
        return SUCCESS; }
TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
NUMBER(nvmlDeviceGetMinorNumber, "minor", unsigned)
NUMBER(nvmlDeviceGetArchitecture, "architecture", unsigned)
NUMBER(nvmlDeviceGetSupportedEventTypes, "events", u64)
NUMBER(nvmlDeviceGetGpuInstanceId, "gi", unsigned)
NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig.max", unsigned)

int nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *pci) {
    ENTER_DEVICE(device);
    memset(pci, 0, sizeof *pci);
    return copy(get(prefix, "pci"), pci->busId, sizeof pci->busId);
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    ENTER_DEVICE(device);
    return sscanf(get(prefix, "capability"), "%d.%d", major, minor) == 2 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMemoryAffinity(Device *device, unsigned words, unsigned long *nodes, unsigned scope) {
    ENTER_DEVICE(device);
    (void)scope;
    if (!get(prefix, "numa")) return NOT_SUPPORTED;
    memset(nodes, 0, words * sizeof *nodes);
    nodes[0] = number(prefix, "numa");
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    ENTER_DEVICE(device);
    memory->total = number(prefix, "memory.total");
    memory->used = number(prefix, "memory.used") + number(prefix, "memory.reserved");
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Device *device, Utilization *rates) {
    ENTER_DEVICE(device);
    if (!get(prefix, "utilization") || number(prefix, "mig") == 1) return NOT_SUPPORTED;
    rates->gpu = (unsigned)number(prefix, "utilization");
    rates->memory = (unsigned)number(prefix, "memory.utilization");
    return SUCCESS;
}

NUMBER(nvmlDeviceGetPowerUsage, "power", unsigned)

int nvmlDeviceGetTemperature(Device *device, unsigned sensor, unsigned *celsius) {
    ENTER_DEVICE(device);
    if (sensor != 0 || !get(prefix, "celsius")) return NOT_SUPPORTED;
    *celsius = (unsigned)number(prefix, "celsius");
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(Device *device, unsigned clock, unsigned *mhz) {
    ENTER_DEVICE(device);
    if (clock != SM_CLOCK || !get(prefix, "clock")) return NOT_SUPPORTED;
    *mhz = (unsigned)number(prefix, "clock");
    return SUCCESS;
}

#define CODING(function, key) \
    int function(Device *device, unsigned *percent, unsigned *period) { \
        ENTER_DEVICE(device); \
        if (!get(prefix, key)) return NOT_SUPPORTED; \
        *percent = (unsigned)number(prefix, key); \
        *period = 167000; \
        return SUCCESS; }
CODING(nvmlDeviceGetEncoderUtilization, "encoder")
CODING(nvmlDeviceGetDecoderUtilization, "decoder")

/* One sample, of the same moment, for each PID; of what is not computing, too. */
int nvmlDeviceGetProcessUtilization(Device *device, ProcessSample *into, unsigned *count, u64 since) {
    ENTER_DEVICE(device);
    const char *value = get(prefix, "busy");
    u64 at = number(prefix, "busy.at");
    if (!value || number(prefix, "mig") == 1) return NOT_SUPPORTED;
    if (at <= since) return NOT_FOUND;
    unsigned found = 0, pid, sm, decoder;
    for (int read; sscanf(value, "%u:%u:%u%n", &pid, &sm, &decoder, &read) == 3; found++) {
        value += read + (value[read] == ',');
        if (into && found < *count) into[found] = (ProcessSample){pid, at, sm, 0, 0, decoder};
    }
    /* As the driver does where there is nothing. */
    int code = found && (!into || found > *count) ? INSUFFICIENT_SIZE : SUCCESS;
    *count = found;
    return code;
}

#ifdef OLD_DRIVER
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle", u64)
#else
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, "throttle", u64)
#endif

int nvmlDeviceGetRemappedRows(Device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    ENTER_DEVICE(device);
    const char *rows = get(prefix, "remapped");
    return rows && sscanf(rows, "%u,%u,%u,%u", corrected, uncorrected, pending, failed) == 4 ? SUCCESS : NOT_SUPPORTED;
}

NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retirement", unsigned)

int nvmlDeviceGetTotalEccErrors(Device *device, unsigned error, unsigned counter, u64 *count) {
    ENTER_DEVICE(device);
    if (error != UNCORRECTED || counter != VOLATILE) return INVALID_ARGUMENT;
    if (!get(prefix, "ecc")) return NOT_SUPPORTED;
    *count = number(prefix, "ecc");
    return SUCCESS;
}

int nvmlDeviceGetFieldValues(Device *device, int count, FieldValue *values) {
    ENTER_DEVICE(device);
    for (int i = 0; i < count; i++) {
        values[i].nvmlReturn = NOT_SUPPORTED;
        if (values[i].fieldId != RECOVERY_ACTION || !get(prefix, "action")) continue;
        values[i].nvmlReturn = (unsigned)number(prefix, "action.err");
        values[i].valueType = 1;
        values[i].value.uiVal = (unsigned)number(prefix, "action");
    }
    return SUCCESS;
}

int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    ENTER_DEVICE(device);
    if (!get(prefix, "mig")) return NOT_SUPPORTED;
    *current = *pending = (unsigned)number(prefix, "mig");
    return SUCCESS;
}

#ifndef OLD_DRIVER

int nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *memory) {
    ENTER_DEVICE(device);
    if (memory->version != (sizeof *memory | 2 << 24)) return VERSION_MISMATCH;
    memory->total = number(prefix, "memory.total");
    memory->reserved = number(prefix, "memory.reserved");
    memory->used = number(prefix, "memory.used");
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

static int processes(const char *prefix, const char *kind, unsigned *count, ProcessInfo *into) {
    const char *value = get(prefix, kind);
    unsigned found = 0, pid;
    for (int read; value && sscanf(value, "%u:%n", &pid, &read) == 1; found++) {
        char *end;
        value += read;
        long long used = strtoll(value, &end, 10);
        value = end + (*end == ',');
        if (!into || found >= *count) continue;
        into[found].pid = pid;
        into[found].usedGpuMemory = (u64)used;
    }
    int code = found && (!into || found > *count) ? INSUFFICIENT_SIZE : SUCCESS;
    *count = found;
    return code;
}

#define PROCESSES(function, kind) \
    int function(Device *device, unsigned *count, ProcessInfo *into) { \
        ENTER_DEVICE(device); return processes(prefix, kind, count, into); }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps")
#endif

/* ---- XID events ---- */

int nvmlEventSetCreate(EventSet **set) {
    ENTER;
    *set = calloc(1, sizeof **set);
    /* Earlier events are not reported. */
    (*set)->next = (unsigned)number("", "event.count");
    return SUCCESS;
}

int nvmlEventSetFree(EventSet *set) { ENTER; free(set); return SUCCESS; }

int nvmlDeviceRegisterEvents(Device *device, u64 types, EventSet *set) {
    ENTER_DEVICE(device);
    if (types & ~number(prefix, "events")) return NOT_SUPPORTED;
    set->devices[set->count++] = device;
    return SUCCESS;
}

int nvmlEventSetWait_v2(EventSet *set, EventData *event, unsigned timeout) {
    ENTER;
    (void)timeout;
    while (set->next < number("", "event.count")) {
        char key[32], uuid[96];
        unsigned long xid;
        snprintf(key, sizeof key, "event.%u", set->next++);
        if (sscanf(get("", key), "%lu,%95s", &xid, uuid) != 2) abort();
        for (int i = 0; i < set->count; i++)
            if (!strcmp(set->devices[i]->gpu, uuid)) {
                *event = (EventData){set->devices[i], 8, xid, -1u, -1u};
                return SUCCESS;
            }
    }
    return TIMEOUT;
}

/* ---- for the test of the structures ---- */

#define SIZE(type) {#type, "", 0, sizeof(type)}
#define FIELD(type, field) {#type, #field, offsetof(type, field), sizeof(((type *)0)->field)}
static const struct { const char *type, *field; unsigned long offset, size; } layout[] = {
    SIZE(PciInfo), FIELD(PciInfo, busIdLegacy), FIELD(PciInfo, pciDeviceId), FIELD(PciInfo, busId),
    SIZE(Memory), FIELD(Memory, used),
    SIZE(MemoryV2), FIELD(MemoryV2, total), FIELD(MemoryV2, reserved), FIELD(MemoryV2, free), FIELD(MemoryV2, used),
    SIZE(Utilization), FIELD(Utilization, memory),
    SIZE(ProcessSample), FIELD(ProcessSample, timeStamp), FIELD(ProcessSample, smUtil), FIELD(ProcessSample, decUtil),
    SIZE(ProcessInfo), FIELD(ProcessInfo, usedGpuMemory), FIELD(ProcessInfo, gpuInstanceId),
    SIZE(ProfileInfo), FIELD(ProfileInfo, sliceCount), FIELD(ProfileInfo, instanceCount), FIELD(ProfileInfo, memorySizeMB),
    SIZE(ProfileInfoV2), FIELD(ProfileInfoV2, id), FIELD(ProfileInfoV2, memorySizeMB), FIELD(ProfileInfoV2, name),
    SIZE(Placement), FIELD(Placement, size),
    SIZE(GpuInstanceInfo), FIELD(GpuInstanceInfo, id), FIELD(GpuInstanceInfo, profileId), FIELD(GpuInstanceInfo, placement),
    SIZE(Attributes), FIELD(Attributes, gpuInstanceSliceCount), FIELD(Attributes, memorySizeMB),
    SIZE(FieldValue), FIELD(FieldValue, fieldId), FIELD(FieldValue, valueType), FIELD(FieldValue, nvmlReturn), FIELD(FieldValue, value),
    SIZE(EventData), FIELD(EventData, eventType), FIELD(EventData, eventData), FIELD(EventData, gpuInstanceId),
};

/* The i-th line of the table, a whole structure where the field is "", or 0 after the last. */
int fakeNvmlLayout(unsigned i, const char **type, const char **field, unsigned long *offset, unsigned long *size) {
    if (i >= sizeof layout / sizeof *layout) return 0;
    *type = layout[i].type;
    *field = layout[i].field;
    *offset = layout[i].offset;
    *size = layout[i].size;
    return 1;
}
