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
#include "hold/holder/burn.h"
#include "hold/holder/product.h"

#define NAP_LIGHT_NS  20000U  /* one thread reads the stop word so often */
#define NAP_SM_NS     100000U /* a warp on every SM: their reads cross the bus, so fewer */
#define COUNTER_BYTES 512U
#define FILL_BLOCK    256U
#define BUSY_RETRY_NS 500000ULL
#define REST_AFTER_S  10 /* of a burn that does not go on */

/* The PTX texts under kernels/, which the build makes part of the executable. */
extern const char kernel_light[];      /* compute capability 7.0 and later */
extern const char kernel_light_sm50[]; /* 5.0 to 6.2 */

struct load {
	const struct cuda *cu;
	CUcontext ctx;
	CUstream stream;
	CUfunction nap, gemm, fill;    /* gemm and fill are NULL below compute capability 7.0 */
	const struct product *product; /* what gemm is */
	int capability;		       /* compute capability: 90 is 9.0 */
	volatile uint32_t *stop_word;
	CUdeviceptr stop_device;
	unsigned int sm_count;
	pthread_mutex_t lock;
	pthread_cond_t wake, closed;
	/* under lock: */
	enum load_kind kind;
	uint32_t duty_permille;
	CUdeviceptr work;
	uint32_t gemm_n;   /* 0: no memory for it */
	struct burn *burn; /* NULL: there was none */
	bool burn_rests;
	bool closing; /* somebody waits in load_close() */
	struct burn_peers peers;
	bool peers_changed;
	struct burn_job job;
	bool job_changed;
	struct burn_report found;
	bool gemm_filled, gemm_tried;
	int code; /* the first error */
	struct err error;
};

size_t load_gemm_bytes(uint32_t n)
{
	return (size_t)n * n * 8 + COUNTER_BYTES;
}

uint32_t load_gemm_fit(uint64_t total_bytes, size_t work_bytes)
{
	uint32_t n = product_side(total_bytes);

	while (n >= PRODUCT_SIDE_STEP && load_gemm_bytes(n) > work_bytes)
		n -= PRODUCT_SIDE_STEP;
	return n >= PRODUCT_SIDE_STEP ? n : 0;
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
	CUdeviceptr a = l->work + COUNTER_BYTES;
	struct product_args args = { .stop = l->stop_device,
				     .duration_ns = duration_ns,
				     .turns = l->work,
				     .a = a,
				     .b = a + matrix,
				     .c = a + 2 * matrix,
				     .n = l->gemm_n,
				     .bytes = 2,
				     .buffers = 1 };

	if (!l->gemm_filled) {
		CUresult code = l->cu->memset_d8(l->work, 0, COUNTER_BYTES);

		if (code == CUDA_SUCCESS)
			code = fill_matrices(l, duration_ns);
		if (code != CUDA_SUCCESS)
			return code;
		l->gemm_filled = true;
	}
	return product_launch(l->cu, l->product, l->gemm, l->sm_count, l->stream, &args);
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
	const struct product *product = NULL;
	CUfunction fill = NULL, gemm;
	CUmodule module;

	if (l->kind != LOAD_GEMM || l->gemm_tried)
		return;
	l->gemm_tried = true;
	(void)pthread_mutex_unlock(&l->lock);
	gemm = product_find(cu, l->capability, PRECISION_F16, &product);

	bool ok = gemm && cu->module_load(&module, kernel_gemm) == CUDA_SUCCESS &&
		  cu->module_function(&fill, module, "tenure_fill") == CUDA_SUCCESS;

	(void)pthread_mutex_lock(&l->lock);
	if (ok) {
		l->fill = fill;
		l->gemm = gemm;
		l->product = product;
	}
}

static bool wanted(const struct load *l)
{
	return l->kind != LOAD_NONE && (l->duty_permille || l->kind == LOAD_BURN);
}

/* With the lock, but not while the driver compiles and the host computes. */
static int begin_burn(struct load *l, struct err *e)
{
	const struct burn_setup setup = { .cu = l->cu,
					  .stream = l->stream,
					  .stop = l->stop_device,
					  .sm_count = l->sm_count,
					  .capability = l->capability };
	const struct burn_job job = l->job;
	int r = l->burn ? 0 : burn_create(&setup, &l->burn, e);

	if (r < 0)
		return r;
	l->job_changed = l->burn_rests = false;
	(void)pthread_mutex_unlock(&l->lock);
	r = burn_begin(l->burn, &job, e);
	(void)pthread_mutex_lock(&l->lock);
	/* Of a job that is over by now it does not matter whether it could have been done. */
	l->peers_changed = true; /* only now is there who takes them */
	return l->job_changed ? 0 : r;
}

/* With the lock, but not meanwhile: windows are closed, which takes the driver a while. */
static void take_peers(struct load *l)
{
	while (l->peers_changed && l->burn) {
		const struct burn_peers peers = l->peers;

		l->peers_changed = false;
		(void)pthread_mutex_unlock(&l->lock);
		burn_set_peers(l->burn, &peers);
		(void)pthread_mutex_lock(&l->lock);
	}
}

/* Whether nothing of it is left to be compared, where somebody waits for that. */
static bool is_closed(struct load *l)
{
	if (!l->closing)
		return false;
	burn_close(l->burn);
	if (!burn_is_closed(l->burn))
		return false;
	l->kind = LOAD_NONE;
	(void)pthread_cond_signal(&l->closed);
	return true;
}

/* A slice of the burn, called with the lock held, and not holding it while the slice runs. */
static void burn_turn(struct load *l)
{
	CUresult code = CUDA_SUCCESS;
	int r = l->job_changed || !l->burn ? begin_burn(l, &l->error) : 0;

	if (r < 0) {
		l->code = r;
		l->kind = LOAD_NONE;
	}
	take_peers(l);
	if (l->kind != LOAD_BURN || l->job_changed || is_closed(l))
		return;
	*l->stop_word = 0;
	code = burn_launch(l->burn);
	(void)pthread_mutex_unlock(&l->lock);
	if (code == CUDA_SUCCESS)
		code = burn_finish(l->burn);
	(void)pthread_mutex_lock(&l->lock);
	l->found = *burn_found(l->burn);
	if (code != CUDA_SUCCESS)
		fail(l, code, "burn");
}

/* With the lock, but not meanwhile: it gives host memory back. */
static void rest_burn(struct load *l)
{
	if (!l->burn || l->burn_rests)
		return;
	l->burn_rests = l->job_changed = true;
	(void)pthread_mutex_unlock(&l->lock);
	burn_rest(l->burn);
	(void)pthread_mutex_lock(&l->lock);
}

/* A newcomer to whom memory is let go is not to wait for host memory as well, so that goes later.
 */
static void wait_for_work(struct load *l)
{
	struct timespec until;

	while (!wanted(l)) {
		take_peers(l);
		if (wanted(l))
			return;
		(void)clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += REST_AFTER_S;
		if (!l->burn || l->burn_rests)
			(void)pthread_cond_wait(&l->wake, &l->lock);
		else if (pthread_cond_timedwait(&l->wake, &l->lock, &until) == ETIMEDOUT)
			rest_burn(l);
	}
}

static void *load_thread(void *arg)
{
	struct load *l = arg;
	uint64_t next = clock_mono_ns();

	if (l->cu->ctx_set_current(l->ctx) != CUDA_SUCCESS)
		return NULL;
	for (;;) {
		(void)pthread_mutex_lock(&l->lock);
		wait_for_work(l);
		while (l->kind == LOAD_BURN)
			burn_turn(l);
		take_peers(l);
		if (l->kind != LOAD_NONE)
			rest_burn(l);
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

static int read_capability(struct load *l, CUdevice dev, struct err *e)
{
	const struct cuda *cu = l->cu;
	int major = 0, minor = 0;
	CUresult code =
		cu->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);

	if (code == CUDA_SUCCESS)
		code = cu->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
					    dev);
	l->capability = major * 10 + minor;
	return cuda_result(cu, code, e, "compute capability");
}

static int load_kernels(struct load *l, CUdevice dev, struct err *e)
{
	const struct cuda *cu = l->cu;
	CUmodule module;
	int count = 0;
	int r = read_capability(l, dev, e);

	if (r == 0)
		r = cuda_result(
			cu,
			cu->device_attribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev),
			e, "multiprocessor count");
	if (r < 0)
		return r;
	l->sm_count = count > 0 ? (unsigned int)count : 1;
	r = cuda_result(
		cu,
		cu->module_load(&module, l->capability >= 70 ? kernel_light : kernel_light_sm50), e,
		"load kernel light");
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
	pthread_condattr_t clock;
	pthread_t thread;
	CUdevice dev;

	l->cu = cu;
	l->ctx = ctx;
	(void)pthread_mutex_init(&l->lock, NULL);
	(void)pthread_condattr_init(&clock);
	(void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&l->wake, &clock);
	(void)pthread_cond_init(&l->closed, &clock);
	(void)pthread_condattr_destroy(&clock);

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

void load_set_memory(struct load *l, const struct burn_piece *pieces, unsigned int n,
		     uint64_t total_bytes)
{
	(void)pthread_mutex_lock(&l->lock);
	l->work = n ? pieces[0].at : 0;
	l->gemm_n = load_gemm_fit(total_bytes, n ? pieces[0].bytes : 0);
	l->gemm_filled = false;
	l->job.total_bytes = total_bytes;
	l->job.n_pieces = n;
	for (unsigned int i = 0; i < n; i++)
		l->job.pieces[i] = pieces[i];
	l->job_changed = true;
	(void)pthread_mutex_unlock(&l->lock);
}

void load_set_burn(struct load *l, const struct burn_test *test)
{
	(void)pthread_mutex_lock(&l->lock);
	l->job_changed = l->job_changed || memcmp(&l->job.test, test, sizeof(*test)) != 0;
	l->job.test = *test;
	(void)pthread_mutex_unlock(&l->lock);
}

void load_set_peers(struct load *l, const struct burn_peers *peers)
{
	(void)pthread_mutex_lock(&l->lock);
	l->peers = *peers;
	l->peers_changed = true;
	(void)pthread_cond_signal(&l->wake);
	(void)pthread_mutex_unlock(&l->lock);
}

bool load_burn_found(struct load *l, struct burn_report *ret)
{
	(void)pthread_mutex_lock(&l->lock);

	bool is = l->burn != NULL;

	*ret = l->found;
	(void)pthread_mutex_unlock(&l->lock);
	return is;
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

void load_close(struct load *l)
{
	struct timespec until;
	int r = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += LOAD_CLOSE_MS * (long)NS_PER_MS;
	until.tv_sec += until.tv_nsec / (long)NS_PER_S;
	until.tv_nsec %= (long)NS_PER_S;
	(void)pthread_mutex_lock(&l->lock);
	l->closing = true;
	while (l->kind == LOAD_BURN && !l->job_changed && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&l->closed, &l->lock, &until);
	l->closing = false;
	(void)pthread_mutex_unlock(&l->lock);
	load_stop(l);
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
