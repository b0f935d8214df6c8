/* SPDX-License-Identifier: MIT */

/*
 * One look a heartbeat, as one job on a thread of the pool. `struct looker` belongs to that job,
 * and to nobody while none runs; a look carries in what the loop knows and out what it found. A
 * look that hangs is waited for: no other is begun, so no heartbeat is written, which is the truth.
 *
 * An agent that is alive speaks for its claims. Of the others each claim is judged by the sign of
 * life of its shim. Its quiet time begins when the agent's does, not when that is over.
 */

#include "agent/queue/node_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "spool/agent_history.h"
#include "spool/agent_status.h"
#include "spool/claim.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"

#define CHECK_HEARTBEATS	3    /* so long one that may have our name is listened to... */
#define CHECK_NODE_MS		2000 /* ... or this, on the same node: it may be ending */
#define CHECK_STEP_MS		200
#define OPEN_AGAIN_MS		5000   /* the disk may come, or become writable */
#define QUIET_HEARTBEATS	1      /* from then on the claims of an agent are watched, too */
#define SILENT_HEARTBEATS	3      /* from then on nothing is asked of it, ... */
#define SILENT_LEAST_MS		5000   /* but not sooner: a machine may be busy */
#define NETWORK_EXPIRE_MS	60000U /* for so long a directory's cache may hide what is new... */
#define NETWORK_MORE_HEARTBEATS 3      /* ... and so many heartbeats may get lost */
#define ELEMENT_FILE_MAX	65536

struct other {
	struct heartbeat heartbeat;
	char agent[NAME_AGENT_MAX + 1];
	uint64_t silent_ms;
	enum liveness life;
	size_t n_claims;
};

struct looker {
	const struct agent_config *c;
	const char *agent;
	uint64_t heartbeat_ms,
		expire_ms; /* the latter as it is on this filesystem, once that is open */
	struct spool *sp;
	struct heartbeat_watch *watch;
	struct claimer self;
	uint64_t count;
	uint64_t began_ns;
	bool named;
	uint64_t check_ns; /* the one that may have our name was seen first then */
	uint64_t check_count;
	bool wrote;	       /* the last heartbeat got into the file */
	struct claimer rival;  /* who was in that file instead, ... */
	uint64_t rival_count;  /* ... with this count */
	struct text_list told; /* claims of which it was said that nobody knows */
	char *status;	       /* as it was written last; NULL: it is to be written */
	char *history;	       /* that could not be written yet; NULL: none */
};

struct look {
	uv_work_t work;
	struct node_watch *b;
	struct heartbeat own; /* in: what is to be told */
	char *status;	      /* in: the same of the status; or NULL */
	char *history;	      /* in: the day of its devices, where it is due; else NULL */
	bool last, remove;    /* in: it ends; and nothing runs on */
	/* Found. */
	size_t n;
	struct other *others;
	struct dead_claims dead;
	struct strbuf notes;
	bool unread; /* a claim could not be read, and may be anybody's */
	bool clash;
	struct err e;
};

void dead_claims_add(struct dead_claims *d, const char *path, enum dead_how how)
{
	d->all = xrealloc(d->all, d->n + 1, sizeof(*d->all));
	d->all[d->n++] = (struct dead_claim){ .path = xstrdup(path), .how = how };
}

void dead_claims_clear(struct dead_claims *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->all[i].path);
	free(d->all);
	*d = (struct dead_claims){ 0 };
}

struct node_watch {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct eventlog *eventlog;
	const struct node_watch_ops *ops;
	void *user;
	struct looker lk;
	struct look *look; /* the one that runs */
	bool ending, runs_on, ended, named, soon;
	uint64_t fence_timeout_ms;
	size_t n; /* of the last look */
	struct other *others;
	char trouble[ERR_TEXT_MAX];
};

/* ---- the name ---- */

static int clash(struct looker *lk, const struct heartbeat *b, struct err *e)
{
	if (strcmp(b->who.boot, spool_boot(lk->sp)) == 0)
		return err_set(
			e, -EADDRINUSE,
			"another agent on this node serves this instance already: PID %d, which "
			"was started with another --runtime-dir or --dev-dir; tenure off with "
			"those ends it, or --node-name gives this one a name of its own",
			(int)b->who.proc.pid);
	return err_set(e, -EADDRINUSE,
		       "another node, with the host name %s, serves this instance under the name "
		       "%s; give one of them another name: node_name in its config.yaml, or "
		       "--node-name",
		       b->who.host, lk->agent);
}

static bool is_us(const struct looker *lk, const struct claimer *who)
{
	return strcmp(who->boot, lk->self.boot) == 0 && who->proc.pid == lk->self.proc.pid &&
	       who->proc.start == lk->self.proc.start;
}

/*
 * It is there, as far as its file says: 1 while it is listened to, 0 when that was for nothing. On
 * a disk of this node a file stays empty no longer than its writer lives, or it was cut when the
 * power failed.
 */
static int listen_to(struct looker *lk, const struct heartbeat *b, struct err *e)
{
	bool here = strcmp(b->who.boot, spool_boot(lk->sp)) == 0;
	bool cut = !b->who.boot[0] && !spool_is_network(lk->sp);
	uint64_t limit_ms = here || cut ? CHECK_NODE_MS : CHECK_HEARTBEATS * lk->heartbeat_ms;
	uint64_t now = clock_boot_ns();

	if (!lk->check_ns) {
		lk->check_ns = now;
		lk->check_count = b->count;
	}
	if (!here && b->count != lk->check_count)
		return clash(lk, b, e);
	if (now - lk->check_ns < limit_ms * NS_PER_MS)
		return 1;
	return here ? clash(lk, b, e) : 0;
}

/* It was read, and nobody's agent wrote it. */
static bool is_no_heartbeat(int r)
{
	return r == -EINVAL || r == -EFBIG || r == -EPERM || r == -ELOOP;
}

/* 0: the name is ours; 1: not known yet; -EADDRINUSE, or why it cannot be told. */
static int check_name(struct looker *lk, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b = { .count = 0 };
	int r = heartbeat_read(lk->sp, heartbeat_agent_path(lk->agent, path), &b, NULL, e);

	if (r < 0 && r != -ENOENT && r != -EAGAIN && !is_no_heartbeat(r))
		return r; /* it cannot be told now */
	*e = (struct err)ERR_INIT;
	if (r == -ENOENT) /* unless a cache says so, for it was not there a moment ago */
		return spool_lists(lk->sp, SPOOL_AGENTS, lk->agent, e);
	if (is_no_heartbeat(r))
		return 0;
	if (lk->count < b.count)
		lk->count = b.count; /* it resumes from there, so that it is seen to move */
	if (b.ended || is_us(lk, &b.who))
		return 0;
	if (r == 0 && strcmp(b.who.boot, spool_boot(lk->sp)) == 0 && !proc_alive(&b.who.proc))
		return 0;
	if (r == 0 && !spool_is_network(lk->sp) &&
	    !heartbeat_same_kernel(b.who.boot, spool_boot(lk->sp)))
		return 0; /* before this kernel was started */
	return listen_to(lk, &b, e);
}

/* Who is in our file lives: he wrote it after us, or goes on writing it. Else he is one before us,
 * over whom we could not write yet. */
static bool is_rival(struct looker *lk, const struct heartbeat *b)
{
	bool same = strcmp(b->who.boot, lk->rival.boot) == 0 &&
		    b->who.proc.pid == lk->rival.proc.pid &&
		    b->who.proc.start == lk->rival.proc.start;
	bool moved = lk->wrote || (same && b->count != lk->rival_count);

	lk->rival = b->who;
	lk->rival_count = b->count;
	return moved && (strcmp(b->who.boot, spool_boot(lk->sp)) != 0 || proc_alive(&b->who.proc));
}

/* Two that began in the same moment found no one; the order of boots and PIDs says who stays. */
static bool was_overtaken(struct looker *lk, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b;
	int order;

	if (heartbeat_read(lk->sp, heartbeat_agent_path(lk->agent, path), &b, NULL, NULL) < 0 ||
	    is_us(lk, &b.who) || b.ended || !is_rival(lk, &b))
		return false;
	order = strcmp(b.who.boot, lk->self.boot);
	if (order > 0 || (order == 0 && b.who.proc.pid > lk->self.proc.pid))
		return false;
	return clash(lk, &b, e) < 0;
}

/* ---- agents ---- */

static bool person_said_gone(const struct spool *sp, const char *agent, const char *boot)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b;

	return heartbeat_read(sp, heartbeat_declared_dead_path(agent, path), &b, NULL, NULL) == 0 &&
	       strcmp(b.who.boot, boot) == 0;
}

/* A file that is empty or torn, because it is being written, does not say of which boot it is: that
 * is no proof of an earlier one, and only the time for which it stays so counts. */
static struct liveness_facts facts_about(const struct looker *lk, const struct claimer *who,
					 uint64_t silent_ms, uint64_t fence_timeout_ms)
{
	bool local = !spool_is_network(lk->sp), known = who->boot[0];
	struct liveness_facts f = {
		.same_node = strcmp(who->boot, spool_boot(lk->sp)) == 0,
		.same_kernel = known ? heartbeat_same_kernel(who->boot, spool_boot(lk->sp)) : local,
		.local_files = known && local,
		.gone = person_said_gone(lk->sp, who->agent, who->boot),
		.tool = who->tool,
		.silent_ms = silent_ms,
		.fence_timeout_ms = fence_timeout_ms,
		.expire_ms = lk->expire_ms
	};

	f.runs = f.same_node && proc_alive(&who->proc);
	return f;
}

struct looking {
	struct looker *lk;
	struct look *l;
};

static int look_at_agent(void *data, const char *agent)
{
	struct looking *g = data;
	struct look *l = g->l;
	char path[SPOOL_PATH_MAX];
	struct other o = { .life = LIVENESS_UNKNOWN };

	if (strcmp(agent, g->lk->agent) == 0)
		return 0;
	/* Empty, or torn: it is there, and nothing more is known. */
	(void)heartbeat_read(g->lk->sp, heartbeat_agent_path(agent, path), &o.heartbeat, NULL,
			     NULL);
	(void)str_copy(o.agent, sizeof(o.agent), agent);
	(void)str_copy(o.heartbeat.who.agent, sizeof(o.heartbeat.who.agent), agent);
	o.silent_ms = heartbeat_watch_see(g->lk->watch, path, o.heartbeat.count);
	if (o.heartbeat.ended) {
		o.life = LIVENESS_DEAD;
	} else {
		struct liveness_facts f = facts_about(g->lk, &o.heartbeat.who, o.silent_ms,
						      o.heartbeat.fence_timeout_ms);

		o.life = liveness_judge(&f);
	}
	l->others = xrealloc(l->others, l->n + 1, sizeof(*l->others));
	l->others[l->n++] = o;
	return 0;
}

static struct other *find_other(const struct look *l, const char *agent)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->others[i].agent, agent) == 0)
			return &l->others[i];
	return NULL;
}

/* ---- claims ---- */

/* Who has the claim: of a single task the name says it, but for the process. 0; -ENOENT: it is
 * gone; or negative. */
static int read_claimer(const struct spool *sp, const struct task_name *n, const char *path,
			struct claimer *ret)
{
	cleanup_free char *text = NULL;
	struct task_history h = { .epoch = 0 };
	struct task_file t;
	size_t len;
	int r = n->element ? spool_read(sp, path, ELEMENT_FILE_MAX, &text, &len, NULL)
			   : task_file_read(sp, path, &t, NULL);

	if (r < 0)
		return spool_confirm(sp, path, r, NULL);
	if (n->element) {
		history_read(text, len, &h, NULL);
	} else {
		h = t.history;
		task_file_clear(&t);
	}
	/* Else the file speaks of an earlier claim, or is just being written. */
	if (h.claimed || h.ended)
		*ret = h.claimer;
	if (!ret->agent[0])
		(void)str_copy(ret->agent, sizeof(ret->agent), n->agent);
	return 0;
}

static void tell_unknown(struct looking *g, const struct task_name *n, const char *path,
			 const struct claimer *who)
{
	for (size_t i = 0; i < g->lk->told.n; i++)
		if (strcmp(g->lk->told.texts[i], path) == 0)
			return;
	text_list_add(&g->lk->told, path);
	strbuf_addf(
		&g->l->notes,
		"task %llu runs on %s, which was alone with the queue when it was last heard of, "
		"so the task may run on there, cut off; if that node does not exist any more: "
		"tenure shutdown --gone %s\n",
		(unsigned long long)n->id, who->agent, who->agent);
}

static void judge_claim(struct looking *g, const struct task_name *n, const char *path,
			const struct other *o, const struct claimer *who)
{
	char heartbeat_path[SPOOL_PATH_MAX], end_path[SPOOL_PATH_MAX];
	struct heartbeat b = { .fence_timeout_ms = o ? o->heartbeat.fence_timeout_ms : 0 };
	struct liveness_facts f;
	uint64_t silent_ms;

	(void)heartbeat_read(g->lk->sp, heartbeat_claim_path(n, heartbeat_path), &b, NULL, NULL);
	silent_ms = heartbeat_watch_see(g->lk->watch, heartbeat_path, b.count);
	if (o && o->life == LIVENESS_ALIVE)
		return;
	if (o && !who->boot[0]) /* the agent died before it wrote its claim down */
		who = &o->heartbeat.who;
	f = facts_about(g->lk, who, silent_ms, b.fence_timeout_ms);

	enum liveness life = liveness_judge(&f);

	/* Nobody has filled it for so long: who does so now finds that it was taken back. */
	if (!who->boot[0] && n->element) {
		if (silent_ms > g->lk->expire_ms)
			dead_claims_add(&g->l->dead, path, CLAIM_NEVER_WRITTEN);
		return;
	}
	if (life == LIVENESS_DEAD || spool_exists(g->lk->sp, heartbeat_end_path(n, end_path)))
		dead_claims_add(&g->l->dead, path, HOLDER_DEAD);
	else if (life == LIVENESS_UNKNOWN)
		tell_unknown(g, n, path, who);
}

/* Of a claim that was given up and believed to be removed, as a cache may say, nobody else would
 * ever hear. One that an attempt has is known to whoever is told. */
static void look_at_own(struct looking *g, const char *path)
{
	if (heartbeat_watch_see(g->lk->watch, path, 0) > g->lk->expire_ms)
		dead_claims_add(&g->l->dead, path, OWN_UNJUDGED);
}

static int look_at_claim(void *data, const char *file, unsigned char type)
{
	struct looking *g = data;
	struct claimer who = { .host = "" };
	char path[SPOOL_PATH_MAX];
	struct task_name n;
	int r;

	if (!name_parse(file, &n))
		return 0;
	(void)str_copy(who.agent, sizeof(who.agent), n.agent);
	(void)spool_path(SPOOL_RUNNING, file, path);
	if (strcmp(n.agent, g->lk->agent) == 0) {
		look_at_own(g, path);
		return 0;
	}
	if (n.element && (r = read_claimer(g->lk->sp, &n, path, &who)) < 0) {
		g->l->unread = g->l->unread || (r != -ENOENT && !spool_is_bad(r));
		return 0;
	}

	struct other *o = find_other(g->l, who.agent);

	if (strcmp(who.agent, g->lk->agent) == 0) {
		if (is_us(g->lk, &who)) /* else its shim has it */
			look_at_own(g, path);
		return 0;
	}
	if (o)
		o->n_claims++;
	if (o && o->life == LIVENESS_ALIVE && o->silent_ms < QUIET_HEARTBEATS * g->lk->heartbeat_ms)
		return 0;
	if (n.element || read_claimer(g->lk->sp, &n, path, &who) == 0)
		judge_claim(g, &n, path, o, &who);
	return 0;
}

/* Who has ended and left nothing is forgotten. Without his file his lanes are free. */
static void clear_away(struct looking *g)
{
	char path[SPOOL_PATH_MAX];

	if (g->l->unread)
		return;
	for (size_t i = 0; i < g->l->n; i++) {
		const struct other *o = &g->l->others[i];

		if (o->life != LIVENESS_DEAD || o->n_claims)
			continue;
		if (!o->heartbeat.ended)
			strbuf_addf(&g->l->notes, "the agent %s is not there any more\n", o->agent);
		(void)spool_remove(g->lk->sp, agent_status_path(o->agent, path));
		(void)spool_remove(g->lk->sp, agent_history_path(o->agent, path));
		(void)spool_remove(g->lk->sp, heartbeat_agent_path(o->agent, path));
		(void)spool_remove(g->lk->sp, heartbeat_declared_dead_path(o->agent, path));
	}
}

/* ---- a look ---- */

static bool somebody_is_there(const struct look *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->others[i].life != LIVENESS_DEAD)
			return true;
	return false;
}

/* The first one of a look; said without the name that the file has while it is written, which is
 * another one each time: it is told again when it changes. */
static void note_unwritten(struct look *l, const char *path, int r)
{
	if (!l->e.code)
		(void)err_set(&l->e, r,
			      "other nodes are not told how this one is: %s cannot be written: %s",
			      path, strerror(-r));
}

/* Behind the heartbeat: who reads it finds one that lives. Who took us for dead has removed it
 * (and its day, which is written when it is due). */
static void write_status(struct looker *lk, struct look *l)
{
	char path[SPOOL_PATH_MAX];
	int r;

	(void)agent_status_path(lk->agent, path);
	if (!l->status ||
	    (lk->status && strcmp(lk->status, l->status) == 0 && spool_exists(lk->sp, path)))
		return;
	free(take_ptr(lk->status));
	r = agent_status_write(lk->sp, lk->agent, l->status, NULL);
	if (r == 0)
		lk->status = take_ptr(l->status);
	else
		note_unwritten(l, path, r);
}

/* One that cannot be written is kept until it can, or the next one is there. */
static void write_history(struct looker *lk, struct look *l)
{
	char path[SPOOL_PATH_MAX];
	int r = lk->history ? agent_history_write(lk->sp, lk->agent, lk->history, NULL) : 0;

	if (r == 0)
		free(take_ptr(lk->history));
	else
		note_unwritten(l, agent_history_path(lk->agent, path), r);
}

static int write_own(struct looker *lk, struct look *l)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b = l->own;
	int r;

	/* Whoever said that we are not there any more was mistaken, or it was one before us. */
	if (!l->last)
		(void)spool_remove(lk->sp, heartbeat_declared_dead_path(lk->agent, path));
	if (l->last && l->remove) {
		(void)spool_remove(lk->sp, agent_status_path(lk->agent, path));
		(void)spool_remove(lk->sp, agent_history_path(lk->agent, path));
	}
	(void)heartbeat_agent_path(lk->agent, path);
	if (l->last && l->remove) {
		r = spool_remove(lk->sp, path);
		return r == -ENOENT ? 0 : r;
	}
	b.who = lk->self;
	b.began_ns = lk->began_ns;
	b.count = lk->count + 1;
	b.ended = l->last;
	b.fence_timeout_ms = lk->c->job || somebody_is_there(l) ? lk->expire_ms : 0;
	r = heartbeat_write(lk->sp, path, &b, &l->e);
	lk->wrote = r == 0;
	if (r == 0) {
		lk->count++;
		write_status(lk, l);
		write_history(lk, l);
	}
	return r;
}

static int open_spool(struct looker *lk, struct err *e)
{
	int r = lk->sp ? 0
		       : spool_open(lk->c->root, lk->c->instance, &lk->c->trust, SPOOL_CREATE,
				    &lk->sp, e);

	if (r < 0 || lk->self.agent[0])
		return r;
	if (spool_is_network(lk->sp) &&
	    lk->expire_ms < NETWORK_EXPIRE_MS + NETWORK_MORE_HEARTBEATS * lk->heartbeat_ms)
		lk->expire_ms = NETWORK_EXPIRE_MS + NETWORK_MORE_HEARTBEATS * lk->heartbeat_ms;
	return claimer_self(lk->sp, lk->agent, &lk->self, e);
}

static void look_around(struct looking *g)
{
	struct look *l = g->l;

	heartbeat_watch_begin(g->lk->watch, clock_boot_ns());
	if (heartbeat_each_agent(g->lk->sp, look_at_agent, g, &l->e) == 0 &&
	    spool_each(g->lk->sp, spool_dir_name(SPOOL_RUNNING), look_at_claim, g, &l->e) == 0)
		clear_away(g);
	heartbeat_watch_finish(g->lk->watch);
}

/* It was moved, or removed: what is open is served to its end, and what is submitted goes
 * elsewhere. */
static void look_at_place(const struct looker *lk, struct err *e)
{
	bool other;

	if (!spool_was_replaced(lk->sp, &other))
		return;
	(void)err_set(
		e, -ESTALE,
		"%s is %s: the queue that this agent serves was moved or removed, and no "
		"command finds it; tenure off ends this agent, tenure on serves what is there",
		spool_path_of(lk->sp), other ? "another directory now" : "not there any more");
}

static void look_at_all(struct looker *lk, struct look *l)
{
	struct looking g = { lk, l };
	int r = open_spool(lk, &l->e);

	if (r == 0 && !lk->named) {
		r = l->last ? 1 : check_name(lk, &l->e);
		lk->named = r == 0;
	} else if (r == 0 && was_overtaken(lk, &l->e)) {
		r = -EADDRINUSE;
	}
	l->clash = r == -EADDRINUSE;
	if (r != 0)
		return;
	if (!l->last)
		look_around(&g);
	if (write_own(lk, l) == 0 && !l->last && !l->e.code)
		look_at_place(lk, &l->e);
}

static void look_work(uv_work_t *work)
{
	struct look *l = work->data;
	struct looker *lk = &l->b->lk;

	if (l->history) {
		free(lk->history);
		lk->history = take_ptr(l->history);
	}
	look_at_all(lk, l);
	if (l->last || l->clash) /* here, where it may wait for its server */
		lk->sp = spool_close(lk->sp);
}

/* ---- on the loop ---- */

static void begin(struct node_watch *b);

static void on_timer(uv_timer_t *timer)
{
	begin(timer->data);
}

/* Said when it begins and when it changes. */
static void tell_trouble(struct node_watch *b, const struct err *e)
{
	if (e->code && strcmp(b->trouble, e->text) != 0)
		eventlog_say(b->eventlog, LOG_LEVEL_WARNING, "%s", e->text);
	(void)str_copy(b->trouble, sizeof(b->trouble), e->code ? e->text : "");
}

/* It has not told that it ends. Others have what it ran. */
static void tell_lost(struct node_watch *b, const struct other *is)
{
	char why[64];

	(void)str_print(why, sizeof(why), "no heartbeat of it for %.0f s",
			(double)is->silent_ms / 1e3);
	eventlog_tell(b->eventlog, OWN_NODE_LOST,
		      json_pack("{so so ss}", "agent", json_new_text(is->agent), "host",
				json_new_text(is->heartbeat.who.host), "why", why));
}

/* Some agent was alive at the last look, and is not in this one. */
static bool somebody_left(struct node_watch *b, const struct look *l)
{
	bool left = false;

	for (size_t i = 0; i < b->n; i++) {
		const struct other *was = &b->others[i];
		const struct other *is = find_other(l, was->agent);

		if (was->life != LIVENESS_ALIVE || (is && is->life == LIVENESS_ALIVE))
			continue;
		left = true;
		if (is && is->life == LIVENESS_DEAD && !is->heartbeat.ended)
			tell_lost(b, is);
	}
	return left;
}

static void take_findings(struct node_watch *b, struct look *l)
{
	bool named = b->lk.named && !b->named;
	bool left = !l->last && !l->e.code && somebody_left(b, l);

	free(b->others);
	b->others = take_ptr(l->others);
	b->n = l->n;
	b->fence_timeout_ms = b->lk.expire_ms;
	eventlog_say_lines(b->eventlog, LOG_LEVEL_WARNING, strbuf_str(&l->notes));
	if (l->clash) {
		/* Who has never had the name takes it when the other one has ended. */
		b->ended = b->ended || b->named;
		b->lk.check_ns = 0;
		b->ops->clash(b->user, &l->e);
		return;
	}
	if (!b->lk.named && l->e.code)
		b->ops->no_spool(b->user, &l->e);
	else
		tell_trouble(b, &l->e);
	if (named) {
		b->named = true;
		b->ops->named(b->user);
	}
	if (left && !b->ending)
		b->ops->left(b->user);
	if (l->dead.n && !b->ending)
		b->ops->dead(b->user, &l->dead);
}

static void look_done(uv_work_t *work, int status)
{
	struct look *l = work->data;
	struct node_watch *b = l->b;
	uint64_t wait_ms = b->lk.heartbeat_ms;

	b->look = NULL;
	b->ended = b->ended || l->last;
	take_findings(b, l);
	free(l->others);
	free(l->status);
	dead_claims_clear(&l->dead);
	strbuf_clear(&l->notes);
	free(l);
	if (b->ended)
		return;
	if (b->ending || (b->soon && b->named)) {
		begin(b);
		return;
	}
	if (!b->named && wait_ms > (b->lk.sp ? CHECK_STEP_MS : OPEN_AGAIN_MS))
		wait_ms = b->lk.sp ? CHECK_STEP_MS : OPEN_AGAIN_MS;
	(void)uv_timer_start(&b->timer, on_timer, wait_ms, 0);
}

static void begin(struct node_watch *b)
{
	struct look *l;

	if (b->look || b->ended)
		return;
	l = xcalloc(1, sizeof(*l));
	l->b = b;
	l->work.data = l;
	l->last = b->ending;
	l->remove = !b->runs_on;
	b->ops->fill(b->user, &l->own);
	l->status = b->ops->status(b->user);
	l->history = l->last && l->remove ? NULL : b->ops->history(b->user, l->last);
	b->look = l;
	b->soon = false;
	(void)uv_timer_stop(&b->timer);
	if (uv_queue_work(b->loop, &l->work, look_work, look_done) < 0) {
		b->look = NULL;
		free(l->status);
		free(l->history);
		free(l);
	}
}

struct node_watch *node_watch_new(uv_loop_t *loop, const struct agent_config *c,
				  const struct node_self *self, struct eventlog *eventlog,
				  const struct node_watch_ops *ops, void *user)
{
	struct node_watch *b = xcalloc(1, sizeof(*b));

	b->loop = loop;
	b->eventlog = eventlog;
	b->ops = ops;
	b->user = user;
	b->lk = (struct looker){ .c = c,
				 .agent = self->name,
				 .heartbeat_ms = c->heartbeat_ms,
				 .expire_ms = c->expire_ms,
				 .watch = heartbeat_watch_new(c->heartbeat_ms),
				 .began_ns = clock_wall_ns() };
	b->fence_timeout_ms = c->expire_ms;
	(void)uv_timer_init(loop, &b->timer);
	b->timer.data = b;
	return b;
}

void node_watch_start(struct node_watch *b)
{
	begin(b);
}

void node_watch_soon(struct node_watch *b)
{
	b->soon = true;
	if (b->named)
		begin(b);
}

void node_watch_end(struct node_watch *b, bool runs_on)
{
	if (b->ending)
		return;
	b->ending = true;
	b->runs_on = runs_on;
	begin(b);
}

bool node_watch_are_quiet(const struct node_watch *b)
{
	return !b->look;
}

uint64_t node_watch_fence_timeout_ms(const struct node_watch *b)
{
	return b->fence_timeout_ms;
}

size_t node_watch_nodes(const struct node_watch *b, struct capacity_node **ret)
{
	size_t n = 0;

	*ret = xcalloc(b->n + 1, sizeof(**ret));
	for (size_t i = 0; i < b->n; i++) {
		const struct other *o = &b->others[i];

		if (o->life != LIVENESS_ALIVE)
			continue;
		(*ret)[n] =
			(struct capacity_node){ .lives = true, .devices = o->heartbeat.devices };
		(void)str_copy((*ret)[n++].agent, sizeof((*ret)->agent), o->agent);
	}
	return n;
}

size_t node_watch_peers(const struct node_watch *b, struct node_peer **ret)
{
	uint64_t quiet_ms = SILENT_HEARTBEATS * b->lk.heartbeat_ms;
	size_t n = 0;

	quiet_ms = quiet_ms > SILENT_LEAST_MS ? quiet_ms : SILENT_LEAST_MS;

	*ret = xcalloc(b->n + 1, sizeof(**ret));
	for (size_t i = 0; i < b->n; i++) {
		const struct other *o = &b->others[i];

		if (o->life != LIVENESS_ALIVE)
			continue;
		(*ret)[n] = (struct node_peer){ .draining = o->heartbeat.draining,
						.quiet = o->silent_ms > quiet_ms };
		(void)str_copy((*ret)[n++].agent, sizeof((*ret)->agent), o->agent);
	}
	return n;
}

json_t *node_watch_report(const struct node_watch *b)
{
	static const char *const words[] = {
		[LIVENESS_ALIVE] = "alive", [LIVENESS_DEAD] = "gone", [LIVENESS_UNKNOWN] = "unknown"
	};
	json_t *all = json_array();

	for (size_t i = 0; i < b->n; i++) {
		const struct other *o = &b->others[i];

		(void)json_array_append_new(
			all,
			json_pack("{ss ss ss sf si si si si si sb}", "agent", o->agent, "host",
				  o->heartbeat.who.host, "state",
				  o->heartbeat.ended ? "off" : words[o->life], "quiet_s",
				  (double)o->silent_ms / 1000, "devices", (int)o->heartbeat.devices,
				  "held", (int)o->heartbeat.held, "idle", (int)o->heartbeat.idle,
				  "lent", (int)o->heartbeat.lent, "running",
				  (int)o->heartbeat.running, "draining", o->heartbeat.draining));
	}
	return all;
}

static void on_closed(uv_handle_t *h)
{
	struct node_watch *b = h->data;

	free(b->others);
	free(b);
}

int node_watch_free(struct node_watch *b)
{
	if (!b)
		return 0;
	if (b->look)
		return -EBUSY;
	b->lk.sp = spool_close(b->lk.sp);
	(void)heartbeat_watch_free(b->lk.watch);
	text_list_clear(&b->lk.told);
	free(b->lk.status);
	free(b->lk.history);
	uv_close((uv_handle_t *)&b->timer, on_closed);
	return 0;
}
