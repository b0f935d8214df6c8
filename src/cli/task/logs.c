/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/task/logreader.h"
#include "cli/task/taskstate.h"
#include "cli/task/why.h"
#include "spool/instance.h"

static const struct opt logs_opts[] = {
	{ .name = "follow",
	  .short_name = 'f',
	  .spec = { VALUE_FLAG },
	  .help = "go on while it grows, until the task has ended; says why one waits" },
	{ .name = "attempt",
	  .spec = { VALUE_UINT, .min = 1, .max = 1000000 },
	  .arg = "N",
	  .help = "that of the N-th attempt (default: the latest)" },
	{ .name = "plain",
	  .spec = { VALUE_FLAG },
	  .help = "the output alone, without tenure's lines (===) around it" },
	{ .name = "raw",
	  .spec = { VALUE_FLAG },
	  .help = "every byte as it is, on a terminal, too, which else gets text and colours alone" },
	{ .name = "on-end",
	  .spec = { VALUE_FLAG },
	  .help = "what the commands that followed its end have printed (submit --on-end)" },
	{ 0 },
};

/* One that has failed is what people look for. */
static int which_element(const struct spool *sp, const struct task_place *p, struct err *e)
{
	struct element_ends failed = { .n = 0 };
	uint64_t element = 1;

	if (!p->name.count || p->element)
		return 0;
	if (taskstate_failed(sp, &p->name, &failed, NULL) == 0 && failed.n)
		element = failed.ends[0].element;
	(void)err_set(e, -EINVAL,
		      "task %" PRIu64 " has %" PRIu64
		      " element%s with a log each; say which: tenure "
		      "logs %" PRIu64 ".%" PRIu64 "%s",
		      p->name.id, p->name.count, p->name.count > 1 ? "s" : "", p->name.id, element,
		      failed.n ? ", which has failed" : "");
	free(failed.ends);
	return -EINVAL;
}

/* What is asked for. */
struct asked {
	size_t n;
	struct task_place *places;
	struct logreader *logs;
	char (*labels)[SELECT_ID_MAX + SPEC_NAME_MAX + 2];
	const char *shown;
};

static bool has_ended(const struct spool *sp, const struct task_place *p)
{
	if (p->dir != SPOOL_PENDING && p->dir != SPOOL_RUNNING)
		return true;
	return p->element && taskstate_element_state(sp, p, p->element, NULL) > BATCH_RUNNING;
}

/* Elements have ends of their own, ranks have one together. */
static void tell_elements(const struct spool *sp, const struct task_place *p, struct logreader *t)
{
	struct task_file file = { .spec = NULL };
	bool gang = p->name.count && task_file_read(sp, p->path, &file, NULL) == 0 &&
		    spec_is_gang(file.spec);

	t->has_elements = p->name.count && !p->element && !gang;
	t->is_rank = p->element && gang;
	task_file_clear(&file);
}

static int ask_for(struct asked *a, const struct cmd_ctx *ctx, const struct spool *sp,
		   struct err *e)
{
	const struct value *attempt = opts_value(ctx->opts, "attempt");
	int r = 0;

	for (size_t i = 0; i < a->n && r == 0; i++) {
		struct task_place *p = &a->places[i];
		char id[SELECT_ID_MAX];

		r = select_one(sp, opts_arg(ctx->opts, i), p, e);
		if (r == 0 && !opts_flag(ctx->opts, "on-end"))
			r = which_element(sp, p, e);
		if (r < 0)
			break;
		(void)str_print(a->labels[i], sizeof(a->labels[i]), "%s %s",
				select_format_id(p->name.id, p->element, id), p->name.name);
		a->logs[i] = (struct logreader){
			.sp = sp,
			.id = p->name.id,
			.element = p->element,
			.ended = has_ended(sp, p),
			.attempt = attempt ? (unsigned int)attempt->num : 0,
			.plain = opts_flag(ctx->opts, "plain"),
			.safe = isatty(STDOUT_FILENO) && !opts_flag(ctx->opts, "raw"),
			.on_end = opts_flag(ctx->opts, "on-end"),
			.out = stdout,
			.label = a->n > 1 ? a->labels[i] : NULL,
			.shown = &a->shown,
		};
		if (a->logs[i].on_end)
			tell_elements(sp, p, &a->logs[i]);
	}
	return r;
}

/* Beside the output, which may go into a file. */
static void say_that_it_waits(void *data, const struct logreader *t, const struct task_place *place)
{
	cleanup_strbuf struct strbuf why = STRBUF_INIT;
	struct err e = ERR_INIT;
	char id[SELECT_ID_MAX];

	if (why_of(data, t->sp, place, &why, &e) < 0)
		strbuf_adds(&why, "waits");
	(void)fflush(t->out);
	(void)fprintf(stderr, "tenure: task %s %s; its output follows when it starts\n",
		      select_format_id(t->id, t->element, id), strbuf_str(&why));
}

static int follow(const struct asked *a, const struct cmd_ctx *ctx, const struct spool *sp,
		  struct err *e)
{
	cleanup_free struct taskwatch **w = xcalloc(a->n, sizeof(struct taskwatch *));
	int r = 0;

	for (size_t i = 0; i < a->n && r == 0; i++) {
		a->logs[i].waits = say_that_it_waits;
		a->logs[i].data = (void *)(uintptr_t)ctx;
		r = taskwatch_open(sp, &a->places[i], &w[i], e);
	}
	if (r == 0)
		r = logreader_follow_all(a->logs, w, a->n, e);
	for (size_t i = 0; i < a->n; i++)
		(void)taskwatch_close(w[i]);
	return r;
}

/* An attempt that is asked for by its number grows no more, or is the last one. That one has no log
 * keeps none of the others from being shown. */
static int show_all(const struct asked *a, struct err *e)
{
	int first = 0, r = 0;

	for (size_t i = 0; i < a->n && (r == 0 || r == -ENOENT); i++) {
		r = logreader_show(&a->logs[i], first ? NULL : e);
		first = first ? first : r;
	}
	return first;
}

static int run_logs(const struct cmd_ctx *ctx, struct err *e)
{
	size_t n = opts_argc(ctx->opts) ? opts_argc(ctx->opts) : 1;
	cleanup_free struct task_place *places = xcalloc(n, sizeof(*places));
	cleanup_free struct logreader *logs = xcalloc(n, sizeof(*logs));
	cleanup_free char(*labels)[SELECT_ID_MAX + SPEC_NAME_MAX + 2] = xcalloc(n, sizeof(*labels));
	struct asked a = { .n = n, .places = places, .logs = logs, .labels = labels };
	struct spool *sp = NULL;
	int r;

	if (opts_flag(ctx->opts, "on-end") &&
	    (opts_flag(ctx->opts, "follow") || opts_flag(ctx->opts, "plain"))) {
		(void)err_set(e, -EINVAL,
			      "--on-end shows what is there: without --follow and "
			      "--plain");
		return CMD_USAGE;
	}
	r = instance_open(ctx, SPOOL_LOOK, &sp, e);
	if (r == 0)
		r = ask_for(&a, ctx, sp, e);
	if (r == 0)
		r = opts_flag(ctx->opts, "follow") ? follow(&a, ctx, sp, e) : show_all(&a, e);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example logs_examples[] = {
	{ "tenure logs", "what the task that you submitted last has printed" },
	{ "tenure logs 42", "what task 42 has printed in its latest attempt" },
	{ "tenure logs -f train.sh", "and what it prints from now on, until it ends" },
	{ "tenure logs -f 42 43.1 43.2", "several at once, until all have ended" },
	{ "tenure logs 43.7 --attempt 1", "the first attempt of an element" },
	{ 0 },
};

const struct cmd cmd_logs = {
	.name = "logs",
	.group = QUEUE_GROUP,
	.summary = "what a task has printed",
	.args = "[ID|NAME|last..]",
	.words = { WORDS_ANY_TASKS, WORDS_ANY_TASKS },
	.description =
		"Without a task, or with last, of the one that you submitted last. Of the latest attempt; of ended tasks, too. Of several, a line says whose "
		"output follows. Elements of an array (42.7) count from 1, whatever its "
		"indices are. Works without an agent.",
	.examples = logs_examples,
	.opts = logs_opts,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_logs,
};
