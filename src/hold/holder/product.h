/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_PRODUCT_H
#define TENURE_HOLD_HOLDER_PRODUCT_H

/*
 * The kernels that multiply matrices in slices (kernels/gemm.cu says how one is called), on tensor
 * cores where cards have any for the precision: one for each range of compute capabilities, because
 * what is fast on one generation is not there on another.
 */

#include <stdbool.h>
#include <stdint.h>

#include "gpu/cuda.h"
#include "hold/burn.h"

struct product {
	const char *name;
	int from, to; /* compute capability: 90 is 9.0 */
	const char *ptx, *entry;
	enum precision precision;   /* that the text is for; it may have variants */
	unsigned int threads;	    /* of a block */
	unsigned int blocks_per_sm; /* more than these would have no place */
	unsigned int shared_bytes;  /* of a block, asked for at the launch */
	unsigned int tile_elements; /* of a product: what the kernel counts */
	bool as_fast;		    /* within 4 % of cuBLASLt on such a card (docs/benchmarks.md) */
};

/* Of one precision the fastest first; the last has no name. */
extern const struct product products[];

/* Also "tenure_fill" is in this one. */
extern const char kernel_gemm[];

#define PRODUCT_SIDE_STEP 2048U

/* Pure: N of an N x N x N product for a card of total bytes: the multiple of 2048 nearest to the
 * size whose three matrices in half precision are 5 % of it (24 GiB 14336, 48 GiB 20480, 80 GiB
 * 26624). */
uint32_t product_side(uint64_t total_bytes);

/*
 * The driver compiles the product, which takes 0.1 to 0.3 s. NULL where it is not for cards of that
 * compute capability, has no such precision, or the driver does not take it. The current context
 * owns it.
 */
CUfunction product_load(const struct cuda *cu, const struct product *p, int capability,
			enum precision precision);

/* The first of them that can be had, and *ret; NULL: there is none. */
CUfunction product_find(const struct cuda *cu, int capability, enum precision precision,
			const struct product **ret);

/*
 * Pure: the word that a product leaves for that sum: single precision, or a double folded into 31
 * bits, each of which depends on every bit of it at most once; as in kernels/double.h.
 */
uint32_t product_word(enum precision precision, int64_t sum);

/* What a launch takes, and the launch. */
struct product_args {
	CUdeviceptr stop;     /* a word: not 0 ends it */
	uint64_t duration_ns; /* at most that long, and the rest of a tile */
	CUdeviceptr turns;    /* 16 bytes of device memory: the tiles so far, and a time */
	CUdeviceptr a, b,
		c;	  /* n x n elements; the same, transposed; products, in words of 32 bits */
	uint32_t n;	  /* a multiple of 256 */
	uint32_t bytes;	  /* of an element of a and b */
	uint32_t buffers; /* so many products have room in c */
};
CUresult product_launch(const struct cuda *cu, const struct product *p, CUfunction f,
			unsigned int sm_count, CUstream stream, struct product_args *args);

#endif
