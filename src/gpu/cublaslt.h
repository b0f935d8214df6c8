/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_CUBLASLT_H
#define TENURE_GPU_CUBLASLT_H

/*
 * cuBLASLt as a table of symbols loaded at run time. It comes with the CUDA toolkit and with
 * frameworks, not with the driver: that there is none is normal. Its own memory on the device, tens
 * of MiB, is taken when its kernels are loaded.
 */

#include "base/err.h"
#include "gpu/cublaslt_abi.h"

/* X(field, arguments, name): all are required, and have been there since CUDA 11. */
#define CUBLASLT_SYMBOLS(X)                                                                        \
	X(version, size_t, (void), "cublasLtGetVersion")                                           \
	X(create, cublasStatus_t, (cublasLtHandle_t *), "cublasLtCreate")                          \
	X(desc_create, cublasStatus_t, (cublasLtMatmulDesc_t *, int, int),                         \
	  "cublasLtMatmulDescCreate")                                                              \
	X(desc_set, cublasStatus_t, (cublasLtMatmulDesc_t, int, const void *, size_t),             \
	  "cublasLtMatmulDescSetAttribute")                                                        \
	X(desc_destroy, cublasStatus_t, (cublasLtMatmulDesc_t), "cublasLtMatmulDescDestroy")       \
	X(layout_create, cublasStatus_t,                                                           \
	  (cublasLtMatrixLayout_t *, int, uint64_t, uint64_t, int64_t),                            \
	  "cublasLtMatrixLayoutCreate")                                                            \
	X(layout_destroy, cublasStatus_t, (cublasLtMatrixLayout_t), "cublasLtMatrixLayoutDestroy") \
	X(preference_create, cublasStatus_t, (cublasLtMatmulPreference_t *),                       \
	  "cublasLtMatmulPreferenceCreate")                                                        \
	X(preference_set, cublasStatus_t, (cublasLtMatmulPreference_t, int, const void *, size_t), \
	  "cublasLtMatmulPreferenceSetAttribute")                                                  \
	X(preference_destroy, cublasStatus_t, (cublasLtMatmulPreference_t),                        \
	  "cublasLtMatmulPreferenceDestroy")                                                       \
	X(heuristic, cublasStatus_t,                                                               \
	  (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, \
	   cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,        \
	   cublasLtMatmulHeuristicResult_t *, int *),                                              \
	  "cublasLtMatmulAlgoGetHeuristic")                                                        \
	X(matmul, cublasStatus_t,                                                                  \
	  (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, CUdeviceptr,                      \
	   cublasLtMatrixLayout_t, CUdeviceptr, cublasLtMatrixLayout_t, const void *, CUdeviceptr, \
	   cublasLtMatrixLayout_t, CUdeviceptr, cublasLtMatrixLayout_t,                            \
	   const cublasLtMatmulAlgo_t *, CUdeviceptr, size_t, CUstream),                           \
	  "cublasLtMatmul")

#define CUBLASLT_DECLARE_FIELD_(field, type, arguments, name) type(*field) arguments;

struct cublaslt {
	CUBLASLT_SYMBOLS(CUBLASLT_DECLARE_FIELD_)
	void *library;
};

/*
 * By the library path, then where the toolkit is installed. 0; -ENOENT: there is none, or what is
 * there cannot be loaded; -ENOSYS: a symbol is missing; e says which. Never unloaded: the process
 * ends instead.
 */
int cublaslt_load(struct cublaslt *c, struct err *e);

#endif
