/* SPDX-License-Identifier: MIT */
#include "agent/node/policy.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

static const uint32_t mem_kinds[MEM_SPEC_MAX] = {
	[MEM_SPEC_BYTES] = MEM_BYTES,
	[MEM_SPEC_SHARE] = MEM_PERMILLE,
	[MEM_SPEC_ALL_BUT] = MEM_ALL_BUT,
};

static int take_gpus(const struct gpu_picks *list, struct hold_policy *p, struct err *e)
{
	p->all = list->all;
	p->n_gpus = 0;
	if (list->all)
		return 0;
	if (list->n > POLICY_GPUS_MAX)
		return err_set(e, -EINVAL, "gpus: %zu devices are named, %d can be", list->n,
			       POLICY_GPUS_MAX);
	for (size_t i = 0; i < list->n; i++) {
		const struct gpu_pick *pick = &list->picks[i];
		char *to = p->gpus[p->n_gpus++];

		if (!pick->by_uuid)
			(void)str_print(to, POLICY_GPU_TEXT, "%u", pick->index);
		else if (!str_copy(to, POLICY_GPU_TEXT, pick->uuid))
			return err_set(e, -EINVAL, "gpus: \"%s\" is too long for a UUID",
				       pick->uuid);
	}
	return 0;
}

static int take_pids(const struct uint_list *list, struct hold_policy *p, struct err *e)
{
	if (list->n > POLICY_IGNORE_MAX)
		return err_set(e, -EINVAL, "ignore_pid: %zu processes are named, %d can be",
			       list->n, POLICY_IGNORE_MAX);
	p->n_ignore = (uint32_t)list->n;
	for (size_t i = 0; i < list->n; i++) {
		if (!list->nums[i] || list->nums[i] > INT_MAX)
			return err_set(e, -EINVAL, "ignore_pid: %" PRIu64 " is not a PID",
				       list->nums[i]);
		p->ignore_pids[i] = (int32_t)list->nums[i];

		/* In a container the lists may show numbers that mean nothing here. */
		struct proc_id id = { .start = 0 };
		int r = proc_identify(p->ignore_pids[i], &id);

		if (r < 0 && !proc_in_namespace())
			return err_set(e, -ESRCH, "ignore_pid: there is no process %d",
				       p->ignore_pids[i]);
		p->ignore_starts[i] = id.start;
	}
	return 0;
}

/*
 * Aimed at is util, which settings_check() has found where the band A,B,C is right, from B to C. A
 * band alone is aimed at in the middle of that part, so that `--util-band 20,30,40` does what it
 * says.
 */
static void take_band(const struct settings *s, struct hold_policy *p)
{
	struct util_band band = settings_util_band(s);
	unsigned int util = (unsigned int)(settings_num(s, SET_UTIL) + 5) / 10;
	bool util_set = settings_origin(s, SET_UTIL)->layer != SETTING_FROM_DEFAULT;
	bool band_set = settings_origin(s, SET_UTIL_BAND)->layer != SETTING_FROM_DEFAULT;

	if (band_set && !util_set)
		util = (band.floor + band.ceiling) / 2;
	p->util_low = (uint8_t)band.low;
	p->util = (uint8_t)util;
	p->util_high = (uint8_t)band.ceiling;
}

int policy_from_settings(const struct settings *s, bool hold, struct hold_policy *ret,
			 struct err *e)
{
	struct hold_policy p;
	const struct mem_spec *memory = settings_mem(s, SET_MEMORY);

	policy_defaults(&p);
	p.hold = hold;
	p.together = settings_flag(s, SET_TOGETHER);
	p.my_cgroup = settings_flag(s, SET_MY_CGROUP);
	p.load = (uint8_t)settings_num(s, SET_LOAD);
	p.leave = (uint32_t)settings_num(s, SET_LEAVE);
	p.max_devices = (uint32_t)settings_num(s, SET_MAX_DEVICES);
	p.site_devices = (uint32_t)settings_limit_num(s, SET_MAX_DEVICES);
	p.idle_below_bytes = settings_num(s, SET_IDLE_BELOW);
	p.idle_for_ms = settings_num(s, SET_IDLE_FOR);
	p.refresh_ms = settings_num(s, SET_REFRESH);
	/* Either of them 0 says: no cycle. */
	if (settings_num(s, SET_WORK) && settings_num(s, SET_REST)) {
		p.work_ms = settings_num(s, SET_WORK);
		p.rest_ms = settings_num(s, SET_REST);
	}
	p.rehold_ms = settings_num(s, SET_REHOLD_AFTER);
	p.memory = (struct mem_amount){ .kind = mem_kinds[memory->kind],
					.permille = memory->permille,
					.bytes = memory->bytes };
	take_band(s, &p);

	int r = take_gpus(settings_gpus(s, SET_GPUS), &p, e);

	if (r == 0)
		r = take_pids(&settings_value(s, SET_IGNORE_PID)->uints, &p, e);
	if (r == 0)
		r = policy_check(&p, e);
	if (r < 0)
		return r;
	*ret = p;
	return 0;
}

/* -------- in words -------- */

static void describe_memory(const struct mem_amount *m, struct strbuf *out)
{
	char text[UNIT_TEXT_MAX];

	if (m->kind == MEM_BYTES)
		strbuf_addf(out, "%s on", unit_format_gib(m->bytes, text));
	else if (m->kind == MEM_PERMILLE)
		strbuf_addf(out, "%s of the free memory of",
			    unit_format_permille(m->permille, text));
	else if (m->bytes)
		strbuf_addf(out, "all but %s of the free memory of",
			    unit_format_gib(m->bytes, text));
	else
		strbuf_adds(out, "all free memory of");
}

/* "GPU-1a2b (GPU 3)". */
static void describe_gpu(const char *name, const struct view *v, struct strbuf *out)
{
	int index = v && !isdigit((unsigned char)name[0]) ? view_index_of(v, name) : -1;

	strbuf_adds(out, name);
	if (index >= 0)
		strbuf_addf(out, " (gpu %d)", index);
}

static void describe_gpus(const struct hold_policy *p, const struct view *v, struct strbuf *out)
{
	if (p->all)
		strbuf_adds(out, "all GPUs");
	else
		strbuf_adds(out, p->n_gpus == 1 ? "GPU " : "GPUs ");
	for (uint32_t i = 0; !p->all && i < p->n_gpus; i++) {
		strbuf_adds(out, i ? ", " : "");
		describe_gpu(p->gpus[i], v, out);
	}
	if (p->leave == 1)
		strbuf_adds(out, " but the last one");
	else if (p->leave)
		strbuf_addf(out, " but the last %u", p->leave);
	if (p->max_devices)
		strbuf_addf(out, ", at most %u at a time", p->max_devices);
}

/* Whether others are left all that it selects; of "all GPUs" only a view knows how many these are.
 */
static bool leaves_all(const struct hold_policy *p, const struct view *v)
{
	uint32_t n = p->all ? 0 : p->n_gpus;

	for (uint32_t i = 0; p->all && v && i < v->n_slots; i++)
		n += v->seen[i] && !view_is_mig_card(v, i);
	return n && p->leave >= n;
}

/* "Nothing is left to hold: of GPUs 0, 1 the last 9 are for others." */
static void describe_nothing_left(const struct hold_policy *p, const struct view *v,
				  struct strbuf *out)
{
	struct hold_policy all = *p;

	all.leave = all.max_devices = 0;
	strbuf_adds(out, "Nothing is left to hold: of ");
	describe_gpus(&all, v, out);
	if (p->leave == 1)
		strbuf_adds(out, " the last one is for others.");
	else
		strbuf_addf(out, " the last %u are for others.", p->leave);
}

static void describe_when(const struct hold_policy *p, struct strbuf *out)
{
	char time[UNIT_TEXT_MAX], size[UNIT_TEXT_MAX];

	if (!p->all && p->n_gpus == 1)
		strbuf_adds(out, " when it is idle");
	else
		strbuf_adds(out,
			    p->together ? ", when all of them are idle" : ", each when it is idle");
	if (p->idle_for_ms)
		strbuf_addf(out, " for %s", unit_format_duration_exact(p->idle_for_ms, time));
	strbuf_addf(out, " (nobody's process, under %s used)",
		    unit_format_gib(p->idle_below_bytes, size));
}

void policy_describe_load(const struct hold_policy *p, struct strbuf *out)
{
	if (p->load == LOAD_NONE)
		strbuf_adds(out, "no load");
	else
		strbuf_addf(out, "%s load, %u %%", load_kind_name(p->load), p->util);
}

/* In the root of all cgroups everybody is, so that one is nobody's own. */
static bool in_own_cgroup(void)
{
	char cgroup[256];

	return proc_cgroup(getpid(), cgroup, sizeof(cgroup)) == 0 && strcmp(cgroup, "/") != 0;
}

static void describe_others(const struct hold_policy *p, struct strbuf *out)
{
	if (p->my_cgroup && in_own_cgroup())
		strbuf_adds(out,
			    ". Whoever else starts on one gets it at once, but for processes of "
			    "this cgroup, which count as our own.");
	else
		strbuf_addf(out, ". Whoever else starts on one gets it at once%s.",
			    p->my_cgroup ? " (my_cgroup has no effect here)" : "");
}

void policy_describe_end(uint64_t until_wall_ns, struct strbuf *out)
{
	char now[CLOCK_TEXT_MAX], end[CLOCK_TEXT_MAX];
	const size_t day = strlen("2026-11-22");

	if (!until_wall_ns)
		return;
	(void)clock_format_local(clock_wall_ns(), now);
	(void)clock_format_local(until_wall_ns, end);
	if (strncmp(now, end, day) == 0)
		strbuf_addf(out, " It ends at %s.", end + day + 1);
	else
		strbuf_addf(out, " It ends on %.*s at %s.", (int)day, end, end + day + 1);
}

void policy_describe_empty(const struct agent_config *c, struct strbuf *out)
{
	static const char *const what[EMPTY_MAX] = {
		[EMPTY_RELEASE] = "what it holds is released until there are tasks",
		[EMPTY_EXIT] = "it ends",
	};
	char time[UNIT_TEXT_MAX];

	if (c->on_empty != EMPTY_HOLD)
		strbuf_addf(out, " When its queue has been empty for %s, %s.",
			    unit_format_duration_exact(c->empty_ms, time), what[c->on_empty]);
}

void policy_describe(const struct hold_policy *p, const struct view *v, struct strbuf *out)
{
	char work[UNIT_TEXT_MAX], rest[UNIT_TEXT_MAX];

	if (leaves_all(p, v) && (p->hold || (v && v->c->workload))) {
		describe_nothing_left(p, v, out);
		return;
	}
	if (v && v->c->workload) {
		strbuf_addf(out, "Running \"%s\" on ", v->c->workload);
		describe_gpus(p, v, out);
		describe_when(p, out);
		strbuf_adds(out,
			    ". It is ended where somebody else starts, or a task needs the GPU.");
		return;
	}
	if (!p->hold) {
		strbuf_adds(out, "Watching ");
		describe_gpus(p, v, out);
		strbuf_adds(out, " and holding nothing.");
		return;
	}
	strbuf_adds(out, "Holding ");
	describe_memory(&p->memory, out);
	strbuf_addc(out, ' ');
	describe_gpus(p, v, out);
	describe_when(p, out);
	strbuf_adds(out, "; ");
	policy_describe_load(p, out);
	if (p->rest_ms)
		strbuf_addf(out, ", %s of work and %s of rest in turn",
			    unit_format_duration_exact(p->work_ms, work),
			    unit_format_duration_exact(p->rest_ms, rest));
	describe_others(p, out);
}

void policy_warn(const struct hold_policy *p, uint32_t n_devices, struct strbuf *out)
{
	uint32_t n = p->all ? n_devices : p->n_gpus;

	if (p->hold && p->leave && p->leave >= n)
		strbuf_addf(out,
			    "nothing will be held: leave %u leaves %s selected GPU%s to others\n",
			    p->leave, n == 1 ? "the only" : "all", n == 1 ? "" : "s");
	if (p->hold && p->my_cgroup && !in_own_cgroup())
		strbuf_adds(out,
			    "my_cgroup has no effect: this agent is in no cgroup of its own "
			    "(/proc/self/cgroup says 0::/), so that other processes of yours are "
			    "newcomers like any; --ignore-pid names single ones\n");
}
