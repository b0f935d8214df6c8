/* SPDX-License-Identifier: MIT */
/*
 * The load thread.
 *
 * One mutex guards what is asked for; the thread holds it while it launches, so that load_stop(),
 * which sets the stop word under the same mutex, can never be followed by a launch that was already
 * decided on. A launch takes some ten microseconds and takes no lock of the driver's that a
 * starting newcomer holds, so the order to let go does not wait.
 *
 * The stop word is cleared only by the thread, when its stream is idle, before the next launch.
 */
#include "hold/holder/load.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "hold/holder/product.h"

#define NAP_LIGHT_NS  20000U  /* one thread reads the stop word so often */
#define NAP_SM_NS     100000U /* a warp on every SM: their reads cross the bus, so fewer */
#define GEMM_MIN_N    2048U
#define GEMM_N_STEP   2048U
#define COUNTER_BYTES 512U
#define FILL_BLOCK    256U
#define BUSY_RETRY_NS 500000ULL

/* The PTX texts under kernels/, which the build makes part of the executable. */
extern const char kernel_light[];      /* compute capability 7.0 and later */
extern const char kernel_light_sm50[]; /* 5.0 to 6.2 */

struct load {
	const struct cuda *cu;
	CUcontext ctx;
	CUstream stream;
	CUfunction nap, gemm, fill;    /* gemm and fill are NULL below compute capability 7.0 */
	const struct product *product; /* what gemm is */
	int major;		       /* compute capability */
	volatile uint32_t *stop_word;
	CUdeviceptr stop_device;
	unsigned int sm_count;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* under lock: */
	enum load_kind kind;
	uint32_t duty_permille;
	CUdeviceptr work;
	uint32_t gemm_n; /* 0: no memory for it */
	bool gemm_filled, gemm_tried;
	int code; /* the first error */
	struct err error;
};

uint32_t load_gemm_n(uint64_t total_bytes)
{
	uint64_t side_squared = total_bytes / 20 / 6;
	uint64_t n = GEMM_MIN_N;

	/* Nearest multiple: step on while the middle to the next one is still below. */
	while ((n + GEMM_N_STEP / 2) * (n + GEMM_N_STEP / 2) < side_squared)
		n += GEMM_N_STEP;
	return (uint32_t)n;
}

size_t load_gemm_bytes(uint32_t n)
{
	return (size_t)n * n * 8 + COUNTER_BYTES;
}

uint32_t load_gemm_fit(uint64_t total_bytes, size_t work_bytes)
{
	uint32_t n = load_gemm_n(total_bytes);

	while (n >= GEMM_MIN_N && load_gemm_bytes(n) > work_bytes)
		n -= GEMM_N_STEP;
	return n >= GEMM_MIN_N ? n : 0;
}

static CUresult launch_nap(struct load *l, uint64_t duration_ns)
{
	bool light = l->kind == LOAD_LIGHT;
	uint32_t nap_ns = light ? NAP_LIGHT_NS : NAP_SM_NS;
	void *args[] = { &l->stop_device, &duration_ns, &nap_ns };

	return l->cu->launch(l->nap, light ? 1 : l->sm_count, 1, 1, light ? 1 : 32, 1, 1, 0,
			     l->stream, args, NULL);
}

static CUresult fill_matrices(struct load *l, uint64_t duration_ns)
{
	CUdeviceptr first = l->work + COUNTER_BYTES;
	uint64_t count = 2ULL * l->gemm_n * l->gemm_n;
	void *args[] = { &l->stop_device, &duration_ns, &first, &count };

	return l->cu->launch(l->fill, l->sm_count * 8, 1, 1, FILL_BLOCK, 1, 1, 0, l->stream, args,
			     NULL);
}

static CUresult launch_gemm(struct load *l, uint64_t duration_ns)
{
	size_t matrix = (size_t)l->gemm_n * l->gemm_n * 2;
	CUdeviceptr counter = l->work, a = l->work + COUNTER_BYTES, b = a + matrix, c = b + matrix;
	uint32_t n = l->gemm_n;
	void *args[] = { &l->stop_device, &duration_ns, &counter, &a, &b, &c, &n };

	if (!l->gemm_filled) {
		CUresult code = l->cu->memset_d8(counter, 0, COUNTER_BYTES);

		if (code == CUDA_SUCCESS)
			code = fill_matrices(l, duration_ns);
		if (code != CUDA_SUCCESS)
			return code;
		l->gemm_filled = true;
	}
	/* As many blocks as fit: tiles are taken off a counter, so any number works. */
	return l->cu->launch(l->gemm, l->sm_count * l->product->blocks_per_sm, 1, 1,
			     l->product->threads, 1, 1, l->product->shared_bytes, l->stream, args,
			     NULL);
}

static CUresult launch(struct load *l, uint64_t duration_ns)
{
	if (l->kind == LOAD_GEMM && l->gemm && l->gemm_n)
		return launch_gemm(l, duration_ns);
	return launch_nap(l, duration_ns);
}

static void fail(struct load *l, CUresult code, const char *what)
{
	l->code = cuda_result(l->cu, code, &l->error, what);
	l->kind = LOAD_NONE;
}

/* One turn, called with the lock held. True when a launch was made. */
static bool turn(struct load *l)
{
	CUresult code = l->cu->stream_query(l->stream);

	if (code == CUDA_ERROR_NOT_READY)
		return false; /* the device is shared just now; it comes round */
	if (code != CUDA_SUCCESS) {
		fail(l, code, "load");
		return false;
	}
	*l->stop_word = 0;
	code = launch(l, LOAD_PERIOD_NS * l->duty_permille / 1000);
	if (code != CUDA_SUCCESS)
		fail(l, code, "launch");
	return code == CUDA_SUCCESS;
}

static void nap_until(uint64_t at_ns)
{
	struct timespec ts = { .tv_sec = (time_t)(at_ns / NS_PER_S),
			       .tv_nsec = (long)(at_ns % NS_PER_S) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/*
 * Compiling gemm takes the driver a while (0.1 to 0.3 s): only where it is wanted, by this thread,
 * and without the lock, so that letting go never waits for it. Below compute capability 7.0 it
 * stays NULL.
 */
static void prepare(struct load *l)
{
	const struct cuda *cu = l->cu;
	const struct product *p = products;
	CUfunction fill = NULL, gemm = NULL;
	CUmodule module;

	if (l->kind != LOAD_GEMM || l->gemm_tried)
		return;
	l->gemm_tried = true;
	(void)pthread_mutex_unlock(&l->lock);
	for (; !gemm && p->name; p++)
		gemm = product_load(cu, p, l->major);

	bool ok = gemm && cu->module_load(&module, kernel_gemm) == CUDA_SUCCESS &&
		  cu->module_function(&fill, module, "tenure_fill") == CUDA_SUCCESS;

	(void)pthread_mutex_lock(&l->lock);
	if (ok) {
		l->fill = fill;
		l->gemm = gemm;
		l->product = p - 1;
	}
}

static bool wanted(const struct load *l)
{
	return l->kind != LOAD_NONE && l->duty_permille;
}

static void *load_thread(void *arg)
{
	struct load *l = arg;
	uint64_t next = clock_mono_ns();

	if (l->cu->ctx_set_current(l->ctx) != CUDA_SUCCESS)
		return NULL;
	for (;;) {
		(void)pthread_mutex_lock(&l->lock);
		while (!wanted(l))
			(void)pthread_cond_wait(&l->wake, &l->lock);
		prepare(l);

		bool launched = wanted(l) && turn(l);

		(void)pthread_mutex_unlock(&l->lock);

		uint64_t now = clock_mono_ns();

		next += LOAD_PERIOD_NS;
		if (!launched || next < now) /* late or just begun: no burst to catch up */
			next = now + (launched ? LOAD_PERIOD_NS : BUSY_RETRY_NS);
		nap_until(next);
	}
	return NULL;
}

static int load_kernels(struct load *l, CUdevice dev, struct err *e)
{
	const struct cuda *cu = l->cu;
	CUmodule module;
	int count = 0;
	int r = cuda_result(
		cu,
		cu->device_attribute(&l->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev),
		e, "compute capability");

	if (r == 0)
		r = cuda_result(
			cu,
			cu->device_attribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev),
			e, "multiprocessor count");
	if (r < 0)
		return r;
	l->sm_count = count > 0 ? (unsigned int)count : 1;
	r = cuda_result(cu,
			cu->module_load(&module, l->major >= 7 ? kernel_light : kernel_light_sm50),
			e, "load kernel light");
	if (r == 0)
		r = cuda_result(cu, cu->module_function(&l->nap, module, "tenure_nap"), e,
				"kernel tenure_nap");
	return r;
}

static int map_stop_word(struct load *l, struct err *e)
{
	const struct cuda *cu = l->cu;
	void *host = NULL;
	int r = cuda_result(
		cu,
		cu->host_alloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE),
		e, "mapped host memory");

	if (r == 0)
		r = cuda_result(cu, cu->host_device_pointer(&l->stop_device, host, 0), e,
				"address of the stop word");
	if (r == 0) {
		l->stop_word = host;
		*l->stop_word = 1;
	}
	return r;
}

int load_create(const struct cuda *cu, CUcontext ctx, struct load **ret, struct err *e)
{
	cleanup_free struct load *l = xcalloc(1, sizeof(*l));
	pthread_t thread;
	CUdevice dev;

	l->cu = cu;
	l->ctx = ctx;
	(void)pthread_mutex_init(&l->lock, NULL);
	(void)pthread_cond_init(&l->wake, NULL);

	int r = cuda_result(cu, cu->device_get(&dev, 0), e, "device");

	if (r == 0)
		r = load_kernels(l, dev, e);
	if (r == 0)
		r = map_stop_word(l, e);
	if (r == 0)
		r = cuda_result(cu, cu->stream_create(&l->stream, CU_STREAM_NON_BLOCKING), e,
				"stream");
	if (r == 0) {
		int errnum = pthread_create(&thread, NULL, load_thread, l);

		if (errnum)
			r = err_sys(e, errnum, "load thread");
	}
	if (r < 0)
		return r;
	(void)pthread_detach(thread);
	*ret = take_ptr(l);
	return 0;
}

void load_set_memory(struct load *l, CUdeviceptr work, size_t work_bytes, uint64_t total_bytes)
{
	(void)pthread_mutex_lock(&l->lock);
	l->work = work;
	l->gemm_n = load_gemm_fit(total_bytes, work_bytes);
	l->gemm_filled = false;
	(void)pthread_mutex_unlock(&l->lock);
}

void load_run(struct load *l, enum load_kind kind, uint32_t duty_permille)
{
	if (kind == LOAD_NONE) {
		load_stop(l);
		return;
	}
	(void)pthread_mutex_lock(&l->lock);
	if (!l->code) {
		l->kind = kind;
		l->duty_permille = duty_permille > 1000 ? 1000 : duty_permille;
		(void)pthread_cond_signal(&l->wake);
	}
	(void)pthread_mutex_unlock(&l->lock);
}

void load_stop(struct load *l)
{
	(void)pthread_mutex_lock(&l->lock);
	l->kind = LOAD_NONE;
	*l->stop_word = 1;
	(void)pthread_mutex_unlock(&l->lock);
}

int load_error(struct load *l, struct err *e)
{
	(void)pthread_mutex_lock(&l->lock);

	int r = l->code;

	if (r < 0 && e)
		*e = l->error;
	(void)pthread_mutex_unlock(&l->lock);
	return r;
}
