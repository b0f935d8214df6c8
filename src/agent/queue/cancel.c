/* SPDX-License-Identifier: MIT */
#include "agent/queue/cancel.h"

#include <errno.h>

#include "agent/queue/depends.h"
#include "agent/queue/waiting.h"
#include "base/clock.h"
#include "base/str.h"
#include "spool/transit.h"

#define LOOKS	  3 /* another node may begin it, or a command give it another name, meanwhile */
#define CANCELLED 2

static int begun_again(uint64_t id, struct err *e)
{
	return err_set(e, -EBUSY, "another node has begun task %llu again; stop it once more",
		       (unsigned long long)id);
}

/* Its batch by its name of now. -ENOENT: it does not wait any more. */
static int get_by_name(struct spool_place *p, uint64_t id, struct waiting_batch *ret, struct err *e)
{
	struct task_name n = { .id = 0 };
	int r = waiting_name(p, id, &n, e);

	*ret = (struct waiting_batch){ NULL, false };
	if (r == 0)
		r = waiting_get(p, id, ret, e);
	if (r == 0)
		batch_set_name(ret->batch, &n);
	return r;
}

/* Its line is on disk when it returns. One that is over, or runs elsewhere, does not wait.
 * CLAIM_LOST: look again. */
static int end_waiting(struct spool_place *p, struct batch *b, uint64_t element,
		       const struct cancel_how *how, struct err *e)
{
	struct spool_end end = { .result = RESULT_CANCELLED,
				 .attempt = how->attempt,
				 .exit = how->exit,
				 .begun_ns = how->attempt ? 0 : clock_wall_ns() };
	struct claim c;
	int r = batch_claim_to_end(b, element, &p->self, &c, e);

	if (r != 0)
		return r;
	end.epoch = c.name.epoch;
	end.ended_ns = clock_wall_ns();
	(void)str_copy(end.reason, sizeof(end.reason), how->reason);
	r = batch_end(b, p->events, &c, &end, e);
	if (r == BATCH_SUPERSEDED)
		return CLAIM_LOST;
	if (r < 0)
		batch_give_back(b, &c);
	else
		r = batch_sync(b, e);
	if (r == 0)
		r = waiting_commit_if_over(b, p, c.name.id, e);
	return r < 0 ? r : CANCELLED;
}

/* CANCELLED; 0: it does not wait; CLAIM_LOST: look again; or negative. */
static int try_to_cancel(struct spool_place *p, const struct task_name *n,
			 const struct cancel_how *how, struct err *e)
{
	struct waiting_batch b;
	unsigned int attempts;
	uint64_t epoch;
	enum batch_state state;
	int r = get_by_name(p, n->id, &b, e);

	if (r == 0) /* another node may have put it back */
		r = batch_refresh_now(b.batch, e);
	state = r == 0 ? batch_state(b.batch, n->element, &epoch, &attempts) : BATCH_DONE;
	if (state == BATCH_WAITING)
		r = end_waiting(p, b.batch, n->element, how, e);
	else if (state == BATCH_RUNNING)
		r = CLAIM_LOST;
	waiting_put(p, &b);
	return r;
}

static int kept(struct spool_place *p, unsigned int dirs, struct err *e)
{
	int r = spool_sync_dirs(p->spool, dirs, e);

	return r < 0 ? r : 1;
}

int cancel_element(struct spool_place *p, const struct task_name *n, const struct cancel_how *how,
		   struct err *e)
{
	for (int look = 0; look < LOOKS; look++) {
		int r = try_to_cancel(p, n, how, e);

		if (r == -ENOENT) /* its batch does not wait any more */
			return 0;
		if (r == 0 && look)
			break;
		if (r != CLAIM_LOST)
			return r == CANCELLED ? kept(p, SPOOL_BIT(SPOOL_ENDS), e) : r;
	}
	return begun_again(n->id, e);
}

/* The attempt that was stopped had ended for good, and what waits was asked for since. n: of the
 * claim; what never was claimed cannot have ended. */
static bool was_asked_for_again(const struct spool_place *p, const struct task_name *waiting,
				const struct task_name *n)
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	const struct spool_end *end;
	struct task_file t;
	bool again;

	(void)spool_path(SPOOL_PENDING, name_format(waiting, file), path);
	if (!n->agent[0] || task_file_read(p->spool, path, &t, NULL) < 0)
		return false;
	end = &t.history.end;
	again = end->ended_ns && end->epoch >= n->epoch;
	task_file_clear(&t);
	return again;
}

/* By its name of now. CANCELLED; 0: it does not wait, or run; TRANSIT_GONE: it is not where it was
 * just seen, or is another's. */
static int cancel_single(struct spool_place *p, const struct task_name *n, const char *reason,
			 struct err *e)
{
	struct scan *s = scan_new(p->spool, 0);
	int r = scan_update(s, NULL, NULL, e);
	const struct scan_task *t = r == 0 ? scan_find(s, n->id, 0) : NULL;

	if (t && t->dir != SPOOL_PENDING)
		r = TRANSIT_GONE;
	else if (t && !was_asked_for_again(p, &t->name, n) &&
		 (r = transit_cancel(p->spool, &t->name, reason, e)) == 0)
		r = CANCELLED;
	(void)scan_free(s);
	return r;
}

int cancel_waiting(struct spool_place *p, const struct task_name *n, const char *reason,
		   struct err *e)
{
	int r = TRANSIT_GONE;

	if (n->element)
		return cancel_element(p, n, &(struct cancel_how){ .reason = reason }, e);
	for (int look = 0; look < LOOKS && r == TRANSIT_GONE; look++)
		r = cancel_single(p, n, reason, e);
	if (r == TRANSIT_GONE)
		return begun_again(n->id, e);
	if (r <= 0)
		return r;
	depends_ended(p, n->id, false);
	return kept(p, SPOOL_BIT(SPOOL_PENDING) | SPOOL_BIT(SPOOL_CANCELLED), e);
}
