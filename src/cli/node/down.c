/* SPDX-License-Identifier: MIT */

/* `down`, which gives back what `up` has got. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/node/pool_call.h"
#include "cli/pools.h"

extern char **environ;

static const struct opt down_opts[] = {
	POOL_CALL_OPT,
	{ .name = "now",
	  .spec = { VALUE_FLAG },
	  .help = "end what runs there, too: its tasks go back to the queue" },
	{ 0 },
};

static void on_drained(void *user, const struct agent_called *one, const json_t *answer)
{
	struct err e = ERR_INIT;

	if (answer && agents_answer_code(answer, &e) == 0)
		printf("%s ends when its tasks have\n", one->agent);
	else if (answer)
		cmd_warn("warning", "%s refuses: %s", one->agent, e.text);
	else
		cmd_warn("warning", "%s has not answered; %s --now ends its job", one->agent,
			 (const char *)user);
}

/* Agents of live jobs leave when their tasks have ended. */
static void drain_agents(const struct cmd_ctx *ctx, const struct spool *sp,
			 const struct pool_jobs *jobs)
{
	static const struct order order = { .command = ORDER_SHUTDOWN, .how = ORDER_DRAIN };
	cleanup_free char *again = pool_call_text(ctx, "down", true);
	struct agents_call call = { .sp = sp };

	for (size_t i = 0; i < jobs->n; i++)
		if (jobs->all[i].phase != POOL_JOB_ENDED && jobs->all[i].agent[0])
			(void)agents_send(&call, jobs->all[i].agent, &order, NULL, NULL);
	agents_wait(&call, AGENTS_LIMIT_MS, on_drained, again);
	agents_clear(&call);
}

static int cancel_jobs(const struct pool *p, const struct pool_jobs *jobs, struct err *e)
{
	struct engine_env env = { .environ = (const char *const *)environ,
				  .settings = &p->settings };
	struct text_list ids = { .n = 0 };
	int r = 0;

	for (size_t i = 0; i < jobs->n; i++)
		if (jobs->all[i].phase != POOL_JOB_ENDED && jobs->all[i].id[0]) {
			text_list_add(&ids, jobs->all[i].id);
		}
	if (ids.n)
		r = engine_find(p->engine)->cancel(&env, &ids, e);
	for (size_t i = 0; i < ids.n && r == 0; i++)
		printf("ended job %s\n", ids.texts[i]);
	text_list_clear(&ids);
	return r;
}

/* What the engine has of it still, though it is to be down: 0, or -EBUSY and what that is. ended:
 * those with an id were ended just now. */
static int check_gone(const struct cmd_ctx *ctx, const struct pool *p, bool ended,
		      const struct pool_jobs *jobs, const struct pool_state *st, struct err *e)
{
	cleanup_free char *again = pool_call_text(ctx, "down", true);
	const struct pool_job *left = NULL;
	size_t n = 0;

	for (size_t i = 0; i < jobs->n; i++) {
		const struct pool_job *job = &jobs->all[i];

		if (job->phase == POOL_JOB_ENDED || job->agent[0] || (ended && job->id[0]))
			continue;
		left = job;
		n++;
	}
	if (!left)
		return 0;
	if (!left->id[0])
		return err_set(e, -EBUSY,
			       "pool %s asks for nothing more; but whether %s took the job %s is "
			       "not known yet: call %s again in a minute",
			       p->name, p->engine, left->token, again);
	return err_set(e, -EBUSY,
		       "pool %s asks for nothing more; but %s still has its job %s%s%s%s: call "
		       "%s again",
		       p->name, p->engine, left->id, n > 1 ? " and others" : "",
		       st->error[0] ? ": " : "", st->error, again);
}

static int busy(const struct cmd_ctx *ctx, const struct pool *p, struct err *e)
{
	cleanup_free char *again = pool_call_text(ctx, "down", true);

	return err_set(e, -EBUSY,
		       "pool %s is to be down, and asks for nothing more; but somebody is at it "
		       "for longer than %d s, so what it has was left: call %s again",
		       p->name, POOL_CALL_PATIENCE_MS / 1000, again);
}

/* With a full disk what runs is ended all the same, if that was asked for. */
static int set_down(const struct spool *sp, struct pool *p, bool now, struct err *e)
{
	struct pool_jobs jobs = { .n = 0 };
	struct err other = ERR_INIT;
	struct pool_owner owner;
	struct pool fresh = { .gpus = 0 };
	int r = pool_call_own(sp, p->name, &owner, e);

	if (r == 0) {
		r = pool_read(sp, p->name, &fresh, e);
		fresh.down = true;
		if (r == 0)
			r = pool_write(sp, &fresh, e);
		pool_disown(sp, &owner);
	}
	p->down = true;
	pool_clear(&fresh);
	if (r < 0 && now && pool_jobs_read(sp, p->name, &jobs, &other) == 0)
		(void)cancel_jobs(p, &jobs, &other);
	pool_jobs_clear(&jobs);
	return r;
}

static int say_down(const struct cmd_ctx *ctx, const struct spool *sp, struct pool *p,
		    struct err *e)
{
	bool now = opts_flag(ctx->opts, "now");
	struct pool_report report = { .busy = false };
	struct pool_jobs jobs = { .n = 0 };
	int r;

	if (!pool_is_here(sp, p)) {
		cleanup_free char *again = pool_call_text(ctx, "down", true);

		return err_set(e, -EXDEV, "pool %s is of %s: call %s there", p->name, p->host,
			       again);
	}
	r = set_down(sp, p, now, e);
	if (r == 0)
		r = pool_call_tick(ctx, sp, p, &report, e);
	(void)fputs(strbuf_str(&report.said), stdout);
	if (r == 0 && report.busy)
		r = busy(ctx, p, e);
	if (r == 0)
		r = pool_jobs_read(sp, p->name, &jobs, e);
	if (r == 0 && now)
		r = cancel_jobs(p, &jobs, e);
	else if (r == 0)
		drain_agents(ctx, sp, &jobs);
	if (r == 0)
		r = check_gone(ctx, p, now, &jobs, &report.state, e);
	if (r == 0)
		printf("Pool %s of instance %s is down; its queue stays.\n", p->name,
		       pool_call_instance(ctx));
	pool_jobs_clear(&jobs);
	pool_report_clear(&report);
	return r;
}

static int run_down(const struct cmd_ctx *ctx, struct err *e)
{
	struct spool *sp = NULL;
	struct pool p = { .gpus = 0 };
	int r = pool_call_check(ctx, e);

	if (r == 0)
		r = pool_call_open(ctx, 0, &sp, e);
	if (r == 0)
		r = pool_read(sp, pool_call_pool(ctx), &p, e);
	if (r == 0)
		r = say_down(ctx, sp, &p, e);
	pool_clear(&p);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example down_examples[] = {
	{ "tenure down exp1",
	  "no more nodes; those that there are leave when their tasks have ended" },
	{ "tenure down exp1 --now", "at once; what runs there waits for the next node" },
	{ 0 },
};

const struct cmd cmd_down = {
	.name = "down",
	.group = QUEUE_GROUP,
	.summary = "give the nodes back that up has got",
	.args = "[NAME]",
	.words = { WORDS_INSTANCES },
	.max_args = 1,
	.description = "Jobs that wait are cancelled. The queue and what is in it stay.",
	.examples = down_examples,
	.opts = down_opts,
	.setting_groups = SETTING_GROUP_QUEUE,
	.flags = CMD_ENDS,
	.run = run_down,
};
