/* SPDX-License-Identifier: MIT */

/* What is done to tasks that wait: each is this process's own rename, so that no agent is needed. A
 * lane is paused by a file. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/task/outcome.h"
#include "cli/task/submit_inherit.h"
#include "spool/batch_retry.h"
#include "spool/instance.h"
#include "spool/lane.h"
#include "spool/transit.h"

struct change;
typedef int (*change_fn)(const struct change *c, struct task_name *n, struct err *e);

struct change {
	const struct spool *sp;
	change_fn fn;
	bool waits;	       /* one that is meant does, ... */
	struct task_name runs; /* ... and one does not */
	uint64_t priority;
	bool paused;
	bool lanes;    /* the words are lanes alone */
	bool all;      /* what is not paused is not meant by `resume all` */
	bool all_runs; /* nothing of what is meant waits */
	bool say;      /* what was in a back-off is told one by one */
	unsigned int changed;
	struct outcome said;
};

static int do_priority(const struct change *c, struct task_name *n, struct err *e)
{
	return transit_priority(c->sp, n, c->priority, e);
}

static int do_pause(const struct change *c, struct task_name *n, struct err *e)
{
	return transit_pause(c->sp, n, c->paused, e);
}

/* "42 train.sh has priority 3" */
static void tell(struct change *c, const struct task_name *n)
{
	char priority[48] = "";

	if (c->fn == do_priority)
		(void)str_print(priority, sizeof(priority), "has priority %" PRIu64, c->priority);
	c->changed++;
	outcome_say(&c->said, SPOOL_BIT(SPOOL_PENDING), "%" PRIu64 " %s %s\n", n->id, n->name,
		    priority[0] ? priority
		    : c->paused ? "is paused"
				: "is resumed");
}

/* Who resumes it has done something about its failures: its back-off has no more sense. *ended: it
 * was in one. */
static int hasten(struct change *c, struct task_name *n, bool *ended, struct err *e)
{
	uint64_t begin_s = n->begin_s;
	char who[SPEC_NAME_MAX + 1];
	int r;

	claimer_tool_name("resume", spool_host(c->sp), who);
	r = n->count ? batch_retry_waiting(c->sp, n, who, e) : transit_skip_backoff(c->sp, n, e);
	*ended = r == 0 && (n->count || n->begin_s != begin_s);
	c->said.dirs |= *ended ? SPOOL_BIT(SPOOL_PENDING) | SPOOL_BIT(SPOOL_ENDS) : 0;
	return r == TRANSIT_GONE || r == BATCH_RETRY_NONE ? 0 : r;
}

/* "42 train.sh is not paused; it begins 2026-11-22 08:00:00 at the earliest" */
static void tell_not_paused(struct change *c, const struct task_name *n)
{
	char when[CLOCK_TEXT_MAX];

	outcome_say(&c->said, 0, "%" PRIu64 " %s is not paused", n->id, n->name);
	if (n->begin_s)
		outcome_say(&c->said, 0, "; it begins %s at the earliest",
			    clock_format_local(n->begin_s * NS_PER_S, when));
	outcome_say(&c->said, 0, "\n");
}

static int resume_one(struct change *c, struct scan_task *t, struct err *e)
{
	bool paused = t->name.flags & NAME_PAUSED, ended = false;
	int r = paused ? do_pause(c, &t->name, e) : 0;

	if (r == 0 && (paused || !c->all))
		r = hasten(c, &t->name, &ended, e);
	if (r != 0)
		return r;
	if (paused || ended)
		tell(c, &t->name);
	else if (!c->all)
		tell_not_paused(c, &t->name);
	if ((paused || !c->all) && t->name.lane[0] && lane_is_paused(c->sp, t->name.lane))
		cmd_warn("note", "its lane is paused, too: tenure resume %s", t->name.lane);
	return 0;
}

/* Elements that run go on whatever becomes of those that wait. */
static int change_one(void *data, struct scan_task *t, struct err *e)
{
	struct change *c = data;
	int r = 0;

	if (t->name.element || t->dir != SPOOL_PENDING) {
		c->runs = t->name;
		return 0;
	}
	if (c->fn == do_pause && !c->paused)
		r = resume_one(c, t, e);
	else
		r = c->fn(c, &t->name, e);
	if (r == 0 && (c->fn != do_pause || c->paused))
		tell(c, &t->name);
	c->waits |= r == 0;
	return r;
}

/* Those of a lane, or all, that run already are not meant; one that is named is. TRANSIT_GONE: all
 * of them ended meanwhile. */
static int change_found(struct change *c, struct task_set *m, struct err *e)
{
	size_t n = m->n;
	int r;

	c->waits = c->all_runs = false;
	c->runs.id = 0;
	r = change_each(c->sp, m, change_one, c, e);
	if (r < 0 || c->waits || !n)
		return r;
	if (!c->runs.id)
		return TRANSIT_GONE;
	c->all_runs = true;
	return err_set(e, -EBUSY,
		       "task %" PRIu64 "%s%s%s%s runs already; only what waits can be changed",
		       c->runs.id, c->runs.name[0] ? " (" : "", c->runs.name,
		       c->runs.name[0] ? ")" : "", n == 1 ? "" : ", as all others that are meant,");
}

static int change_word(struct change *c, const char *word, struct err *e)
{
	struct task_set m;
	uint64_t id, element;
	int r = TRANSIT_GONE;

	if (ident_parse_id(word, &id, &element) == 0 && element)
		return err_set(e, -EINVAL,
			       "%s is an element; its priority and pauses are those of task "
			       "%" PRIu64 " as a whole",
			       word, id);
	for (int look = 0; look < CHANGE_LOOKS && r == TRANSIT_GONE; look++) {
		r = select_tasks(c->sp, word, SELECT_LANES | SELECT_TELL_ENDED, &m, e);
		if (r < 0)
			return r;
		if (!m.n)
			select_tell_none(c->sp);
		r = change_found(c, &m, e);
		free(m.tasks);
	}
	return r > 0 ? err_set(e, -EAGAIN, "%s changed just now; try again", word) : r;
}

/* ---- lanes: what is submitted to them later is paused as well ---- */

static bool is_lane(const struct spool *sp, const char *word)
{
	struct task_set all;
	uint64_t id, element;
	bool found = lane_is_paused(sp, word);

	if (ident_parse_id(word, &id, &element) == 0 || !ident_is_task_name(word) ||
	    select_all(sp, &all, NULL) < 0)
		return false;
	for (size_t i = 0; i < all.n && !found; i++)
		found = strcmp(all.tasks[i].name.lane, word) == 0;
	free(all.tasks);
	return found;
}

static int hasten_one(void *data, struct scan_task *t, struct err *e)
{
	struct change *c = data;
	bool ended = false;
	int r = t->dir == SPOOL_PENDING ? hasten(c, &t->name, &ended, e) : 0;

	if (r == 0 && ended && c->say)
		tell(c, &t->name);
	return r;
}

/* fn for those of everything that waits that are chosen. */
static int change_chosen(struct change *c,
			 bool (*choose)(const struct task_name *n, const char *lane),
			 const char *lane, change_each_fn fn, struct err *e)
{
	struct task_set all;
	size_t n = 0;
	int r = select_all(c->sp, &all, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++)
		if (all.tasks[i].dir == SPOOL_PENDING && choose(&all.tasks[i].name, lane))
			all.tasks[n++] = all.tasks[i];
	all.n = n;
	r = change_each(c->sp, &all, fn, c, e);
	free(all.tasks);
	return r;
}

static bool is_unpaused_of(const struct task_name *n, const char *lane)
{
	return strcmp(n->lane, lane) == 0 && !(n->flags & NAME_PAUSED);
}

static bool is_paused_of(const struct task_name *n, const char *lane)
{
	return strcmp(n->lane, lane) == 0 && n->flags & NAME_PAUSED;
}

/* Called as the lane is, and not of it. */
static bool is_namesake(const struct task_name *n, const char *lane)
{
	return strcmp(n->name, lane) == 0 && strcmp(n->lane, lane) != 0;
}

static int hasten_lane(struct change *c, const char *lane, bool say, struct err *e)
{
	c->say = say;
	return change_chosen(c, is_unpaused_of, lane, hasten_one, e);
}

/* Of what waits or runs. */
static bool names_task(const struct spool *sp, const char *word)
{
	struct task_set m = { .n = 0 };
	int r = select_tasks(sp, word, SELECT_EXACT, &m, NULL);

	free(m.tasks);
	return r != -ENOENT;
}

static int pause_lane(struct change *c, const char *lane, struct err *e)
{
	struct task_spec *who = spec_new();
	cleanup_free char *reason = NULL;
	char path[SPOOL_PATH_MAX];
	int r;

	submitter_name(who, c->sp);
	reason = xasprintf("paused by %s", who->user ? who->user : "its owner");
	(void)spec_free(who);
	r = c->paused ? lane_pause(c->sp, lane, reason, e) : lane_resume(c->sp, lane, e);
	/* Of all that are paused: another command was faster. */
	if (r == -ENOENT && c->all && spool_is_gone(c->sp, spool_path(SPOOL_LANES, lane, path)))
		return 0;
	if (r == 0) {
		c->changed++;
		outcome_say(&c->said, SPOOL_BIT(SPOOL_LANES), "lane %s %s\n", lane,
			    c->paused ? "is paused" : "is resumed");
	}
	if (r == 0 && !c->paused)
		r = hasten_lane(c, lane, false, e);
	return r;
}

struct resuming {
	struct change *c;
	struct err *e;
	int first; /* error */
};

/* One that cannot be resumed keeps none of the others from it. */
static int resume_lane(void *data, const char *lane)
{
	struct resuming *all = data;
	struct err why = ERR_INIT;
	int r = pause_lane(all->c, lane, &why);

	if (r < 0 && !all->first) {
		all->first = r;
		*all->e = why;
	}
	return 0;
}

static int resume_lanes(struct change *c, struct err *e)
{
	struct resuming all = { .c = c, .e = e };
	int r = lanes_paused(c->sp, resume_lane, &all, e);

	return all.first ? all.first : r;
}

static int pause_named_lane(struct change *c, const char *lane, struct err *e)
{
	bool was_paused = lane_is_paused(c->sp, lane);
	unsigned int changed = c->changed;
	int r = 0;

	if (c->paused || was_paused)
		r = pause_lane(c, lane, e);
	else
		r = hasten_lane(c, lane, true, e);
	/* Those that were paused one by one are resumed with it. */
	if (r == 0 && !c->paused)
		r = change_chosen(c, is_paused_of, lane, change_one, e);
	if (r == 0 && !c->lanes)
		r = change_chosen(c, is_namesake, lane, change_one, e);
	if (r == 0 && c->changed == changed)
		r = err_set(e, -EINVAL, "nothing of lane \"%s\" is paused, or in a back-off", lane);
	return r;
}

/* --lane: "all" is none, nor is a task that is called so meant. */
static int pause_lane_word(struct change *c, const char *word, struct err *e)
{
	if (is_lane(c->sp, word) || select_was_lane(c->sp, word))
		return pause_named_lane(c, word, e);
	return err_set(e, -ENOENT, "there is no lane \"%s\" in instance \"%s\"", word,
		       spool_instance(c->sp));
}

static int pause_word(void *data, const char *word, struct err *e)
{
	struct change *c = data;
	bool all = strcmp(word, "all") == 0;
	unsigned int changed = c->changed;
	int r, first = 0;

	if (c->lanes)
		return pause_lane_word(c, word, e);
	c->all = all;
	if (!all && is_lane(c->sp, word))
		return pause_named_lane(c, word, e);
	if (!all && c->paused && ident_is_task_name(word) && !names_task(c->sp, word) &&
	    select_was_lane(c->sp, word))
		return pause_lane(c, word, e);
	if (all && !c->paused)
		first = resume_lanes(c, e);
	r = change_word(c, word, first ? NULL : e);
	if (first == 0 && r == 0 && all && c->waits && c->changed == changed)
		cmd_warn("note", "nothing that waits is paused");
	if (r < 0 && all && c->all_runs && c->changed > changed) /* a lane was */
		r = 0;
	return first ? first : r;
}

static int priority_word(void *data, const char *word, struct err *e)
{
	return change_word(data, word, e);
}

static int change_all(const struct cmd_ctx *ctx, struct change *c, size_t first, struct err *e)
{
	struct spool *sp = NULL;
	int r = c->lanes ? instance_open(ctx, 0, &sp, e) : instance_open_for(ctx, first, 0, &sp, e);

	c->sp = sp;
	if (sp)
		r = change_words(c->lanes ? NULL : sp, ctx->opts, first,
				 c->fn == do_priority ? priority_word : pause_word, c, e);
	if (sp)
		r = outcome_commit(sp, &c->said, r, e);
	sp = spool_close(sp);
	if (c->changed)
		agent_look(ctx);
	return r;
}

static int run_priority(const struct cmd_ctx *ctx, struct err *e)
{
	struct change c = { .fn = do_priority };
	const char *text = opts_arg(ctx->opts, 0);

	if (str_to_u64(text, &c.priority) < 0 || c.priority > SPEC_PRIORITY_MAX) {
		(void)err_set(e, -EINVAL, "\"%s\" is no priority; it is a number from 0 to %d",
			      text, SPEC_PRIORITY_MAX);
		return CMD_USAGE;
	}
	return change_all(ctx, &c, 1, e);
}

static int set_paused(const struct cmd_ctx *ctx, bool paused, struct err *e)
{
	struct change c = { .fn = do_pause,
			    .paused = paused,
			    .lanes = opts_flag(ctx->opts, "lane") };

	return change_all(ctx, &c, 0, e);
}

static int run_pause(const struct cmd_ctx *ctx, struct err *e)
{
	return set_paused(ctx, true, e);
}

static int run_resume(const struct cmd_ctx *ctx, struct err *e)
{
	return set_paused(ctx, false, e);
}

#define MEANT "ID|NAME|LANE|all|last.."
#define COMMAND(name_, args_, min_args_, summary_)                                                 \
	.name = (name_), .group = QUEUE_GROUP, .summary = (summary_), .args = (args_),             \
	.min_args = (min_args_), .setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT

static const struct cmd_example priority_examples[] = {
	{ "tenure priority 1 42", "task 42 is next" },
	{ 0 },
};

const struct cmd cmd_priority = {
	COMMAND("priority", "N " MEANT, 2, "give tasks that wait another priority (lower first)"),
	.words = { WORDS_BY_TYPE, WORDS_TASKS_LANES },
	.examples = priority_examples,
	.run = run_priority,
};

static const struct opt pause_opts[] = {
	{ .name = "lane",
	  .spec = { VALUE_FLAG },
	  .help = "lanes are meant, and no task that is called so" },
	{ 0 },
};

static const struct cmd_example pause_examples[] = {
	{ "tenure pause week", "nothing of the lane \"week\" is started" },
	{ 0 },
};

const struct cmd cmd_pause = {
	COMMAND("pause", MEANT, 1, "do not start tasks that wait"),
	.words = { WORDS_TASKS_LANES, WORDS_TASKS_LANES },
	.description = "What runs runs on. Of a lane, which may be empty by now, also what is "
		       "submitted to it later waits.\n\n" SELECT_HELP,
	.examples = pause_examples,
	.opts = pause_opts,
	.run = run_pause,
};

static const struct cmd_example resume_examples[] = {
	{ "tenure resume week", "undo tenure pause week" },
	{ 0 },
};

const struct cmd cmd_resume = {
	COMMAND("resume", MEANT, 1, "let paused tasks and lanes go on"),
	.words = { WORDS_TASKS_LANES, WORDS_TASKS_LANES },
	.description =
		"Also what was paused because it failed at once, again and again. A back-off "
		"after failures ends, of what is named; all means what is paused.",
	.examples = resume_examples,
	.opts = pause_opts,
	.run = run_resume,
};
