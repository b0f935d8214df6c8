/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/task/state.h"
#include "cli/task/watch.h"
#include "cli/task/whytext.h"
#include "cli/term.h"

static int print_doc(const struct spool *sp, const struct task_place *p, const char *why,
		     json_t *nodes, struct err *e)
{
	enum taskstate state = taskstate_of(&p->name, p->dir);
	int r = p->element ? taskwatch_state_of(sp, p, &state, e) : 0;
	json_t *o;

	if (r < 0)
		return r;
	o = json_pack("{s:I, s:s, s:s, s:s, s:O}", "id", (json_int_t)p->name.id, "name",
		      p->name.name, "state", taskstate_name(state), "why", why, "nodes", nodes);
	if (p->element)
		(void)json_object_set_new(o, "element", json_integer((json_int_t)p->element));
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

static int why_found(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *p,
		     struct err *e)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	json_t *nodes = json_array();
	int r = why_text(ctx, sp, p, &b, nodes, e);

	if (r == 0 && opts_flag(ctx->opts, "json"))
		r = print_doc(sp, p, strbuf_str(&b), nodes, e);
	else if (r == 0)
		print_text(p, strbuf_str(&b));
	json_decref(nodes);
	return r;
}

static int run_why(const struct cmd_ctx *ctx, struct err *e)
{
	return select_with(ctx, why_found, e);
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
		"start, its place. Where there is none, or the task is another node's to start, from "
		"the agents of other nodes. Without any agent, what its file says.",
	.examples = why_examples,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_why,
};
