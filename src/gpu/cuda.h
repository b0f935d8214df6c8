/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_CUDA_H
#define TENURE_GPU_CUDA_H

/* The part of the CUDA driver API that a holder uses, as a table of symbols loaded at run time. */

#include "base/err.h"
#include "gpu/cuda_abi.h"

/* X(field, arguments, name); all are required and have been there since CUDA 9. */
#define CUDA_SYMBOLS(X)                                                                            \
	X(init, (unsigned int), "cuInit")                                                          \
	X(error_name, (CUresult, const char **), "cuGetErrorName")                                 \
	X(device_get, (CUdevice *, int), "cuDeviceGet")                                            \
	X(device_count, (int *), "cuDeviceGetCount")                                               \
	X(device_attribute, (int *, CUdevice_attribute, CUdevice), "cuDeviceGetAttribute")         \
	X(ctx_create, (CUcontext *, unsigned int, CUdevice), "cuCtxCreate_v2")                     \
	X(ctx_set_current, (CUcontext), "cuCtxSetCurrent")                                         \
	X(ctx_synchronize, (void), "cuCtxSynchronize")                                             \
	X(mem_info, (size_t *, size_t *), "cuMemGetInfo_v2")                                       \
	X(mem_alloc, (CUdeviceptr *, size_t), "cuMemAlloc_v2")                                     \
	X(mem_free, (CUdeviceptr), "cuMemFree_v2")                                                 \
	X(memset_d8, (CUdeviceptr, unsigned char, size_t), "cuMemsetD8_v2")                        \
	X(memset_d16, (CUdeviceptr, unsigned short, size_t), "cuMemsetD16_v2")                     \
	X(memset_d8_async, (CUdeviceptr, unsigned char, size_t, CUstream), "cuMemsetD8Async")      \
	X(copy_in_async, (CUdeviceptr, const void *, size_t, CUstream), "cuMemcpyHtoDAsync_v2")    \
	X(copy_out_async, (void *, CUdeviceptr, size_t, CUstream), "cuMemcpyDtoHAsync_v2")         \
	X(copy_async, (CUdeviceptr, CUdeviceptr, size_t, CUstream), "cuMemcpyAsync")               \
	X(event_create, (CUevent *, unsigned int), "cuEventCreate")                                \
	X(event_record, (CUevent, CUstream), "cuEventRecord")                                      \
	X(event_query, (CUevent), "cuEventQuery")                                                  \
	X(event_elapsed, (float *, CUevent, CUevent), "cuEventElapsedTime")                        \
	X(host_alloc, (void **, size_t, unsigned int), "cuMemHostAlloc")                           \
	X(host_free, (void *), "cuMemFreeHost")                                                    \
	X(host_device_pointer, (CUdeviceptr *, void *, unsigned int),                              \
	  "cuMemHostGetDevicePointer_v2")                                                          \
	X(module_load, (CUmodule *, const void *), "cuModuleLoadData")                             \
	X(module_function, (CUfunction *, CUmodule, const char *), "cuModuleGetFunction")          \
	X(function_set, (CUfunction, CUfunction_attribute, int), "cuFuncSetAttribute")             \
	X(launch,                                                                                  \
	  (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,       \
	   unsigned int, unsigned int, CUstream, void **, void **),                                \
	  "cuLaunchKernel")                                                                        \
	X(stream_create, (CUstream *, unsigned int), "cuStreamCreate")                             \
	X(stream_wait, (CUstream, CUevent, unsigned int), "cuStreamWaitEvent")                     \
	X(stream_query, (CUstream), "cuStreamQuery")                                               \
	X(stream_synchronize, (CUstream), "cuStreamSynchronize")

/* The same of what may be missing: NULL then. Memory of other processes, since CUDA 11. */
#define CUDA_OPTIONAL_SYMBOLS(X)                                                                   \
	X(ipc_handle, (CUipcMemHandle *, CUdeviceptr), "cuIpcGetMemHandle")                        \
	X(ipc_open, (CUdeviceptr *, CUipcMemHandle, unsigned int), "cuIpcOpenMemHandle_v2")        \
	X(ipc_close, (CUdeviceptr), "cuIpcCloseMemHandle")

#define CUDA_DECLARE_FIELD_(field, arguments, name) CUresult(*field) arguments;

struct cuda {
	CUDA_SYMBOLS(CUDA_DECLARE_FIELD_)
	CUDA_OPTIONAL_SYMBOLS(CUDA_DECLARE_FIELD_)
	void *library;
};

/* 0; -ENOENT: no such library; -ENOSYS: a symbol is missing. Never unloaded: the process ends
 * instead. */
int cuda_load(struct cuda *c, struct err *e);

/* 0 for CUDA_SUCCESS, else e set to "what: NAME" and -ENOMEM, -ENODEV or -EIO. */
int cuda_result(const struct cuda *c, CUresult code, struct err *e, const char *what);

#endif
