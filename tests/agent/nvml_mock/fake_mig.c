/* NVML's calls on MIG profiles, instances and devices, answered from the state file. */
#include "fake_nvml.h"

enum { PROFILES = 18 };

static int profile_info(const char *prefix, unsigned profile, ProfileInfo *info, char *name, unsigned room) {
    char key[128];
    unsigned long memory;
    if (profile >= PROFILES) return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "profile.%u", profile);
    const char *value = get(prefix, key);
    memset(info, 0, sizeof *info);
    if (!value || sscanf(value, "%u,%u,%u,%lu", &info->id, &info->sliceCount, &info->instanceCount, &memory) != 4)
        return NOT_SUPPORTED;
    info->memorySizeMB = memory;
    snprintf(key, sizeof key, "profile.%u.name", profile);
    return name ? copy(get(prefix, key), name, room) : SUCCESS;
}

int nvmlDeviceGetGpuInstanceProfileInfo(Device *device, unsigned profile, ProfileInfo *info) {
    ENTER_DEVICE(device);
    return profile_info(prefix, profile, info, NULL, 0);
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **mig) {
    ENTER_DEVICE(device);
    char key[128];
    if (index >= number(prefix, "mig.max")) return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "mig.%u.uuid", index);
    const char *uuid = number(prefix, "mig") == 1 ? get(prefix, key) : NULL;
    if (!uuid) return NOT_FOUND;
    *mig = handle_of(device->gpu, uuid);
    return SUCCESS;
}

int nvmlDeviceGetGpuInstanceById(Device *device, unsigned id, GpuInstance **instance) {
    static GpuInstance instances[MAX_HANDLES];
    static unsigned next;
    ENTER_DEVICE(device);
    char wanted[16];
    snprintf(wanted, sizeof wanted, "%u", id);
    if (mig_index(prefix, "gi", wanted) < 0) return NOT_FOUND;
    *instance = &instances[next++ % MAX_HANDLES];
    (*instance)->device = device;
    (*instance)->id = id;
    return SUCCESS;
}

int nvmlGpuInstanceGetInfo(GpuInstance *instance, GpuInstanceInfo *info) {
    ENTER_DEVICE(instance->device);
    char id[16], key[128];
    snprintf(id, sizeof id, "%u", instance->id);
    int index = mig_index(prefix, "gi", id);
    if (index < 0) return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "mig.%d.placement", index);
    info->device = instance->device;
    info->id = instance->id;
    return sscanf(get(prefix, key), "%u:%u", &info->placement.start, &info->placement.size) == 2 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetAttributes_v2(Device *device, Attributes *attributes) {
    ENTER_DEVICE(device);
    unsigned long memory;
    const char *value = get(prefix, "attributes");
    if (!value || sscanf(value, "%u,%u,%lu", &attributes->gpuInstanceSliceCount,
                         &attributes->computeInstanceSliceCount, &memory) != 3) return NOT_SUPPORTED;
    attributes->memorySizeMB = memory;
    return SUCCESS;
}

#ifndef OLD_DRIVER

int nvmlDeviceGetGpuInstanceProfileInfoV(Device *device, unsigned profile, ProfileInfoV2 *info) {
    ENTER_DEVICE(device);
    if (info->version != (sizeof *info | 2 << 24)) return VERSION_MISMATCH;
    ProfileInfo first;
    int code = profile_info(prefix, profile, &first, info->name, sizeof info->name);
    if (!code && number(prefix, "mig") != 1) return NOT_SUPPORTED;
    memcpy(&info->id, &first.id, offsetof(ProfileInfo, memorySizeMB));
    info->memorySizeMB = first.memorySizeMB;
    return code;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device *device, unsigned id, Placement *placements, unsigned *count) {
    ENTER_DEVICE(device);
    char key[128];
    unsigned found = 0, start, size;
    snprintf(key, sizeof key, "placements.%u", id);
    const char *value = get(prefix, key);
    if (!value) return INVALID_ARGUMENT;
    for (int read; sscanf(value, "%u:%u%n", &start, &size, &read) == 2; found++, value += read + (value[read] == ',')) {
        if (!placements) continue;
        if (found == *count) return INSUFFICIENT_SIZE;
        placements[found].start = start;
        placements[found].size = size;
    }
    *count = found;
    return SUCCESS;
}

#endif
