/* SPDX-License-Identifier: MIT */
#include "serve/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

struct job {
	void (*fn)(void *data);
	void *data;
};

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t more; /* a job, or the end */
	pthread_cond_t less; /* a thread has ended */
	struct job line[WORKERS_LINE];
	size_t first, n;
	size_t threads;
	bool ends;
};

static void *work(void *data)
{
	struct workers *w = data;

	(void)pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->n && !w->ends)
			(void)pthread_cond_wait(&w->more, &w->lock);
		if (!w->n)
			break;

		struct job j = w->line[w->first];

		w->first = (w->first + 1) % WORKERS_LINE;
		w->n--;
		(void)pthread_mutex_unlock(&w->lock);
		j.fn(j.data);
		(void)pthread_mutex_lock(&w->lock);
	}
	w->threads--;
	(void)pthread_cond_signal(&w->less);
	(void)pthread_mutex_unlock(&w->lock);
	return NULL;
}

int workers_new(struct workers **ret, struct err *e)
{
	struct workers *w = xcalloc(1, sizeof(*w));
	pthread_t thread;

	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_cond_init(&w->more, NULL);
	clock_cond_init(&w->less);
	for (size_t i = 0; i < WORKERS; i++) {
		int r;

		(void)pthread_mutex_lock(&w->lock);
		r = pthread_create(&thread, NULL, work, w);
		w->threads += r == 0;
		(void)pthread_mutex_unlock(&w->lock);
		if (r == 0)
			(void)pthread_detach(thread);
		else if (i == 0) {
			free(w);
			return err_sys(e, r, "start a thread");
		}
	}
	*ret = w;
	return 0;
}

int workers_do(struct workers *w, void (*fn)(void *data), void *data)
{
	int r = -EAGAIN;

	(void)pthread_mutex_lock(&w->lock);
	if (w->n < WORKERS_LINE && !w->ends) {
		w->line[(w->first + w->n++) % WORKERS_LINE] = (struct job){ fn, data };
		(void)pthread_cond_signal(&w->more);
		r = 0;
	}
	(void)pthread_mutex_unlock(&w->lock);
	return r;
}

struct workers *workers_free(struct workers *w, unsigned int limit_ms)
{
	const struct timespec until = clock_timespec(clock_mono_ns() + limit_ms * NS_PER_MS);
	bool gone;

	if (!w)
		return NULL;
	(void)pthread_mutex_lock(&w->lock);
	w->ends = true;
	(void)pthread_cond_broadcast(&w->more);
	while (w->threads && pthread_cond_timedwait(&w->less, &w->lock, &until) == 0)
		;
	gone = w->threads == 0;
	(void)pthread_mutex_unlock(&w->lock);
	if (gone)
		free(w);
	return NULL;
}
