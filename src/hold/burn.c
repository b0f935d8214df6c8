/* SPDX-License-Identifier: MIT */
#include "hold/burn.h"

#include "base/enumstr.h"
#include "base/mem.h"
#include "base/utf8.h"

static const char *const load_names[] = {
	[BURN_TENSOR] = "tensor", [BURN_FP32] = "fp32",	    [BURN_FP64] = "fp64",
	[BURN_MEMORY] = "memory", [BURN_COPIES] = "copies", [BURN_MIXED] = "mixed",
};
_Static_assert(ARRAY_LEN(load_names) == BURN_LOAD_MAX, "a name for every load");

static const struct {
	const char *name;
	uint32_t bytes;
} precisions[] = {
	[PRECISION_F16] = { "fp16", 2 },  [PRECISION_BF16] = { "bf16", 2 },
	[PRECISION_TF32] = { "tf32", 4 }, [PRECISION_E4M3] = { "fp8", 1 },
	[PRECISION_F32] = { "fp32", 4 },  [PRECISION_F64] = { "fp64", 8 },
};
_Static_assert(ARRAY_LEN(precisions) == PRECISION_MAX, "a name for every precision");

const char *burn_load_name(uint32_t load)
{
	return enum_name(load_names, BURN_LOAD_MAX, load);
}

const char *precision_name(uint32_t precision)
{
	return precision < PRECISION_MAX ? precisions[precision].name : "?";
}

uint32_t precision_bytes(uint32_t precision)
{
	return precision < PRECISION_MAX ? precisions[precision].bytes : 0;
}

enum precision burn_precision(enum burn_load load, enum precision chosen)
{
	return load == BURN_FP32 ? PRECISION_F32 : load == BURN_FP64 ? PRECISION_F64 : chosen;
}

bool burn_has_products(enum burn_load load)
{
	return load != BURN_MEMORY;
}

void burn_report_end(struct burn_report *r)
{
	r->kernel[sizeof(r->kernel) - 1] = '\0';
	(void)utf8_clean(r->kernel);
	if (r->records > BURN_RECORDS)
		r->records = BURN_RECORDS;
	if (r->word_records > BURN_RECORDS)
		r->word_records = BURN_RECORDS;
	if (r->copies.records > BURN_RECORDS)
		r->copies.records = BURN_RECORDS;
}

uint64_t burn_report_errors(const struct burn_report *r)
{
	return r->wrong + r->nan + r->inf + r->reference_wrong + r->words_wrong +
	       r->copies.wrong[BURN_TO] + r->copies.wrong[BURN_FROM];
}
