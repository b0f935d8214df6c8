/* SPDX-License-Identifier: MIT */
#include "agent/attempt/shim.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/attempt/orphans.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/nofile.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "task/adopt.h"
#include "task/shim_client.h"

#define LAUNCH_AGAIN_MS 5
#define STOP_AGAIN_MS	100
#define LOOK_LAST_MS	10000
#define FDS_SPARE	16U /* for everything but shims */

/* A connection to a shim, and its handle, which the loop gives back later than we let go of it. */
struct connection {
	uv_poll_t poll;
	int fd;
	struct attempt *attempt; /* NULL: let go of */
};

/* ---- launch ---- */

/* An instance of MIG has no number, and of what is unseen a name may be all that is known. */
static bool has_number(const struct dev_status *d)
{
	uint64_t number;

	return d->mig < 0 && (!(d->flags & DEVICE_UNSEEN) || str_to_u64(d->uuid, &number) == 0);
}

/* CUDA_VISIBLE_DEVICES, and the same in words. */
static void name_devices(struct attempt *a, struct strbuf *visible, bool *by_index)
{
	struct strbuf text = STRBUF_INIT;

	*by_index = a->ops->by_index || !a->place->c->by_uuid;
	devset_each(slot, a->devices) *by_index =
		*by_index && has_number(&a->place->view->devices[slot]);
	devset_each(slot, a->devices)
	{
		const struct dev_status *d = &a->place->view->devices[slot];

		if (*by_index)
			strbuf_addf(visible, "%s%u", visible->len ? "," : "", d->index);
		else
			strbuf_addf(visible, "%s%s", visible->len ? "," : "", d->uuid);
		strbuf_addf(&text, "%s%u", text.len ? ", " : "GPU ", d->index);
	}
	(void)str_copy(a->devices_text, sizeof(a->devices_text), strbuf_str(&text));
	strbuf_clear(&text);
}

/* Less than `expire` by far. One that starts later, because the node was suspended or its file
 * system hung, is noted in the claim first, which tells whether it is ours still. */
uint64_t attempt_shim_go_until(const struct attempt *a)
{
	return a->claim_began_ns + a->place->c->heartbeat_ms * NS_PER_MS;
}

static int ask_for_shim(struct attempt *a, struct err *e)
{
	cleanup_strbuf struct strbuf visible = STRBUF_INIT;
	struct launch_with with = { .instance = a->place->c->instance,
				    .job = agent_job_key(a->place->c),
				    .node = a->place->self->host,
				    .node_name = agent_node_name(a->place->c, a->place->self),
				    .run_dir = a->place->run_dir,
				    .log_limit = a->place->c->log_limit };
	struct launch *j;
	int code;

	name_devices(a, &visible, &with.by_index);
	with.visible = strbuf_str(&visible);
	a->ops->describe(a, &with);
	code = launch_make(a->spec, a->token, &with, &j, e);
	if (code < 0)
		return code;
	code = shim_client_start(&a->place->fork_server, launch_get(j), a->log_fd, e);
	launch_free(j);
	return code;
}

void attempt_shim_launch(struct attempt *a, const void *with)
{
	struct fork_server *fork_server = &a->place->fork_server;
	struct err e = ERR_INIT;
	int fd = fork_server->fd < 0
			 ? fork_server_start(fork_server, a->place->self->program_fd, &e)
			 : 0;

	if (fd < 0) {
		a->ops->launch_failed(a, -EIO, &e); /* whatever it is, the task is not at fault */
		return;
	}
	fd = ask_for_shim(a, &e);
	if (fd == -EPIPE)
		fork_server_close(fork_server);
	if (fd == -EPIPE || fd == -EAGAIN) {
		attempt_soon(a, LAUNCH_AGAIN_MS);
	} else if (fd < 0) {
		a->ops->launch_failed(a, fd, &e);
	} else {
		/* Its shim has it. */
		a->log_fd = spooler_close_fd(a->place->spooler, a->log_fd);
		attempt_event(a, ON_CONNECTED, &fd);
	}
}

/* ---- the connection ---- */

static void on_connection_closed(uv_handle_t *h)
{
	struct connection *conn = h->data;

	(void)fd_close(conn->fd);
	free(conn);
}

void attempt_shim_hang_up(struct attempt *a, const void *with)
{
	struct connection *conn = take_ptr(a->conn);

	if (!conn)
		return;
	conn->attempt = NULL;
	uv_close((uv_handle_t *)&conn->poll, on_connection_closed);
}

/* Nothing was started for us; but if that is because another shim has the task, it is its. */
static bool is_denied(const struct task_end *end)
{
	/* Else it took the task, and could not begin it. */
	return end->outcome == TASK_REFUSED && !end->started_wall_ns;
}

static void take_message(struct attempt *a, int type, const union shmsg *m)
{
	if (type == SHMSG_PREPARED)
		attempt_event(a, ON_PREPARED, &m->status);
	/* To one that we are about to start ourselves it is no news: an older shim answers all when
	 * somebody looks. */
	else if (type == SHMSG_STATUS && m->status.state == SHIM_PREPARED)
		attempt_event(a, ON_NEVER_BEGAN, NULL);
	else if (type == SHMSG_STARTED || type == SHMSG_STATUS)
		attempt_event(a, ON_STARTED, &m->status);
	else if (type == SHMSG_ENDED && is_denied(&m->ended.end))
		attempt_event(a, ON_DENIED, m->ended.end.text);
	else if (type == SHMSG_ENDED)
		attempt_event(a, ON_ENDED, &m->ended.end);
}

static void on_shim(uv_poll_t *poll, int status, int events)
{
	struct connection *conn = poll->data;
	cleanup_free union shmsg *m = xmalloc(sizeof(*m));

	while (conn->attempt) {
		int type = shmsg_recv(conn->fd, m);

		if (type == -EAGAIN)
			break;
		if (type <= 0) {
			attempt_event(conn->attempt, ON_HUNG_UP, NULL);
			break;
		}
		take_message(conn->attempt, type, m);
	}
}

void attempt_shim_listen(struct attempt *a, const void *with)
{
	struct connection *conn = xcalloc(1, sizeof(*conn));

	conn->fd = *(const int *)with;
	conn->attempt = a;
	conn->poll.data = conn;
	(void)uv_poll_init(a->place->loop, &conn->poll, conn->fd);
	(void)uv_poll_start(&conn->poll, UV_READABLE, on_shim);
	a->conn = conn;
}

void attempt_shim_go(struct attempt *a, const void *with)
{
	if (shim_client_go(a->conn->fd, a->devices_text, (const char *const *)a->go_env.texts,
			   a->go_env.n) < 0)
		attempt_event(a, ON_HUNG_UP, NULL);
}

void attempt_shim_stop(struct attempt *a, const void *with)
{
	/* Only what its owner says is for its record: what is preempted is requeued, whoever reads
	 * it. */
	int code = a->ops->requeues && a->end_kind != END_STOPPED
			   ? shim_client_requeue(a->conn->fd, a->stop_grace_ms)
			   : shim_client_stop(a->conn->fd, 0, STOP_TREE, a->stop_grace_ms);

	/* A shim that is stopped, or slow, has not read what we said before. */
	if (code == -EAGAIN)
		attempt_soon(a, STOP_AGAIN_MS);
}

void attempt_shim_tell_use(const struct attempt *a, uint64_t peak_bytes, uint32_t util_permille)
{
	if (a->conn && a->shown == AT_RUNNING)
		(void)shim_client_gpu(a->conn->fd, peak_bytes, util_permille);
}

void attempt_shim_acknowledge(const struct attempt *a)
{
	if (a->end.record_errno && a->conn)
		(void)shim_client_ack(a->conn->fd);
}

/* ---- one that is not connected ---- */

static void ended_unknown(struct attempt *a, enum task_outcome outcome, const char *why)
{
	struct task_end end = { .outcome = outcome, .ended_wall_ns = clock_wall_ns() };

	(void)str_copy(end.text, sizeof(end.text), why);
	attempt_event(a, ON_ENDED, &end);
}

/* The connection broke without the shim's last word: was it killed, and what is left of the task?
 * Until that is known nothing else writes what is read here. */
struct look_job {
	struct spool_job job;
	struct attempt *a;
	struct adopted found;
	struct err e;
	int code;
};

static void look_work(struct spool_job *job, struct spool_place *p)
{
	struct look_job *l = (struct look_job *)job;
	const struct shim_id id = { .proc = l->a->shim };

	l->code = adopt_settle(l->a->token, &id, l->a->place->run_dir, &l->found, &l->e);
	/* That is no answer, unless ours was denied: then nobody of ours runs. */
	if (l->code == 0 && l->found.found == ADOPT_OTHER && !l->a->denied[0])
		l->code = err_set(&l->e, -EAGAIN, "another process has its shim's name");
	/* What runs on without us is no harm; an agent that can open nothing is. */
	if (l->code == 0 && l->found.found == ADOPT_LIVES &&
	    (uint64_t)l->found.fd + FDS_SPARE >= nofile_soft()) {
		(void)fd_close(l->found.fd);
		l->code = err_sys(&l->e, EMFILE, "speak with its shim, too");
	}
}

static void look_done(struct spool_job *job)
{
	struct look_job *l = (struct look_job *)job;
	struct attempt *a = l->a;

	/* It runs, has ended, or was killed: nobody knows. That is no end. */
	if (l->code < 0 && attempt_later(a, LOOK_LAST_MS))
		a->ops->unseen(a, &l->e);
	if (l->code == 0 && l->found.found == ADOPT_LIVES)
		attempt_event(a, ON_FOUND, &l->found);
	else if (l->code == 0 && l->found.found == ADOPT_ENDED)
		attempt_event(a, ON_ENDED, &l->found.record.end);
	else if (l->code == 0 && a->denied[0])
		ended_unknown(a, TASK_REFUSED, a->denied);
	else if (l->code == 0)
		attempt_event(a, ON_FOUND_NOBODY, NULL);
	free(l);
}

void attempt_shim_look(struct attempt *a, const void *with)
{
	struct look_job *l = xcalloc(1, sizeof(*l));

	attempt_shim_hang_up(a, NULL);
	l->job = (struct spool_job){ .work = look_work, .done = look_done };
	l->a = a;
	spooler_do(a->place->spooler, &l->job);
}

void attempt_shim_adopt(struct attempt *a, const void *with)
{
	const struct adopted *found = with;

	a->denied[0] = '\0';
	a->shim = found->proc;
	attempt_shim_listen(a, &found->fd);
	attempt_event(a, ON_GUARD_NEW, NULL); /* one that is new does not know of it */
	(void)shim_client_adopt(found->fd);   /* since when */
	if (a->end_kind != END_MAX)	      /* it could not be told before */
		attempt_event(a, ON_STOP, NULL);
}

static void on_orphans_gone(void *user)
{
	struct attempt *a = user;

	a->orphans = NULL;
	ended_unknown(a, TASK_UNKNOWN, "its shim was killed; its orphans were ended");
}

void attempt_shim_end_orphans(struct attempt *a, const void *with)
{
	uint32_t grace_ms =
		a->stop_grace_ms < a->spec->grace ? a->stop_grace_ms : (uint32_t)a->spec->grace;

	a->orphans = orphan_ender_start(a->place->loop, a->token, grace_ms, on_orphans_gone, a);
}
