/* SPDX-License-Identifier: MIT */

/* Ended ones again, by this process's own renames. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/alloc.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/progress.h"
#include "cli/task/outcome.h"
#include "cli/task/taskstate.h"
#include "cli/task/view.h"
#include "spool/batch_retry.h"
#include "spool/instance.h"
#include "spool/transit.h"

static const struct opt retry_opts[] = {
	{ .name = "all",
	  .short_name = 'a',
	  .spec = { VALUE_FLAG },
	  .help = "of a batch also the elements that are done" },
	{ 0 },
};

/* "failed", "done/2026-11-21", "pending" */
static void dir_of(const struct task_place *p, char dir[SPOOL_PATH_MAX])
{
	(void)str_print(dir, SPOOL_PATH_MAX, "%.*s", (int)(strrchr(p->path, '/') - p->path),
			p->path);
}

#define GROUP 64 /* so many records are synced with all that there is, rather than one by one */

struct retrying {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	bool all;     /* of a batch also what is done */
	bool grouped; /* there are many */
	struct outcome said;
	bool counted; /* active is known */
	struct task_set active;
	bool marked; /* marks are known */
	struct alloc_marks marks;
};

/* An allocation that has ended was given back: what it may have again the limits say, and it may be
 * in a pool that is down. */
static bool was_allocation(struct retrying *rt, uint64_t id)
{
	if (!rt->marked)
		(void)alloc_marks_read(rt->sp, &rt->marks, NULL);
	rt->marked = true;
	return alloc_marks_find(&rt->marks, id);
}

/* What runs, or has ended and is seen as running as long as its agent cannot file that. */
static int not_ended(const struct retrying *rt, const struct task_place *p, struct err *e)
{
	struct taskrun run = { .running = false };

	if (p->dir == SPOOL_RUNNING) {
		taskview_read_run(rt->ctx, rt->sp, &p->name, p->name.name, &run);
	}
	if (run.left) {
		cleanup_free char *options = agent_options(rt->ctx->settings, NULL);
		cleanup_free char *left = taskrun_format_left(rt->sp, options, &run);

		return err_set(e, -EBUSY, "task %" PRIu64 " (%s) %s; then retry it", p->name.id,
			       p->name.name, left);
	}
	return err_set(e, -EBUSY,
		       "task %" PRIu64 " (%s) has not ended: it is %s; tenure stop %" PRIu64
		       " ends it",
		       p->name.id, p->name.name, taskstate_name(taskstate_of(&p->name, p->dir)),
		       p->name.id);
}

static int retry_task(struct retrying *rt, struct task_place *p, struct err *e)
{
	char dir[SPOOL_PATH_MAX];
	int r;

	if (p->dir == SPOOL_PENDING || p->dir == SPOOL_RUNNING)
		return not_ended(rt, p, e);
	if (was_allocation(rt, p->name.id))
		return err_set(e, -EINVAL,
			       "task %" PRIu64
			       " (%s) was an allocation, and was given back: tenure "
			       "alloc %s asks for one anew",
			       p->name.id, p->name.name, p->name.name);
	dir_of(p, dir);
	r = transit_retry(rt->sp, &p->name, dir, !rt->grouped, e);
	if (r != 0)
		return r;
	rt->said.files |= rt->grouped;
	outcome_say(&rt->said, SPOOL_BIT(SPOOL_PENDING) | SPOOL_BIT(p->dir),
		    "%" PRIu64 " %s is requeued\n", p->name.id, p->name.name);
	return 0;
}

struct choice {
	uint64_t element; /* 0: all that did not end well, ... */
	bool all;	  /* ... or simply all */
};

static bool is_chosen(void *data, uint64_t element, enum batch_state state)
{
	const struct choice *c = data;

	return c->element ? element == c->element : c->all || state != BATCH_DONE;
}

static int check_batch(struct retrying *rt, const struct task_place *p, struct err *e)
{
	struct batch_counts n = { .running = 0 };
	int r = p->element ? taskstate_element_state(rt->sp, p, p->element, e) : BATCH_DONE;

	if (r >= 0 && r < BATCH_DONE && p->dir == SPOOL_PENDING)
		return err_set(e, -EBUSY, "%" PRIu64 ".%" PRIu64 " has not ended yet", p->name.id,
			       p->element);
	if (r >= 0 && p->dir != SPOOL_PENDING && !rt->counted) {
		r = select_all(rt->sp, &rt->active, e);
		rt->counted = r >= 0;
	}
	if (r >= 0)
		r = taskstate_counts(rt->sp, &p->name, &rt->active, &n, e);
	if (r >= 0 && p->dir != SPOOL_PENDING && n.running)
		r = err_set(e, -EBUSY,
			    "%" PRIu64 " element%s of task %" PRIu64 " still end%s; try again",
			    n.running, n.running == 1 ? "" : "s", p->name.id,
			    n.running == 1 ? "s" : "");
	if (r >= 0 && !p->element && n.failed + n.cancelled == 0)
		return 1;
	return r < 0 ? r : 0;
}

/* The ranks of a task on several nodes run again together, or not at all. */
static bool is_gang(const struct retrying *rt, const struct task_place *p)
{
	struct task_file f;
	bool yes;

	if (task_file_read(rt->sp, p->path, &f, NULL) < 0)
		return false;
	yes = spec_is_gang(f.spec);
	task_file_clear(&f);
	return yes;
}

static int retry_batch(struct retrying *rt, struct task_place *p, struct err *e)
{
	const struct spool *sp = rt->sp;
	struct choice choice = { .element = p->element, .all = rt->all };
	char who[SPEC_NAME_MAX + 1], dir[SPOOL_PATH_MAX], id[SELECT_ID_MAX];
	uint64_t n = 0;
	int r = check_batch(rt, p, e);
	bool gang;

	if (r < 0)
		return r;
	gang = is_gang(rt, p);
	if (gang && p->element)
		return err_set(e, -EINVAL,
			       "%" PRIu64 ".%" PRIu64
			       " is one rank of a task on several nodes; tenure "
			       "retry %" PRIu64 " runs all of them again",
			       p->name.id, p->element, p->name.id);
	if (r > 0 && !rt->all)
		return err_set(e, -EINVAL,
			       "no element of task %" PRIu64 " has failed or was stopped; tenure "
			       "retry --all %" PRIu64 " runs all that have ended again",
			       p->name.id, p->name.id);
	claimer_tool_name("retry", spool_host(sp), who);
	dir_of(p, dir);
	r = batch_retry_ended(sp, &p->name, dir, who, is_chosen, &choice, &n, e);
	if (r != 0)
		return r;
	(void)select_format_id(p->name.id, p->element, id);
	rt->said.dirs |= SPOOL_BIT(SPOOL_PENDING) | SPOOL_BIT(SPOOL_ENDS) | SPOOL_BIT(p->dir);
	if (gang)
		outcome_say(&rt->said, 0, "%s %s is requeued: all its ranks run again\n", id,
			    p->name.name);
	else if (p->element)
		outcome_say(&rt->said, 0, "%s %s is requeued\n", id, p->name.name);
	else
		outcome_say(&rt->said, 0, "%s %s: %" PRIu64 " element%s requeued\n", id,
			    p->name.name, n, n == 1 ? " is" : "s are");
	return 0;
}

static int retry_place(struct retrying *rt, struct task_place *p, struct err *e)
{
	int r = p->dir == SPOOL_PENDING ? transit_await(rt->sp, &p->name, CHANGE_HELD_MS, e) : 0;

	return r != 0 ? r : (p->name.count ? retry_batch : retry_task)(rt, p, e);
}

static int retry_one(struct retrying *rt, const char *word, struct err *e)
{
	struct task_place p;
	int r = TRANSIT_GONE;

	for (int look = 0; look < CHANGE_LOOKS && r == TRANSIT_GONE; look++) {
		if (look)
			change_pause(look);
		r = select_one(rt->sp, word, &p, e);
		r = r == 0 ? retry_place(rt, &p, e) : r;
	}
	return r > 0 ? change_busy(&p.name, e) : r;
}

/* Of a lane, or of all, what has failed. */
struct failed {
	const char *lane; /* NULL: all */
	size_t n;
	struct task_name *names;
};

static int add_failed(void *data, const struct task_name *n, const char *dir)
{
	struct failed *f = data;

	if (f->lane && strcmp(f->lane, n->lane) != 0)
		return 0;
	f->names = xgrow(f->names, f->n, sizeof(*f->names));
	f->names[f->n++] = *n;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct task_name *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* 0: and *ret is how many there were. What somebody else was faster with is not failed any more. */
static int retry_failed(struct retrying *rt, const char *lane, size_t *ret, struct err *e)
{
	struct failed f = { .lane = lane };
	size_t gone = 0; /* allocations */
	struct progress progress;
	int r = scan_dir(rt->sp, spool_dir_name(SPOOL_FAILED), add_failed, &f, e);

	if (f.n)
		qsort(f.names, f.n, sizeof(*f.names), by_id);
	rt->grouped = f.n >= GROUP;
	progress = progress_begin("requeueing", f.n);
	for (size_t i = 0; i < f.n && r >= 0; i++) {
		struct task_place p = { .dir = SPOOL_FAILED, .name = f.names[i] };
		char file[NAME_FILE_MAX];

		if (was_allocation(rt, p.name.id)) {
			gone++;
			continue;
		}
		(void)spool_path(SPOOL_FAILED, name_format(&p.name, file), p.path);
		r = retry_place(rt, &p, e);
		progress_at(&progress, i + 1);
	}
	progress_end(&progress);
	rt->grouped = false;
	*ret = f.n - gone;
	free(f.names);
	return r < 0 ? r : 0;
}

/* A task is meant rather than a lane that is called so. */
static int retry_word(void *data, const char *word, struct err *e)
{
	struct retrying *rt = data;
	struct err inner = ERR_INIT;
	size_t n = 0;
	int r, none;

	if (strcmp(word, "all") == 0) {
		r = retry_failed(rt, NULL, &n, e);
		if (r == 0 && !n)
			cmd_warn("note", "no task in instance \"%s\" has failed",
				 spool_instance(rt->sp));
		return r;
	}
	r = none = retry_one(rt, word, &inner);
	if (none == -ENOENT && ident_is_task_name(word))
		r = retry_failed(rt, word, &n, &inner);
	if (r == 0 && none == -ENOENT && !n)
		r = none;
	if (r < 0)
		*e = inner;
	return r;
}

static int run_retry(const struct cmd_ctx *ctx, struct err *e)
{
	struct spool *sp = NULL;
	struct retrying rt = { .ctx = ctx, .all = opts_flag(ctx->opts, "all") };
	int r = instance_open_for(ctx, 0, 0, &sp, e);

	rt.sp = sp;
	if (sp)
		r = change_words(sp, ctx->opts, 0, retry_word, &rt, e);
	if (sp)
		r = outcome_commit(sp, &rt.said, r, e);
	free(rt.active.tasks);
	alloc_marks_clear(&rt.marks);
	sp = spool_close(sp);
	agent_look(ctx);
	return r;
}

static const struct cmd_example retry_examples[] = {
	{ "tenure retry 42", "run task 42 again, which has ended" },
	{ "tenure retry 43", "of an array, the elements that failed or were stopped" },
	{ "tenure retry 43.7", "one element of it, however it ended" },
	{ "tenure retry week", "what has failed of the lane \"week\"; all: of every lane" },
	{ 0 },
};

const struct cmd cmd_retry = {
	.name = "retry",
	.group = QUEUE_GROUP,
	.summary = "put ended tasks back into the queue",
	.args = "ID|NAME|LANE|all|last..",
	.words = { WORDS_ENDED_TASKS, WORDS_ENDED_TASKS },
	.min_args = 1,
	.description =
		"Under the same id, with attempts counted anew. Their logs are added to. Of an "
		"array or another batch the elements that failed or were stopped run again, "
		"while others of it may still wait or run. Of a lane, or of all, it is what lies in "
		"failed/: what was stopped is not among it.",
	.examples = retry_examples,
	.opts = retry_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_retry,
};
