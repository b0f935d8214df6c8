/* SPDX-License-Identifier: MIT */
#include "cli/node/declare_dead.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/agent_client.h"
#include "cli/node_agents.h"
#include "cli/task/taskstate.h"
#include "spool/instance.h"

#define BEATS	 3 /* so many heartbeats that do not come */
#define STEP_US	 50000
#define TELL_MS	 1000
#define TOLD_MAX 8

/* A file of its in agents/, as it was at first. */
struct sign {
	char path[SPOOL_PATH_MAX];
	uint64_t count;
};

struct declaring {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	const char *agent;
	struct node_agents agents;
	struct task_set claims; /* those that it has */
	struct heartbeat last;	/* its last heartbeat, or what its claims say */
	bool compare;		/* the files are looked at for the second time */
	size_t n;
	struct sign *signs;
	char moved[SPOOL_PATH_MAX];
};

/* ---- what is there of it ---- */

static int unknown(struct declaring *v, const struct task_set *all, struct err *e)
{
	cleanup_free const char **names = xcalloc(v->agents.n + all->n + 1, sizeof(char *));
	const char *near;
	size_t n = 0;

	for (size_t i = 0; i < v->agents.n; i++)
		names[n++] = v->agents.all[i].agent;
	for (size_t i = 0; i < all->n; i++)
		if (all->tasks[i].name.agent[0])
			names[n++] = all->tasks[i].name.agent;
	near = str_nearest(v->agent, names);
	return err_set(
		e, -ENOENT,
		"no agent of instance \"%s\" is called \"%s\"%s%s (tenure instances shows them)",
		spool_instance(v->sp), v->agent, near ? "; did you mean " : "", near ? near : "");
}

static void find_claims(struct declaring *v, struct task_set *all)
{
	char agent[NAME_AGENT_MAX + 1];
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++) {
		if (all->tasks[i].dir != SPOOL_RUNNING)
			continue;
		taskstate_agent_of(v->sp, &all->tasks[i].name, agent);
		if (strcmp(agent, v->agent) == 0)
			all->tasks[n++] = all->tasks[i];
	}
	all->n = n;
	v->claims = *all;
}

static int find(struct declaring *v, struct err *e)
{
	const struct node_agent *p;
	struct task_set all;
	int r = node_agents_read(v->ctx, v->sp, &v->agents, e);

	if (r == 0)
		r = select_all(v->sp, &all, e);
	if (r < 0)
		return r;
	p = node_agents_find(&v->agents, v->agent);
	if (p)
		v->last = p->heartbeat;
	if (!p && !ident_is_name(v->agent)) {
		r = unknown(v, &all, e);
		free(all.tasks);
		return r;
	}
	find_claims(v, &all);
	/* Where it has no file, who it was is in the records of its claims. */
	for (size_t i = 0; i < v->claims.n && !v->last.count; i++)
		v->last.count = taskstate_claimer(v->sp, &v->claims.tasks[i].name, &v->last.who);
	return v->last.count ? 0 : unknown(v, &v->claims, e);
}

/* ---- whether it lives ---- */

static void note_sign(struct declaring *v, const char *path, uint64_t count)
{
	for (size_t i = 0; i < v->n; i++) {
		if (strcmp(v->signs[i].path, path) != 0)
			continue;
		if (v->signs[i].count != count)
			(void)str_copy(v->moved, sizeof(v->moved), path);
		return;
	}
	if (v->compare) {
		(void)str_copy(v->moved, sizeof(v->moved), path);
		return;
	}
	v->signs = xrealloc(v->signs, v->n + 1, sizeof(*v->signs));
	v->signs[v->n] = (struct sign){ .count = count };
	(void)str_copy(v->signs[v->n++].path, sizeof(v->signs->path), path);
}

/* Its own, and those of the shims of its tasks. */
static int look_at_sign(void *data, const char *file, unsigned char type)
{
	struct declaring *v = data;
	char path[SPOOL_PATH_MAX];
	struct heartbeat b;

	if (heartbeat_read(v->sp, spool_path(SPOOL_AGENTS, file, path), &b, NULL, NULL) == 0 &&
	    strcmp(b.who.agent, v->agent) == 0)
		note_sign(v, path, b.count);
	return 0;
}

static int look(struct declaring *v, struct err *e)
{
	return spool_each(v->sp, spool_dir_name(SPOOL_AGENTS), look_at_sign, v, e);
}

static int watch(struct declaring *v, struct err *e)
{
	uint64_t ms = BEATS * settings_num(v->ctx->settings, SET_BEAT);
	/* Looks count, and not the time: one that hangs says nothing of the node. */
	uint64_t looks = ms * 1000 / STEP_US + 1;
	char text[UNIT_TEXT_MAX];
	int r = look(v, e);

	if (ms >= TELL_MS)
		(void)fprintf(stderr, "Looking for %s whether it sends a heartbeat...\n",
			      unit_format_duration(ms, text));
	v->compare = true;
	while (r == 0 && !v->moved[0] && looks--) {
		(void)usleep(STEP_US);
		r = look(v, e);
	}
	if (r < 0 || !v->moved[0])
		return r;
	return err_set(e, -EBUSY,
		       "%s %s sends heartbeats: %s was written just now; what is there can be "
		       "ended from here (tenure stop, tenure shutdown)",
		       strchr(v->moved, ',') ? "a task that was started by the agent" : "the agent",
		       v->agent, v->moved);
}

static int check(struct declaring *v, struct err *e)
{
	const struct node_agent *p = node_agents_find(&v->agents, v->agent);
	cleanup_free char *options = agent_options(v->ctx->settings, NULL);

	if (strcmp(v->last.who.boot, spool_boot(v->sp)) != 0)
		return 0;
	if (p && p->state == NODE_AGENT_ALIVE)
		return err_set(e, -EBUSY,
			       "the agent %s runs on this node (PID %d); tenure off%s ends it",
			       v->agent, (int)v->last.who.proc.pid, options);
	return err_set(e, -EBUSY,
		       "the agent %s was one of this node, which is there: tenure on%s takes over "
		       "what it has left",
		       v->agent, options);
}

/* ---- what is said then ---- */

static void tell(const struct declaring *v)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	cleanup_free char *options = agent_options(v->ctx->settings, NULL);
	char id[SELECT_ID_MAX];
	bool somebody = false;

	for (size_t i = 0; i < v->agents.n; i++)
		somebody = somebody || (v->agents.all[i].state == NODE_AGENT_ALIVE &&
					strcmp(v->agents.all[i].agent, v->agent) != 0);
	strbuf_addf(&b, "%s is declared dead", v->agent);
	if (v->claims.n)
		strbuf_adds(&b, ": the other agents take over task ");
	for (size_t i = 0; i < v->claims.n; i++)
		strbuf_add_some(&b, i, TOLD_MAX, "%s",
				select_format_id(v->claims.tasks[i].name.id,
						 v->claims.tasks[i].name.element, id));
	strbuf_add_more(&b, v->claims.n, TOLD_MAX);
	if (!somebody)
		strbuf_addf(&b, "; none runs now (tenure on%s starts one)", options);
	printf("%s\n", strbuf_str(&b));
}

static int declare(struct declaring *v, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b;
	int r = find(v, e);

	if (r == 0)
		r = check(v, e);
	(void)heartbeat_declared_dead_path(v->agent, path);
	if (r == 0 && heartbeat_read(v->sp, path, &b, NULL, NULL) == 0 &&
	    strcmp(b.who.boot, v->last.who.boot) == 0) {
		tell(v); /* said before */
		return 0;
	}
	if (r == 0)
		r = watch(v, e);
	if (r == 0)
		r = heartbeat_write(v->sp, path, &v->last, e);
	if (r == 0)
		r = spool_sync(v->sp, path, e);
	if (r == 0)
		r = spool_sync_dirs(v->sp, SPOOL_BIT(SPOOL_AGENTS), e);
	if (r == 0)
		tell(v);
	return r;
}

int declare_dead(const struct cmd_ctx *ctx, const struct spool *sp, const char *agent,
		 struct err *e)
{
	struct declaring v = { .ctx = ctx, .sp = sp, .agent = agent };
	int r = declare(&v, e);

	node_agents_clear(&v.agents);
	free(v.claims.tasks);
	free(v.signs);
	return r;
}
