/* SPDX-License-Identifier: MIT */

/* CUDA in this process: kernels, streams, memory in pieces, the end of the context. */
#include "facts.h"

#include <stdio.h>
#include <time.h>

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  "// an entry that does nothing\n"
			  ".visible .entry facts_nothing(.param .u64 p)\n{\n\tret;\n}\n";

void fact_modules(void)
{
	uint64_t arg = 0;
	void *params[] = { &arg };
	CUfunction f = NULL;
	CUmodule m = NULL;
	CUresult r;

	r = cuda.cuModuleLoadData(&m, "this is no program");
	ok(r == CUDA_ERROR_INVALID_IMAGE || r == CUDA_ERROR_INVALID_PTX ||
		   r == CUDA_ERROR_NO_BINARY_FOR_GPU,
	   "garbage is refused (%d)", (int)r);
	r = cuda.cuModuleLoadData(&m, ptx);
	if (r != CUDA_SUCCESS) {
		ok(false, "PTX loads (%d)", (int)r);
		return;
	}
	ok(cuda.cuModuleGetFunction(&f, m, "facts_nobody") == CUDA_ERROR_NOT_FOUND,
	   "an unknown function is NOT_FOUND");
	ok(cuda.cuModuleGetFunction(&f, m, "facts_nothing") == CUDA_SUCCESS,
	   "a known one is found");
	r = cuda.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL);
	ok(r == CUDA_SUCCESS && cuda.cuCtxSynchronize() == CUDA_SUCCESS, "it runs (%d)", (int)r);
	r = cuda.cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, NULL, params, NULL);
	ok(r == CUDA_ERROR_INVALID_VALUE, "2048 threads in a block are INVALID_VALUE (%d)", (int)r);
	ok(cuda.cuModuleUnload(m) == CUDA_SUCCESS, "the module unloads");
}

void fact_streams(void)
{
	CUstream s = NULL;
	CUevent a = NULL, b = NULL;
	float ms = -1;
	bool good = cuda.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
		    cuda.cuEventCreate(&a, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
		    cuda.cuEventCreate(&b, CU_EVENT_DEFAULT) == CUDA_SUCCESS;

	good = good && cuda.cuEventRecord(a, s) == CUDA_SUCCESS &&
	       cuda.cuEventRecord(b, s) == CUDA_SUCCESS &&
	       cuda.cuStreamSynchronize(s) == CUDA_SUCCESS;
	ok(good && cuda.cuStreamQuery(s) == CUDA_SUCCESS &&
		   cuda.cuEventElapsedTime(&ms, a, b) == CUDA_SUCCESS && ms >= 0 && ms < 2000,
	   "streams and events work (%.3f ms apart)", (double)ms);
	(void)cuda.cuEventDestroy_v2(a);
	(void)cuda.cuEventDestroy_v2(b);
	ok(cuda.cuStreamDestroy_v2(s) == CUDA_SUCCESS, "and can be destroyed");
}

void fact_vmm(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	CUmemAccessDesc access = { .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle h = 0;
	unsigned long long before = used_bytes(), with;
	size_t unit = 0, size;
	CUdeviceptr p = 0;
	bool good;

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = ordinal;
	access.location = prop.location;
	good = cuda.cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
		       CUDA_SUCCESS &&
	       unit > 0;
	ok(good, "the granularity of pieces is %zu KiB", unit / 1024);
	size = (256 * (size_t)MIB + unit - 1) / unit * unit;
	good = good && cuda.cuMemCreate(&h, size, &prop, 0) == CUDA_SUCCESS &&
	       cuda.cuMemAddressReserve(&p, size, 0, 0, 0) == CUDA_SUCCESS &&
	       cuda.cuMemMap(p, size, 0, h, 0) == CUDA_SUCCESS &&
	       cuda.cuMemSetAccess(p, size, &access, 1) == CUDA_SUCCESS &&
	       cuda.cuMemsetD8_v2(p, 1, size) == CUDA_SUCCESS &&
	       cuda.cuCtxSynchronize() == CUDA_SUCCESS; /* else it writes after the unmapping */
	ok(good, "a piece can be created, mapped and written");
	good = good && cuda.cuMemRelease(h) == CUDA_SUCCESS;
	with = used_bytes();
	ok(good && with >= before + 256 * MIB, "a released piece stays while it is mapped");
	good = good && cuda.cuMemUnmap(p, size) == CUDA_SUCCESS;
	ok(good && used_bytes() < before + 64 * MIB, "unmapped, it is free");
	ok(good && cuda.cuMemAddressFree(p, size) == CUDA_SUCCESS, "the address can be given back");
}

/* Milliseconds for freeing n pieces of size; negative: they cannot be had, and *why. */
static double free_time(int n, size_t size, CUresult *why)
{
	static CUdeviceptr p[256];
	double t0;
	int got = 0;

	while (got < n && (*why = cuda.cuMemAlloc_v2(&p[got], size)) == CUDA_SUCCESS)
		got++;
	(void)cuda.cuCtxSynchronize();
	t0 = now_ms();
	for (int i = 0; i < got; i++)
		(void)cuda.cuMemFree_v2(p[i]);
	return got == n ? now_ms() - t0 : -1;
}

/* Of three times: one in which this process got no processor is no longer one of the driver's. */
static double least_free_time(int n, size_t size, CUresult *why)
{
	double least = free_time(n, size, why);

	for (int i = 0; i < 2 && least >= 0; i++) {
		double again = free_time(n, size, why);

		least = again < least ? again : least;
	}
	return least;
}

void fact_few_pieces(void)
{
	size_t avail = 0, total = 0, all;
	CUresult info = cuda.cuMemGetInfo_v2(&avail, &total), why = CUDA_SUCCESS;
	char reason[96];
	double few, many;

	all = avail / 2 < 16 * GIB ? avail / 2 : 16 * GIB;
	few = least_free_time(4, all / 4, &why);
	many = few < 0 ? few : free_time(256, all / 256, &why);
	(void)snprintf(reason, sizeof(reason),
		       "the pieces cannot be had: error %d, info %d, %zu of %zu MiB free", why,
		       info, avail / (size_t)MIB, total / (size_t)MIB);
	if (few < 0 || many < 0)
		skip("few pieces are freed faster", reason);
	else if (many < 5)
		skip("few pieces are freed faster", "too quick to tell");
	else
		ok(many > 1.5 * few,
		   "freeing 4 pieces of %zu MiB takes %.1f ms, 256 pieces %.1f ms",
		   all / 4 / (size_t)MIB, few, many);
}

/* A function by the version that a program was built for: which symbol it gets. */
static bool shape(const char *name, int version, const void *symbol,
		  CUdriverProcAddressQueryResult expected)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	void *f = &status;

	return cuda.cuGetProcAddress_v2(name, &f, version, 0, &status) == CUDA_SUCCESS &&
	       f == symbol && status == expected;
}

void fact_proc_address(void)
{
	const CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS,
					     unknown = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
					     newer = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	void *f = NULL, *nothing = &f;
	int version = 0;

	(void)cuda.cuDriverGetVersion(&version);
	ok(shape("cuMemAlloc", 12000, *(void **)&cuda.cuMemAlloc_v2, found) &&
		   shape("cuMemAlloc", 3020, *(void **)&cuda.cuMemAlloc_v2, found) &&
		   shape("cuMemAlloc", version, *(void **)&cuda.cuMemAlloc_v2, found),
	   "cuGetProcAddress gives cuMemAlloc_v2 to programs of CUDA 3.2 and later");
	ok(shape("cuMemAlloc", 3010, *(void **)&cuda.cuMemAlloc, found),
	   "and the first shape to older ones");
	ok(shape("cuCtxCreate", 11030, *(void **)&cuda.cuCtxCreate_v2, found),
	   "cuCtxCreate is cuCtxCreate_v2 for a program of CUDA 11.3");
	ok(shape("cuMemAllocAsync", 11010, NULL, newer),
	   "what came later is VERSION_NOT_SUFFICIENT, a null pointer and no error");
	ok(shape("cuNobodyHasThis", 12000, NULL, unknown) &&
		   shape("cuMemAlloc_v2", 12000, NULL, unknown) && shape("", 12000, NULL, unknown),
	   "what nobody has, and a name with its suffix, is SYMBOL_NOT_FOUND");
	ok(cuda.cuGetProcAddress_v2("cuMemAlloc", &f, version + 10, 0, NULL) ==
			   CUDA_ERROR_INVALID_VALUE &&
		   cuda.cuGetProcAddress_v2("cuMemAlloc", &f, version, 4, NULL) ==
			   CUDA_ERROR_INVALID_VALUE,
	   "a version above the driver's, or an unknown flag, is INVALID_VALUE");
	f = nothing;
	ok(cuda.cuGetProcAddress("cuNobodyHasThis", &f, version, 0) == CUDA_ERROR_NOT_FOUND &&
		   f == nothing,
	   "the shape without a status says NOT_FOUND and writes nothing");
}

void fact_release(void)
{
	unsigned int flags;
	int active = -1;

	ok(cuda.cuDevicePrimaryCtxRelease_v2(ordinal) == CUDA_SUCCESS &&
		   cuda.cuDevicePrimaryCtxGetState(ordinal, &flags, &active) == CUDA_SUCCESS &&
		   active == 0,
	   "a released primary context is gone");
}
