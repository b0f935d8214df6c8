/* SPDX-License-Identifier: MIT */
#include "hold/burn.h"

#include <errno.h>

#include "base/enumstr.h"
#include "base/mem.h"
#include "base/utf8.h"

const char *const burn_load_words[] = {
	[BURN_TENSOR] = "tensor", [BURN_FP32] = "fp32",	    [BURN_FP64] = "fp64",
	[BURN_MEMORY] = "memory", [BURN_COPIES] = "copies", [BURN_MIXED] = "mixed",
	[BURN_LOAD_MAX] = NULL,
};
_Static_assert(ARRAY_LEN(burn_load_words) == BURN_LOAD_MAX + 1, "a name for every load");

/* Those that can be chosen; the others belong to a load of their own, of the same name. */
const char *const precision_words[] = {
	[PRECISION_F16] = "fp16", [PRECISION_BF16] = "bf16",   [PRECISION_TF32] = "tf32",
	[PRECISION_E4M3] = "fp8", [PRECISION_E4M3 + 1] = NULL,
};

const char *const burn_kernel_words[] = {
	[BURN_KERNEL_AUTO] = "auto",
	[BURN_KERNEL_OWN] = "own",
	[BURN_KERNEL_CUBLAS] = "cublas",
	[BURN_KERNEL_MAX] = NULL,
};

static const uint32_t bytes_of[] = {
	[PRECISION_F16] = 2,  [PRECISION_BF16] = 2, [PRECISION_TF32] = 4,
	[PRECISION_E4M3] = 1, [PRECISION_F32] = 4,  [PRECISION_F64] = 8,
};
_Static_assert(ARRAY_LEN(bytes_of) == PRECISION_MAX, "a size for every precision");

bool burn_copies_to_peers(uint32_t load)
{
	return load == BURN_COPIES || load == BURN_MIXED;
}

const char *burn_load_name(uint32_t load)
{
	return enum_name(burn_load_words, BURN_LOAD_MAX, load);
}

const char *precision_name(uint32_t precision)
{
	if (precision < ARRAY_LEN(precision_words) - 1)
		return precision_words[precision];
	return precision == PRECISION_F32   ? burn_load_words[BURN_FP32]
	       : precision == PRECISION_F64 ? burn_load_words[BURN_FP64]
					    : "?";
}

uint32_t precision_bytes(uint32_t precision)
{
	return precision < PRECISION_MAX ? bytes_of[precision] : 0;
}

enum precision burn_precision(enum burn_load load, uint32_t chosen, int capability)
{
	if (chosen == PRECISION_BEST)
		chosen = capability < 80 ? PRECISION_F16 : PRECISION_BF16;
	return load == BURN_FP32   ? PRECISION_F32
	       : load == BURN_FP64 ? PRECISION_F64
				   : (enum precision)chosen;
}

bool burn_has_products(enum burn_load load)
{
	return load != BURN_MEMORY && load != BURN_COPIES;
}

int burn_test_check(const struct burn_test *o, struct err *e)
{
	if (o->load >= BURN_LOAD_MAX ||
	    (o->precision >= PRECISION_MAX && o->precision != PRECISION_BEST) ||
	    o->kernel >= BURN_KERNEL_MAX || o->exclusive > 1)
		return err_set(e, -EINVAL, "burn: unknown load %u, precision %u or kernel %u",
			       o->load, o->precision, o->kernel);
	return 0;
}

static void end_copies(struct burn_copies *c)
{
	if (c->records > BURN_RECORDS)
		c->records = BURN_RECORDS;
}

void burn_report_end(struct burn_report *r)
{
	r->kernel[sizeof(r->kernel) - 1] = '\0';
	(void)utf8_clean(r->kernel);
	if (r->records > BURN_RECORDS)
		r->records = BURN_RECORDS;
	if (r->word_records > BURN_RECORDS)
		r->word_records = BURN_RECORDS;
	end_copies(&r->copies);
	if (r->n_links > BURN_PEERS_MAX)
		r->n_links = BURN_PEERS_MAX;
	for (uint32_t i = 0; i < r->n_links; i++)
		end_copies(&r->links[i].copies);
}

uint64_t burn_report_errors(const struct burn_report *r)
{
	uint64_t n = r->wrong + r->nan + r->inf + r->reference_wrong + r->words_wrong +
		     r->copies.wrong[BURN_TO] + r->copies.wrong[BURN_FROM];

	for (uint32_t i = 0; i < r->n_links && i < BURN_PEERS_MAX; i++)
		n += r->links[i].copies.wrong[BURN_TO];
	return n;
}
