/* SPDX-License-Identifier: MIT */

/*
 * The planner of the agent here knows best. Where there is none, the task's file says what would
 * keep it from starting even if there were one.
 */

#include "cli/task/why.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/node_agents.h"
#include "cli/pools.h"
#include "cli/task/taskrun.h"
#include "cli/task/taskstate.h"
#include "cli/task/view.h"
#include "cli/task/watch.h"
#include "cli/term.h"
#include "sched/reason.h"
#include "spool/batch.h"
#include "spool/elements.h"
#include "spool/instance.h"
#include "spool/lane.h"
#include "spool/record.h"

#define ASKED_MAX 8 /* of many nodes each says about the same */

/* What is found: the sentence, and for programs the reasons in it and what other nodes say. */
struct found {
	struct strbuf *text;
	json_t *reasons, *nodes; /* or NULL */
	json_t *forecast;	 /* or NULL */
	bool unreadable;	 /* it stays where it is until its owner has mended it */
};

static void add_text(struct found *f, const char *text)
{
	strbuf_addf(f->text, "%s%s", f->text->len ? "; " : "", text);
}

static void add(struct found *f, const struct reason *r)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	reason_text(r, NULL, &b);
	add_text(f, strbuf_str(&b));
	if (f->reasons)
		(void)json_array_append_new(f->reasons, reason_json(r, NULL));
}

/* Its file says for whom it waits; how these stand is looked up. */
static void add_dependencies(const struct spool *sp, const struct uint_list *ids, bool well,
			     struct found *f)
{
	for (size_t i = 0; i < ids->n; i++) {
		struct task_place p = { .element = 0 };
		bool there = select_by_id(sp, ids->nums[i], 0, &p, NULL) == 0;
		bool ended = there && p.dir != SPOOL_PENDING && p.dir != SPOOL_RUNNING;
		struct reason other = { .code = REASON_DEPENDS,
					.other.id = ids->nums[i],
					.well = well };
		cleanup_strbuf struct strbuf broken = STRBUF_INIT;

		if (ended && (!well || p.dir == SPOOL_DONE))
			continue;
		if (there && !ended) {
			other.text = taskstate_name(taskstate_of(&p.name, p.dir));
			add(f, &other);
			continue;
		}
		other.code = REASON_DEPENDS_BROKEN;
		other.text = there ? "has not ended well" : "is not there any more";
		reason_text(&other, NULL, &broken);
		add(f, &(struct reason){ .code = REASON_NEVER,
					 .other = other.other,
					 .text = strbuf_str(&broken) });
	}
}

/* Such a task stays where it is: its owner has to know. true: it can be read. */
static bool read_file(const struct spool *sp, const struct task_place *p, struct task_file *ret,
		      struct found *f)
{
	struct err e = ERR_INIT;
	uint64_t count = 0;
	int r = task_file_read(sp, p->path, ret, &e);

	if (r == 0 && (!p->name.count ||
		       (spec_count(ret->spec, &count, NULL) == 0 && count == p->name.count)))
		return true;
	if (r == 0) {
		task_file_clear(ret);
		(void)err_set(&e, -EINVAL,
			      "by its name it has %" PRIu64 " elements, by what is in it %" PRIu64,
			      p->name.count, count);
	}
	if (r != -ENOENT) {
		cleanup_free char *path = xasprintf("%s/%s", spool_path_of(sp), p->path);

		f->unreadable = true;
		add(f,
		    &(struct reason){ .code = REASON_UNREADABLE, .where = path, .text = e.text });
	}
	return false;
}

static void add_lane(const struct spool *sp, const char *lane, const char *note, struct found *f,
		     bool *ret_noted)
{
	cleanup_free char *said = lane_reason(sp, lane);

	*ret_noted = reason_repeats(said, note);
	add(f, &(struct reason){
		       .code = REASON_LANE_PAUSED, .lane = lane, .text = said ? said : "?" });
}

/* What the spool alone says. */
static void add_known(const struct spool *sp, const struct task_place *p, struct found *f)
{
	struct task_file t = { 0 };
	bool noted = false, read;

	if (p->name.flags & NAME_PAUSED)
		add(f, &(struct reason){ .code = REASON_PAUSED, .task.id = p->name.id });
	read = read_file(sp, p, &t, f);
	if (p->name.lane[0] && lane_is_paused(sp, p->name.lane))
		add_lane(sp, p->name.lane, read ? t.history.reason : NULL, f, &noted);
	if (p->name.begin_s * NS_PER_S > clock_wall_ns())
		add(f, &(struct reason){ .code = REASON_BEGIN,
					 .wall_ns = p->name.begin_s * NS_PER_S });
	if (!read)
		return;
	add_dependencies(sp, &t.spec->after, true, f);
	add_dependencies(sp, &t.spec->after_any, false, f);
	if (t.history.reason[0] && !noted)
		add(f, &(struct reason){ .code = REASON_REQUEUED, .note = t.history.reason });
	task_file_clear(&t);
}

void why_known(const struct spool *sp, const struct task_place *p, struct strbuf *b,
	       json_t *reasons)
{
	struct found f = { .text = b, .reasons = reasons };

	add_known(sp, p, &f);
}

/* ---- agents of other nodes ---- */

static void on_answer(void *user, const struct agent_called *one, const json_t *answer)
{
	struct found *f = user;
	const struct node_agent *p = one->data;
	const char *why = json_string_value(json_object_get(answer, "why"));
	struct err e = ERR_INIT;
	cleanup_free char *sign = node_agent_sign(p);
	cleanup_free char *text = NULL;

	if (!answer)
		text = xasprintf("it does not answer (%s)", sign);
	else if (agents_answer_code(answer, &e) < 0 || !why)
		text = xstrdup(e.code ? e.text : "it does not say");
	else
		text = xstrdup(why);
	strbuf_addf(f->text, "%son %s: %s", f->text->len ? "; " : "", p->agent, text);
	if (f->nodes)
		(void)json_array_append_new(f->nodes,
					    json_pack("{ss ss sO*}", "agent", p->agent, "why", text,
						      "reason", json_object_get(answer, "reason")));
}

static bool is_asked(const struct node_agent *p)
{
	return p->state == NODE_AGENT_ALIVE && !p->here && !p->heartbeat.draining;
}

/* How many there are to ask. */
static size_t ask_others(const struct cmd_ctx *ctx, const struct spool *sp,
			 const struct task_place *p, struct found *f)
{
	struct order_task task = { p->name.id, p->element };
	struct order order = { .command = ORDER_WHY, .n = 1, .tasks = &task };
	struct agents_call o = { .sp = sp };
	struct node_agents agents;
	size_t n;

	(void)node_agents_read(ctx, sp, &agents, NULL);
	for (size_t i = 0; i < agents.n && o.n < ASKED_MAX; i++)
		if (is_asked(&agents.all[i]))
			(void)agents_send(&o, agents.all[i].agent, &order, &agents.all[i], NULL);
	n = o.n;
	if (n)
		agents_wait(&o, AGENTS_LIMIT_MS, on_answer, f);
	agents_clear(&o);
	node_agents_clear(&agents);
	return n;
}

/* What starts an agent. another: one that serves no queue, or that of another root, has its
 * place. */
static char *way_to_agent(const struct cmd_ctx *ctx, bool another)
{
	cleanup_free char *options = agent_options(ctx->settings, NULL);
	cleanup_free char *name = agent_name_options(ctx->settings);

	return another ? xasprintf("tenure off%s, then tenure on%s", name, options)
		       : xasprintf("tenure on%s", options);
}

static void without_agent(const struct cmd_ctx *ctx, const struct spool *sp,
			  const struct task_place *p, bool another, struct found *f)
{
	cleanup_free char *on = way_to_agent(ctx, another);

	add_known(sp, p, f);
	if (ask_others(ctx, sp, p, f))
		return;
	if (!f->text->len)
		add(f, &(struct reason){ .code = REASON_READY });
	if (pools_most_gpus(sp)) /* what these do is told behind it */
		return;
	add(f,
	    &(struct reason){ .code = REASON_NO_AGENT, .where = spool_instance(sp), .text = on });
}

static void take_answer(const struct cmd_ctx *ctx, const struct spool *sp,
			const struct task_place *p, const json_t *doc, struct found *f)
{
	const char *why = json_string_value(json_object_get(doc, "why"));
	json_t *reason = json_object_get(doc, "reason");

	add_text(f, why ? why : "the agent does not say");
	if (f->reasons && reason)
		(void)json_array_append(f->reasons, reason);
	f->forecast = json_incref(json_object_get(doc, "forecast"));
	if (json_is_true(json_object_get(doc, "elsewhere")))
		(void)ask_others(ctx, sp, p, f);
}

static int ask(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *p,
	       struct found *f, struct err *e)
{
	struct order_task task = { p->name.id, p->element };
	const struct order order = { .command = ORDER_WHY, .n = 1, .tasks = &task };
	json_t *doc = NULL;
	struct err said = ERR_INIT;
	int r = agent_ask_about(ctx, &order, &doc, &said);

	if (e)
		*e = said;
	if (r == -ECONNREFUSED) {
		without_agent(ctx, sp, p, said.code == -EXDEV, f);
		r = 0;
	} else if (r == -ENOENT) { /* it runs none, or has not seen this one yet */
		add_known(sp, p, f);
		if (!f->unreadable)
			add_text(f, said.text);
		r = 0;
	} else if (r == 0) {
		take_answer(ctx, sp, p, doc, f);
	}
	json_decref(doc);
	return r;
}

/* ---- what does not wait ---- */

/* Of an element only its own file says that it runs. */
static bool find_running(const struct spool *sp, const struct task_place *p, struct task_name *ret)
{
	*ret = p->name;
	return p->element ? select_running_element(sp, p->name.id, p->element, ret)
			  : p->dir == SPOOL_RUNNING;
}

/* Where, for how long, and whether the agent there can still be heard. */
static void tell_where(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_name *n,
		       const struct taskrun *run, struct strbuf *b)
{
	uint64_t now_ns = clock_wall_ns();
	char ran[UNIT_TEXT_MAX];
	char agent[NAME_AGENT_MAX + 1];
	struct node_agents agents;
	const struct node_agent *p;
	cleanup_free char *sign = NULL;
	cleanup_free char *options = agent_options(ctx->settings, NULL);
	uint64_t since_ns = taskrun_since_ns(run);

	taskstate_agent_of(sp, n, agent);
	(void)node_agents_read(ctx, sp, &agents, NULL);
	p = node_agents_find(&agents, agent);
	sign = node_agent_sign(p);
	strbuf_addf(b,
		    run->mustered ? "has its GPUs on %s, and waits for the other ranks"
				  : "runs on %s",
		    agent[0] ? agent : "a node that is not known");
	if (since_ns && since_ns <= now_ns)
		strbuf_addf(b, ", for %s",
			    unit_format_duration((now_ns - since_ns) / NS_PER_S * 1000, ran));
	if (p && !p->here && !p->declared_dead &&
	    (p->state == NODE_AGENT_UNKNOWN || p->state == NODE_AGENT_GONE))
		strbuf_addf(b,
			    ", which is silent: %s (if that node does not exist any more: tenure "
			    "shutdown --gone %s)",
			    sign, agent);
	else if (agent[0] && (!p || p->state != NODE_AGENT_ALIVE))
		strbuf_addf(b, ", where no agent is any more: %s; tenure on%s there takes it over",
			    sign, options);
	node_agents_clear(&agents);
}

static void add_logs(uint64_t task, uint64_t element, struct strbuf *b)
{
	char id[SELECT_ID_MAX];

	strbuf_addf(b, " (tenure logs %s shows what it printed)",
		    select_format_id(task, element, id));
}

/* For how long, and what of it is left where its command has ended. */
static void tell_run(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_name *n,
		     const char *called, struct strbuf *b)
{
	struct taskrun run;
	struct taskrun_look look;
	char how[TASKSTATE_EXIT_MAX];

	taskview_read_run(ctx, sp, n, called, &run);
	if (run.left) {
		cleanup_free char *options = agent_options(ctx->settings, NULL);
		cleanup_free char *left = taskrun_format_left(sp, options, &run);

		strbuf_adds(b, left);
		add_logs(n->id, n->element, b);
		return;
	}
	tell_where(ctx, sp, n, &run, b);
	if (run.scaling[0])
		strbuf_addf(b, "; it %s", run.scaling);
	if (run.mustered) /* nothing of it was started */
		return;
	add_logs(n->id, n->element, b);
	if (!taskrun_look(sp, &run, &look))
		return;
	if (look.command_ended) {
		cleanup_free char *procs = taskrun_format_procs(&look.procs);

		strbuf_addf(b, "; its command has ended (%s); what it left behind runs on: %s",
			    taskstate_format_exit(look.exit, how), procs);
	}
	taskrun_look_clear(&look);
}

static int tell_failed_batch(const struct spool *sp, const struct task_place *p, struct strbuf *b,
			     struct err *e)
{
	struct element_ends failed;
	int r = taskstate_failed(sp, &p->name, &failed, e);
	cleanup_free char *which = r == 0 ? taskstate_format_failed(p->name.id, &failed) : NULL;

	if (r < 0)
		return r;
	strbuf_addf(b, ": %zu of its %" PRIu64 " element%s ha%s: %s", failed.n, p->name.count,
		    p->name.count == 1 ? "" : "s", failed.n == 1 ? "s" : "ve", which);
	if (failed.n)
		add_logs(p->name.id, failed.ends[0].element, b);
	free(failed.ends);
	return 0;
}

static void add_reason(const struct taskrun *run, struct strbuf *b)
{
	char how[TASKSTATE_EXIT_MAX];

	if (run->end.reason[0])
		strbuf_addf(b, ": %s", run->end.reason);
	else if (run->end.result == RESULT_FAILED)
		strbuf_addf(b, ": %s", taskstate_format_exit(run->end.exit, how));
}

static int tell_ended(const struct spool *sp, const struct task_place *p, int state,
		      struct strbuf *b, struct err *e)
{
	static const char *const words[] = { [BATCH_DONE] = "is done",
					     [BATCH_FAILED] = "has failed",
					     [BATCH_CANCELLED] = "was stopped" };
	bool batch = p->name.count && !p->element;
	struct task_file t;
	struct taskrun run;
	int r;

	strbuf_adds(b, words[state]);
	if (batch && state == BATCH_FAILED)
		return tell_failed_batch(sp, p, b, e);
	r = batch ? 0 : task_file_read(sp, p->path, &t, e);
	if (batch || r < 0)
		return r;
	taskrun_read(sp, p, &t.history, &run);
	task_file_clear(&t);
	if (run.unstarted || !run.attempt)
		strbuf_adds(b, run.attempt || run.name.epoch ? " while it waited to run again"
							     : " before it started");
	else if (state == BATCH_FAILED)
		add_reason(&run, b);
	if (run.log[0])
		add_logs(p->name.id, p->element, b);
	return 0;
}

static bool is_gang(const struct task_place *p, const struct spool *sp)
{
	struct task_file t;
	bool yes;

	if (task_file_read(sp, p->path, &t, NULL) < 0)
		return false;
	yes = spec_is_gang(t.spec);
	task_file_clear(&t);
	return yes;
}

/* A batch of which nothing is left to start. An agent does not know that, where others have some of
 * its elements; of a gang its leader does, and why it has not begun. */
static bool tell_all_run(const struct spool *sp, const struct task_place *p, struct strbuf *b)
{
	struct task_set active = { .n = 0 };
	struct batch_counts n = { .waiting = 1 };
	bool all = select_all(sp, &active, NULL) == 0 &&
		   taskstate_counts(sp, &p->name, &active, &n, NULL) == 0 && !n.waiting &&
		   n.running && !is_gang(p, sp);

	free(active.tasks);
	if (all)
		strbuf_addf(b,
			    "%" PRIu64 " of its %" PRIu64 " elements run%s, and none is left to "
			    "start",
			    n.running, p->name.count, n.running == 1 ? "s" : "");
	return all;
}

static int find_why(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *p,
		    struct found *f, struct err *e)
{
	struct task_name runs;
	int state = p->dir == SPOOL_PENDING  ? BATCH_WAITING
		    : p->dir == SPOOL_DONE   ? BATCH_DONE
		    : p->dir == SPOOL_FAILED ? BATCH_FAILED
					     : BATCH_CANCELLED;

	if (find_running(sp, p, &runs)) {
		tell_run(ctx, sp, &runs, p->name.name, f->text);
		return 0;
	}
	if (p->element && p->name.count)
		state = taskstate_element_state(sp, p, p->element, e);
	if (state == BATCH_WAITING && p->dir != SPOOL_PENDING)
		state = BATCH_CANCELLED; /* with its batch */
	if (state < 0)
		return state;
	if (state == BATCH_WAITING && p->name.count && !p->element && tell_all_run(sp, p, f->text))
		return 0;
	return state == BATCH_WAITING ? ask(ctx, sp, p, f, e)
				      : tell_ended(sp, p, state, f->text, e);
}

int why_of(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *p,
	   struct strbuf *b, struct err *e)
{
	struct found f = { .text = b };
	int r = find_why(ctx, sp, p, &f, e);

	json_decref(f.forecast);
	return r;
}

/* What it asks for where it leaves that to what its name has needed; NULL: it does not. */
static json_t *auto_memory(const struct spool *sp, const struct task_place *p)
{
	struct task_file t;
	json_t *o;

	if (p->dir != SPOOL_PENDING || task_file_read(sp, p->path, &t, NULL) < 0)
		return NULL;
	o = taskview_auto_memory(sp, t.spec);
	task_file_clear(&t);
	return o;
}

static int print_doc(const struct spool *sp, const struct task_place *p, const struct found *f,
		     const struct pools_shown *pools, struct err *e)
{
	enum taskstate state = taskstate_of(&p->name, p->dir);
	int r = p->element ? taskwatch_state_of(sp, p, &state, e) : 0;
	json_t *o, *memory;

	if (r < 0)
		return r;
	o = json_pack("{s:I, s:s, s:s, s:s, s:O, s:O, s:o}", "id", (json_int_t)p->name.id, "name",
		      p->name.name, "state", taskstate_name(state), "why", strbuf_str(f->text),
		      "reasons", f->reasons, "nodes", f->nodes, "pools", pools_json(pools, 0));
	if (p->element)
		(void)json_object_set_new(o, "element", json_integer((json_int_t)p->element));
	if (f->forecast)
		(void)json_object_set(o, "forecast", f->forecast);
	memory = auto_memory(sp, p);
	if (memory)
		(void)json_object_set_new(o, "auto_memory", memory);
	cmd_print_json_line(o);
	return 0;
}

static void print_text(const struct task_place *p, const char *why)
{
	char id[SELECT_ID_MAX];
	cleanup_free char *text = xasprintf(
		"%s %s: %s", select_format_id(p->name.id, p->element, id), p->name.name, why);

	term_print_wrapped(stdout, text, 0);
}

static void print_auto_memory(const struct spool *sp, const struct task_place *p)
{
	json_t *memory = auto_memory(sp, p);
	cleanup_free char *text =
		memory ? xasprintf("its memory on each GPU: %s", json_get_str(memory, "text"))
		       : NULL;

	if (text)
		term_print_wrapped(stdout, text, 0);
	json_decref(memory);
}

/* What is asked of engines, for a task that waits for a node. */
static void print_pools(const struct pools_shown *pools)
{
	for (size_t i = 0; i < pools->n; i++) {
		cleanup_free char *text = pool_sentence(&pools->all[i]);

		term_print_wrapped(stdout, text, 0);
	}
}

static int why_found(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *p,
		     struct err *e)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	struct found f = { .text = &b, .reasons = json_array(), .nodes = json_array() };
	struct pools_shown pools = { .n = 0 };
	int r = find_why(ctx, sp, p, &f, e);

	if (r == 0 && p->dir == SPOOL_PENDING)
		(void)pools_read(sp, &pools, NULL);
	if (r == 0 && opts_flag(ctx->opts, "json")) {
		r = print_doc(sp, p, &f, &pools, e);
	} else if (r == 0) {
		print_text(p, strbuf_str(&b));
		print_auto_memory(sp, p);
		print_pools(&pools);
	}
	pools_shown_clear(&pools);
	json_decref(f.forecast);
	json_decref(f.reasons);
	json_decref(f.nodes);
	return r;
}

static int run_why(const struct cmd_ctx *ctx, struct err *e)
{
	return select_with(ctx, why_found, e);
}

static const struct cmd_example why_examples[] = {
	{ "tenure why 42", "what task 42 waits for, and its place in the queue" },
	{ "tenure why 43.7", "the same of an element" },
	{ "tenure why", "of what you submitted last" },
	{ 0 },
};

const struct cmd cmd_why = {
	.name = "why",
	.group = QUEUE_GROUP,
	.summary = "what a task waits for",
	.args = "[ID|NAME|last]",
	.words = { WORDS_ANY_TASKS },
	.max_args = 1,
	.description =
		"Without a task, or with last, of the one that you submitted last. "
		"One sentence from the agent of this node: what it waits for, what would let it "
		"start, its place. Where there is none, or the task is another node's to start, from "
		"the agents of other nodes. Without any agent, what its file says.",
	.examples = why_examples,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_why,
};
