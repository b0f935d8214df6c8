/* SPDX-License-Identifier: MIT */
#include "agent/resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/queue.h"

#define OPEN_AGAIN_MS 5000 /* the disk may come, or become writable */

struct open_job {
	struct spool_job job;
	struct opening o;
};

static void open_work(struct spool_job *job, struct spool_place *p)
{
	opening_work(&((struct open_job *)job)->o, p);
}

static struct devset devices_of(const struct tasks *q, const struct claim *c)
{
	struct devset devices = { 0 };

	for (size_t i = 0; i < q->n_leases; i++) {
		const struct msg_lease_state *m = &q->leases[i];

		if (m->id.task == c->name.id && m->id.element == c->name.element && m->slot >= 0 &&
		    m->id.attempt == (uint32_t)c->name.epoch + 1)
			devset_add(&devices, (unsigned int)m->slot);
	}
	return devices;
}

static void adopt(struct tasks *q, struct adoptee *a)
{
	const struct spool_spec *s = a->spec;
	struct devset devices = devices_of(q, &a->claim);
	struct sched_task t = { .id = a->claim.name.id,
				.element = (uint32_t)a->claim.name.element,
				.priority = (int32_t)s->priority,
				.order = a->claim.name.id,
				.lane = s->lane ? sched_lane(q->plan, s->lane) : 0,
				.gpus = s->gpus == SPEC_ALL ? SCHED_ALL_GPUS : (uint32_t)s->gpus,
				.mem_bytes = s->memory,
				.shared = s->shared,
				.preemptible = s->preemptible,
				.array_limit = s->array.limit < UINT32_MAX
						       ? (uint32_t)s->array.limit
						       : UINT32_MAX,
				.timeout_ms = s->timeout };

	(void)sched_adopt(q->plan, &t, devices, clock_mono_ns(), NULL);
	news_say(q->place.news, LOG_LEVEL_INFO, "task %llu runs on (%s)", (unsigned long long)t.id,
		 s->name);
	tasks_add_running(q, run_adopt(&q->place, &a->claim, take_ptr(a->spec), a->tries, devices));
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
		tasks_tell_lines(q, strbuf_str(&o->notes));
		for (size_t i = 0; i < o->n; i++)
			if (o->all[i].spec)
				adopt(q, &o->all[i]);
		for (size_t i = 0; i < o->lanes.n; i++)
			lanes_found(q, o->lanes.texts[i]);
		tasks_drop_stray_leases(q);
		q->watching = uv_fs_event_start(&q->watch, tasks_on_watch, o->pending, 0) == 0;
		orders_start(q->orders);
		durable_soon(q->durable); /* what an agent before us has noted */
		tasks_rescan(q);
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
		news_say(q->place.news, LOG_LEVEL_ERROR,
			 "what ran on another node cannot be taken over: %s", j->o.e.text);
	tasks_tell_lines(q, strbuf_str(&j->o.notes));
	for (size_t i = 0; i < j->o.n; i++)
		if (j->o.all[i].spec)
			adopt(q, &j->o.all[i]);
	opening_clear(&j->o);
	text_list_clear(&j->dead);
	free(j);
	q->want.batches = true;
	tasks_rescan(q);
}

void resume_reclaim(struct tasks *q, const struct text_list *dead)
{
	struct reclaim_job *j;

	if (!q->open || q->reclaiming || q->ending)
		return;
	q->reclaiming = true;
	j = xcalloc(1, sizeof(*j));
	for (size_t i = 0; i < dead->n; i++)
		text_list_add(&j->dead, dead->texts[i]);
	j->job = (struct spool_job){ .work = reclaim_work, .done = reclaim_done, .user = q };
	j->o.run_dir = q->run_dir;
	(void)str_copy(j->o.key, sizeof(j->o.key), q->key);
	spooler_do(q->spooler, &j->job);
}

/* Where shims leave their records: a disk of this node, so that no network stands in the way. */
char *resume_run_dir(const struct tasks_config *c)
{
	char *dir = xasprintf("/var/tmp/tenure-%u", (unsigned int)getuid());
	struct stat st;
	bool ours = (mkdir(dir, 0700) == 0 || errno == EEXIST) && lstat(dir, &st) == 0 &&
		    S_ISDIR(st.st_mode) && st.st_uid == getuid() && (st.st_mode & 077) == 0;
	char *full = ours ? xasprintf("%s/%s", dir, c->instance)
			  : xasprintf("%s/%s/run", c->state_dir, c->instance);

	free(dir);
	return full;
}

void resume_start(struct tasks *q)
{
	struct open_job *o = xcalloc(1, sizeof(*o));

	o->job = (struct spool_job){ .work = open_work, .done = open_done, .user = q };
	o->o.root = q->root;
	o->o.instance = q->instance;
	o->o.agent = q->agent;
	o->o.run_dir = q->run_dir;
	spooler_do(q->spooler, &o->job);
}
