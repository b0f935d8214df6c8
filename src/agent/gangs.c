/* SPDX-License-Identifier: MIT */
#include "agent/gangs.h"

#include <errno.h>
#include <stdlib.h>
#include <uv.h>

#include "agent/attempt/rendezvous.h"
#include "agent/attempt/task.h"
#include "agent/dispatch_state.h"
#include "agent/queue/gang_lead.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define SOON_MS	 500	/* between two looks while something is to come */
#define LATER_MS 2000	/* and while all that there is runs, or waits for nodes */
#define LOST_MS	 1000	/* after a claim that was lost */
#define START_MS 60000U /* from go to the start of all programs */

/* A port that is kept for the ranks of a gang whose rank 0 is here, until they start. */
struct seat {
	struct seat *next;
	uint64_t id, generation;
	unsigned int port;
	int fd;
};

/* Ranks that take part in the plan because of a call. */
struct called {
	size_t n;
	struct called_rank {
		struct sched_ref ref;
		uint64_t not_before_ns; /* its claim was lost: whose it is has to be seen first */
	} * all;
};

struct gangs {
	struct dispatch *q;
	gangs_why_fn why;
	uv_timer_t timer;
	struct gang_lead *lead;
	struct gang_look *last; /* what was found; NULL: nothing was looked at yet */
	struct called called;
	struct seat *seats;
	bool started, looking, again, stopped;
};

struct look_job {
	struct spool_job job;
	struct gangs *g;
	struct gang_look *look;
};

static void look(struct gangs *g);

/* ---- what is ours of it ---- */

static struct sched_ref ref_of_rank(uint64_t id, size_t rank)
{
	return (struct sched_ref){ .id = id, .element = (uint32_t)rank + 1 };
}

/* Who runs, or is about to run, a rank; an attempt that is being claimed is nobody's yet. */
static bool is_rank(const struct attempt *a)
{
	return a->claim.path[0] && a->spec && spec_is_gang(a->spec);
}

static bool is_of(const struct attempt *a, const struct gang *gang)
{
	size_t rank = a->ref.element - 1;

	return gang && rank < gang->n && gang->ranks[rank].epoch == a->claim.name.epoch;
}

/* ---- the port ---- */

static struct seat *find_seat(const struct gangs *g, const struct gang *gang)
{
	struct seat *s = g->seats;

	while (s && (s->id != gang->id || s->generation != gang->generation))
		s = s->next;
	return s;
}

/* Of those that are not brought together any more. */
static void leave_seats(struct gangs *g, const struct gangs_read *now)
{
	for (struct seat **at = &g->seats; *at;) {
		struct seat *s = *at;
		const struct gang *gang = now ? gang_find(now, s->id) : NULL;

		if (gang && gang->generation == s->generation && gang_stands(gang) &&
		    !gang->decided) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		(void)fd_close(s->fd);
		free(s);
	}
}

/* Where the ranks of this one are to meet. */
static void take_seat(struct gangs *g, const struct gang *gang, struct gang_reply *reply)
{
	struct seat *s = find_seat(g, gang);
	const struct port_range of = { g->q->c->gang_port_first, g->q->c->gang_port_last };
	const struct port_range kernels = rendezvous_kernels_ports();
	int fd = -1, port;

	if (!s) {
		port = rendezvous_take_port(&of, &kernels, &fd);
		if (port < 0) {
			reply->answer = GANG_REFUSES;
			(void)str_print(reply->reason, sizeof(reply->reason),
					"no port from %u to %u (gang_ports) can be had for "
					"MASTER_PORT",
					of.first, of.last);
			return;
		}
		s = xcalloc(1, sizeof(*s));
		*s = (struct seat){ g->seats, gang->id, gang->generation, (unsigned int)port, fd };
		g->seats = s;
	}
	reply->port = s->port;
	(void)rendezvous_address(g->q->c->gang_address, reply->address);
}

/* ---- what is answered ---- */

/* This node will not start it as it is: that is said at once, rather than waited for. */
static bool is_not_for_here(struct gangs *g, struct sched_ref ref, struct gang_reply *reply)
{
	struct err e = ERR_INIT;
	json_t *o = NULL;
	const char *why;
	bool not_here;

	if (g->why(g->q, ref.id, ref.element, &o, &e) < 0)
		return false;
	why = json_string_value(json_object_get(o, "why"));
	not_here = json_is_true(json_object_get(o, "elsewhere"));
	(void)str_copy(reply->reason, sizeof(reply->reason), not_here && why ? why : "");
	json_decref(o);
	return not_here;
}

static struct gang_reply answer_of(struct gangs *g, const struct gang *gang, size_t rank)
{
	struct gang_reply reply = gang->ranks[rank].reply;
	struct sched_ref ref = ref_of_rank(gang->id, rank);
	const struct attempt *a = attempt_by_ref(&g->q->place, ref);

	if (a && is_rank(a) && is_of(a, gang)) {
		if (a->state == AT_MUSTERED && !gang->decided) {
			reply = (struct gang_reply){ .answer = GANG_READY };
			if (rank == 0)
				take_seat(g, gang, &reply);
		} else if (a->shown == AT_RUNNING && gang->go) {
			reply.answer = GANG_BEGUN;
		}
	} else if (!a && !gang->decided && g->q->mode != DISPATCH_RUN) {
		reply = (struct gang_reply){ .answer = GANG_REFUSES };
		(void)str_print(reply.reason, sizeof(reply.reason),
				"its agent starts nothing more: %.200s", g->q->why);
	} else if (!a && !gang->decided && reply.answer == GANG_READY) {
		/* The agent before this one was, and what that had prepared has ended with it; or
		 * the attempt is over. */
		reply = (struct gang_reply){ .answer = GANG_REFUSES,
					     .reason = "what was ready is gone" };
	} else if (!a && !gang->decided && is_not_for_here(g, ref, &reply)) {
		reply.answer = GANG_REFUSES;
	}
	return reply;
}

static void add_answers(struct gangs *g, struct gang_look *l)
{
	for (size_t i = 0; g->last && i < g->last->gangs.n; i++) {
		const struct gang *gang = &g->last->gangs.all[i];
		int rank = gang_rank_of(gang, g->q->self->name);

		if (rank < 0 || !gang_stands(gang))
			continue;
		l->own = xrealloc(l->own, l->n_own + 1, sizeof(*l->own));
		l->own[l->n_own++] = (struct gang_own){ .id = gang->id,
							.generation = gang->generation,
							.rank = (size_t)rank,
							.reply = answer_of(g, gang, (size_t)rank) };
	}
}

/* ---- what was found is done ---- */

static struct called_rank *find_called(const struct called *c, struct sched_ref ref)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->all[i].ref.id == ref.id && c->all[i].ref.element == ref.element)
			return &c->all[i];
	return NULL;
}

static int call_in_plan(struct gangs *g, const struct called_rank *c)
{
	return clock_mono_ns() < c->not_before_ns ? 0 : sched_call(g->q->plan, c->ref, true);
}

static void call_rank(struct gangs *g, struct sched_ref ref, const struct called *before)
{
	const struct called_rank *was = find_called(before, ref);
	struct called_rank c = { .ref = ref, .not_before_ns = was ? was->not_before_ns : 0 };

	/* It waits again, and this agent has not heard of that. */
	if (call_in_plan(g, &c) == -ENOENT && !attempt_by_ref(&g->q->place, ref))
		spoolwatch_look_at(g->q->spoolwatch, ref.id, false);
	g->called.all = xrealloc(g->called.all, g->called.n + 1, sizeof(*g->called.all));
	g->called.all[g->called.n++] = c;
}

/* Once more at once, and it would be lost again as often as the queue can be read. */
void gangs_claim_lost(struct gangs *g, struct sched_ref ref)
{
	struct called_rank *c = find_called(&g->called, ref);

	if (c)
		c->not_before_ns = clock_mono_ns() + LOST_MS * NS_PER_MS;
}

/* What the plan may start is what the calls of now say, and nothing else. */
static void take_calls(struct gangs *g, const struct gang_look *now)
{
	struct called before = g->called;

	g->called = (struct called){ .n = 0 };
	for (size_t i = 0; i < now->gangs.n; i++) {
		const struct gang *gang = &now->gangs.all[i];
		int rank = gang_rank_of(gang, g->q->self->name);

		if (rank >= 0 && gang_stands(gang) && !gang->decided)
			call_rank(g, ref_of_rank(gang->id, (size_t)rank), &before);
	}
	for (size_t i = 0; i < before.n; i++)
		if (!find_called(&g->called, before.all[i].ref))
			(void)sched_call(g->q->plan, before.all[i].ref, false);
	free(before.all);
	dispatch_plan_soon(g->q);
}

static void go(struct attempt *a, const struct gang *gang)
{
	const struct rank_place place = { .nodes = (unsigned int)gang->n,
					  .rank = a->ref.element - 1,
					  .gpus = a->spec->gpus,
					  .address = gang->address,
					  .port = gang->port };
	struct text_list env = { .n = 0 };

	a->go_port = place.rank == 0 ? gang->port : 0;
	rank_env(&place, &env);
	attempt_event(a, ON_GO, &env);
	text_list_clear(&env);
}

/* Its generation is over, or it never was of the one that counts. */
static void end(struct attempt *a, const struct gang *gang)
{
	bool ours = is_of(a, gang) && gang->reason[0];
	const char *why = ours ? gang->reason : "its ranks were called anew";
	bool for_good = is_of(a, gang) && gang->ended && !gang->again;

	if (a->end_kind == END_MAX && a->state < AT_ENDED)
		attempt_stop(a, for_good ? END_STOPPED : END_GANG, UINT32_MAX, why);
}

static void tell_attempts(struct gangs *g, const struct gang_look *now)
{
	for (struct attempt *a = g->q->place.tasks, *next; a; a = next) {
		const struct gang *gang = gang_find(&now->gangs, a->ref.id);

		next = a->next; /* it may be over after this */
		if (!is_rank(a))
			continue;
		if (!is_of(a, gang) || !gang_stands(gang))
			end(a, gang);
		else if (gang->go && a->state == AT_MUSTERED)
			go(a, gang);
		else if (!gang->decided && a->state == AT_MUSTERED && g->q->mode != DISPATCH_RUN)
			attempt_stop(a, END_GANG, UINT32_MAX, "its agent starts nothing more");
	}
}

/* ---- looks ---- */

static void forget_last(struct gangs *g)
{
	if (g->last)
		gang_look_clear(g->last);
	free(take_ptr(g->last));
}

static void on_timer(uv_timer_t *timer)
{
	look(timer->data);
}

static void look_work(struct spool_job *job, struct spool_place *place)
{
	struct look_job *j = (struct look_job *)job;

	gang_look_work(j->g->lead, j->look, place);
}

static bool has_ranks(const struct gangs *g)
{
	for (const struct attempt *a = g->q->place.tasks; a; a = a->next)
		if (is_rank(a))
			return true;
	return false;
}

/* Nothing is looked for where there is nothing, which is so for most queues. */
static void look_later(struct gangs *g)
{
	bool any = !g->last || g->last->gangs.n || g->last->n_waiting || has_ranks(g);
	uint64_t ms = g->again ? 0 : !g->last || g->last->under_way ? SOON_MS : LATER_MS;

	if (!g->stopped && (any || g->again))
		(void)uv_timer_start(&g->timer, on_timer, ms, 0);
	g->again = false;
}

static void look_done(struct spool_job *job)
{
	struct look_job *j = (struct look_job *)job;
	struct gangs *g = j->g;

	g->looking = false;
	eventlog_say_lines(g->q->place.eventlog, LOG_LEVEL_INFO, strbuf_str(&j->look->notes));
	if (j->look->code < 0 || g->stopped) { /* what cannot be read decides nothing */
		gang_look_clear(j->look);
		free(j->look);
	} else {
		forget_last(g);
		g->last = j->look;
		leave_seats(g, &g->last->gangs); /* before the program of rank 0 takes its port */
		take_calls(g, g->last);
		tell_attempts(g, g->last);
	}
	look_later(g);
	free(j);
}

static void add_waiting(void *data, const struct sched_task *t)
{
	struct gang_look *l = data;

	for (size_t i = 0; i < l->n_waiting; i++)
		if (l->waiting[i] == t->id)
			return;
	l->waiting = xrealloc(l->waiting, l->n_waiting + 1, sizeof(*l->waiting));
	l->waiting[l->n_waiting++] = t->id;
}

static void look(struct gangs *g)
{
	struct look_job *j;
	struct gang_look *l;

	if (!g->started || g->stopped)
		return;
	if (g->looking) {
		g->again = true;
		return;
	}
	j = xcalloc(1, sizeof(*j));
	l = xcalloc(1, sizeof(*l));
	l->agent = g->q->self->name;
	l->known = spoolwatch_state(g->q->spoolwatch) == QUEUE_KNOWN &&
		   !spoolwatch_trouble(g->q->spoolwatch);
	l->n_peers = node_watch_peers(g->q->node_watch, &l->peers);
	sched_each_gang(g->q->plan, add_waiting, l);
	add_answers(g, l);
	*j = (struct look_job){ .job = { .work = look_work, .done = look_done },
				.g = g,
				.look = l };
	g->looking = true;
	(void)uv_timer_stop(&g->timer);
	spooler_do(g->q->spooler, &j->job);
}

void gangs_soon(struct gangs *g)
{
	if (g->last && !g->last->gangs.n && !g->last->n_waiting && !has_ranks(g))
		return;
	look(g);
}

static void mark(void *data, const struct sched_task *t)
{
	*(bool *)data = true;
}

void gangs_after_reading(struct gangs *g)
{
	bool any = false;

	for (size_t i = 0; i < g->called.n; i++)
		(void)call_in_plan(g, &g->called.all[i]);
	sched_each_gang(g->q->plan, mark, &any);
	/* The first look may have begun before anything was known to wait. */
	if (any && !uv_is_active((uv_handle_t *)&g->timer))
		look(g);
}

const char *gangs_why(const struct gangs *g, uint64_t id)
{
	for (size_t i = 0; g->last && i < g->last->n_whys; i++)
		if (g->last->whys[i].id == id)
			return g->last->whys[i].text;
	return NULL;
}

/* ---- its life ---- */

struct gangs *gangs_new(struct dispatch *q, gangs_why_fn why)
{
	struct gangs *g = xcalloc(1, sizeof(*g));
	const struct gang_limits limits = { .muster_ms = q->c->gang_wait_ms, .start_ms = START_MS };

	g->q = q;
	g->why = why;
	g->lead = gang_lead_new(&limits, q->c->heartbeat_ms);
	(void)uv_timer_init(q->loop, &g->timer);
	g->timer.data = g;
	return g;
}

void gangs_start(struct gangs *g)
{
	g->started = true;
	look(g);
}

void gangs_stop(struct gangs *g)
{
	g->stopped = true;
	(void)uv_timer_stop(&g->timer);
	leave_seats(g, NULL);
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void gangs_free(struct gangs *g)
{
	forget_last(g);
	leave_seats(g, NULL);
	free(take_ptr(g->called.all));
	g->lead = gang_lead_free(g->lead);
	uv_close((uv_handle_t *)&g->timer, on_closed);
}
