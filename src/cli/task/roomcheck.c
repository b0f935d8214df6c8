/* SPDX-License-Identifier: MIT */

/*
 * Who serves the instance now is in agents/, who ever did in events/. A task for one GPU that says
 * no more, which most are, costs no look: an agent does not start where there is none. What GPUs
 * are like and which of them an agent uses that of this node is asked; where there are others, it
 * is what all of them have told in agents/.
 */

#include "cli/task/roomcheck.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/agent_client.h"
#include "cli/node_agents.h"
#include "cli/pools.h"
#include "sched/fit.h"
#include "spool/agent_status.h"
#include "spool/capacity.h"
#include "spool/endlog.h"
#include "spool/instance.h"

#define STATUS_LIMIT_MS 2000

struct nodes {
	const struct node_agents *agents;
	size_t n;
	struct capacity_node *all;
};

static void add(struct nodes *nodes, const char *agent, bool lives, unsigned int devices)
{
	nodes->all = xrealloc(nodes->all, nodes->n + 1, sizeof(*nodes->all));
	nodes->all[nodes->n] = (struct capacity_node){ .lives = lives, .devices = devices };
	(void)str_copy(nodes->all[nodes->n++].agent, sizeof(nodes->all->agent), agent);
}

/* One that has run here before and has no file in agents/ any more. */
static int add_former(void *data, const char *file, unsigned char type)
{
	struct nodes *nodes = data;
	size_t len = strlen(file), tail = strlen(ENDLOG_SUFFIX);
	char agent[NAME_AGENT_MAX + 1];

	if (len <= tail || len - tail > NAME_AGENT_MAX ||
	    strcmp(file + len - tail, ENDLOG_SUFFIX) != 0)
		return 0;
	(void)str_print(agent, sizeof(agent), "%.*s", (int)(len - tail), file);
	if (!node_agents_find(nodes->agents, agent))
		add(nodes, agent, false, 0);
	return 0;
}

static void find_nodes(const struct spool *sp, struct nodes *nodes)
{
	for (size_t i = 0; i < nodes->agents->n; i++) {
		const struct node_agent *p = &nodes->agents->all[i];

		if (!p->declared_dead)
			add(nodes, p->agent, p->state == NODE_AGENT_ALIVE, p->heartbeat.devices);
	}
	(void)spool_each(sp, spool_dir_name(SPOOL_EVENTS), add_former, nodes, NULL);
}

/* So many nodes at once: those that serve it now are counted, or what one of its pools can bring.
 */
static int judge_gang(const struct spool *sp, struct nodes *nodes, const struct task_spec *s,
		      struct err *e)
{
	cleanup_strbuf struct strbuf asks = STRBUF_INIT;
	size_t live, silent;

	capacity_count(nodes->all, nodes->n, s->gpus, &live, &silent);
	if (!nodes->n || live >= s->nodes || pools_most_nodes(sp, s->gpus) >= s->nodes)
		return 0;
	strbuf_addf(&asks, "it asks for %" PRIu64 " nodes with %" PRIu64 " GPU%s each", s->nodes,
		    s->gpus, s->gpus == 1 ? "" : "s");
	if (live + silent < s->nodes)
		return err_set(e, -ERANGE,
			       "%s, and %zu of the agents of instance \"%s\" %s so many; ask for "
			       "fewer, or start an agent on more nodes first (tenure on)",
			       strbuf_str(&asks), live + silent, spool_instance(sp),
			       live + silent == 1 ? "has" : "have");
	cmd_warn(
		"warning",
		"%s, and %zu of the agents that serve instance \"%s\" now %s so many; it waits until "
		"others do that have served it before",
		strbuf_str(&asks), live, spool_instance(sp), live == 1 ? "has" : "have");
	return 0;
}

static int judge_one(const struct spool *sp, struct nodes *nodes, uint64_t want, struct err *e)
{
	cleanup_strbuf struct strbuf has = STRBUF_INIT, hope = STRBUF_INIT;
	enum capacity room;

	/* What an engine may bring is as good as what is there. */
	if (pools_most_gpus(sp))
		add(nodes, "a pool", true, pools_most_gpus(sp));
	room = capacity_judge(nodes->all, nodes->n, want);
	if (room == CAPACITY_ENOUGH)
		return 0;
	capacity_tell(nodes->all, nodes->n, &has);
	if (room == CAPACITY_NONE)
		return err_set(e, -ERANGE,
			       "it asks for %" PRIu64 " GPUs, and no node of instance \"%s\" has "
			       "so many: %s; ask for fewer, or start an agent first where there "
			       "are more (tenure on)",
			       want, spool_instance(sp), strbuf_str(&has));
	capacity_tell_hope(nodes->all, nodes->n, want, &hope);
	cmd_warn("warning",
		 "it asks for %" PRIu64 " GPUs, and no node that serves instance \"%s\" now "
		 "has so many: %s; it waits until one does (%s)",
		 want, spool_instance(sp), strbuf_str(&has), strbuf_str(&hope));
	return 0;
}

/* ---- what GPUs are like, by the agent of this node ---- */

/* What runs of its name have needed may change while it waits, so nothing is said of it. */
static uint64_t memory_of(const struct task_spec *s)
{
	return s->memory == SPEC_AUTO ? 0 : s->memory;
}

static uint64_t wanted(const struct task_spec *s)
{
	return s->gpus == SPEC_ALL ? 1 : s->gpus;
}

/* False: there are not as many of the model, which is told. */
static bool check_model(const struct task_spec *s, const json_t *devices)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	const char *last = NULL;
	size_t i, fit = 0;
	json_t *d;

	strbuf_addf(&b, "--model %s: ", s->model ? s->model : "");
	json_array_foreach(devices, i, d)
	{
		const char *name = json_get_str(d, "name");

		fit += s->model && name && fit_model(s->model, name);
	}
	if (!s->model || fit >= wanted(s))
		return true;
	if (fit)
		strbuf_addf(&b, "%zu GPU%s of this node %s of that model, and it asks for %" PRIu64,
			    fit, fit == 1 ? "" : "s", fit == 1 ? "is" : "are", s->gpus);
	else
		strbuf_adds(&b, "no GPU of this node is of that model; there are");
	json_array_foreach(devices, i, d)
	{
		const char *name = json_get_str(d, "name");

		if (fit || !name || (last && strcmp(last, name) == 0))
			continue;
		strbuf_addf(&b, "%s %s", last ? "," : "", name);
		last = name;
	}
	strbuf_adds(&b, "; it waits until a node with such GPUs serves the instance");
	cmd_warn("warning", "%s", strbuf_str(&b));
	return false;
}

/* Of those that are of its model: how many would do, and what is amiss with the others. */
struct usable {
	size_t of_model, n, left, small;
	uint64_t largest; /* bytes, of those that are not left to others */
};

static struct usable find_usable(const struct task_spec *s, const json_t *devices)
{
	struct usable u = { .n = 0 };
	size_t i;
	json_t *d;

	json_array_foreach(devices, i, d)
	{
		const char *name = json_get_str(d, "name");
		const char *state = json_get_str(d, "state");
		const json_t *total = json_object_get(d, "memory_total_bytes");
		uint64_t bytes =
			json_is_integer(total) ? (uint64_t)json_integer_value(total) : UINT64_MAX;

		if (s->model && !(name && fit_model(s->model, name)))
			continue;
		u.of_model++;
		if (state && strcmp(state, "left") == 0) {
			u.left++;
			continue;
		}
		u.largest = bytes > u.largest ? bytes : u.largest;
		u.small += bytes < memory_of(s);
		u.n += bytes >= memory_of(s);
	}
	return u;
}

static void check_usable(const struct task_spec *s, const json_t *devices)
{
	struct usable u = find_usable(s, devices);
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char each[UNIT_TEXT_MAX], largest[UNIT_TEXT_MAX];

	if (u.of_model < wanted(s) || u.n >= wanted(s))
		return; /* the first has been told already */
	strbuf_addf(&b, "it asks for %" PRIu64 " GPU%s", wanted(s), wanted(s) == 1 ? "" : "s");
	if (memory_of(s))
		strbuf_addf(&b, " with %s%s", unit_format_gib(memory_of(s), each),
			    wanted(s) == 1 ? "" : " each");
	strbuf_addf(&b, ", and %zu of %zu of this node would do:", u.n, u.of_model);
	if (u.small)
		strbuf_addf(&b, " %zu %s no more than %s%s", u.small, u.small == 1 ? "has" : "have",
			    unit_format_gib(u.largest, largest), u.left ? "," : "");
	if (u.left)
		strbuf_addf(&b, " %zu %s left alone by the agent (its gpus and leave)", u.left,
			    u.left == 1 ? "is" : "are");
	strbuf_adds(&b, "; it waits until that changes or another node serves the instance");
	cmd_warn("warning", "%s", strbuf_str(&b));
}

void room_check_devices(const struct task_spec *s, const json_t *devices)
{
	if (json_array_size(devices) && check_model(s, devices))
		check_usable(s, devices);
}

/* ---- what they are like on other nodes, by what their agents have told ---- */

struct elsewhere {
	size_t n, would_do; /* agents that live; those with enough such GPUs */
	struct strbuf kinds;
};

/* What one has not told says nothing against the task: -ENOENT. */
static int ask_agents(const struct spool *sp, const struct task_spec *s,
		      const struct node_agents *agents, struct elsewhere *ret)
{
	cleanup_free struct agent_status *st = xmalloc(sizeof(*st));

	for (size_t i = 0; i < agents->n; i++) {
		uint64_t fit = 0;

		if (agents->all[i].state != NODE_AGENT_ALIVE)
			continue;
		if (agent_status_read(sp, agents->all[i].agent, st, NULL) < 0 || !st->n_devices ||
		    st->n_devices < agents->all[i].heartbeat.devices) /* it has just begun */
			return -ENOENT;
		for (unsigned int k = 0; k < st->n_devices; k++) {
			const struct agent_status_device *d = &st->devices[k];

			fit += fit_model(s->model ? s->model : "", d->model) &&
			       (!d->mem_bytes || d->mem_bytes >= memory_of(s)) &&
			       strcmp(d->state, "left") != 0;
		}
		agent_status_add_kinds(st, &ret->kinds);
		ret->n++;
		ret->would_do += fit >= wanted(s);
	}
	return 0;
}

static void check_elsewhere(const struct spool *sp, const struct task_spec *s,
			    const struct node_agents *agents)
{
	struct elsewhere others = { .kinds = STRBUF_INIT };
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	uint64_t nodes = spec_is_gang(s) ? s->nodes : 1;
	char each[UNIT_TEXT_MAX];

	if (!pools_most_gpus(sp) && ask_agents(sp, s, agents, &others) == 0 && others.n >= nodes &&
	    others.would_do < nodes) {
		if (nodes > 1)
			strbuf_addf(&b, "%" PRIu64 " nodes with ", nodes);
		strbuf_addf(&b, "%" PRIu64 " GPU%s%s", wanted(s), wanted(s) == 1 ? "" : "s",
			    nodes > 1 ? " each" : "");
		if (s->model)
			strbuf_addf(&b, " of model %s", s->model);
		if (memory_of(s))
			strbuf_addf(&b, " with %s%s", unit_format_gib(memory_of(s), each),
				    wanted(s) == 1 ? "" : " on each");
		cmd_warn("warning",
			 "it asks for %s, and %zu of the %zu agents that serve instance \"%s\" %s "
			 "that; there are %s; it waits until others do",
			 strbuf_str(&b), others.would_do, others.n, spool_instance(sp),
			 others.would_do == 1 ? "has" : "have", strbuf_str(&others.kinds));
	}
	strbuf_clear(&others.kinds);
}

static void check_devices(const struct cmd_ctx *ctx, const struct spool *sp,
			  const struct task_spec *s, const struct node_agents *agents)
{
	size_t alive = 0;
	bool others = false;
	json_t *doc;

	for (size_t i = 0; i < agents->n; i++) {
		alive += agents->all[i].state == NODE_AGENT_ALIVE;
		others = others ||
			 (agents->all[i].state == NODE_AGENT_ALIVE && !agents->all[i].here);
	}
	if ((others || alive > 1) && (s->model || memory_of(s)))
		check_elsewhere(sp, s, agents);
	if (others || alive > 1)
		return;
	doc = agent_status(ctx, STATUS_LIMIT_MS, NULL);
	room_check_devices(s, json_object_get(doc, "devices"));
	json_decref(doc);
}

int room_check(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_spec *s,
	       struct err *e)
{
	bool many = s->gpus > 1 && s->gpus != SPEC_ALL;
	struct node_agents agents = { .n = 0 };
	struct nodes nodes = { .agents = &agents };
	int r = 0;

	if (spec_is_gang(s) && s->gpus == SPEC_ALL) /* spec_check() refuses it */
		return 0;
	if (!many && !spec_is_gang(s) && !(s->gpus && (s->model || memory_of(s))))
		return 0;
	/* What cannot be read says nothing against the task. */
	if (node_agents_read(ctx, sp, &agents, NULL) == 0 && (many || spec_is_gang(s))) {
		find_nodes(sp, &nodes);
		r = spec_is_gang(s) ? judge_gang(sp, &nodes, s, e)
				    : judge_one(sp, &nodes, s->gpus, e);
	}
	if (r == 0 && s->gpus)
		check_devices(ctx, sp, s, &agents);
	free(nodes.all);
	node_agents_clear(&agents);
	return r;
}
