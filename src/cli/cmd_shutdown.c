/* SPDX-License-Identifier: MIT */

/* An order to every agent that ever wrote events here; who is not there any more answers nothing.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/ask_agent.h"
#include "cli/commands.h"
#include "cli/queue.h"
#include "spool/control.h"

#define EVENTS_SUFFIX ".tasks.jsonl"
#define LOOK_US	      100000

static const struct opt shutdown_opts[] = {
	{ .name = "timeout",
	  .spec = { VALUE_DURATION, .min = 1 },
	  .arg = "DURATION",
	  .def = "6s",
	  .help = "wait so long for answers; an agent looks every two seconds" },
	{ 0 },
};

struct sent {
	char agent[NAME_AGENT_MAX + 1], path[SPOOL_PATH_MAX];
	bool answered;
};

struct orders {
	const struct spool *sp;
	size_t n, n_answered;
	struct sent *all;
	struct err *e;
};

static int send_one(void *data, const char *file, unsigned char type)
{
	struct orders *o = data;
	size_t len = strlen(file), tail = strlen(EVENTS_SUFFIX);
	struct sent s = { .answered = false };
	json_t *order;
	int r;

	if (len <= tail || len - tail > NAME_AGENT_MAX ||
	    strcmp(file + len - tail, EVENTS_SUFFIX) != 0)
		return 0;
	(void)str_print(s.agent, sizeof(s.agent), "%.*s", (int)(len - tail), file);
	order = json_pack("{s:s}", "command", "shutdown");
	r = control_send(o->sp, s.agent, order, s.path, o->e);
	json_decref(order);
	if (r < 0)
		return r;
	o->all = xrealloc(o->all, o->n + 1, sizeof(*o->all));
	o->all[o->n++] = s;
	return 0;
}

static void read_answers(struct orders *o)
{
	for (size_t i = 0; i < o->n; i++) {
		json_t *answer = NULL;

		if (o->all[i].answered ||
		    control_answer_read(o->sp, o->all[i].path, &answer, NULL) != 0)
			continue;
		o->all[i].answered = true;
		o->n_answered++;
		printf("%s lets go and ends\n", o->all[i].agent);
		(void)fflush(stdout);
		json_decref(answer);
	}
}

static int run_shutdown(const struct cmd_ctx *ctx, struct err *e)
{
	const struct value *limit = opts_value(ctx->opts, "timeout");
	uint64_t end_ns = clock_mono_ns() + limit->num * NS_PER_MS;
	struct spool *sp = NULL;
	int r = queue_open(ctx, 0, &sp, e);
	struct orders o = { .sp = sp, .e = e };

	if (r == 0)
		r = spool_each(sp, spool_dir_name(SPOOL_EVENTS), send_one, &o, e);
	ask_agent_to_look(ctx);
	while (r == 0 && o.n_answered < o.n && clock_mono_ns() < end_ns) {
		read_answers(&o);
		if (o.n_answered < o.n)
			(void)usleep(LOOK_US);
	}
	for (size_t i = 0; i < o.n; i++)
		if (!o.all[i].answered)
			control_give_up(sp, o.all[i].path);
	if (r == 0 && !o.n_answered) {
		(void)err_set(e, -ESRCH, "no agent of instance %s answers, on any node",
			      sp->instance);
		r = CMD_NOTHING_RUNS;
	}
	free(o.all);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example shutdown_examples[] = {
	{ "tenure shutdown", "tenure off, on every node" },
	{ 0 },
};

const struct cmd cmd_shutdown = {
	.name = "shutdown",
	.group = "Holding GPUs",
	.summary = "end the agents of this instance on all nodes",
	.description = "Orders them through the queue's directory, and tells which have answered. "
		       "Tasks that run go on, as with tenure off; to end them first: tenure stop "
		       "all. Exit code 3 when no agent answers.",
	.examples = shutdown_examples,
	.opts = shutdown_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_shutdown,
};
