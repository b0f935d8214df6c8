/* SPDX-License-Identifier: MIT */

/*
 * One task's life as a table of states and events (transitions[] below). The loop waits on the
 * signalfd, the socket with the task's name and the connections; everything it learns becomes an
 * event, and an event's action looks only at the shim.
 *
 * What is certain:
 * - The name @tenure/<uid>/shim/<token> and a look for an old record come first, so a token runs
 *   once: a second shim for it refuses, whatever its agent believes, and so does one that an agent
 *   gave up waiting for (record_void()).
 * - Without GO nothing runs; where the last connection goes before GO, the task is cancelled, with
 *   a record, so that a new agent need not guess.
 * - The end of the tree is "no child left" of this subreaper, which the kernel knows; the process
 *   list is only read in order to signal.
 * - The record is on the disk before anybody is told, and where it cannot be, the shim stays and
 *   answers until somebody acknowledges or the disk takes it.
 *
 * Nothing here waits for an agent. What can hang is the log's filesystem, on which the task hangs
 * as well; the record lies on a local one and is written first.
 */

#include "task/shim.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "task/cgroup.h"
#include "task/keep.h"
#include "task/logfile.h"
#include "task/logtext.h"
#include "task/mother.h"
#include "task/program.h"
#include "task/shproto.h"
#include "task/spec.h"
#include "task/tree.h"

#define CONNS	       4U
#define PASS_FIRST_NS  (2 * NS_PER_MS) /* between two looks at a tree that is to end */
#define PASS_LAST_NS   (500 * NS_PER_MS)
#define RECORD_TRY_MS  1000
#define GO_WORDS_MAX   256U
#define STOP_GRACE_DEF UINT32_MAX

enum shim_event {
	EV_GO,
	EV_CANCEL,
	EV_STOP, /* told, by a message or SIGTERM, or its time is over: shim->why */
	EV_LEADER_GONE,
	EV_REST, /* the first process has ended, the others are to follow it */
	EV_GRACE_OVER,
	EV_ONLY_OTHERS, /* what still runs is not ours to end */
	EV_TREE_GONE,
	EV_MAX
};

struct shim {
	const struct shim_start *start;
	struct task_spec spec;
	struct task_record rec;
	struct program program;
	struct logfile log;
	struct ender ender;
	struct cgroup cgroup;
	struct keep keep;
	struct shmsg_go go;
	enum shim_state state;
	enum task_cause why; /* of the EV_STOP that comes */
	int32_t stop_signal;
	uint32_t stop_scope;
	uint32_t stop_grace_ms;
	bool told; /* the stop signal was sent to the leader alone */
	bool leader_gone;
	bool acked;
	int listen_fd;
	int conns[CONNS];
	size_t n_conns;
	pid_t leader;
	uint64_t started_ns;
	uint64_t timeout_at_ns; /* UINT64_MAX: none */
	uint64_t grace_at_ns;
	uint64_t alone_at_ns; /* ended then, for want of an agent; UINT64_MAX */
	uint64_t pass_at_ns;
	uint64_t pass_every_ns;
};

/* ---- what is said ---- */

static void drop_conn(struct shim *sh, size_t i)
{
	(void)fd_close(sh->conns[i]);
	sh->conns[i] = sh->conns[--sh->n_conns];
}

static void tell_all(struct shim *sh, const void *m, size_t size)
{
	for (size_t i = 0; i < sh->n_conns; i++)
		(void)sock_send(sh->conns[i], m, size);
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
				  .log_errno = sh->log.errnum,
				  .log_bytes = sh->log.size,
				  .started_wall_ns = sh->rec.end.started_wall_ns,
				  .run_ns = sh->started_ns ? clock_mono_ns() - sh->started_ns : 0,
				  .leader_ended = sh->leader_gone,
				  .leader_exit = leader_exit(&sh->rec.end) };

	(void)str_copy(m.boot_id, sizeof(m.boot_id), sh->rec.boot_id);
	(void)str_copy(m.token, sizeof(m.token), sh->rec.token);
	return m;
}

static void tell_status(struct shim *sh, uint16_t type)
{
	struct shmsg_status m = status_of(sh, type);

	tell_all(sh, &m, sizeof(m));
}

static void tell_ended(struct shim *sh)
{
	struct shmsg_ended m = { .head = SHMSG_HEAD(SHMSG_ENDED, struct shmsg_ended),
				 .end = sh->rec.end };

	tell_all(sh, &m, sizeof(m));
}

/* ---- actions ---- */

static void act_none(struct shim *sh)
{
}

static void end_not_run(struct shim *sh, enum task_outcome outcome, const struct err *e)
{
	sh->rec.end.outcome = outcome;
	if (e)
		(void)str_copy(sh->rec.end.text, sizeof(sh->rec.end.text), e->text);
}

static void act_cancel(struct shim *sh)
{
	end_not_run(sh, TASK_CANCELLED, NULL);
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

static void write_header(struct shim *sh)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	if (sh->spec.flags & SPEC_BARE_LOG)
		return;
	logtext_header(&b, &sh->spec, sh->go.devices, sh->rec.end.started_wall_ns);
	logfile_write(&sh->log, strbuf_str(&b), b.len);
}

static int start_program(struct shim *sh, struct err *e)
{
	const char *more[GO_WORDS_MAX];
	int cgroup_fd = -1;
	int r = program_prepare(&sh->program, &sh->spec, e);

	if (r < 0)
		return r;
	program_set_env(&sh->program, &sh->spec, more, go_words(sh, more));
	if (sh->spec.cgroup[0])
		cgroup_fd = cgroup_make(&sh->cgroup, sh->spec.cgroup, sh->spec.token);
	r = program_start(&sh->program, &sh->spec, sh->start->log_fd, cgroup_fd, e);
	(void)fd_close(cgroup_fd);
	return r;
}

static void act_go(struct shim *sh)
{
	struct err e = ERR_INIT;
	uint64_t now = clock_mono_ns();

	sh->rec.end.started_wall_ns = clock_wall_ns();
	sh->started_ns = now;
	logfile_init(&sh->log, sh->start->log_fd, sh->spec.log_limit, now);
	write_header(sh);

	pid_t pid = start_program(sh, &e);

	if (pid < 0) {
		(void)err_wrap(&e, "cannot start");
		end_not_run(sh, sh->program.not_its_fault ? TASK_REFUSED : TASK_NOT_STARTED, &e);
		sh->rec.end.exit_code = sh->program.exit_code;
		sh->state = SHIM_ENDED;
		return;
	}
	sh->leader = pid;
	sh->rec.end.task_pid = pid;
	if (sh->spec.timeout_ms)
		sh->timeout_at_ns = now + sh->spec.timeout_ms * NS_PER_MS;
	tell_status(sh, SHMSG_STARTED);
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

struct transition {
	enum shim_state next;
	void (*action)(struct shim *sh); /* NULL: the event means nothing in this state */
};

static const struct transition transitions[SHIM_STATE_MAX][EV_MAX] = {
	[SHIM_PREPARED] = {
		[EV_GO] = { SHIM_RUNNING, act_go },
		[EV_CANCEL] = { SHIM_ENDED, act_cancel },
		[EV_STOP] = { SHIM_ENDED, act_cancel },
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
		[EV_GRACE_OVER] = { SHIM_KILLING, act_kill },
		[EV_TREE_GONE] = { SHIM_ENDED, act_none },
	},
	[SHIM_KILLING] = {
		[EV_ONLY_OTHERS] = { SHIM_ENDED, act_none },
		[EV_TREE_GONE] = { SHIM_ENDED, act_none },
	},
};

static void event(struct shim *sh, enum shim_event ev)
{
	const struct transition *t = &transitions[sh->state][ev];

	if (!t->action)
		return;
	/* First, so that an action may go further: a start that fails has ended. */
	sh->state = t->next;
	t->action(sh);
}

static void stop(struct shim *sh, enum task_cause why, int32_t sig, uint32_t scope,
		 uint32_t grace_ms)
{
	int32_t of_spec = sh->spec.stop_signal ? sh->spec.stop_signal : SIGTERM;

	sh->why = why;
	sh->stop_grace_ms = grace_ms;
	if (sh->state != SHIM_STOPPING) {
		sh->stop_signal = sig > 0 && sig < NSIG ? sig : of_spec;
		sh->stop_scope = scope;
	}
	event(sh, EV_STOP);
}

/* ---- what is heard ---- */

static void look_at_claim(struct shim *sh);

static void on_go(struct shim *sh, const union shmsg *m)
{
	/* It may come after a long sleep of this machine, or of the agent. */
	look_at_claim(sh);
	if (sh->state != SHIM_PREPARED)
		return;
	sh->go = m->go;
	event(sh, EV_GO);
}

static void on_cancel(struct shim *sh, const union shmsg *m)
{
	sh->why = CAUSE_STOP;
	sh->stop_signal = SIGTERM;
	sh->stop_grace_ms = STOP_GRACE_DEF;
	event(sh, EV_CANCEL);
}

static void on_stop(struct shim *sh, const union shmsg *m)
{
	stop(sh, m->stop.requeue ? CAUSE_REQUEUE : CAUSE_STOP, m->stop.signal, m->stop.scope,
	     m->stop.grace_ms);
}

static void on_gpu(struct shim *sh, const union shmsg *m)
{
	/* An agent that adopted us hears of the devices one after another. */
	if (m->gpu.peak_bytes < sh->rec.end.gpu_peak_bytes)
		return;
	sh->rec.end.gpu_peak_bytes = m->gpu.peak_bytes;
	sh->rec.end.gpu_util_permille = m->gpu.util_permille;
}

static void on_ack(struct shim *sh, const union shmsg *m)
{
	sh->acked = sh->state == SHIM_ENDED;
}

static void on_ask(struct shim *sh, const union shmsg *m)
{
	if (sh->state == SHIM_ENDED)
		tell_ended(sh);
	else
		tell_status(sh, SHMSG_STATUS);
}

static void (*const handlers[SHMSG_TYPE_MAX])(struct shim *sh, const union shmsg *m) = {
	[SHMSG_GO] = on_go,   [SHMSG_CANCEL] = on_cancel, [SHMSG_STOP] = on_stop,
	[SHMSG_GPU] = on_gpu, [SHMSG_ACK] = on_ack,	  [SHMSG_ASK] = on_ask,
};

/* All that waits on one connection. False when it is gone, or talks what we do not know. */
static bool hear(struct shim *sh, int fd)
{
	union shmsg m;
	int type;

	while ((type = shmsg_recv(fd, &m)) > 0)
		if (handlers[type])
			handlers[type](sh, &m);
	return type == -EAGAIN;
}

static void accept_conn(struct shim *sh)
{
	int fd = sock_accept(sh->listen_fd, NULL);

	if (fd < 0)
		return;
	/* The newest agent is the one that counts: the oldest connection makes room. */
	if (sh->n_conns == CONNS) {
		(void)fd_close(sh->conns[0]);
		(void)memmove(sh->conns, sh->conns + 1, (CONNS - 1) * sizeof(sh->conns[0]));
		sh->n_conns--;
	}
	sh->conns[sh->n_conns++] = fd;
}

static void add_usage(struct task_end *end, const struct rusage *ru)
{
	uint64_t rss = (uint64_t)ru->ru_maxrss * 1024;

	end->user_ns += (uint64_t)ru->ru_utime.tv_sec * NS_PER_S +
			(uint64_t)ru->ru_utime.tv_usec * NS_PER_US;
	end->system_ns += (uint64_t)ru->ru_stime.tv_sec * NS_PER_S +
			  (uint64_t)ru->ru_stime.tv_usec * NS_PER_US;
	if (rss > end->max_rss_bytes)
		end->max_rss_bytes = rss;
	end->major_faults += (uint64_t)ru->ru_majflt;
	end->read_bytes += (uint64_t)ru->ru_inblock * 512;
	end->written_bytes += (uint64_t)ru->ru_oublock * 512;
}

static void note_leader(struct shim *sh, int status)
{
	struct task_end *end = &sh->rec.end;

	sh->leader_gone = true;
	end->leader_ns = clock_mono_ns() - sh->started_ns;
	if (WIFSIGNALED(status)) {
		end->outcome = TASK_SIGNALLED;
		end->signal = WTERMSIG(status);
	} else {
		end->outcome = TASK_EXITED;
		end->exit_code = WEXITSTATUS(status);
	}
}

/* Children that have ended, those that came to us as their reaper included. */
static void reap(struct shim *sh)
{
	struct rusage ru;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &ru)) > 0) {
		add_usage(&sh->rec.end, &ru);
		if (pid == sh->leader)
			note_leader(sh, status);
	}
	if (!sh->leader_gone)
		return;
	event(sh, EV_LEADER_GONE);
	if (pid < 0 && errno == ECHILD)
		event(sh, EV_TREE_GONE);
	else if (sh->spec.flags & SPEC_END_TREE)
		event(sh, EV_REST);
}

static void read_signals(struct shim *sh)
{
	struct signalfd_siginfo si;
	bool term = false;

	while (read(sh->start->sig_fd, &si, sizeof(si)) == sizeof(si))
		term = term || si.ssi_signo != SIGCHLD;
	reap(sh);
	/* After the end: whoever says so wants no record of it (stay()). */
	if (term && sh->state == SHIM_ENDED)
		sh->acked = true;
	else if (term)
		stop(sh, CAUSE_TERM, 0, STOP_TREE, STOP_GRACE_DEF);
}

/* ---- ending a tree ---- */

static void tell_leader(struct shim *sh)
{
	struct tree_proc p = { 0 };

	/* A child of ours that was not waited for: the PID is its own. */
	if (!sh->told && proc_identify(sh->leader, &p.id) == 0 &&
	    tree_signal(&p, sh->stop_signal) == 0)
		(void)tree_signal(&p, SIGCONT);
	sh->told = true;
}

static void pass_over_tree(struct shim *sh)
{
	struct tree t = { 0 };
	bool killing = sh->state == SHIM_KILLING;

	if (tree_scan(&t) == 0) {
		tree_keep_below(&t, getpid());
		ender_pass(&sh->ender, &t, killing ? SIGKILL : sh->stop_signal);
	}
	/* It asks nobody for his user. */
	if (killing && !sh->ender.others)
		cgroup_kill(&sh->cgroup);
	tree_clear(&t);
}

static void end_pass(struct shim *sh, uint64_t now)
{
	if (sh->state == SHIM_STOPPING && sh->stop_scope == STOP_LEADER && !sh->leader_gone)
		tell_leader(sh);
	else
		pass_over_tree(sh);
	sh->pass_at_ns = now + sh->pass_every_ns;
	if (sh->pass_every_ns < PASS_LAST_NS)
		sh->pass_every_ns *= 2;
	reap(sh);
	if (sh->state == SHIM_KILLING && !sh->ender.ours && sh->ender.others) {
		sh->rec.end.leftovers = sh->ender.others;
		event(sh, EV_ONLY_OTHERS);
	}
}

static bool is_ending(const struct shim *sh)
{
	return sh->state == SHIM_STOPPING || sh->state == SHIM_KILLING;
}

/* ---- the loop ---- */

/* What others may run by now must not run here. */
static void look_at_claim(struct shim *sh)
{
	enum keep_state state = keep_look(&sh->keep);

	if (state == KEEP_LOST)
		stop(sh, CAUSE_RECLAIMED, SIGKILL, STOP_TREE, 0);
	else if (state == KEEP_LATE)
		stop(sh, CAUSE_FENCED, 0, STOP_TREE, keep_grace_ms(&sh->keep));
}

static void timers(struct shim *sh)
{
	uint64_t now = clock_mono_ns();

	if (now >= keep_at_ns(&sh->keep))
		look_at_claim(sh);

	if (now >= sh->timeout_at_ns)
		stop(sh, CAUSE_TIMEOUT, 0, STOP_TREE, STOP_GRACE_DEF);
	if (now >= sh->alone_at_ns) {
		sh->alone_at_ns = UINT64_MAX;
		stop(sh, CAUSE_ALONE, 0, STOP_TREE, STOP_GRACE_DEF);
	}
	if (sh->state == SHIM_STOPPING && now >= sh->grace_at_ns)
		event(sh, EV_GRACE_OVER);
	if (is_ending(sh) && now >= sh->pass_at_ns)
		end_pass(sh, now);
	if (sh->leader && now >= sh->log.next_ns)
		logfile_look(&sh->log, now);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Some tasks are worth nothing without an agent; one that comes soon finds them as they were. */
static void look_for_agents(struct shim *sh)
{
	bool alone =
		sh->n_conns == 0 && sh->spec.flags & SPEC_ATTENDED && sh->leader && !is_ending(sh);

	if (!alone)
		sh->alone_at_ns = UINT64_MAX;
	else if (sh->alone_at_ns == UINT64_MAX)
		sh->alone_at_ns = clock_mono_ns() + SPEC_ALONE_MS * NS_PER_MS;
}

static void wait_and_hear(struct shim *sh, uint64_t until_ns)
{
	struct pollfd fds[2 + CONNS] = { { .fd = sh->start->sig_fd, .events = POLLIN },
					 { .fd = sh->listen_fd, .events = POLLIN } };
	size_t n = sh->n_conns;
	uint64_t now = until_ns == UINT64_MAX ? 0 : clock_mono_ns();
	uint64_t left = until_ns > now ? until_ns - now : 0;
	struct timespec ts = { .tv_sec = (time_t)(left / NS_PER_S),
			       .tv_nsec = (long)(left % NS_PER_S) };

	for (size_t i = 0; i < n; i++)
		fds[2 + i] = (struct pollfd){ .fd = sh->conns[i], .events = POLLIN };
	if (ppoll(fds, 2 + n, until_ns == UINT64_MAX ? NULL : &ts, NULL) <= 0)
		return;
	if (fds[0].revents)
		read_signals(sh);
	for (size_t i = n; i-- > 0;)
		if (fds[2 + i].revents && !hear(sh, sh->conns[i]))
			drop_conn(sh, i);
	if (fds[1].revents)
		accept_conn(sh);
	if (sh->n_conns == 0 && sh->state == SHIM_PREPARED) {
		sh->why = CAUSE_ALONE;
		event(sh, EV_CANCEL);
	}
	look_for_agents(sh);
}

static uint64_t next_deadline(const struct shim *sh)
{
	uint64_t at = min_u64(min_u64(sh->timeout_at_ns, sh->alone_at_ns), keep_at_ns(&sh->keep));

	if (sh->state == SHIM_STOPPING)
		at = min_u64(at, sh->grace_at_ns);
	if (is_ending(sh))
		at = min_u64(at, sh->pass_at_ns);
	return sh->leader ? min_u64(at, sh->log.next_ns) : at;
}

static void live(struct shim *sh)
{
	while (sh->state != SHIM_ENDED) {
		wait_and_hear(sh, next_deadline(sh));
		timers(sh);
	}
}

/* ---- the end ---- */

static void write_trailer(struct shim *sh)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	/* A task that was never started has no log of its own. */
	if (!sh->rec.end.started_wall_ns)
		return;
	logfile_finish(&sh->log);
	sh->rec.end.log_cut_bytes = sh->log.cut;
	if (sh->spec.flags & SPEC_BARE_LOG)
		return;
	if (logfile_in_line(&sh->log))
		strbuf_addc(&b, '\n');
	logtext_trailer(&b, &sh->rec.end);
	logfile_write(&sh->log, strbuf_str(&b), b.len);
	sh->rec.end.log_errno = sh->log.errnum;
}

static bool put_record(struct shim *sh)
{
	int r = record_write(sh->spec.record_dir, &sh->rec, sh->spec.flags & SPEC_SYNC, NULL);

	sh->rec.end.record_errno = -r;
	return r == 0;
}

/* The disk did not take the record: what is known is only here. */
static void stay(struct shim *sh)
{
	while (!sh->acked) {
		wait_and_hear(sh, clock_mono_ns() + RECORD_TRY_MS * NS_PER_MS);
		if (!sh->acked && put_record(sh)) {
			tell_ended(sh);
			return;
		}
	}
}

static void finish(struct shim *sh)
{
	struct task_end *end = &sh->rec.end;

	end->ended_wall_ns = clock_wall_ns();
	end->run_ns = sh->started_ns ? clock_mono_ns() - sh->started_ns : 0;
	end->killed = sh->ender.kills;
	end->log_errno = sh->log.errnum;
	end->log_cut_bytes = sh->log.cut;

	bool kept = put_record(sh);

	write_trailer(sh);
	program_clear(&sh->program);
	cgroup_remove(&sh->cgroup);
	tell_ended(sh);
	if (!kept)
		stay(sh);
	bool told = sh->n_conns > 0;

	for (size_t i = 0; i < sh->n_conns; i++)
		shmsg_close(sh->conns[i]);
	/* Last of all, because it may take long: our name is free, and what is local is known. */
	sh->listen_fd = fd_close(sh->listen_fd);
	if (!told)
		keep_leave_record(&sh->keep, &sh->rec);
}

/* ---- the beginning ---- */

static void refuse(struct shim *sh, const struct err *e)
{
	end_not_run(sh, TASK_REFUSED, e);
	/* Whoever hears it may try again at once. */
	sh->listen_fd = fd_close(sh->listen_fd);
	tell_ended(sh);
	shmsg_close(sh->conns[0]);
}

static int take_name(struct shim *sh, struct err *e)
{
	char name[SHPROTO_NAME_MAX];

	sh->listen_fd = sock_listen(shim_socket_name(name, sh->spec.token), e);
	if (sh->listen_fd == -EADDRINUSE)
		return err_set(e, -EADDRINUSE, "another shim has this task already");
	if (sh->listen_fd < 0)
		return sh->listen_fd;
	if (record_exists(sh->spec.record_dir, sh->spec.token))
		return err_set(e, -EEXIST, "there is a record that this task has ended already");
	if (record_is_void(sh->spec.record_dir, sh->spec.token))
		return err_set(e, -ECANCELED, "this start came too late: it was given up");
	return 0;
}

static int prepare(struct shim *sh, struct err *e)
{
	int r = spec_load(sh->start->spec_fd, &sh->spec, e);

	if (r < 0)
		return r;
	(void)close(sh->start->spec_fd);
	(void)str_copy(sh->rec.token, sizeof(sh->rec.token), sh->spec.token);
	(void)str_copy(sh->rec.boot_id, sizeof(sh->rec.boot_id), sh->start->boot_id);
	r = take_name(sh, e);
	if (r < 0)
		return r;
	r = proc_identify(getpid(), &sh->rec.shim);
	if (r < 0)
		return err_set(e, r, "cannot read /proc/self/stat");
	if (setsid() < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return err_sys(e, errno, "become the task's reaper");
	return 0;
}

/* "tenure-shim: task 42 train" in process lists. */
static void set_title(const struct shim *sh)
{
	const struct shim_start *s = sh->start;

	(void)prctl(PR_SET_NAME, SHIM_COMM);
	if (s->title_room < 2)
		return;
	(void)memset(s->title, 0, s->title_room);
	(void)str_print(s->title, s->title_room, "%s: %s", SHIM_COMM,
			sh->spec.title[0] ? sh->spec.title : sh->spec.token);
}

int shim_run(const struct shim_start *start)
{
	struct shim sh = { .start = start,
			   .conns = { start->conn_fd },
			   .n_conns = 1,
			   .listen_fd = -1,
			   .timeout_at_ns = UINT64_MAX,
			   .alone_at_ns = UINT64_MAX };
	struct err e = ERR_INIT;

	/* The mother ignores it. */
	(void)signal(SIGCHLD, SIG_DFL);
	if (prepare(&sh, &e) < 0) {
		refuse(&sh, &e);
		return 1;
	}
	set_title(&sh);
	keep_init(&sh.keep, &sh.spec, &sh.rec.shim);
	/* One message and one waking of the agent less, for tasks that wait for nothing. */
	if (sh.spec.flags & SPEC_GO)
		event(&sh, EV_GO);
	else
		tell_status(&sh, SHMSG_PREPARED);
	live(&sh);
	finish(&sh);
	return 0;
}
