/* SPDX-License-Identifier: MIT */
#include "agent/pool_ticks.h"

#include <errno.h>
#include <stdlib.h>
#include <uv.h>

#include "agent/dispatch_state.h"
#include "agent/queue/spooler.h"
#include "alloc/base.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "pool/job.h"
#include "pool/pool.h"

#define FIRST_MS 2000
#define EACH_MS	 60000
#define LIMIT_MS 300000 /* many pools, each with an engine that does not answer */
#define FRESH_MS 5000	/* who leaves has looked so lately whether it is to stay */
#define WAITS	 8	/* of FIRST_MS each at most, for what the first tick looks at */

struct pool_ticks {
	struct dispatch *q;
	uv_timer_t timer;
	struct subcommand *runs;
	bool stopped;
	bool looking;
	unsigned int waits;
	uint64_t looked_ns; /* when it was known last whether we are to stay; 0: never */
	bool stay;	    /* by the record of our job */
};

/* ---- whether there is something to look after ---- */

struct look {
	struct spool_job job;
	const struct agent_config *c;
	bool open; /* there is a queue to look into */
	bool any;  /* pools, or somebody's wish for a base */
	int code;  /* of the record of our job */
	bool stay;
	bool alone; /* for the record of our job: no tick follows */
};

static void look_work(struct spool_job *job, struct spool_place *place)
{
	struct look *look = (struct look *)job;
	struct text_list names = { .n = 0 };
	struct pool_job record;
	struct err e = ERR_INIT;

	look->open = place->spool;
	look->any = place->spool && ((pool_list(place->spool, &names, NULL) == 0 && names.n) ||
				     base_is_known(place->spool));
	text_list_clear(&names);
	look->code = -ENOENT;
	if (look->c->pool && look->c->token && place->spool)
		look->code =
			pool_job_read(place->spool, look->c->pool, look->c->token, &record, &e);
	look->stay = look->code == 0 && record.stay;
}

static void on_timer(uv_timer_t *timer);

static void on_ended(void *user)
{
	struct pool_ticks *t = user;

	t->runs = NULL;
}

static void start(struct pool_ticks *t)
{
	const struct agent_config *c = t->q->c;
	struct text_list words = { .n = 0 };

	text_list_add(&words, "tick");
	subcommand_add_queue(&words, c);
	text_list_take(&words, xasprintf("--expire=%llums", (unsigned long long)c->expire_ms));
	if (c->alloc_base)
		text_list_take(&words, xasprintf("--base-gpus=%u", (unsigned int)c->alloc_base));
	text_list_take(&words, xasprintf("--base-by=%s", t->q->self->name));
	t->runs = subcommand_start(&t->q->sweeping.run, &words, LIMIT_MS, on_ended, t);
	text_list_clear(&words);
}

/* What is free here, which a tick for a base may count, is known. */
static bool knows_devices(const struct view *v)
{
	bool known =
		v->guard_up && v->guard.flags & GUARD_SEES && view_seen(v) >= v->guard.n_devices;

	for (uint32_t i = 0; i < v->n_slots; i++)
		known = known && (!v->seen[i] || (v->devices[i].looked_ns &&
						  !(v->devices[i].flags & DEVICE_UNJUDGED)));
	return known;
}

/* The first tick is for what waited for this agent: a minute later, if it comes too early. */
static bool comes_too_early(struct pool_ticks *t, const struct look *look)
{
	bool ready = look->open && (!t->q->c->alloc_base || knows_devices(t->q->place.view));

	if (ready || t->waits >= WAITS) {
		t->waits = WAITS;
		return false;
	}
	t->waits++;
	(void)uv_timer_start(&t->timer, on_timer, FIRST_MS, EACH_MS);
	return true;
}

static void look_done(struct spool_job *job)
{
	struct look *look = (struct look *)job;
	struct pool_ticks *t = job->user;

	t->looking = false;
	if (look->code == 0 || look->code == -ENOENT || look->code == -EINVAL) {
		t->stay = look->stay;
		t->looked_ns = clock_mono_ns();
	}
	if (!look->alone && !t->stopped && !t->runs && !comes_too_early(t, look) &&
	    (look->any || t->q->c->alloc_base))
		start(t);
	free(look);
}

static void look(struct pool_ticks *t, bool alone)
{
	struct look *look = xcalloc(1, sizeof(*look));

	t->looking = true;
	look->c = t->q->c;
	look->alone = alone;
	look->job = (struct spool_job){ .work = look_work, .done = look_done, .user = t };
	spooler_do(t->q->spooler, &look->job);
}

static void on_timer(uv_timer_t *timer)
{
	struct pool_ticks *t = timer->data;

	if (!t->runs)
		look(t, false);
}

/* ---- its life ---- */

struct pool_ticks *pool_ticks_new(struct dispatch *q)
{
	struct pool_ticks *t = xcalloc(1, sizeof(*t));

	t->q = q;
	(void)uv_timer_init(q->loop, &t->timer);
	t->timer.data = t;
	(void)uv_timer_start(&t->timer, on_timer, FIRST_MS, EACH_MS);
	return t;
}

bool pool_ticks_may_leave(struct pool_ticks *t)
{
	bool fresh = t->looked_ns && clock_mono_ns() - t->looked_ns < FRESH_MS * NS_PER_MS;

	if (t->q->c->pool && !fresh && !t->looking)
		look(t, true);
	return !t->q->c->pool || (fresh && !t->stay);
}

void pool_ticks_stop(struct pool_ticks *t)
{
	t->stopped = true;
	(void)uv_timer_stop(&t->timer);
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void pool_ticks_free(struct pool_ticks *t)
{
	t->runs = subcommand_forget(t->runs);
	uv_close((uv_handle_t *)&t->timer, on_closed);
}
