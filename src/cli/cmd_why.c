/* SPDX-License-Identifier: MIT */

/*
 * The planner of the agent here knows best. Where there is none, the task's file says what would
 * keep it from starting even if there were one.
 */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "cli/ask_agent.h"
#include "cli/commands.h"
#include "cli/print_json.h"
#include "cli/queue.h"
#include "cli/term.h"
#include "spool/batch.h"
#include "spool/lanes.h"
#include "spool/record.h"

static const struct opt why_opts[] = {
	{ .name = "json", .spec = { VALUE_FLAG }, .help = "print JSON" },
	{ 0 },
};

static void add(struct strbuf *b, const char *text)
{
	strbuf_addf(b, "%s%s", b->len ? "; " : "", text);
}

static void add_dependencies(const struct spool *sp, const struct id_list *ids, bool must_be_good,
			     struct strbuf *b)
{
	for (size_t i = 0; i < ids->n; i++) {
		struct queue_place p = { .element = 0 };
		bool there = queue_locate_id(sp, ids->ids[i], 0, &p, NULL) == 0;
		bool ended = there && p.dir != SPOOL_PENDING && p.dir != SPOOL_RUNNING;
		cleanup_free char *text = NULL;

		if (ended && (!must_be_good || p.dir == SPOOL_DONE))
			continue;
		text = ended || !there
			       ? xasprintf("can never run, because task %" PRIu64 " %s",
					   ids->ids[i],
					   there ? "has not ended well" : "is not there any more")
			       : xasprintf("waits until task %" PRIu64 " has ended%s (it is %s)",
					   ids->ids[i], must_be_good ? " well" : "",
					   queue_state(&p.name, p.dir));
		add(b, text);
	}
}

/* What the spool alone says. */
static void add_known(const struct spool *sp, const struct queue_place *p, struct strbuf *b)
{
	char when[CLOCK_TEXT_MAX];
	struct task_file t;

	if (p->name.flags & NAME_PAUSED) {
		cleanup_free char *text = xasprintf(
			"is paused (tenure resume %" PRIu64 " lets it start)", p->name.id);

		add(b, text);
	}
	if (p->name.lane[0] && lane_is_paused(sp, p->name.lane)) {
		cleanup_free char *reason = lane_reason(sp, p->name.lane);
		cleanup_free char *text =
			xasprintf("its lane %s is paused: %s (tenure resume %s lets it go on)",
				  p->name.lane, reason ? reason : "?", p->name.lane);

		add(b, text);
	}
	if (p->name.begin_s * NS_PER_S > clock_wall_ns()) {
		cleanup_free char *text =
			xasprintf("is not to begin before %s",
				  clock_format_local(p->name.begin_s * NS_PER_S, when));

		add(b, text);
	}
	if (task_file_read(sp, p->path, &t, NULL) < 0)
		return;
	add_dependencies(sp, &t.spec->after, true, b);
	add_dependencies(sp, &t.spec->after_any, false, b);
	if (t.history.reason[0])
		strbuf_addf(b, "%swaits again (%s)", b->len ? "; " : "", t.history.reason);
	task_file_clear(&t);
}

static void without_agent(const struct spool *sp, const struct queue_place *p, struct strbuf *b)
{
	add_known(sp, p, b);
	if (!b->len)
		strbuf_adds(b, "is ready to start");
	strbuf_addf(b,
		    "; no agent of instance %s runs on this node: tenure on starts one, and it "
		    "starts the tasks",
		    sp->instance);
}

static int ask(const struct cmd_ctx *ctx, const struct spool *sp, const struct queue_place *p,
	       struct strbuf *b, struct err *e)
{
	struct ctl_request req = { .verb = CTL_WHY,
				   .task = p->name.id,
				   .element = (uint32_t)p->element };
	json_t *doc = NULL;
	int r = ask_agent_about(ctx, &req, &doc, e);
	const char *why = json_string_value(json_object_get(doc, "why"));

	if (r == -ECONNREFUSED) {
		without_agent(sp, p, b);
		r = 0;
	} else if (r == -ENOENT) { /* it runs none, or has not seen this one yet */
		add_known(sp, p, b);
		strbuf_addf(b, "%s%s", b->len ? "; " : "", e->text);
		r = 0;
	} else if (r == 0) {
		strbuf_adds(b, why ? why : "the agent does not say");
	}
	json_decref(doc);
	return r;
}

static void add_reason(const struct spool *sp, const struct queue_place *p, struct strbuf *b)
{
	struct task_file t;

	if (task_file_read(sp, p->path, &t, NULL) < 0)
		return;
	if (t.history.ended && t.history.end.reason[0])
		strbuf_addf(b, ": %s", t.history.end.reason);
	task_file_clear(&t);
}

/* Of what does not wait there is not much to say. */
static int tell_state(const struct cmd_ctx *ctx, const struct spool *sp,
		      const struct queue_place *p, struct strbuf *b, struct err *e)
{
	static const char *const words[] = { [BATCH_RUNNING] = "runs",
					     [BATCH_DONE] = "is done",
					     [BATCH_FAILED] = "has failed",
					     [BATCH_CANCELLED] = "was stopped" };
	char id[QUEUE_ID_MAX];
	int state = p->dir == SPOOL_PENDING   ? BATCH_WAITING
		    : p->dir == SPOOL_RUNNING ? BATCH_RUNNING
		    : p->dir == SPOOL_DONE    ? BATCH_DONE
		    : p->dir == SPOOL_FAILED  ? BATCH_FAILED
					      : BATCH_CANCELLED;

	if (p->element && p->name.count)
		state = queue_element_state(sp, p, p->element, e);
	if (state < 0)
		return state;
	if (state == BATCH_WAITING)
		return ask(ctx, sp, p, b, e);
	strbuf_addf(b, "%s%s%s", words[state], p->name.agent[0] ? " on " : "", p->name.agent);
	if (state == BATCH_FAILED && !p->element)
		add_reason(sp, p, b);
	strbuf_addf(b, " (tenure logs %s shows what it printed)",
		    queue_format_id(p->name.id,
				    p->element	    ? p->element
				    : p->name.count ? 1
						    : 0,
				    id));
	return 0;
}

static void print(const struct cmd_ctx *ctx, const struct queue_place *p, const char *why)
{
	char id[QUEUE_ID_MAX];
	cleanup_free char *text = NULL;

	(void)queue_format_id(p->name.id, p->element, id);
	if (opts_flag(ctx->opts, "json")) {
		print_json_line(json_pack("{s:s, s:s, s:s, s:s}", "id", id, "name", p->name.name,
					  "state", queue_state(&p->name, p->dir), "why", why));
		return;
	}
	text = xasprintf("%s %s: %s", id, p->name.name, why);
	term_print_wrapped(stdout, text, 0);
}

static int why_found(const struct cmd_ctx *ctx, const struct spool *sp, const struct queue_place *p,
		     struct err *e)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	int r = tell_state(ctx, sp, p, &b, e);

	if (r == 0)
		print(ctx, p, strbuf_str(&b));
	return r;
}

static int run_why(const struct cmd_ctx *ctx, struct err *e)
{
	return queue_with_task(ctx, why_found, e);
}

static const struct cmd_example why_examples[] = {
	{ "tenure why 42", "what task 42 waits for, and its place in the queue" },
	{ "tenure why 43.7", "the same of an element" },
	{ 0 },
};

const struct cmd cmd_why = {
	.name = "why",
	.group = QUEUE_GROUP,
	.summary = "what a task waits for",
	.args = "ID|NAME",
	.min_args = 1,
	.max_args = 1,
	.description =
		"One sentence from the agent of this node: what it waits for, what would let it "
		"start, its place. Without an agent, what its file says.",
	.examples = why_examples,
	.opts = why_opts,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_why,
};
