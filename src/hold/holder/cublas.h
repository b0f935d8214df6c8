/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_CUBLAS_H
#define TENURE_HOLD_HOLDER_CUBLAS_H

/*
 * Products of a burn by NVIDIA's library, where it is there: on generations of cards for which no
 * kernel of ours is as fast. A launch of it cannot be told to stop, so a product is computed in
 * bands of rows, each of a few milliseconds, and a slice is as many of them as fit.
 *
 * Not thread-safe. All is of the context that is current when it is opened.
 */

#include <stdint.h>

#include "base/err.h"
#include "gpu/cuda_abi.h"
#include "hold/burn.h"
#include "hold/holder/asking.h"

#define CUBLAS_WORKSPACE (32ULL << 20) /* bytes that it wants beside the matrices */

struct cublas;

struct cublas_job {
	enum precision precision;
	uint32_t n;			/* of n x n elements; a multiple of 256 */
	CUdeviceptr a, b, c, workspace; /* as those of a product (product.h) */
};

/* 0 and *ret, which lives as long as the process; -ENOENT, -ENOSYS: there is none; -EIO: it does
 * not work here; and e. */
int cublas_open(struct cublas **ret, struct err *e);

/* "cuBLASLt 13.1" */
const char *cublas_name(const struct cublas *c);

/* Begin with such products. 0; -ENOSYS: it has none of that precision for this card; and e. */
int cublas_begin(struct cublas *c, const struct cublas_job *job, struct err *e);

/* From the first row of the first product again. */
void cublas_restart(struct cublas *c);

/* Launch what takes about that long, at least one band, and note each in a. Products are written to
 * so many buffers in turn. */
CUresult cublas_launch(struct cublas *c, CUstream stream, uint64_t duration_ns, uint32_t buffers,
		       struct asking *a);

/* How long the last launch has taken; the next ones go by it. */
void cublas_took(struct cublas *c, uint64_t ns);

/* Rows of products that were launched since the beginning: n for each whole one. */
uint64_t cublas_rows(const struct cublas *c);

/* Pure: into how many bands a product is best cut, when one of `bands` took that long. */
uint32_t cublas_bands(uint32_t bands, uint64_t band_ns);

#endif
