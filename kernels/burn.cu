/* SPDX-License-Identifier: MIT */
/*
 * What `tenure burn` needs beside products (gemm.cu): matrices whose product the host knows, the
 * check of such products, and the test of memory. Compute capability 7.0 and later.
 *
 * The first two parameters are those of every kernel of ours (see light.ptx). What is found wrong
 * is added to a struct found in device memory: counters of 64 bits, and the first few of all.
 */
#include "device.h"

#define FOUND_MAX 16u

struct found {
	u64 looked_at; /* elements, or words of 32 bits */
	u64 wrong, nan, inf;
	u64 records; /* of which the first FOUND_MAX are kept */
	struct {
		u64 at; /* element, or byte */
		u32 got, want;
	} record[FOUND_MAX];
};

DEVICE u32 hash(u32 x)
{
	x = (x ^ x >> 16) * 0x7feb352du;
	x = (x ^ x >> 15) * 0x846ca68bu;
	return x ^ x >> 16;
}

DEVICE u32 bits_of(float x)
{
	u32 bits;

	asm("mov.b32 %0, %1;" : "=r"(bits) : "f"(x));
	return bits;
}

DEVICE u32 threads_before(void)
{
	return __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +
	       __nvvm_read_ptx_sreg_tid_x();
}

DEVICE u32 all_threads(void)
{
	return __nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
}

enum element {
	ELEMENT_F16,
	ELEMENT_BF16,
	ELEMENT_TF32,
	ELEMENT_E4M3,
	ELEMENT_F32,
	ELEMENT_F64,
};

/* A whole number as an element of a matrix. Those of 8 bits hold up to 16 exactly, and are never
 * more here. */
DEVICE void store_element(u64 row, u32 k, u32 element, int v)
{
	const float x = (float)v;
	const u32 bits = bits_of(x), exponent = bits >> 23 & 0xff;
	unsigned short half;

	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
	if (element == ELEMENT_F64)
		asm volatile("st.global.f64 [%0], %1;" ::"l"(row + 8ull * k), "d"((double)v));
	else if (element == ELEMENT_TF32 || element == ELEMENT_F32)
		asm volatile("st.global.f32 [%0], %1;" ::"l"(row + 4ull * k), "f"(x));
	else if (element == ELEMENT_E4M3)
		asm volatile("st.global.u8 [%0], %1;" ::"l"(row + k),
			     "r"(v ? (bits >> 24 & 0x80) | (exponent - 120) << 3 | (bits >> 20 & 7)
				   : 0));
	else
		asm volatile("st.global.u16 [%0], %1;" ::"l"(row + 2ull * k),
			     "h"(element == ELEMENT_F16 ? half : (unsigned short)(bits >> 16)));
}

/*
 * Fill an n x n matrix with whole numbers from -range to range, so that sums of their products are
 * exact in single precision, and rows that repeat after period, so that the host knows a product of
 * two such matrices by period x period sums. hold/holder/burn.c computes the same numbers.
 */
extern "C" GLOBAL void tenure_matrix(u64 stop, u64 duration_ns, u64 p, u32 n, u32 pitch,
				     u32 element, u32 period, u32 range, u32 seed)
{
	for (u64 i = threads_before(); i < (u64)n * n; i += all_threads()) {
		u32 row = (u32)(i / n), k = (u32)(i % n);
		u32 h = hash((seed + row % period) * 0x9e3779b9u + k * 0x85ebca6bu);

		store_element(p + (u64)row * pitch, k, element,
			      (int)(h % (2 * range + 1)) - (int)range);
	}
}

DEVICE void record(struct found *f, u64 at, u32 got, u32 want)
{
	u64 n = add_to(&f->records, 1);

	if (n >= FOUND_MAX)
		return;
	f->record[n].at = at;
	f->record[n].got = got;
	f->record[n].want = want;
}

/* An element that is not what it is to be, by its kind. */
DEVICE void note_wrong(struct found *f, u64 at, u32 got, u32 want)
{
	const bool special = (got & 0x7f800000) == 0x7f800000;

	add_to(!special ? &f->wrong : got & 0x7fffff ? &f->nan : &f->inf, 1);
	record(f, at, got, want);
}

DEVICE void load_four(u32 *v, u64 at)
{
	asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
		     : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
		     : "l"(at)
		     : "memory");
}

DEVICE void store_four(u64 at, const u32 *v)
{
	asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(at), "r"(v[0]), "r"(v[1]),
		     "r"(v[2]), "r"(v[3])
		     : "memory");
}

#define PERIOD 64u /* of what a table is for */
#define AHEAD  4u  /* vectors of a thread that are on their way at a time */

#define BAND 8u /* rows of a product that a block compares at a time */

/* A row, by 256 threads. */
DEVICE void check_row(struct found *found, u64 c, u64 first, u32 n, const u32 *want)
{
	for (u32 k = __nvvm_read_ptx_sreg_tid_x() * 4; k < n; k += AHEAD * 1024) {
		u32 got[AHEAD][4];

#pragma unroll
		for (u32 j = 0; j < AHEAD; j++)
			if (k + j * 1024 < n)
				load_four(got[j], c + 4 * (first + k + j * 1024));
#pragma unroll
		for (u32 j = 0; j < AHEAD; j++) {
			const u32 *w = want + k % PERIOD, *g = got[j];

			if (k + j * 1024 >= n ||
			    (g[0] == w[0] && g[1] == w[1] && g[2] == w[2] && g[3] == w[3]))
				continue;
			for (u32 i = 0; i < 4; i++)
				if (g[i] != w[i])
					note_wrong(found, first + k + j * 1024 + i, g[i], w[i]);
		}
	}
}

/*
 * Compare count products with the table of PERIOD x PERIOD elements: those in c from buffer first
 * on, in turn. n is a multiple of BAND; turns begin at 0.
 */
extern "C" GLOBAL __attribute__((launch_bounds(256))) void
tenure_check(u64 stop, u64 duration_ns, struct turns *turns, u64 c, u64 table, struct found *found,
	     u32 n, u32 first, u32 count, u32 buffers)
{
	static SHARED u32 known[PERIOD * PERIOD];
	static SHARED u64 word;
	struct turn turn = begin_turns(stop, duration_ns, turns);
	const u32 bands = n / BAND;
	u64 band, looked_at = 0;

	for (u32 i = __nvvm_read_ptx_sreg_tid_x() * 4; i < PERIOD * PERIOD; i += 1024)
		load_four(&known[i], table + 4 * i);
	while ((band = next_tile(&word, &turn)) < (u64)bands * count) {
		const u64 buffer = (first + band / bands) % buffers;
		const u32 row = (u32)(band % bands) * BAND;

		for (u32 r = row; r < row + BAND; r++)
			check_row(found, c, (buffer * n + r) * n, n, &known[r % PERIOD * PERIOD]);
		looked_at += BAND * n;
	}
	if (__nvvm_read_ptx_sreg_tid_x() == 0)
		add_to(&found->looked_at, looked_at);
}

enum pattern {
	PATTERN_NONE,	 /* not looked at, or not written */
	PATTERN_WORD,	 /* the seed in every word */
	PATTERN_ADDRESS, /* a word's number, and the seed */
	PATTERN_RANDOM,	 /* hashes of that */
};

/* The four words of a vector of 16 bytes, by its number. */
DEVICE void pattern_of(u32 *v, u32 pattern, u32 seed, u64 vector)
{
	const u32 low = (u32)vector, high = (u32)(vector >> 32);
	const u32 number = low ^ high * 0x9e3779b9u;
	const u32 base = pattern == PATTERN_WORD    ? seed :
			 pattern == PATTERN_ADDRESS ? (number << 2) ^ seed :
						      hash(number ^ seed);
	const u32 step = pattern == PATTERN_WORD    ? 0 :
			 pattern == PATTERN_ADDRESS ? 1 :
						      0x9e3779b9u;

#pragma unroll
	for (u32 i = 0; i < 4; i++)
		v[i] = base + i * step;
}

#define CHUNK  (1u << 20) /* bytes that a block takes at a time */
#define STRIDE 4096u	  /* a vector for each of 256 threads */

DEVICE void compare_vector(struct found *found, u64 at, const u32 *v, const u32 *want)
{
	if (v[0] == want[0] && v[1] == want[1] && v[2] == want[2] && v[3] == want[3])
		return;
	for (u32 i = 0; i < 4; i++)
		if (v[i] != want[i]) {
			add_to(&found->wrong, 1);
			record(found, at + 4 * i, v[i], want[i]);
		}
}

/*
 * Go once through bytes of memory, of which turns say how far the launches before have come:
 * what is there has to be the first pattern, and the second is left behind. The last chunk may be
 * shorter; bytes is a multiple of 16.
 */
extern "C" GLOBAL __attribute__((launch_bounds(256))) void
tenure_memory(u64 stop, u64 duration_ns, struct turns *turns, u64 p, u64 bytes,
	      struct found *found, u32 expected, u32 expected_seed, u32 written, u32 written_seed)
{
	static SHARED u64 word;
	const u32 thread = __nvvm_read_ptx_sreg_tid_x();
	const u64 chunks = (bytes + CHUNK - 1) / CHUNK;
	struct turn turn = begin_turns(stop, duration_ns, turns);
	u64 chunk, looked_at = 0;

	while ((chunk = next_tile(&word, &turn)) < chunks) {
		const u64 from = chunk * CHUNK, to = from + CHUNK < bytes ? from + CHUNK : bytes;

		for (u64 at = from + thread * 16; at < to; at += AHEAD * STRIDE) {
			u32 v[AHEAD][4], want[4];

#pragma unroll
			for (u32 j = 0; j < AHEAD; j++)
				if (expected && at + j * STRIDE < to)
					load_four(v[j], p + at + j * STRIDE);
#pragma unroll
			for (u32 j = 0; j < AHEAD; j++) {
				const u64 here = at + j * STRIDE;

				if (here >= to)
					break;
				if (expected) {
					pattern_of(want, expected, expected_seed, here / 16);
					compare_vector(found, here, v[j], want);
				}
				if (written) {
					pattern_of(want, written, written_seed, here / 16);
					store_four(p + here, want);
				}
			}
		}
		looked_at += expected ? (to - from) / 4 : 0;
	}
	if (thread == 0)
		add_to(&found->looked_at, looked_at);
}
