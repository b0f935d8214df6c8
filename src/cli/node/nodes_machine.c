/* SPDX-License-Identifier: MIT */
#include "cli/node/nodes_machine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/enumstr.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "cli/agent_client.h"
#include "cli/machine.h"
#include "engine/node_sums.h"

#define STATUS_MS 2000

const char *node_device_state_name(enum node_device_state state)
{
	static const char *const names[] = {
		[NODE_DEVICE_FREE] = "free", [NODE_DEVICE_HELD] = "held",
		[NODE_DEVICE_TASK] = "task", [NODE_DEVICE_BUSY] = "busy",
		[NODE_DEVICE_OUT] = "out",
	};
	_Static_assert(ARRAY_LEN(names) == NODE_DEVICE_STATE_MAX, "a name for every state");

	return enum_name(names, ARRAY_LEN(names), state);
}

static struct node_device *add(struct node_devices *d, int gpu, int mig)
{
	d->all = xgrow(d->all, d->n, sizeof(*d->all));
	d->all[d->n] = (struct node_device){ .gpu = gpu, .mig = mig };
	return &d->all[d->n++];
}

void node_devices_clear(struct node_devices *d)
{
	free(take_ptr(d->all));
	d->n = 0;
}

/* -------- by its agent -------- */

/* What the agent calls a device, and what that is to who looks for a free one. */
static const struct {
	const char *word;
	enum node_device_state state;
	const char *text; /* NULL: the agent's reason */
} words[] = {
	{ "idle", NODE_DEVICE_FREE, "" },
	{ "held", NODE_DEVICE_HELD, "" },
	{ "holding", NODE_DEVICE_HELD, "" },
	{ "yielding", NODE_DEVICE_HELD, NULL },
	{ "lending", NODE_DEVICE_TASK, NULL },
	{ "lent", NODE_DEVICE_TASK, NULL },
	{ "workload", NODE_DEVICE_HELD, "the workload runs" },
	{ "left", NODE_DEVICE_OUT, NULL },
	{ "unseen", NODE_DEVICE_OUT, NULL },
};

/* One that the agent leaves alone is free all the same if nobody is on it. */
static void judge_left(const json_t *o, struct node_device *d)
{
	const json_t *n = json_object_get(o, "processes");
	cleanup_free char *reason = xstrdup(d->text[0] ? d->text : "left");

	if (!json_is_integer(n))
		return;
	d->state = json_integer_value(n) ? NODE_DEVICE_BUSY : NODE_DEVICE_FREE;
	if (d->state == NODE_DEVICE_BUSY)
		(void)str_print(d->text, sizeof(d->text), "%lld process%s, and %s",
				(long long)json_integer_value(n),
				json_integer_value(n) == 1 ? "" : "es", reason);
}

/* own: the instance that says so. */
static void judge(const json_t *o, const char *own, struct node_device *d)
{
	const char *state = json_get_str(o, "state"), *use = json_get_str(o, "use");
	const char *held_for = json_get_str(o, "held_for"), *text = NULL;

	/* Not idle for long enough to be held, or never to be, and nobody is there. */
	d->state = json_get_flag(o, "vacant") && !json_is_integer(json_object_get(o, "xid"))
			   ? NODE_DEVICE_FREE
			   : NODE_DEVICE_BUSY;
	for (size_t i = 0; state && i < ARRAY_LEN(words); i++)
		if (strcmp(words[i].word, state) == 0) {
			d->state = words[i].state;
			text = words[i].text;
		}
	json_get_text(o, "reason", d->text, sizeof(d->text));
	if (text)
		(void)str_copy(d->text, sizeof(d->text), text);
	if (state && strcmp(state, "left") == 0)
		judge_left(o, d);
	if (held_for) {
		d->state = NODE_DEVICE_HELD;
		(void)str_print(d->text, sizeof(d->text), "for %s", held_for);
		if (own && strcmp(own, held_for) == 0)
			d->text[0] = '\0';
	}
	if (use) {
		d->state = NODE_DEVICE_TASK;
		(void)str_copy(d->text, sizeof(d->text), use);
	}
}

/* trust: "in quarantine ..", "on probation ..", or "". No task comes to what is in quarantine,
 * though it may be held. */
static void judge_trust(const char *trust, struct node_device *d)
{
	if (!trust[0] || (d->state != NODE_DEVICE_FREE && d->state != NODE_DEVICE_HELD))
		return;
	if (d->state == NODE_DEVICE_FREE && str_has_prefix(trust, "in quarantine"))
		d->state = NODE_DEVICE_OUT;
	(void)str_copy(d->text, sizeof(d->text), trust);
}

/* A card whose MIG instances are devices of their own is none. */
static bool is_card_of_others(const json_t *devices, const json_t *card)
{
	json_int_t gpu = json_integer_value(json_object_get(card, "gpu"));
	size_t i;
	json_t *d;

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

static void take_status(const json_t *status, struct node_devices *ret)
{
	const json_t *devices = json_object_get(status, "devices");
	size_t i;
	json_t *o;

	json_array_foreach(devices, i, o)
	{
		const json_t *mig = json_object_get(o, "mig");
		char quarantine[sizeof(ret->all->text)];
		struct node_device *d;

		if (is_card_of_others(devices, o))
			continue;
		d = add(ret, (int)json_integer_value(json_object_get(o, "gpu")),
			json_is_integer(mig) ? (int)json_integer_value(mig) : -1);
		json_get_text(o, "uuid", d->uuid, sizeof(d->uuid));
		json_get_text(o, "name", d->name, sizeof(d->name));
		judge(o, json_get_str(status, "instance"), d);
		json_get_text(o, "quarantine", quarantine, sizeof(quarantine));
		judge_trust(quarantine, d);
	}
}

/* -------- by the driver -------- */

/* A guard of ours has it for a task, though no agent tells of that (hold/guard/device.h). */
static bool is_lent(const char *uuid)
{
	cleanup_free char *name = xasprintf("tenure/dev/%s", uuid);
	struct ucred who;

	return sock_listener(name, &who) == 0 && who.uid == geteuid();
}

static void take_look(const struct machine *m, struct node_devices *ret)
{
	for (uint32_t i = 0; i < m->list.n; i++) {
		const struct gpu_device *dev = &m->list.d[i];
		const struct machine_device *look = &m->devices[i];
		struct node_device *d;

		if (dev->mig_parent)
			continue;
		d = add(ret, (int)dev->index, dev->mig);
		(void)str_copy(d->uuid, sizeof(d->uuid), dev->uuid);
		(void)str_copy(d->name, sizeof(d->name), dev->name);
		(void)str_copy(d->text, sizeof(d->text), look->reason);
		d->state = look->code	     ? NODE_DEVICE_OUT
			   : look->reason[0] ? NODE_DEVICE_BUSY
			   : look->ours	     ? NODE_DEVICE_HELD
					     : NODE_DEVICE_FREE;
		if (d->state == NODE_DEVICE_FREE && is_lent(d->uuid)) {
			d->state = NODE_DEVICE_TASK;
			(void)str_copy(d->text, sizeof(d->text),
				       "kept for a task that runs on without its agent");
		}
		judge_trust(look->quarantine, d);
	}
	for (uint32_t i = 0; i < m->list.n_failed; i++) {
		struct node_device *d = add(ret, (int)m->list.failed[i].index, -1);

		d->state = NODE_DEVICE_OUT;
		(void)str_print(d->text, sizeof(d->text), "cannot be seen: %s",
				m->list.failed[i].why);
	}
}

int node_devices_read(const struct cmd_ctx *ctx, struct node_devices *ret, struct err *e)
{
	json_t *status = agent_status(ctx, STATUS_MS, NULL);
	struct machine *m = NULL;
	int r = 0;

	*ret = (struct node_devices){ .n = 0 };
	if (json_array_size(json_object_get(status, "devices")))
		take_status(status, ret);
	else
		r = machine_look(settings_num(ctx->settings, SET_IDLE_BELOW), &m, e);
	if (m) {
		machine_take_quarantine(ctx, m);
		take_look(m, ret);
	}
	m = machine_free(m);
	json_decref(status);
	return r < 0 ? err_wrap(e, "cannot see any GPU of this machine (tenure doctor tells more)")
		     : 0;
}

/* -------- as a node -------- */

static size_t row_of(struct engine_nodes *nodes, const char *host, const char *type)
{
	struct engine_node *node;

	for (size_t i = 0; i < nodes->n; i++)
		if (strcmp(nodes->all[i].type ? nodes->all[i].type : "", type) == 0)
			return i;
	node = engine_nodes_add(nodes);
	node->name = xstrdup(host);
	node->type = type[0] ? xstrdup(type) : NULL;
	node->usable = true;
	return nodes->n - 1;
}

void node_devices_sum(const struct node_devices *d, struct engine_nodes *ret,
		      unsigned int **ret_ours)
{
	char host[256] = "";

	*ret = (struct engine_nodes){ .n = 0 };
	*ret_ours = xcalloc(d->n + 1, sizeof(**ret_ours));
	(void)gethostname(host, sizeof(host) - 1);
	for (size_t i = 0; i < d->n; i++)
		(void)row_of(ret, host, d->all[i].name);
	node_sums_tidy(ret);
	for (size_t i = 0; i < d->n; i++) {
		enum node_device_state state = d->all[i].state;
		size_t at = row_of(ret, host, d->all[i].name);
		struct engine_node *node = &ret->all[at];
		bool ours = state == NODE_DEVICE_HELD || state == NODE_DEVICE_TASK;

		node->total++;
		node->free += state == NODE_DEVICE_FREE;
		node->used += ours || state == NODE_DEVICE_BUSY;
		(*ret_ours)[at] += ours;
	}
}
