/* SPDX-License-Identifier: MIT */
#include "cli/node_agents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/agent_client.h"
#include "spool/instance.h"

#define READS	3
#define READ_US 2000
#define PING_MS 1000

struct reading {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	struct node_agents *agents;
	uint64_t now_ns;
};

static bool is_said_gone(const struct spool *sp, const struct node_agent *p)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b;

	return heartbeat_read(sp, heartbeat_declared_dead_path(p->agent, path), &b, NULL, NULL) ==
		       0 &&
	       strcmp(b.who.boot, p->heartbeat.who.boot) == 0;
}

static enum node_agent_state judge(const struct reading *r, const struct node_agent *p)
{
	static const enum node_agent_state states[] = { [LIVENESS_ALIVE] = NODE_AGENT_ALIVE,
							[LIVENESS_DEAD] = NODE_AGENT_GONE,
							[LIVENESS_UNKNOWN] = NODE_AGENT_UNKNOWN };
	struct liveness_facts f = { .same_node = p->here,
				    .runs = p->here && proc_alive(&p->heartbeat.who.proc),
				    .same_kernel = heartbeat_same_kernel(p->heartbeat.who.boot,
									 spool_boot(r->sp)),
				    .local_files = !spool_is_network(r->sp),
				    .gone = p->declared_dead,
				    .silent_ms = p->age_ms,
				    .fence_timeout_ms = p->heartbeat.fence_timeout_ms,
				    .expire_ms = settings_num(r->ctx->settings, SET_EXPIRE) };

	return p->heartbeat.ended ? NODE_AGENT_OFF : states[liveness_judge(&f)];
}

/* One that is just being written is looked at again. */
static bool read_sign(const struct spool *sp, struct node_agent *p)
{
	char path[SPOOL_PATH_MAX];
	int code = -EAGAIN;

	for (int i = 0; i < READS && code == -EAGAIN; i++) {
		if (i)
			(void)usleep(READ_US);
		code = heartbeat_read(sp, heartbeat_agent_path(p->agent, path), &p->heartbeat,
				      &p->written_ns, NULL);
	}
	return code == 0;
}

static struct agent_status *read_status(const struct spool *sp, const char *agent)
{
	struct agent_status *s = xcalloc(1, sizeof(*s));

	if (agent_status_read(sp, agent, s, NULL) == 0)
		return s;
	free(s);
	return NULL;
}

static int add(void *data, const char *agent)
{
	const struct reading *r = data;
	struct node_agents *all = r->agents;
	struct node_agent p = { .status = read_status(r->sp, agent), .state = NODE_AGENT_UNKNOWN };

	(void)str_copy(p.agent, sizeof(p.agent), agent);
	if (read_sign(r->sp, &p)) {
		p.here = strcmp(p.heartbeat.who.boot, spool_boot(r->sp)) == 0;
		p.declared_dead = is_said_gone(r->sp, &p);
		p.age_ms = p.written_ns && p.written_ns < r->now_ns
				   ? (r->now_ns - p.written_ns) / NS_PER_MS
				   : 0;
		p.state = judge(r, &p);
	}
	if (p.status && p.status->written_ns && p.status->written_ns < r->now_ns)
		p.told_ms = (r->now_ns - p.status->written_ns) / NS_PER_MS;
	all->all = xrealloc(all->all, all->n + 1, sizeof(*all->all));
	all->all[all->n++] = p;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct node_agent *)a)->agent, ((const struct node_agent *)b)->agent);
}

int node_agents_read(const struct cmd_ctx *ctx, const struct spool *sp, struct node_agents *ret,
		     struct err *e)
{
	struct reading r = { .ctx = ctx, .sp = sp, .agents = ret, .now_ns = spool_now_or_ours(sp) };
	int code;

	*ret = (struct node_agents){ .n = 0 };
	code = heartbeat_each_agent(sp, add, &r, e);
	if (ret->n)
		qsort(ret->all, ret->n, sizeof(*ret->all), by_name);
	return code;
}

void node_agents_read_named(const struct cmd_ctx *ctx, const struct spool *sp,
			    const struct text_list *names, struct node_agents *ret)
{
	struct reading r = { .ctx = ctx, .sp = sp, .agents = ret, .now_ns = spool_now_or_ours(sp) };

	*ret = (struct node_agents){ .n = 0 };
	for (size_t i = 0; i < names->n; i++)
		(void)add(&r, names->texts[i]);
}

void node_agents_clear(struct node_agents *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->all[i].status);
	free(take_ptr(p->all));
	p->n = 0;
}

const struct node_agent *node_agents_find(const struct node_agents *p, const char *agent)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->all[i].agent, agent) == 0)
			return &p->all[i];
	return NULL;
}

bool node_agents_another_serves(const struct cmd_ctx *ctx, const struct spool *sp)
{
	struct node_agents agents;
	bool any = false;

	(void)node_agents_read(ctx, sp, &agents, NULL);
	for (size_t i = 0; i < agents.n; i++)
		any = any || (agents.all[i].state == NODE_AGENT_ALIVE && !agents.all[i].here);
	node_agents_clear(&agents);
	return any;
}

bool node_agents_one_serves(const struct cmd_ctx *ctx, const struct spool *sp)
{
	json_t *doc = NULL;
	bool here =
		agent_ask(ctx, AGENT_VERB(CTL_PING), PING_MS, &doc, NULL, NULL) != CMD_NOTHING_RUNS;

	json_decref(doc);
	return here || node_agents_another_serves(ctx, sp);
}

const char *node_agent_state_name(enum node_agent_state state)
{
	static const char *const names[] = { [NODE_AGENT_ALIVE] = "alive",
					     [NODE_AGENT_UNKNOWN] = "unknown",
					     [NODE_AGENT_GONE] = "gone",
					     [NODE_AGENT_OFF] = "off" };
	_Static_assert(ARRAY_LEN(names) == NODE_AGENT_STATE_MAX, "a name for every state");

	return enum_name(names, ARRAY_LEN(names), state);
}

char *node_agent_sign(const struct node_agent *p)
{
	char when[CLOCK_TEXT_MAX], ago[UNIT_TEXT_MAX];

	if (!p || !p->written_ns)
		return xstrdup("it has left no heartbeat");
	return xasprintf("%s %s ago, at %s",
			 p->state == NODE_AGENT_OFF ? "it ended" : "its last heartbeat was",
			 unit_format_duration(p->age_ms, ago),
			 clock_format_local(p->written_ns, when));
}

char *node_agent_silence(const struct node_agent *p)
{
	cleanup_free char *sign = node_agent_sign(p);

	return xasprintf(
		"does not answer (%s). If that node hangs or is cut off, try again when it "
		"is back; if it does not exist any more: tenure shutdown --gone %s",
		sign, p->agent);
}

const char *node_agent_job(const struct node_agent *p, char buf[NODE_AGENT_JOB_MAX])
{
	const struct agent_status *s = p->status;

	return s && s->engine[0] ? str_print(buf, NODE_AGENT_JOB_MAX, "%s %s", s->engine, s->job)
				 : NULL;
}

static json_t *text_or_null(const char *text)
{
	return text[0] ? json_string(text) : json_null();
}

/* The job that it runs in. */
static json_t *job_json(const struct agent_status *s)
{
	char end[CLOCK_TEXT_MAX];

	if (!s || !s->engine[0])
		return json_null();
	return json_pack("{ss so si so so so}", "engine", s->engine, "id", text_or_null(s->job),
			 "restarts", (int)s->restarts, "pool", text_or_null(s->pool), "token",
			 text_or_null(s->token), "deadline",
			 s->end_ns ? json_string(clock_format_iso(s->end_ns, end)) : json_null());
}

json_t *node_agent_json(const struct node_agent *p)
{
	const struct heartbeat *b = &p->heartbeat;
	json_t *o = json_pack("{ss ss ss sb sf}", "agent", p->agent, "host", b->who.host, "state",
			      node_agent_state_name(p->state), "here", p->here, "age_s",
			      (double)p->age_ms / (double)MS_PER_S);
	json_t *rest =
		json_pack("{si si si si si sb sb}", "devices", (int)b->devices, "held",
			  (int)b->held, "idle", (int)b->idle, "lent", (int)b->lent, "running",
			  (int)b->running, "draining", b->draining, "ended", b->ended);
	(void)json_object_set_new(o, "version",
				  p->status ? text_or_null(p->status->version) : json_null());
	(void)json_object_set_new(o, "job", job_json(p->status));

	(void)json_object_update(o, rest);
	json_decref(rest);
	if (!p->written_ns)
		(void)json_object_set_new(o, "age_s", json_null());
	return o;
}

static json_t *figure(const struct agent_status_device *d, enum agent_status_knows what, uint64_t n)
{
	return d->knows & what ? json_integer((json_int_t)n) : json_null();
}

static json_t *device_json(const struct agent_status_device *d)
{
	const struct {
		const char *name;
		json_t *value;
	} members[] = {
		{ "gpu", figure(d, AGENT_STATUS_GPU, d->gpu) },
		{ "mig", figure(d, AGENT_STATUS_MIG, d->mig) },
		{ "uuid", json_new_text(d->uuid) },
		{ "name", json_new_text(d->model) },
		{ "state", json_new_text(d->state) },
		{ "use", d->use[0] ? json_new_text(d->use) : json_null() },
		{ "xid", d->xid ? json_integer(d->xid) : json_null() },
		{ "quarantined", json_boolean(d->shut) },
		{ "for_s", figure(d, AGENT_STATUS_FOR, d->for_s) },
		{ "held_bytes", figure(d, AGENT_STATUS_HELD, d->held_bytes) },
		{ "memory_total_bytes",
		  d->mem_bytes ? json_integer((json_int_t)d->mem_bytes) : json_null() },
		{ "memory_used_bytes", figure(d, AGENT_STATUS_USED, d->used_bytes) },
		{ "utilisation", figure(d, AGENT_STATUS_UTIL, d->util) },
		{ "power_w", figure(d, AGENT_STATUS_POWER, d->power_w) },
		{ "power_limit_w", figure(d, AGENT_STATUS_LIMIT, d->limit_w) },
		{ "temperature_c", figure(d, AGENT_STATUS_TEMP, d->temp_c) },
	};
	json_t *o = json_object();

	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		(void)json_object_set_new(o, members[i].name, members[i].value);
	return o;
}

json_t *node_agent_devices_json(const struct node_agent *p)
{
	json_t *list = json_array();

	for (unsigned int i = 0; p->status && i < p->status->n_devices; i++)
		(void)json_array_append_new(list, device_json(&p->status->devices[i]));
	return list;
}

json_t *node_agent_told_json(const struct node_agent *p)
{
	return p->status && p->status->seen_ns && p->status->written_ns
		       ? json_real((double)p->told_ms / (double)MS_PER_S)
		       : json_null();
}
