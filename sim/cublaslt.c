/* SPDX-License-Identifier: MIT */

/*
 * A library with the SONAME and those calls of cuBLASLt that tenure uses (gpu/cublaslt_abi.h), for
 * tests of what is computed with it: its products take the time that they would on the device of
 * the current context, and compute nothing. It is not on the library path of a simulated machine:
 * real ones do not have it in general.
 *
 * In the environment TENURE_SIM_CUBLASLT=refuse, it has no algorithm for anything.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cublaslt_abi.h"

#define INVALID	      7
#define NOT_SUPPORTED 15
#define FAILED	      13

/* To the simulated driver it is one of tenure's kernels: it takes as long as the second parameter
 * says, and draws the power of products. */
static const char text[] = ".version 6.3\n.target sm_70\n.address_size 64\n"
			   ".visible .entry tenure_matmul(.param .u64 stop, .param .u64 ns)\n"
			   "{\n\tret;\n}\n";

struct cublasLtContext {
	CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **);
	CUfunction f;
	double rate; /* operations per second with halves */
	int capability;
	unsigned int sms;
};

struct cublasLtMatmulDescOpaque {
	int compute, transposed;
};

struct cublasLtMatrixLayoutOpaque {
	int type;
	uint64_t rows, cols;
};

struct cublasLtMatmulPreferenceOpaque {
	size_t workspace;
};

#define EXPORT __attribute__((visibility("default")))

EXPORT size_t cublasLtGetVersion(void)
{
	return 130103;
}

static void *driver(const char *name)
{
	void *library = dlopen(CUDA_SONAME, RTLD_NOW | RTLD_LOCAL);

	return library ? dlsym(library, name) : NULL;
}

static cublasStatus_t ask_device(struct cublasLtContext *c)
{
	CUresult (*device)(CUdevice *) = NULL;
	CUresult (*attribute)(int *, CUdevice_attribute, CUdevice) = NULL;
	int major, minor, sms, khz;
	CUdevice dev;

	*(void **)&device = driver("cuCtxGetDevice");
	*(void **)&attribute = driver("cuDeviceGetAttribute");
	if (!device || !attribute || device(&dev) != CUDA_SUCCESS)
		return FAILED;
	(void)attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);
	(void)attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
	(void)attribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev);
	(void)attribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, dev);
	c->capability = major * 10 + minor;
	c->sms = (unsigned int)sms;
	c->rate = 0.65 * (major >= 9 ? 4096 : c->capability == 80 ? 2048 : 1024) * sms * khz * 1e3;
	return 0;
}

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *ret)
{
	CUresult (*load)(CUmodule *, const void *) = NULL;
	CUresult (*function)(CUfunction *, CUmodule, const char *) = NULL;
	struct cublasLtContext *c = calloc(1, sizeof(*c));
	CUmodule module;

	*(void **)&load = driver("cuModuleLoadData");
	*(void **)&function = driver("cuModuleGetFunction");
	if (!c || !load || !function || ask_device(c) != 0 || load(&module, text) != CUDA_SUCCESS ||
	    function(&c->f, module, "tenure_matmul") != CUDA_SUCCESS) {
		free(c);
		return FAILED;
	}
	*(void **)&c->launch = driver("cuLaunchKernel");
	*ret = c;
	return 0;
}

EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *ret, int compute, int scale)
{
	*ret = calloc(1, sizeof(**ret));
	if (scale != CUDA_R_32F)
		return INVALID;
	(*ret)->compute = compute;
	return 0;
}

EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, int attribute,
						     const void *value, size_t size)
{
	if (attribute == CUBLASLT_MATMUL_DESC_TRANSA && size == sizeof(int32_t))
		memcpy(&d->transposed, value, size);
	else if (attribute != CUBLASLT_MATMUL_DESC_FAST_ACCUM || size != 1)
		return INVALID;
	return 0;
}

EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
	free(d);
	return 0;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *ret, int type,
						 uint64_t rows, uint64_t cols, int64_t pitch)
{
	if (pitch < (int64_t)rows)
		return INVALID;
	*ret = calloc(1, sizeof(**ret));
	**ret = (struct cublasLtMatrixLayoutOpaque){ .type = type, .rows = rows, .cols = cols };
	return 0;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
	free(l);
	return 0;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *ret)
{
	*ret = calloc(1, sizeof(**ret));
	return 0;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
							   int attribute, const void *value,
							   size_t size)
{
	if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES || size != sizeof(p->workspace))
		return INVALID;
	memcpy(&p->workspace, value, size);
	return 0;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
	free(p);
	return 0;
}

/* The shapes have to agree as the library wants them to, column by column. */
static int agree(const struct cublasLtMatmulDescOpaque *d,
		 const struct cublasLtMatrixLayoutOpaque *a,
		 const struct cublasLtMatrixLayoutOpaque *b,
		 const struct cublasLtMatrixLayoutOpaque *c)
{
	return d->transposed == CUBLAS_OP_T && a->rows == b->rows && a->cols == c->rows &&
	       b->cols == c->cols && a->type == b->type && c->type == CUDA_R_32F;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
	cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a,
	cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t to,
	cublasLtMatmulPreference_t p, int most, cublasLtMatmulHeuristicResult_t *ret, int *n)
{
	const char *order = getenv("TENURE_SIM_CUBLASLT");

	*n = 0;
	if (!agree(d, a, b, c) || most < 1)
		return INVALID;
	if ((order && strcmp(order, "refuse") == 0) ||
	    (a->type == CUDA_R_8F_E4M3 && h->capability < 89))
		return NOT_SUPPORTED;
	*ret = (cublasLtMatmulHeuristicResult_t){ .algo = { { 1 } },
						  .workspaceSize = p->workspace };
	*n = 1;
	return 0;
}

static double rate_of(const struct cublasLtContext *h, const struct cublasLtMatmulDescOpaque *d,
		      int type)
{
	if (type == CUDA_R_8F_E4M3)
		return h->rate * 1.98;
	if (type == CUDA_R_32F)
		return h->rate / (d->compute == CUBLAS_COMPUTE_32F ? 16 : 2);
	return h->rate;
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void *alpha,
				     CUdeviceptr a_at, cublasLtMatrixLayout_t a, CUdeviceptr b_at,
				     cublasLtMatrixLayout_t b, const void *beta, CUdeviceptr c_at,
				     cublasLtMatrixLayout_t c, CUdeviceptr to_at,
				     cublasLtMatrixLayout_t to, const cublasLtMatmulAlgo_t *algo,
				     CUdeviceptr workspace, size_t workspace_bytes, CUstream stream)
{
	const double flop = 2.0 * (double)a->rows * (double)a->cols * (double)b->cols;
	uint64_t stop = 0, ns = (uint64_t)(flop / rate_of(h, d, a->type) * 1e9);
	void *params[] = { &stop, &ns };

	if (!agree(d, a, b, c) || algo->data[0] != 1 || to_at % 16 || workspace_bytes == 0)
		return INVALID;
	return h->launch(h->f, h->sms, 1, 1, 256, 1, 1, 0, stream, params, NULL) == CUDA_SUCCESS
		       ? 0
		       : FAILED;
}
