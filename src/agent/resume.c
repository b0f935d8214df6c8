/* SPDX-License-Identifier: MIT */
#include "agent/resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/doubts.h"
#include "agent/leases.h"
#include "agent/queue/planview.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/queue.h"

#define OPEN_AGAIN_MS 5000  /* the disk may come, or become writable */
#define LOOK_FIRST_MS 1000  /* what could not be told is looked at again after this, ... */
#define LOOK_LAST_MS  60000 /* ... twice as long each time, and this at most */

struct open_job {
	struct spool_job job;
	struct opening o;
};

static void open_work(struct spool_job *job, struct spool_place *p)
{
	opening_work(&((struct open_job *)job)->o, p);
}

/* Where nothing was written down, the guard's ledger knows them. */
static void find_devices(const struct tasks *q, struct adoptee *a)
{
	const struct task_name *n = &a->claim.name;

	if (a->devices.n)
		return;
	for (size_t i = 0; i < q->n_leases; i++) {
		const struct msg_lease_state *m = &q->leases[i];

		if (m->id.task == n->id && m->id.element == n->element &&
		    m->id.attempt == (uint32_t)n->epoch + 1)
			text_list_add(&a->devices, m->uuid);
	}
}

/* As far as the view shows them now; what is missing is told by the guard's answer. */
static struct devset slots_of(const struct view *v, const struct text_list *uuids)
{
	struct devset slots = { 0 };

	for (uint32_t slot = 0; slot < v->n_slots; slot++)
		for (size_t i = 0; i < uuids->n; i++)
			if (v->seen[slot] && strcmp(v->devices[slot].uuid, uuids->texts[i]) == 0)
				devset_add(&slots, slot);
	return slots;
}

static bool is_ours(const struct tasks *q, const struct task_name *n)
{
	for (const struct running *r = q->runs; r; r = r->next)
		if (attempt_ref(r->run).id == n->id && attempt_ref(r->run).element == n->element)
			return true;
	return false;
}

static void adopt(struct tasks *q, struct adoptee *a)
{
	const struct spool_spec *s = a->spec;
	struct sched_task t;
	struct devset slots;

	if (is_ours(q, &a->claim.name))
		return;
	find_devices(q, a);
	slots = slots_of(q->place.view, &a->devices);
	sched_task_from_spec(&a->claim.name, s, &t);
	t.lane = planview_lane(q->plan, s->lane);
	(void)sched_adopt(q->plan, &t, slots, clock_mono_ns(), NULL);
	eventlog_say(q->place.eventlog, LOG_LEVEL_INFO, "task %llu runs on (%s)",
		     (unsigned long long)t.id, s->name);
	tasks_adopt(q, attempt_adopt(&q->place, a, slots));
}

static void on_look_again(uv_timer_t *timer);

/* What was found, and what is to be looked at again. */
static void take_found(struct tasks *q, struct opening *o)
{
	tasks_tell_lines(q, strbuf_str(&o->notes));
	doubts_end(q, o);
	for (size_t i = 0; i < o->n; i++)
		adopt(q, &o->all[i]);
	doubts_begin(q, o);
	for (size_t i = 0; i < o->unknown.n; i++)
		text_list_add(&q->unknown, o->unknown.texts[i]);
	if (!q->unknown.n) {
		q->look_ms = 0;
	} else if (!q->ending && !uv_is_active((uv_handle_t *)&q->look_timer)) {
		q->look_ms = q->look_ms ? q->look_ms * 2 : LOOK_FIRST_MS;
		q->look_ms = q->look_ms < LOOK_LAST_MS ? q->look_ms : LOOK_LAST_MS;
		(void)uv_timer_start(&q->look_timer, on_look_again, q->look_ms, 0);
	}
}

static void on_open_again(uv_timer_t *timer)
{
	resume_start(timer->data);
}

static void open_done(struct spool_job *job)
{
	struct opening *o = &((struct open_job *)job)->o;
	struct tasks *q = job->user;

	if (o->code < 0) {
		tasks_no_queue(q, o->e.text);
		if (!q->ending)
			(void)uv_timer_start(&q->scan_timer, on_open_again, OPEN_AGAIN_MS, 0);
	} else {
		q->open = true;
		q->trouble[0] = '\0';
		(void)str_copy(q->key, sizeof(q->key), o->key);
		q->cgroup = take_ptr(o->cgroup);
		q->place.cgroup = q->cgroup;
		take_found(q, o);
		for (size_t i = 0; i < o->lanes.n; i++)
			lanes_found(&q->lanes, o->lanes.texts[i]);
		leases_take_told(q);
		orders_start(q->orders);
		groupcommit_soon(q->groupcommit); /* what an agent before us has noted */
		tasks_rescan(q);
		q->ops->over(q->user);
	}
	opening_clear(o);
	free(job);
}

struct reclaim_job {
	struct spool_job job;
	struct opening o;
	struct text_list dead;
};

static void reclaim_work(struct spool_job *job, struct spool_place *p)
{
	struct reclaim_job *j = (struct reclaim_job *)job;

	opening_reclaim(&j->o, p, &j->dead);
}

static void reclaim_done(struct spool_job *job)
{
	struct reclaim_job *j = (struct reclaim_job *)job;
	struct tasks *q = job->user;

	q->reclaiming = false;
	if (j->o.code < 0)
		eventlog_say(q->place.eventlog, LOG_LEVEL_ERROR,
			     "what ran on another node cannot be taken over: %s", j->o.e.text);
	for (size_t i = 0; j->o.code < 0 && j->o.again && i < j->dead.n; i++)
		text_list_add(&j->o.unknown, j->dead.texts[i]);
	take_found(q, &j->o);
	opening_clear(&j->o);
	text_list_clear(&j->dead);
	free(j);
	q->want.batches = true;
	tasks_rescan(q);
	q->ops->over(q->user);
}

static void reclaim(struct tasks *q, const struct text_list *claims, bool again)
{
	struct reclaim_job *j = xcalloc(1, sizeof(*j));

	q->reclaiming = true;
	for (size_t i = 0; i < claims->n; i++)
		text_list_add(&j->dead, claims->texts[i]);
	j->job = (struct spool_job){ .work = reclaim_work, .done = reclaim_done, .user = q };
	j->o.run_dir = q->run_dir;
	j->o.again = again;
	(void)str_copy(j->o.key, sizeof(j->o.key), q->key);
	spooler_do(q->spooler, &j->job);
}

/* Whatever the verdict is that stands behind its path. */
static bool is_unknown(const struct tasks *q, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < q->unknown.n; i++) {
		const char *text = q->unknown.texts[i];

		if (strncmp(text, path, len) == 0 && (!text[len] || strchr("? ", text[len])))
			return true;
	}
	return false;
}

/* A run is there before its claim is made, and until that is filed: what this agent claimed and no
 * run has is nobody's, unless it is being looked at again. */
static bool is_looked_after(const struct tasks *q, const char *told)
{
	cleanup_free char *path = xstrdup(told);
	char *end = strstr(path, HEARTBEAT_UNJUDGED);
	struct task_name n;

	if (!end)
		return false;
	*end = '\0';
	return is_unknown(q, path) || (name_parse(strrchr(path, '/') + 1, &n) && is_ours(q, &n));
}

void resume_reclaim(struct tasks *q, const struct text_list *dead)
{
	struct text_list left = { 0 };

	for (size_t i = 0; i < dead->n; i++)
		if (!is_looked_after(q, dead->texts[i]))
			text_list_add(&left, dead->texts[i]);
	if (left.n && q->open && !q->reclaiming && !q->ending)
		reclaim(q, &left, false);
	text_list_clear(&left);
}

static void on_look_again(uv_timer_t *timer)
{
	struct tasks *q = timer->data;

	if (q->ending)
		return;
	if (q->reclaiming) {
		(void)uv_timer_start(&q->look_timer, on_look_again, LOOK_FIRST_MS, 0);
		return;
	}
	reclaim(q, &q->unknown, true);
	text_list_clear(&q->unknown);
}

/* Where shims leave their records: a disk of this node, so that no network stands in the way. */
static void find_run_dir(struct tasks *q)
{
	cleanup_free char *name = xasprintf("tenure-%u", (unsigned int)getuid());
	cleanup_free char *dir = fs_private_dir("/var/tmp", name);

	(void)str_print(q->run_dir, sizeof(q->run_dir), dir ? "%s/%s" : "%s/%s/run",
			dir ? dir : q->c->state_dir, q->c->instance);
}

static void places_work(struct spool_job *job, struct spool_place *p)
{
	struct tasks *q = job->user;

	find_run_dir(q);
	login_read(&q->place.login);
}

static void places_done(struct spool_job *job)
{
	free(job);
}

void resume_find_places(struct tasks *q)
{
	struct spool_job *job = xcalloc(1, sizeof(*job));

	*job = (struct spool_job){ .work = places_work, .done = places_done, .user = q };
	spooler_do(q->spooler, job);
}

void resume_start(struct tasks *q)
{
	struct open_job *o = xcalloc(1, sizeof(*o));

	o->job = (struct spool_job){ .work = open_work, .done = open_done, .user = q };
	o->o.root = q->c->root;
	o->o.trust = &q->c->trust;
	o->o.instance = q->c->instance;
	o->o.agent = q->self->name;
	o->o.watch_fd = q->watch->fd;
	o->o.run_dir = q->run_dir;
	spooler_do(q->spooler, &o->job);
}
