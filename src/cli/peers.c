/* SPDX-License-Identifier: MIT */
#include "cli/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enumstr.h"
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
	struct peers *peers;
	uint64_t now_ns;
};

static bool is_said_gone(const struct spool *sp, const struct peer *p)
{
	char path[SPOOL_PATH_MAX];
	struct beat b;

	return beat_read(sp, beat_declared_dead_path(p->agent, path), &b, NULL, NULL) == 0 &&
	       strcmp(b.who.boot, p->beat.who.boot) == 0;
}

static enum peer_state judge(const struct reading *r, const struct peer *p)
{
	static const enum peer_state states[] = { [LIVENESS_ALIVE] = PEER_ALIVE,
						  [LIVENESS_DEAD] = PEER_GONE,
						  [LIVENESS_UNKNOWN] = PEER_UNKNOWN };
	struct liveness_facts f = { .same_node = p->here,
				    .runs = p->here && proc_alive(&p->beat.who.proc),
				    .same_kernel =
					    beat_same_kernel(p->beat.who.boot, spool_boot(r->sp)),
				    .local_files = !spool_is_network(r->sp),
				    .gone = p->said_gone,
				    .silent_ms = p->age_ms,
				    .fence_timeout_ms = p->beat.fence_timeout_ms,
				    .expire_ms = settings_num(r->ctx->settings, SET_EXPIRE) };

	return p->beat.ended ? PEER_OFF : states[liveness_judge(&f)];
}

/* One that is just being written is looked at again. */
static bool read_sign(const struct spool *sp, struct peer *p)
{
	char path[SPOOL_PATH_MAX];
	int code = -EAGAIN;

	for (int i = 0; i < READS && code == -EAGAIN; i++) {
		if (i)
			(void)usleep(READ_US);
		code = beat_read(sp, beat_agent_path(p->agent, path), &p->beat, &p->written_ns,
				 NULL);
	}
	return code == 0;
}

static int add(void *data, const char *agent)
{
	const struct reading *r = data;
	struct peers *all = r->peers;
	struct peer p = { .state = PEER_UNKNOWN };

	(void)str_copy(p.agent, sizeof(p.agent), agent);
	if (read_sign(r->sp, &p)) {
		p.here = strcmp(p.beat.who.boot, spool_boot(r->sp)) == 0;
		p.said_gone = is_said_gone(r->sp, &p);
		p.age_ms = p.written_ns && p.written_ns < r->now_ns
				   ? (r->now_ns - p.written_ns) / NS_PER_MS
				   : 0;
		p.state = judge(r, &p);
	}
	all->all = xrealloc(all->all, all->n + 1, sizeof(*all->all));
	all->all[all->n++] = p;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct peer *)a)->agent, ((const struct peer *)b)->agent);
}

int peers_read(const struct cmd_ctx *ctx, const struct spool *sp, struct peers *ret, struct err *e)
{
	struct reading r = { .ctx = ctx, .sp = sp, .peers = ret, .now_ns = clock_wall_ns() };
	int code;

	*ret = (struct peers){ .n = 0 };
	code = beat_each_agent(sp, add, &r, e);
	if (ret->n)
		qsort(ret->all, ret->n, sizeof(*ret->all), by_name);
	return code;
}

void peers_clear(struct peers *p)
{
	free(take_ptr(p->all));
	p->n = 0;
}

const struct peer *peers_find(const struct peers *p, const char *agent)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->all[i].agent, agent) == 0)
			return &p->all[i];
	return NULL;
}

bool peers_one_serves(const struct cmd_ctx *ctx, const struct spool *sp)
{
	struct peers peers;
	json_t *doc = NULL;
	bool any = agent_ask(ctx, CTL_PING, PING_MS, &doc, NULL, NULL) != CMD_NOTHING_RUNS;

	json_decref(doc);
	if (any)
		return true;
	(void)peers_read(ctx, sp, &peers, NULL);
	for (size_t i = 0; i < peers.n; i++)
		any = any || (peers.all[i].state == PEER_ALIVE && !peers.all[i].here);
	peers_clear(&peers);
	return any;
}

const char *peer_state_name(enum peer_state state)
{
	static const char *const names[] = { [PEER_ALIVE] = "alive",
					     [PEER_UNKNOWN] = "unknown",
					     [PEER_GONE] = "gone",
					     [PEER_OFF] = "off" };
	_Static_assert(ARRAY_LEN(names) == PEER_STATE_MAX, "a name for every state");

	return enum_name(names, ARRAY_LEN(names), state);
}

char *peer_sign(const struct peer *p)
{
	char when[CLOCK_TEXT_MAX], ago[UNIT_TEXT_MAX];

	if (!p || !p->written_ns)
		return xstrdup("it has left no sign of life");
	return xasprintf(
		"%s %s ago, at %s", p->state == PEER_OFF ? "it ended" : "its last sign of life was",
		unit_format_duration(p->age_ms, ago), clock_format_local(p->written_ns, when));
}

json_t *peer_json(const struct peer *p)
{
	const struct beat *b = &p->beat;
	json_t *o = json_pack("{ss ss ss sb sf}", "agent", p->agent, "host", b->who.host, "state",
			      peer_state_name(p->state), "here", p->here, "age_s",
			      (double)p->age_ms / (double)MS_PER_S);
	json_t *rest =
		json_pack("{si si si si si sb sb}", "devices", (int)b->devices, "held",
			  (int)b->held, "idle", (int)b->idle, "lent", (int)b->lent, "running",
			  (int)b->running, "draining", b->draining, "ended", b->ended);

	(void)json_object_update(o, rest);
	json_decref(rest);
	if (!p->written_ns)
		(void)json_object_set_new(o, "age_s", json_null());
	return o;
}
