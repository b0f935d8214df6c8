/* SPDX-License-Identifier: MIT */

/*
 * What the load of a burn reaches, for bench/products: JSON lines. It is run as a holder runs it,
 * in one piece of 90 % of what is free.
 *
 *	burn SECONDS
 *
 * A line for a device copy, for each precision, for memory, and for copies to and from the host;
 * then how long the order to stop takes until the card is idle, and how long a bit that was
 * flipped in the middle of what is held takes to be found.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gpu/nvml.h"
#include "hold/holder/burn.h"

#define STOPS	       20
#define STOP_AFTER_US  4000
#define STOP_COPIES_US 200 /* they are shorter */
#define COPIES	       4
#define FIND_LIMIT_S   10

typedef CUresult (*copy_in)(CUdeviceptr, const void *, size_t);
typedef CUresult (*copy_out)(void *, CUdeviceptr, size_t);
typedef CUresult (*copy_over)(CUdeviceptr, CUdeviceptr, size_t);

struct bench {
	struct cuda cu;
	struct nvml nvml;
	nvmlDevice_t card;
	copy_in in;
	copy_out out;
	copy_over over;
	struct burn_setup setup;
	struct burn_job job;
	volatile uint32_t *stop;
};

static void need(const struct bench *b, CUresult code, const char *what)
{
	struct err e = ERR_INIT;

	if (cuda_result(&b->cu, code, &e, what) == 0)
		return;
	(void)fprintf(stderr, "burn: %s\n", e.text);
	exit(1);
}

static void need_ok(int r, const struct err *e)
{
	if (r >= 0)
		return;
	(void)fprintf(stderr, "burn: %s\n", e->text);
	exit(1);
}

static int attribute(const struct bench *b, CUdevice_attribute what, CUdevice dev)
{
	int value = 0;

	need(b, b->cu.device_attribute(&value, what, dev), "attribute");
	return value;
}

static void load_libraries(struct bench *b)
{
	struct err e = ERR_INIT;

	need_ok(cuda_load(&b->cu, &e), &e);
	need_ok(nvml_load(&b->nvml, &e), &e);
	*(void **)&b->in = dlsym(b->cu.library, "cuMemcpyHtoD_v2");
	*(void **)&b->out = dlsym(b->cu.library, "cuMemcpyDtoH_v2");
	*(void **)&b->over = dlsym(b->cu.library, "cuMemcpyDtoD_v2");
	if (b->nvml.init() != NVML_SUCCESS || b->nvml.by_index(0, &b->card) != NVML_SUCCESS)
		exit(1);
}

static void start(struct bench *b)
{
	size_t free_bytes, total;
	CUcontext ctx;
	CUdevice dev;
	void *host;

	load_libraries(b);
	need(b, b->cu.init(0), "CUDA");
	need(b, b->cu.device_get(&dev, 0), "device");
	need(b, b->cu.ctx_create(&ctx, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST, dev),
	     "context");
	need(b, b->cu.mem_info(&free_bytes, &total), "memory");
	b->job.total_bytes = total;
	b->job.n_pieces = 1;
	b->job.pieces[0].bytes = free_bytes / 10 * 9 / (2U << 20) * (2U << 20);
	need(b, b->cu.mem_alloc(&b->job.pieces[0].at, b->job.pieces[0].bytes), "memory");
	need(b, b->cu.host_alloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP), "host memory");
	b->stop = host;
	*b->stop = 0;
	b->setup.cu = &b->cu;
	need(b, b->cu.host_device_pointer(&b->setup.stop, host, 0), "host memory");
	need(b, b->cu.stream_create(&b->setup.stream, CU_STREAM_NON_BLOCKING), "stream");
	b->setup.sm_count =
		(unsigned int)attribute(b, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev);
	b->setup.capability = 10 * attribute(b, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev) +
			      attribute(b, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
}

static void measure_copy(const struct bench *b)
{
	const struct burn_piece *p = &b->job.pieces[0];
	const size_t half = p->bytes / 2 / 4096 * 4096;
	uint64_t begin = 0;

	for (int i = 0; i <= COPIES; i++) {
		need(b, b->over(p->at, p->at + half, half), "copy");
		need(b, b->cu.ctx_synchronize(), "copy");
		begin = begin ? begin : clock_mono_ns(); /* behind the first, which warms */
	}
	(void)printf("{\"what\": \"device copy\", \"gb_per_s\": %.0f}\n",
		     2.0 * COPIES * (double)half / (double)(clock_mono_ns() - begin));
}

static bool begin(struct bench *b, enum burn_load load, enum precision precision, struct burn **ret)
{
	struct err e = ERR_INIT;

	b->job.test.load = (uint8_t)load;
	b->job.test.precision = (uint8_t)precision;
	need_ok(burn_create(&b->setup, ret, &e), &e);
	return burn_begin(*ret, &b->job, &e) == 0;
}

static void slice(const struct bench *b, struct burn *burn)
{
	need(b, burn_launch(burn), "launch");
	need(b, burn_finish(burn), "slice");
}

static void measure(struct bench *b, enum burn_load load, enum precision precision, double seconds)
{
	const uint64_t end = clock_mono_ns() + (uint64_t)(seconds * 1e9);
	struct burn_report warm, f;
	struct burn *burn;
	double watts = 0;
	int samples = 0;

	if (!begin(b, load, precision, &burn))
		return;
	while (clock_mono_ns() < end - (uint64_t)(seconds * 2e9 / 3))
		slice(b, burn);
	warm = *burn_found(burn);
	for (; clock_mono_ns() < end; samples++) {
		unsigned int mw = 0;

		slice(b, burn);
		(void)b->nvml.power(b->card, &mw);
		watts += mw / 1e3;
	}
	f = *burn_found(burn);
	(void)printf(
		"{\"what\": \"%s%s%s\", \"tflops\": %.1f, \"gb_per_s\": %.0f, \"watts\": %.0f, "
		"\"compared\": %.3g, \"wrong\": %llu, \"busy\": %.3f}\n",
		load == BURN_MEMORY ? "memory" : precision_name(precision),
		load == BURN_MEMORY ? "" : ", kernel ", f.kernel,
		f.product_ns > warm.product_ns
			? (double)(f.gflop - warm.gflop) /
				  (double)(f.product_ns - warm.product_ns) * 1e6
			: 0,
		f.memory_ns > warm.memory_ns ? (double)(f.memory_bytes - warm.memory_bytes) /
						       (double)(f.memory_ns - warm.memory_ns)
					     : 0,
		watts / samples, (double)(f.elements + f.words),
		(unsigned long long)burn_report_errors(&f),
		(double)(f.product_ns + f.memory_ns) / 1e9 / seconds);
}

static void measure_copies(struct bench *b, double seconds)
{
	const uint64_t end = clock_mono_ns() + (uint64_t)(seconds * 1e9);
	const struct burn_copies *f;
	struct burn *burn;

	if (!begin(b, BURN_COPIES, PRECISION_BF16, &burn))
		return;
	while (clock_mono_ns() < end)
		slice(b, burn);
	f = &burn_found(burn)->copies;
	(void)printf("{\"what\": \"copies\", \"to_gb_per_s\": %.1f, \"from_gb_per_s\": %.1f, "
		     "\"both_gb_per_s\": %.1f, \"compared\": %.3g, \"wrong\": %llu}\n",
		     (double)f->bytes_per_s[BURN_TO] / 1e9, (double)f->bytes_per_s[BURN_FROM] / 1e9,
		     (double)f->bytes_per_s[BURN_BOTH] / 1e9, (double)f->words,
		     (unsigned long long)burn_report_errors(burn_found(burn)));
	burn_rest(burn);
}

/* The order comes while a slice runs, as a release does. */
static void measure_stop(struct bench *b, enum burn_load load, const char *what,
			 useconds_t after_us)
{
	double worst = 0, sum = 0;
	struct burn *burn;

	if (!begin(b, load, PRECISION_BF16, &burn))
		return;
	for (int i = 0; i < STOPS; i++) {
		uint64_t at;
		double ms;

		slice(b, burn);
		need(b, burn_launch(burn), "launch");
		(void)usleep(after_us);
		at = clock_mono_ns();
		*b->stop = 1;
		need(b, burn_finish(burn), "slice");
		ms = (double)(clock_mono_ns() - at) / 1e6;
		*b->stop = 0;
		sum += ms;
		worst = ms > worst ? ms : worst;
	}
	(void)printf("{\"what\": \"%s%s%s\", \"mean_ms\": %.2f, \"worst_ms\": %.2f}\n", what,
		     burn_found(burn)->kernel[0] ? ", kernel " : "", burn_found(burn)->kernel,
		     sum / STOPS, worst);
}

static void flip(const struct bench *b, CUdeviceptr at)
{
	uint32_t word;

	need(b, b->out(&word, at, sizeof(word)), "copy");
	word ^= 1U << 20;
	need(b, b->in(at, &word, sizeof(word)), "copy");
}

/* In the middle of the piece, which is among the products, or of a matrix, or of the memory. */
static void measure_flip(struct bench *b, enum burn_load load, const char *what, uint64_t offset)
{
	struct burn *burn;
	uint64_t at;

	if (!begin(b, load, PRECISION_BF16, &burn))
		return;
	for (uint64_t end = clock_mono_ns() + 3 * NS_PER_S; clock_mono_ns() < end;)
		slice(b, burn);
	flip(b, b->job.pieces[0].at + offset / 4096 * 4096);
	at = clock_mono_ns();
	while (!burn_report_errors(burn_found(burn)) &&
	       clock_mono_ns() - at < FIND_LIMIT_S * NS_PER_S)
		slice(b, burn);
	(void)printf("{\"what\": \"flip in %s\", \"found_s\": %.3f, \"wrong\": %llu}\n", what,
		     (double)(clock_mono_ns() - at) / 1e9,
		     (unsigned long long)burn_report_errors(burn_found(burn)));
}

int main(int argc, char **argv)
{
	const double seconds = argc == 2 ? atof(argv[1]) : 0;
	struct bench b = { .stop = NULL };

	if (seconds < 1) {
		(void)fprintf(stderr, "usage: burn SECONDS\n");
		return 2;
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	start(&b);
	measure_copy(&b);
	for (int kernel = BURN_KERNEL_OWN; kernel < BURN_KERNEL_MAX; kernel++) {
		b.job.test.kernel = (uint8_t)kernel;
		for (int p = 0; p < PRECISION_MAX; p++)
			if (kernel != BURN_KERNEL_CUBLAS || p != PRECISION_F64)
				measure(&b, BURN_TENSOR, (enum precision)p, seconds);
		measure_stop(&b, BURN_TENSOR, "stop", STOP_AFTER_US);
	}
	b.job.test.kernel = BURN_KERNEL_AUTO;
	measure(&b, BURN_MEMORY, PRECISION_BF16, seconds);
	measure_copies(&b, seconds);
	measure_stop(&b, BURN_COPIES, "stop of copies", STOP_COPIES_US);
	measure_flip(&b, BURN_TENSOR, "a product", b.job.pieces[0].bytes / 4);
	measure_flip(&b, BURN_TENSOR, "a matrix", 64U << 20);
	measure_flip(&b, BURN_MEMORY, "memory", b.job.pieces[0].bytes / 2);
	return 0;
}
