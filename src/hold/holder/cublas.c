/* SPDX-License-Identifier: MIT */
/*
 * Matrices are row by row here and column by column there. Column by column what lies in memory is
 * the transpose of C = A * B, B' * A', where b holds B' row by row: so b is the first operand,
 * transposed, and a is the second. That is also the only form which there is for 8 bits.
 */
#include "hold/holder/cublas.h"

#include <errno.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "gpu/cublaslt.h"

#define BANDS_MAX 16U
#define CUTS	  5 /* 1, 2, 4, 8, 16 bands */
#define BAND_NS	  (5 * NS_PER_MS)
#define LAUNCHES  256 /* at most in a slice */

static const struct kind {
	int type, compute;
} kinds[] = {
	[PRECISION_F16] = { CUDA_R_16F, CUBLAS_COMPUTE_32F },
	[PRECISION_BF16] = { CUDA_R_16BF, CUBLAS_COMPUTE_32F },
	[PRECISION_TF32] = { CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32 },
	[PRECISION_E4M3] = { CUDA_R_8F_E4M3, CUBLAS_COMPUTE_32F },
	[PRECISION_F32] = { CUDA_R_32F, CUBLAS_COMPUTE_32F },
};

/* A product cut into so many bands. */
struct cut {
	cublasLtMatrixLayout_t rows, product; /* a band of A, and of C */
	cublasLtMatmulAlgo_t algo;
};

struct cublas {
	struct cublaslt lib;
	cublasLtHandle_t handle;
	char name[16];
	struct cublas_job job;
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t columns; /* of B */
	struct cut cuts[CUTS];
	uint32_t bands;	   /* of a product; a power of two */
	uint32_t launched; /* bands of the last slice */
	uint64_t band_ns;  /* that one takes; 0: not known */
	uint64_t products; /* whole ones that were launched */
	uint32_t band;	   /* of the next one */
};

int cublas_open(struct cublas **ret, struct err *e)
{
	struct cublas *c = xcalloc(1, sizeof(*c));
	int r = cublaslt_load(&c->lib, e);

	if (r == 0 && c->lib.create(&c->handle) != 0)
		r = err_set(e, -EIO, "cuBLASLt cannot be used here: it makes no handle");
	if (r < 0) {
		free(c);
		return r;
	}

	const size_t version = c->lib.version();
	/* 120103 is 12.1.3, and 130001 13.0.1. */
	(void)str_print(c->name, sizeof(c->name), "cuBLASLt %zu.%zu", version / 10000 % 100,
			version / 100 % 100);
	*ret = c;
	return 0;
}

const char *cublas_name(const struct cublas *c)
{
	return c->name;
}

static void clear_job(struct cublas *c)
{
	for (size_t i = 0; i < CUTS; i++) {
		if (c->cuts[i].rows)
			(void)c->lib.layout_destroy(c->cuts[i].rows);
		if (c->cuts[i].product)
			(void)c->lib.layout_destroy(c->cuts[i].product);
		c->cuts[i] = (struct cut){ 0 };
	}
	if (c->columns)
		(void)c->lib.layout_destroy(c->columns);
	if (c->desc)
		(void)c->lib.desc_destroy(c->desc);
	c->columns = NULL;
	c->desc = NULL;
}

static cublasStatus_t describe(struct cublas *c)
{
	const struct kind *k = &kinds[c->job.precision];
	const int32_t transposed = CUBLAS_OP_T;
	const int8_t fast = 1; /* of numbers as small as these nothing is left out */
	cublasStatus_t s = c->lib.desc_create(&c->desc, k->compute, CUDA_R_32F);

	if (s == 0)
		s = c->lib.desc_set(c->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
				    sizeof(transposed));
	if (s == 0 && c->job.precision == PRECISION_E4M3)
		s = c->lib.desc_set(c->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast));
	if (s == 0)
		s = c->lib.layout_create(&c->columns, k->type, c->job.n, c->job.n, c->job.n);
	return s;
}

/* The library's own choice of a kernel for bands of so many rows. */
static cublasStatus_t choose(struct cublas *c, struct cut *cut, uint32_t rows)
{
	const size_t workspace = CUBLAS_WORKSPACE;
	cublasLtMatmulHeuristicResult_t found;
	cublasLtMatmulPreference_t like = NULL;
	int n = 0;
	cublasStatus_t s = c->lib.layout_create(&cut->rows, kinds[c->job.precision].type, c->job.n,
						rows, c->job.n);

	if (s == 0)
		s = c->lib.layout_create(&cut->product, CUDA_R_32F, c->job.n, rows, c->job.n);
	if (s == 0)
		s = c->lib.preference_create(&like);
	if (s == 0)
		s = c->lib.preference_set(like, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
					  &workspace, sizeof(workspace));
	if (s == 0)
		s = c->lib.heuristic(c->handle, c->desc, c->columns, cut->rows, cut->product,
				     cut->product, like, 1, &found, &n);
	if (like)
		(void)c->lib.preference_destroy(like);
	if (s == 0 && n == 0)
		s = -1;
	if (s == 0)
		cut->algo = found.algo;
	return s;
}

int cublas_begin(struct cublas *c, const struct cublas_job *job, struct err *e)
{
	cublasStatus_t s;

	clear_job(c);
	c->job = *job;
	if (job->precision >= ARRAY_LEN(kinds))
		return err_set(e, -ENOSYS, "products in %s are not made with cuBLASLt",
			       precision_name(job->precision));
	s = describe(c);
	for (uint32_t i = 0; i < CUTS && s == 0; i++)
		s = choose(c, &c->cuts[i], job->n >> i);
	if (s != 0)
		return err_set(e, -ENOSYS, "%s has no products in %s for this card (status %d)",
			       c->name, precision_name(job->precision), s);
	c->bands = BANDS_MAX;
	c->band_ns = 0;
	cublas_restart(c);
	return 0;
}

void cublas_restart(struct cublas *c)
{
	c->products = 0;
	c->band = 0;
}

static CUresult launch_band(struct cublas *c, CUstream stream, uint32_t buffers)
{
	static const float one = 1, none = 0;
	const struct cublas_job *j = &c->job;
	const struct cut *cut = &c->cuts[__builtin_ctz(c->bands)];
	const uint64_t row = (uint64_t)c->band * (j->n / c->bands);
	const CUdeviceptr a = j->a + row * j->n * precision_bytes(j->precision);
	const CUdeviceptr to = j->c + 4 * ((c->products % buffers * j->n + row) * j->n);
	cublasStatus_t s = c->lib.matmul(c->handle, c->desc, &one, j->b, c->columns, a, cut->rows,
					 &none, to, cut->product, to, cut->product, &cut->algo,
					 j->workspace, CUBLAS_WORKSPACE, stream);

	if (s != 0)
		return CUDA_ERROR_LAUNCH_FAILED;
	c->launched++;
	if (++c->band == c->bands) {
		c->band = 0;
		c->products++;
	}
	return CUDA_SUCCESS;
}

uint32_t cublas_bands(uint32_t bands, uint64_t band_ns)
{
	if (band_ns > 2 * BAND_NS && bands < BANDS_MAX)
		return bands * 2;
	return band_ns && 2 * band_ns <= BAND_NS && bands > 1 ? bands / 2 : bands;
}

CUresult cublas_launch(struct cublas *c, CUstream stream, uint64_t duration_ns, uint32_t buffers,
		       struct asking *a)
{
	uint64_t most = c->band_ns ? duration_ns / c->band_ns : 1;
	CUresult code = CUDA_SUCCESS;

	c->launched = 0;
	do {
		/* Between products it can be cut anew, and what a band takes is another time then.
		 */
		const uint32_t bands = c->band ? c->bands : cublas_bands(c->bands, c->band_ns);

		if (bands != c->bands && c->launched)
			break;
		if (bands != c->bands) {
			c->band_ns = c->band_ns * c->bands / bands;
			c->bands = bands;
			most = duration_ns / c->band_ns;
		}
		code = launch_band(c, stream, buffers);
		asking_next(a);
	} while (code == CUDA_SUCCESS && c->launched < most && c->launched < LAUNCHES);
	return code;
}

void cublas_took(struct cublas *c, uint64_t ns)
{
	if (c->launched && ns)
		c->band_ns = ns / c->launched;
}

uint64_t cublas_rows(const struct cublas *c)
{
	return c->products * c->job.n + (uint64_t)c->band * (c->job.n / c->bands);
}
