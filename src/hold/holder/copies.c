/* SPDX-License-Identifier: MIT */
/*
 * A round is four steps. The device fills a window A, and:
 *
 *	OUT	A -> x on the far side
 *	IN	x -> B, and the device compares B
 *	BOTH	A -> y on the far side, while x -> C
 *	BACK	y -> B; the device compares C and B
 *
 * So each copy is compared, by the device; where one goes is wiped before. Only where something
 * is wrong does the host look at its own side, to tell on which way it went wrong; into the memory
 * of another device it cannot look. A kernel comes before each copy whose time is taken, so that a
 * host that is slow to ask for it does not count.
 *
 * The first round is small, and tells how large the next ones may be. A kernel that was told to
 * stop leaves half a pattern behind: the round begins anew then, and nothing is counted.
 */
#include "hold/holder/copies.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "hold/holder/burn_words.h"

#define MIB_BYTES    (1ULL << 20)
#define FIRST_BYTES  (2 * MIB_BYTES)
#define WORDS_BYTES  MIB_BYTES /* in front of the windows */
#define KERNEL_NS    (2 * NS_PER_MS)
#define SEED_STEP    0x9e3779b9U
#define KERNELS_MOST 3 /* of a step */

enum step { STEP_OUT, STEP_IN, STEP_BOTH, STEP_BACK, STEP_MAX };
enum window { WINDOW_A, WINDOW_B, WINDOW_C, WINDOW_MAX };

/* In device memory, cleared before each step and copied back behind it. */
struct step_words {
	struct turns turns[KERNELS_MOST]; /* of the step's kernels */
	struct found found[KERNELS_MOST];
};

struct copies {
	struct copies_setup with;
	CUstream other;
	CUevent begin, end, other_end;
	struct step_words *words; /* on the host */
	uint32_t *host[2];	  /* NULL: none is pinned */
	uint64_t host_bytes;	  /* of each */
	CUdeviceptr far[2];	  /* x and y */
	bool far_is_host;
	CUdeviceptr at;
	uint64_t room, window; /* bytes: that there are for a window, and of one now */
	enum step step;
	uint32_t seed;
	struct copy_rates own_rates, *rates;
	uint64_t x_wrong; /* words of x, found when it was copied in */
};

uint64_t copies_window(uint64_t bytes, uint64_t ns, uint64_t room)
{
	const double most = ns ? (double)bytes / (double)ns * COPIES_NS : (double)bytes;
	const uint64_t window = most < (double)room ? (uint64_t)most : room;

	return window < MIB_BYTES ? MIB_BYTES : window / MIB_BYTES * MIB_BYTES;
}

/* -------- the beginning -------- */

int copies_create(const struct copies_setup *setup, struct copies **ret, struct err *e)
{
	const struct cuda *cu = setup->cu;
	struct copies *c = xcalloc(1, sizeof(*c));
	void *words = NULL;
	CUresult code = cu->stream_create(&c->other, CU_STREAM_NON_BLOCKING);

	if (code == CUDA_SUCCESS)
		code = cu->event_create(&c->begin, CU_EVENT_DEFAULT);
	if (code == CUDA_SUCCESS)
		code = cu->event_create(&c->end, CU_EVENT_DEFAULT);
	if (code == CUDA_SUCCESS)
		code = cu->event_create(&c->other_end, CU_EVENT_DEFAULT);
	if (code == CUDA_SUCCESS)
		code = cu->host_alloc(&words, sizeof(*c->words), CU_MEMHOSTALLOC_PORTABLE);
	if (code != CUDA_SUCCESS) {
		free(c);
		(void)cuda_result(cu, code, e, "a stream for copies");
		return -EIO;
	}
	c->with = *setup;
	c->words = words;
	*ret = c;
	return 0;
}

/* As much as the driver gives: RLIMIT_MEMLOCK does not count for it, but a host may be short. */
static int pin_host(struct copies *c, struct err *e)
{
	const struct cuda *cu = c->with.cu;
	CUresult code = CUDA_SUCCESS;

	if (c->host[0])
		return 0;
	for (c->host_bytes = COPIES_WINDOW_MOST; c->host_bytes >= MIB_BYTES; c->host_bytes /= 2) {
		void *x = NULL, *y = NULL;

		code = cu->host_alloc(&x, c->host_bytes, CU_MEMHOSTALLOC_PORTABLE);
		if (code != CUDA_SUCCESS)
			continue;
		code = cu->host_alloc(&y, c->host_bytes, CU_MEMHOSTALLOC_PORTABLE);
		if (code == CUDA_SUCCESS) {
			c->host[0] = x;
			c->host[1] = y;
			return 0;
		}
		(void)cu->host_free(x);
	}
	(void)cuda_result(cu, code, e, "pinned memory of the host");
	return -ENOMEM; /* whatever the driver calls it */
}

/* Bytes for each window, whole MiB. */
static uint64_t room_in(uint64_t bytes)
{
	return bytes < WORDS_BYTES ? 0 : (bytes - WORDS_BYTES) / WINDOW_MAX / MIB_BYTES * MIB_BYTES;
}

static void begin(struct copies *c, CUdeviceptr at, uint64_t room, uint64_t far_bytes)
{
	c->at = at;
	c->room = room < far_bytes ? room : far_bytes;
	if (c->rates->window > c->room)
		c->rates->window = 0;
	c->window = c->rates->window	    ? c->rates->window
		    : FIRST_BYTES < c->room ? FIRST_BYTES
					    : c->room;
	c->step = STEP_OUT;
}

int copies_begin(struct copies *c, CUdeviceptr at, uint64_t bytes, struct err *e)
{
	const uint64_t room = room_in(bytes);
	int r;

	if (!room)
		return err_set(e, -ENOSPC, "what is held is too small for copies");
	r = pin_host(c, e);
	if (r < 0)
		return r;
	c->far_is_host = true;
	c->far[0] = (CUdeviceptr)(uintptr_t)c->host[0];
	c->far[1] = (CUdeviceptr)(uintptr_t)c->host[1];
	c->rates = &c->own_rates;
	begin(c, at, room, c->host_bytes);
	return 0;
}

int copies_begin_far(struct copies *c, CUdeviceptr at, uint64_t bytes, CUdeviceptr far,
		     uint64_t far_bytes, struct copy_rates *rates, struct err *e)
{
	const uint64_t room = room_in(bytes);

	if (!room)
		return err_set(e, -ENOSPC, "what is held is too small for copies");
	c->far_is_host = false;
	c->far[0] = far;
	c->far[1] = far + far_bytes;
	c->rates = rates;
	begin(c, at, room, far_bytes);
	return 0;
}

void copies_restart(struct copies *c)
{
	c->step = STEP_OUT;
}

void copies_give_back(struct copies *c)
{
	for (size_t i = 0; i < ARRAY_LEN(c->host); i++) {
		if (c->host[i])
			(void)c->with.cu->host_free(c->host[i]);
		c->host[i] = NULL;
	}
}

/* -------- launches -------- */

static CUdeviceptr window_at(const struct copies *c, enum window w)
{
	return c->at + WORDS_BYTES + w * c->room;
}

/* What is in the window has to be `expected`, or `written` is left there; k is the number of the
 * kernel in its step. */
static CUresult patterns(struct copies *c, unsigned int k, enum window w, uint32_t expected,
			 uint32_t written)
{
	uint64_t duration_ns = KERNEL_NS, bytes = c->window;
	uint32_t written_seed = written == PATTERN_RANDOM ? c->seed : 0;
	CUdeviceptr at = window_at(c, w);
	CUdeviceptr turns = c->at + offsetof(struct step_words, turns) + k * sizeof(struct turns);
	CUdeviceptr found = c->at + offsetof(struct step_words, found) + k * sizeof(struct found);
	void *args[] = { &c->with.stop, &duration_ns, &turns,	&at,	  &bytes,
			 &found,	&expected,    &c->seed, &written, &written_seed };

	return c->with.cu->launch(c->with.memory, c->with.sm_count * BURN_BLOCKS_PER_SM, 1, 1,
				  BURN_THREADS, 1, 1, 0, c->with.stream, args, NULL);
}

static CUresult fill(struct copies *c, enum window w)
{
	return patterns(c, 0, w, PATTERN_NONE, PATTERN_RANDOM);
}

static CUresult wipe(struct copies *c, enum window w)
{
	return patterns(c, 0, w, PATTERN_NONE, PATTERN_WORD);
}

static CUresult compare(struct copies *c, unsigned int k, enum window w)
{
	return patterns(c, k, w, PATTERN_RANDOM, PATTERN_NONE);
}

/* A copy of a window, and when it began and ended. */
static CUresult copy(struct copies *c, enum window w, CUdeviceptr far, bool in)
{
	const struct cuda *cu = c->with.cu;
	CUresult code = cu->event_record(c->begin, c->with.stream);

	if (code == CUDA_SUCCESS)
		code = in ? cu->copy_async(window_at(c, w), far, c->window, c->with.stream)
			  : cu->copy_async(far, window_at(c, w), c->window, c->with.stream);
	return code == CUDA_SUCCESS ? cu->event_record(c->end, c->with.stream) : code;
}

static CUresult launch_out(struct copies *c)
{
	CUresult code;

	c->seed += SEED_STEP;
	c->x_wrong = 0;
	code = fill(c, WINDOW_A);
	return code == CUDA_SUCCESS ? copy(c, WINDOW_A, c->far[0], false) : code;
}

static CUresult launch_in(struct copies *c)
{
	CUresult code = wipe(c, WINDOW_B);

	if (code == CUDA_SUCCESS)
		code = copy(c, WINDOW_B, c->far[0], true);
	return code == CUDA_SUCCESS ? compare(c, 1, WINDOW_B) : code;
}

static CUresult launch_both(struct copies *c)
{
	const struct cuda *cu = c->with.cu;
	CUresult code = wipe(c, WINDOW_C);

	if (code == CUDA_SUCCESS)
		code = copy(c, WINDOW_A, c->far[1], false);
	if (code == CUDA_SUCCESS)
		code = cu->stream_wait(c->other, c->begin, 0);
	if (code == CUDA_SUCCESS)
		code = cu->copy_async(window_at(c, WINDOW_C), c->far[0], c->window, c->other);
	return code == CUDA_SUCCESS ? cu->event_record(c->other_end, c->other) : code;
}

static CUresult launch_back(struct copies *c)
{
	CUresult code = wipe(c, WINDOW_B);

	if (code == CUDA_SUCCESS)
		code = copy(c, WINDOW_B, c->far[1], true);
	if (code == CUDA_SUCCESS)
		code = compare(c, 1, WINDOW_C);
	return code == CUDA_SUCCESS ? compare(c, 2, WINDOW_B) : code;
}

static const struct step_row {
	CUresult (*launch)(struct copies *c);
	unsigned int kernels;
} steps[STEP_MAX] = {
	[STEP_OUT] = { launch_out, 1 },
	[STEP_IN] = { launch_in, 2 },
	[STEP_BOTH] = { launch_both, 1 },
	[STEP_BACK] = { launch_back, KERNELS_MOST },
};

CUresult copies_launch(struct copies *c)
{
	const struct cuda *cu = c->with.cu;
	CUresult code = cu->memset_d8_async(c->at, 0, sizeof(*c->words), c->with.stream);

	if (code == CUDA_SUCCESS)
		code = steps[c->step].launch(c);
	return code == CUDA_SUCCESS
		       ? cu->copy_out_async(c->words, c->at, sizeof(*c->words), c->with.stream)
		       : code;
}

/* -------- what it found -------- */

static uint64_t between(const struct copies *c, CUevent begin, CUevent end)
{
	float ms = 0;

	return c->with.cu->event_elapsed(&ms, begin, end) == CUDA_SUCCESS && ms > 0
		       ? (uint64_t)((double)ms * 1e6)
		       : 0;
}

/* All kernels of the step have come to their end. */
static bool is_whole(const struct copies *c)
{
	const uint64_t chunks = (c->window + BURN_CHUNK_BYTES - 1) / BURN_CHUNK_BYTES;

	for (unsigned int k = 0; k < steps[c->step].kernels; k++)
		if (c->words->turns[k].next < chunks)
			return false;
	return true;
}

static int compare_rates(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The median, because a host with much to do is late now and then, and that is no matter of the
 * bus. */
static void note_rate(struct copies *c, enum burn_way way, uint64_t bytes, uint64_t ns,
		      struct burn_copies *f)
{
	uint64_t sorted[COPIES_RATES], *last = c->rates->last[way];
	uint64_t n;

	if (!ns)
		return;
	last[f->copies[way]++ % COPIES_RATES] = (uint64_t)((double)bytes / (double)ns * 1e9);
	n = f->copies[way] < COPIES_RATES ? f->copies[way] : COPIES_RATES;
	(void)memcpy(sorted, last, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), compare_rates);
	f->bytes_per_s[way] = sorted[n / 2];
}

static void note_times(struct copies *c, struct burn_copies *f)
{
	/* To the device, of the host's memory; to the other one, of that one's. */
	const bool is_to = (c->step == STEP_OUT) != c->far_is_host;
	const uint64_t ns = between(c, c->begin, c->end);
	uint64_t other;

	if (c->step != STEP_BOTH) {
		note_rate(c, is_to ? BURN_TO : BURN_FROM, c->window, ns, f);
		return;
	}
	other = between(c, c->begin, c->other_end);
	note_rate(c, BURN_BOTH, 2 * c->window, ns > other ? ns : other, f);
}

static uint64_t wrong_on_host(const struct copies *c, const uint32_t *host)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < c->window / 4; i++)
		wrong += host[i] != burn_random_word(i, c->seed);
	return wrong;
}

static void note_records(const struct found *found, struct burn_copies *f)
{
	for (uint64_t i = 0; i < found->records && i < BURN_FOUND_MAX; i++)
		if (f->records < BURN_RECORDS)
			f->record[f->records++] =
				(struct burn_record){ .at = found->record[i].at,
						      .got = found->record[i].got,
						      .want = found->record[i].want };
}

/* A word that is wrong on the host has been so before it came in. */
static void note_words(struct copies *c, struct burn_copies *f)
{
	uint64_t wrong = 0, before = c->x_wrong, y_wrong = 0;

	for (unsigned int k = 0; k < steps[c->step].kernels; k++) {
		f->words += c->words->found[k].looked_at;
		wrong += c->words->found[k].wrong;
		note_records(&c->words->found[k], f);
	}
	if (!wrong)
		return;
	if (!c->far_is_host) {
		f->wrong[BURN_TO] += wrong;
		return;
	}
	if (c->step == STEP_IN) {
		before = c->x_wrong = wrong_on_host(c, c->host[0]);
		f->wrong[BURN_FROM] += c->x_wrong;
	} else {
		y_wrong = wrong_on_host(c, c->host[1]);
		f->wrong[BURN_FROM] += y_wrong;
	}
	before += y_wrong;
	f->wrong[BURN_TO] += wrong > before ? wrong - before : 0;
}

/* The slower way of the first round tells how large the others may be. */
static void go_on(struct copies *c)
{
	if (!c->rates->window && c->step == STEP_BOTH) {
		const uint64_t one = between(c, c->begin, c->end);
		const uint64_t other = between(c, c->begin, c->other_end);

		c->window = copies_window(c->window, one > other ? one : other, c->room);
		c->rates->window = c->window;
		c->step = STEP_OUT;
		return;
	}
	c->step = (enum step)((c->step + 1) % STEP_MAX);
}

CUresult copies_finish(struct copies *c, struct burn_copies *found)
{
	CUresult code = c->with.cu->stream_synchronize(c->with.stream);

	if (code == CUDA_SUCCESS)
		code = c->with.cu->stream_synchronize(c->other);
	if (code != CUDA_SUCCESS)
		return code;
	if (!is_whole(c)) {
		c->step = STEP_OUT;
		return code;
	}
	note_words(c, found);
	if (c->rates->window)
		note_times(c, found);
	go_on(c);
	return code;
}
