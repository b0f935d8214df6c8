/* SPDX-License-Identifier: MIT */

/*
 * A thread of its own and not one of libuv's pool, whose threads wait for each other's lock at each
 * job: with a job or two per task that was a fifth of the agent's time. What is asked for during
 * one turn of the loop goes over at its end, in one piece, and comes back in one piece.
 */

#include "agent/spooler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "agent/backlog.h"
#include "agent/lanes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define LATER_MS 10  /* of jobs that may wait for others to go with */
#define END_MS	 500 /* the thread gets so long to close its files */

struct spooler {
	uv_loop_t *loop;
	struct spool_place place; /* the thread's */
	/* The loop's. */
	struct spool_job *first, **last; /* not handed over yet */
	bool busy;			 /* the thread has some */
	uv_prepare_t handover;
	uv_timer_t later;
	uv_async_t back;
	unsigned int handles;
	pthread_t thread;
	/* Of both. */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct spool_job *batch; /* handed over, and given back when done is set */
	bool done, stop, ended;
};

struct place_batch *place_batch(struct spool_place *place, uint64_t id, struct err *e)
{
	const struct scan_task *t = scan_find(place->scan, id, 0);
	struct place_batch *p = place->batches;
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_file read;

	while (p && p->id != id)
		p = p->next;
	if (!t && !scan_was_read(place->scan)) {
		(void)err_set(e, -EAGAIN, "the queue was not read yet");
		return NULL;
	}
	if (!t) {
		(void)err_set(e, -ENOENT, "task %llu does not wait any more",
			      (unsigned long long)id);
		return NULL;
	}
	if (p)
		return p;
	(void)spool_path(t->dir, name_format(&t->name, file), path);
	if (spool_confirm(place->spool, path, task_file_read(place->spool, path, &read, e), e) < 0)
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
			batch_take_undone(gone->batch, &place->undone);
			batch_close(gone->batch);
			spec_free(gone->spec);
			free(gone);
			return;
		}
}

struct place_undo {
	struct place_undo *next;
	struct task_name waiting;
};

/* True: it is in pending/ again, or elsewhere. */
static bool undo(struct spool_place *p, const struct task_name *waiting)
{
	char from[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_name claimed = *waiting;
	int r;

	(void)str_copy(claimed.agent, sizeof(claimed.agent), p->self.agent);
	claimed.ended_s = 0; /* as claim_task() names it */
	claimed.exit = 0;
	(void)spool_path(SPOOL_RUNNING, name_format(&claimed, file), from);
	(void)spool_path(SPOOL_PENDING, name_format(waiting, file), to);
	r = spool_rename(p->spool, from, to, NULL);
	/* Where a rename was tried before, a cache may say that its target is not there. */
	return r == 0 || (r == -ENOENT &&
			  spool_lists(p->spool, SPOOL_RUNNING, strrchr(from, '/') + 1, NULL) == 0);
}

void place_undo_claim(struct spool_place *p, const struct task_name *waiting)
{
	struct place_undo *u;

	if (undo(p, waiting))
		return;
	u = xcalloc(1, sizeof(*u));
	u->waiting = *waiting;
	u->next = p->undo;
	p->undo = u;
}

static void take_undo(struct place_undo **at)
{
	struct place_undo *gone = *at;

	*at = gone->next;
	free(gone);
}

void place_undo_again(struct spool_place *p)
{
	batch_remove_undone(p->spool, &p->undone);
	for (struct place_undo **at = &p->undo; *at;)
		if (undo(p, &(*at)->waiting))
			take_undo(at);
		else
			at = &(*at)->next;
}

void place_undo_forget(struct spool_place *p, uint64_t id)
{
	for (struct place_undo **at = &p->undo; *at;)
		if ((*at)->waiting.id == id)
			take_undo(at);
		else
			at = &(*at)->next;
}

/* ---- the thread ---- */

/* The next batch, or NULL: end. */
static struct spool_job *await_batch(struct spooler *s)
{
	struct spool_job *batch;

	(void)pthread_mutex_lock(&s->lock);
	while ((!s->batch || s->done) && !s->stop)
		(void)pthread_cond_wait(&s->wake, &s->lock);
	batch = s->stop ? NULL : s->batch;
	(void)pthread_mutex_unlock(&s->lock);
	return batch;
}

static void work_all(struct spooler *s, struct spool_job *batch)
{
	for (struct spool_job *job = batch; job; job = job->next)
		job->work(job, &s->place);
}

static void clear_place(struct spool_place *p)
{
	lanes_forget_epochs(p);
	while (p->batches)
		place_forget_batch(p, p->batches->id);
	while (p->undo)
		take_undo(&p->undo);
	text_list_clear(&p->undone);
	backlog_forget(p);
	/* The last ends: their turn to be synced has not come. */
	if (p->events)
		(void)events_sync(p->events, NULL);
	p->events = events_close(p->events);
	p->scan = scan_free(p->scan);
	p->spool = spool_close(p->spool);
}

static void *run(void *arg)
{
	struct spooler *s = arg;
	struct spool_job *batch;

	(void)prctl(PR_SET_NAME, "tenure-spool");
	while ((batch = await_batch(s))) {
		work_all(s, batch);
		(void)pthread_mutex_lock(&s->lock);
		s->done = true;
		(void)pthread_mutex_unlock(&s->lock);
		(void)uv_async_send(&s->back);
	}
	work_all(s, s->batch);
	clear_place(&s->place);
	(void)pthread_mutex_lock(&s->lock);
	s->ended = true;
	(void)pthread_mutex_unlock(&s->lock);
	(void)pthread_cond_signal(&s->wake);
	return NULL;
}

/* ---- the loop ---- */

/* Before the loop waits, so that all jobs of one turn go over with one waking. */
static void hand_over(struct spooler *s)
{
	(void)uv_prepare_stop(&s->handover);
	(void)uv_timer_stop(&s->later);
	if (s->busy || !s->first)
		return;
	s->busy = true;
	(void)pthread_mutex_lock(&s->lock);
	s->batch = take_ptr(s->first);
	s->done = false;
	(void)pthread_mutex_unlock(&s->lock);
	/* Without the lock: the thread would wake only to wait for it. */
	(void)pthread_cond_signal(&s->wake);
	s->last = &s->first;
}

static void on_handover(uv_prepare_t *handle)
{
	hand_over(handle->data);
}

static void on_later(uv_timer_t *timer)
{
	hand_over(timer->data);
}

static void tell_all(struct spool_job *job)
{
	while (job) {
		struct spool_job *next = job->next;

		job->done(job);
		job = next;
	}
}

static void on_back(uv_async_t *handle)
{
	struct spooler *s = handle->data;
	struct spool_job *job = NULL;

	(void)pthread_mutex_lock(&s->lock);
	if (s->done)
		job = take_ptr(s->batch);
	(void)pthread_mutex_unlock(&s->lock);
	if (!job)
		return;
	s->busy = false;
	if (s->first)
		(void)uv_prepare_start(&s->handover, on_handover);
	tell_all(job);
}

static void start_thread(struct spooler *s)
{
	sigset_t all, before;

	/* Signals are the loop's. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&s->thread, NULL, run, s) != 0)
		abort();
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct spooler *spooler_new(uv_loop_t *loop, const struct spool_place *place)
{
	struct spooler *s = xcalloc(1, sizeof(*s));
	pthread_condattr_t attr;

	s->loop = loop;
	s->place = *place;
	s->last = &s->first;
	(void)uv_prepare_init(loop, &s->handover);
	(void)uv_timer_init(loop, &s->later);
	(void)uv_async_init(loop, &s->back, on_back);
	s->handover.data = s->later.data = s->back.data = s;
	uv_unref((uv_handle_t *)&s->back);
	s->handles = 3;
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&s->wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	start_thread(s);
	return s;
}

static void append(struct spooler *s, struct spool_job *job)
{
	job->next = NULL;
	*s->last = job;
	s->last = &job->next;
}

void spooler_do(struct spooler *s, struct spool_job *job)
{
	append(s, job);
	if (!s->busy)
		(void)uv_prepare_start(&s->handover, on_handover);
}

void spooler_do_later(struct spooler *s, struct spool_job *job)
{
	append(s, job);
	if (!s->busy && !uv_is_active((uv_handle_t *)&s->later))
		(void)uv_timer_start(&s->later, on_later, LATER_MS, 0);
}

bool spooler_take_back(struct spooler *s, struct spool_job *job)
{
	for (struct spool_job **at = &s->first; *at; at = &(*at)->next) {
		if (*at != job)
			continue;
		*at = job->next;
		if (!*at)
			s->last = at;
		return true;
	}
	return false;
}

bool spooler_is_idle(const struct spooler *s)
{
	return !s->busy && !s->first;
}

struct close_job {
	struct spool_job job;
	int fd;
};

static void close_work(struct spool_job *job, struct spool_place *p)
{
	(void)fd_close(((struct close_job *)job)->fd);
}

static void close_done(struct spool_job *job)
{
	free(job);
}

int spooler_close_fd(struct spooler *s, int fd)
{
	struct close_job *j;

	if (fd < 0)
		return -1;
	j = xcalloc(1, sizeof(*j));
	j->job = (struct spool_job){ .work = close_work, .done = close_done };
	j->fd = fd;
	spooler_do_later(s, &j->job);
	return -1;
}

static void on_closed(uv_handle_t *h)
{
	struct spooler *s = h->data;

	if (--s->handles == 0)
		free(s);
}

/* False: it has not come to its end in END_MS. */
static bool end_thread(struct spooler *s)
{
	uint64_t until_ns = clock_mono_ns() + END_MS * NS_PER_MS;
	const struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_S),
					.tv_nsec = (long)(until_ns % NS_PER_S) };
	bool ended;

	(void)pthread_mutex_lock(&s->lock);
	s->batch = take_ptr(s->first);
	s->stop = true;
	(void)pthread_cond_signal(&s->wake);
	while (!s->ended && pthread_cond_timedwait(&s->wake, &s->lock, &until) == 0)
		;
	ended = s->ended;
	(void)pthread_mutex_unlock(&s->lock);
	if (!ended)
		return false;
	(void)pthread_join(s->thread, NULL);
	(void)pthread_cond_destroy(&s->wake);
	(void)pthread_mutex_destroy(&s->lock);
	return true;
}

int spooler_free(struct spooler *s)
{
	if (!s)
		return 0;
	if (s->busy || !end_thread(s))
		return -EBUSY;
	tell_all(take_ptr(s->batch));
	uv_close((uv_handle_t *)&s->handover, on_closed);
	uv_close((uv_handle_t *)&s->later, on_closed);
	uv_close((uv_handle_t *)&s->back, on_closed);
	return 0;
}
