/* SPDX-License-Identifier: MIT */
#include "agent/attempt/shim.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/attempt/lease.h"
#include "agent/attempt/runend.h"
#include "base/nofile.h"

#define STOP_AGAIN_MS 100
#define LOOK_LAST_MS  10000
#define FDS_SPARE     16U /* for everything but shims */

static void on_connection_closed(uv_handle_t *h)
{
	struct connection *conn = h->data;

	(void)fd_close(conn->fd);
	free(conn);
}

void attempt_shim_hang_up(struct attempt *r)
{
	struct connection *conn = take_ptr(r->conn);

	if (!conn)
		return;
	conn->attempt = NULL;
	uv_close((uv_handle_t *)&conn->poll, on_connection_closed);
}

static void ended_unknown(struct attempt *r, enum task_outcome outcome, const char *why)
{
	struct task_end end = { .outcome = outcome, .ended_wall_ns = clock_wall_ns() };

	(void)str_copy(end.text, sizeof(end.text), why);
	attempt_ended(r, &end);
}

/* The shim's connection broke without its last word: was it killed, and what is left of the task?
 */
struct lost_job {
	struct spool_job job;
	struct attempt *r;
	struct adopted found;
	struct err e;
	int code;
};

static void lost_work(struct spool_job *job, struct spool_place *p)
{
	struct lost_job *l = (struct lost_job *)job;
	const struct shim_id id = { .proc = l->r->shim };

	l->code = adopt_settle(l->r->token, &id, l->r->place->run_dir, &l->found, &l->e);
	if (l->code == 0 && l->found.found == ADOPT_OTHER && !l->r->refused[0])
		l->code = err_set(&l->e, -EAGAIN, "another process has its shim's name");
	/* What runs on without us is no harm; an agent that can open nothing is. */
	if (l->code == 0 && l->found.found == ADOPT_LIVES &&
	    (uint64_t)l->found.fd + FDS_SPARE >= nofile_soft()) {
		(void)fd_close(l->found.fd);
		l->code = err_sys(&l->e, EMFILE, "speak with its shim, too");
	}
}

static void on_look_again(uv_timer_t *timer)
{
	attempt_shim_look(timer->data);
}

/* It runs, has ended, or was killed: nobody knows. That is no end. */
static void look_later(struct attempt *r, const struct err *e)
{
	if (!r->retry_ms)
		eventlog_say(r->place->eventlog, LOG_LEVEL_ERROR,
			     "what has become of task %llu cannot be told: %s; looking again",
			     (unsigned long long)r->ref.id, e->text);
	r->retry_ms = r->retry_ms ? r->retry_ms * 2 : RETRY_FIRST_MS;
	r->retry_ms = r->retry_ms < LOOK_LAST_MS ? r->retry_ms : LOOK_LAST_MS;
	(void)uv_timer_start(&r->timer, on_look_again, r->retry_ms, 0);
}

static void found_alive(struct attempt *r, const struct adopted *found)
{
	r->refused[0] = '\0';
	r->shim = found->proc;
	r->state = AT_RUNNING;
	attempt_shim_listen(r, found->fd);
	attempt_on_guard(r);	     /* one that is new does not know of it */
	(void)talk_adopt(found->fd); /* since when */
	if (r->kind != END_MAX)	     /* it could not be told before */
		attempt_shim_stop(r);
}

static void on_remains_gone(void *user)
{
	struct attempt *r = user;

	r->remains = NULL;
	ended_unknown(r, TASK_UNKNOWN, "its shim was killed; what was left of it has been ended");
}

static void found_nobody(struct attempt *r)
{
	if (r->refused[0])
		ended_unknown(r, TASK_REFUSED, r->refused);
	else
		r->remains = orphan_ender_start(r->place->loop, r->token,
						r->stop_grace_ms < r->spec->grace
							? r->stop_grace_ms
							: (uint32_t)r->spec->grace,
						on_remains_gone, r);
}

static void lost_done(struct spool_job *job)
{
	struct lost_job *l = (struct lost_job *)job;
	struct attempt *r = l->r;

	if (l->code < 0) {
		look_later(r, &l->e);
		free(l);
		return;
	}
	r->looking = false;
	r->retry_ms = 0;
	if (l->found.found == ADOPT_LIVES)
		found_alive(r, &l->found);
	else if (l->found.found == ADOPT_ENDED)
		attempt_ended(r, &l->found.record.end);
	else
		found_nobody(r);
	free(l);
}

void attempt_shim_look(struct attempt *r)
{
	struct lost_job *l = xcalloc(1, sizeof(*l));

	attempt_shim_hang_up(r);
	r->looking = true;
	l->job = (struct spool_job){ .work = lost_work, .done = lost_done };
	l->r = r;
	spooler_do(r->place->spooler, &l->job);
}

struct note_job {
	struct spool_job job;
	struct attempt *r;
	struct claim claim;
	struct err e;
	int code;
};

static void note_work(struct spool_job *job, struct spool_place *p)
{
	struct note_job *n = (struct note_job *)job;

	n->code = claim_started(p->spool, &n->claim, &n->r->shim, &n->r->uuids, &n->e);
	n->code = spool_confirm(p->spool, n->claim.path, n->code, &n->e);
}

static void note(struct attempt *r, bool waits);

static void on_note_again(uv_timer_t *timer)
{
	struct attempt *r = timer->data;

	if (r->state == AT_STARTING && !r->gone)
		note(r, true);
}

/* Whether the claim is ours still, so long after it was made, only the note can tell. */
static void note_later(struct attempt *r, const struct err *e)
{
	if (!r->retry_ms)
		eventlog_say(r->place->eventlog, LOG_LEVEL_ERROR, "task %llu cannot begin yet: %s",
			     (unsigned long long)r->ref.id, e->text);
	r->retry_ms = r->retry_ms ? r->retry_ms * 2 : RETRY_FIRST_MS;
	r->retry_ms = r->retry_ms < LOOK_LAST_MS ? r->retry_ms : LOOK_LAST_MS;
	(void)uv_timer_start(&r->timer, on_note_again, r->retry_ms, 0);
}

static void go_on(struct attempt *r)
{
	r->retry_ms = 0;
	r->state = AT_GRANTING;
	if (r->leased)
		attempt_lease_grant(r);
	else
		attempt_shim_go(r);
}

static void note_done(struct spool_job *job)
{
	struct note_job *n = (struct note_job *)job;
	struct attempt *r = n->r;

	r->note = NULL;
	r->claim = n->claim;
	if (n->code == -ENOENT) {
		/* We were away for so long that others took it. */
		attempt_stop(r, END_NODE_LOST, 0, "the task was given to another node");
	} else if (!r->gone && r->state == AT_STARTING) {
		if (n->code < 0 && clock_boot_ns() > attempt_go_until(r))
			note_later(r, &n->e);
		else
			go_on(r);
	}
	free(n);
}

/* From now on the claim lives as long as its shim. waits: it has not begun, and GO comes after. */
static void note(struct attempt *r, bool waits)
{
	struct note_job *n = xcalloc(1, sizeof(*n));

	n->job = (struct spool_job){ .work = note_work, .done = note_done };
	n->r = r;
	n->claim = r->claim;
	r->note = &n->job;
	/* Until it is noted its token leads to the shim. */
	(waits ? spooler_do : spooler_do_later)(r->place->spooler, &n->job);
}

static void note_shim(struct attempt *r, const union shmsg *m, bool waits)
{
	r->shim = (struct proc_id){ .pid = m->status.shim_pid, .start = m->status.shim_start };
	note(r, waits);
}

static void on_prepared(struct attempt *r, const union shmsg *m)
{
	if (r->state == AT_STARTING && !r->shim.pid)
		note_shim(r, m, true);
}

/* A task that waited for nothing was started without PREPARED. */
static void on_started(struct attempt *r, const union shmsg *m)
{
	if (!r->shim.pid)
		note_shim(r, m, false);
	if (r->state != AT_RUNNING || !r->started_ns) {
		r->state = AT_RUNNING;
		r->started_ns = clock_mono_ns() - m->status.run_ns;
		r->place->started(r->place->user, r);
	}
}

/* One that we have found, and whose agent went before GO. To one that we are about to start
 * ourselves it is no news: an older shim answers all when somebody looks. */
static void on_never_begun(struct attempt *r)
{
	if (r->state == AT_RUNNING)
		attempt_stop(r, END_NODE_LOST, UINT32_MAX, "its agent ended before it could begin");
}

/* Nothing was started for us; but if that is because another shim has the task, it is its. */
static void refused(struct attempt *r, const char *why)
{
	(void)str_copy(r->refused, sizeof(r->refused), *why ? why : "its shim was refused");
	attempt_shim_look(r);
}

static void take_message(struct attempt *r, int type, const union shmsg *m)
{
	if (type == SHMSG_PREPARED)
		on_prepared(r, m);
	else if (type == SHMSG_STATUS && m->status.state == SHIM_PREPARED)
		on_never_begun(r);
	else if (type == SHMSG_STARTED || type == SHMSG_STATUS)
		on_started(r, m);
	else if (type == SHMSG_ENDED && m->ended.end.outcome == TASK_REFUSED &&
		 !m->ended.end.started_wall_ns) /* else it took the task, and could not begin it */
		refused(r, m->ended.end.text);
	else if (type == SHMSG_ENDED)
		attempt_ended(r, &m->ended.end);
}

/* What it had to say may be known, and its end be filed just now. */
static void on_gone(struct attempt *r)
{
	if (r->gone)
		attempt_shim_hang_up(r);
	else
		attempt_shim_look(r);
}

static void on_shim(uv_poll_t *poll, int status, int events)
{
	struct connection *conn = poll->data;
	cleanup_free union shmsg *m = xmalloc(sizeof(*m));

	while (conn->attempt) {
		int type = talk_recv(conn->fd, m);

		if (type == -EAGAIN)
			break;
		if (type <= 0) {
			on_gone(conn->attempt);
			break;
		}
		take_message(conn->attempt, type, m);
	}
}

void attempt_shim_listen(struct attempt *r, int fd)
{
	struct connection *conn = xcalloc(1, sizeof(*conn));

	conn->fd = fd;
	conn->attempt = r;
	conn->poll.data = conn;
	(void)uv_poll_init(r->place->loop, &conn->poll, fd);
	(void)uv_poll_start(&conn->poll, UV_READABLE, on_shim);
	r->conn = conn;
}

void attempt_shim_go(struct attempt *r)
{
	if (r->conn && talk_go(r->conn->fd, r->devices_text, NULL, 0) < 0)
		attempt_shim_look(r);
}

static void on_stop_again(uv_timer_t *timer)
{
	struct attempt *r = timer->data;

	if (r->conn)
		attempt_shim_stop(r);
}

void attempt_shim_stop(struct attempt *r)
{
	/* Only what its owner says is for its record: what gives way waits again, whoever reads it.
	 */
	int code = r->kind == END_STOPPED ? talk_stop(r->conn->fd, 0, STOP_TREE, r->stop_grace_ms)
					  : talk_requeue(r->conn->fd, r->stop_grace_ms);

	/* A shim that is stopped, or slow, has not read what we said before. */
	if (code == -EAGAIN)
		(void)uv_timer_start(&r->timer, on_stop_again, STOP_AGAIN_MS, 0);
}
