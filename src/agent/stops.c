/* SPDX-License-Identifier: MIT */
#include "agent/stops.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/attempt/steps.h"
#include "agent/attempt/task.h"
#include "agent/dispatch_state.h"
#include "agent/queue/cancel.h"
#include "agent/queue/planview.h"
#include "agent/task_events.h"
#include "base/mem.h"
#include "base/str.h"

#define VAIN_MAX 64

/* One that came to nothing, of a task that does not run any more: for who waits for the answer. */
struct vain_stop {
	struct sched_ref ref;
	bool elsewhere; /* it runs here no more, or never did, and may elsewhere */
	char why[ERR_TEXT_MAX];
};

struct stops {
	struct vain_stop vain[VAIN_MAX]; /* the last ones */
	unsigned int n_vain;
	struct stop_job *jobs; /* that are being written down */
};

struct stop_job {
	struct spool_job job;
	struct stop_job *next; /* of the queue's */
	struct dispatch *q;
	struct claim claim;
	int code;
	struct err e;
};

static void stop_work(struct spool_job *job, struct spool_place *p)
{
	struct stop_job *j = (struct stop_job *)job;

	j->code = j->claim.path[0] ? claim_stopped(p->spool, &j->claim, &j->e) : -ENOENT;
	/* Its end was being written when it was stopped: it may be requeued by now. */
	if (j->code == -ENOENT)
		j->code = cancel_waiting(p, &j->claim.name, ATTEMPT_STOPPED_TEXT, &j->e);
}

/* It waits in the plan, too, if it has not left that meanwhile. */
static void tell_taken_back(struct dispatch *q, const struct task_name *n)
{
	struct sched_ref ref = planview_ref(n);

	task_events_taken_back(&q->place, ref);
	(void)(ref.element ? sched_remove_element : sched_remove)(q->plan, ref);
	groupcommit_soon(q->groupcommit);
	spoolwatch_rescan(q->spoolwatch);
}

void stops_keep_vain(struct dispatch *q, struct sched_ref ref, bool elsewhere, const char *why)
{
	struct vain_stop *v = &q->stops->vain[q->stops->n_vain++ % VAIN_MAX];

	v->ref = ref;
	v->elsewhere = elsewhere;
	(void)str_copy(v->why, sizeof(v->why), why);
}

static bool is_asked_for(struct sched_ref ref, uint64_t id, uint32_t element)
{
	return ref.id == id && (!element || ref.element == element);
}

static void forget_vain(struct dispatch *q, uint64_t id, uint32_t element)
{
	for (size_t i = 0; i < VAIN_MAX; i++)
		if (is_asked_for(q->stops->vain[i].ref, id, element))
			q->stops->vain[i] = (struct vain_stop){ .why = "" };
}

static void forget_stop(struct dispatch *q, const struct stop_job *j)
{
	struct stop_job **at = &q->stops->jobs;

	while (*at != j)
		at = &(*at)->next;
	*at = j->next;
}

static void stop_done(struct spool_job *job)
{
	struct stop_job *j = (struct stop_job *)job;
	const struct task_name *n = &j->claim.name;
	struct attempt *r = attempt_by_ref(&j->q->place, planview_ref(n));
	bool failed = j->code < 0, elsewhere = j->code == -EBUSY;

	forget_stop(j->q, j);
	if (j->code > 0)
		tell_taken_back(j->q, n);
	if (elsewhere)
		eventlog_say(j->q->place.eventlog, LOG_LEVEL_ERROR, "%s", j->e.text);
	else if (failed)
		eventlog_tell_trouble(j->q->place.eventlog, n->id, 0, "stop", j->e.text, NULL);
	if (r) {
		r->stop.elsewhere = elsewhere;
		(void)str_copy(r->stop.unwritten, sizeof(r->stop.unwritten),
			       failed ? j->e.text : "");
	} else if (failed) {
		stops_keep_vain(j->q, planview_ref(n), elsewhere, j->e.text);
	}
	free(j);
}

static void write_stop(struct dispatch *q, const struct claim *c)
{
	struct stop_job *j = xcalloc(1, sizeof(*j));

	*j = (struct stop_job){ .job = { .work = stop_work, .done = stop_done },
				.next = q->stops->jobs,
				.q = q,
				.claim = *c };
	q->stops->jobs = j;
	spooler_do(q->spooler, &j->job);
}

/* Of what is still being claimed it is written when it is ours, and before its end. */
void stops_write(struct dispatch *q, const struct attempt *r)
{
	if (r->claim.path[0])
		write_stop(q, &r->claim);
}

/* Another claim has it, which is found by who looks again. */
static bool is_elsewhere(const struct dispatch *q, uint64_t id, uint32_t element)
{
	for (const struct attempt *r = q->place.tasks; r; r = r->next)
		if (r->stop.elsewhere && is_asked_for(r->ref, id, element))
			return true;
	for (size_t i = 0; i < VAIN_MAX; i++)
		if (q->stops->vain[i].elsewhere && is_asked_for(q->stops->vain[i].ref, id, element))
			return true;
	return false;
}

static bool is_claiming(const struct dispatch *q, uint64_t id, uint32_t element)
{
	for (const struct attempt *r = q->place.tasks; r; r = r->next)
		if (r->state == AT_CLAIMING && is_asked_for(r->ref, id, element))
			return true;
	return false;
}

static bool is_being_written(const struct dispatch *q, uint64_t id, uint32_t element)
{
	for (const struct stop_job *j = q->stops->jobs; j; j = j->next)
		if (is_asked_for(planview_ref(&j->claim.name), id, element))
			return true;
	return false;
}

static int not_here(uint64_t id, struct err *e)
{
	return err_set(e, -ENOENT, "task %llu does not run on this node", (unsigned long long)id);
}

/* One that this agent, or one before it, may have begun. */
static int not_known(const struct dispatch *q, uint64_t id, struct err *e)
{
	const char *why = dispatch_is_open(q) ? NULL : spoolwatch_trouble(q->spoolwatch);

	return err_set(e, -EAGAIN,
		       "the agent does not know yet whether task %llu runs under it%s%s; try again",
		       (unsigned long long)id, why ? ": " : "", why ? why : "");
}

int stops_settled(const struct dispatch *q, uint64_t id, uint32_t element, struct err *e)
{
	if (is_elsewhere(q, id, element))
		return not_here(id, e);
	if (is_claiming(q, id, element))
		return err_set(e, -EBUSY,
			       "task %llu is just being claimed, and whether it is this node's is "
			       "not known yet; stop it once more",
			       (unsigned long long)id);
	return is_being_written(q, id, element) ? err_set(e, -EAGAIN, "the spool does not answer")
						: 0;
}

const char *stops_unwritten(const struct dispatch *q, uint64_t id, uint32_t element)
{
	for (const struct attempt *r = q->place.tasks; r; r = r->next)
		if (is_asked_for(r->ref, id, element) && r->stop.unwritten[0])
			return r->stop.unwritten;
	for (size_t i = 0; i < VAIN_MAX; i++)
		if (q->stops->vain[i].why[0] && is_asked_for(q->stops->vain[i].ref, id, element))
			return q->stops->vain[i].why;
	return NULL;
}

int stops_order(struct dispatch *q, uint64_t id, uint32_t element, bool now, unsigned int sweep,
		struct err *e)
{
	unsigned int n = 0;

	forget_vain(q, id, element);
	for (struct attempt *r = q->place.tasks; r; r = r->next) {
		if (!is_asked_for(r->ref, id, element))
			continue;
		r->sweep |= sweep;
		/* First, for it may be gone after it. */
		stops_write(q, r);
		attempt_stop(r, END_STOPPED, now ? 0 : UINT32_MAX, ATTEMPT_STOPPED_TEXT);
		n++;
	}
	if (n)
		return 0;
	return recovery_may_have(q->recovery, id) ? not_known(q, id, e) : not_here(id, e);
}

void stops_write_by_name(struct dispatch *q, struct sched_ref ref)
{
	write_stop(q, &(struct claim){ .name = { .id = ref.id, .element = ref.element } });
}

/* What has not ended by itself before the job does is killed by the engine, and nobody files that.
 */
#define KILL_MARGIN_MS 30000

static uint32_t grace_in_job(const struct dispatch *q, const struct attempt *r)
{
	uint64_t left = q->c->leave_ms > 2 * (uint64_t)KILL_MARGIN_MS
				? q->c->leave_ms - KILL_MARGIN_MS
				: KILL_MARGIN_MS;
	uint32_t most = q->place.view->life.grace_ms ?: (uint32_t)left;

	return r->spec && r->spec->grace < most ? UINT32_MAX : most;
}

void stops_for_drain(struct dispatch *q, struct attempt *r)
{
	static const struct {
		enum end_kind kind;
		const char *why;
	} ends[DRAIN_HOW_MAX] = {
		[DRAIN_REQUEUE] = { END_LIFETIME, "stopped at the end of its agent's lifetime" },
		[DRAIN_EXPIRE] = { END_EXPIRED, "expired: the job of its agent ends" },
		[DRAIN_CANCEL] = { END_STOPPED, ATTEMPT_STOPPED_TEXT },
	};
	enum drain_how how = q->place.view->life.how;

	if (how == DRAIN_CANCEL)
		stops_write(q, r);
	attempt_stop(r, ends[how].kind, how == DRAIN_EXPIRE ? grace_in_job(q, r) : UINT32_MAX,
		     ends[how].why);
}

struct stops *stops_new(void)
{
	return xcalloc(1, sizeof(struct stops));
}
