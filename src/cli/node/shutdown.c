/* SPDX-License-Identifier: MIT */

/*
 * An order to every agent that has left a heartbeat and has not ended. Who does not answer is
 * told of with the age of that sign: whether it lives cannot be known from here.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/node/declare_dead.h"
#include "cli/node_agents.h"
#include "spool/instance.h"

#define END_LOOK_MS  500
#define END_SOON_MS  50	   /* for one that lets its tasks run on, it is a matter of moments */
#define END_LIMIT_MS 15000 /* the workload's grace, and what tenure off waits for besides */

static const struct opt shutdown_opts[] = {
	{ .name = "stop-tasks",
	  .spec = { VALUE_FLAG },
	  .help = "the same, and end them first, as tenure stop does" },
	{ .name = "drain",
	  .spec = { VALUE_FLAG },
	  .help = "start no more tasks, and end when those that run have" },
	{ .name = "timeout",
	  .spec = { VALUE_DURATION, .min = 1 },
	  .arg = "DURATION",
	  .def = AGENTS_LIMIT_TEXT,
	  .help = "wait so long for answers; an agent looks every two seconds" },
	{ .name = "gone",
	  .words = WORDS_NODES,
	  .spec = { VALUE_STRING },
	  .arg = "NODE",
	  .help = "that node does not exist any more: others may take over its tasks" },
	{ 0 },
};

struct shutdown {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	struct order order;
	struct node_agents agents;
	struct heartbeat_watch *watch;
	size_t n_answered, n_silent;
	bool *waits; /* per agent: its end is waited for */
	struct err *e;
	int code;
};

/* ---- answers ---- */

static void say_going(const struct shutdown *s, const char *agent, long long n)
{
	const char *tasks = n == 1 ? "task" : "tasks";

	if (s->order.how == ORDER_RUN_ON && n)
		printf("%s is shutting down; %lld %s %s on\n", agent, n, tasks,
		       n == 1 ? "runs" : "run");
	else if (s->order.how == ORDER_DRAIN && n)
		printf("%s is draining; it ends when its %lld %s %s\n", agent, n, tasks,
		       n == 1 ? "has" : "have");
	else if (s->order.how == ORDER_STOP_TASKS && n)
		printf("%s stops its %lld %s and shuts down\n", agent, n, tasks);
	else
		printf("%s is shutting down\n", agent);
	(void)fflush(stdout);
}

static void fail(struct shutdown *s, int code, const char *text)
{
	(void)cmd_fail(CMD_FAILED, text);
	s->code = code;
}

static void say_silent(struct shutdown *s, const struct node_agent *p, bool taken)
{
	cleanup_free char *sign = node_agent_sign(p), *silence = node_agent_silence(p);
	cleanup_free char *text =
		taken ? xasprintf("%s has taken the order and has not answered (%s)", p->agent,
				  sign)
		: p->here
			? xasprintf("%s, on this node, does not answer (%s); if it hangs: kill %d",
				    p->agent, sign, (int)p->heartbeat.who.proc.pid)
			: xasprintf("%s %s", p->agent, silence);

	s->n_silent++;
	fail(s, -EHOSTUNREACH, text);
}

static void on_answer(void *user, const struct agent_called *one, const json_t *answer)
{
	struct shutdown *s = user;
	const struct node_agent *p = one->data;
	struct err why = ERR_INIT;

	if (!answer) {
		say_silent(s, p, one->state == CALLED_TAKEN);
	} else if (agents_answer_code(answer, &why) < 0) {
		cleanup_free char *text = xasprintf("%s refuses: %s", p->agent, why.text);

		s->n_answered++;
		fail(s, why.code, text);
	} else {
		s->n_answered++;
		s->waits[p - s->agents.all] = true;
		say_going(s, p->agent,
			  (long long)json_integer_value(json_object_get(answer, "running")));
	}
}

/* ---- their end, so that `tenure on` may come next ---- */

/*
 * Here, its process is gone. Elsewhere its file is, or says so, or is another one's; or there is no
 * heartbeat any more.
 */
static bool has_ended(struct shutdown *s, const struct node_agent *p, bool *ret_lost)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;
	uint64_t silent_ms, expire_ms = settings_num(s->ctx->settings, SET_EXPIRE);
	struct heartbeat b = { .count = 0 };
	int r;

	if (p->here)
		return !proc_alive(&p->heartbeat.who.proc);
	r = heartbeat_read(s->sp, heartbeat_agent_path(p->agent, path), &b, NULL, NULL);
	if (r == -ENOENT || (r == 0 && (b.ended || strcmp(b.who.boot, p->heartbeat.who.boot) != 0 ||
					b.who.proc.pid != p->heartbeat.who.proc.pid ||
					b.who.proc.start != p->heartbeat.who.proc.start)))
		return true;
	silent_ms = r == 0 ? heartbeat_watch_see(s->watch, path, b.count) : 0;
	if (silent_ms <=
	    (expire_ms > p->heartbeat.fence_timeout_ms ? expire_ms : p->heartbeat.fence_timeout_ms))
		return false;
	*ret_lost = true;
	text = xasprintf("%s sends no heartbeat any more", p->agent);
	fail(s, -EHOSTUNREACH, text);
	return true;
}

/* One that lets its tasks run on ends at once, and is worth a word only where it does not. */
static bool look_at_end(struct shutdown *s, const struct node_agent *p, bool late)
{
	cleanup_free char *text = NULL;
	bool quick = s->order.how == ORDER_RUN_ON, lost = false;

	if (has_ended(s, p, &lost)) {
		if (!quick && !lost)
			printf("%s has ended\n", p->agent);
		return true;
	}
	if (!quick || !late)
		return false;
	text = xasprintf("%s has answered, and has not ended within %d s", p->agent,
			 END_LIMIT_MS / 1000);
	fail(s, -ETIMEDOUT, text);
	return true;
}

static void wait_ends(struct shutdown *s)
{
	size_t left = s->n_answered;
	bool quick = s->order.how == ORDER_RUN_ON;
	unsigned int step_ms = quick ? END_SOON_MS : END_LOOK_MS;
	uint64_t late_ns = clock_mono_ns() + END_LIMIT_MS * NS_PER_MS;

	if (left && !quick && isatty(STDERR_FILENO))
		(void)fputs("Waiting for their ends; Ctrl-C ends the waiting alone.\n", stderr);
	s->watch = heartbeat_watch_new(step_ms);
	while (left) {
		left = 0;
		heartbeat_watch_begin(s->watch, clock_boot_ns());
		for (size_t i = 0; i < s->agents.n; i++) {
			s->waits[i] = s->waits[i] && !look_at_end(s, &s->agents.all[i],
								  clock_mono_ns() >= late_ns);
			left += s->waits[i];
		}
		heartbeat_watch_finish(s->watch);
		(void)fflush(stdout);
		if (left)
			(void)usleep(step_ms * 1000);
	}
	s->watch = heartbeat_watch_free(s->watch);
}

/* ---- */

static bool is_there(const struct node_agent *p)
{
	return p->state != NODE_AGENT_OFF && !p->declared_dead &&
	       !(p->here && p->state == NODE_AGENT_GONE);
}

static int send_all(struct shutdown *s, struct agents_call *o)
{
	int r = 0;

	for (size_t i = 0; i < s->agents.n && r == 0; i++)
		if (is_there(&s->agents.all[i]))
			r = agents_send(o, s->agents.all[i].agent, &s->order, &s->agents.all[i],
					s->e);
	return r;
}

static int nobody(const struct shutdown *s)
{
	const char *instance = settings_str(s->ctx->settings, SET_INSTANCE);
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < s->agents.n; i++) {
		cleanup_free char *sign = node_agent_sign(&s->agents.all[i]);

		strbuf_addf(&b, "; %s: %s", s->agents.all[i].agent, sign);
	}
	if (s->n_silent)
		(void)err_set(s->e, -ESRCH, "no agent of instance %s answers, on any node",
			      instance);
	else
		(void)err_set(s->e, -ESRCH, "no agent of instance %s runs, on any node%s", instance,
			      strbuf_str(&b));
	return CMD_NOTHING_RUNS;
}

static int order_all(struct shutdown *s)
{
	const struct value *limit = opts_value(s->ctx->opts, "timeout");
	struct agents_call o = { .sp = s->sp };
	int r = node_agents_read(s->ctx, s->sp, &s->agents, s->e);

	s->waits = xcalloc(s->agents.n + 1, sizeof(*s->waits));
	if (r == 0)
		r = send_all(s, &o);
	agent_look(s->ctx);
	if (r == 0)
		agents_wait(&o, limit->num, on_answer, s);
	agents_clear(&o);
	if (r == 0 && !s->n_answered)
		r = nobody(s);
	if (r == 0)
		wait_ends(s);
	node_agents_clear(&s->agents);
	free(s->waits);
	/* What there is to say has been said. */
	return r == 0 && s->code ? CMD_FAILED : r;
}

static int run_shutdown(const struct cmd_ctx *ctx, struct err *e)
{
	const char *gone = opts_text(ctx->opts, "gone");
	bool stop = opts_flag(ctx->opts, "stop-tasks"), drain = opts_flag(ctx->opts, "drain");
	struct shutdown s = { .ctx = ctx,
			      .order = { .command = ORDER_SHUTDOWN,
					 .how = stop	? ORDER_STOP_TASKS
						: drain ? ORDER_DRAIN
							: ORDER_RUN_ON },
			      .e = e };
	struct spool *sp = NULL;
	int r;

	if (gone && (stop || drain)) {
		(void)err_set(e, -EINVAL,
			      "--gone is about a node that does not exist any more; nothing there "
			      "can be drained or stopped");
		return CMD_USAGE;
	}
	r = instance_open(ctx, 0, &sp, e);
	s.sp = sp;
	/* Nothing was ever submitted: nobody serves it. */
	if (r == -ENOENT && !gone)
		r = nobody(&s);
	if (r == 0)
		r = gone ? declare_dead(ctx, sp, gone, e) : order_all(&s);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example shutdown_examples[] = {
	{ "tenure shutdown", "tenure off, on every node" },
	{ "tenure shutdown --drain", "when the tasks that run have ended" },
	{ "tenure shutdown --gone node7", "let others run what ran on a node that was lost" },
	{ 0 },
};

const struct cmd cmd_shutdown = {
	.name = "shutdown",
	.group = "Holding GPUs",
	.summary = "end the agents of this instance on all nodes",
	.description =
		"Orders them through the queue's directory, and tells who has answered, and of who has "
		"not when it sent its last heartbeat. Tasks that run go on, as with tenure off, "
		"unless --drain or --stop-tasks is given. The command ends when the agents that have "
		"answered have, so that tenure on may come next. Exit code 1 when one does not answer, 3 when none does.\n\n"
		"--gone ends nothing: it tells the agents that a node does not exist any more, so "
		"that they run its tasks again. They find that out by themselves, but for a node that "
		"was alone with the queue when it was last heard of: what it runs may run on, cut off "
		"from the others, and a task must never run twice at once. Make sure that it does "
		"not. It is refused while that node sends heartbeats.",
	.examples = shutdown_examples,
	.opts = shutdown_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.flags = CMD_ENDS,
	.run = run_shutdown,
};
