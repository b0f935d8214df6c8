/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"

uint64_t hash_u64(uint64_t a, uint64_t b)
{
	uint64_t z = a * 0x9e3779b97f4a7c15ULL + b + 0x632be59bd9b4e019ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* FNV-1a of 64 bits, and mixed. */
uint64_t hash_text(uint64_t seed, const char *text)
{
	uint64_t h = 0xcbf29ce484222325ULL ^ seed;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
	return hash_u64(h, seed);
}

char *hash_short_name(char *dst, size_t max, const char *text)
{
	size_t len = strlen(text), tail = strlen("-01234567");

	if (len <= max)
		return str_print(dst, max + 1, "%s", text);
	return str_print(dst, max + 1, "%.*s-%08" PRIx32, (int)(max - tail), text,
			 hash_fnv32(HASH_FNV32, text));
}

uint32_t hash_fnv32(uint32_t sum, const char *text)
{
	for (; *text; text++)
		sum = (sum ^ (unsigned char)*text) * 16777619U;
	return sum;
}
