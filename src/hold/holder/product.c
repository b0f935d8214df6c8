/* SPDX-License-Identifier: MIT */
#include "hold/holder/product.h"

#include <limits.h>
#include <stddef.h>

extern const char kernel_gemm_sm80[];
extern const char kernel_gemm_sm90a[];

const struct product products[] = {
	{ "9.0", 9, 9, kernel_gemm_sm90a, 256, 1, 197632, 128 * 256 * 4 },
	{ "8.0", 8, INT_MAX, kernel_gemm_sm80, 256, 1, 98304, 128 * 256 * 4 },
	{ "7.0", 7, INT_MAX, kernel_gemm, 128, 4, 0, 64 * 64 * 4 },
	{ 0 },
};

CUfunction product_load(const struct cuda *cu, const struct product *p, int major)
{
	const CUfunction_attribute shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
	CUmodule module;
	CUfunction f;

	if (major < p->major_from || major > p->major_to ||
	    cu->module_load(&module, p->ptx) != CUDA_SUCCESS ||
	    cu->module_function(&f, module, "tenure_gemm") != CUDA_SUCCESS ||
	    cu->function_set(f, shared, (int)p->shared_bytes) != CUDA_SUCCESS)
		return NULL;
	return f;
}
