/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/task/taskstate.h"
#include "cli/task/watch.h"
#include "cli/task/why.h"
#include "spool/instance.h"

#define TELL_AFTER_MS 1500 /* what starts at once needs no word about it */

static const struct opt wait_opts[] = {
	{ .name = "timeout",
	  .spec = { VALUE_DURATION },
	  .arg = "DURATION",
	  .help = "give up after so long, with exit code 1" },
	{ .name = "quiet",
	  .short_name = 'q',
	  .spec = { VALUE_FLAG },
	  .help = "print nothing as they end, nor what they wait for" },
	{ 0 },
};

static void tell(const struct taskwatch *w)
{
	const struct task_place *p = taskwatch_place(w);
	char id[SELECT_ID_MAX];

	printf("%s %s %s\n", select_format_id(p->name.id, p->element, id), p->name.name,
	       taskstate_name(taskwatch_state(w)));
	(void)fflush(stdout);
}

static int time_is_up(const struct taskwatch *w, struct err *e)
{
	const struct task_place *p = taskwatch_place(w);
	char id[SELECT_ID_MAX];

	return err_set(e, -ETIMEDOUT, "the time is up: task %s %s is %s",
		       select_format_id(p->name.id, p->element, id), p->name.name,
		       taskstate_name(taskwatch_state(w)));
}

/* Some never start unless somebody does something: whoever waits has to know. */
static void tell_why(const struct cmd_ctx *ctx, const struct spool *sp, const struct taskwatch *w)
{
	const struct task_place *p = taskwatch_place(w);
	cleanup_strbuf struct strbuf why = STRBUF_INIT;
	struct batch_counts counts;
	char id[SELECT_ID_MAX];
	bool waits = taskwatch_state(w) != TASKSTATE_RUNNING &&
		     !(p->name.count && !p->element && taskstate_has_begun(sp, &p->name, &counts));

	if (waits && why_of(ctx, sp, p, &why, NULL) == 0) {
		cmd_warn("note", "task %s %s", select_format_id(p->name.id, p->element, id),
			 strbuf_str(&why));
	}
}

static int wait_one(const struct cmd_ctx *ctx, const struct spool *sp, struct taskwatch *w,
		    uint64_t end_ns, struct err *e)
{
	uint64_t now, tell_ns = clock_mono_ns() + TELL_AFTER_MS * NS_PER_MS;
	bool told = opts_flag(ctx->opts, "quiet");
	int r;

	while ((r = taskwatch_look(w, e)) == 0) {
		now = clock_mono_ns();
		if (now >= end_ns)
			return time_is_up(w, e);
		if (taskwatch_state(w) == TASKSTATE_RUNNING)
			tell_ns = now + TELL_AFTER_MS * NS_PER_MS;
		/* To ask other nodes takes a while, and the time is a promise. */
		if (!told && now >= tell_ns && end_ns - now >= AGENTS_LIMIT_MS * NS_PER_MS) {
			tell_why(ctx, sp, w);
			told = true;
		}
		taskwatch_pause(w);
	}
	return r < 0 ? r : 0;
}

/* Each in its turn: the last one to end is what is waited for. */
static int wait_all(const struct cmd_ctx *ctx, const struct spool *sp, struct taskwatch **all,
		    size_t n, struct err *e)
{
	const struct value *limit = opts_value(ctx->opts, "timeout");
	uint64_t end_ns = limit ? clock_mono_ns() + limit->num * NS_PER_MS : UINT64_MAX;
	int code = 0;

	for (size_t i = 0; i < n; i++) {
		int r = wait_one(ctx, sp, all[i], end_ns, e);

		if (r < 0)
			return r;
		if (!opts_flag(ctx->opts, "quiet"))
			tell(all[i]);
		r = taskwatch_exit_code(all[i]);
		code = n == 1 ? r : r ? CMD_FAILED : code;
	}
	return code;
}

struct waited {
	const struct spool *sp;
	size_t n;
	struct taskwatch **all;
};

static int add_place(struct waited *w, const struct task_place *p, struct err *e)
{
	w->all = xgrow(w->all, w->n, sizeof(struct taskwatch *));

	int r = taskwatch_open(w->sp, p, &w->all[w->n], e);

	w->n += r == 0;
	return r;
}

/* Every task that waits or runs and is meant: a lane's, or all of a name. */
static int add_matching(struct waited *w, const struct task_set *m, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < m->n && r == 0; i++) {
		struct task_place p;

		if (m->tasks[i].name.element) /* its batch is there, too */
			continue;
		r = select_by_id(w->sp, m->tasks[i].name.id, 0, &p, e);
		if (r == 0)
			r = add_place(w, &p, e);
	}
	return r;
}

static int add_word(struct waited *w, const char *word, struct err *e)
{
	struct task_set m = { .n = 0 };
	struct task_place p;
	uint64_t id, element;
	struct err none = ERR_INIT;
	char last[SELECT_ID_MAX];
	int r = -ENOENT;

	if (!word)
		return (r = select_one(w->sp, NULL, &p, e)) < 0 ? r : add_place(w, &p, e);
	word = select_take_last(w->sp, word, last, e);
	if (!word)
		return r;
	if (ident_parse_id(word, &id, &element) < 0)
		r = select_tasks(w->sp, word, SELECT_LANES, &m, &none);
	if (r == 0)
		r = add_matching(w, &m, e);
	else if (r == -ENOENT)
		r = (r = select_one(w->sp, word, &p, &none)) < 0 ? r : add_place(w, &p, &none);
	if (r == -ENOENT && ident_is_task_name(word) && select_was_lane(w->sp, word)) {
		/* Who waits for a lane must not lose the race against its end. */
		cmd_warn("note", "nothing of lane \"%s\" waits or runs any more", word);
		r = 0;
	} else if (r < 0 && none.text[0] && e) {
		*e = none;
	}
	free(m.tasks);
	return r;
}

static int run_wait(const struct cmd_ctx *ctx, struct err *e)
{
	struct waited w = { .n = 0 };
	struct spool *sp = NULL;
	bool latest = !opts_argc(ctx->opts);
	int r = latest ? instance_open(ctx, SPOOL_LOOK, &sp, e)
		       : instance_open_for(ctx, 0, SPOOL_LOOK, &sp, e);

	w.sp = sp;
	if (latest && r == 0)
		r = add_word(&w, NULL, e);
	for (size_t i = 0; sp && i < opts_argc(ctx->opts) && r == 0; i++)
		r = add_word(&w, opts_arg(ctx->opts, i), e);
	if (r == 0)
		r = wait_all(ctx, sp, w.all, w.n, e);
	for (size_t i = 0; i < w.n; i++)
		(void)taskwatch_close(w.all[i]);
	free(w.all);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example wait_examples[] = {
	{ "tenure wait 42 && tenure submit eval.sh", "go on when it has ended well" },
	{ "tenure wait 42 43 44", "until all of them have ended" },
	{ "tenure wait week", "until what is in the lane \"week\" now has ended" },
	{ 0 },
};

const struct cmd cmd_wait = {
	.name = "wait",
	.group = QUEUE_GROUP,
	.summary = "wait until tasks have ended",
	.args = "[ID|NAME|LANE|all|last..]",
	.words = { WORDS_TASKS_LANES, WORDS_TASKS_LANES },
	.description =
		"Without a task, or with last, for the one that you submitted last. A lane, all, and a name that several tasks have mean what waits or runs at the start. "
		"The exit code is that of the task (128 and the signal where one ended it, 1 when it "
		"was stopped); of several 0 when all are done, else 1. What one waits for is "
		"told once on standard error, in its turn. Works without an agent.",
	.examples = wait_examples,
	.opts = wait_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_wait,
};
