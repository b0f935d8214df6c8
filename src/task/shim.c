/* SPDX-License-Identifier: MIT */

/*
 * One task's life. The loop waits on the signalfd, the socket with the task's name, the connections
 * and the worker; everything it learns becomes an event, and what that means in a state is the
 * table in shim_steps.c.
 *
 * What is certain:
 * - The name shim/<token> (base/endpoint.h) and a look for an old record come first, so a token
 *   runs once: a second shim for it refuses, whatever its agent believes, and so does one that an
 *   agent gave up waiting for (end_record_void()).
 * - Without GO nothing runs; where the last connection goes before GO, the task is cancelled, with
 *   a record, so that a new agent need not guess.
 * - The end of the tree is "no child left" of this subreaper, which the kernel knows; the process
 *   list is only read in order to signal.
 * - The record is on the disk before anybody is told, and where it cannot be, the shim stays and
 *   answers until somebody acknowledges or the disk takes it.
 *
 * Nothing here waits for an agent, and the loop waits for no file system but that of the record,
 * which is a local one. What can wait for another is done by the worker (task/worker.h): the log,
 * the start of the program, which looks at its directory, and the record in the spool. A task can
 * be ended while it hangs in any of these; what cannot be is a process of the task's that the
 * kernel does not let go, and then the tree is not said to have ended.
 */

#include "task/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/endpoint.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "hold/proto.h"
#include "task/cgroup.h"
#include "task/claim_heartbeat.h"
#include "task/launch_spec.h"
#include "task/logfile.h"
#include "task/logtext.h"
#include "task/program.h"
#include "task/shim_state.h"
#include "task/shim_steps.h"
#include "task/shproto.h"
#include "task/tree.h"
#include "task/worker.h"

#define LAST_BYTES	   8192U /* of what it printed to a file of its own */
#define FIRST_CONN	   4U	 /* behind what else is waited for */
#define RECORD_TRY_MS	   1000
#define NEVER_BEGAN_PASSES 6U	/* which take 100 ms */
#define LOG_WAIT_MS	   2000 /* for the end of the log, before its task's end is told */
#define NAME_LOOK_NS	   (5 * NS_PER_S)
#define NAME_AGAIN_NS	   NS_PER_S /* where that failed */
#define PACE_NS		   (100 * NS_PER_MS)
#define PACE_MOST	   128 /* connections are accepted in that time */
#define HEAR_MOST	   64  /* messages of one connection, before others have their turn */
#define DOUBT_NS	   (500 * NS_PER_MS)
#define REAP_NS		   (10 * NS_PER_MS)
#define REAP_IN_PASS_NS	   NS_PER_MS

/* ---- connections ---- */

static void drop_conn(struct shim *sh, size_t i)
{
	if (sh->conns[i].serves)
		sh->heard_ns = clock_mono_ns();
	(void)fd_close(sh->conns[i].fd);
	sh->conns[i] = sh->conns[--sh->n_conns];
	if (sh->n_conns == 0)
		sh->left_ns = clock_mono_ns();
}

static bool is_served(const struct shim *sh)
{
	for (size_t i = 0; i < sh->n_conns; i++)
		if (sh->conns[i].serves)
			return true;
	return false;
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
	shim_event(sh, EV_GO);
}

static void on_cancel(struct shim *sh, const union shmsg *m)
{
	sh->why = CAUSE_STOP;
	sh->stop_signal = SIGTERM;
	sh->stop_grace_ms = STOP_GRACE_DEF;
	shim_event(sh, EV_CANCEL);
}

static void on_stop(struct shim *sh, const union shmsg *m)
{
	shim_stop(sh, m->stop.requeue ? CAUSE_REQUEUE : CAUSE_STOP, m->stop.signal, m->stop.scope,
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

static void (*const handlers[SHMSG_TYPE_MAX])(struct shim *sh, const union shmsg *m) = {
	[SHMSG_GO] = on_go,   [SHMSG_CANCEL] = on_cancel, [SHMSG_STOP] = on_stop,
	[SHMSG_GPU] = on_gpu, [SHMSG_ACK] = on_ack,
};

/* What waits on one connection. False when it is gone, or talks what we do not know. */
static bool hear(struct shim *sh, struct conn *c)
{
	union shmsg m;

	for (unsigned int n = 0; n < HEAR_MOST; n++) {
		int type = shmsg_recv(c->fd, &m);

		if (type <= 0)
			return type == -EAGAIN;
		c->spoke = true;
		c->serves = c->serves || type != SHMSG_ASK;
		if (c->serves)
			sh->heard_ns = clock_mono_ns();
		if (handlers[type])
			handlers[type](sh, &m);
		else if (type == SHMSG_ASK)
			shim_answer(sh, c->fd);
	}
	return true;
}

static void accept_conn(struct shim *sh)
{
	int fd = sock_accept(sh->name.fd, NULL);
	size_t i = 0;

	if (sh->accepted++ == 0)
		sh->pace_at_ns = clock_mono_ns() + PACE_NS;
	if (fd < 0)
		return;
	/*
	 * The newest agent is the one that counts: the oldest connection makes room, before all one
	 * that has never said anything, since anybody can connect and connect.
	 */
	if (sh->n_conns == SHIM_CONNS) {
		while (i < SHIM_CONNS && sh->conns[i].spoke)
			i++;
		i = i == SHIM_CONNS ? 0 : i;
		(void)fd_close(sh->conns[i].fd);
		sh->n_conns--;
		(void)memmove(sh->conns + i, sh->conns + i + 1,
			      (SHIM_CONNS - 1 - i) * sizeof(sh->conns[0]));
	}
	sh->conns[sh->n_conns++] = (struct conn){ .fd = fd };
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

static bool is_ending(const struct shim *sh)
{
	return sh->state == SHIM_STOPPING || sh->state == SHIM_KILLING;
}

/*
 * Who tells all processes of a node, or of a job, to end may tell us a moment after the task. So
 * what SIGTERM has ended, and we did not, is left as it is until we would have heard of that. The
 * task may end between any two calls: it is waited for only where a look has said so.
 */
enum leader_look { LEADER_RUNS, LEADER_IN_DOUBT, LEADER_WHATEVER /* it may be waited for */ };

static enum leader_look look_at_leader(struct shim *sh)
{
	siginfo_t si = { .si_pid = 0 };

	if (!sh->leader || sh->leader_gone || sh->heard_term || is_ending(sh))
		return LEADER_WHATEVER;
	if (waitid(P_PID, (id_t)sh->leader, &si, WEXITED | WNOHANG | WNOWAIT) < 0)
		return LEADER_WHATEVER;
	if (si.si_pid != sh->leader)
		return LEADER_RUNS;
	if (si.si_code != CLD_KILLED || si.si_status != SIGTERM || sh->doubt_over)
		return LEADER_WHATEVER;
	if (!sh->doubt_until_ns)
		sh->doubt_until_ns = clock_mono_ns() + DOUBT_NS;
	return LEADER_IN_DOUBT;
}

static bool is_doubted(const struct shim *sh)
{
	return sh->doubt_until_ns && !sh->leader_gone;
}

/* A child that has ended, or whichever has (-1); 0 or -1 and errno as wait4(). */
static pid_t wait_for(struct shim *sh, pid_t child)
{
	struct rusage ru;
	int status;
	pid_t pid = wait4(child, &status, WNOHANG, &ru);

	if (pid > 0)
		add_usage(&sh->rec.end, &ru);
	if (pid > 0 && pid == sh->leader)
		note_leader(sh, status);
	return pid;
}

/* The next one that has ended; 0 as well for a first process in doubt, which is left. */
static pid_t wait_for_next(struct shim *sh)
{
	siginfo_t si = { .si_pid = 0 };

	if (look_at_leader(sh) == LEADER_WHATEVER)
		return wait_for(sh, -1);
	if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0)
		return -1;
	if (si.si_pid == sh->leader && look_at_leader(sh) != LEADER_WHATEVER)
		return 0;
	return si.si_pid ? wait_for(sh, si.si_pid) : 0;
}

/*
 * Wait for the children that have ended, those that came to us as their reaper included, but for no
 * longer than that: of a tree that forks faster than we wait there is always another one, and who
 * asks for its stop would never be heard. False: there is no child left.
 */
static bool collect(struct shim *sh, uint64_t most_ns)
{
	uint64_t until = clock_mono_ns() + most_ns;
	pid_t pid;

	/* It is a child of the worker's thread, behind all those of this one. */
	if (sh->leader && !sh->leader_gone && look_at_leader(sh) == LEADER_WHATEVER)
		(void)wait_for(sh, sh->leader);
	while ((pid = wait_for_next(sh)) > 0) {
		sh->unreaped = clock_mono_ns() >= until;
		if (sh->unreaped)
			return true;
	}
	return pid == 0 || errno != ECHILD;
}

/* What ends before its start is known would be nobody's. */
static bool must_not_wait(struct shim *sh)
{
	return sh->starting || look_at_leader(sh) == LEADER_IN_DOUBT;
}

static void reap_meanwhile(void *data)
{
	struct shim *sh = data;

	if (!must_not_wait(sh))
		(void)collect(sh, REAP_IN_PASS_NS);
}

static void reap(struct shim *sh)
{
	sh->unreaped = false;
	if (must_not_wait(sh))
		return;

	bool left = collect(sh, REAP_NS);

	if (!sh->leader_gone)
		return;
	shim_event(sh, EV_LEADER_GONE);
	if (!left)
		shim_event(sh, EV_TREE_GONE);
	else if (sh->spec.flags & LAUNCH_END_TREE)
		shim_event(sh, EV_REST);
}

/* Who tells all processes of a node has told the first one of the task as well, and it may be gone
 * before we look. */
static void note_shutdown(struct shim *sh)
{
	struct task_end *end = &sh->rec.end;

	if (end->outcome == TASK_SIGNALLED && end->signal == SIGTERM && end->cause == CAUSE_SELF)
		end->cause = CAUSE_TERM;
}

static void read_signals(struct shim *sh)
{
	struct signalfd_siginfo si;
	bool term = false, ended = sh->state == SHIM_ENDED, ran = !sh->leader_gone;

	while (read(sh->start->sig_fd, &si, sizeof(si)) == sizeof(si))
		term = term || si.ssi_signo != SIGCHLD;
	sh->heard_term = sh->heard_term || term;
	reap(sh);
	/* After the end: whoever says so wants no record of it (stay()). */
	if (term && ended)
		sh->acked = sh->hurried = true;
	else if (term)
		shim_stop(sh, CAUSE_TERM, 0, STOP_TREE, STOP_GRACE_DEF);
	if (term && ran)
		note_shutdown(sh);
}

/* What has come while nobody had a processor counts. */
static void end_doubt(struct shim *sh)
{
	sh->doubt_over = true;
	read_signals(sh);
}

/* ---- the worker ---- */

static void worker_is_idle(struct shim *sh)
{
	sh->log_errno = sh->log.errnum;
	sh->log_bytes = sh->log.size;
	sh->log_cut = sh->log.cut;
	sh->log_next_ns = sh->log.next_ns;
	if (!sh->starting)
		return;
	sh->starting = false;
	shim_event(sh, sh->start_pid > 0 ? EV_STARTED : EV_NOT_STARTED);
	reap(sh);
}

static void hear_worker(struct shim *sh)
{
	worker_heard(&sh->worker);
	if (worker_idle(&sh->worker))
		worker_is_idle(sh);
}

static void work_look(void *data)
{
	struct shim *sh = data;

	logfile_look(&sh->log, clock_mono_ns());
}

static bool looks_at_log(const struct shim *sh)
{
	return sh->leader && worker_idle(&sh->worker);
}

/* ---- ending a tree ---- */

static void tell_leader(struct shim *sh)
{
	/* A child of ours that was not waited for: the PID is its own. */
	const struct tree_proc p = { .id.pid = sh->leader, .parent = getpid() };

	if (!sh->told && tree_signal(&p, sh->stop_signal) == 0)
		(void)tree_signal(&p, SIGCONT);
	sh->told = true;
}

static void pass_over_tree(struct shim *sh)
{
	bool killing = sh->state == SHIM_KILLING;

	/* Those that have ended are waited for with less than a picture of them takes. */
	reap_meanwhile(sh);
	ender_pass_below_us(&sh->ender, killing ? SIGKILL : sh->stop_signal);
	/* It asks nobody for his user. */
	if (killing && !sh->ender.others)
		cgroup_kill(&sh->cgroup);
}

static void end_pass(struct shim *sh, uint64_t now)
{
	if (sh->state == SHIM_STOPPING && sh->stop_scope == STOP_LEADER && sh->leader &&
	    !sh->leader_gone)
		tell_leader(sh);
	else
		pass_over_tree(sh);
	sh->pass_at_ns = now + sh->pass_every_ns;
	if (sh->pass_every_ns < PASS_LAST_NS)
		sh->pass_every_ns *= 2;
	reap(sh);
	if (sh->state != SHIM_KILLING)
		return;
	if (!sh->ender.ours && sh->ender.others && !sh->ender.outrun) {
		sh->rec.end.leftovers = sh->ender.others;
		shim_event(sh, EV_ONLY_OTHERS);
	}
	/* It has no child, and makes none with KILL pending; it has nothing of a device, either. */
	sh->passes_of_one = sh->starting && sh->ender.ours == 1 ? sh->passes_of_one + 1 : 0;
	if (sh->passes_of_one == NEVER_BEGAN_PASSES)
		shim_event(sh, EV_NEVER_BEGAN);
}

/* ---- the loop ---- */

/* What others may run by now must not run here. */
static void look_at_claim(struct shim *sh)
{
	uint32_t grace_ms = 0;
	enum claim_state state = claim_heartbeat_look(&sh->heartbeat, &grace_ms);

	if (state == CLAIM_LOST)
		shim_stop(sh, CAUSE_RECLAIMED, SIGKILL, STOP_TREE, 0);
	else if (state == CLAIM_LATE)
		shim_stop(sh, CAUSE_FENCED, grace_ms ? 0 : SIGKILL, STOP_TREE, grace_ms);
}

/*
 * An agent that comes later finds us by our name, whose files somebody may tidy away. Where another
 * process has it meanwhile, whoever asks for the token finds that one, and then our process, which
 * lives: nothing is begun for it a second time.
 */
static void look_at_name(struct shim *sh, uint64_t now)
{
	int r = endpoint_check(&sh->name, NULL);

	sh->name_at_ns = now + (r < 0 && r != -EADDRINUSE ? NAME_AGAIN_NS : NAME_LOOK_NS);
}

static void timers(struct shim *sh)
{
	look_at_claim(sh);

	uint64_t now = clock_mono_ns();

	if (now >= sh->name_at_ns)
		look_at_name(sh, now);
	if (now >= sh->timeout_at_ns)
		shim_stop(sh, CAUSE_TIMEOUT, 0, STOP_TREE, STOP_GRACE_DEF);
	if (now >= sh->alone_at_ns) {
		sh->alone_at_ns = UINT64_MAX;
		shim_stop(sh, CAUSE_ALONE, 0, STOP_TREE, STOP_GRACE_DEF);
	}
	if (sh->state == SHIM_STOPPING && now >= sh->grace_at_ns)
		shim_event(sh, EV_GRACE_OVER);
	if (is_ending(sh) && now >= sh->pass_at_ns)
		end_pass(sh, now);
	if (is_doubted(sh) && now >= sh->doubt_until_ns)
		end_doubt(sh);
	else if (sh->unreaped)
		reap(sh);
	if (looks_at_log(sh) && now >= sh->log_next_ns)
		worker_do(&sh->worker, work_look, sh);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Some tasks are worth nothing without an agent that can end them at any moment: one that is there
 * says so, and one that comes soon finds them as they were. */
static void look_for_agents(struct shim *sh)
{
	bool watched = sh->spec.flags & LAUNCH_ATTENDED && sh->leader && !is_ending(sh);
	uint64_t since = sh->heard_ns;

	/* In a job of an engine the agent is what the job runs: without it the job is over, and its
	 * devices are somebody else's, whether or not the engine ends what has a session of its
	 * own. One that has taken the task over is connected, and may have said nothing yet. */
	if (sh->spec.flags & LAUNCH_IN_JOB && sh->n_conns == 0) {
		watched = sh->leader && !is_ending(sh);
		since = sh->left_ns;
	}
	sh->alone_at_ns = watched ? since + GUARD_AWAIT_MS * NS_PER_MS : UINT64_MAX;
}

/* Somebody may connect and connect; the kernel keeps in order who waits meanwhile. */
static int listens_on(struct shim *sh, uint64_t *until_ns)
{
	if (sh->accepted >= PACE_MOST && clock_mono_ns() >= sh->pace_at_ns)
		sh->accepted = 0;
	if (sh->accepted < PACE_MOST)
		return sh->name.fd;
	*until_ns = min_u64(*until_ns, sh->pace_at_ns);
	return -1;
}

static void wait_and_hear(struct shim *sh, uint64_t until_ns)
{
	struct pollfd fds[FIRST_CONN + SHIM_CONNS] = {
		{ .fd = sh->start->sig_fd, .events = POLLIN },
		{ .fd = listens_on(sh, &until_ns), .events = POLLIN },
		{ .fd = sh->worker.wake_fd, .events = POLLIN },
		{ .fd = sh->state == SHIM_ENDED ? -1 : sh->heartbeat.timer_fd, .events = POLLIN }
	};
	size_t n = sh->n_conns;
	uint64_t now = until_ns == UINT64_MAX ? 0 : clock_mono_ns();
	uint64_t left = until_ns > now ? until_ns - now : 0;
	struct timespec ts = { .tv_sec = (time_t)(left / NS_PER_S),
			       .tv_nsec = (long)(left % NS_PER_S) };

	for (size_t i = 0; i < n; i++)
		fds[FIRST_CONN + i] = (struct pollfd){ .fd = sh->conns[i].fd, .events = POLLIN };
	if (ppoll(fds, FIRST_CONN + n, until_ns == UINT64_MAX ? NULL : &ts, NULL) <= 0)
		return;
	/* First: a task that was stopped with us has not ended before we were told. */
	if (fds[0].revents)
		read_signals(sh);
	if (fds[2].revents)
		hear_worker(sh);
	for (size_t i = n; i-- > 0;)
		if (fds[FIRST_CONN + i].revents && !hear(sh, &sh->conns[i]))
			drop_conn(sh, i);
	if (fds[1].revents)
		accept_conn(sh);
	if (sh->n_conns == 0 && sh->state == SHIM_PREPARED) {
		sh->why = CAUSE_ALONE;
		shim_event(sh, EV_CANCEL);
	}
	look_for_agents(sh);
}

static uint64_t next_deadline(const struct shim *sh)
{
	uint64_t at = min_u64(sh->timeout_at_ns, sh->alone_at_ns);

	if (sh->unreaped)
		return 0;
	at = min_u64(at, sh->name_at_ns);

	if (sh->state == SHIM_STOPPING)
		at = min_u64(at, sh->grace_at_ns);
	if (is_ending(sh))
		at = min_u64(at, sh->pass_at_ns);
	if (is_doubted(sh))
		at = min_u64(at, sh->doubt_until_ns);
	return looks_at_log(sh) ? min_u64(at, sh->log_next_ns) : at;
}

static void live(struct shim *sh)
{
	while (sh->state != SHIM_ENDED) {
		wait_and_hear(sh, next_deadline(sh));
		timers(sh);
	}
}

/* ---- the end ---- */

/*
 * The last of what it printed to a file of its own goes into its log as well: there it is looked
 * for words of a framework that ran out of memory, and there it is where that file is not to be
 * had.
 */
static void keep_last(struct shim *sh, const char *path, uint64_t from)
{
	cleanup_free char *text = xmalloc(LAST_BYTES), *head = NULL;
	cleanup_fd int fd = -1;
	struct stat st;
	uint64_t at;
	ssize_t n;

	if (!path || !path[0])
		return;
	fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size <= from)
		return;
	at = (uint64_t)st.st_size - from > LAST_BYTES ? (uint64_t)st.st_size - LAST_BYTES : from;
	n = pread(fd, text, LAST_BYTES, (off_t)at);
	if (n <= 0)
		return;
	head = xasprintf("--- the last of %s:\n", path);
	logfile_write(&sh->log, head, strlen(head));
	logfile_write(&sh->log, text, (uint64_t)n);
	if (text[n - 1] != '\n')
		logfile_write(&sh->log, "\n", 1);
}

/* By the worker. Nobody else writes any more. */
static void work_trailer(void *data)
{
	struct shim *sh = data;
	struct task_end end = sh->rec.end;
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	logfile_finish(&sh->log);
	end.log_cut_bytes = sh->log.cut;
	if (!(sh->spec.flags & LAUNCH_BARE_LOG)) {
		keep_last(sh, sh->spec.output, sh->program.output_at);
		keep_last(sh, sh->spec.error, sh->program.error_at);
		if (logfile_in_line(&sh->log))
			strbuf_addc(&b, '\n');
		logtext_trailer(&b, &end);
		logfile_write(&sh->log, strbuf_str(&b), b.len);
	}
	/* Its own last work: nothing runs that could still be in either. */
	program_clear(&sh->program);
	cgroup_remove(&sh->made);
}

static void work_leave_record(void *data)
{
	struct shim *sh = data;

	claim_heartbeat_leave_record(&sh->heartbeat, &sh->rec);
}

static bool put_record(struct shim *sh)
{
	int r = end_record_write(sh->spec.record_dir, &sh->rec, sh->spec.flags & LAUNCH_SYNC, NULL);

	sh->rec.end.record_errno = -r;
	return r == 0;
}

/* The disk did not take the record: what is known is only here. */
static void stay(struct shim *sh)
{
	while (!sh->acked) {
		wait_and_hear(sh, clock_mono_ns() + RECORD_TRY_MS * NS_PER_MS);
		if (!sh->acked && put_record(sh)) {
			shim_tell_ended(sh);
			return;
		}
	}
}

/* False: the time is over, or we are stopped. */
static bool wait_for_worker(struct shim *sh, uint64_t until_ns)
{
	while (!worker_idle(&sh->worker) && !sh->hurried && clock_mono_ns() < until_ns)
		wait_and_hear(sh, until_ns);
	return worker_idle(&sh->worker);
}

/*
 * The end of the log, before its end is told, because who is told looks at it; but not for longer
 * than LOG_WAIT_MS, counted from when the worker began to hang. False: it is still to be done.
 */
static bool end_log(struct shim *sh)
{
	uint64_t until = LOG_WAIT_MS * NS_PER_MS +
			 (worker_idle(&sh->worker) ? clock_mono_ns() : sh->worker.since_ns);

	if (!sh->rec.end.started_wall_ns) /* never begun: it has no log of its own */
		return true;
	if (!wait_for_worker(sh, until))
		return false;
	worker_do(&sh->worker, work_trailer, sh);
	if (wait_for_worker(sh, until))
		worker_is_idle(sh);
	return true;
}

/* What waits for the spool's file system, now that everybody here knows of the end. SIGTERM ends
 * it. */
static void end_slowly(struct shim *sh, bool log_ended, bool told)
{
	static const work_fn works[] = { work_trailer, work_leave_record };
	const bool needed[] = { !log_ended, !told };

	for (size_t i = 0; i < ARRAY_LEN(works); i++)
		if (needed[i] && wait_for_worker(sh, UINT64_MAX))
			worker_do(&sh->worker, works[i], sh);
	(void)wait_for_worker(sh, UINT64_MAX);
}

static void finish(struct shim *sh)
{
	struct task_end *end = &sh->rec.end;

	end->ended_wall_ns = clock_wall_ns();
	end->run_ns = sh->started_ns ? clock_mono_ns() - sh->started_ns : 0;
	end->killed = sh->ender.kills;
	end->log_errno = sh->log_errno;
	end->log_cut_bytes = sh->log_cut;

	bool kept = put_record(sh);
	bool log_ended = end_log(sh);

	end->log_errno = sh->log_errno;
	end->log_cut_bytes = sh->log_cut;
	shim_tell_ended(sh);
	if (!kept)
		stay(sh);
	/* Who was told may be gone before it has filed that. A short task's claim goes by its agent
	 * (docs/spool.md). */
	bool told = is_served(sh) && !claim_heartbeat_has_begun(&sh->heartbeat);

	for (size_t i = 0; i < sh->n_conns; i++)
		shmsg_close(sh->conns[i].fd);
	sh->n_conns = 0;
	/* Our name is free, and what is local is known. */
	endpoint_close(&sh->name);
	end_slowly(sh, log_ended, told);
}

/* ---- the beginning ---- */

static void refuse(struct shim *sh, const struct err *e)
{
	shim_end_not_run(sh, TASK_REFUSED, e);
	/* Whoever hears it may try again at once. */
	endpoint_close(&sh->name);
	shim_tell_ended(sh);
	shmsg_close(sh->conns[0].fd);
}

static int take_name(struct shim *sh, struct err *e)
{
	char name[SHPROTO_NAME_MAX];

	int r = endpoint_open(&sh->name, shim_socket_name(name, sh->spec.token), e);

	if (r == -EADDRINUSE)
		return err_set(e, r, "another shim has this task already");
	if (r < 0)
		return r;
	sh->name_at_ns = clock_mono_ns() + NAME_LOOK_NS;
	if (end_record_exists(sh->spec.record_dir, sh->spec.token))
		return err_set(e, -EEXIST, "there is a record that this task has ended already");
	if (end_record_is_void(sh->spec.record_dir, sh->spec.token))
		return err_set(e, -ECANCELED, "this start came too late: it was given up");
	return 0;
}

static int prepare(struct shim *sh, struct err *e)
{
	int r = launch_spec_load(sh->start->spec_fd, &sh->spec, e);

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
	r = claim_heartbeat_init(&sh->heartbeat, &sh->spec, &sh->rec.shim, sh->worker.wake_fd, e);
	return r < 0 ? r : worker_ready(&sh->worker, e);
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

/* A task that waits for nothing: one message and one waking of the agent less. */
static bool may_go(const struct launch_spec *s)
{
	return s->flags & LAUNCH_GO && (!s->go_until_ns || clock_boot_ns() < s->go_until_ns);
}

int shim_run(const struct shim_start *start)
{
	struct shim sh = { .start = start,
			   .conns = { { .fd = start->conn_fd, .spoke = true, .serves = true } },
			   .n_conns = 1,
			   .name = ENDPOINT_NONE,
			   .name_at_ns = UINT64_MAX,
			   .timeout_at_ns = UINT64_MAX,
			   .heard_ns = clock_mono_ns(),
			   .left_ns = clock_mono_ns(),
			   .alone_at_ns = UINT64_MAX,
			   .ender = { .reap = reap_meanwhile, .data = &sh } };
	struct err e = ERR_INIT;

	/* The fork server ignores it. */
	(void)signal(SIGCHLD, SIG_DFL);
	/* The worker first, so that it has nothing of what prepare() opens. */
	if (worker_begin(&sh.worker, start->conn_fd, &e) < 0 || prepare(&sh, &e) < 0) {
		refuse(&sh, &e);
		return 1;
	}
	set_title(&sh);
	if (may_go(&sh.spec))
		shim_event(&sh, EV_GO);
	else
		shim_tell_status(&sh, SHMSG_PREPARED);
	live(&sh);
	finish(&sh);
	return 0;
}
