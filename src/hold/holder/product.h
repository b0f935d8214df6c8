/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_PRODUCT_H
#define TENURE_HOLD_HOLDER_PRODUCT_H

/*
 * The kernels that multiply matrices on the tensor cores, in slices (kernels/gemm.cu says how one
 * is called): one for each range of compute capabilities, because what is fast on one generation is
 * not there on another.
 */

#include "gpu/cuda.h"

struct product {
	const char *name;
	int major_from, major_to; /* compute capability */
	const char *ptx;
	unsigned int threads;	    /* of a block */
	unsigned int blocks_per_sm; /* more than these would have no place */
	unsigned int shared_bytes;  /* of a block, asked for at the launch */
	unsigned int tile_bytes;    /* of C, that the kernel's counter counts */
};

/* The fastest first; the last has no name. */
extern const struct product products[];

/* Also "tenure_fill" is in this one. */
extern const char kernel_gemm[];

/*
 * The driver compiles the product, which takes 0.1 to 0.3 s. NULL where a card of that compute
 * capability has no such thing, or the driver does not take it. The context is the current one and
 * owns it.
 */
CUfunction product_load(const struct cuda *cu, const struct product *p, int major);

#endif
