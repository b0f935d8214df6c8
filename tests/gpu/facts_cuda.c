/* SPDX-License-Identifier: MIT */

/* CUDA in this process: devices, the context, memory. */
#include "facts.h"

#include <string.h>

void fact_before_init(void)
{
	int n;

	ok(cuda.cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED,
	   "before cuInit a call is NOT_INITIALIZED");
}

void fact_cuda_devices(void)
{
	char text[64];
	nvmlDevice_t d;
	int n = 0, sms = 0, major = 0;
	size_t total = 0;

	ok(cuda.cuInit(0) == CUDA_SUCCESS && cuda.cuDeviceGetCount(&n) == CUDA_SUCCESS && n > 0,
	   "cuInit, %d devices", n);
	for (int i = 0; i < n; i++) {
		uuid_text(i, text, sizeof(text));
		ok(nvml.nvmlDeviceGetHandleByUUID(text, &d) == NVML_SUCCESS,
		   "CUDA device %d is known to NVML by its UUID", i);
	}
	(void)cuda.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal);
	(void)cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
					ordinal);
	(void)cuda.cuDeviceTotalMem_v2(&total, ordinal);
	ok(sms > 0 && major >= 5 && total > GIB, "%d multiprocessors, capability %d.x, %zu MiB",
	   sms, major, total / (size_t)MIB);
}

void fact_context(void)
{
	unsigned int flags;
	size_t avail, total;
	int active = -1;

	ok(cuda.cuMemGetInfo_v2(&avail, &total) == CUDA_ERROR_INVALID_CONTEXT,
	   "without a context a call is INVALID_CONTEXT");
	ok(cuda.cuDevicePrimaryCtxGetState(ordinal, &flags, &active) == CUDA_SUCCESS && active == 0,
	   "the primary context is not active at first");
	ok(make_context() == CUDA_SUCCESS, "and can be had");
	ok(cuda.cuDevicePrimaryCtxGetState(ordinal, &flags, &active) == CUDA_SUCCESS && active == 1,
	   "then it is active");
	ok(cuda.cuMemGetInfo_v2(&avail, &total) == CUDA_SUCCESS && avail < total,
	   "free memory %zu of %zu MiB", avail / (size_t)MIB, total / (size_t)MIB);
}

void fact_alloc_visible(void)
{
	unsigned long long before = used_bytes(), with, after;
	CUdeviceptr p = 0;
	bool good = cuda.cuMemAlloc_v2(&p, 256 * MIB) == CUDA_SUCCESS;

	with = used_bytes();
	good = good && cuda.cuMemFree_v2(p) == CUDA_SUCCESS;
	after = used_bytes();
	ok(good && with >= before + 256 * MIB && with < before + 320 * MIB &&
		   after < before + 64 * MIB,
	   "256 MiB show and vanish: %llu, %llu, %llu MiB", before / MIB, with / MIB, after / MIB);
	ok(cuda.cuMemFree_v2(p) == CUDA_ERROR_INVALID_VALUE, "freeing twice is INVALID_VALUE");
}

void fact_oom(void)
{
	size_t avail = 0, total = 0;
	CUdeviceptr p = 0, q = 0;
	CUresult r;

	(void)cuda.cuMemGetInfo_v2(&avail, &total);
	r = cuda.cuMemAlloc_v2(&p, avail + 64 * (size_t)MIB);
	ok(r == CUDA_ERROR_OUT_OF_MEMORY, "more than is free is OUT_OF_MEMORY (%d)", (int)r);
	r = cuda.cuMemAlloc_v2(&q, 2 * MIB);
	ok(r == CUDA_SUCCESS, "and does no harm: the next allocation succeeds");
	(void)cuda.cuMemFree_v2(q);
}

void fact_contents(void)
{
	unsigned char in[1000], out[1000], byte = 0;
	CUdeviceptr p = 0;
	bool good = cuda.cuMemAlloc_v2(&p, 8 * MIB) == CUDA_SUCCESS;

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 7);
	good = good && cuda.cuMemsetD8_v2(p, 0x5a, 8 * MIB) == CUDA_SUCCESS &&
	       cuda.cuMemcpyHtoD_v2(p + 2 * MIB - 500, in, sizeof(in)) == CUDA_SUCCESS &&
	       cuda.cuMemcpyDtoH_v2(out, p + 2 * MIB - 500, sizeof(out)) == CUDA_SUCCESS &&
	       cuda.cuMemcpyDtoH_v2(&byte, p + 7 * MIB + 3, 1) == CUDA_SUCCESS;
	ok(good && memcmp(in, out, sizeof(in)) == 0 && byte == 0x5a,
	   "memory keeps what is written");
	(void)cuda.cuMemFree_v2(p);
}

void fact_mapped_host(void)
{
	CUdeviceptr p = 0;
	uint32_t got = 0;
	void *host = NULL;
	bool good = cuda.cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS &&
		    cuda.cuMemHostGetDevicePointer_v2(&p, host, 0) == CUDA_SUCCESS;

	if (good)
		*(volatile uint32_t *)host = 0x600df00d;
	good = good && cuda.cuMemcpyDtoH_v2(&got, p, 4) == CUDA_SUCCESS;
	ok(good && got == 0x600df00d, "mapped host memory is the device's memory, too");
	ok(host && cuda.cuMemFreeHost(host) == CUDA_SUCCESS, "and can be freed");
}

void fact_attributes(void)
{
	static const int limits[][2] = {
		{ CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024 },
		{ CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32 },
		{ CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647 },
		{ CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152 },
		{ CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1 },
		{ CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1 },
		{ CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1 },
	};
	int value = 0, major = 0, minor = 0, first = 0, cc[2] = { 0 };
	bool good = true;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		good = good &&
		       limits[i][1] == (cuda.cuDeviceGetAttribute(&value, limits[i][0], ordinal)
						? -1
						: value);
	ok(good, "the attributes that are the same on every card");
	for (int id = 1; id <= 119 && !first; id++) {
		if (cuda.cuDeviceGetAttribute(&value, (CUdevice_attribute)id, ordinal) !=
		    CUDA_SUCCESS)
			first = id;
	}
	ok(!first, "attributes 1 to 119 are all there (first that is not: %d)", first);
	ok(cuda.cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, ordinal) ==
		   CUDA_ERROR_INVALID_VALUE,
	   "an unknown attribute is INVALID_VALUE");
	(void)cuda.cuDeviceGetAttribute(&cc[0], CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
					ordinal);
	(void)cuda.cuDeviceGetAttribute(&cc[1], CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
					ordinal);
	ok(cuda.cuDeviceComputeCapability(&major, &minor, ordinal) == CUDA_SUCCESS &&
		   major == cc[0] && minor == cc[1],
	   "cuDeviceComputeCapability says the same: %d.%d", major, minor);
	ok(cuda.cuProfilerStart() == CUDA_ERROR_INVALID_CONTEXT, "cuProfilerStart wants a context");
}

void fact_pointers(void)
{
	CUdeviceptr p = 0, start = 0, device = 0;
	unsigned int type = 0;
	size_t pitch = 0, size = 0;
	int managed = -1;
	void *host = NULL;

	ok(cuda.cuMemAllocPitch_v2(&p, &pitch, 513, 4, 8) == CUDA_SUCCESS && pitch == 1024,
	   "rows of 513 bytes get a pitch of %zu", pitch);
	ok(cuda.cuMemGetAddressRange_v2(&start, &size, p + 700) == CUDA_SUCCESS && start == p &&
		   size == 4096,
	   "an address inside tells where its allocation begins, and its size %zu", size);
	ok(cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 700) ==
			   CUDA_SUCCESS &&
		   type == CU_MEMORYTYPE_DEVICE &&
		   cuda.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p) ==
			   CUDA_SUCCESS &&
		   managed == 0,
	   "and that it is the device's");
	ok(cuda.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p) ==
		   CUDA_ERROR_INVALID_VALUE,
	   "which has no address for the host");
	(void)cuda.cuMemFree_v2(p);
	ok(cuda.cuMemAllocPitch_v2(&p, &pitch, 1, 1, 3) == CUDA_ERROR_INVALID_VALUE,
	   "elements of 3 bytes are INVALID_VALUE");
	ok(cuda.cuMemHostAlloc(&host, 8192, 0) == CUDA_SUCCESS &&
		   cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					      (CUdeviceptr)(uintptr_t)host) == CUDA_SUCCESS &&
		   type == CU_MEMORYTYPE_HOST &&
		   cuda.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
					      (CUdeviceptr)(uintptr_t)host) == CUDA_SUCCESS &&
		   device == (CUdeviceptr)(uintptr_t)host,
	   "pinned memory has one address on both sides");
	(void)cuda.cuMemFreeHost(host);
	ok(cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4096) ==
			   CUDA_ERROR_INVALID_VALUE &&
		   cuda.cuMemGetAddressRange_v2(&start, &size, 4096) == CUDA_ERROR_NOT_FOUND,
	   "of an address that CUDA has not given it knows nothing");
	ok(cuda.cuProfilerStart() == CUDA_SUCCESS, "cuProfilerStart works with a context");
}
