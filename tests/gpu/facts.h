/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_GPU_FACTS_H
#define TENURE_TESTS_GPU_FACTS_H

/* What the files of the driver facts share; facts.c says what they are. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu/cuda_abi.h"
#include "gpu/nvml_abi.h"

#define MIB (1024ULL * 1024)
#define GIB (1024ULL * MIB)

#define CUDA_SYMBOLS(X)                                                                            \
	X(cuInit, (unsigned int))                                                                  \
	X(cuDriverGetVersion, (int *))                                                             \
	X(cuDeviceGetCount, (int *))                                                               \
	X(cuDeviceGetUuid_v2, (CUuuid *, CUdevice))                                                \
	X(cuDeviceGetName, (char *, int, CUdevice))                                                \
	X(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))                             \
	X(cuDeviceTotalMem_v2, (size_t *, CUdevice))                                               \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                       \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                \
	X(cuDevicePrimaryCtxGetState, (CUdevice, unsigned int *, int *))                           \
	X(cuCtxSetCurrent, (CUcontext))                                                            \
	X(cuCtxSynchronize, (void))                                                                \
	X(cuMemGetInfo_v2, (size_t *, size_t *))                                                   \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                  \
	X(cuMemFree_v2, (CUdeviceptr))                                                             \
	X(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *, size_t, size_t, unsigned int))             \
	X(cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr))                         \
	X(cuPointerGetAttribute, (void *, CUpointer_attribute, CUdeviceptr))                       \
	X(cuDeviceComputeCapability, (int *, int *, CUdevice))                                     \
	X(cuProfilerStart, (void))                                                                 \
	X(cuGetProcAddress, (const char *, void **, int, uint64_t))                                \
	X(cuCtxCreate_v2, (CUcontext *, unsigned int, CUdevice))                                   \
	X(cuMemAlloc, (void))                                                                      \
	X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))                                     \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                          \
	X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))                                    \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                                         \
	X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned int))                     \
	X(cuMemFreeHost, (void *))                                                                 \
	X(cuMemGetAllocationGranularity,                                                           \
	  (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags))               \
	X(cuMemCreate, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,       \
			unsigned long long))                                                       \
	X(cuMemRelease, (CUmemGenericAllocationHandle))                                            \
	X(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))   \
	X(cuMemAddressFree, (CUdeviceptr, size_t))                                                 \
	X(cuMemMap,                                                                                \
	  (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))         \
	X(cuMemUnmap, (CUdeviceptr, size_t))                                                       \
	X(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t))                  \
	X(cuModuleLoadData, (CUmodule *, const void *))                                            \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                             \
	X(cuModuleUnload, (CUmodule))                                                              \
	X(cuLaunchKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,     \
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **))  \
	X(cuStreamCreate, (CUstream *, unsigned int))                                              \
	X(cuStreamDestroy_v2, (CUstream))                                                          \
	X(cuStreamSynchronize, (CUstream))                                                         \
	X(cuStreamQuery, (CUstream))                                                               \
	X(cuEventCreate, (CUevent *, unsigned int))                                                \
	X(cuEventRecord, (CUevent, CUstream))                                                      \
	X(cuEventElapsedTime, (float *, CUevent, CUevent))                                         \
	X(cuEventDestroy_v2, (CUevent))                                                            \
	X(cuGetErrorName, (CUresult, const char **))                                               \
	X(cuGetErrorString, (CUresult, const char **))                                             \
	X(cuGetProcAddress_v2,                                                                     \
	  (const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *))

#define NVML_SYMBOLS(X)                                                                            \
	X(nvmlInit_v2, (void))                                                                     \
	X(nvmlShutdown, (void))                                                                    \
	X(nvmlSystemGetDriverVersion, (char *, unsigned int))                                      \
	X(nvmlDeviceGetCount_v2, (unsigned int *))                                                 \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *))                           \
	X(nvmlDeviceGetHandleByUUID, (const char *, nvmlDevice_t *))                               \
	X(nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned int))                                 \
	X(nvmlDeviceGetName, (nvmlDevice_t, char *, unsigned int))                                 \
	X(nvmlDeviceGetMinorNumber, (nvmlDevice_t, unsigned int *))                                \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *))                                 \
	X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t, nvmlMemory_v2_t *))                           \
	X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t, nvmlUtilization_t *))                      \
	X(nvmlDeviceGetPowerUsage, (nvmlDevice_t, unsigned int *))                                 \
	X(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t, unsigned int *))                         \
	X(nvmlDeviceGetComputeMode, (nvmlDevice_t, nvmlComputeMode_t *))                           \
	X(nvmlDeviceGetComputeRunningProcesses_v3, (nvmlDevice_t, unsigned int *, void *))         \
	X(nvmlDeviceGetProcessUtilization,                                                         \
	  (nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned int *, unsigned long long))    \
	X(nvmlDeviceGetSerial, (nvmlDevice_t, char *, unsigned int))                               \
	X(nvmlDeviceGetVbiosVersion, (nvmlDevice_t, char *, unsigned int))                         \
	X(nvmlDeviceGetCpuAffinity, (nvmlDevice_t, unsigned int, unsigned long *))                 \
	X(nvmlDeviceGetEccMode, (nvmlDevice_t, nvmlEnableState_t *, nvmlEnableState_t *))          \
	X(nvmlDeviceGetRemappedRows,                                                               \
	  (nvmlDevice_t, unsigned int *, unsigned int *, unsigned int *, unsigned int *))          \
	X(nvmlDeviceGetTotalEccErrors,                                                             \
	  (nvmlDevice_t, unsigned int, unsigned int, unsigned long long *))                        \
	X(nvmlEventSetCreate, (nvmlEventSet_t *))                                                  \
	X(nvmlEventSetFree, (nvmlEventSet_t))                                                      \
	X(nvmlDeviceRegisterEvents, (nvmlDevice_t, unsigned long long, nvmlEventSet_t))            \
	X(nvmlEventSetWait_v2, (nvmlEventSet_t, nvmlEventData_t *, unsigned int))

#define CUDA_MEMBER(name, args) CUresult(*name) args;
struct cuda_symbols {
	CUDA_SYMBOLS(CUDA_MEMBER)
};

#define NVML_MEMBER(name, args) nvmlReturn_t(*name) args;
struct nvml_symbols {
	NVML_SYMBOLS(NVML_MEMBER)
};

extern struct cuda_symbols cuda;
extern struct nvml_symbols nvml;
extern const char *(*nvml_error)(nvmlReturn_t);

extern int ordinal;
extern char uuid[64];	 /* of the device that is used */
extern nvmlDevice_t dev; /* the same for NVML */
extern size_t layout;	 /* bytes of an entry of the _v3 list; 0: not known */
extern bool pids_seen;	 /* the list shows our own processes */

void report(bool good, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The condition is evaluated before the figures that are shown, because it often produces them. */
#define ok(condition, ...)                                                                         \
	do {                                                                                       \
		bool ok_ = (condition);                                                            \
		report(ok_, __VA_ARGS__);                                                          \
	} while (0)

void skip(const char *what, const char *why);
double now_ms(void);
int load_cuda(void);
void uuid_text(CUdevice d, char *buf, size_t size);
CUresult make_context(void);
unsigned long long used_bytes(void);

/* A child: this program again. */
struct child {
	pid_t pid;
	int in, out; /* our ends */
	char line[1024];
};

/* env: "NAME=value" for the child, or NULL. False: it did not say anything. */
bool child_start(struct child *c, const char *what, const char *env);
void child_end(struct child *c, int sig);
int child_main(const char *what);

void fact_versions(void);
void fact_errors(void);
void fact_enumeration(void);
void fact_memory_versions(void);
void fact_small_figures(void);
void fact_board(void);
void fact_events(void);
void fact_process_use_not_found(void);
void fact_process_list(void);
void fact_gone_once_waited_for(void);
void fact_sigkill(void);
void fact_visible_devices(void);
void fact_inotify(void);
void fact_before_init(void);
void fact_cuda_devices(void);
void fact_context(void);
void fact_alloc_visible(void);
void fact_oom(void);
void fact_contents(void);
void fact_mapped_host(void);
void fact_modules(void);
void fact_streams(void);
void fact_vmm(void);
void fact_few_pieces(void);
void fact_proc_address(void);
void fact_attributes(void);
void fact_pointers(void);
void fact_release(void);

#endif
