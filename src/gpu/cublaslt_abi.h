/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_CUBLASLT_ABI_H
#define TENURE_GPU_CUBLASLT_ABI_H

/*
 * The part of cuBLASLt, NVIDIA's library of matrix products, that tenure calls and the simulator
 * offers, in our own words. Source: NVIDIA's "cuBLAS Library" reference for CUDA 11.0 to 13.0,
 * chapter "Using the cuBLASLt API". Names and numbers are theirs, so that they can be looked up
 * there.
 *
 * Results are 0 or an error; matrices are column by column; the work is done on the device of the
 * current context, in the order of a stream.
 */

#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda_abi.h"

typedef int cublasStatus_t; /* 0: success */
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference_t;

typedef struct {
	uint64_t data[8];
} cublasLtMatmulAlgo_t;

typedef struct {
	cublasLtMatmulAlgo_t algo;
	size_t workspaceSize;
	cublasStatus_t state;
	float wavesCount;
	int reserved[4];
} cublasLtMatmulHeuristicResult_t;

enum { CUBLAS_OP_N, CUBLAS_OP_T };
enum { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14, CUDA_R_8F_E4M3 = 28 };
enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum {
	CUBLASLT_MATMUL_DESC_TRANSA = 3,
	CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17,
	CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18,
	CUBLASLT_MATMUL_DESC_FAST_ACCUM = 25,
};
enum { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1 };

#endif
