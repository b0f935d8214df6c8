/* SPDX-License-Identifier: MIT */

/*
 * A thread of its own and not one of libuv's pool, whose threads wait for each other's lock at each
 * job: with a job or two per task that was a fifth of the agent's time. What is asked for during
 * one turn of the loop goes over at its end, in one piece, and comes back in one piece.
 */

#include "agent/queue/spooler.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define LATER_MS 10  /* of jobs that may wait for others to go with */
#define END_MS	 500 /* the thread gets so long to close its files */

struct spooler {
	uv_loop_t *loop;
	struct spool_place place; /* the thread's */
	void (*clear)(struct spool_place *place);
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
	s->clear(&s->place);
	place_close(&s->place);
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

struct spooler *spooler_new(uv_loop_t *loop, void (*clear)(struct spool_place *place))
{
	struct spooler *s = xcalloc(1, sizeof(*s));

	s->loop = loop;
	s->clear = clear;
	s->last = &s->first;
	(void)uv_prepare_init(loop, &s->handover);
	(void)uv_timer_init(loop, &s->later);
	(void)uv_async_init(loop, &s->back, on_back);
	s->handover.data = s->later.data = s->back.data = s;
	uv_unref((uv_handle_t *)&s->back);
	s->handles = 3;
	(void)pthread_mutex_init(&s->lock, NULL);
	clock_cond_init(&s->wake);
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
