/* SPDX-License-Identifier: MIT */

/*
 * Which processes are on a GPU is NVML's word, and in a container its PIDs may be those of the
 * host, which mean somebody else here. So only a process that has the driver's library in its
 * memory is believed to be the one that was listed.
 */

#include "cli/task/sweeper.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/machine.h"
#include "engine/engine.h"
#include "task/sweep.h"

#define GRACE_MS   5000	 /* from TERM to KILL */
#define LIMIT_MS   10000 /* then it is given up: what is killed and stays hangs in the kernel */
#define STEP_US	   20000
#define MAPS_MAX   (16UL << 20)
#define CUDA_FILES "/libcuda.so"

struct pid_set {
	size_t n;
	pid_t *pids;
};

static bool uses_cuda(pid_t pid)
{
	cleanup_free char *path = xasprintf("/proc/%d/maps", (int)pid);
	cleanup_free char *maps = NULL;
	size_t len;

	return fs_read_file(path, MAPS_MAX, &maps, &len, NULL) == 0 && strstr(maps, CUDA_FILES);
}

static void add_pids(struct pid_set *set, const struct machine_device *d)
{
	for (uint32_t i = 0; d->code == 0 && i < d->look.procs.n; i++) {
		const struct gpu_proc *p = &d->look.procs.p[i];

		if (p->graphics || !uses_cuda(p->pid))
			continue;
		set->pids = xrealloc(set->pids, set->n + 1, sizeof(*set->pids));
		set->pids[set->n++] = p->pid;
	}
}

static int add_picked(struct pid_set *set, const struct machine *m, const struct gpu_picks *picks,
		      struct err *e)
{
	for (uint32_t i = 0; picks->all && i < m->list.n; i++)
		add_pids(set, &m->devices[i]);
	for (size_t i = 0; !picks->all && i < picks->n; i++) {
		const struct gpu_pick *pick = &picks->picks[i];
		cleanup_free char *name =
			pick->by_uuid ? xstrdup(pick->uuid) : xasprintf("%u", pick->index);
		int at = gpu_find(&m->list, name, e);

		if (at < 0)
			return at;
		add_pids(set, &m->devices[at]);
	}
	return 0;
}

/* The processes on the GPUs that the settings name. */
static int find_on_gpus(const struct cmd_ctx *ctx, struct pid_set *ret, struct err *e)
{
	struct machine *m = NULL;
	int r = machine_look(UINT64_MAX, &m, e);

	if (r < 0)
		return err_wrap(e, "cannot see the GPUs");
	r = add_picked(ret, m, settings_gpus(ctx->settings, SET_GPUS), e);
	(void)machine_free(m);
	return r;
}

/* ---- jobs that share the node ---- */

/* What its environment says. of_job: the key of ours; NULL: we are in none. */
static int in_other_job(const void *of_job, pid_t pid)
{
	cleanup_free char *text = NULL, *key = NULL;
	struct text_list variables = { .n = 0 };
	size_t len;
	int r = proc_environ(pid, &text, &len);

	if (r < 0)
		return proc_is_no_answer(r) ? r : 0;
	for (const char *p = text; p < text + len; p += strlen(p) + 1)
		text_list_add(&variables, p);
	text_list_take(&variables, NULL);
	key = engine_job_key((const char *const *)variables.texts);
	text_list_clear(&variables);
	return key && (!of_job || strcmp(key, of_job) != 0);
}

/* ---- what is said ---- */

static void show_json(const struct sweep_item *it, enum sweep_what what, const char *verdict)
{
	json_t *o = json_pack("{s:i, s:s, s:s, s:b, s:s}", "pid", (int)it->proc.id.pid, "command",
			      it->command, "what", sweep_what_name(what), "end",
			      it->verdict == SWEEP_END, "verdict", verdict);

	if (!o)
		return; /* a command line that is no UTF-8 is told without JSON only */
	(void)json_dumpf(o, stdout, JSON_COMPACT);
	(void)putchar('\n');
	json_decref(o);
}

static void show(const struct sweep_order *o, enum sweep_what what, const struct sweep_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct sweep_item *it = &list->items[i];
		const char *verdict = o->end && it->verdict == SWEEP_END
					      ? "is ended"
					      : sweep_verdict_text(it->verdict);

		if (o->end && it->verdict != SWEEP_END)
			continue;
		if (o->json)
			show_json(it, what, verdict);
		else
			printf("PID %d %s: %s\n", (int)it->proc.id.pid, verdict, it->command);
	}
}

/* ---- the end ---- */

static int end_them(const struct sweep_rules *rules, const struct sweep_list *list, struct err *e)
{
	uint64_t limit = clock_mono_ns() + LIMIT_MS * NS_PER_MS;
	struct sweeper *s = sweep_begin(rules, list, 0, GRACE_MS);
	int left;

	while ((left = sweep_step(s)) > 0 && clock_mono_ns() < limit)
		(void)usleep(STEP_US);
	s = sweep_free(s);
	if (left > 0)
		return err_set(e, -ETIMEDOUT, "%d of them still run; they were killed", left);
	return left < 0 ? err_sys(e, -left, "end them") : 0;
}

static int sweep_one(const struct cmd_ctx *ctx, const struct sweep_order *o, enum sweep_what what,
		     const struct sweep_rules *rules, struct err *e)
{
	struct sweep_list list = { 0 };
	size_t n = 0;
	int r = sweep_look(rules, &list, e);

	if (r == 0)
		show(o, what, &list);
	for (size_t i = 0; i < list.n; i++)
		n += list.items[i].verdict == SWEEP_END;
	(void)fflush(stdout);
	if (r == 0 && o->end && n)
		r = end_them(rules, &list, e);
	sweep_list_clear(&list);
	return r;
}

int sweeper_run(const struct cmd_ctx *ctx, const struct sweep_order *o, struct err *e)
{
	const struct text_list *spare = &settings_value(ctx->settings, SET_SWEEP_SPARE)->words;
	struct pid_set set = { .n = 0 };
	int r = 0;

	for (unsigned int what = 0; what < SWEEP_WHAT_MAX && r == 0; what++) {
		struct sweep_rules rules = { .what = (enum sweep_what)what,
					     .spare = (const char *const *)spare->texts,
					     .n_spare = spare->n,
					     .in_other_job = in_other_job,
					     .of_job = ctx->job };

		if (!(o->what & SWEEP_BIT(what)))
			continue;
		if (what == SWEEP_GPU)
			r = find_on_gpus(ctx, &set, e);
		rules.pids = set.pids;
		rules.n_pids = set.n;
		if (r == 0)
			r = sweep_one(ctx, o, (enum sweep_what)what, &rules, e);
	}
	free(set.pids);
	return r;
}
