/* SPDX-License-Identifier: MIT */
#include "base/sha256.h"

#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define BLOCK  64
#define LENGTH 8 /* of the length in bits, at the end of the last block */

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[BLOCK] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned int n)
{
	return x >> n | x << (32 - n);
}

/* One of 64 rounds, after which each word has the place of the next one: instead of moving them,
 * which takes as long as all the rest, the next round is given them in that order. */
static inline __attribute__((always_inline)) void mix(const uint32_t *a, const uint32_t *b,
						      const uint32_t *c, uint32_t *d,
						      const uint32_t *e, const uint32_t *f,
						      const uint32_t *g, uint32_t *h, uint32_t word)
{
	uint32_t choice = (*e & *f) ^ (~*e & *g);
	uint32_t majority = (*a & *b) ^ (*a & *c) ^ (*b & *c);
	uint32_t t = *h + (rotate(*e, 6) ^ rotate(*e, 11) ^ rotate(*e, 25)) + choice + word;

	*d += t;
	*h = t + (rotate(*a, 2) ^ rotate(*a, 13) ^ rotate(*a, 22)) + majority;
}

static void add_block(uint32_t state[8], const unsigned char *block)
{
	uint32_t w[BLOCK], s[8];

	for (size_t i = 0; i < 16; i++) {
		memcpy(&w[i], block + 4 * i, 4);
		w[i] = be32toh(w[i]);
	}
	for (size_t i = 16; i < BLOCK; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
		       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
	memcpy(s, state, sizeof(s));
	for (size_t i = 0; i < BLOCK; i += 8) {
		const uint32_t *k = K + i, *v = w + i;

		mix(s + 0, s + 1, s + 2, s + 3, s + 4, s + 5, s + 6, s + 7, k[0] + v[0]);
		mix(s + 7, s + 0, s + 1, s + 2, s + 3, s + 4, s + 5, s + 6, k[1] + v[1]);
		mix(s + 6, s + 7, s + 0, s + 1, s + 2, s + 3, s + 4, s + 5, k[2] + v[2]);
		mix(s + 5, s + 6, s + 7, s + 0, s + 1, s + 2, s + 3, s + 4, k[3] + v[3]);
		mix(s + 4, s + 5, s + 6, s + 7, s + 0, s + 1, s + 2, s + 3, k[4] + v[4]);
		mix(s + 3, s + 4, s + 5, s + 6, s + 7, s + 0, s + 1, s + 2, k[5] + v[5]);
		mix(s + 2, s + 3, s + 4, s + 5, s + 6, s + 7, s + 0, s + 1, k[6] + v[6]);
		mix(s + 1, s + 2, s + 3, s + 4, s + 5, s + 6, s + 7, s + 0, k[7] + v[7]);
	}
	for (size_t i = 0; i < 8; i++)
		state[i] += s[i];
}

void sha256(const void *data, size_t len, unsigned char ret[SHA256_SIZE])
{
	/* The same of the square roots of the first 8 primes. */
	uint32_t state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	unsigned char last[2 * BLOCK] = { 0 };
	const unsigned char *p = data;
	size_t rest = len % BLOCK, end = rest + 1 + LENGTH <= BLOCK ? BLOCK : 2 * BLOCK;
	uint64_t bits = htobe64((uint64_t)len * 8);

	for (size_t i = 0; i + BLOCK <= len; i += BLOCK)
		add_block(state, p + i);
	if (rest)
		memcpy(last, p + len - rest, rest);
	last[rest] = 0x80;
	memcpy(last + end - LENGTH, &bits, LENGTH);
	for (size_t i = 0; i < end; i += BLOCK)
		add_block(state, last + i);
	for (size_t i = 0; i < 8; i++) {
		uint32_t word = htobe32(state[i]);

		memcpy(ret + 4 * i, &word, sizeof(word));
	}
}

void sha256_hex(const void *data, size_t len, char ret[SHA256_HEX_MAX])
{
	unsigned char digest[SHA256_SIZE];

	sha256(data, len, digest);
	for (size_t i = 0; i < SHA256_SIZE; i++)
		(void)snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

void sha256_hmac(const void *key, size_t key_len, const void *data, size_t len,
		 unsigned char ret[SHA256_SIZE])
{
	unsigned char block[BLOCK] = { 0 };
	size_t inner_len = BLOCK + len;
	cleanup_free unsigned char *inner = xmalloc(inner_len);
	unsigned char outer[BLOCK + SHA256_SIZE];

	if (key_len > BLOCK)
		sha256(key, key_len, block);
	else if (key_len)
		memcpy(block, key, key_len);
	for (size_t i = 0; i < BLOCK; i++) {
		inner[i] = block[i] ^ 0x36;
		outer[i] = block[i] ^ 0x5c;
	}
	if (len)
		memcpy(inner + BLOCK, data, len);
	sha256(inner, inner_len, outer + BLOCK);
	sha256(outer, sizeof(outer), ret);
}
