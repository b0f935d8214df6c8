/* SPDX-License-Identifier: MIT */

/* An action looks only at the shim, so that it does not matter what has told of the event. */

#include "task/shim_steps.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "task/cgroup.h"
#include "task/logfile.h"
#include "task/logtext.h"
#include "task/program.h"
#include "task/shproto.h"
#include "task/worker.h"

#define GO_WORDS_MAX 256U

/* ---- what is said ---- */

static void tell_all(struct shim *sh, const void *m, size_t size)
{
	for (size_t i = 0; i < sh->n_conns; i++)
		(void)sock_send(sh->conns[i].fd, m, size);
}

static int32_t leader_exit(const struct task_end *end)
{
	return end->outcome == TASK_SIGNALLED ? SHMSG_SIGNALLED + end->signal : end->exit_code;
}

static struct shmsg_status status_of(const struct shim *sh, uint16_t type)
{
	struct shmsg_status m = { .head = SHMSG_HEAD(type, struct shmsg_status),
				  .state = sh->state,
				  .shim_pid = sh->rec.shim.pid,
				  .shim_start = sh->rec.shim.start,
				  .task_pid = sh->leader,
				  .log_errno = sh->log_errno,
				  .log_bytes = sh->log_bytes,
				  .started_wall_ns = sh->rec.end.started_wall_ns,
				  .run_ns = sh->started_ns ? clock_mono_ns() - sh->started_ns : 0,
				  .leader_ended = sh->leader_gone,
				  .leader_exit = leader_exit(&sh->rec.end) };

	(void)str_copy(m.boot_id, sizeof(m.boot_id), sh->rec.boot_id);
	(void)str_copy(m.token, sizeof(m.token), sh->rec.token);
	return m;
}

void shim_tell_status(struct shim *sh, uint16_t type)
{
	struct shmsg_status m = status_of(sh, type);

	tell_all(sh, &m, sizeof(m));
}

static struct shmsg_ended ended_of(const struct shim *sh)
{
	return (struct shmsg_ended){ .head = SHMSG_HEAD(SHMSG_ENDED, struct shmsg_ended),
				     .end = sh->rec.end };
}

void shim_tell_ended(struct shim *sh)
{
	struct shmsg_ended m = ended_of(sh);

	tell_all(sh, &m, sizeof(m));
}

/* Who only looks is answered alone: to the agent that is about to start the task a STATUS would be
 * news of a task that it has not begun. */
void shim_answer(const struct shim *sh, int fd)
{
	struct shmsg_status status = status_of(sh, SHMSG_STATUS);
	struct shmsg_ended ended = ended_of(sh);

	if (sh->state == SHIM_ENDED)
		(void)sock_send(fd, &ended, sizeof(ended));
	else
		(void)sock_send(fd, &status, sizeof(status));
}

/* ---- actions ---- */

static void act_none(struct shim *sh)
{
}

void shim_end_not_run(struct shim *sh, enum task_outcome outcome, const struct err *e)
{
	sh->rec.end.outcome = outcome;
	if (e)
		(void)str_copy(sh->rec.end.text, sizeof(sh->rec.end.text), e->text);
}

static void act_cancel(struct shim *sh)
{
	sh->started_ns = 0;
	shim_end_not_run(sh, TASK_CANCELLED, NULL);
	sh->rec.end.cause = sh->why;
}

static size_t go_words(struct shim *sh, const char **more)
{
	size_t n = 0;

	for (const char *p = sh->go.env; p < sh->go.env + sh->go.env_bytes && n < GO_WORDS_MAX;
	     p += strlen(p) + 1)
		if (*p)
			more[n++] = p;
	return n;
}

/* ---- the start, by the worker ---- */

static void write_header(struct shim *sh)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	if (sh->spec.flags & LAUNCH_BARE_LOG)
		return;
	logtext_header(&b, &sh->spec, &sh->program, sh->go.devices, sh->rec.end.started_wall_ns);
	logfile_write(&sh->log, strbuf_str(&b), b.len);
}

static int start_program(struct shim *sh, struct err *e)
{
	const char *more[GO_WORDS_MAX];
	int cgroup_fd = -1;
	int r = program_prepare(&sh->program, &sh->spec, e);

	write_header(sh);
	if (r < 0)
		return r;
	program_set_env(&sh->program, &sh->spec, more, go_words(sh, more));
	if (sh->spec.cgroup[0])
		cgroup_fd = cgroup_make(&sh->made, sh->spec.cgroup, sh->spec.token);
	r = program_start(&sh->program, &sh->spec, &sh->gate, sh->log.fd, cgroup_fd, e);
	(void)fd_close(cgroup_fd);
	return r;
}

static void work_start(void *data)
{
	struct shim *sh = data;

	logfile_init(&sh->log, sh->worker.log_fd, sh->spec.log_limit, clock_mono_ns());
	sh->start_pid = start_program(sh, &sh->start_err);
}

static void act_go(struct shim *sh)
{
	sh->rec.end.started_wall_ns = clock_wall_ns();
	sh->started_ns = clock_mono_ns();
	if (sh->spec.timeout_ms)
		sh->timeout_at_ns = sh->started_ns + sh->spec.timeout_ms * NS_PER_MS;
	sh->starting = true;
	worker_do(&sh->worker, work_start, sh);
}

static void act_started(struct shim *sh)
{
	sh->leader = sh->start_pid;
	sh->rec.end.task_pid = sh->leader;
	sh->cgroup = sh->made;
	shim_tell_status(sh, SHMSG_STARTED);
}

static void act_not_started(struct shim *sh)
{
	(void)err_wrap(&sh->start_err, "cannot start");
	shim_end_not_run(sh, sh->program.not_its_fault ? TASK_REFUSED : TASK_NOT_STARTED,
			 &sh->start_err);
	sh->rec.end.exit_code = sh->program.exit_code;
}

static uint64_t grace_ns(const struct shim *sh)
{
	uint32_t ms = sh->stop_grace_ms == STOP_GRACE_DEF ? sh->spec.grace_ms : sh->stop_grace_ms;

	return ms * NS_PER_MS;
}

static void pass_now(struct shim *sh, uint64_t now)
{
	sh->pass_every_ns = PASS_FIRST_NS;
	sh->pass_at_ns = now;
}

static void act_stop(struct shim *sh)
{
	uint64_t now = clock_mono_ns();

	sh->rec.end.cause = sh->why;
	sh->rec.end.leader_first = sh->leader_gone;
	sh->timeout_at_ns = UINT64_MAX;
	sh->grace_at_ns = now + grace_ns(sh);
	pass_now(sh, now);
}

/* Told again: only ever sooner. */
static void act_hurry(struct shim *sh)
{
	uint64_t at = clock_mono_ns() + grace_ns(sh);

	if (at < sh->grace_at_ns)
		sh->grace_at_ns = at;
}

/* Nothing of it runs or will; or there is a process that hangs on the way to its program. */
static void act_stop_start(struct shim *sh)
{
	if (gate_shut(&sh->gate)) {
		act_cancel(sh);
		sh->state = SHIM_ENDED;
		return;
	}
	act_stop(sh);
}

static void act_rest(struct shim *sh)
{
	sh->why = CAUSE_SELF;
	sh->stop_signal = sh->spec.stop_signal ? sh->spec.stop_signal : SIGTERM;
	sh->stop_scope = STOP_TREE;
	sh->stop_grace_ms = STOP_GRACE_DEF;
	act_stop(sh);
}

static void act_kill(struct shim *sh)
{
	pass_now(sh, clock_mono_ns());
	sh->grace_at_ns = UINT64_MAX;
}

static void act_never_began(struct shim *sh)
{
	shim_end_not_run(sh, TASK_CANCELLED, NULL);
	sh->started_ns = 0;
}

/* ---- the table ---- */

struct transition {
	enum shim_state next;
	void (*action)(struct shim *sh); /* NULL: the event means nothing in this state */
};

static const struct transition transitions[SHIM_STATE_MAX][EV_MAX] = {
	[SHIM_PREPARED] = {
		[EV_GO] = { SHIM_STARTING, act_go },
		[EV_CANCEL] = { SHIM_ENDED, act_cancel },
		[EV_STOP] = { SHIM_ENDED, act_cancel },
	},
	[SHIM_STARTING] = {
		[EV_STARTED] = { SHIM_RUNNING, act_started },
		[EV_NOT_STARTED] = { SHIM_ENDED, act_not_started },
		[EV_STOP] = { SHIM_STOPPING, act_stop_start },
		[EV_CANCEL] = { SHIM_STOPPING, act_stop_start },
	},
	[SHIM_RUNNING] = {
		[EV_STOP] = { SHIM_STOPPING, act_stop },
		[EV_CANCEL] = { SHIM_STOPPING, act_stop },
		[EV_LEADER_GONE] = { SHIM_TRAILING, act_none },
	},
	[SHIM_TRAILING] = {
		[EV_STOP] = { SHIM_STOPPING, act_stop },
		[EV_CANCEL] = { SHIM_STOPPING, act_stop },
		[EV_REST] = { SHIM_STOPPING, act_rest },
		[EV_TREE_GONE] = { SHIM_ENDED, act_none },
	},
	[SHIM_STOPPING] = {
		[EV_STOP] = { SHIM_STOPPING, act_hurry },
		[EV_CANCEL] = { SHIM_STOPPING, act_hurry },
		[EV_STARTED] = { SHIM_STOPPING, act_started },
		[EV_NOT_STARTED] = { SHIM_ENDED, act_not_started },
		[EV_GRACE_OVER] = { SHIM_KILLING, act_kill },
		[EV_TREE_GONE] = { SHIM_ENDED, act_none },
	},
	[SHIM_KILLING] = {
		[EV_NEVER_BEGAN] = { SHIM_ENDED, act_never_began },
		[EV_STARTED] = { SHIM_KILLING, act_started },
		[EV_NOT_STARTED] = { SHIM_ENDED, act_not_started },
		[EV_ONLY_OTHERS] = { SHIM_ENDED, act_none },
		[EV_TREE_GONE] = { SHIM_ENDED, act_none },
	},
};

void shim_event(struct shim *sh, enum shim_event ev)
{
	const struct transition *t = &transitions[sh->state][ev];

	if (!t->action)
		return;
	/* First, so that an action may go further: a start that fails has ended. */
	sh->state = t->next;
	t->action(sh);
}

void shim_stop(struct shim *sh, enum task_cause why, int32_t sig, uint32_t scope, uint32_t grace_ms)
{
	int32_t of_spec = sh->spec.stop_signal ? sh->spec.stop_signal : SIGTERM;

	sh->why = why;
	sh->stop_grace_ms = grace_ms;
	if (sh->state != SHIM_STOPPING) {
		sh->stop_signal = sig > 0 && sig < NSIG ? sig : of_spec;
		sh->stop_scope = scope;
	}
	shim_event(sh, EV_STOP);
}
