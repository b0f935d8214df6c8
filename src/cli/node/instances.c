/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/node_agents.h"
#include "cli/pools.h"
#include "cli/table.h"
#include "cli/task/taskstate.h"
#include "spool/batch.h"
#include "spool/instance.h"

/* ---- instances ---- */

struct instances {
	const struct cmd_ctx *ctx;
	const char *root, *now;
	struct table *t;	   /* NULL: JSON */
	struct node_agents agents; /* of the current one, where it is no JSON */
	struct pools_shown pools;  /* of the current one, or of all where none was named */
	bool named;
};

/* As the agents' own word for the state, for people. */
static const char *node_state(const struct node_agent *p)
{
	static const char *const words[] = { [NODE_AGENT_ALIVE] = "alive",
					     [NODE_AGENT_UNKNOWN] = "silent",
					     [NODE_AGENT_GONE] = "gone",
					     [NODE_AGENT_OFF] = "ended" };
	_Static_assert(ARRAY_LEN(words) == NODE_AGENT_STATE_MAX, "a word for every state");

	return p->state == NODE_AGENT_ALIVE && p->heartbeat.draining ? "draining" : words[p->state];
}

static const char *number(unsigned int n, char *buf, size_t size)
{
	return str_print(buf, size, "%u", n);
}

/* When its job ends. */
static const char *job_end(const struct node_agent *p, char buf[CLOCK_TEXT_MAX])
{
	return p->status && p->status->end_ns ? clock_format_local(p->status->end_ns, buf) : "";
}

/* job: there are columns for that, and its end. */
static void node_row(struct table *t, const struct node_agent *p, bool job)
{
	const struct heartbeat *b = &p->heartbeat;
	char age[UNIT_TEXT_MAX] = "-", devices[16], held[16], idle[16], lent[16], running[16];
	char in[NODE_AGENT_JOB_MAX], end[CLOCK_TEXT_MAX];

	if (p->written_ns)
		(void)unit_format_duration(
			p->age_ms < MS_PER_S ? p->age_ms : p->age_ms / MS_PER_S * MS_PER_S, age);
	table_add(t, p->state == NODE_AGENT_ALIVE ? TABLE_PLAIN : TERM_DIM, p->here ? "*" : "",
		  p->agent, strcmp(b->who.host, p->agent) ? b->who.host : "", node_state(p), age,
		  number(b->devices, devices, sizeof(devices)), number(b->held, held, sizeof(held)),
		  number(b->idle, idle, sizeof(idle)), number(b->lent, lent, sizeof(lent)),
		  number(b->running, running, sizeof(running)), job ? node_agent_job(p, in) : "",
		  job ? job_end(p, end) : "");
}

#define NODE_COLUMNS                                                                               \
	{ "" }, { "NODE" }, { "HOST", .drop = 2 }, { "STATE" }, { "HEARTBEAT", true },             \
		{ "GPUS", true }, { "HELD", true }, { "IDLE", true, .drop = 4 },                   \
		{ "LENT", true, .drop = 3 },                                                       \
	{                                                                                          \
		"RUNNING", true                                                                    \
	}

static void print_agents(const struct node_agents *agents)
{
	static const struct table_column columns[] = { NODE_COLUMNS, { 0 } };
	static const struct table_column job_columns[] = {
		NODE_COLUMNS, { "JOB", .cut = 12 }, { "ENDS", .drop = 1 }, { 0 }
	};
	char buf[NODE_AGENT_JOB_MAX];
	struct table *t;
	bool job = false;

	for (size_t i = 0; i < agents->n; i++)
		job = job || node_agent_job(&agents->all[i], buf);
	t = table_new(job ? job_columns : columns);
	for (size_t i = 0; i < agents->n; i++)
		node_row(t, &agents->all[i], job);
	table_print(t, stdout);
	(void)table_free(t);
}

#define STATUS_MS 1000

/* A card whose MIG instances are devices of their own is none. */
static bool is_card_of(const json_t *devices, const json_t *card)
{
	json_int_t gpu = json_integer_value(json_object_get(card, "gpu"));
	json_t *d;
	size_t i;

	if (json_is_integer(json_object_get(card, "mig")))
		return false;
	json_array_foreach(devices, i, d)
	{
		if (json_is_integer(json_object_get(d, "mig")) &&
		    json_integer_value(json_object_get(d, "gpu")) == gpu)
			return true;
	}
	return false;
}

/* What the agent of this node says of itself. */
static void take_status(const json_t *status, struct heartbeat *b)
{
	const struct {
		const char *state;
		unsigned int *n;
	} counts[] = { { "held", &b->held }, { "idle", &b->idle }, { "lent", &b->lent } };
	const char *own = json_get_str(status, "instance");
	const json_t *devices = json_object_get(status, "devices");
	const json_t *queue = json_object_get(status, "queue");
	json_t *d;
	size_t i;

	b->held = b->idle = b->lent = 0;
	json_array_foreach(devices, i, d)
	{
		const char *state = json_get_str(d, "state");
		const char *theirs = json_get_str(d, "instance");

		if (!state || is_card_of(devices, d) ||
		    (theirs && own && strcmp(theirs, own) != 0 && strcmp(state, "held") == 0))
			continue;
		for (size_t k = 0; k < ARRAY_LEN(counts); k++)
			*counts[k].n += strcmp(state, counts[k].state) == 0;
	}
	b->running = (unsigned int)json_integer_value(json_object_get(queue, "running"));
	b->draining = json_get_flag(queue, "draining");
}

/* Bring what their heartbeats told up to date: the agent of this node says what it has now, and
 * what runs under others is counted by the queue's files. */
static void update(const struct cmd_ctx *ctx, const struct spool *sp, const struct scan *queue,
		   struct node_agents *p)
{
	char agent[NAME_AGENT_MAX + 1];
	const struct scan_task *t;
	json_t *doc = NULL;
	size_t iter = 0;

	for (size_t i = 0; i < p->n; i++)
		p->all[i].heartbeat.running = 0;
	while ((t = scan_next(queue, &iter))) {
		if (t->dir != SPOOL_RUNNING)
			continue;
		taskstate_agent_of(sp, &t->name, agent);
		for (size_t k = 0; k < p->n; k++)
			p->all[k].heartbeat.running += strcmp(p->all[k].agent, agent) == 0;
	}
	for (size_t i = 0; i < p->n; i++)
		if (p->all[i].here && p->all[i].state == NODE_AGENT_ALIVE && !doc &&
		    (doc = agent_status(ctx, STATUS_MS, NULL))) {
			take_status(doc, &p->all[i].heartbeat);
			p->all[i].age_ms = 0;
		}
	json_decref(doc);
}

/* Who serves it: JSON, or kept. */
static json_t *tell_nodes(struct instances *all, const struct spool *sp, const struct scan *queue,
			  bool current)
{
	json_t *nodes = json_array();
	struct node_agents agents = { .n = 0 };

	if (sp)
		(void)node_agents_read(all->ctx, sp, &agents, NULL);
	if (agents.n && current && queue &&
	    strcmp(all->now, settings_str(all->ctx->settings, SET_INSTANCE)) == 0)
		update(all->ctx, sp, queue, &agents);
	for (size_t i = 0; i < agents.n && !all->t; i++)
		(void)json_array_append_new(nodes, node_agent_json(&agents.all[i]));
	if (all->t && current)
		all->agents = agents;
	else
		node_agents_clear(&agents);
	return nodes;
}

/* What is asked for of engines; what is to be printed is kept. */
static json_t *tell_pools(struct instances *all, const struct spool *sp, bool current)
{
	size_t from = all->pools.n;

	if (sp && (!all->t || current || !all->named))
		(void)pools_read(sp, &all->pools, NULL);
	return all->t ? NULL : pools_json(&all->pools, from);
}

static json_t *count_json(bool known, size_t n)
{
	return known ? json_integer((json_int_t)n) : json_null();
}

static void instance_row(struct instances *all, const char *name)
{
	bool current = strcmp(name, all->now) == 0;
	struct spool *sp = NULL;
	struct scan *s = NULL;
	struct err e = ERR_INIT;
	char waiting[24] = "?", running[24] = "?";
	size_t n[2] = { 0 };
	bool known = false;

	if (spool_open(all->root, name, NULL, SPOOL_LOOK, &sp, &e) == 0) {
		s = scan_new(sp, 0);
		known = scan_update(s, NULL, NULL, &e) == 0;
		n[0] = scan_count(s, SPOOL_PENDING);
		n[1] = scan_count(s, SPOOL_RUNNING);
	}

	json_t *nodes = tell_nodes(all, sp, known ? s : NULL, current);
	json_t *pools = tell_pools(all, sp, current);

	s = scan_free(s);
	sp = spool_close(sp);
	if (!all->t) {
		cmd_print_json_line(
			json_pack("{s:s, s:b, s:o, s:o, s:o, s:o}", "name", name, "current",
				  current, "waiting", count_json(known, n[0]), "running",
				  count_json(known, n[1]), "nodes", nodes, "pools", pools));
		return;
	}
	json_decref(nodes);
	if (known) {
		(void)str_print(waiting, sizeof(waiting), "%zu", n[0]);
		(void)str_print(running, sizeof(running), "%zu", n[1]);
	}
	table_add(all->t, current ? TERM_BOLD : TABLE_PLAIN, current ? "*" : "", name, waiting,
		  running, known ? "" : e.text);
}

/* The queue gets its nodes of an engine, and what is here may be a login node. */
static bool has_pool(const struct instances *all)
{
	for (size_t i = 0; i < all->pools.n; i++)
		if (strcmp(all->pools.all[i].instance, all->now) == 0)
			return true;
	return false;
}

static void print_tables(const struct instances *all)
{
	cleanup_free char *options = agent_options(all->ctx->settings, all->now);

	table_print(all->t, stdout);
	if (!all->agents.n) {
		printf("\nNo agent serves %s; tenure %s%s %s.\n", all->now,
		       has_pool(all) ? "up" : "on", options,
		       has_pool(all) ? "brings nodes of its pool" : "starts one");
	} else {
		printf("\nThe agents that serve %s:\n", all->now);
		print_agents(&all->agents);
	}
	pools_print(&all->pools, all->now);
}

static int run_instances(const struct cmd_ctx *ctx, struct err *e)
{
	static const struct table_column columns[] = {
		{ "" }, { "NAME" }, { "WAITING", true }, { "RUNNING", true }, { "" }, { 0 }
	};
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct text_list names = { .n = 0 };
	bool json = opts_flag(ctx->opts, "json");
	struct instances all = { .ctx = ctx,
				 .root = root,
				 .now = opts_arg(ctx->opts, 0)
						? opts_arg(ctx->opts, 0)
						: settings_str(ctx->settings, SET_INSTANCE),
				 .t = json ? NULL : table_new(columns),
				 .named = opts_arg(ctx->opts, 0) != NULL };
	struct instance_note *s = instance_note_begin(root);
	int r = spool_instances(root, &names, e);

	for (size_t i = 0; i < names.n && r == 0; i++)
		instance_row(&all, names.texts[i]);
	(void)instance_note_end(s);
	if (r == 0 && !json && names.n)
		print_tables(&all);
	else if (r == 0 && !json)
		printf("There is none in %s yet; tenure submit makes one.\n", root);
	text_list_clear(&names);
	pools_shown_clear(&all.pools);
	(void)table_free(all.t);
	node_agents_clear(&all.agents);
	return r;
}

static const struct cmd_example instances_examples[] = {
	{ "tenure instances",
	  "all queues, which one commands mean now, who serves that; all pools" },
	{ "tenure instances exp1", "who serves that one, and its pools" },
	{ 0 },
};

const struct cmd cmd_instances = {
	.name = "instances",
	.group = QUEUE_GROUP,
	.summary = "the queues that there are, and the nodes that serve them",
	.description =
		"The queue that commands mean now is marked, and the agents that serve it are listed as "
		"their last heartbeats tell, which come every 10 seconds (beat): what they have, "
		"and how old that is. What runs is counted now, and the one of this node, which is "
		"marked, is asked for the rest, too. \"silent\": for longer than "
		"expire, and it may run on, cut off. \"gone\": taken for dead, so that others take its "
		"tasks over where these send no heartbeat either. \"ended\": its tasks run on, for the next one.",
	.args = "[NAME]",
	.words = { WORDS_INSTANCES },
	.max_args = 1,
	.examples = instances_examples,
	.flags = CMD_JSON_LINES,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_instances,
};

/* ---- use ---- */

/* It may be a slip of the pen. */
static void note_new(const struct cmd_ctx *ctx, const char *name)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct text_list names = { .n = 0 };
	bool found = false;

	if (spool_instances(root, &names, NULL) < 0)
		return;
	for (size_t i = 0; i < names.n; i++)
		found = found || strcmp(names.texts[i], name) == 0;
	text_list_clear(&names);
	if (found)
		return;
	cmd_warn("note",
		 "there is no queue \"%s\" yet; tenure submit makes it (tenure instances "
		 "shows those that there are)",
		 name);
}

static void tell_use(const char *name)
{
	const char *before = getenv("TENURE_INSTANCE");

	/* Set but empty is not set; see base/settings.c. */
	if (!before || !before[0] || !strcmp(before, name)) {
		printf("Commands now mean the queue \"%s\".\n", name);
		return;
	}
	printf("\"%s\" is chosen for commands where TENURE_INSTANCE is not set.\n", name);
	(void)fflush(stdout);
	cmd_warn("warning",
		 "TENURE_INSTANCE is set in this shell and goes before it: here commands "
		 "mean \"%s\" until that is unset",
		 before);
}

static int run_use(const struct cmd_ctx *ctx, struct err *e)
{
	const char *name = opts_arg(ctx->opts, 0);
	struct value v;

	if (!name) {
		cleanup_free char *from = settings_origin_text(ctx->settings, SET_INSTANCE);

		printf("%s (%s)\n", settings_str(ctx->settings, SET_INSTANCE), from);
		return CMD_OK;
	}
	if (value_parse(&setting_row(SET_INSTANCE)->opt.spec, name, &v, e) < 0)
		return CMD_USAGE;
	value_clear(&v);

	int r = spool_use(name, e);

	if (r < 0)
		return r;
	tell_use(name);
	note_new(ctx, name);
	return CMD_OK;
}

static const struct cmd_example use_examples[] = {
	{ "tenure use train-exp1", "from now on commands mean this queue" },
	{ "tenure use", "which one they mean, and why" },
	{ 0 },
};

const struct cmd cmd_use = {
	.name = "use",
	.group = QUEUE_GROUP,
	.summary = "choose the queue that commands mean",
	.args = "[NAME]",
	.words = { WORDS_INSTANCES },
	.max_args = 1,
	.description =
		"The option --instance and TENURE_INSTANCE go before it. The queue need not be "
		"there yet.",
	.examples = use_examples,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_use,
};
