/* SPDX-License-Identifier: MIT */
#include "hold/holder/trial.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gpu/cuda.h"
#include "hold/holder/burn.h"

#define TRIAL_BYTES	(64ULL << 20)
#define TRIAL_NS	(500 * NS_PER_MS) /* of products */
#define LAUNCHES_LEAST	8  /* however late it is: a busy host says nothing of a card */
#define PRODUCTS_FROM	70 /* compute capability: 70 is 7.0 */
#define STOP_WORD_BYTES 4096

struct trial {
	struct cuda cu;
	struct burn_setup with;
	struct burn_job job;
};

static int read_card(struct trial *t, CUdevice dev, struct err *e)
{
	const struct cuda *cu = &t->cu;
	int major = 0, minor = 0, count = 0;
	CUresult code =
		cu->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);

	if (code == CUDA_SUCCESS)
		code = cu->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
					    dev);
	if (code == CUDA_SUCCESS)
		code = cu->device_attribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev);
	t->with.capability = major * 10 + minor;
	t->with.sm_count = count > 0 ? (unsigned int)count : 1;
	return cuda_result(cu, code, e, "attributes");
}

static int start(struct trial *t, struct err *e)
{
	const struct cuda *cu = &t->cu;
	CUdevice dev = 0;
	CUcontext ctx;
	int r = cuda_result(cu, cu->init(0), e, "cuInit");

	if (r == 0)
		r = cuda_result(cu, cu->device_get(&dev, 0), e, "cuDeviceGet");
	if (r == 0)
		r = read_card(t, dev, e);
	if (r == 0)
		r = cuda_result(cu, cu->ctx_create(&ctx, 0, dev), e, "cuCtxCreate");
	return r;
}

static int allocate(struct trial *t, struct err *e)
{
	const struct cuda *cu = &t->cu;
	const unsigned int flags = CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE;
	size_t free_bytes, total = 0;
	void *stop = NULL;
	CUresult code = cu->mem_info(&free_bytes, &total);

	if (code == CUDA_SUCCESS)
		code = cu->mem_alloc(&t->job.pieces[0].at, TRIAL_BYTES);
	if (code == CUDA_SUCCESS)
		code = cu->memset_d8(t->job.pieces[0].at, 0, TRIAL_BYTES);
	if (code == CUDA_SUCCESS)
		code = cu->host_alloc(&stop, STOP_WORD_BYTES, flags);
	if (code == CUDA_SUCCESS)
		code = cu->host_device_pointer(&t->with.stop, stop, 0);
	if (code != CUDA_SUCCESS)
		return cuda_result(cu, code, e, "memory");
	*(volatile uint32_t *)stop = 0;
	t->job.pieces[0].bytes = TRIAL_BYTES;
	t->job.n_pieces = 1;
	t->job.total_bytes = total;
	return cuda_result(cu, cu->stream_create(&t->with.stream, CU_STREAM_NON_BLOCKING), e,
			   "stream");
}

static int judge(const struct burn_report *f, struct err *e)
{
	const uint64_t wrong = f->wrong + f->nan + f->inf;

	if (f->reference_wrong)
		return err_set(e, -EBADMSG, "%llu words of its memory have changed",
			       (unsigned long long)f->reference_wrong);
	if (wrong)
		return err_set(e, -EBADMSG, "%llu of %llu results are wrong",
			       (unsigned long long)wrong, (unsigned long long)f->elements);
	if (!f->elements)
		return err_set(e, -EIO, "%u ms of products have given no result",
			       (unsigned int)(TRIAL_NS / NS_PER_MS));
	return 0;
}

/* Until some products were compared, and the words that they are compared with. */
static int multiply(struct trial *t, uint64_t *ret_compared, struct err *e)
{
	struct burn *b = NULL;
	unsigned int launches = 0;
	uint64_t until;
	int r = burn_create(&t->with, &b, e);

	t->job.test.load = BURN_TENSOR;
	t->job.test.precision = PRECISION_F16;
	if (r == 0)
		r = burn_begin(b, &t->job, e);
	until = clock_mono_ns() + TRIAL_NS; /* the driver compiles as long as it takes */
	while (r == 0 && burn_found(b)->elements == 0 &&
	       (clock_mono_ns() < until || launches < LAUNCHES_LEAST)) {
		launches++;
		r = cuda_result(&t->cu, burn_launch(b), e, "launch");
		if (r == 0)
			r = cuda_result(&t->cu, burn_finish(b), e, "product");
	}
	if (r < 0)
		return r;
	*ret_compared = burn_found(b)->elements;
	return judge(burn_found(b), e);
}

int trial_run(const char *uuid, uint64_t *ret_compared, struct err *e)
{
	struct trial t = { .with = { .sm_count = 0 } };
	int r = setenv("CUDA_VISIBLE_DEVICES", uuid, 1) < 0 ? err_sys(e, errno, "environment") : 0;

	*ret_compared = 0;
	t.with.cu = &t.cu;
	if (r == 0)
		r = cuda_load(&t.cu, e);
	if (r == 0)
		r = start(&t, e);
	if (r == 0)
		r = allocate(&t, e);
	if (r < 0 || t.with.capability < PRODUCTS_FROM)
		return r;
	return multiply(&t, ret_compared, e);
}
