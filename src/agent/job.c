/* SPDX-License-Identifier: MIT */
#include "agent/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "agent/dispatch_state.h"
#include "agent/lifecycle.h"
#include "agent/nodes.h"
#include "agent/parts.h"
#include "agent/report/eventlog.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "engine/engine.h"

struct agent_job {
	struct agent *a;
	uv_timer_t timer;
	uv_work_t work;
	bool asking, closing, closed;
	uint64_t asked_ns;		 /* monotonic: last; 0: never */
	uint64_t first_ns, first_end_ns; /* wall: what it said first, and what we made of that */
	/* Of the question that is under way. */
	int code;
	uint64_t end_ns; /* wall */
	struct err e;
	char told[ERR_TEXT_MAX]; /* what went wrong, as it was said last */
};

/* Where the engine's clock and this node's are apart, an end that is later than --time allows is
 * known to be wrong. */
static uint64_t earlier(const struct agent_job *j, uint64_t end_ns)
{
	const struct view *v = &j->a->view;
	uint64_t most =
		j->a->c->job_time_ms ? v->started_wall_ns + j->a->c->job_time_ms * NS_PER_MS : 0;

	return most && (!end_ns || most < end_ns) ? most : end_ns;
}

static void set_end(struct agent_job *j, uint64_t end_ns)
{
	struct agent *a = j->a;
	uint64_t now = clock_wall_ns();
	char end[CLOCK_TEXT_MAX], leave[UNIT_TEXT_MAX];

	if (!end_ns || end_ns == a->view.job_end_ns)
		return;
	a->view.job_end_ns = end_ns;
	eventlog_say(a->eventlog, LOG_LEVEL_INFO,
		     "the job %s %s ends at %s; %s before that nothing more is started, and what "
		     "runs is stopped and requeued",
		     a->c->job->engine, a->c->job->id, clock_format_local(end_ns, end),
		     unit_format_duration_exact(a->c->leave_ms, leave));
	life_job_ends(a, end_ns > now ? (end_ns - now) / NS_PER_MS : 0);
	if (a->queue)
		nodes_status_changed(a->queue);
}

/* Who runs the engine may give a job more time, or less. */
static void hear_end(struct agent_job *j, uint64_t end_ns)
{
	if (!end_ns && !j->first_ns) {
		set_end(j, earlier(j, 0));
		return;
	}
	if (end_ns && !j->first_ns) {
		j->first_ns = end_ns;
		j->first_end_ns = earlier(j, end_ns);
	}
	if (end_ns)
		set_end(j, j->first_end_ns + end_ns - j->first_ns);
}

/* ---- the engine is asked ---- */

static void ask(struct agent_job *j);

static void on_timer(uv_timer_t *timer)
{
	ask(timer->data);
}

static void ask_work(uv_work_t *work)
{
	struct agent_job *j = work->data;
	const struct engine_env env = { .environ = (const char *const *)environ };

	j->code = j->a->c->engine->deadline(&env, j->a->c->job, &j->end_ns, &j->e);
}

static void ask_later(struct agent_job *j)
{
	const struct view *v = &j->a->view;
	uint64_t left =
		deadline_left_ms(&v->deadlines[DEADLINE_JOB], clock_boot_ns(), clock_wall_ns());
	uint64_t asked = j->asked_ns ? (clock_mono_ns() - j->asked_ns) / NS_PER_MS : UINT64_MAX;
	uint64_t wait = j->first_ns && j->a->c->engine ? deadline_ask_ms(left, asked) : UINT64_MAX;

	if (wait != UINT64_MAX)
		(void)uv_timer_start(&j->timer, on_timer, wait, 0);
}

static void take_answer(struct agent_job *j)
{
	if (j->code == 0)
		hear_end(j, j->end_ns);
	if (j->code == 0 || j->first_ns) {
		ask_later(j);
		return;
	}
	if (strcmp(j->told, j->e.text) != 0)
		eventlog_say(j->a->eventlog, LOG_LEVEL_WARNING,
			     "when this job ends is not known: %s; trying again", j->e.text);
	(void)str_copy(j->told, sizeof(j->told), j->e.text);
	(void)uv_timer_start(&j->timer, on_timer, ENGINE_POLL_MS, 0);
}

static void ask_done(uv_work_t *work, int status)
{
	struct agent_job *j = work->data;

	j->asking = false;
	if (j->closed)
		free(j);
	else if (!j->closing)
		take_answer(j);
}

static void ask(struct agent_job *j)
{
	j->asked_ns = clock_mono_ns();
	j->end_ns = 0;
	j->e = (struct err)ERR_INIT;
	j->work.data = j;
	j->asking = uv_queue_work(&j->a->loop, &j->work, ask_work, ask_done) == 0;
}

/* ---- from outside ---- */

struct agent_job *agent_job_new(struct agent *a)
{
	struct agent_job *j;

	if (!a->c->job)
		return NULL;
	j = xcalloc(1, sizeof(*j));
	j->a = a;
	(void)uv_timer_init(&a->loop, &j->timer);
	j->timer.data = j;
	return j;
}

void agent_job_start(struct agent_job *j)
{
	if (!j)
		return;
	hear_end(j, j->a->c->job->end_ns);
	if (!j->a->c->job->end_ns && j->a->c->engine)
		ask(j);
	else
		ask_later(j);
}

static void on_closed(uv_handle_t *h)
{
	struct agent_job *j = h->data;

	j->closed = true;
	if (!j->asking)
		free(j);
}

void agent_job_close(struct agent_job *j)
{
	if (!j)
		return;
	j->closing = true;
	if (j->asking)
		(void)uv_cancel((uv_req_t *)&j->work);
	uv_close((uv_handle_t *)&j->timer, on_closed);
}
