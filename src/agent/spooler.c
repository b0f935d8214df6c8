/* SPDX-License-Identifier: MIT */
#include "agent/spooler.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"

struct spooler {
	uv_loop_t *loop;
	struct spool_place place;
	struct spool_job *first, **last;
	bool busy;
	uv_work_t work;
	struct spool_job *batch; /* the pool thread's while busy */
};

struct place_batch *place_batch(struct spool_place *place, uint64_t id, struct err *e)
{
	const struct scan_task *t = scan_find(place->scan, id, 0);
	struct place_batch *p = place->batches;
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_file read;

	while (p && p->id != id)
		p = p->next;
	if (!t || p) {
		if (!t)
			(void)err_set(e, -ENOENT, "task %llu does not wait any more",
				      (unsigned long long)id);
		return t ? p : NULL;
	}
	(void)spool_path(t->dir, name_format(&t->name, file), path);
	if (task_file_read(place->spool, path, &read, e) < 0)
		return NULL;
	p = xcalloc(1, sizeof(*p));
	p->id = id;
	if (batch_open(place->spool, &t->name, place->self.agent, &p->batch, e) < 0) {
		task_file_clear(&read);
		free(p);
		return NULL;
	}
	p->spec = take_ptr(read.spec);
	task_file_clear(&read);
	p->next = place->batches;
	place->batches = p;
	return p;
}

void place_forget_batch(struct spool_place *place, uint64_t id)
{
	for (struct place_batch **p = &place->batches; *p; p = &(*p)->next)
		if ((*p)->id == id) {
			struct place_batch *gone = *p;

			*p = gone->next;
			batch_close(gone->batch);
			spec_free(gone->spec);
			free(gone);
			return;
		}
}

struct spooler *spooler_new(uv_loop_t *loop, const struct spool_place *place)
{
	struct spooler *s = xcalloc(1, sizeof(*s));

	s->loop = loop;
	s->place = *place;
	s->last = &s->first;
	s->work.data = s;
	return s;
}

static void run_batch(uv_work_t *work)
{
	struct spooler *s = work->data;

	for (struct spool_job *job = s->batch; job; job = job->next)
		job->work(job, &s->place);
}

static void start_batch(struct spooler *s);

static void batch_done(uv_work_t *work, int status)
{
	struct spooler *s = work->data;
	struct spool_job *job = take_ptr(s->batch);

	s->busy = false;
	if (s->first)
		start_batch(s);
	while (job) {
		struct spool_job *next = job->next;

		job->done(job);
		job = next;
	}
}

static void start_batch(struct spooler *s)
{
	s->batch = s->first;
	s->first = NULL;
	s->last = &s->first;
	s->busy = uv_queue_work(s->loop, &s->work, run_batch, batch_done) == 0;
}

void spooler_do(struct spooler *s, struct spool_job *job)
{
	job->next = NULL;
	*s->last = job;
	s->last = &job->next;
	if (!s->busy)
		start_batch(s);
}

bool spooler_is_idle(const struct spooler *s)
{
	return !s->busy && !s->first;
}

int spooler_free(struct spooler *s)
{
	if (!s)
		return 0;
	if (s->busy)
		return -EBUSY;
	while (s->place.batches)
		place_forget_batch(&s->place, s->place.batches->id);
	s->place.events = events_close(s->place.events);
	s->place.scan = scan_free(s->place.scan);
	s->place.spool = spool_close(s->place.spool);
	free(s);
	return 0;
}
