/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_CUDA_ABI_H
#define TENURE_GPU_CUDA_ABI_H

/*
 * The part of the CUDA driver interface (libcuda.so.1) that tenure calls and the simulator offers,
 * in our own words. Source: NVIDIA's "CUDA Driver API" reference for CUDA 11.0 to 13.0. Only
 * documented facts stand here: names, values, sizes.
 *
 * Conventions of the library:
 *  - every call returns a CUresult; sizes are in bytes, clock rates in kHz, event times in ms;
 *  - a CUdevice is an ordinal among the visible devices, in CUDA's order: it is not the NVML index;
 *  - many calls work on the calling thread's current context; a context may be current in several
 *    threads at once;
 *  - symbols end in _v2 or _v3 where their shape changed; the suffix-less one is then the oldest.
 *
 * The prototypes are listed at the end as a comment, because no program of ours links the library:
 * it is opened with dlopen() by its SONAME and the symbols are looked up one by one.
 */

#include <stddef.h>
#include <stdint.h>

#define CUDA_SONAME "libcuda.so.1"

/* What one process tells another of its memory, so that it can open it. */
#define CU_IPC_HANDLE_SIZE 64
typedef struct CUipcMemHandle_st {
	char reserved[CU_IPC_HANDLE_SIZE];
} CUipcMemHandle;
#define CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS 1

/* Results: X(name, value, short text). */
#define CUDA_RESULT_LIST(X)                                                                        \
	X(CUDA_SUCCESS, 0, "no error")                                                             \
	X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument")                                         \
	X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory")                                            \
	X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error")                                   \
	X(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down")                                     \
	X(CUDA_ERROR_STUB_LIBRARY, 34, "CUDA driver is a stub library")                            \
	X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "CUDA-capable device(s) is/are busy or unavailable")  \
	X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                         \
	X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                \
	X(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                         \
	X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context")                               \
	X(CUDA_ERROR_MAP_FAILED, 205, "mapping of buffer object failed")                           \
	X(CUDA_ERROR_UNMAP_FAILED, 206, "unmapping of buffer object failed")                       \
	X(CUDA_ERROR_ALREADY_MAPPED, 208, "resource already mapped")                               \
	X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for the device")        \
	X(CUDA_ERROR_NOT_MAPPED, 211, "resource not mapped")                                       \
	X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered")                \
	X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215, "limit is not supported on this architecture")        \
	X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217, "peer access is not supported between these")   \
	X(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                             \
	X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, "PTX JIT compiler library not found")            \
	X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, "PTX is of a newer toolchain than the driver")  \
	X(CUDA_ERROR_INVALID_SOURCE, 300, "device kernel source is invalid")                       \
	X(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found")                                        \
	X(CUDA_ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported here")      \
	X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle")                               \
	X(CUDA_ERROR_ILLEGAL_STATE, 401, "operation not permitted in this state")                  \
	X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found")                                     \
	X(CUDA_ERROR_NOT_READY, 600, "device not ready")                                           \
	X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")             \
	X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")      \
	X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")               \
	X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled")           \
	X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access is not enabled")                   \
	X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "the primary context is active")                 \
	X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                            \
	X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "host memory is already registered")     \
	X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "host memory is not registered")             \
	X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                             \
	X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted")                                \
	X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported")                                \
	X(CUDA_ERROR_SYSTEM_NOT_READY, 802, "system not yet initialized")                          \
	X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803, "unsupported display driver / cuda combination") \
	X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

typedef enum {
#define CUDA_RESULT_ENUM_(name, value, text) name = value,
	CUDA_RESULT_LIST(CUDA_RESULT_ENUM_)
#undef CUDA_RESULT_ENUM_
} CUresult;

typedef int CUdevice; /* ordinal among the visible devices */
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream; /* NULL is the context's default stream */
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

#define CU_STREAM_LEGACY     ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

/* 16 raw bytes; nvidia-smi and NVML show them as GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx. */
typedef struct {
	char bytes[16];
} CUuuid;

typedef enum {
	CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
	CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
	CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
	CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
	CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
	CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
	CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
	CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
	CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
	CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
	CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
	CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
	CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
	CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
	CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
	CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
	CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
	CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
	CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
	CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
	CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
	CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
	CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
	CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED = 78,
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
	CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
	CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
	CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
	CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
} CUdevice_attribute;

typedef enum {
	CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
	CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
	CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
	CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
	CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
	CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
	CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
	CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
} CUfunction_attribute;

/* Value of CU_DEVICE_ATTRIBUTE_COMPUTE_MODE. */
typedef enum {
	CU_COMPUTEMODE_DEFAULT = 0,
	CU_COMPUTEMODE_PROHIBITED = 2,
	CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
} CUcomputemode;

/* cuCtxCreate(), cuDevicePrimaryCtxSetFlags() */
#define CU_CTX_SCHED_AUTO	   0x00u
#define CU_CTX_SCHED_SPIN	   0x01u
#define CU_CTX_SCHED_YIELD	   0x02u
#define CU_CTX_SCHED_BLOCKING_SYNC 0x04u
#define CU_CTX_MAP_HOST		   0x08u

#define CU_STREAM_DEFAULT      0x0u
#define CU_STREAM_NON_BLOCKING 0x1u /* no implicit order with the default stream */

#define CU_EVENT_DEFAULT	0x0u
#define CU_EVENT_BLOCKING_SYNC	0x1u
#define CU_EVENT_DISABLE_TIMING 0x2u

/* cuMemAllocManaged() */
#define CU_MEM_ATTACH_GLOBAL 0x1u
#define CU_MEM_ATTACH_HOST   0x2u

/* cuMemHostAlloc() */
#define CU_MEMHOSTALLOC_PORTABLE      0x01u /* pinned in every context */
#define CU_MEMHOSTALLOC_DEVICEMAP     0x02u /* cuMemHostGetDevicePointer() works on it */
#define CU_MEMHOSTALLOC_WRITECOMBINED 0x04u

typedef enum {
	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE = 2,
	CU_MEMORYTYPE_ARRAY = 3,
	CU_MEMORYTYPE_UNIFIED = 4,
} CUmemorytype;

/* Of the address in the last argument of cuPointerGetAttribute(); in brackets what is written. */
typedef enum {
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,	 /* CUcontext */
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,	 /* CUmemorytype; managed memory is the device's */
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3, /* CUdeviceptr */
	CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,	 /* void * */
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,	 /* int */
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,	 /* uint64_t, one per allocation of the process */
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,	 /* int */
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9, /* int */
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10, /* int */
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,	      /* CUdeviceptr */
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,		      /* size_t */
	CU_POINTER_ATTRIBUTE_MAPPED = 13,		      /* int */
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,	      /* uint64_t */
	CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15, /* int */
	CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,		      /* unsigned int */
	CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,	      /* CUmemoryPool */
} CUpointer_attribute;

/* One side of cuMemcpy2D_v2(): a rectangle begins at y * pitch + x_bytes behind host or device. */
typedef struct {
	size_t x_bytes, y;
	CUmemorytype memoryType;
	void *host;
	CUdeviceptr device; /* also for UNIFIED */
	void *array;
	size_t pitch;
} CUmemcpy2DSide;

typedef struct {
	CUmemcpy2DSide from, to;
	size_t width_bytes, height;
} CUDA_MEMCPY2D;

/* cuMemPoolGetAttribute(); 1 to 3 are int (reuse), these are uint64_t. */
typedef enum {
	CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
	CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
	CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
	CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
	CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
	CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8,
} CUmemPool_attribute;

typedef enum {
	CU_LIMIT_STACK_SIZE = 0,
	CU_LIMIT_PRINTF_FIFO_SIZE = 1,
	CU_LIMIT_MALLOC_HEAP_SIZE = 2,
	CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 3,
	CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 4,
	CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 5,
	CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 6,
	CU_LIMIT_MAX = 7,
} CUlimit;

/* cuModuleGetLoadingMode() */
#define CU_MODULE_EAGER_LOADING 1
#define CU_MODULE_LAZY_LOADING	2

/* The extra argument of cuLaunchKernel(): KEY, value, ..., END. */
#define CU_LAUNCH_PARAM_END	       ((void *)0x00)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define CU_LAUNCH_PARAM_BUFFER_SIZE    ((void *)0x02)

/* cuGetProcAddress_v2() */
#define CU_GET_PROC_ADDRESS_DEFAULT		      0x0u
#define CU_GET_PROC_ADDRESS_LEGACY_STREAM	      0x1u
#define CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM 0x2u
#define CU_GET_PROC_ADDRESS_FLAGS		      0x3u /* all of them */

typedef enum {
	CU_GET_PROC_ADDRESS_SUCCESS = 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
} CUdriverProcAddressQueryResult;

/* Virtual memory management: physical pieces (cuMemCreate) mapped at reserved addresses. */
typedef enum {
	CU_MEM_ALLOCATION_TYPE_INVALID = 0,
	CU_MEM_ALLOCATION_TYPE_PINNED = 1,
} CUmemAllocationType;

typedef enum {
	CU_MEM_HANDLE_TYPE_NONE = 0,
	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
} CUmemAllocationHandleType;

typedef enum {
	CU_MEM_LOCATION_TYPE_INVALID = 0,
	CU_MEM_LOCATION_TYPE_DEVICE = 1,
} CUmemLocationType;

typedef enum {
	CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
	CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
} CUmemAccess_flags;

typedef enum {
	CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
	CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
} CUmemAllocationGranularity_flags;

typedef struct {
	CUmemLocationType type;
	int id; /* a CUdevice */
} CUmemLocation;

typedef struct {
	CUmemAllocationType type;
	CUmemAllocationHandleType requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData; /* NULL here */
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;

typedef struct {
	CUmemLocation location;
	CUmemAccess_flags flags;
} CUmemAccessDesc;

_Static_assert(sizeof(CUuuid) == 16, "ABI");
_Static_assert(sizeof(CUmemAllocationProp) == 32, "ABI");
_Static_assert(sizeof(CUmemAccessDesc) == 12, "ABI");
_Static_assert(sizeof(CUdeviceptr) == 8, "ABI");
_Static_assert(sizeof(CUDA_MEMCPY2D) == 128, "ABI");

/*
 * Prototypes (all return CUresult). Where a suffix is shown, that symbol has the shape given here.
 *
 * cuInit(unsigned flags = 0)   cuDriverGetVersion(int *)      12040 is 12.4
 * cuGetErrorName(CUresult, const char **)   cuGetErrorString(CUresult, const char **)
 * cuGetProcAddress_v2(const char *name, void **, int cudaVersion, uint64_t flags,
 *                     CUdriverProcAddressQueryResult *)
 * cuDeviceGetCount(int *)   cuDeviceGet(CUdevice *, int)   cuDeviceGetName(char *, int, CUdevice)
 * cuDeviceGetUuid[|_v2](CUuuid *, CUdevice)       _v2 gives a MIG instance its own UUID
 * cuDeviceGetAttribute(int *, CUdevice_attribute, CUdevice)
 * cuDeviceTotalMem_v2(size_t *, CUdevice)
 * cuDeviceGetPCIBusId(char *, int, CUdevice)   cuDeviceGetByPCIBusId(CUdevice *, const char *)
 * cuDevicePrimaryCtxRetain(CUcontext *, CUdevice)   cuDevicePrimaryCtxRelease_v2(CUdevice)
 * cuDevicePrimaryCtxReset_v2(CUdevice)   cuDevicePrimaryCtxGetState(CUdevice, unsigned *, int *)
 * cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned)
 * cuCtxCreate_v2(CUcontext *, unsigned, CUdevice)   cuCtxDestroy_v2(CUcontext)
 * cuCtxPushCurrent_v2(CUcontext)   cuCtxPopCurrent_v2(CUcontext *)
 * cuCtxSetCurrent(CUcontext)   cuCtxGetCurrent(CUcontext *)   cuCtxGetDevice(CUdevice *)
 * cuCtxSynchronize(void)   cuCtxGetStreamPriorityRange(int *least, int *greatest)
 * cuMemGetInfo_v2(size_t *free, size_t *total)
 * cuMemAlloc_v2(CUdeviceptr *, size_t)   cuMemFree_v2(CUdeviceptr)
 * cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t)   cuMemsetD32_v2(CUdeviceptr, unsigned, size_t)
 * cuMemsetD8Async(.., CUstream)   cuMemsetD32Async(.., CUstream)
 * cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t)   cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t)
 * cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t)
 * cuMemcpy{HtoD,DtoH,DtoD}Async_v2(.., CUstream)
 * cuMemHostAlloc(void **, size_t, unsigned)   cuMemFreeHost(void *)
 * cuMemHostGetDevicePointer_v2(CUdeviceptr *, void *, unsigned flags = 0)
 * cuMemGetAllocationGranularity(size_t *, const CUmemAllocationProp *,
 *                               CUmemAllocationGranularity_flags)
 * cuMemCreate(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, uint64_t = 0)
 * cuMemRelease(CUmemGenericAllocationHandle)
 * cuMemAddressReserve(CUdeviceptr *, size_t, size_t alignment, CUdeviceptr hint, uint64_t = 0)
 * cuMemAddressFree(CUdeviceptr, size_t)
 * cuMemMap(CUdeviceptr, size_t, size_t offset, CUmemGenericAllocationHandle, uint64_t = 0)
 * cuMemUnmap(CUdeviceptr, size_t)
 * cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t count)
 * cuModuleLoadData(CUmodule *, const void *)   cuModuleLoadDataEx(.., unsigned, int *, void **)
 * cuModuleGetFunction(CUfunction *, CUmodule, const char *)   cuModuleUnload(CUmodule)
 * cuFuncGetAttribute(int *, CUfunction_attribute, CUfunction)
 * cuOccupancyMaxActiveBlocksPerMultiprocessor(int *, CUfunction, int threads, size_t shared)
 * cuLaunchKernel(CUfunction, unsigned gridX, gridY, gridZ, blockX, blockY, blockZ,
 *                unsigned sharedBytes, CUstream, void **params, void **extra)
 * cuStreamCreate(CUstream *, unsigned)   cuStreamCreateWithPriority(CUstream *, unsigned, int)
 * cuStreamDestroy_v2(CUstream)   cuStreamQuery(CUstream)   cuStreamSynchronize(CUstream)
 * cuStreamWaitEvent(CUstream, CUevent, unsigned)
 * cuEventCreate(CUevent *, unsigned)   cuEventDestroy_v2(CUevent)
 * cuEventRecord(CUevent, CUstream)   cuEventQuery(CUevent)   cuEventSynchronize(CUevent)
 * cuEventElapsedTime(float *, CUevent, CUevent)
 */

#endif
