/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_NVML_H
#define TENURE_GPU_NVML_H

/*
 * NVML as a table of symbols, loaded by SONAME at run time. A table belongs to one thread at a
 * time. Optional symbols that the driver lacks are NULL; nvml_load() fails when a required one is
 * missing.
 *
 * Loading maps the library; nvml_start() and nvml_stop() are nvmlInit_v2 and nvmlShutdown and may
 * be repeated, which is how NVML is tried again after the driver was lost. A library that does not
 * start is to be unloaded before the next try: a driver takes only the one it was installed with.
 */

#include <stdbool.h>

#include "base/err.h"
#include "gpu/nvml_abi.h"

/* X(required, field, result, arguments, names to try, newest first) */
#define NVML_SYMBOLS(X)                                                                            \
	X(1, init, nvmlReturn_t, (void), "nvmlInit_v2", "nvmlInit")                                \
	X(1, shutdown, nvmlReturn_t, (void), "nvmlShutdown")                                       \
	X(0, error_string, const char *, (nvmlReturn_t), "nvmlErrorString")                        \
	X(0, driver_version, nvmlReturn_t, (char *, unsigned int), "nvmlSystemGetDriverVersion")   \
	X(0, nvml_version, nvmlReturn_t, (char *, unsigned int), "nvmlSystemGetNVMLVersion")       \
	X(1, count, nvmlReturn_t, (unsigned int *), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount") \
	X(1, by_index, nvmlReturn_t, (unsigned int, nvmlDevice_t *),                               \
	  "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")                           \
	X(1, uuid, nvmlReturn_t, (nvmlDevice_t, char *, unsigned int), "nvmlDeviceGetUUID")        \
	X(1, name, nvmlReturn_t, (nvmlDevice_t, char *, unsigned int), "nvmlDeviceGetName")        \
	X(0, minor, nvmlReturn_t, (nvmlDevice_t, unsigned int *), "nvmlDeviceGetMinorNumber")      \
	X(0, pci, nvmlReturn_t, (nvmlDevice_t, nvmlPciInfo_t *), "nvmlDeviceGetPciInfo_v3",        \
	  "nvmlDeviceGetPciInfo_v2")                                                               \
	X(1, memory, nvmlReturn_t, (nvmlDevice_t, nvmlMemory_t *), "nvmlDeviceGetMemoryInfo")      \
	X(0, memory_v2, nvmlReturn_t, (nvmlDevice_t, nvmlMemory_v2_t *),                           \
	  "nvmlDeviceGetMemoryInfo_v2")                                                            \
	X(1, compute_procs, nvmlReturn_t, (nvmlDevice_t, unsigned int *, void *),                  \
	  "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",    \
	  "nvmlDeviceGetComputeRunningProcesses")                                                  \
	X(0, graphics_procs, nvmlReturn_t, (nvmlDevice_t, unsigned int *, void *),                 \
	  "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",  \
	  "nvmlDeviceGetGraphicsRunningProcesses")                                                 \
	X(0, utilization, nvmlReturn_t, (nvmlDevice_t, nvmlUtilization_t *),                       \
	  "nvmlDeviceGetUtilizationRates")                                                         \
	X(0, power, nvmlReturn_t, (nvmlDevice_t, unsigned int *), "nvmlDeviceGetPowerUsage")       \
	X(0, power_limit, nvmlReturn_t, (nvmlDevice_t, unsigned int *),                            \
	  "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit")                  \
	X(0, temperature, nvmlReturn_t, (nvmlDevice_t, nvmlTemperatureSensors_t, unsigned int *),  \
	  "nvmlDeviceGetTemperature")                                                              \
	X(0, compute_mode, nvmlReturn_t, (nvmlDevice_t, nvmlComputeMode_t *),                      \
	  "nvmlDeviceGetComputeMode")                                                              \
	X(0, display_active, nvmlReturn_t, (nvmlDevice_t, nvmlEnableState_t *),                    \
	  "nvmlDeviceGetDisplayActive")                                                            \
	X(0, persistence, nvmlReturn_t, (nvmlDevice_t, nvmlEnableState_t *),                       \
	  "nvmlDeviceGetPersistenceMode")                                                          \
	X(0, p2p_status, nvmlReturn_t,                                                             \
	  (nvmlDevice_t, nvmlDevice_t, nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t *),               \
	  "nvmlDeviceGetP2PStatus")                                                                \
	X(0, event_set_create, nvmlReturn_t, (nvmlEventSet_t *), "nvmlEventSetCreate")             \
	X(0, event_set_free, nvmlReturn_t, (nvmlEventSet_t), "nvmlEventSetFree")                   \
	X(0, register_events, nvmlReturn_t, (nvmlDevice_t, unsigned long long, nvmlEventSet_t),    \
	  "nvmlDeviceRegisterEvents")                                                              \
	X(0, event_wait, nvmlReturn_t, (nvmlEventSet_t, nvmlEventData_t *, unsigned int),          \
	  "nvmlEventSetWait_v2", "nvmlEventSetWait")                                               \
	X(0, energy, nvmlReturn_t, (nvmlDevice_t, unsigned long long *),                           \
	  "nvmlDeviceGetTotalEnergyConsumption")                                                   \
	X(0, clock, nvmlReturn_t, (nvmlDevice_t, nvmlClockType_t, unsigned int *),                 \
	  "nvmlDeviceGetClockInfo")                                                                \
	X(0, clock_max, nvmlReturn_t, (nvmlDevice_t, nvmlClockType_t, unsigned int *),             \
	  "nvmlDeviceGetMaxClockInfo")                                                             \
	X(0, throttle, nvmlReturn_t, (nvmlDevice_t, unsigned long long *),                         \
	  "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")   \
	X(0, pstate, nvmlReturn_t, (nvmlDevice_t, unsigned int *),                                 \
	  "nvmlDeviceGetPerformanceState")                                                         \
	X(0, ecc_errors, nvmlReturn_t,                                                             \
	  (nvmlDevice_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t, unsigned long long *),       \
	  "nvmlDeviceGetTotalEccErrors")                                                           \
	X(0, remapped_rows, nvmlReturn_t,                                                          \
	  (nvmlDevice_t, unsigned int *, unsigned int *, unsigned int *, unsigned int *),          \
	  "nvmlDeviceGetRemappedRows")                                                             \
	X(0, retired_pages, nvmlReturn_t,                                                          \
	  (nvmlDevice_t, nvmlPageRetirementCause_t, unsigned int *, unsigned long long *),         \
	  "nvmlDeviceGetRetiredPages")                                                             \
	X(0, retired_pending, nvmlReturn_t, (nvmlDevice_t, nvmlEnableState_t *),                   \
	  "nvmlDeviceGetRetiredPagesPendingStatus")                                                \
	X(0, fabric_info, nvmlReturn_t, (nvmlDevice_t, nvmlGpuFabricInfo_t *),                     \
	  "nvmlDeviceGetGpuFabricInfo")                                                            \
	X(0, pcie_replays, nvmlReturn_t, (nvmlDevice_t, unsigned int *),                           \
	  "nvmlDeviceGetPcieReplayCounter")                                                        \
	X(0, pcie_generation, nvmlReturn_t, (nvmlDevice_t, unsigned int *),                        \
	  "nvmlDeviceGetCurrPcieLinkGeneration")                                                   \
	X(0, pcie_generation_max, nvmlReturn_t, (nvmlDevice_t, unsigned int *),                    \
	  "nvmlDeviceGetMaxPcieLinkGeneration")                                                    \
	X(0, pcie_width, nvmlReturn_t, (nvmlDevice_t, unsigned int *),                             \
	  "nvmlDeviceGetCurrPcieLinkWidth")                                                        \
	X(0, pcie_width_max, nvmlReturn_t, (nvmlDevice_t, unsigned int *),                         \
	  "nvmlDeviceGetMaxPcieLinkWidth")                                                         \
	X(0, nvlink_state, nvmlReturn_t, (nvmlDevice_t, unsigned int, nvmlEnableState_t *),        \
	  "nvmlDeviceGetNvLinkState")                                                              \
	X(0, nvlink_errors, nvmlReturn_t,                                                          \
	  (nvmlDevice_t, unsigned int, nvmlNvLinkErrorCounter_t, unsigned long long *),            \
	  "nvmlDeviceGetNvLinkErrorCounter")                                                       \
	X(0, field_values, nvmlReturn_t, (nvmlDevice_t, int, nvmlFieldValue_t *),                  \
	  "nvmlDeviceGetFieldValues")                                                              \
	X(0, mig_mode, nvmlReturn_t, (nvmlDevice_t, unsigned int *, unsigned int *),               \
	  "nvmlDeviceGetMigMode")                                                                  \
	X(0, mig_max, nvmlReturn_t, (nvmlDevice_t, unsigned int *),                                \
	  "nvmlDeviceGetMaxMigDeviceCount")                                                        \
	X(0, mig_by_index, nvmlReturn_t, (nvmlDevice_t, unsigned int, nvmlDevice_t *),             \
	  "nvmlDeviceGetMigDeviceHandleByIndex")

#define NVML_DECLARE_FIELD_(required, field, result, arguments, ...) result(*field) arguments;

struct nvml {
	NVML_SYMBOLS(NVML_DECLARE_FIELD_)
	void *library;
	const char *procs_symbol; /* which version of the process list was found */
	bool started;
};

/* 0; -ENOENT: no such library; -ENOSYS: a required symbol is missing. */
int nvml_load(struct nvml *n, struct err *e);
void nvml_unload(struct nvml *n);

/* 0; -EIO with NVML's own words in e. Starting a started NVML does nothing. */
int nvml_start(struct nvml *n, struct err *e);
void nvml_stop(struct nvml *n);

/* NVML's text for a code; a number where it has none. Valid until the next call in this thread. */
const char *nvml_text(const struct nvml *n, nvmlReturn_t code);

/* 0 for NVML_SUCCESS, else e set to "what: text" and -ENODEV (lost, or lost until it is reset),
 * -EACCES, -ENOSYS or -EIO. */
int nvml_result(const struct nvml *n, nvmlReturn_t code, struct err *e, const char *what);

#endif
