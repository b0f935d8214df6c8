/* SPDX-License-Identifier: MIT */

/*
 * What the kernels of `--load gemm` and `tenure burn` reach, for bench/products: one line of JSON
 * for each of them.
 *
 *	product N SECONDS PRECISION,...
 *
 * N x N matrices of whole numbers between -RANGE and RANGE, so that every sum is exact, and rows
 * that repeat after PERIOD, so that the host knows each element of the product from PERIOD x PERIOD
 * sums of its own. The first third of the time warms the card.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gpu/nvml.h"
#include "hold/holder/product.h"

#define PERIOD	 64U
#define SLICE_NS 20000000ULL

typedef CUresult (*copy_in)(CUdeviceptr, const void *, size_t);
typedef CUresult (*copy_out)(void *, CUdeviceptr, size_t);

struct bench {
	struct cuda cu;
	struct nvml nvml;
	nvmlDevice_t card;
	copy_in in;
	copy_out out;
	uint32_t n;
	enum precision precision; /* of the kernel that is measured, as are all below */
	int range;
	double seconds;
	CUdeviceptr words, a, b, c; /* words: counter, and a stop word that is never set */
	uint32_t *sums;		    /* PERIOD x PERIOD */
	unsigned int sms;
	int major, minor;
};

static void need(const struct bench *b, CUresult code, const char *what)
{
	struct err e = ERR_INIT;

	if (cuda_result(&b->cu, code, &e, what) == 0)
		return;
	(void)fprintf(stderr, "product: %s\n", e.text);
	exit(1);
}

static int value(const struct bench *b, uint32_t seed, uint32_t row, uint32_t k)
{
	uint32_t h = (seed + row) * 0x9e3779b9U + k * 0x85ebca6bU;

	h = (h ^ h >> 16) * 0x7feb352dU;
	h = (h ^ h >> 15) * 0x846ca68bU;
	return (int)((h ^ h >> 16) % (2 * (uint32_t)b->range + 1)) - b->range;
}

/* Whole numbers of at most 2047 in half precision. */
static uint16_t half_of(int v)
{
	uint32_t m = (uint32_t)abs(v);
	int exponent = 31 - __builtin_clz(m | 1);

	return m == 0 ? 0
		      : (uint16_t)((v < 0 ? 0x8000U : 0) | (uint32_t)(exponent + 15) << 10 |
				   ((m << (10 - exponent)) & 0x3ffU));
}

static void put_element(const struct bench *b, void *at, int v)
{
	const uint16_t half = half_of(v);
	const float single = (float)v;
	const double twice = v;

	if (b->precision == PRECISION_F64)
		memcpy(at, &twice, sizeof(twice));
	else if (b->precision == PRECISION_F32)
		memcpy(at, &single, sizeof(single));
	else
		memcpy(at, &half, sizeof(half));
}

static CUdeviceptr matrix(const struct bench *b, uint32_t seed)
{
	const size_t bytes = precision_bytes(b->precision), row_bytes = b->n * bytes;
	char *band = xmalloc(row_bytes * PERIOD);
	CUdeviceptr at;

	for (uint32_t r = 0; r < PERIOD; r++)
		for (uint32_t k = 0; k < b->n; k++)
			put_element(b, band + r * row_bytes + k * bytes, value(b, seed, r, k));
	need(b, b->cu.mem_alloc(&at, row_bytes * b->n), "memory");
	for (uint32_t r = 0; r < b->n; r += PERIOD)
		need(b, b->in(at + r * row_bytes, band, row_bytes * PERIOD), "copy");
	free(band);
	return at;
}

static void sum_on_the_host(struct bench *b)
{
	for (uint32_t i = 0; i < PERIOD; i++)
		for (uint32_t j = 0; j < PERIOD; j++) {
			int64_t sum = 0;

			for (uint32_t k = 0; k < b->n; k++)
				sum += (int64_t)value(b, 0, i, k) * value(b, PERIOD, j, k);
			b->sums[i * PERIOD + j] = product_word(b->precision, sum);
		}
}

static uint64_t count_wrong(const struct bench *b)
{
	size_t row_bytes = (size_t)b->n * 4;
	uint32_t *row = xmalloc(row_bytes);
	uint64_t wrong = 0;

	for (uint32_t i = 0; i < b->n; i++) {
		need(b, b->out(row, b->c + i * row_bytes, row_bytes), "copy");
		for (uint32_t j = 0; j < b->n; j++)
			wrong += row[j] != b->sums[i % PERIOD * PERIOD + j % PERIOD];
	}
	free(row);
	return wrong;
}

static uint64_t tiles_done(const struct bench *b)
{
	uint64_t count;

	need(b, b->out(&count, b->words, sizeof(count)), "copy");
	return count;
}

static void slice(const struct bench *b, const struct product *p, CUfunction f)
{
	struct product_args args = { .stop = b->words + 256,
				     .duration_ns = SLICE_NS,
				     .turns = b->words,
				     .a = b->a,
				     .b = b->b,
				     .c = b->c,
				     .n = b->n,
				     .bytes = precision_bytes(b->precision),
				     .buffers = 1 };

	need(b, product_launch(&b->cu, p, f, b->sms, NULL, &args), "launch");
	need(b, b->cu.ctx_synchronize(), "product");
}

static void measure(const struct bench *b, const struct product *p, CUfunction f)
{
	uint64_t begin = clock_mono_ns(), warm = begin + (uint64_t)(b->seconds * 1e9 / 3);
	uint64_t end = begin + (uint64_t)(b->seconds * 1e9);
	double watts = 0;
	int samples = 0;

	need(b, b->cu.memset_d8(b->words, 0, 512), "memset");
	need(b, b->cu.memset_d8(b->c, 0xff, (size_t)b->n * b->n * 4), "memset");
	while (clock_mono_ns() < warm)
		slice(b, p, f);

	uint64_t before = tiles_done(b);

	for (begin = clock_mono_ns(); clock_mono_ns() < end; samples++) {
		unsigned int mw = 0;

		slice(b, p, f);
		(void)b->nvml.power(b->card, &mw);
		watts += mw / 1e3;
	}

	double took_s = (double)(clock_mono_ns() - begin) / 1e9;
	double tiles = (double)(tiles_done(b) - before);
	double flops = tiles * p->tile_elements * 2 * b->n;

	(void)printf("{\"precision\": \"%s\", \"kernel\": \"%s\", \"n\": %u, \"tflops\": %.1f, "
		     "\"watts\": %.0f, \"sums\": %.0f, \"wrong\": %llu}\n",
		     precision_name(p->precision), p->name, (unsigned int)b->n,
		     flops / took_s / 1e12, watts / samples, (double)b->n * b->n,
		     (unsigned long long)count_wrong(b));
	(void)fflush(stdout);
}

static void start(struct bench *b)
{
	struct err e = ERR_INIT;
	CUcontext ctx;
	CUdevice dev;
	int sms;

	if (cuda_load(&b->cu, &e) < 0 || nvml_load(&b->nvml, &e) < 0) {
		(void)fprintf(stderr, "product: %s\n", e.text);
		exit(1);
	}
	*(void **)&b->in = dlsym(b->cu.library, "cuMemcpyHtoD_v2");
	*(void **)&b->out = dlsym(b->cu.library, "cuMemcpyDtoH_v2");
	need(b, b->cu.init(0), "CUDA");
	need(b, b->cu.device_get(&dev, 0), "device");
	need(b, b->cu.ctx_create(&ctx, 0, dev), "context");
	need(b, b->cu.device_attribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev), "SMs");
	need(b,
	     b->cu.device_attribute(&b->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev),
	     "compute capability");
	need(b,
	     b->cu.device_attribute(&b->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev),
	     "compute capability");
	b->sms = (unsigned int)sms;
	if (b->nvml.init() != NVML_SUCCESS || b->nvml.by_index(0, &b->card) != NVML_SUCCESS)
		exit(1);
}

static void make_matrices(struct bench *b, enum precision precision)
{
	const double exact = precision == PRECISION_F64 ? 0x1p53 : 0x1p24;

	if (b->a)
		need(b, b->cu.mem_free(b->a), "memory");
	if (b->b)
		need(b, b->cu.mem_free(b->b), "memory");
	b->precision = precision;
	/* Sums of N products of both signs stay below it. */
	b->range = (int)fmin(precision == PRECISION_F64 ? 1 << 21 : 255,
			     sqrt(exact / sqrt(b->n) * 3 / 6));
	sum_on_the_host(b);
	b->a = matrix(b, 0);
	b->b = matrix(b, PERIOD);
}

int main(int argc, char **argv)
{
	struct bench b = { .n = argc == 4 ? (uint32_t)atoi(argv[1]) : 0 };

	if (b.n < 256 || b.n % 256) {
		(void)fprintf(stderr,
			      "usage: product N SECONDS PRECISION,..., N a multiple of 256\n");
		return 2;
	}
	b.seconds = atof(argv[2]);
	start(&b);
	b.sums = xmalloc(sizeof(*b.sums) * PERIOD * PERIOD);
	need(&b, b.cu.mem_alloc(&b.words, 512), "memory");
	need(&b, b.cu.mem_alloc(&b.c, (size_t)b.n * b.n * 4), "memory");
	for (const struct product *p = products; p->name; p++) {
		CUfunction f = product_load(&b.cu, p, b.major * 10 + b.minor, p->precision);

		if (!f || !strstr(argv[3], precision_name(p->precision)))
			continue;
		if (!b.a || b.precision != p->precision)
			make_matrices(&b, p->precision);
		measure(&b, p, f);
	}
	return 0;
}
