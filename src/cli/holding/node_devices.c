/* SPDX-License-Identifier: MIT */
#include "cli/holding/node_devices.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/holding/device_history.h"
#include "cli/instance.h"
#include "cli/node_agents.h"
#include "cli/table.h"
#include "cli/term.h"
#include "spool/agent_history.h"

#define CELL 48

/* A node of the instance, and who else serves it. */
struct looked {
	struct spool *sp;
	struct node_agents agents;
	const struct node_agent *node;
};

static void looked_clear(struct looked *l)
{
	node_agents_clear(&l->agents);
	l->sp = spool_close(l->sp);
}

static int refuse_unknown(const struct looked *l, const char *node, struct err *e)
{
	cleanup_strbuf struct strbuf names = STRBUF_INIT;

	for (size_t i = 0; i < l->agents.n; i++)
		strbuf_addf(&names, "%s%s", names.len ? ", " : "", l->agents.all[i].agent);
	return err_set(e, -ENOENT, "no node %s serves this queue; %s%s", node,
		       names.len ? "those that do: " : "none does", strbuf_str(&names));
}

static int look_for(const struct cmd_ctx *ctx, const char *node, struct looked *l, struct err *e)
{
	int r = instance_open(ctx, SPOOL_LOOK, &l->sp, e);

	if (r == 0)
		r = node_agents_read(ctx, l->sp, &l->agents, e);
	if (r < 0)
		return r;
	l->node = node_agents_find(&l->agents, node);
	return l->node ? 0 : refuse_unknown(l, node, e);
}

/* "As n8 told 20s ago. It is gone: its last heartbeat was 3m ago, at .." */
static void print_source(const struct node_agent *p, uint64_t told_ms)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	cleanup_free char *sign = node_agent_sign(p);
	char ago[UNIT_TEXT_MAX];

	strbuf_addf(&b, "As %s told %s ago.", p->agent,
		    unit_format_duration(
			    told_ms < MS_PER_S ? told_ms : told_ms / MS_PER_S * MS_PER_S, ago));
	if (p->state != NODE_AGENT_ALIVE)
		strbuf_addf(&b, " It is %s: %s.",
			    p->state == NODE_AGENT_UNKNOWN ? "silent"
							   : node_agent_state_name(p->state),
			    sign);
	term_print_wrapped(stdout, strbuf_str(&b), 0);
}

/* ---- what they are used for now ---- */

static const char *cell(char buf[CELL], const struct agent_status_device *d,
			enum agent_status_knows what, const char *format, unsigned int n)
{
	return d->knows & what ? str_print(buf, CELL, format, n) : "-";
}

static void add_row(struct table *t, const struct agent_status_device *d)
{
	char gpu[CELL], used[CELL], util[CELL], watts[CELL], temp[CELL], state[CELL * 4];

	(void)str_print(gpu, CELL, d->knows & AGENT_STATUS_MIG ? "%u/%u" : "%u", d->gpu, d->mig);
	(void)str_print(used, CELL, "%.1f/%.1f", (double)d->used_bytes / (double)GIB,
			(double)d->mem_bytes / (double)GIB);
	(void)str_print(state, sizeof(state), "%s%s%s%s", d->state, d->use[0] ? ", " : "", d->use,
			d->shut ? ", in quarantine" : "");
	table_add(t, d->shut || d->xid ? TERM_YELLOW : TABLE_PLAIN,
		  d->knows & AGENT_STATUS_GPU ? gpu : "-", d->model,
		  d->knows & AGENT_STATUS_USED ? used : "-",
		  cell(util, d, AGENT_STATUS_UTIL, "%u %%", d->util),
		  cell(watts, d, AGENT_STATUS_POWER, "%u", d->power_w),
		  cell(temp, d, AGENT_STATUS_TEMP, "%u C", d->temp_c), state);
}

static void print_devices(const struct node_agent *p)
{
	static const struct table_column columns[] = {
		{ "GPU", true },
		{ "NAME", .drop = 2 },
		{ "USED GiB", true },
		{ "UTIL", true, .drop = 1 },
		{ "WATTS", true, .drop = 3 },
		{ "TEMP", true, .drop = 4 },
		{ "STATE" },
		{ 0 },
	};
	struct table *t = table_new(columns);

	for (unsigned int i = 0; i < p->status->n_devices; i++)
		add_row(t, &p->status->devices[i]);
	table_print(t, stdout);
	(void)table_free(t);
	print_source(p, p->told_ms);
	if (p->status->n_devices && !p->status->seen_ns)
		term_print_wrapped(stdout,
				   "How much they are used is not known: its agent is of an "
				   "earlier version, which tells nothing of it.",
				   0);
}

static json_t *node_json(const struct node_agent *p)
{
	return json_pack("{si so so so}", "format", 1, "node", node_agent_json(p), "devices",
			 node_agent_devices_json(p), "age_s", node_agent_told_json(p));
}

int show_node_devices(const struct cmd_ctx *ctx, const char *node, bool json, struct err *e)
{
	struct looked l = { .sp = NULL };
	int r = look_for(ctx, node, &l, e);

	if (r == 0 && !l.node->status)
		r = err_set(e, -ENOENT, "%s has told nothing of its GPUs", node);
	if (r == 0 && json)
		cmd_print_json(node_json(l.node));
	else if (r == 0)
		print_devices(l.node);
	looked_clear(&l);
	return r;
}

/* ---- what they were used for ---- */

/* Only an agent that has devices to tell of, and tells of them, writes one. */
static int say_missing(const struct node_agent *p, struct err *e)
{
	const struct agent_status *s = p->status;

	if (s && s->n_devices && !s->seen_ns)
		return err_set(e, -ENOENT,
			       "what the GPUs of %s were used for is not known: its agent is of an "
			       "earlier version (%s), which tells nothing of it",
			       p->agent, s->version[0] ? s->version : "it does not say which");
	if (s && !s->n_devices)
		return err_set(e, -ENOENT, "%s has no GPUs", p->agent);
	return err_set(e, -ENOENT,
		       "what the GPUs of %s were used for is not known yet: its agent tells of it "
		       "soon after its start",
		       p->agent);
}

/* What a later version calls a state is none here. */
static void forget_unknown(json_t *states)
{
	for (size_t i = 0; i < json_array_size(states); i++)
		if (device_history_state(json_array_get(states, i)) == SAMPLE_GAP)
			(void)json_array_set_new(states, i, json_null());
}

/* Steps that were over before that time are left out. */
static void cut(json_t *doc, uint64_t since_s)
{
	uint64_t step_s = json_get_u64(doc, "step_s"), now = json_get_u64(doc, "now");
	json_t *device, *column, *samples;
	const char *name;
	size_t i, old;

	json_array_foreach(json_object_get(doc, "devices"), i, device)
	{
		const json_t *t;

		samples = json_object_get(device, "samples");
		t = json_object_get(samples, "t");
		forget_unknown(json_object_get(samples, "state"));
		for (old = 0; old < json_array_size(t); old++)
			if ((uint64_t)json_integer_value(json_array_get(t, old)) + step_s > since_s)
				break;
		json_object_foreach(samples, name, column)
		{
			for (size_t k = 0; k < old; k++)
				(void)json_array_remove(column, 0);
		}
	}
	if (since_s < now && now - since_s < json_get_u64(doc, "seconds"))
		(void)json_object_set_new(doc, "seconds",
					  json_integer((json_int_t)(now - since_s)));
}

static int read_history(const struct looked *l, uint64_t seconds, json_t **ret, struct err *e)
{
	uint64_t now_s = spool_now_or_ours(l->sp) / NS_PER_S;
	struct err why = ERR_INIT;
	int r = agent_history_read(l->sp, l->node->agent, now_s, ret, &why);

	if (r == -ENOENT)
		return say_missing(l->node, e);
	if (r < 0)
		return err_set(e, r, "what the GPUs of %s were used for cannot be told: %s",
			       l->node->agent, why.text);
	cut(*ret, now_s - seconds);
	return 0;
}

static void print_history(const struct looked *l, const json_t *doc)
{
	uint64_t now_s = spool_now_or_ours(l->sp) / NS_PER_S, then = json_get_u64(doc, "now");

	device_history_print(doc);
	print_source(l->node, now_s > then ? (now_s - then) * MS_PER_S : 0);
}

int show_node_history(const struct cmd_ctx *ctx, const char *node, const char *duration, bool json,
		      struct err *e)
{
	struct looked l = { .sp = NULL };
	json_t *doc = NULL;
	uint64_t seconds;
	int r;

	if (device_history_span(duration, &seconds, e) < 0)
		return CMD_USAGE;
	r = look_for(ctx, node, &l, e);
	if (r == 0)
		r = read_history(&l, seconds, &doc, e);
	if (r == 0 && json) {
		(void)json_object_set_new(doc, "state",
					  json_string(node_agent_state_name(l.node->state)));
		cmd_print_json_line(doc);
	} else if (r == 0) {
		print_history(&l, doc);
		json_decref(doc);
	}
	looked_clear(&l);
	return r;
}
