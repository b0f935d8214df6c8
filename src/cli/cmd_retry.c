/* SPDX-License-Identifier: MIT */

/* Ended ones again, by this process's own renames. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/ask_agent.h"
#include "cli/commands.h"
#include "cli/queue.h"
#include "spool/revive.h"
#include "spool/transit.h"

static const struct opt retry_opts[] = {
	{ .name = "all",
	  .short_name = 'a',
	  .spec = { VALUE_FLAG },
	  .help = "of a batch also the elements that are done" },
	{ 0 },
};

/* "failed", "done/2026-11-21", "pending" */
static void dir_of(const struct queue_place *p, char dir[SPOOL_PATH_MAX])
{
	(void)str_print(dir, SPOOL_PATH_MAX, "%.*s", (int)(strrchr(p->path, '/') - p->path),
			p->path);
}

static int changed_now(uint64_t id, struct err *e)
{
	return err_set(e, -EAGAIN, "task %" PRIu64 " changed just now; try again", id);
}

static int retry_task(const struct spool *sp, struct queue_place *p, struct err *e)
{
	char dir[SPOOL_PATH_MAX];
	int r;

	if (p->dir == SPOOL_PENDING || p->dir == SPOOL_RUNNING)
		return err_set(e, -EBUSY,
			       "task %" PRIu64 " (%s) has not ended: it is %s; tenure stop %" PRIu64
			       " ends it",
			       p->name.id, p->name.name, queue_state(&p->name, p->dir), p->name.id);
	dir_of(p, dir);
	r = transit_retry(sp, &p->name, dir, e);
	if (r == 0)
		printf("%" PRIu64 " %s waits to run again\n", p->name.id, p->name.name);
	return r == TRANSIT_GONE ? changed_now(p->name.id, e) : r;
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

static int check_batch(const struct spool *sp, const struct queue_place *p, struct err *e)
{
	struct queue_match active = { .n = 0 };
	struct batch_counts n = { .running = 0 };
	int r = p->element ? queue_element_state(sp, p, p->element, e) : BATCH_DONE;

	if (r >= 0 && r < BATCH_DONE && p->dir == SPOOL_PENDING)
		return err_set(e, -EBUSY, "%" PRIu64 ".%" PRIu64 " has not ended yet", p->name.id,
			       p->element);
	if (r >= 0 && p->dir != SPOOL_PENDING)
		r = queue_all(sp, &active, e);
	if (r >= 0)
		r = queue_counts(sp, &p->name, &active, &n, e);
	free(active.tasks);
	if (r >= 0 && p->dir != SPOOL_PENDING && n.running)
		r = err_set(e, -EBUSY,
			    "%" PRIu64 " element%s of task %" PRIu64 " still end%s; try again",
			    n.running, n.running == 1 ? "" : "s", p->name.id,
			    n.running == 1 ? "s" : "");
	if (r >= 0 && !p->element && n.failed + n.cancelled == 0)
		return 1;
	return r < 0 ? r : 0;
}

static int retry_batch(const struct spool *sp, struct queue_place *p, bool all, struct err *e)
{
	struct choice choice = { .element = p->element, .all = all };
	cleanup_free char *host = xasprintf("retry-%.30s", sp->host);
	char who[SPEC_NAME_MAX + 1], dir[SPOOL_PATH_MAX], id[QUEUE_ID_MAX];
	uint64_t n = 0;
	int r = check_batch(sp, p, e);

	if (r < 0)
		return r;
	if (r > 0 && !all)
		return err_set(e, -EINVAL,
			       "no element of task %" PRIu64 " has failed or was stopped; tenure "
			       "retry --all %" PRIu64 " runs all that have ended again",
			       p->name.id, p->name.id);
	spec_make_name(host, who);
	dir_of(p, dir);
	r = revive_batch(sp, &p->name, dir, who, is_chosen, &choice, &n, e);
	if (r == TRANSIT_GONE)
		return changed_now(p->name.id, e);
	if (r < 0)
		return r;
	(void)queue_format_id(p->name.id, p->element, id);
	if (p->element)
		printf("%s %s waits to run again\n", id, p->name.name);
	else
		printf("%s %s: %" PRIu64 " element%s to run again\n", id, p->name.name, n,
		       n == 1 ? " waits" : "s wait");
	return 0;
}

static int retry_one(const struct spool *sp, const char *word, bool all, struct err *e)
{
	struct queue_place p;
	int r = queue_locate(sp, word, &p, e);

	if (r < 0)
		return r;
	return p.name.count ? retry_batch(sp, &p, all, e) : retry_task(sp, &p, e);
}

/* Of a lane, or of all, what has failed. */
struct failed {
	const char *lane; /* NULL: all */
	struct id_list ids;
};

static int add_failed(void *data, const struct task_name *n, const char *dir)
{
	struct failed *f = data;

	if (f->lane && strcmp(f->lane, n->lane) != 0)
		return 0;
	if ((f->ids.n & (f->ids.n - 1)) == 0)
		f->ids.ids = xrealloc(f->ids.ids, f->ids.n ? 2 * f->ids.n : 1, sizeof(*f->ids.ids));
	f->ids.ids[f->ids.n++] = n->id;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* 0: and *ret is how many there were. */
static int retry_failed(const struct spool *sp, const char *lane, size_t *ret, struct err *e)
{
	struct failed f = { .lane = lane };
	int r = scan_dir(sp, spool_dir_name(SPOOL_FAILED), add_failed, &f, e);

	if (f.ids.n)
		qsort(f.ids.ids, f.ids.n, sizeof(*f.ids.ids), by_id);
	for (size_t i = 0; i < f.ids.n && r == 0; i++) {
		cleanup_free char *id = xasprintf("%" PRIu64, f.ids.ids[i]);

		r = retry_one(sp, id, false, e);
	}
	*ret = f.ids.n;
	free(f.ids.ids);
	return r;
}

/* A task is meant rather than a lane that is called so. */
static int retry_word(const struct spool *sp, const char *word, bool all, struct err *e)
{
	struct err inner = ERR_INIT;
	size_t n = 0;
	int r, none;

	if (strcmp(word, "all") == 0) {
		r = retry_failed(sp, NULL, &n, e);
		return r == 0 && !n ? err_set(e, -ENOENT, "no task in instance \"%s\" has failed",
					      sp->instance)
				    : r;
	}
	r = none = retry_one(sp, word, all, &inner);
	if (none == -ENOENT && spec_is_task_name(word))
		r = retry_failed(sp, word, &n, &inner);
	if (r == 0 && none == -ENOENT && !n)
		r = none;
	if (r < 0)
		*e = inner;
	return r;
}

static int run_retry(const struct cmd_ctx *ctx, struct err *e)
{
	struct spool *sp = NULL;
	int r = queue_open(ctx, 0, &sp, e);

	for (size_t i = 0; i < opts_argc(ctx->opts) && r == 0; i++)
		r = retry_word(sp, opts_arg(ctx->opts, i), opts_flag(ctx->opts, "all"), e);
	sp = spool_close(sp);
	ask_agent_to_look(ctx);
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
	.args = "ID|NAME|LANE|all..",
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
