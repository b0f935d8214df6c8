/* SPDX-License-Identifier: MIT */
#include "hold/holder/product.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"

extern const char kernel_gemm_sm80[];
extern const char kernel_gemm_sm90a[];
extern const char kernel_gemm_simt[];
extern const char kernel_gemm_f64_sm80[];
extern const char kernel_gemm_f64_sm90[];

#define HALVES "tenure_gemm", PRECISION_F16
#define SINGLE "tenure_gemm_f32", PRECISION_F32
#define DOUBLE "tenure_gemm_f64", PRECISION_F64

const struct product products[] = {
	{ "9.0", 90, 90, kernel_gemm_sm90a, HALVES, 256, 1, 197632, 128 * 256, true },
	{ "8.0", 80, INT_MAX, kernel_gemm_sm80, HALVES, 256, 1, 98304, 128 * 256, false },
	{ "7.0", 70, INT_MAX, kernel_gemm, HALVES, 128, 4, 0, 64 * 64, false },
	{ "7.0", 70, INT_MAX, kernel_gemm_simt, SINGLE, 256, 2, 0, 128 * 128, false },
	{ "9.0", 90, INT_MAX, kernel_gemm_f64_sm90, DOUBLE, 256, 1, 65664, 128 * 128, false },
	{ "8.0", 80, INT_MAX, kernel_gemm_f64_sm80, DOUBLE, 256, 1, 65664, 128 * 128, false },
	{ "7.0", 70, INT_MAX, kernel_gemm_simt, DOUBLE, 256, 2, 0, 64 * 64, false },
	{ 0 },
};

uint32_t product_side(uint64_t total_bytes)
{
	uint64_t side_squared = total_bytes / 20 / 6;
	uint64_t n = PRODUCT_SIDE_STEP;

	/* Nearest multiple: step on while the middle to the next one is still below. */
	while ((n + PRODUCT_SIDE_STEP / 2) * (n + PRODUCT_SIDE_STEP / 2) < side_squared)
		n += PRODUCT_SIDE_STEP;
	return (uint32_t)n;
}

/*
 * The texts are for halves. A kernel of another precision is the same text with another instruction
 * in it, because rows are counted in bytes: 32 of them are what one instruction takes.
 */
static const struct variant {
	const char *ptx;
	enum precision precision;
	int from; /* compute capability, where that is more than the kernel's own */
	struct {
		const char *of_halves, *instead;
	} words[3];
} variants[] = {
	{ kernel_gemm_sm90a,
	  PRECISION_BF16,
	  0,
	  { { ".m64n256k16.f32.f16.f16 ", ".m64n256k16.f32.bf16.bf16 " } } },
	{ kernel_gemm_sm90a,
	  PRECISION_TF32,
	  0,
	  { { ".m64n256k16.f32.f16.f16 ", ".m64n256k8.f32.tf32.tf32 " },
	    { "add, 1, 1, 0, 0;", "add, 1, 1;" } } },
	{ kernel_gemm_sm90a,
	  PRECISION_E4M3,
	  0,
	  { { ".m64n256k16.f32.f16.f16 ", ".m64n256k32.f32.e4m3.e4m3 " },
	    { "add, 1, 1, 0, 0;", "add, 1, 1;" } } },
	{ kernel_gemm_sm80,
	  PRECISION_BF16,
	  0,
	  { { ".m16n8k16.row.col.f32.f16.f16.f32 ", ".m16n8k16.row.col.f32.bf16.bf16.f32 " } } },
	{ kernel_gemm_sm80,
	  PRECISION_TF32,
	  0,
	  { { ".m16n8k16.row.col.f32.f16.f16.f32 ", ".m16n8k8.row.col.f32.tf32.tf32.f32 " } } },
	{ kernel_gemm_sm80,
	  PRECISION_E4M3,
	  89,
	  { { ".m16n8k16.row.col.f32.f16.f16.f32 ", ".m16n8k32.row.col.f32.e4m3.e4m3.f32 " },
	    { ".version 7.1", ".version 8.4" },
	    { ".target sm_80", ".target sm_89" } } },
};

/* text with each `from` as `to`. */
static void replace_all(struct strbuf *text, const char *from, const char *to)
{
	struct strbuf out = STRBUF_INIT;
	const char *at = text->data, *hit;

	for (; (hit = strstr(at, from)); at = hit + strlen(from)) {
		strbuf_add(&out, at, (size_t)(hit - at));
		strbuf_adds(&out, to);
	}
	strbuf_adds(&out, at);
	strbuf_clear(text);
	*text = out;
}

/* The text for that precision; false: there is none. */
static bool make_text(struct strbuf *text, const struct product *p, int capability,
		      enum precision precision)
{
	strbuf_adds(text, p->ptx);
	if (precision == p->precision)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(variants); i++) {
		const struct variant *v = &variants[i];

		if (v->ptx != p->ptx || v->precision != precision || capability < v->from)
			continue;
		for (size_t w = 0; w < ARRAY_LEN(v->words) && v->words[w].of_halves; w++)
			replace_all(text, v->words[w].of_halves, v->words[w].instead);
		return true;
	}
	return false;
}

CUfunction product_load(const struct cuda *cu, const struct product *p, int capability,
			enum precision precision)
{
	const CUfunction_attribute shared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
	cleanup_strbuf struct strbuf text = STRBUF_INIT;
	CUmodule module;
	CUfunction f;

	if (capability < p->from || capability > p->to ||
	    !make_text(&text, p, capability, precision) ||
	    cu->module_load(&module, text.data) != CUDA_SUCCESS ||
	    cu->module_function(&f, module, p->entry) != CUDA_SUCCESS ||
	    cu->function_set(f, shared, (int)p->shared_bytes) != CUDA_SUCCESS)
		return NULL;
	return f;
}

CUfunction product_find(const struct cuda *cu, int capability, enum precision precision,
			const struct product **ret)
{
	for (const struct product *p = products; p->name; p++) {
		CUfunction f = product_load(cu, p, capability, precision);

		*ret = p;
		if (f)
			return f;
	}
	return NULL;
}

static uint32_t fold(double x)
{
	uint64_t bits;
	uint32_t high, low;

	memcpy(&bits, &x, sizeof(bits));
	high = (uint32_t)(bits >> 32);
	low = (uint32_t)bits;
	high ^= low << 13 | low >> 19;
	return (high ^ (high >> 30 & 1) << 7) & 0xbfffffff;
}

uint32_t product_word(enum precision precision, int64_t sum)
{
	const float single = (float)sum;
	uint32_t word;

	if (precision == PRECISION_F64)
		return fold((double)sum);
	memcpy(&word, &single, sizeof(word));
	return word;
}

CUresult product_launch(const struct cuda *cu, const struct product *p, CUfunction f,
			unsigned int sm_count, CUstream stream, struct product_args *a)
{
	void *args[] = { &a->stop, &a->duration_ns, &a->turns, &a->a,	   &a->b,
			 &a->c,	   &a->n,	    &a->bytes, &a->buffers };

	/* As many blocks as have room: they take tiles in turn, so any number works. */
	return cu->launch(f, sm_count * p->blocks_per_sm, 1, 1, p->threads, 1, 1, p->shared_bytes,
			  stream, args, NULL);
}
