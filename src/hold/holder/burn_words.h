/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_BURN_WORDS_H
#define TENURE_HOLD_HOLDER_BURN_WORDS_H

/*
 * What kernels of a burn (kernels/burn.cu) and the host have in common: the words in device memory
 * in which they count, and the patterns that they write and look for.
 */

#include <stdint.h>

#define BURN_FOUND_MAX	   16U
#define BURN_CHUNK_BYTES   (1ULL << 20) /* of memory that a block takes at a time */
#define BURN_THREADS	   256U
#define BURN_BLOCKS_PER_SM 8U

struct turns {
	uint64_t next, stopped_ns;
};

struct found {
	uint64_t looked_at, wrong, nan, inf, records;
	struct {
		uint64_t at;
		uint32_t got, want;
	} record[BURN_FOUND_MAX];
};

enum pattern { PATTERN_NONE, PATTERN_WORD, PATTERN_ADDRESS, PATTERN_RANDOM };

static inline uint32_t burn_hash(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352dU;
	x = (x ^ x >> 15) * 0x846ca68bU;
	return x ^ x >> 16;
}

/* The word of that number in memory that is filled with PATTERN_RANDOM of seed. */
static inline uint32_t burn_random_word(uint64_t number, uint32_t seed)
{
	const uint64_t vector = number / 4;
	const uint32_t mixed = (uint32_t)vector ^ (uint32_t)(vector >> 32) * 0x9e3779b9U;

	return burn_hash(mixed ^ seed) + (uint32_t)(number % 4) * 0x9e3779b9U;
}

#endif
