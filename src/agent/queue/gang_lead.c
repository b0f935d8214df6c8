/* SPDX-License-Identifier: MIT */
#include "agent/queue/gang_lead.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/queue/cancel.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "sched/fit.h"
#include "spool/agent_status.h"
#include "spool/heartbeat.h"
#include "task/claim_names.h"

#define SETTLED_MS 3000 /* in so long what was called is seen in the status of its agents */

/* What one look knows of a gang. */
struct seen {
	uint64_t id;
	const struct gang *g;	 /* of the look's; NULL: nothing was called */
	struct place_batch *b;	 /* NULL: it does not wait */
	struct gang_facts facts; /* its ranks are ours */
	struct gang_rank_facts *ranks;
};

/* What is remembered of one. */
struct memory {
	struct memory *next;
	uint64_t id, generation;
	enum gang_phase phase;
	uint64_t since_ns;     /* monotonic: the phase */
	unsigned int failures; /* generations in a row that came to nothing */
	uint64_t until_ns;     /* monotonic: nothing is called before */
	char avoid[NAME_AGENT_MAX + 1];
	char reason[RECORD_REASON_MAX]; /* of the last failure */
	uint64_t seen;			/* by which look */
};

struct gang_lead {
	struct gang_limits limits;
	uint64_t status_ms, read_ns;
	char *read_of; /* the names whose status was read */
	size_t n;
	struct agent_status **all; /* of those that know gangs */
	struct memory *memory;
	uint64_t look;
};

struct looking {
	struct gang_lead *m;
	struct gang_look *l;
	struct spool_place *place;
	uint64_t now_ns, now_wall_ns;
	bool leads, acted;
	size_t n_busy;
	char busy[16][SPEC_NAME_MAX + 1]; /* pools in which a gang is brought together */
};

/* ---- what is remembered ---- */

struct gang_lead *gang_lead_new(const struct gang_limits *limits, uint64_t status_ms)
{
	struct gang_lead *m = xcalloc(1, sizeof(*m));

	m->limits = *limits;
	m->status_ms = status_ms;
	return m;
}

static void forget_status(struct gang_lead *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->all[i]);
	free(take_ptr(m->all));
	free(take_ptr(m->read_of));
	m->n = 0;
}

struct gang_lead *gang_lead_free(struct gang_lead *m)
{
	if (!m)
		return NULL;
	forget_status(m);
	while (m->memory) {
		struct memory *gone = m->memory;

		m->memory = gone->next;
		free(gone);
	}
	free(m);
	return NULL;
}

static struct memory *memory_of(const struct looking *k, uint64_t id)
{
	struct memory *m = k->m->memory;

	while (m && m->id != id)
		m = m->next;
	if (!m) {
		m = xcalloc(1, sizeof(*m));
		m->id = id;
		m->since_ns = k->now_ns;
		m->next = k->m->memory;
		k->m->memory = m;
	}
	m->seen = k->m->look;
	return m;
}

static void forget_unseen(struct gang_lead *m)
{
	for (struct memory **at = &m->memory; *at;) {
		struct memory *one = *at;

		if (one->seen == m->look) {
			at = &one->next;
			continue;
		}
		*at = one->next;
		free(one);
	}
}

/* ---- who is there ---- */

static void read_status(struct looking *k, const char *agent)
{
	struct agent_status *s = xcalloc(1, sizeof(*s));

	if (agent_status_read(k->place->spool, agent, s, NULL) < 0 || !s->knows_gangs) {
		free(s);
		return;
	}
	k->m->all = xrealloc(k->m->all, k->m->n + 1, sizeof(struct agent_status *));
	k->m->all[k->m->n++] = s;
}

/* At most once a heartbeat, since they are not written more often; but at once where somebody has
 * come or gone. */
static void read_statuses(struct looking *k)
{
	const struct gang_look *l = k->l;
	cleanup_strbuf struct strbuf names = STRBUF_INIT;

	strbuf_adds(&names, l->agent);
	for (size_t i = 0; i < l->n_peers; i++)
		strbuf_addf(&names, "/%s", l->peers[i].agent);
	if (k->m->read_of && strcmp(k->m->read_of, strbuf_str(&names)) == 0 &&
	    k->now_ns - k->m->read_ns < k->m->status_ms * NS_PER_MS)
		return;
	forget_status(k->m);
	k->m->read_of = strbuf_take(&names);
	k->m->read_ns = k->now_ns;
	read_status(k, l->agent);
	for (size_t i = 0; i < l->n_peers; i++)
		read_status(k, l->peers[i].agent);
}

static const struct node_peer *peer_of(const struct looking *k, const char *agent)
{
	for (size_t i = 0; i < k->l->n_peers; i++)
		if (strcmp(k->l->peers[i].agent, agent) == 0)
			return &k->l->peers[i];
	return NULL;
}

/* As far as others can rely on it: claims of one that is silent expire much later. */
static bool lives(const struct looking *k, const char *agent)
{
	const struct node_peer *peer = peer_of(k, agent);

	return strcmp(agent, k->l->agent) == 0 || (peer && !peer->quiet);
}

/* One of before knows nothing of it, whatever it is called. */
static bool is_leader(const struct looking *k)
{
	for (size_t i = 0; i < k->m->n; i++)
		if (strcmp(k->m->all[i]->agent, k->l->agent) < 0 && lives(k, k->m->all[i]->agent))
			return false;
	return k->l->known;
}

static const char *pool_of(const struct looking *k, const char *agent)
{
	for (size_t i = 0; i < k->m->n; i++)
		if (strcmp(k->m->all[i]->agent, agent) == 0)
			return k->m->all[i]->pool;
	return "";
}

static bool is_busy(const struct looking *k, const char *pool)
{
	for (size_t i = 0; i < k->n_busy; i++)
		if (strcmp(k->busy[i], pool) == 0)
			return true;
	return k->n_busy == ARRAY_LEN(k->busy);
}

static void mark_busy(struct looking *k, const struct gang *g)
{
	const char *pool = g && g->n ? pool_of(k, g->ranks[0].agent) : "";

	if (!is_busy(k, pool))
		(void)str_copy(k->busy[k->n_busy++], sizeof(k->busy[0]), pool);
}

/* On each device; 0: whole ones. */
static uint64_t memory_asked(const struct place_batch *b)
{
	uint64_t most = batch_memory_most(b->batch);

	return most ? most : b->spec->memory == SPEC_AUTO ? 0 : b->spec->memory;
}

/* What it has of devices that would do. */
static struct gang_node node_of(const struct looking *k, const struct agent_status *s,
				const struct place_batch *b, const char *avoid)
{
	static const char *const never[] = { "left", "unseen" }, *const used[] = { "lent",
										   "lending" };
	struct gang_node node = { .agent = s->agent,
				  .pool = s->pool,
				  .busy = is_busy(k, s->pool),
				  .avoid = strcmp(s->agent, avoid) == 0 };
	const struct task_spec *spec = b->spec;
	uint64_t memory = memory_asked(b);
	unsigned int unused = 0;

	for (unsigned int i = 0; i < s->n_devices; i++) {
		const struct agent_status_device *d = &s->devices[i];
		bool no = !fit_model(spec->model ? spec->model : "", d->model) ||
			  (d->mem_bytes && d->mem_bytes < memory) || d->shut;
		bool lent = false;

		for (size_t j = 0; j < ARRAY_LEN(never); j++)
			no = no || strcmp(d->state, never[j]) == 0;
		for (size_t j = 0; j < ARRAY_LEN(used); j++)
			lent = lent || strcmp(d->state, used[j]) == 0;
		node.usable += !no;
		unused += !no && !lent;
	}
	node.free = s->free < unused ? s->free : unused;
	return node;
}

/* As place_is_elsewhere() says of the agent itself. */
static bool is_for(const struct agent_status *s, const struct task_spec *spec)
{
	return spec->pool ? strcmp(spec->pool, s->pool) == 0 : !s->only;
}

/* Those that start something of it. */
static size_t nodes_for(const struct looking *k, const struct place_batch *b, const char *avoid,
			struct gang_node **ret)
{
	size_t n = 0;

	*ret = xcalloc(k->m->n + 1, sizeof(**ret));
	for (size_t i = 0; i < k->m->n; i++) {
		const struct node_peer *peer = peer_of(k, k->m->all[i]->agent);

		if (is_for(k->m->all[i], b->spec) && (!peer || !(peer->draining || peer->quiet)))
			(*ret)[n++] = node_of(k, k->m->all[i], b, avoid);
	}
	return n;
}

/* ---- what is the case ---- */

static enum gang_standing standing_of(enum batch_state state, bool later)
{
	switch (state) {
	case BATCH_DONE:
		return GANG_WELL;
	case BATCH_FAILED:
		return GANG_BADLY;
	case BATCH_CANCELLED:
		return GANG_STOPPED;
	default:
		return later ? GANG_REQUEUED : GANG_OPEN;
	}
}

static bool has_claim(const struct looking *k, uint64_t id, uint64_t element, uint64_t epoch)
{
	const struct task_name n = { .id = id, .element = element, .epoch = epoch };
	char file[NAME_FILE_MAX];

	return spool_is_there_now(k->place->spool, SPOOL_RUNNING, name_format(&n, file));
}

static void see_rank(const struct looking *k, struct seen *s, size_t i, bool ended_badly)
{
	const struct gang_rank *r = s->g ? &s->g->ranks[i] : NULL;
	struct gang_rank_facts *f = &s->ranks[i];
	struct gang_ending end;
	unsigned int attempts;
	uint64_t epoch = 0;

	if (s->b) {
		enum batch_state state = batch_state(s->b->batch, i + 1, &epoch, &attempts);

		f->standing = standing_of(state, r && epoch > r->epoch);
	}
	if (!r)
		return;
	f->lives = lives(k, r->agent);
	f->begun = r->reply.answer == GANG_BEGUN;
	f->ready = f->begun || r->reply.answer == GANG_READY;
	f->refuses = r->reply.answer == GANG_REFUSES;
	if (f->standing == GANG_REQUEUED && ended_badly)
		f->outside = gang_how_it_ended(k->place->spool, s->id, i + 1, r->epoch, &end) &&
			     end.outside;
	if (gang_wants_claims(&s->facts))
		f->claimed = has_claim(k, s->id, i + 1, r->epoch);
}

static const struct scan_task *file_of(const struct looking *k, uint64_t id)
{
	const struct scan_task *t = scan_find(k->place->scan, id, 0);

	return t && t->dir == SPOOL_PENDING ? t : NULL;
}

/* Ranks that took their devices for what the task said before, and others that do for what it says
 * now, are no one program. */
static bool is_changed(const struct looking *k, const struct gang *g)
{
	const struct scan_task *t = file_of(k, g->id);

	return t && (t->name.epoch != g->epoch || t->name.edits != g->edits);
}

static bool is_paused(const struct looking *k, uint64_t id)
{
	const struct scan_task *t = file_of(k, id);

	return t && t->name.flags & NAME_PAUSED;
}

/* 0; or negative: nothing can be said of it now. */
static int see(const struct looking *k, uint64_t id, const struct gang *g, struct seen *s)
{
	struct err e = ERR_INIT;

	*s = (struct seen){ .id = id, .g = g, .b = place_batch(k->place, id, &e) };
	if (!s->b && e.code != -ENOENT)
		return e.code;
	if (s->b && (!spec_is_gang(s->b->spec) || batch_refresh_now(s->b->batch, NULL) < 0))
		return -EAGAIN;
	s->facts = (struct gang_facts){ .waits = s->b,
					.called = g,
					.decided = g && g->decided,
					.go = g && g->go,
					.ended = g && g->ended,
					.changed = g && is_changed(k, g),
					.n = g	    ? g->n
					     : s->b ? s->b->spec->nodes
						    : 0 };
	if (s->b && s->facts.n > s->b->spec->nodes) /* it was called by a file that lies */
		s->facts.n = 0;
	s->ranks = xcalloc(s->facts.n + 1, sizeof(*s->ranks));
	s->facts.ranks = s->ranks;
	for (size_t i = 0; i < s->facts.n; i++)
		see_rank(k, s, i, s->b && batch_counts(s->b->batch).failed);
	return 0;
}

/* ---- words ---- */

static void say_rank(const struct seen *s, size_t i, struct strbuf *b)
{
	strbuf_addf(b, "rank %zu", i);
	if (s->g)
		strbuf_addf(b, " on %s", s->g->ranks[i].agent);
}

/* "rank 1 on beta failed (exit code 1, try 1 of 1); its log is logs/42.2-train.sh.1.log" */
static void say_ending(const struct looking *k, const struct seen *s, size_t i, struct strbuf *b)
{
	static const char *const words[] = { [GANG_BADLY] = "failed",
					     [GANG_STOPPED] = "was stopped",
					     [GANG_REQUEUED] = "has ended" };
	struct task_name n = { .id = s->id, .element = i + 1 };
	char log[SPOOL_PATH_MAX];
	struct gang_ending end;
	unsigned int attempts = 0;

	if (s->g)
		n.epoch = s->g->ranks[i].epoch;
	else if (s->b)
		(void)batch_state(s->b->batch, i + 1, &n.epoch, &attempts);
	say_rank(s, i, b);
	strbuf_addf(b, " %s", words[s->ranks[i].standing]);
	if (!gang_how_it_ended(k->place->spool, s->id, i + 1, n.epoch, &end))
		return;
	if (end.end.reason[0])
		strbuf_addf(b, " (%s)", end.end.reason);
	if (s->ranks[i].standing == GANG_BADLY && s->b)
		strbuf_addf(b, "; its log is %s",
			    names_log_path(&n, s->b->spec->name, end.end.attempt, log));
}

/* Of several that have ended the first, by the clocks of their nodes. */
static size_t first_ended(const struct looking *k, const struct seen *s, size_t found)
{
	uint64_t earliest = UINT64_MAX;
	size_t first = found;

	for (size_t i = found; s->g && i < s->facts.n; i++) {
		enum gang_standing is = s->ranks[i].standing;
		struct gang_ending end;

		if (is != GANG_BADLY && is != GANG_REQUEUED)
			continue;
		if (!gang_how_it_ended(k->place->spool, s->id, i + 1, s->g->ranks[i].epoch, &end) ||
		    end.end.ended_ns >= earliest)
			continue;
		earliest = end.end.ended_ns;
		first = i;
	}
	return first;
}

static void say_late(const struct looking *k, const struct seen *s, const struct gang_verdict *v,
		     struct strbuf *b)
{
	bool mustering = v->phase == GANG_MUSTERING;
	char limit[UNIT_TEXT_MAX];

	say_rank(s, v->rank, b);
	strbuf_addf(b, mustering ? " has not got its GPUs within %s" : " has not started within %s",
		    unit_format_duration(mustering ? k->m->limits.muster_ms : k->m->limits.start_ms,
					 limit));
}

static char *cause_of(const struct looking *k, const struct seen *s, const struct gang_verdict *v)
{
	struct strbuf b = STRBUF_INIT;
	size_t i = v->rank;

	if (v->event == GANG_GONE) {
		strbuf_adds(&b, "the task was stopped");
	} else if (v->event == GANG_CHANGED) {
		strbuf_addf(&b, "the task was %s", is_paused(k, s->id) ? "paused" : "changed");
	} else if (i >= s->facts.n) {
		strbuf_adds(&b, "what was called cannot be read");
	} else if (v->event == GANG_LATE) {
		say_late(k, s, v, &b);
	} else if (v->event == GANG_BETTER) {
		say_rank(s, i, &b);
		strbuf_adds(&b, " waits for GPUs, which other nodes have");
	} else if (s->ranks[i].standing == GANG_STOPPED) {
		say_ending(k, s, i, &b);
	} else if (s->ranks[i].standing != GANG_OPEN && s->ranks[i].standing != GANG_WELL) {
		say_ending(k, s, first_ended(k, s, i), &b);
	} else if (s->g && s->ranks[i].refuses) {
		say_rank(s, i, &b);
		strbuf_addf(&b, " cannot be started: %s", s->g->ranks[i].reply.reason);
	} else {
		say_rank(s, i, &b);
		strbuf_adds(&b,
			    s->ranks[i].lives ? " has ended" : ": its agent is not there any more");
	}
	return strbuf_take(&b);
}

/* ---- what the leader does ---- */

static void note(struct looking *k, uint64_t id, const char *what, const char *why)
{
	strbuf_addf(&k->l->notes, "task %" PRIu64 ": %s%s%s\n", id, what, why ? ": " : "",
		    why ? why : "");
}

static int act_go(struct looking *k, struct seen *s, struct memory *m, const char *why,
		  struct err *e)
{
	struct gang word = { .id = s->id, .generation = s->g->generation };
	const struct gang_reply *first = &s->g->ranks[0].reply;
	cleanup_free char *words = NULL;

	(void)str_copy(word.address, sizeof(word.address), first->address);
	word.port = first->port;
	(void)str_copy(word.reason, sizeof(word.reason), "rank 0 has told no address");
	words = xasprintf("all ranks have their GPUs; they start, and meet at %s port %u",
			  word.address, word.port);
	note(k, s->id, words, NULL);
	return gang_say(k->place->spool, &word, first->port != 0, e);
}

static void remember_failure(struct looking *k, const struct seen *s, struct memory *m,
			     const struct gang_verdict *v, const char *why)
{
	(void)str_copy(m->avoid, sizeof(m->avoid),
		       v->rank < s->facts.n ? s->g->ranks[v->rank].agent : "");
	/* There are nodes for it now; or it is its owner's doing. */
	if (v->event == GANG_BETTER || v->event == GANG_CHANGED)
		return;
	m->failures++;
	m->until_ns = k->now_ns + gang_backoff_ms(m->failures) * NS_PER_MS;
	(void)str_copy(m->reason, sizeof(m->reason), why);
}

static int act_withdraw(struct looking *k, struct seen *s, struct memory *m, const char *why,
			struct err *e)
{
	struct gang word = { .id = s->id, .generation = s->g->generation };

	(void)str_copy(word.reason, sizeof(word.reason), why);
	note(k, s->id, "its ranks are not started", why);
	return gang_say(k->place->spool, &word, false, e);
}

static int end_it(struct looking *k, struct seen *s, const char *why, bool again, struct err *e)
{
	struct gang end = { .id = s->id, .generation = s->g->generation };

	(void)str_copy(end.reason, sizeof(end.reason), why);
	note(k, s->id, "its ranks are ended", why);
	return gang_end(k->place->spool, &end, again, e);
}

static int act_end(struct looking *k, struct seen *s, struct memory *m, const char *why,
		   struct err *e)
{
	return end_it(k, s, why, true, e);
}

static int act_end_for_good(struct looking *k, struct seen *s, struct memory *m, const char *why,
			    struct err *e)
{
	return end_it(k, s, why, false, e);
}

/* For the reason that its end was given, where there is one. A rank that was ended for another one
 * has been run: it has a log. */
static int act_cancel_rest(struct looking *k, struct seen *s, struct memory *m, const char *why,
			   struct err *e)
{
	const char *reason = s->g && s->g->ended && s->g->reason[0] ? s->g->reason : why;
	int r = 0;

	for (size_t i = 0; i < s->facts.n && r >= 0; i++) {
		const struct task_name n = { .id = s->id, .element = i + 1 };
		struct cancel_how how = { .reason = reason };
		enum gang_standing is = s->ranks[i].standing;
		struct gang_ending end;

		if (is != GANG_OPEN && is != GANG_REQUEUED)
			continue;
		if (is == GANG_REQUEUED && s->g &&
		    gang_how_it_ended(k->place->spool, s->id, i + 1, s->g->ranks[i].epoch, &end) &&
		    end.end.attempt) {
			how.attempt = end.end.attempt;
			how.exit = NAME_SIGNALLED + SIGTERM;
		}
		r = cancel_element(k->place, &n, &how, e);
	}
	return r < 0 ? r : 0;
}

static int act_forget(struct looking *k, struct seen *s, struct memory *m, const char *why,
		      struct err *e)
{
	return s->g ? gang_remove(k->place->spool, s->id, UINT64_MAX, e) : 0;
}

/* ---- to call one ---- */

static bool waits_here(const struct looking *k, uint64_t id)
{
	size_t i = 0;

	while (i < k->l->n_waiting && k->l->waiting[i] != id)
		i++;
	return i < k->l->n_waiting;
}

/* Nothing keeps any of its ranks; what has ended runs again with the others. */
static bool may_be_called(const struct looking *k, const struct seen *s, const struct memory *m)
{
	if (!s->b || k->now_ns < m->until_ns || !waits_here(k, s->id))
		return false;
	for (uint64_t i = 1; i <= s->b->spec->nodes; i++) {
		const struct batch_again *again = batch_again_of(s->b->batch, i);

		/* The wall clock may have been stepped back since that was noted. */
		if (again && again->not_before_ns > k->now_wall_ns &&
		    again->noted_ns <= k->now_wall_ns)
			return false;
	}
	return true;
}

static bool choose(const struct looking *k, const struct seen *s, const struct memory *m,
		   struct gang *ret)
{
	const struct task_spec *spec = s->b->spec;
	cleanup_free struct gang_node *nodes = NULL;
	size_t n = nodes_for(k, s->b, m->avoid, &nodes), ranks = spec->nodes;
	cleanup_free size_t *chosen = xcalloc(ranks, sizeof(*chosen));

	if (n < ranks || !gang_choose(nodes, n, ranks, (unsigned int)spec->gpus, chosen))
		return false;
	ret->n = ranks;
	ret->ranks = xcalloc(ranks, sizeof(*ret->ranks));
	for (size_t i = 0; i < ranks; i++)
		(void)str_copy(ret->ranks[i].agent, sizeof(ret->ranks[i].agent),
			       nodes[chosen[i]].agent);
	return true;
}

/* By the status of the agents of now, which may have been another one when it was called: all its
 * ranks could have their devices at once, if those that wait for them were on other nodes. */
static bool is_better_elsewhere(const struct looking *k, const struct seen *s)
{
	const struct task_spec *spec = s->b ? s->b->spec : NULL;
	uint64_t settled_ms = 2 * k->m->status_ms > SETTLED_MS ? 2 * k->m->status_ms : SETTLED_MS;
	cleanup_free struct gang_node *nodes = NULL;
	cleanup_free size_t *chosen = NULL;
	size_t n, i = 0;

	if (!spec || !s->g || s->facts.n != spec->nodes || s->facts.for_ms < settled_ms)
		return false;
	n = nodes_for(k, s->b, "", &nodes);
	for (size_t j = 0; j < n; j++) {
		int rank = gang_rank_of(s->g, nodes[j].agent);

		nodes[j].busy = false; /* by itself */
		if (rank >= 0)	       /* what it has it would have */
			nodes[j].free = s->ranks[rank].ready ? (unsigned int)spec->gpus : 0;
	}
	chosen = xcalloc(spec->nodes, sizeof(*chosen));
	if (!gang_choose(nodes, n, spec->nodes, (unsigned int)spec->gpus, chosen))
		return false;
	while (i < spec->nodes && nodes[chosen[i]].free >= spec->gpus)
		i++;
	return i == spec->nodes;
}

/* All ranks run again together: also one that was well, or failed because another was lost. */
static int requeue_ended(struct seen *s, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < s->facts.n && r == 0; i++)
		if (s->ranks[i].standing == GANG_WELL || s->ranks[i].standing == GANG_BADLY)
			r = batch_retry(s->b->batch, i + 1, "all ranks of it run again", e);
	return r;
}

static int call(struct looking *k, struct seen *s, struct gang *call, struct err *e)
{
	cleanup_strbuf struct strbuf names = STRBUF_INIT;
	const struct scan_task *t = file_of(k, s->id);
	unsigned int attempts;
	int r = t ? requeue_ended(s, e) : err_set(e, -EAGAIN, "it does not wait any more");

	call->id = s->id;
	call->epoch = t ? t->name.epoch : 0;
	call->edits = t ? t->name.edits : 0;
	call->generation = s->g ? s->g->generation + 1 : 1;
	for (size_t i = 0; i < call->n; i++) {
		(void)batch_state(s->b->batch, i + 1, &call->ranks[i].epoch, &attempts);
		strbuf_addf(&names, "%s%s", i ? ", " : "", call->ranks[i].agent);
	}
	if (r == 0)
		r = gang_call(k->place->spool, call, e);
	if (r == 0)
		r = gang_remove(k->place->spool, s->id, call->generation, e);
	note(k, s->id, "its ranks are called", strbuf_str(&names));
	return r;
}

/* ---- one after another ---- */

typedef int (*act_fn)(struct looking *k, struct seen *s, struct memory *m, const char *why,
		      struct err *e);

static const act_fn acts[GANG_ACTION_MAX] = {
	[GANG_GO] = act_go,
	[GANG_WITHDRAW] = act_withdraw,
	[GANG_END] = act_end,
	[GANG_END_FOR_GOOD] = act_end_for_good,
	[GANG_CANCEL_REST] = act_cancel_rest,
	[GANG_FORGET] = act_forget,
};

static void remember(const struct looking *k, const struct seen *s, struct memory *m,
		     enum gang_phase phase)
{
	uint64_t generation = s->g ? s->g->generation : 0;

	if (m->phase != phase || m->generation != generation) {
		m->phase = phase;
		m->generation = generation;
		m->since_ns = k->now_ns;
	}
	if (phase == GANG_RUNNING)
		m->failures = 0;
}

static void act(struct looking *k, struct seen *s, struct memory *m, const struct gang_verdict *v)
{
	cleanup_free char *why = cause_of(k, s, v);
	struct err e = ERR_INIT;

	if (!acts[v->action])
		return;
	k->acted = true;
	if (acts[v->action](k, s, m, why, &e) < 0)
		note(k, s->id, "what is to become of its ranks cannot be written", e.text);
	/* What is no fault of a node, a rank that failed, is not put off. */
	else if (v->action == GANG_WITHDRAW || (v->action == GANG_END && v->event == GANG_LATE))
		remember_failure(k, s, m, v, why);
}

/* By its own word of now: whose agent has ended since others were looked at last, its shim waits no
 * more. */
static bool has_left(const struct looking *k, const char *agent)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b;
	int r;

	if (strcmp(agent, k->l->agent) == 0)
		return false;
	r = heartbeat_read(k->place->spool, heartbeat_agent_path(agent, path), &b, NULL, NULL);
	return r == -ENOENT || (r == 0 && b.ended);
}

static void look_at_agents(const struct looking *k, struct seen *s)
{
	for (size_t i = 0; i < s->facts.n; i++)
		if (has_left(k, s->g->ranks[i].agent))
			s->ranks[i].lives = false;
}

/* The phase as it is to be told; what was called or decided is seen by the next look. */
static struct gang_verdict lead(struct looking *k, struct seen *s, struct memory *m)
{
	struct gang_verdict v;
	struct gang next = { .n = 0 };
	struct err e = ERR_INIT;

	v = gang_judge(&s->facts, &k->m->limits);
	remember(k, s, m, v.phase);
	s->facts.for_ms = (k->now_ns - m->since_ns) / NS_PER_MS;
	s->facts.better = v.phase == GANG_MUSTERING && k->leads && is_better_elsewhere(k, s);
	if (v.action == GANG_GO && k->leads)
		look_at_agents(k, s);
	v = gang_judge(&s->facts, &k->m->limits);
	if (!k->leads)
		return v;
	if (v.phase == GANG_IDLE && v.event == GANG_NOTHING && may_be_called(k, s, m) &&
	    choose(k, s, m, &next)) {
		s->facts.due = true;
		v = gang_judge(&s->facts, &k->m->limits);
	}
	if (v.action == GANG_CALL) {
		k->acted = true;
		if (call(k, s, &next, &e) < 0)
			note(k, s->id, "its ranks cannot be called", e.text);
		mark_busy(k, &next);
	} else {
		act(k, s, m, &v);
	}
	free(next.ranks);
	return v;
}

/* ---- why ---- */

/* " (model *A100*, 40.0 GiB)" */
static void say_kind(const struct place_batch *p, struct strbuf *b)
{
	uint64_t memory = memory_asked(p);
	const char *model = p->spec->model;
	char size[UNIT_TEXT_MAX];

	if (!p->spec->gpus || (!model && !memory))
		return;
	strbuf_addf(b, " (%s%s%s%s)", model ? "model " : "", model ? model : "",
		    model && memory ? ", " : "", memory ? unit_format_gib(memory, size) : "");
}

static void say_kinds_there(const struct looking *k, const struct task_spec *spec, struct strbuf *b)
{
	cleanup_strbuf struct strbuf kinds = STRBUF_INIT;

	for (size_t i = 0; i < k->m->n; i++)
		if (is_for(k->m->all[i], spec))
			agent_status_add_kinds(k->m->all[i], &kinds);
	strbuf_addf(b, ": there are %s", kinds.len ? strbuf_str(&kinds) : "no GPUs");
}

static void say_room(const struct looking *k, const struct seen *s, struct strbuf *b)
{
	const struct task_spec *spec = s->b->spec;
	cleanup_free struct gang_node *nodes = NULL;
	size_t n = nodes_for(k, s->b, "", &nodes), now, ever;
	bool busy = false;

	gang_count_room(nodes, n, (unsigned int)spec->gpus, &now, &ever);
	for (size_t i = 0; i < n; i++)
		busy = busy || nodes[i].busy;
	strbuf_addf(b, "needs %" PRIu64 " nodes with %" PRIu64 " GPU%s each", spec->nodes,
		    spec->gpus, spec->gpus == 1 ? "" : "s");
	say_kind(s->b, b);
	strbuf_adds(b, " at once; ");
	if (now >= spec->nodes && busy)
		strbuf_adds(b, "another task on several nodes is just being started");
	else
		strbuf_addf(b, "%zu of %zu agent%s %s them", now, n, n == 1 ? "" : "s",
			    now == 1 || n == 1 ? "has" : "have");
	if (ever >= spec->nodes)
		return;
	strbuf_addf(b, ", and %zu could", ever);
	if (spec->gpus && (spec->model || memory_asked(s->b)))
		say_kinds_there(k, spec, b);
}

static void say_missing(const struct seen *s, struct strbuf *b)
{
	size_t missing = 0;

	for (size_t i = 0; i < s->facts.n; i++)
		missing += !s->ranks[i].ready;
	strbuf_addf(b, "waits for all ranks: %zu of %zu ranks have their GPUs",
		    s->facts.n - missing, s->facts.n);
	for (size_t i = 0, told = 0; i < s->facts.n && told < 4; i++) {
		if (s->ranks[i].ready)
			continue;
		strbuf_adds(b, told++ ? ", " : "; not yet: ");
		say_rank(s, i, b);
	}
}

static void say_why(struct looking *k, const struct seen *s, const struct memory *m,
		    const struct gang_verdict *v)
{
	const char *last = m->reason[0] ? m->reason : s->g ? s->g->reason : "";
	struct strbuf b = STRBUF_INIT;
	char left[UNIT_TEXT_MAX];

	if (!s->b)
		return;
	if (v->phase == GANG_MUSTERING) {
		say_missing(s, &b);
	} else if (v->phase == GANG_STARTING) {
		strbuf_adds(&b, "is just being started on its nodes");
	} else if (v->phase == GANG_RUNNING) {
		strbuf_adds(&b, "runs on all its nodes");
	} else if (v->phase == GANG_CLOSING) {
		strbuf_adds(&b, "waits until all its ranks have ended");
	} else {
		say_room(k, s, &b);
		if (k->now_ns < m->until_ns)
			strbuf_addf(&b, "; tried again in %s",
				    unit_format_duration((m->until_ns - k->now_ns) / NS_PER_MS + 1,
							 left));
	}
	if (last[0] && v->phase != GANG_STARTING && v->phase != GANG_RUNNING)
		strbuf_addf(&b, "; last time: %s", last);
	k->l->whys = xrealloc(k->l->whys, k->l->n_whys + 1, sizeof(*k->l->whys));
	k->l->whys[k->l->n_whys++] = (struct gang_why){ s->id, strbuf_take(&b) };
}

/* ---- a look ---- */

static void look_at(struct looking *k, uint64_t id, const struct gang *g)
{
	struct gang_verdict v;
	struct memory *m;
	struct seen s;

	m = memory_of(k, id);
	if (see(k, id, g, &s) < 0)
		return;
	v = lead(k, &s, m);
	if (v.phase == GANG_MUSTERING || v.phase == GANG_STARTING || v.phase == GANG_CLOSING) {
		mark_busy(k, g);
		k->l->under_way = true;
	}
	/* Its batch may be filed by that, and is not ours then. */
	if (v.action != GANG_CANCEL_REST)
		say_why(k, &s, m, &v);
	free(s.ranks);
}

static bool is_same(const struct gang_reply *a, const struct gang_reply *b)
{
	return a->answer == b->answer && a->port == b->port &&
	       strcmp(a->address, b->address) == 0 && strcmp(a->reason, b->reason) == 0;
}

/* What has not changed is not written. */
static void answer(struct looking *k)
{
	for (size_t i = 0; i < k->l->n_own; i++) {
		const struct gang_own *own = &k->l->own[i];
		const struct gang *g = gang_find(&k->l->gangs, own->id);
		struct err e = ERR_INIT;

		if (!g || g->generation != own->generation || own->rank >= g->n ||
		    strcmp(g->ranks[own->rank].agent, k->l->agent) != 0 ||
		    is_same(&own->reply, &g->ranks[own->rank].reply))
			continue;
		if (gang_answer(k->place->spool, g, own->rank, &own->reply, &e) < 0)
			note(k, own->id, "the answer for its rank here cannot be written", e.text);
		else
			g->ranks[own->rank].reply = own->reply;
	}
}

/* What was written by this look is what its agent goes by at once. */
static void read_again(struct looking *k)
{
	struct gangs_read now;

	if (gang_read_all(k->place->spool, &now, NULL) < 0)
		return;
	gang_clear(&k->l->gangs);
	k->l->gangs = now;
}

/* Those that stand first, since they keep others from being called; then as the queue has them;
 * then what is left of those that do not wait. */
static void look_at_all(struct looking *k)
{
	const struct gangs_read *gangs = &k->l->gangs;

	for (size_t i = 0; i < gangs->n; i++)
		if (gang_stands(&gangs->all[i]))
			look_at(k, gangs->all[i].id, &gangs->all[i]);
	for (size_t i = 0; i < k->l->n_waiting; i++) {
		const struct gang *g = gang_find(gangs, k->l->waiting[i]);

		if (!g || !gang_stands(g))
			look_at(k, k->l->waiting[i], g);
	}
	for (size_t i = 0; i < gangs->n; i++)
		if (!gang_stands(&gangs->all[i]) && !waits_here(k, gangs->all[i].id))
			look_at(k, gangs->all[i].id, &gangs->all[i]);
}

void gang_look_work(struct gang_lead *m, struct gang_look *l, struct spool_place *place)
{
	struct looking k = { .m = m,
			     .l = l,
			     .place = place,
			     .now_ns = clock_mono_ns(),
			     .now_wall_ns = clock_wall_ns() };

	l->code = gang_read_all(place->spool, &l->gangs, &l->e);
	if (l->code < 0)
		return;
	m->look++;
	if (l->gangs.n || l->n_waiting)
		read_statuses(&k);
	k.leads = is_leader(&k);
	answer(&k);
	look_at_all(&k);
	forget_unseen(m);
	if (k.acted)
		read_again(&k);
	l->under_way = l->under_way || k.acted;
}

void gang_look_clear(struct gang_look *l)
{
	for (size_t i = 0; i < l->n_whys; i++)
		free(l->whys[i].text);
	free(l->whys);
	free(l->peers);
	free(l->waiting);
	free(l->own);
	gang_clear(&l->gangs);
	strbuf_clear(&l->notes);
}
