/* SPDX-License-Identifier: MIT */

/* `prune`: what goes is moved to tmp/, where nobody can ask for it again, and removed there. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/alloc.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/progress.h"
#include "cli/task/outcome.h"
#include "spool/batch.h"
#include "spool/instance.h"

static const struct opt prune_opts[] = {
	{ .name = "older-than",
	  .spec = { VALUE_DURATION, .min = 1 },
	  .arg = "DURATION",
	  .help = "what ended longer ago than that" },
	{ 0 },
};

/* Where something was removed. */
#define PRUNED                                                                                     \
	(SPOOL_BIT(SPOOL_FAILED) | SPOOL_BIT(SPOOL_CANCELLED) | SPOOL_BIT(SPOOL_DONE) |            \
	 SPOOL_BIT(SPOOL_ENDS) | SPOOL_BIT(SPOOL_LOGS) | SPOOL_BIT(SPOOL_TMP))

/* So many tasks at once: the directory of the logs is read for each lot. */
#define LOT 8192U

/* A task that goes. */
struct goner {
	uint64_t id; /* first, for compare_u64() */
	bool batch;
	char path[SPOOL_PATH_MAX]; /* in tmp/: nobody can retry it any more */
	char from[SPOOL_PATH_MAX]; /* where it was; "": an interrupted prune has left it */
};

struct pruning {
	const struct spool *sp;
	uint64_t before_s;
	size_t removed, kept;
	struct goner *lot;
	size_t n;		/* in it */
	struct uint_list named; /* by tasks that stay, sorted */
	struct uint_list read;	/* those; what earlier looks have read is sorted */
	size_t n_sorted;
	bool missed; /* one was not found under its name */
	struct progress progress;
	struct err *e;
};

static void add_ids(struct uint_list *all, const uint64_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		all->nums = xgrow(all->nums, all->n, sizeof(*all->nums));
		all->nums[all->n++] = ids[i];
	}
}

static void sort_ids(struct uint_list *l)
{
	if (l->n)
		qsort(l->nums, l->n, sizeof(*l->nums), compare_u64);
}

static bool has_id(const struct uint_list *l, size_t n, uint64_t id)
{
	return n && bsearch(&id, l->nums, n, sizeof(id), compare_u64);
}

/* What it waits for has to be found when it is to start, now or when it is retried. */
static int look_at_staying(void *data, const struct task_name *n, const char *dir)
{
	struct pruning *p = data;
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct err e = ERR_INIT;
	struct task_file t;
	int r;

	if (!(n->flags & NAME_DEPENDS) || (n->ended_s && n->ended_s < p->before_s) ||
	    has_id(&p->read, p->n_sorted, n->id))
		return 0;
	(void)str_print(path, sizeof(path), "%.40s/%s", dir, name_format(n, file));
	r = task_file_read(p->sp, path, &t, &e);
	if (r == -ENOENT)
		p->missed = true;
	if (r == -ENOENT || spool_is_bad(r) || r == -EFBIG) /* no agent takes that for a task */
		return 0;
	if (r < 0) {
		*p->e = e;
		return r;
	}
	add_ids(&p->read, &n->id, 1);
	add_ids(&p->named, t.spec->after.nums, t.spec->after.n);
	add_ids(&p->named, t.spec->after_any.nums, t.spec->after_any.n);
	task_file_clear(&t);
	return 0;
}

/* running/ is read before and after pending/, as tasks move both ways. */
static int look_for_named(struct pruning *p)
{
	static const enum spool_dir dirs[] = { SPOOL_RUNNING, SPOOL_PENDING, SPOOL_RUNNING,
					       SPOOL_FAILED };
	int r = 0;

	sort_ids(&p->read);
	p->n_sorted = p->read.n;
	p->missed = false;
	for (size_t i = 0; i < ARRAY_LEN(dirs) && r == 0; i++)
		r = scan_dir(p->sp, spool_dir_name(dirs[i]), look_at_staying, p, p->e);
	return r;
}

/* Whoever got another name meanwhile is there all the same, and is met under it by the next look,
 * which reads nothing that has been read: a queue never stands still. */
static int find_named(struct pruning *p)
{
	int r;

	p->named.n = 0;
	p->read.n = 0;
	r = look_for_named(p);
	for (int look = 0; r == 0 && p->missed; look++) {
		if (look == CHANGE_LOOKS)
			return err_set(p->e, -EAGAIN,
				       "tasks that wait for others are being changed; try again");
		change_pause(look);
		r = look_for_named(p);
	}
	sort_ids(&p->named);
	return r;
}

static bool is_named(const struct pruning *p, uint64_t id)
{
	return has_id(&p->named, p->named.n, id);
}

/* Logs are called ID-NAME.ATTEMPT.log, ID.ELEMENT-... */
static int prune_log(void *data, const char *file, unsigned char type)
{
	struct pruning *p = data;
	size_t digits = strspn(file, "0123456789");
	char path[SPOOL_PATH_MAX], text[24];
	uint64_t id;

	if (!digits || digits >= sizeof(text) || !strchr("-.", file[digits]))
		return 0;
	(void)str_copy(text, digits + 1, file);
	if (str_to_u64(text, &id) < 0 || !bsearch(&id, p->lot, p->n, sizeof(*p->lot), compare_u64))
		return 0;
	return spool_unlink(p->sp, spool_path(SPOOL_LOGS, file, path), p->e);
}

/* Back to where it was, and out of the lot. One that an interrupted prune has left may be there in
 * part only. */
static int put_back(struct pruning *p, bool all, struct err *e)
{
	size_t n = 0;
	int first = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct goner *g = &p->lot[i];
		bool stays = g->from[0] && (all || is_named(p, g->id));
		int r = stays ? spool_rename(p->sp, g->path, g->from, first ? NULL : e) : 0;

		first = first ? first : r;
		p->kept += stays && !all && r == 0;
		if (!stays || r < 0)
			p->lot[n++] = *g;
	}
	p->n = n;
	return first;
}

/* A task that names one of them may have come while they were looked for; now that they are in tmp/
 * nobody finds one to name it any more. Where that cannot be told all of them stay. */
static int keep_named(struct pruning *p)
{
	int r = find_named(p);

	if (r == 0)
		r = put_back(p, false, p->e);
	if (r < 0)
		(void)put_back(p, true, NULL);
	return r;
}

static int forget_allocs(struct pruning *p)
{
	cleanup_free uint64_t *ids = xcalloc(p->n, sizeof(*ids));

	for (size_t i = 0; i < p->n; i++)
		ids[i] = p->lot[i].id;
	return alloc_forget(p->sp, ids, p->n, p->e);
}

/* That the tasks are in tmp/ has to survive a power loss before anything of them goes, and their
 * files go last: what an interrupted prune has left is found again by them. */
static int prune_lot(struct pruning *p)
{
	int r = p->n ? keep_named(p) : 0;

	if (p->n && r == 0)
		r = spool_sync_dirs(p->sp, PRUNED, p->e);
	qsort(p->lot, p->n, sizeof(*p->lot), compare_u64);
	if (p->n && r == 0)
		r = spool_each(p->sp, spool_dir_name(SPOOL_LOGS), prune_log, p, p->e);
	if (p->n && r == 0)
		r = forget_allocs(p);
	for (size_t i = 0; i < p->n && r == 0; i++) {
		const struct goner *g = &p->lot[i];

		r = g->batch ? batch_forget(p->sp, g->id, p->e) : 0;
		if (r == 0)
			r = spool_unlink(p->sp, g->path, p->e);
		p->removed += r == 0;
		progress_at(&p->progress, p->removed);
	}
	p->n = 0;
	return r;
}

static int add_to_lot(struct pruning *p, uint64_t id, bool batch, const char *tmp, const char *from)
{
	struct goner *g = &p->lot[p->n];

	*g = (struct goner){ .id = id, .batch = batch };
	(void)str_copy(g->path, sizeof(g->path), tmp);
	(void)str_copy(g->from, sizeof(g->from), from);
	return ++p->n == LOT ? prune_lot(p) : 0;
}

/* What an interrupted prune has left: "SPOOL_PRUNED,ID,..". */
static int prune_left(void *data, const char *file, unsigned char type)
{
	char path[SPOOL_PATH_MAX];
	uint64_t id;

	if (sscanf(file, SPOOL_PRUNED ",%" SCNu64 ",", &id) != 1)
		return 0;
	return add_to_lot(data, id, true, spool_path(SPOOL_TMP, file, path), "");
}

/* Who asks for a task again does so with a rename, too: only one of both has it. */
static int prune_one(void *data, const struct task_name *n, const char *dir)
{
	struct pruning *p = data;
	char path[SPOOL_PATH_MAX], tmp[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct err e = ERR_INIT;
	int r;

	if (!n->ended_s || n->ended_s >= p->before_s)
		return 0;
	if (is_named(p, n->id)) {
		p->kept++;
		return 0;
	}
	(void)str_print(path, sizeof(path), "%.40s/%s", dir, name_format(n, file));
	r = spool_rename(p->sp, path, spool_tmp_path(p->sp, SPOOL_PRUNED, n->id, tmp), &e);
	if (r == -ENOENT) /* it was retried meanwhile, or another prune has it */
		return 0;
	if (r < 0)
		*p->e = e;
	return r < 0 ? r : add_to_lot(p, n->id, n->count, tmp, path);
}

static int count_one(void *data, const struct task_name *n, const char *dir)
{
	struct pruning *p = data;

	p->progress.total += n->ended_s && n->ended_s < p->before_s && !is_named(p, n->id);
	return 0;
}

static int prune_all(struct pruning *p)
{
	int r = find_named(p);

	p->progress = progress_begin("removing", 0);
	if (r == 0)
		r = scan_ended(p->sp, count_one, p, p->e);

	p->lot = xcalloc(LOT, sizeof(*p->lot));
	if (r == 0)
		r = spool_each(p->sp, spool_dir_name(SPOOL_TMP), prune_left, p, p->e);
	if (r == 0)
		r = scan_ended(p->sp, prune_one, p, p->e);
	if (r == 0)
		r = prune_lot(p);
	progress_end(&p->progress);
	free(p->lot);
	free(p->named.nums);
	free(p->read.nums);
	return r;
}

static int run_prune(const struct cmd_ctx *ctx, struct err *e)
{
	const struct value *age = opts_value(ctx->opts, "older-than");
	uint64_t age_s = age ? age->num / MS_PER_S : 0, now_s = clock_wall_ns() / NS_PER_S;
	struct outcome said = { .dirs = 0 };
	struct spool *sp = NULL;

	if (!age) {
		(void)err_set(e, -EINVAL, "say with --older-than 30d what may go");
		return CMD_USAGE;
	}

	int r = instance_open_if_there(ctx, 0, &sp, e);
	struct pruning p = { .sp = sp,
			     .before_s = now_s - (age_s < now_s ? age_s : now_s),
			     .e = e };

	if (r == 0 && sp)
		r = prune_all(&p);
	if (sp)
		outcome_say(&said, PRUNED, "%zu task%s removed\n", p.removed,
			    p.removed == 1 ? "" : "s");
	if (p.kept)
		outcome_say(&said, 0,
			    "%zu kept: tasks that wait, run or have failed name %s (after)\n",
			    p.kept, p.kept == 1 ? "it" : "them");
	if (sp)
		r = outcome_commit(sp, &said, r, e);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example prune_examples[] = {
	{ "tenure prune --older-than 30d", "forget what ended over a month ago, and its logs" },
	{ 0 },
};

const struct cmd cmd_prune = {
	.name = "prune",
	.group = QUEUE_GROUP,
	.summary = "remove what ended long ago, with its logs",
	.description = "What a task names that it waits for (--after) is kept as long as that one "
		       "waits, runs or lies in failed/.",
	.examples = prune_examples,
	.opts = prune_opts,
	.setting_groups = SETTING_GROUP_QUEUE,
	.flags = CMD_ENDS,
	.run = run_prune,
};
