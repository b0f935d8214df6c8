/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_LOAD_H
#define TENURE_HOLD_HOLDER_LOAD_H

/*
 * The load of one holder: a thread that launches a kernel at the start of every period and naps
 * until the next. A launch lasts duty x LOAD_PERIOD_NS, never longer than one period, and ends
 * within a few tens of microseconds of load_stop(), because every kernel of ours watches a word in
 * mapped host memory: letting go takes no driver call and waits for no kernel. A burn launches one
 * slice behind the other.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/cuda.h"
#include "hold/holder/burn.h"
#include "hold/policy.h"

/* 20 ms: the longest launch of ours, and short against the 1/6 s over which NVML averages. */
#define LOAD_PERIOD_NS 20000000ULL

struct load;

/*
 * Prepare loads of all kinds in the context ctx. The thread is started and waits. 0 and *ret (never
 * freed: it lives as long as the process), or -errno.
 */
int load_create(const struct cuda *cu, CUcontext ctx, struct load **ret, struct err *e);

/* Run kind at duty (0..1000). LOAD_NONE stops. Returns at once. */
void load_run(struct load *l, enum load_kind kind, uint32_t duty_permille);

/* What LOAD_BURN is from now on. */
void load_set_burn(struct load *l, const struct burn_test *test);

/*
 * The burn is over: wait until what it has computed is compared, and stop. Nobody waits for the
 * memory, because this takes as long as that comparison, up to LOAD_CLOSE_MS. Where none runs it is
 * load_stop().
 */
#define LOAD_CLOSE_MS 150
void load_close(struct load *l);

/* The windows of the devices that burn, from now on; those that are gone are closed soon. */
void load_set_peers(struct load *l, const struct burn_peers *peers);

/* What a burn has found so far; false: there was none. */
bool load_burn_found(struct load *l, struct burn_report *ret);

/* The pieces that are held, on a card of total_bytes, before the first load_run() of a kind that
 * uses them; valid until load_stop(). gemm uses what load_gemm_fit() says of the first, a burn all
 * of them. 0 pieces: there is nothing. */
void load_set_memory(struct load *l, const struct burn_piece *pieces, unsigned int n,
		     uint64_t total_bytes);

/* End the running launch and start no other until load_run(). Returns at once; no driver call. */
void load_stop(struct load *l);

/* The first error that a launch met, 0 if none; then the load has stopped for good. */
int load_error(struct load *l, struct err *e);

/* Pure: product_side() of the card, or the largest below it whose matrices fit into work_bytes; 0
 * where none does. */
uint32_t load_gemm_fit(uint64_t total_bytes, size_t work_bytes);

/* Bytes that gemm needs for that N: two matrices of half, one of single precision, a counter. */
size_t load_gemm_bytes(uint32_t n);

#endif
