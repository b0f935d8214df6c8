/* SPDX-License-Identifier: MIT */
#include "agent/attempt/orphans.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "task/end_record.h"
#include "task/orphans.h"

#define STEP_FIRST_MS 10  /* between two looks; ... */
#define STEP_LAST_MS  500 /* ... twice as long each time, and this at most */

struct orphan_ender {
	uv_timer_t timer;
	uv_work_t work;
	struct orphans *orphans;
	int left; /* of the last look */
	bool looking;
	uint32_t hurry_ms; /* UINT32_MAX: not told */
	uint64_t every_ms;
	void (*done)(void *user); /* NULL: forgotten */
	void *user;
};

static void on_closed(uv_handle_t *h)
{
	struct orphan_ender *m = h->data;

	orphans_free(m->orphans);
	free(m);
}

static void look(uv_work_t *work)
{
	struct orphan_ender *m = work->data;

	m->left = orphans_step(m->orphans);
}

static void on_timer(uv_timer_t *timer);

static void on_looked(uv_work_t *work, int status)
{
	struct orphan_ender *m = work->data;

	m->looking = false;
	if (m->done && m->left) {
		(void)uv_timer_start(&m->timer, on_timer, m->every_ms, 0);
		m->every_ms = m->every_ms * 2 < STEP_LAST_MS ? m->every_ms * 2 : STEP_LAST_MS;
		return;
	}
	uv_close((uv_handle_t *)&m->timer, on_closed);
	if (m->done)
		m->done(m->user);
}

static void on_timer(uv_timer_t *timer)
{
	struct orphan_ender *m = timer->data;

	if (m->hurry_ms != UINT32_MAX)
		orphans_hurry(m->orphans, m->hurry_ms);
	m->hurry_ms = UINT32_MAX;
	m->looking = true;
	(void)uv_queue_work(timer->loop, &m->work, look, on_looked);
}

struct orphan_ender *orphan_ender_start(uv_loop_t *loop, const char *token, uint32_t grace_ms,
					void (*done)(void *user), void *user)
{
	struct orphan_ender *m = xcalloc(1, sizeof(*m));

	m->orphans = orphans_begin(token, SIGTERM, grace_ms);
	m->hurry_ms = UINT32_MAX;
	m->every_ms = STEP_FIRST_MS;
	m->done = done;
	m->user = user;
	m->timer.data = m->work.data = m;
	(void)uv_timer_init(loop, &m->timer);
	(void)uv_timer_start(&m->timer, on_timer, 0, 0);
	return m;
}

void orphan_ender_hurry(struct orphan_ender *m, uint32_t grace_ms)
{
	if (!m || grace_ms == UINT32_MAX)
		return;
	m->hurry_ms = grace_ms < m->hurry_ms ? grace_ms : m->hurry_ms;
	m->every_ms = STEP_FIRST_MS;
	if (!m->looking)
		(void)uv_timer_start(&m->timer, on_timer, 0, 0);
}

struct orphan_ender *orphan_ender_forget(struct orphan_ender *m)
{
	if (!m)
		return NULL;
	m->done = NULL;
	if (!m->looking)
		uv_close((uv_handle_t *)&m->timer, on_closed);
	return NULL;
}
