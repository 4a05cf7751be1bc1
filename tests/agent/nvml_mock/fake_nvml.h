/* The types of NVML that the agent meets, and what the parts of the fake library share. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, TIMEOUT = 10, GPU_IS_LOST = 15, VERSION_MISMATCH = 25 };
enum { UNCORRECTED = 1, VOLATILE = 0, RECOVERY_ACTION = 230, SM_CLOCK = 1 };
enum { MAX_HANDLES = 1024 };
typedef unsigned long long u64;

/* A GPU by its UUID, or a MIG device by the UUIDs of both: what a handle stands for while it lasts. */
typedef struct { char gpu[96], mig[96]; } Device;
typedef struct { Device *device; unsigned id; } GpuInstance;
typedef struct { Device *devices[MAX_HANDLES]; int count; unsigned next; } EventSet;

typedef struct { char busIdLegacy[16]; unsigned domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; } PciInfo;
typedef struct { u64 total, free, used; } Memory;
typedef struct { unsigned version; u64 total, reserved, free, used; } MemoryV2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; u64 timeStamp; unsigned smUtil, memUtil, encUtil, decUtil; } ProcessSample;
typedef struct { unsigned pid; u64 usedGpuMemory; unsigned gpuInstanceId, computeInstanceId; } ProcessInfo;
typedef struct { unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount,
                 decoderCount, encoderCount, jpegCount, ofaCount; u64 memorySizeMB; } ProfileInfo;
typedef struct { unsigned version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount,
                 copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount; u64 memorySizeMB;
                 char name[96]; } ProfileInfoV2;
typedef struct { unsigned start, size; } Placement;
typedef struct { Device *device; unsigned id, profileId; Placement placement; } GpuInstanceInfo;
typedef struct { unsigned multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount,
                 sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
                 u64 memorySizeMB; } Attributes;
typedef struct { unsigned fieldId, scopeId; long long timestamp, latencyUsec; unsigned valueType, nvmlReturn;
                 union { double dVal; unsigned uiVal; u64 ullVal; } value; } FieldValue;
typedef struct { Device *device; u64 eventType, eventData; unsigned gpuInstanceId, computeInstanceId; } EventData;

/* The rest is private to the library. */
#pragma GCC visibility push(hidden)

extern int initialised;

/* The value of `<prefix><key>`, NULL or 0 where there is none. */
const char *get(const char *prefix, const char *key);
u64 number(const char *prefix, const char *key);
/* A text into a caller's buffer; NOT_SUPPORTED for NULL. */
int copy(const char *value, char *into, size_t room);
/* The code of an injected fault, or SUCCESS. */
int fault(const char *prefix, const char *function);
/* The MIG device of a GPU whose field has that value, or -1. */
int mig_index(const char *gpu, const char *field, const char *wanted);
/* The same UUIDs always have the same address, as in NVML. */
Device *handle_of(const char *gpu, const char *mig);
/* What every call begins with: log, delay, faults; then the device's prefix in the state file. */
int enter(const char *function, const char *about);
int enter_device(const char *function, const Device *device, char prefix[64]);

#pragma GCC visibility pop

#define ENTER do { int code_ = enter(__func__, ""); if (code_) return code_; } while (0)
#define ENTER_DEVICE(device) \
    char prefix[64]; do { int code_ = enter_device(__func__, device, prefix); if (code_) return code_; } while (0)
