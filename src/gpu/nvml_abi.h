/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_NVML_ABI_H
#define TENURE_GPU_NVML_ABI_H

/*
 * The part of the NVML binary interface (libnvidia-ml.so.1) that tenure calls and the simulator
 * offers, in our own words. Source: NVIDIA's "NVML API Reference Guide" for the driver branches 470
 * to 580. Only documented facts stand here: names, values, sizes. Where a structure or a call was
 * shipped in several shapes, all shapes are declared and the comment says how they are told apart.
 *
 * Conventions of the library:
 *  - every call returns an nvmlReturn_t, except nvmlErrorString();
 *  - memory is in bytes, power in mW, energy in mJ, clocks in MHz, temperature in degrees C,
 *    time stamps in us of the wall clock, utilisation in per cent;
 *  - a list call takes the capacity in *count and leaves the number of entries there; where it does
 *    not fit it returns NVML_ERROR_INSUFFICIENT_SIZE with the needed number in *count;
 *  - a symbol without a suffix is the oldest shape. Programs resolve the newest that is there.
 *
 * The prototypes are listed at the end as a comment, because no program of ours links the library:
 * it is opened with dlopen() by its SONAME and the symbols are looked up one by one.
 */

#include <stddef.h>

#define NVML_SONAME "libnvidia-ml.so.1"

/* Return codes: X(name, value, text as nvmlErrorString() shows it). */
#define NVML_RETURN_LIST(X)                                                                        \
	X(NVML_SUCCESS, 0, "Success")                                                              \
	X(NVML_ERROR_UNINITIALIZED, 1, "Uninitialized")                                            \
	X(NVML_ERROR_INVALID_ARGUMENT, 2, "Invalid Argument")                                      \
	X(NVML_ERROR_NOT_SUPPORTED, 3, "Not Supported")                                            \
	X(NVML_ERROR_NO_PERMISSION, 4, "Insufficient Permissions")                                 \
	X(NVML_ERROR_ALREADY_INITIALIZED, 5, "Already Initialized")                                \
	X(NVML_ERROR_NOT_FOUND, 6, "Not Found")                                                    \
	X(NVML_ERROR_INSUFFICIENT_SIZE, 7, "Insufficient Size")                                    \
	X(NVML_ERROR_INSUFFICIENT_POWER, 8, "Insufficient External Power")                         \
	X(NVML_ERROR_DRIVER_NOT_LOADED, 9, "Driver Not Loaded")                                    \
	X(NVML_ERROR_TIMEOUT, 10, "Timeout")                                                       \
	X(NVML_ERROR_IRQ_ISSUE, 11, "Interrupt Request Issue")                                     \
	X(NVML_ERROR_LIBRARY_NOT_FOUND, 12, "NVML Shared Library Not Found")                       \
	X(NVML_ERROR_FUNCTION_NOT_FOUND, 13, "Function Not Found")                                 \
	X(NVML_ERROR_CORRUPTED_INFOROM, 14, "Corrupted infoROM")                                   \
	X(NVML_ERROR_GPU_IS_LOST, 15, "GPU is lost")                                               \
	X(NVML_ERROR_RESET_REQUIRED, 16, "GPU requires reset")                                     \
	X(NVML_ERROR_OPERATING_SYSTEM, 17, "GPU access blocked by the operating system")           \
	X(NVML_ERROR_LIB_RM_VERSION_MISMATCH, 18, "Driver/library version mismatch")               \
	X(NVML_ERROR_IN_USE, 19, "In use by another client")                                       \
	X(NVML_ERROR_MEMORY, 20, "Insufficient Memory")                                            \
	X(NVML_ERROR_NO_DATA, 21, "No data")                                                       \
	X(NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, 22, "ECC is not supported with vGPU")                 \
	X(NVML_ERROR_INSUFFICIENT_RESOURCES, 23, "Insufficient resources")                         \
	X(NVML_ERROR_FREQ_NOT_SUPPORTED, 24, "Frequency not supported")                            \
	X(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, 25, "Argument version mismatch")                   \
	X(NVML_ERROR_DEPRECATED, 26, "Deprecated")                                                 \
	X(NVML_ERROR_NOT_READY, 27, "Not ready")                                                   \
	X(NVML_ERROR_GPU_NOT_FOUND, 28, "GPU not found")                                           \
	X(NVML_ERROR_INVALID_STATE, 29, "Invalid state")                                           \
	X(NVML_ERROR_UNKNOWN, 999, "Unknown Error")

typedef enum {
#define NVML_RETURN_ENUM_(name, value, text) name = value,
	NVML_RETURN_LIST(NVML_RETURN_ENUM_)
#undef NVML_RETURN_ENUM_
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;	/* valid from nvmlInit to the last nvmlShutdown */
typedef struct nvmlEventSet_st *nvmlEventSet_t; /* nvmlEventSetCreate() .. nvmlEventSetFree() */

#define NVML_INIT_FLAG_NO_GPUS	 1u /* do not fail when the host has no device */
#define NVML_INIT_FLAG_NO_ATTACH 2u /* do not attach devices */

/* "This field is not available", in 64 bits and in 32 (usedGpuMemory, gpuInstanceId). */
#define NVML_VALUE_NOT_AVAILABLE    (-1)
#define NVML_VALUE_NOT_AVAILABLE_64 0xffffffffffffffffULL
#define NVML_VALUE_NOT_AVAILABLE_32 0xffffffffu

#define NVML_DEVICE_UUID_BUFFER_SIZE	       80
#define NVML_DEVICE_UUID_V2_BUFFER_SIZE	       96
#define NVML_DEVICE_NAME_BUFFER_SIZE	       64
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE	       96
#define NVML_DEVICE_SERIAL_BUFFER_SIZE	       30
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE     32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE  16
#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80
#define NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE   80

/* A version field holds the size of its structure, and the version in the top byte. */
#define NVML_STRUCT_VERSION(data, ver)                                                             \
	((unsigned int)(sizeof(nvml##data##_v##ver##_t) | ((unsigned int)(ver) << 24U)))

/* 68 bytes; nvmlDeviceGetPciInfo_v3. busId is "00000000:3B:00.0", busIdLegacy "0000:3B:00.0". */
typedef struct {
	char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId; /* device << 16 | vendor (0x10de) */
	unsigned int pciSubSystemId;
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
} nvmlPciInfo_t;

/* v1: used includes what the driver reserves for itself, so an empty card never shows 0. */
typedef struct {
	unsigned long long total;
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_t;

/* v2: total = reserved + used + free. Set version to nvmlMemory_v2 before the call. */
typedef struct {
	unsigned int version;
	unsigned long long total;
	unsigned long long reserved;
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_v2_t;

#define nvmlMemory_v2 NVML_STRUCT_VERSION(Memory, 2)

typedef struct {
	unsigned long long bar1Total;
	unsigned long long bar1Free;
	unsigned long long bar1Used;
} nvmlBAR1Memory_t;

/* Trailing mean over one sample period, which is between 1/6 s and 1 s. NOT_SUPPORTED on MIG. */
typedef struct {
	unsigned int gpu;
	unsigned int memory;
} nvmlUtilization_t;

typedef enum {
	NVML_TOTAL_POWER_SAMPLES = 0,
	NVML_GPU_UTILIZATION_SAMPLES = 1,
	NVML_MEMORY_UTILIZATION_SAMPLES = 2,
	NVML_ENC_UTILIZATION_SAMPLES = 3,
	NVML_DEC_UTILIZATION_SAMPLES = 4,
	NVML_PROCESSOR_CLK_SAMPLES = 5,
	NVML_MEMORY_CLK_SAMPLES = 6,
} nvmlSamplingType_t;

typedef enum {
	NVML_VALUE_TYPE_DOUBLE = 0,
	NVML_VALUE_TYPE_UNSIGNED_INT = 1,
	NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
	NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
	NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
	NVML_VALUE_TYPE_SIGNED_INT = 5,
} nvmlValueType_t;

typedef union {
	double dVal;
	int siVal;
	unsigned int uiVal;
	unsigned long ulVal;
	unsigned long long ullVal;
	signed long long sllVal;
} nvmlValue_t;

typedef struct {
	unsigned long long timeStamp;
	nvmlValue_t sampleValue;
} nvmlSample_t;

/*
 * nvmlDeviceGetProcessUtilization: samples later than lastSeenTimeStamp. NVML_ERROR_NOT_FOUND means
 * that no process used the device since then; it is not a failure.
 */
typedef struct {
	unsigned int pid;
	unsigned long long timeStamp;
	unsigned int smUtil;
	unsigned int memUtil;
	unsigned int encUtil;
	unsigned int decUtil;
} nvmlProcessUtilizationSample_t;

/*
 * The entry of the process lists. The unsuffixed calls write v1, _v2 writes v2. The _v3 calls write
 * v2 (24 bytes) on today's drivers, but drivers were shipped whose _v3 wrote 16 or 32 bytes an
 * entry: who calls them fills the buffer with a pattern, looks what was written, and remembers it.
 * usedGpuMemory may be NVML_VALUE_NOT_AVAILABLE_64. The instance ids are all-ones without MIG.
 */
typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
} nvmlProcessInfo_v2_t;

/* The 32-byte shape, written by the _v3 calls of some 525 and 530 drivers. */
typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessInfo_cc_t;

typedef enum {
	NVML_TEMPERATURE_GPU = 0,
} nvmlTemperatureSensors_t;

typedef enum {
	NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
	NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1,
	NVML_TEMPERATURE_THRESHOLD_MEM_MAX = 2,
	NVML_TEMPERATURE_THRESHOLD_GPU_MAX = 3,
} nvmlTemperatureThresholds_t;

typedef enum {
	NVML_CLOCK_GRAPHICS = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEM = 2,
	NVML_CLOCK_VIDEO = 3,
	NVML_CLOCK_COUNT,
} nvmlClockType_t;

typedef enum {
	NVML_PSTATE_0 = 0, /* highest performance; the others are 1 to 15 */
	NVML_PSTATE_8 = 8,
	NVML_PSTATE_UNKNOWN = 32,
} nvmlPstates_t;

/* Bits of nvmlDeviceGetCurrentClocks{Throttle,Event}Reasons: two names for one call. */
#define nvmlClocksEventReasonNone		     0x0ULL
#define nvmlClocksEventReasonGpuIdle		     0x1ULL
#define nvmlClocksEventReasonApplicationsClocks	     0x2ULL
#define nvmlClocksEventReasonSwPowerCap		     0x4ULL
#define nvmlClocksThrottleReasonHwSlowdown	     0x8ULL
#define nvmlClocksEventReasonSyncBoost		     0x10ULL
#define nvmlClocksEventReasonSwThermalSlowdown	     0x20ULL
#define nvmlClocksThrottleReasonHwThermalSlowdown    0x40ULL
#define nvmlClocksThrottleReasonHwPowerBrakeSlowdown 0x80ULL
#define nvmlClocksEventReasonDisplayClockSetting     0x100ULL

typedef enum {
	NVML_FEATURE_DISABLED = 0,
	NVML_FEATURE_ENABLED = 1,
} nvmlEnableState_t; /* display mode, display active, persistence mode */

typedef enum {
	NVML_COMPUTEMODE_DEFAULT = 0,
	NVML_COMPUTEMODE_EXCLUSIVE_THREAD = 1, /* no longer supported by drivers */
	NVML_COMPUTEMODE_PROHIBITED = 2,
	NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
} nvmlComputeMode_t;

/* nvmlDeviceGetP2PStatus */
typedef enum {
	NVML_P2P_STATUS_OK = 0,
	NVML_P2P_STATUS_NOT_SUPPORTED = 5,
} nvmlGpuP2PStatus_t;

typedef enum {
	NVML_P2P_CAPS_INDEX_READ = 0,
	NVML_P2P_CAPS_INDEX_WRITE = 1,
	NVML_P2P_CAPS_INDEX_NVLINK = 2,
	NVML_P2P_CAPS_INDEX_ATOMICS = 3,
	NVML_P2P_CAPS_INDEX_PROP = 4,
} nvmlGpuP2PCapsIndex_t;

/* nvmlDeviceGetTotalEccErrors: which errors, and counted since when. */
typedef enum {
	NVML_MEMORY_ERROR_TYPE_CORRECTED = 0,
	NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1,
} nvmlMemoryErrorType_t;

typedef enum {
	NVML_VOLATILE_ECC = 0,	/* since the driver was loaded, or the last reset */
	NVML_AGGREGATE_ECC = 1, /* in the life of the card */
} nvmlEccCounterType_t;

/* Links are numbered from 0. One that a card does not have answers INVALID_ARGUMENT or
 * NOT_SUPPORTED. */
#define NVML_NVLINK_MAX_LINKS 18

/* nvmlDeviceGetNvLinkErrorCounter, of one link */
typedef enum {
	NVML_NVLINK_ERROR_DL_REPLAY = 0,
	NVML_NVLINK_ERROR_DL_RECOVERY = 1,
	NVML_NVLINK_ERROR_DL_CRC_FLIT = 2,
	NVML_NVLINK_ERROR_DL_CRC_DATA = 3,
} nvmlNvLinkErrorCounter_t;

/* nvmlDeviceGetRetiredPages, before Ampere */
typedef enum {
	NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS = 0,
	NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 1,
} nvmlPageRetirementCause_t;

/* nvmlDeviceGetGpuFabricInfo: whether the NVLinks of a card were set up, by the fabric manager or
 * over nodes. status says how that ended, in the state COMPLETED. */
#define NVML_GPU_FABRIC_UUID_LEN	    16
#define NVML_GPU_FABRIC_STATE_NOT_SUPPORTED 0
#define NVML_GPU_FABRIC_STATE_NOT_STARTED   1
#define NVML_GPU_FABRIC_STATE_IN_PROGRESS   2
#define NVML_GPU_FABRIC_STATE_COMPLETED	    3

typedef struct {
	unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
} nvmlGpuFabricInfo_t;

/* Values of the field NVML_FI_DEV_GET_GPU_RECOVERY_ACTION. Those from 4 on have come one by one
 * (NVML's change log up to version 615). */
#define NVML_GPU_RECOVERY_ACTION_NONE		 0
#define NVML_GPU_RECOVERY_ACTION_GPU_RESET	 1
#define NVML_GPU_RECOVERY_ACTION_NODE_REBOOT	 2
#define NVML_GPU_RECOVERY_ACTION_DRAIN_P2P	 3
#define NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET 4
#define NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX	 5
#define NVML_GPU_RECOVERY_ACTION_BUS_RESET	 6
#define NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT	 7

/* Fields of nvmlDeviceGetFieldValues(). Those of NVLink are sums over all links. */
#define NVML_FI_DEV_GET_GPU_RECOVERY_ACTION	      230
#define NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL 38
#define NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL 45
#define NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL   52
#define NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL 59

/* The caller sets fieldId and scopeId (0, or a link), the library all the rest: nvmlReturn says
 * whether value is there, valueType which member of it. */
typedef struct {
	unsigned int fieldId;
	unsigned int scopeId;
	long long timestamp;   /* us of the wall clock */
	long long latencyUsec; /* that it took */
	nvmlValueType_t valueType;
	nvmlReturn_t nvmlReturn;
	nvmlValue_t value;
} nvmlFieldValue_t;

/* nvmlDeviceGetMigMode */
#define NVML_DEVICE_MIG_DISABLE 0x0u
#define NVML_DEVICE_MIG_ENABLE	0x1u

/* nvmlDeviceGetAttributes_v2, of a MIG device */
typedef struct {
	unsigned int multiprocessorCount;
	unsigned int sharedCopyEngineCount;
	unsigned int sharedDecoderCount;
	unsigned int sharedEncoderCount;
	unsigned int sharedJpegCount;
	unsigned int sharedOfaCount;
	unsigned int gpuInstanceSliceCount;
	unsigned int computeInstanceSliceCount;
	unsigned long long memorySizeMB; /* MiB */
} nvmlDeviceAttributes_t;

/* Bits of nvmlDeviceRegisterEvents(); eventData of an XID event is the XID. */
#define nvmlEventTypeNone	       0x0ULL
#define nvmlEventTypeSingleBitEccError 0x1ULL
#define nvmlEventTypeDoubleBitEccError 0x2ULL
#define nvmlEventTypePState	       0x4ULL
#define nvmlEventTypeXidCriticalError  0x8ULL
#define nvmlEventTypeClock	       0x10ULL

/* nvmlEventSetWait_v2; the unsuffixed call writes only the first three fields. */
typedef struct {
	nvmlDevice_t device;
	unsigned long long eventType;
	unsigned long long eventData;
	unsigned int gpuInstanceId;	/* all-ones where the event has none */
	unsigned int computeInstanceId; /* the same */
} nvmlEventData_t;

/* GPU performance monitoring (Hopper and later): what really ran between two samples. */
typedef struct nvmlGpmSample_st *nvmlGpmSample_t;

#define NVML_GPM_SUPPORT_VERSION     1
#define NVML_GPM_METRICS_GET_VERSION 1

typedef struct {
	unsigned int version; /* NVML_GPM_SUPPORT_VERSION */
	unsigned int isSupportedDevice;
} nvmlGpmSupport_t;

typedef enum {
	NVML_GPM_METRIC_GRAPHICS_UTIL = 1,
	NVML_GPM_METRIC_SM_UTIL = 2,
	NVML_GPM_METRIC_SM_OCCUPANCY = 3,
	NVML_GPM_METRIC_INTEGER_UTIL = 4,
	NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5,
	NVML_GPM_METRIC_DRAM_BW_UTIL = 10,
} nvmlGpmMetricId_t;

typedef struct {
	unsigned int metricId;
	nvmlReturn_t nvmlReturn;
	double value; /* per cent for the metrics above */
	struct {
		char *shortName;
		char *longName;
		char *unit;
	} metricInfo;
} nvmlGpmMetric_t;

/*
 * The vendor's array has grown with the branches (98 entries at first, 333 in CUDA 13); the library
 * looks at the first numMetrics only, so the largest is safe everywhere.
 */
#define NVML_GPM_METRIC_ROOM 512

typedef struct {
	unsigned int version;	 /* NVML_GPM_METRICS_GET_VERSION */
	unsigned int numMetrics; /* how many of metrics[] are asked for */
	nvmlGpmSample_t sample1; /* the earlier one */
	nvmlGpmSample_t sample2;
	nvmlGpmMetric_t metrics[NVML_GPM_METRIC_ROOM];
} nvmlGpmMetricsGet_t;

_Static_assert(sizeof(nvmlPciInfo_t) == 68, "ABI");
_Static_assert(sizeof(nvmlMemory_t) == 24, "ABI");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "ABI");
_Static_assert(sizeof(nvmlSample_t) == 16, "ABI");
_Static_assert(sizeof(nvmlProcessUtilizationSample_t) == 32, "ABI");
_Static_assert(sizeof(nvmlFieldValue_t) == 40, "ABI");
_Static_assert(sizeof(nvmlGpuFabricInfo_t) == 28, "ABI");
_Static_assert(sizeof(nvmlProcessInfo_v1_t) == 16, "ABI");
_Static_assert(sizeof(nvmlProcessInfo_v2_t) == 24, "ABI");
_Static_assert(sizeof(nvmlProcessInfo_cc_t) == 32, "ABI");
_Static_assert(sizeof(nvmlDeviceAttributes_t) == 40, "ABI");
_Static_assert(sizeof(nvmlEventData_t) == 32, "ABI");
_Static_assert(sizeof(nvmlGpmMetric_t) == 40, "ABI");

/*
 * Prototypes (all return nvmlReturn_t unless said; d = nvmlDevice_t, u = unsigned int, ull =
 * unsigned long long). [a|b] are shapes of one call, newest last.
 *
 * nvmlInit[|_v2](void)   nvmlInitWithFlags(u flags)   nvmlShutdown(void)
 * const char *nvmlErrorString(nvmlReturn_t)
 * nvmlSystemGetDriverVersion(char *, u)   nvmlSystemGetNVMLVersion(char *, u)
 * nvmlSystemGetCudaDriverVersion[|_v2](int *)      12040 is 12.4; v2 asks the loaded libcuda
 * nvmlSystemGetProcessName(u pid, char *, u)
 * nvmlDeviceGetCount[|_v2](u *)
 * nvmlDeviceGetHandleByIndex[|_v2](u, d *)         nvmlDeviceGetHandleByUUID(const char *, d *)
 * nvmlDeviceGetHandleByPciBusId[|_v2](const char *, d *)
 * nvmlDeviceGetUUID(d, char *, u)   nvmlDeviceGetName(d, char *, u)   nvmlDeviceGetIndex(d, u *)
 * nvmlDeviceGetMinorNumber(d, u *)                 the N of /dev/nvidiaN
 * nvmlDeviceGetPciInfo[|_v2|_v3](d, nvmlPciInfo_t *)   the oldest shape lacks busId
 * nvmlDeviceGetMemoryInfo(d, nvmlMemory_t *)       nvmlDeviceGetMemoryInfo_v2(d, nvmlMemory_v2_t *)
 * nvmlDeviceGetBAR1MemoryInfo(d, nvmlBAR1Memory_t *)
 * nvmlDeviceGetUtilizationRates(d, nvmlUtilization_t *)
 * nvmlDeviceGetSamples(d, nvmlSamplingType_t, ull since_us, nvmlValueType_t *, u *count,
 *                      nvmlSample_t * or NULL to ask for the count)
 * nvmlDeviceGetProcessUtilization(d, nvmlProcessUtilizationSample_t *, u *count, ull since_us)
 * nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses[|_v2|_v3](d, u *count, entries)
 * nvmlDeviceGetPowerUsage(d, u *mW)                nvmlDeviceGetTotalEnergyConsumption(d, ull *mJ)
 * nvmlDeviceGetEnforcedPowerLimit(d, u *mW)        nvmlDeviceGetPowerManagementLimit(d, u *mW)
 * nvmlDeviceGetPowerManagementDefaultLimit(d, u *mW)
 * nvmlDeviceGetPowerManagementLimitConstraints(d, u *min_mW, u *max_mW)
 * nvmlDeviceGetTemperature(d, nvmlTemperatureSensors_t, u *)
 * nvmlDeviceGetTemperatureThreshold(d, nvmlTemperatureThresholds_t, u *)
 * nvmlDeviceGetClockInfo(d, nvmlClockType_t, u *)  nvmlDeviceGetMaxClockInfo(the same)
 * nvmlDeviceGetCurrentClocks{Throttle,Event}Reasons(d, ull *)
 * nvmlDeviceGetPerformanceState(d, nvmlPstates_t *)
 * nvmlDeviceGetTotalEccErrors(d, nvmlMemoryErrorType_t, nvmlEccCounterType_t, ull *)
 *                                                  NOT_SUPPORTED without ECC, or where it is off
 * nvmlDeviceGetRemappedRows(d, u *corrected, u *uncorrected, u *pending, u *failed)   from Ampere
 * nvmlDeviceGetRetiredPages(d, nvmlPageRetirementCause_t, u *count, ull *addresses)   before Ampere
 * nvmlDeviceGetRetiredPagesPendingStatus(d, nvmlEnableState_t *)
 * nvmlDeviceGetGpuFabricInfo(d, nvmlGpuFabricInfo_t *)
 * nvmlDeviceGetPcieReplayCounter(d, u *)
 * nvmlDeviceGet{Curr,Max}PcieLink{Generation,Width}(d, u *)
 * nvmlDeviceGetNvLinkState(d, u link, nvmlEnableState_t *)
 * nvmlDeviceGetNvLinkErrorCounter(d, u link, nvmlNvLinkErrorCounter_t, ull *)
 * nvmlDeviceGetFieldValues(d, int n, nvmlFieldValue_t *)   SUCCESS where any of them was told
 * nvmlDeviceGetComputeMode(d, nvmlComputeMode_t *)
 * nvmlDeviceGetPersistenceMode(d, nvmlEnableState_t *)
 * nvmlDeviceGetDisplay{Mode,Active}(d, nvmlEnableState_t *)
 * nvmlDeviceGetCudaComputeCapability(d, int *major, int *minor)
 * nvmlDeviceGetNumGpuCores(d, u *)
 * nvmlDeviceGetP2PStatus(d, d, nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t *)
 * nvmlDeviceGetMigMode(d, u *current, u *pending)  NOT_SUPPORTED before Ampere
 * nvmlDeviceGetMaxMigDeviceCount(d, u *)
 * nvmlDeviceGetMigDeviceHandleByIndex(d, u, d *)   NOT_FOUND for a gap
 * nvmlDeviceIsMigDeviceHandle(d, u *)
 * nvmlDeviceGetDeviceHandleFromMigDeviceHandle(d, d *)
 * nvmlDeviceGetGpuInstanceId(d, u *)   nvmlDeviceGetComputeInstanceId(d, u *)
 * nvmlDeviceGetAttributes[|_v2](d, nvmlDeviceAttributes_t *)
 * nvmlDeviceGetSupportedEventTypes(d, ull *)
 * nvmlEventSetCreate(nvmlEventSet_t *)             nvmlEventSetFree(nvmlEventSet_t)
 * nvmlDeviceRegisterEvents(d, ull types, nvmlEventSet_t)
 * nvmlEventSetWait[|_v2](nvmlEventSet_t, nvmlEventData_t *, u timeout_ms)
 * nvmlGpmQueryDeviceSupport(d, nvmlGpmSupport_t *)
 * nvmlGpmSampleAlloc(nvmlGpmSample_t *)   nvmlGpmSampleFree(nvmlGpmSample_t)
 * nvmlGpmSampleGet(d, nvmlGpmSample_t)    nvmlGpmMigSampleGet(d, u gpuInstanceId, nvmlGpmSample_t)
 * nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *)
 */

#endif
