/* SPDX-License-Identifier: MIT */

/*
 * What kernels of tenure leave in memory. None is computed: each is known by its name, and of what
 * it would leave there are the counters that its host reads, as far as the card would have come in
 * its time. Only patterns in little memory, which are copied and compared, are really there.
 * Results are there as soon as it is launched, as copies are done when they are asked for.
 */
#include "cuda_sim.h"

#include <string.h>

#include "gpu/cuda_abi.h"

#define FOUND_MAX    16
#define CHUNK_BYTES  (1ULL << 20)
#define LITTLE	     (64 * CHUNK_BYTES)
#define SAMPLE_BYTES (CHUNK_BYTES / 16)
#define FILLED	     256 /* chunks of much memory */

/* As in kernels/device.h and kernels/burn.cu. */
struct turns {
	uint64_t next, stopped_ns;
};

struct found {
	uint64_t looked_at, wrong, nan, inf, records;
	struct {
		uint64_t at;
		uint32_t got, want;
	} record[FOUND_MAX];
};

struct arguments {
	const char *kernel;
	void **at;
	unsigned int threads; /* of a block */
	const struct sim_dev *dev;
};

static uint64_t long_of(const struct arguments *a, int i)
{
	uint64_t v;

	memcpy(&v, a->at[i], sizeof(v));
	return v;
}

static uint32_t word_of(const struct arguments *a, int i)
{
	uint32_t v;

	memcpy(&v, a->at[i], sizeof(v));
	return v;
}

/* What is left of a rate on a card that is slow. */
static double slowed(const struct sim_dev *d, double rate)
{
	return rate * (100 - d->health.slowness) / 100;
}

/* Operations per clock of a multiprocessor, by compute capability: this one and newer. */
static const struct peak {
	int cc;
	double halves, single, twice; /* on tensor cores; without; in double precision on either */
} peaks[] = {
	{ 90, 4096, 256, 256 }, { 86, 1024, 256, 4 }, { 80, 2048, 128, 128 },
	{ 71, 1024, 128, 4 },	{ 0, 1024, 128, 64 },
};

/* Operations per second of products of elements of so many bytes: the share of the peak that an
 * H200 has been measured to have. */
static double product_rate(const struct sim_dev *d, const char *kernel, uint32_t bytes)
{
	const struct peak *p = peaks;
	double per_clock;

	while (d->cc_major * 10 + d->cc_minor < p->cc)
		p++;
	if (strcmp(kernel, "tenure_gemm_f64") == 0)
		per_clock = 0.85 * p->twice;
	else if (strcmp(kernel, "tenure_gemm_f32") == 0)
		per_clock = 0.75 * p->single;
	else
		per_clock = 0.63 * p->halves * (bytes == 1 ? 1.98 : bytes == 4 ? 0.565 : 1);
	return slowed(d, per_clock * d->sm_count * d->clock_sm_mhz * 1e6);
}

/* Elements of a tile of that kernel. */
static double tile_of(const char *kernel, unsigned int threads)
{
	if (strcmp(kernel, "tenure_gemm") != 0)
		return 128 * 128;
	return threads == 128 ? 64 * 64 : 128 * 256;
}

/* Bytes per second, read and written: eight tenths of the bus. */
static double memory_rate(const struct sim_dev *d)
{
	return slowed(d, 0.8 * d->bus_bits / 8.0 * d->clock_mem_mhz * 2e6);
}

static void record(struct found *f, uint64_t at, uint32_t got, uint32_t want)
{
	if (f->records < FOUND_MAX) {
		f->record[f->records].at = at;
		f->record[f->records].got = got;
		f->record[f->records].want = want;
	}
	f->records++;
}

/* (stop, duration_ns, turns, a, b, c, n, bytes, buffers) */
static void leave_gemm(const struct arguments *a)
{
	const double tile = tile_of(a->kernel, a->threads);
	const double seconds = (double)long_of(a, 1) / 1e9, n = word_of(a, 6);
	struct turns t;

	if (cu_read(&t, long_of(a, 2), sizeof(t)) != CUDA_SUCCESS)
		return;
	t.next += 1 + (uint64_t)(product_rate(a->dev, a->kernel, word_of(a, 7)) * seconds /
				 (tile * 2 * n));
	(void)cu_write(long_of(a, 2), &t, sizeof(t));
}

/* (stop, duration_ns, turns, c, table, found, n, first, count, buffers) */
static void leave_check(const struct arguments *a)
{
	const struct sim_health *h = &a->dev->health;
	const uint64_t elements = (uint64_t)word_of(a, 6) * word_of(a, 6) * word_of(a, 8);
	uint32_t want = 0;
	struct found f;

	if (cu_read(&f, long_of(a, 5), sizeof(f)) != CUDA_SUCCESS)
		return;
	(void)cu_read(&want, long_of(a, 4), sizeof(want));
	f.looked_at += elements;
	f.wrong += h->wrong_results;
	f.nan += h->nan_results;
	f.inf += h->inf_results;
	for (uint32_t i = 0; i < h->wrong_results && i < FOUND_MAX; i++)
		record(&f, i * 4096ULL, want ^ 1U << 20, want);
	if (h->nan_results)
		record(&f, 1, 0x7fc00000, want);
	if (h->inf_results)
		record(&f, 2, 0x7f800000, want);
	(void)cu_write(long_of(a, 5), &f, sizeof(f));
	if (h->wrong_reference) {
		want = 0xdeadbeef; /* no sum is */
		(void)cu_write(long_of(a, 4), &want, sizeof(want));
	}
}

enum pattern { PATTERN_NONE, PATTERN_WORD, PATTERN_ADDRESS, PATTERN_RANDOM };

static uint32_t hash(uint32_t x)
{
	x = (x ^ x >> 16) * 0x7feb352dU;
	x = (x ^ x >> 15) * 0x846ca68bU;
	return x ^ x >> 16;
}

/* Words from that number on, which begins a vector of four, in memory that is filled with a
 * pattern. */
static void pattern_words(uint32_t pattern, uint32_t seed, uint64_t number, uint32_t *words,
			  size_t count)
{
	const uint32_t step = pattern == PATTERN_WORD	   ? 0
			      : pattern == PATTERN_ADDRESS ? 1
							   : 0x9e3779b9U;

	for (size_t i = 0; i < count; i++) {
		const uint64_t vector = (number + i) / 4;
		const uint32_t mixed = (uint32_t)vector ^ (uint32_t)(vector >> 32) * 0x9e3779b9U;

		if (i % 4)
			words[i] = words[i - 1] + step;
		else if (pattern == PATTERN_WORD)
			words[i] = seed;
		else if (pattern == PATTERN_ADDRESS)
			words[i] = (mixed << 2) ^ seed;
		else
			words[i] = hash(mixed ^ seed);
	}
}

/* A chunk of little memory is really written, and its beginning compared: a processor is not as
 * quick as a card, and has others to serve. */
static void do_chunk(const struct arguments *a, uint64_t chunk, struct found *f)
{
	static __thread uint32_t words[CHUNK_BYTES / 4], want[SAMPLE_BYTES / 4];
	const uint64_t from = chunk * CHUNK_BYTES, left = long_of(a, 4) - from;
	const size_t n = left < CHUNK_BYTES ? left : CHUNK_BYTES;
	const size_t compared = n < SAMPLE_BYTES ? n : SAMPLE_BYTES;
	const uint32_t expected = word_of(a, 6), written = word_of(a, 8);

	if (expected && cu_read(words, long_of(a, 3) + from, compared) == CUDA_SUCCESS) {
		pattern_words(expected, word_of(a, 7), from / 4, want, compared / 4);
		for (size_t i = 0; i < compared / 4; i++) {
			if (words[i] == want[i])
				continue;
			f->wrong++;
			record(f, from + 4 * i, words[i], want[i]);
		}
	}
	if (!written)
		return;
	pattern_words(written, word_of(a, 9), from / 4, words, n / 4);
	(void)cu_write(long_of(a, 3) + from, words, n);
}

/* Of much memory only whole pages in the beginning are written, and with one word: that is quick,
 * and whoever has something there loses it. */
static void fill_chunks(const struct arguments *a, uint64_t first, uint64_t count)
{
	const uint64_t last = first + count < FILLED ? first + count : FILLED;
	const CUdeviceptr at = long_of(a, 3);
	const CUdeviceptr from = (at + first * CHUNK_BYTES + CU_PAGE - 1) / CU_PAGE * CU_PAGE;
	const CUdeviceptr to = (at + last * CHUNK_BYTES) / CU_PAGE * CU_PAGE;
	uint32_t word;

	if (from >= to)
		return;
	pattern_words(word_of(a, 8), word_of(a, 9), (from - at) / 4, &word, 1);
	(void)cu_fill(from, word, to - from);
}

static uint64_t chunks_left(const struct arguments *a, const struct turns *t)
{
	const uint64_t chunks = (long_of(a, 4) + CHUNK_BYTES - 1) / CHUNK_BYTES;

	return t->next < chunks ? chunks - t->next : 0;
}

/* How many chunks the kernel gets over in the time that it is given. */
static uint64_t chunks_most(const struct arguments *a)
{
	const double seconds = (double)long_of(a, 1) / 1e9;
	const int ways = (word_of(a, 6) ? 1 : 0) + (word_of(a, 8) ? 1 : 0);

	return 1 +
	       (uint64_t)(memory_rate(a->dev) * seconds / (ways ? ways : 1) / (double)CHUNK_BYTES);
}

/* The kernel ends when its memory is done. */
static double part_of_memory(const struct arguments *a)
{
	struct turns t;

	if (cu_read(&t, long_of(a, 2), sizeof(t)) != CUDA_SUCCESS)
		return 1;

	const double part = (double)chunks_left(a, &t) / (double)chunks_most(a);

	return part < 1 ? part : 1;
}

/* (stop, duration_ns, turns, p, bytes, found, expected, seed, written, seed) */
static void leave_memory(const struct arguments *a)
{
	const uint64_t bytes = long_of(a, 4);
	uint64_t done = chunks_most(a);
	const uint32_t wrong = bytes > LITTLE ? a->dev->health.wrong_words : 0;
	struct turns t;
	struct found f;

	if (cu_read(&t, long_of(a, 2), sizeof(t)) != CUDA_SUCCESS ||
	    cu_read(&f, long_of(a, 5), sizeof(f)) != CUDA_SUCCESS)
		return;
	done = done < chunks_left(a, &t) ? done : chunks_left(a, &t);
	if (word_of(a, 6)) {
		f.looked_at += done * CHUNK_BYTES / 4;
		f.wrong += wrong;
		for (uint32_t i = 0; i < wrong && i < FOUND_MAX; i++)
			record(&f, i * 4096ULL, 0x00400000, 0);
	}
	for (uint64_t i = 0; bytes <= LITTLE && i < done; i++)
		do_chunk(a, t.next + i, &f);
	if (bytes > LITTLE && word_of(a, 8))
		fill_chunks(a, t.next, done);
	t.next += done;
	(void)cu_write(long_of(a, 2), &t, sizeof(t));
	(void)cu_write(long_of(a, 5), &f, sizeof(f));
}

static const struct known_kernel {
	const char *name;
	int nparams;
	void (*leave)(const struct arguments *a);
	double (*part)(const struct arguments *a); /* NULL: it works for all of its time */
} known_kernels[] = {
	{ "tenure_gemm", 9, leave_gemm, NULL },
	{ "tenure_gemm_f32", 9, leave_gemm, NULL },
	{ "tenure_gemm_f64", 9, leave_gemm, NULL },
	{ "tenure_check", 10, leave_check, NULL },
	{ "tenure_memory", 10, leave_memory, part_of_memory },
};

/* NULL: it leaves nothing. */
static const struct known_kernel *find_known(const struct CUfunc_st *f)
{
	for (size_t i = 0; i < sizeof(known_kernels) / sizeof(known_kernels[0]); i++)
		if (strcmp(f->name, known_kernels[i].name) == 0 &&
		    f->nparams == known_kernels[i].nparams)
			return &known_kernels[i];
	return NULL;
}

double cu_kernel_part(const struct CUfunc_st *f, const struct sim_dev *dev, void **params)
{
	const struct arguments a = { .kernel = f->name, .at = params, .dev = dev };
	const struct known_kernel *known = params ? find_known(f) : NULL;

	return known && known->part ? known->part(&a) : 1;
}

void cu_kernel_leaves(const struct CUfunc_st *f, const struct sim_dev *dev, unsigned int threads,
		      void **params)
{
	const struct arguments a = {
		.kernel = f->name, .at = params, .threads = threads, .dev = dev
	};
	const struct known_kernel *known = params ? find_known(f) : NULL;

	if (known)
		known->leave(&a);
}
