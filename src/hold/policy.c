/* SPDX-License-Identifier: MIT */
#include "hold/policy.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "hold/burn.h"

static const char *const load_names[] = {
	[LOAD_NONE] = "none", [LOAD_LIGHT] = "light", [LOAD_SM] = "sm",
	[LOAD_GEMM] = "gemm", [LOAD_BURN] = "burn",
};
_Static_assert(ARRAY_LEN(load_names) == LOAD_MAX, "a name for every load");

const char *load_kind_name(uint32_t kind)
{
	return kind < LOAD_MAX ? load_names[kind] : "?";
}

int load_kind_parse(const char *name, uint8_t *ret, struct err *e)
{
	for (uint8_t i = 0; i < LOAD_BURN; i++)
		if (!strcmp(name, load_names[i])) {
			*ret = i;
			return 0;
		}
	return err_set(e, -EINVAL, "unknown load \"%s\"; there are none, light, sm and gemm", name);
}

void policy_defaults(struct hold_policy *p)
{
	*p = (struct hold_policy){
		.hold = 1,
		.all = 1,
		.load = LOAD_LIGHT,
		.util_low = 50,
		.util = 75,
		.util_high = 85,
		.memory = { .kind = MEM_PERMILLE, .permille = 880 },
		.idle_below_bytes = 1ULL << 30,
		.idle_for_ms = 5 * 60 * 1000,
		.refresh_ms = 60 * 1000,
		.rehold_ms = 60 * 1000,
	};
}

static int check_memory(const struct mem_amount *m, struct err *e)
{
	if (m->kind >= MEM_KIND_MAX)
		return err_set(e, -EINVAL, "memory: unknown kind %u", m->kind);
	if (m->kind == MEM_PERMILLE && (m->permille < 1 || m->permille > 1000))
		return err_set(e, -EINVAL, "memory: a share is more than 0 %% and at most 100 %%");
	if (m->kind == MEM_BYTES && m->bytes == 0)
		return err_set(e, -EINVAL, "memory: nothing to hold");
	return 0;
}

/* Ten years: in nanoseconds, and with the jitter of a wait, it still fits 64 bits. */
#define TIME_MAX_MS (10ULL * 366 * 24 * 3600 * 1000)

static int check_times(const struct hold_policy *p, struct err *e)
{
	const struct {
		const char *name;
		uint64_t ms;
	} times[] = { { "idle_for", p->idle_for_ms },
		      { "refresh", p->refresh_ms },
		      { "rehold_after", p->rehold_ms },
		      { "work", p->work_ms },
		      { "rest", p->rest_ms } };

	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		if (times[i].ms > TIME_MAX_MS)
			return err_set(e, -EINVAL, "%s: at most ten years", times[i].name);
	if (p->refresh_ms == 0)
		return err_set(e, -EINVAL, "refresh: must be more than 0");
	if (p->rest_ms && !p->work_ms)
		return err_set(e, -EINVAL, "rest without work: give both, or neither");
	return 0;
}

static int check_texts(const struct hold_policy *p, struct err *e)
{
	for (uint32_t i = 0; i < p->n_gpus; i++)
		if (!memchr(p->gpus[i], '\0', POLICY_GPU_TEXT) || !p->gpus[i][0])
			return err_set(e, -EINVAL, "gpus: entry %u is empty or too long", i + 1);
	return 0;
}

int policy_check(const struct hold_policy *p, struct err *e)
{
	if (p->load >= LOAD_MAX)
		return err_set(e, -EINVAL, "load: unknown kind %u", p->load);
	if (burn_test_check(&p->burn, e) < 0)
		return -EINVAL;
	if (p->burn.exclusive && p->load != LOAD_BURN)
		return err_set(e, -EINVAL, "burn: only a burn can be exclusive");
	if (p->n_gpus > POLICY_GPUS_MAX || p->n_ignore > POLICY_IGNORE_MAX)
		return err_set(e, -EINVAL, "gpus or ignore_pid: more than %d or %d entries",
			       POLICY_GPUS_MAX, POLICY_IGNORE_MAX);
	if (!p->all && !p->n_gpus)
		return err_set(e, -EINVAL, "gpus: no device selected");
	if (!(p->util_low <= p->util && p->util <= p->util_high && p->util_high <= 100 && p->util))
		return err_set(e, -EINVAL,
			       "util_band: low <= target <= high <= 100 expected, got %u,%u,%u",
			       p->util_low, p->util, p->util_high);

	int r = check_times(p, e);

	if (r == 0)
		r = check_memory(&p->memory, e);
	return r < 0 ? r : check_texts(p, e);
}

uint64_t mem_amount_bytes(const struct mem_amount *m, uint64_t free_bytes)
{
	uint64_t want = m->bytes;

	if (m->kind == MEM_PERMILLE)
		want = free_bytes / 1000 * m->permille;
	else if (m->kind == MEM_ALL_BUT)
		want = free_bytes > m->bytes ? free_bytes - m->bytes : 0;
	return want < free_bytes ? want : free_bytes;
}
