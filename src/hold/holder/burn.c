/* SPDX-License-Identifier: MIT */
/*
 * One slice is a launch of the products or of a pass over memory, the comparison of those products
 * that are written over next, and a copy of what was found to host memory. Its results are read
 * when the stream is idle.
 *
 * The time of a launch is that between two events. One for which the host was late to ask
 * (asking.h) tells nothing of the device's speed, and neither its time nor its work counts for
 * that.
 */
#include "hold/holder/burn.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "hold/holder/asking.h"
#include "hold/holder/burn_words.h"
#include "hold/holder/copies.h"
#include "hold/holder/cublas.h"
#include "hold/holder/peers.h"
#include "hold/holder/product.h"

#define PERIOD	      64U /* rows of a matrix repeat after it; also in kernels/burn.cu */
#define TABLE_WORDS   (PERIOD * PERIOD)
#define N_STEP	      256U
#define N_MIN	      1024U
#define SEED_A	      0U
#define SEED_B	      PERIOD
#define LOOK_NS	      NS_PER_S /* the table is read back so often */
#define RING_NS	      (1200 * NS_PER_MS)
#define RING_AFTER_NS (300 * NS_PER_MS)
#define MIXED_SLICES  200U /* of products; then a round of patterns, copies, and again */
#define MIXED_COPY_NS (600 * NS_PER_MS)
#define COPIES_ALIGN  (1ULL << 20)

extern const char kernel_burn[];

/* Moving inversions of fixed words, then words that tell where they are, then ones that nothing
 * foretells: each pass looks for what the one before has written. */
static const struct pattern_row {
	enum pattern pattern;
	uint32_t seed;
} patterns[] = {
	{ PATTERN_WORD, 0 },
	{ PATTERN_WORD, 0xffffffff },
	{ PATTERN_WORD, 0x55555555 },
	{ PATTERN_WORD, 0xaaaaaaaa },
	{ PATTERN_ADDRESS, 0 },
	{ PATTERN_ADDRESS, 0xffffffff },
	{ PATTERN_RANDOM, 0x9e3779b9 },
	{ PATTERN_RANDOM, 0x61c88646 },
};
#define ROUND ARRAY_LEN(patterns)

/* What lies in device memory in front of everything, and is copied back after each slice. */
struct words {
	struct turns tiles, bands, chunks; /* of products, of their comparison, of a pass */
	struct found product, memory;
};
#define WORDS_BYTES  4096U
#define HEADER_BYTES (WORDS_BYTES + TABLE_WORDS * 4U)
_Static_assert(sizeof(struct words) <= WORDS_BYTES, "the header has room for its words");

/* Host memory that the device reads and writes. */
struct pinned {
	struct words words;
	uint32_t table[TABLE_WORDS], table_back[TABLE_WORDS];
};

enum phase { PHASE_PRODUCTS, PHASE_MEMORY, PHASE_COPIES };

struct burn {
	struct burn_setup with;
	struct burn_job job;
	enum precision precision;	  /* of its products */
	CUfunction matrix, check, memory; /* NULL: not compiled yet */
	CUfunction gemm;
	const struct product *product;
	enum precision gemm_precision;
	struct cublas *cublas; /* NULL: not opened */
	bool by_cublas;	       /* it computes the products of this job */
	CUevent begin, end;
	struct asking asking; /* for what is between them */
	struct pinned *pinned;
	uint32_t n, range, buffers;
	uint32_t table_n, table_range; /* what the table is for, and in which precision */
	enum precision table_precision;
	CUdeviceptr a, b, c;
	bool filled; /* counters, table and matrices are there */
	enum phase phase;
	struct copies *copies;	/* NULL: there were none yet */
	struct peers *peers;	/* NULL: there were no copies yet */
	struct copies *next;	/* whose step is the next: the host's, or a peer's */
	uint64_t copies_end_ns; /* of a mixed burn: until then, this time */
	struct words seen;	/* what the device had counted at the last look */
	uint64_t elements;	/* of products that were computed until then */
	uint64_t products;	/* whole ones */
	uint64_t checked;	/* of these, compared or on their way */
	uint64_t pass;		/* number of the pass over the memory */
	unsigned int piece;	/* where that is */
	unsigned int slices;	/* of products since the last round of patterns */
	uint64_t looked_ns;	/* the table was read back last */
	bool table_comes;	/* and is on its way */
	bool ends;		/* burn_close() */
	bool closing;		/* the products that are there are compared a last time */
	bool closed;		/* and all of them have been */
	uint32_t first, count;	/* buffers of these */
	uint64_t closing_from;	/* elements that were compared before */
	struct burn_report found;
};

/* --- pure --- */

static uint64_t matrices_bytes(uint32_t n, enum precision precision)
{
	return HEADER_BYTES + 2ULL * n * n * precision_bytes(precision);
}

uint32_t burn_product_n(uint64_t total_bytes, uint64_t piece_bytes, enum precision precision)
{
	uint32_t n = product_side(total_bytes) / 2 / N_STEP * N_STEP;

	while (n >= N_MIN && matrices_bytes(n, precision) + 8ULL * n * n > piece_bytes)
		n -= N_STEP;
	return n >= N_MIN ? n : 0;
}

/* The largest whole numbers of either sign that elements can be, and up to which sums are exact. */
static const struct {
	uint32_t element;
	double sum;
} exact[] = {
	[PRECISION_F16] = { 255, 16777216 },  [PRECISION_BF16] = { 255, 16777216 },
	[PRECISION_TF32] = { 255, 16777216 }, [PRECISION_E4M3] = { 4, 16777216 },
	[PRECISION_F32] = { 255, 16777216 },  [PRECISION_F64] = { 1 << 21, 9007199254740992 },
};
_Static_assert(ARRAY_LEN(exact) == PRECISION_MAX, "numbers for every precision");

/* Sums of n products of numbers of either sign up to r are about sqrt(n) r^2 / 3, and stay below
 * six times that. */
uint32_t burn_range(uint32_t n, enum precision precision)
{
	const double r = floor(sqrt(exact[precision].sum / 2 / sqrt(n)));

	return r < exact[precision].element ? r < 1 ? 1 : (uint32_t)r : exact[precision].element;
}

static int32_t *matrix_rows(uint32_t n, uint32_t range, uint32_t seed)
{
	int32_t *rows = xmalloc(sizeof(*rows) * PERIOD * n);

	for (uint32_t r = 0; r < PERIOD; r++)
		for (uint32_t k = 0; k < n; k++)
			rows[(size_t)r * n + k] =
				(int32_t)(burn_hash((seed + r) * 0x9e3779b9U + k * 0x85ebca6bU) %
					  (2 * range + 1)) -
				(int32_t)range;
	return rows;
}

static int64_t dot(const int32_t *x, const int32_t *y, uint32_t n)
{
	int64_t sum = 0;

	for (uint32_t k = 0; k < n; k++)
		sum += (int64_t)x[k] * y[k];
	return sum;
}

static void make_table(struct burn *b)
{
	const enum precision precision = b->precision;
	const size_t n = b->n;
	cleanup_free int32_t *x = matrix_rows(b->n, b->range, SEED_A);
	cleanup_free int32_t *y = matrix_rows(b->n, b->range, SEED_B);

	for (uint32_t i = 0; i < PERIOD; i++)
		for (uint32_t j = 0; j < PERIOD; j++)
			b->pinned->table[i * PERIOD + j] =
				product_word(precision, dot(x + i * n, y + j * n, b->n));
	b->table_n = b->n;
	b->table_range = b->range;
	b->table_precision = precision;
}

/* --- the beginning --- */

int burn_create(const struct burn_setup *setup, struct burn **ret, struct err *e)
{
	const struct cuda *cu = setup->cu;
	struct burn *b = xcalloc(1, sizeof(*b));
	void *host = NULL;
	CUresult code = cu->host_alloc(&host, sizeof(*b->pinned), CU_MEMHOSTALLOC_PORTABLE);

	if (code == CUDA_SUCCESS)
		code = cu->event_create(&b->begin, CU_EVENT_DEFAULT);
	if (code == CUDA_SUCCESS)
		code = cu->event_create(&b->end, CU_EVENT_DEFAULT);
	if (code != CUDA_SUCCESS) {
		free(b);
		return cuda_result(cu, code, e, "host memory and events of a burn");
	}
	b->with = *setup;
	b->pinned = host;
	*ret = b;
	return 0;
}

static int compile(struct burn *b, struct err *e)
{
	const struct cuda *cu = b->with.cu;
	CUmodule module;
	CUresult code;

	if (b->memory)
		return 0;
	if (b->with.capability < 70)
		return err_set(e, -ENOSYS, "a burn needs a card of compute capability 7.0 or more");
	code = cu->module_load(&module, kernel_burn);
	if (code == CUDA_SUCCESS)
		code = cu->module_function(&b->matrix, module, "tenure_matrix");
	if (code == CUDA_SUCCESS)
		code = cu->module_function(&b->check, module, "tenure_check");
	if (code == CUDA_SUCCESS)
		code = cu->module_function(&b->memory, module, "tenure_memory");
	return cuda_result(cu, code, e, "kernels of a burn");
}

static int compile_product(struct burn *b, struct err *e)
{
	const enum precision precision = b->precision;

	if (b->gemm && b->gemm_precision == precision)
		return 0;
	b->gemm = product_find(b->with.cu, b->with.capability, precision, &b->product);
	b->gemm_precision = precision;
	if (!b->gemm)
		return err_set(e, -ENOSYS,
			       "this card, or its driver, has no products in %s (compute "
			       "capability %d.%d)",
			       precision_name(precision), b->with.capability / 10,
			       b->with.capability % 10);
	return 0;
}

/*
 * Kernels of ours are there in any case, and where they are as fast they are taken, because they
 * end as soon as they are told to.
 */
static int choose_product(struct burn *b, struct err *e)
{
	const enum burn_kernel kernel = (enum burn_kernel)b->job.test.kernel;
	struct err why = ERR_INIT;
	int own = compile_product(b, e), r;

	b->by_cublas = false;
	if (kernel == BURN_KERNEL_OWN || b->precision == PRECISION_F64 ||
	    (kernel == BURN_KERNEL_AUTO && own == 0 && b->product->as_fast))
		return own;
	r = b->cublas ? 0 : cublas_open(&b->cublas, &why);
	b->by_cublas = r == 0;
	if (r < 0 && kernel == BURN_KERNEL_CUBLAS)
		return err_set(e, r, "%s", why.text);
	return r < 0 ? own : 0;
}

static int lay_out(struct burn *b, struct err *e)
{
	const struct burn_piece *first = &b->job.pieces[0];
	const enum precision precision = b->precision;
	const uint64_t extra = b->by_cublas ? CUBLAS_WORKSPACE : 0;
	const uint64_t bytes = first->bytes > extra ? first->bytes - extra : 0;
	const uint32_t n = burn_product_n(b->job.total_bytes, bytes, precision);

	if (!n)
		return err_set(e, -ENOMEM, "%.1f GiB are too little for products",
			       (double)first->bytes / (double)(1ULL << 30));
	b->n = n;
	b->range = burn_range(n, precision);
	b->a = first->at + HEADER_BYTES + extra;
	b->b = b->a + (uint64_t)n * n * precision_bytes(precision);
	b->c = first->at + extra + matrices_bytes(n, precision);
	b->buffers = (uint32_t)((bytes - matrices_bytes(n, precision)) / ((uint64_t)n * n * 4));
	if (b->table_n != n || b->table_range != b->range || b->table_precision != precision)
		make_table(b);
	return 0;
}

/* Of a mixed burn copies are left out where they cannot be had, and that is told. */
static int begin_copies(struct burn *b, struct err *e)
{
	const struct burn_piece *first = &b->job.pieces[0];
	const struct copies_setup setup = { .cu = b->with.cu,
					    .stream = b->with.stream,
					    .stop = b->with.stop,
					    .memory = b->memory,
					    .sm_count = b->with.sm_count };
	const uint64_t skip = (HEADER_BYTES + COPIES_ALIGN - 1) / COPIES_ALIGN * COPIES_ALIGN;
	const uint64_t bytes = first->bytes > skip ? first->bytes - skip : 0;
	const uint64_t half = bytes / 2 < COPIES_ROOM_MOST ? bytes / 2 : COPIES_ROOM_MOST;
	struct err why = ERR_INIT;
	int r = b->copies ? 0 : copies_create(&setup, &b->copies, &why);

	if (r == 0 && !b->peers)
		r = peers_create(&setup, &b->peers, &why);
	if (r == 0)
		r = copies_begin(b->copies, first->at + skip, half, &why);
	b->found.copies.code = r;
	b->next = r == 0 ? b->copies : NULL;
	if (r == 0)
		peers_begin(b->peers, first->at + skip + half / COPIES_ALIGN * COPIES_ALIGN, half);
	if (r < 0 && b->job.test.load == BURN_COPIES) {
		*e = why;
		return r;
	}
	return 0;
}

static int begin_cublas(struct burn *b, struct err *e)
{
	const struct cublas_job job = { .precision = b->precision,
					.n = b->n,
					.a = b->a,
					.b = b->b,
					.c = b->c,
					.workspace = b->job.pieces[0].at + HEADER_BYTES };

	return cublas_begin(b->cublas, &job, e);
}

static int begin_products(struct burn *b, struct err *e)
{
	int r = choose_product(b, e);

	if (r == 0)
		r = lay_out(b, e);
	if (r == 0 && b->by_cublas)
		r = begin_cublas(b, e);
	if (r < 0 && b->by_cublas && b->job.test.kernel == BURN_KERNEL_AUTO && b->gemm) {
		b->by_cublas = false;
		r = lay_out(b, e);
	}
	return r;
}

int burn_begin(struct burn *b, const struct burn_job *job, struct err *e)
{
	/* Of a mixed one a round of memory comes first. */
	static const enum phase first[BURN_LOAD_MAX] = {
		[BURN_TENSOR] = PHASE_PRODUCTS, [BURN_FP32] = PHASE_PRODUCTS,
		[BURN_FP64] = PHASE_PRODUCTS,	[BURN_MEMORY] = PHASE_MEMORY,
		[BURN_COPIES] = PHASE_COPIES,	[BURN_MIXED] = PHASE_MEMORY
	};
	const bool copies = job->test.load == BURN_COPIES || job->test.load == BURN_MIXED;
	int r;

	b->job = *job;
	b->precision = burn_precision((enum burn_load)job->test.load, job->test.precision,
				      b->with.capability);
	b->filled = b->ends = b->closing = false;
	if (b->found.id != job->test.id)
		b->found = (struct burn_report){ .id = job->test.id };
	b->phase = first[job->test.load];
	if (!job->n_pieces || job->pieces[0].bytes <= HEADER_BYTES)
		return err_set(e, -ENOMEM, "nothing is held to burn");
	r = compile(b, e);
	if (r == 0 && burn_has_products((enum burn_load)job->test.load))
		r = begin_products(b, e);
	return r == 0 && copies ? begin_copies(b, e) : r;
}

void burn_rest(struct burn *b)
{
	const struct burn_peers none = { .n = 0 };

	if (b->copies)
		copies_give_back(b->copies);
	burn_set_peers(b, &none);
}

/* --- launches --- */

static CUdeviceptr word_at(const struct burn *b, size_t offset)
{
	return b->job.pieces[0].at + offset;
}

static CUresult launch(struct burn *b, CUfunction f, void **args)
{
	return b->with.cu->launch(f, b->with.sm_count * BURN_BLOCKS_PER_SM, 1, 1, BURN_THREADS, 1,
				  1, 0, b->with.stream, args, NULL);
}

static CUresult fill_matrix(struct burn *b, CUdeviceptr at, uint32_t seed)
{
	uint64_t duration_ns = BURN_SLICE_NS;
	uint32_t period = PERIOD, element = b->precision;
	uint32_t pitch = b->n * precision_bytes(b->precision);
	void *args[] = { &b->with.stop, &duration_ns, &at,	 &b->n, &pitch,
			 &element,	&period,      &b->range, &seed };

	return launch(b, b->matrix, args);
}

static CUresult fill(struct burn *b)
{
	const struct cuda *cu = b->with.cu;
	CUresult code = cu->memset_d8_async(word_at(b, 0), 0, WORDS_BYTES, b->with.stream);

	b->seen = (struct words){ 0 };
	b->elements = b->products = b->checked = 0;
	if (b->by_cublas)
		cublas_restart(b->cublas);
	b->piece = b->slices = 0;
	b->pass = 0;
	b->filled = true;
	if (b->phase != PHASE_PRODUCTS || code != CUDA_SUCCESS)
		return code;
	code = cu->copy_in_async(word_at(b, WORDS_BYTES), b->pinned->table, TABLE_WORDS * 4,
				 b->with.stream);
	if (code == CUDA_SUCCESS)
		code = fill_matrix(b, b->a, SEED_A);
	return code == CUDA_SUCCESS ? fill_matrix(b, b->b, SEED_B) : code;
}

/* The products in count buffers from the first on; with `again`, as far as the slice before has not
 * come. */
static CUresult check_buffers(struct burn *b, uint32_t first, uint32_t count, bool again)
{
	uint64_t duration_ns = BURN_SLICE_NS;
	CUdeviceptr turns = word_at(b, offsetof(struct words, bands));
	CUdeviceptr table = word_at(b, WORDS_BYTES);
	CUdeviceptr found = word_at(b, offsetof(struct words, product));
	void *args[] = { &b->with.stop, &duration_ns, &turns, &b->c,  &table,
			 &found,	&b->n,	      &first, &count, &b->buffers };
	CUresult code = CUDA_SUCCESS;

	if (!count)
		return code;
	if (!again)
		code = b->with.cu->memset_d8_async(turns, 0, sizeof(b->seen.bands), b->with.stream);
	return code == CUDA_SUCCESS ? launch(b, b->check, args) : code;
}

/* As many products as the last slice has finished are written over in this one: the oldest. */
static CUresult check_products(struct burn *b)
{
	const uint64_t fresh = b->products - b->checked;
	const uint64_t oldest = b->products < b->buffers ? b->checked : b->products + 1;

	b->checked = b->products;
	return check_buffers(b, (uint32_t)(oldest % b->buffers),
			     (uint32_t)(fresh < b->buffers ? fresh : b->buffers), false);
}

/* All whole products but the one in whose buffer the next one has begun. */
static void begin_closing(struct burn *b)
{
	const bool full = b->products >= b->buffers;

	b->closing = true;
	b->closed = false;
	b->first = full ? (uint32_t)((b->products + 1) % b->buffers) : 0;
	b->count = full ? b->buffers - 1 : (uint32_t)b->products;
	b->closing_from = b->seen.product.looked_at;
}

static CUresult launch_closing(struct burn *b)
{
	return check_buffers(b, b->first, b->count, b->seen.product.looked_at > b->closing_from);
}

static CUresult launch_own(struct burn *b)
{
	struct product_args args = { .stop = b->with.stop,
				     .duration_ns = BURN_SLICE_NS,
				     .turns = word_at(b, offsetof(struct words, tiles)),
				     .a = b->a,
				     .b = b->b,
				     .c = b->c,
				     .n = b->n,
				     .bytes = precision_bytes(b->precision),
				     .buffers = b->buffers };

	CUresult code = product_launch(b->with.cu, b->product, b->gemm, b->with.sm_count,
				       b->with.stream, &args);

	asking_next(&b->asking);
	return code;
}

static CUresult begin_timed(struct burn *b)
{
	asking_begin(&b->asking);
	return b->with.cu->event_record(b->begin, b->with.stream);
}

static CUresult end_timed(struct burn *b)
{
	CUresult code = b->with.cu->event_query(b->begin);

	asking_end(&b->asking, code != CUDA_ERROR_NOT_READY);
	code = b->with.cu->event_record(b->end, b->with.stream);
	asking_next(&b->asking);
	return code;
}

static CUresult launch_products(struct burn *b)
{
	CUresult code = check_products(b);

	if (code == CUDA_SUCCESS)
		code = begin_timed(b);
	if (code == CUDA_SUCCESS)
		code = b->by_cublas ? cublas_launch(b->cublas, b->with.stream, BURN_SLICE_NS,
						    b->buffers, &b->asking)
				    : launch_own(b);
	b->slices++;
	return code == CUDA_SUCCESS ? end_timed(b) : code;
}

static uint64_t piece_offset(const struct burn *b)
{
	return b->piece == 0 ? HEADER_BYTES : 0;
}

static uint64_t piece_bytes(const struct burn *b)
{
	return (b->job.pieces[b->piece].bytes - piece_offset(b)) / 16 * 16;
}

static uint64_t piece_chunks(const struct burn *b)
{
	return (piece_bytes(b) + BURN_CHUNK_BYTES - 1) / BURN_CHUNK_BYTES;
}

static struct pattern_row pattern_of(uint64_t pass)
{
	struct pattern_row row = patterns[pass % ROUND];

	if (row.pattern == PATTERN_RANDOM)
		row.seed += (uint32_t)(pass / ROUND);
	return row;
}

static CUresult launch_pass(struct burn *b)
{
	uint64_t duration_ns = BURN_SLICE_NS, bytes = piece_bytes(b);
	CUdeviceptr turns = word_at(b, offsetof(struct words, chunks));
	CUdeviceptr at = b->job.pieces[b->piece].at + piece_offset(b);
	CUdeviceptr found = word_at(b, offsetof(struct words, memory));
	struct pattern_row before = { PATTERN_NONE, 0 }, after = pattern_of(b->pass);
	CUresult code = CUDA_SUCCESS;

	if (b->pass > 0)
		before = pattern_of(b->pass - 1);

	uint32_t expected = before.pattern, written = after.pattern;
	void *args[] = { &b->with.stop, &duration_ns, &turns,	    &at,      &bytes,
			 &found,	&expected,    &before.seed, &written, &after.seed };

	if (b->seen.chunks.next == 0)
		code = b->with.cu->memset_d8_async(turns, 0, sizeof(b->seen.chunks),
						   b->with.stream);
	if (code == CUDA_SUCCESS)
		code = begin_timed(b);
	if (code == CUDA_SUCCESS)
		code = launch(b, b->memory, args);
	asking_next(&b->asking);
	return code == CUDA_SUCCESS ? end_timed(b) : code;
}

/* So that the next ones have room: those that were seen are noted. */
static CUresult forget_records(struct burn *b, size_t of, struct found *seen)
{
	if (!seen->records)
		return CUDA_SUCCESS;
	seen->records = 0;
	return b->with.cu->memset_d8_async(word_at(b, of + offsetof(struct found, records)), 0,
					   sizeof(seen->records), b->with.stream);
}

static CUresult copy_back(struct burn *b)
{
	const struct cuda *cu = b->with.cu;
	const uint64_t now = clock_mono_ns();
	CUresult code = cu->copy_out_async(&b->pinned->words, word_at(b, 0), sizeof(struct words),
					   b->with.stream);

	b->table_comes =
		b->phase == PHASE_PRODUCTS && (b->closing || now - b->looked_ns >= LOOK_NS);
	if (!b->table_comes || code != CUDA_SUCCESS)
		return code;
	b->looked_ns = now;
	return cu->copy_out_async(b->pinned->table_back, word_at(b, WORDS_BYTES), TABLE_WORDS * 4,
				  b->with.stream);
}

CUresult burn_launch(struct burn *b)
{
	CUresult code;

	if (b->phase == PHASE_COPIES)
		return copies_launch(b->next);
	code = b->filled ? CUDA_SUCCESS : fill(b);
	if (code == CUDA_SUCCESS)
		code = forget_records(b, offsetof(struct words, product), &b->seen.product);
	if (code == CUDA_SUCCESS)
		code = forget_records(b, offsetof(struct words, memory), &b->seen.memory);
	if (code == CUDA_SUCCESS)
		code = b->phase == PHASE_MEMORY ? launch_pass(b)
		       : b->closing		? launch_closing(b)
						: launch_products(b);
	return code == CUDA_SUCCESS ? copy_back(b) : code;
}

void burn_close(struct burn *b)
{
	b->ends = true;
	if (b->phase == PHASE_PRODUCTS && b->filled && !b->closing)
		begin_closing(b);
}

bool burn_is_closed(const struct burn *b)
{
	return b->ends && (!b->closing || b->closed);
}

/* --- what it found --- */

static bool is_known(const struct burn_record *kept, uint32_t n, const struct burn_record *r)
{
	for (uint32_t i = 0; i < n; i++)
		if (kept[i].at == r->at && kept[i].got == r->got)
			return true;
	return false;
}

/* Those that are new go to kept; the number of those that were there already. */
static uint64_t note_records(const struct found *f, uint64_t modulo, struct burn_record *kept,
			     uint32_t *n_kept)
{
	uint64_t again = 0;

	for (uint64_t i = 0; i < f->records && i < BURN_FOUND_MAX; i++) {
		struct burn_record r = { .at = f->record[i].at % modulo,
					 .got = f->record[i].got,
					 .want = f->record[i].want };

		if (is_known(kept, *n_kept, &r))
			again++;
		else if (*n_kept < BURN_RECORDS)
			kept[(*n_kept)++] = r;
	}
	return again;
}

static uint64_t elapsed_ns(const struct burn *b)
{
	float ms = 0;

	return b->with.cu->event_elapsed(&ms, b->begin, b->end) == CUDA_SUCCESS && ms > 0
		       ? (uint64_t)((double)ms * 1e6)
		       : 0;
}

/* Of what took that long; 0: it tells nothing of the device's speed. */
static uint64_t timed_ns(const struct burn *b, uint64_t elapsed)
{
	return asking_was_late(&b->asking, elapsed) ? 0 : elapsed;
}

/* A product is compared again just before it is written over, so the fewer there are, the sooner
 * what has happened to one of them is seen. */
static void shorten_ring(struct burn *b)
{
	const struct burn_report *f = &b->found;
	const double flop = 2.0 * b->n * b->n * b->n;
	double most;

	if (f->product_ns < RING_AFTER_NS || b->products < 2)
		return;
	most = (double)f->gflop * 1e9 / flop / (double)f->product_ns * RING_NS;
	if (most < b->buffers)
		b->buffers = most > 2 ? (uint32_t)most : 2;
}

/* Elements of products that have been computed since the matrices were filled. */
static uint64_t elements_now(const struct burn *b, const struct words *w)
{
	return b->by_cublas ? cublas_rows(b->cublas) * b->n
			    : w->tiles.next * b->product->tile_elements;
}

static void note_compared(struct burn *b, const struct words *w)
{
	struct burn_report *f = &b->found;

	f->elements += w->product.looked_at - b->seen.product.looked_at;
	f->wrong += w->product.wrong - b->seen.product.wrong;
	f->nan += w->product.nan - b->seen.product.nan;
	f->inf += w->product.inf - b->seen.product.inf;
	f->repeated += note_records(&w->product, (uint64_t)b->n * b->n, f->record, &f->records);
}

static void note_closing(struct burn *b, const struct words *w)
{
	note_compared(b, w);
	b->closed = w->product.looked_at - b->closing_from >= (uint64_t)b->count * b->n * b->n;
}

static void note_products(struct burn *b, const struct words *w)
{
	const uint64_t of_one = (uint64_t)b->n * b->n, elapsed = elapsed_ns(b);
	const uint64_t took = timed_ns(b, elapsed);
	const uint64_t now = elements_now(b, w), more = now - b->elements;
	struct burn_report *f = &b->found;

	if (b->by_cublas)
		cublas_took(b->cublas, elapsed);
	f->n = b->n;
	f->precision = b->precision;
	(void)str_copy(f->kernel, sizeof(f->kernel),
		       b->by_cublas ? cublas_name(b->cublas) : b->product->name);
	f->product_ns += took;
	if (took)
		f->gflop += (uint64_t)((double)more * 2 * b->n / 1e9 + 0.5);
	note_compared(b, w);
	b->elements = now;
	b->products = now / of_one;
	shorten_ring(b);
}

static void note_table(struct burn *b)
{
	uint64_t wrong = 0;

	for (size_t i = 0; b->table_comes && i < TABLE_WORDS; i++)
		wrong += b->pinned->table_back[i] != b->pinned->table[i];
	if (wrong > b->found.reference_wrong)
		b->found.reference_wrong = wrong;
}

/* Each writes over what the one before has left. */
static void change_phase(struct burn *b, enum phase phase)
{
	b->phase = phase;
	b->filled = b->closing = false;
	if (phase != PHASE_COPIES)
		return;
	b->copies_end_ns = clock_mono_ns() + MIXED_COPY_NS + peers_round_ns(b->peers);
	copies_restart(b->copies);
	peers_restart(b->peers);
	b->next = b->copies;
}

/* The next piece, the next pass, or after a whole round of a mixed burn what comes then. */
static void go_on(struct burn *b)
{
	b->seen.chunks.next = 0;
	if (++b->piece < b->job.n_pieces)
		return;
	b->piece = 0;
	b->pass++;
	b->found.passes++;
	if (b->job.test.load == BURN_MIXED && b->pass > ROUND)
		change_phase(b, b->found.copies.code ? PHASE_PRODUCTS : PHASE_COPIES);
}

static void note_pass(struct burn *b, const struct words *w)
{
	const uint64_t chunks = piece_chunks(b);
	const uint64_t now = w->chunks.next < chunks ? w->chunks.next : chunks;
	const unsigned int ways = b->pass > 0 ? 2 : 1; /* read and written, or written */
	const uint64_t took = timed_ns(b, elapsed_ns(b));
	struct burn_report *f = &b->found;

	f->memory_ns += took;
	if (took)
		f->memory_bytes += (now - b->seen.chunks.next) * BURN_CHUNK_BYTES * ways;
	f->words += w->memory.looked_at - b->seen.memory.looked_at;
	f->words_wrong += w->memory.wrong - b->seen.memory.wrong;
	f->words_repeated += note_records(&w->memory, UINT64_MAX, f->word, &f->word_records);
	b->seen = *w;
	b->seen.chunks.next = now;
	if (now >= chunks)
		go_on(b);
}

static CUresult finish_copies(struct burn *b)
{
	CUresult code = b->next == b->copies ? copies_finish(b->copies, &b->found.copies)
					     : peers_finish(b->peers, &b->found);
	struct copies *peer = code == CUDA_SUCCESS ? peers_next(b->peers, clock_mono_ns()) : NULL;

	peers_note(b->peers, &b->found);
	b->next = peer ? peer : b->copies;
	if (b->job.test.load == BURN_MIXED && clock_mono_ns() >= b->copies_end_ns)
		change_phase(b, PHASE_PRODUCTS);
	return code;
}

CUresult burn_finish(struct burn *b)
{
	CUresult code;

	if (b->phase == PHASE_COPIES)
		return finish_copies(b);
	code = b->with.cu->stream_synchronize(b->with.stream);
	if (code != CUDA_SUCCESS) {
		b->found.cuda = code;
		return code;
	}

	const struct words w = b->pinned->words;

	if (b->phase == PHASE_MEMORY) {
		note_pass(b, &w);
		return code;
	}
	if (b->closing)
		note_closing(b, &w);
	else
		note_products(b, &w);
	note_table(b);
	b->seen = w;
	if (b->closing && b->closed && !b->ends)
		change_phase(b, PHASE_MEMORY);
	else if (b->job.test.load == BURN_MIXED && b->slices >= MIXED_SLICES && !b->closing)
		begin_closing(b);
	return code;
}

void burn_set_peers(struct burn *b, const struct burn_peers *peers)
{
	if (!b->peers)
		return;
	peers_set(b->peers, peers);
	b->next = b->copies;
}

const struct burn_report *burn_found(const struct burn *b)
{
	return &b->found;
}
