/* SPDX-License-Identifier: MIT */
#ifndef TENURE_BASE_HASH_H
#define TENURE_BASE_HASH_H

/* Hashes for tables and for names that must be short; none is safe against who wants two alike. */

#include <stddef.h>
#include <stdint.h>

uint64_t hash_u64(uint64_t a, uint64_t b);
uint64_t hash_text(uint64_t seed, const char *text);

/*
 * FNV-1a of 32 bits. Names of instances, of claimers and of processes are made of it, on disk and
 * between versions: it must not change. sum is HASH_FNV32 for the first text, and for a further one
 * what the one before gave.
 */
#define HASH_FNV32 2166136261U
uint32_t hash_fnv32(uint32_t sum, const char *text);

/* A name that must be short: text, or where that has more than max bytes its beginning with the sum
 * of all of it ("abc-0123abcd"), max bytes as well. dst: max + 1 bytes, max at least 16; returned.
 */
char *hash_short_name(char *dst, size_t max, const char *text);

#endif
