/* SPDX-License-Identifier: MIT */
#include "agent/attempt/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/gpus_file.h"
#include "agent/queue/cancel.h"
#include "agent/queue/depends.h"
#include "agent/queue/learning.h"
#include "agent/queue/waiting.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"
#include "spool/lane.h"
#include "spool/transit.h"
#include "task/logtext.h"
#include "task/oom.h"

#define LOG_TAIL (64UL * 1024)

/* The log, or where else it printed to: claim.c. */
static int open_log(const struct commit *f, const struct spool *sp, int flags)
{
	int fd = end_record_open_log(f->run_dir, f->token, flags, NULL, NULL);

	return fd >= 0 || fd == -EMFILE || fd == -ENFILE
		       ? fd
		       : spool_open_file(sp, f->log_path, flags, NULL, NULL);
}

/* "an-ECC-error" */
static void tell_fault(struct commit *f, const char *name)
{
	(void)str_copy(f->fault, sizeof(f->fault), name ? name : "");
	for (char *c = f->fault; *c; c++)
		*c = *c == '-' ? ' ' : *c;
}

/* In the last of the log are the words of a framework that ran out of memory: 1, 0, or -errno. Or
 * those that say that the device has failed. */
static int find_oom(struct commit *f, const struct spool *sp)
{
	static struct oom_patterns *patterns, *faults;
	cleanup_free char *text = xmalloc(LOG_TAIL);
	cleanup_fd int fd = open_log(f, sp, O_RDONLY);
	off_t size;
	ssize_t n;

	/* A log that cannot be had says nothing; for want of descriptors it is had later. */
	if (fd < 0)
		return fd == -EMFILE || fd == -ENFILE ? fd : 0;
	size = lseek(fd, 0, SEEK_END);
	if (!patterns)
		patterns = oom_patterns_default();
	if (!faults)
		faults = oom_patterns_of_devices();
	n = pread(fd, text, LOG_TAIL, size > (off_t)LOG_TAIL ? size - (off_t)LOG_TAIL : 0);
	if (n <= 0)
		return 0;

	/* The header has the command, which may speak of what it does not mean. */
	size_t at = logtext_output_at(text, (size_t)n);

	if (oom_match(patterns, text + at, (size_t)n - at))
		return 1;
	tell_fault(f, f->gpus ? oom_match(faults, text + at, (size_t)n - at) : NULL);
	return 0;
}

/* By an agent that was killed before it had filed the attempt. */
static bool ends_with(int fd, const char *line, size_t len)
{
	cleanup_free char *last = xmalloc(len);
	off_t size = lseek(fd, 0, SEEK_END);

	return size >= (off_t)len && pread(fd, last, len, size - (off_t)len) == (ssize_t)len &&
	       memcmp(last, line, len) == 0;
}

/* What the shim could not know when it wrote the end of the log: what the output means, and whether
 * there is another attempt. A log that cannot be written to loses it. */
static void tell_log(struct commit *f, const struct spool *sp)
{
	cleanup_free char *line = xasprintf("=== then      %s\n", f->verdict.text);
	cleanup_fd int fd = -1;

	if (f->told || (f->verdict.what != RETRY_AGAIN && f->ended.kind != END_OOM))
		return;
	fd = open_log(f, sp, O_RDWR | O_APPEND);
	if (fd >= 0 && !ends_with(fd, line, strlen(line)))
		(void)spool_append(fd, line, strlen(line));
	f->told = true;
}

/* It was looked at until its GPUs were free, which is more than it ran, by as much as the agent
 * heard of its end late: without a process of its own. */
static struct use_meter metered(const struct commit *f)
{
	uint64_t had_ns = f->gpu_ns ? f->gpu_ns : f->gpus * f->end->run_ns;
	struct use_meter m = f->meter;
	uint64_t more_ns = m.seen_ns > had_ns ? m.seen_ns - had_ns : 0;

	m.seen_ns -= more_ns;
	m.empty_ns = m.empty_ns > more_ns ? m.empty_ns - more_ns : 0;
	if (m.energy_ns > had_ns) {
		m.energy_mj =
			(uint64_t)((double)m.energy_mj * (double)had_ns / (double)m.energy_ns);
		m.energy_ns = had_ns;
	}
	return m;
}

static struct spool_use use_of(const struct commit *f)
{
	const struct use_meter m = metered(f);

	return (struct spool_use){ .gpus = f->gpus,
				   .gpu_ns = f->gpu_ns,
				   .gpu_peak_bytes = f->end->gpu_peak_bytes,
				   .gpu_util_permille = f->end->gpu_util_permille,
				   .energy_mj = m.energy_mj,
				   .energy_ns = m.energy_ns,
				   .empty_ns = m.empty_ns,
				   .seen_ns = m.seen_ns };
}

static void fill_end(const struct commit *f, struct spool_end *end)
{
	static const enum task_result results[] = {
		[RETRY_DONE] = RESULT_DONE,
		[RETRY_FAILED] = RESULT_FAILED,
		[RETRY_AGAIN] = RESULT_FAILED,
		[RETRY_CANCELLED] = RESULT_CANCELLED,
	};

	*end = (struct spool_end){
		.result = results[f->verdict.what],
		.exit = f->end->outcome == TASK_SIGNALLED
				? NAME_SIGNALLED + (unsigned int)f->end->signal
				: (unsigned int)f->end->exit_code,
		.epoch = f->claim.name.epoch,
		.attempt = f->claim.attempt,
		.begun_ns = f->end->started_wall_ns,
		.ended_ns = f->end->ended_wall_ns ? f->end->ended_wall_ns : clock_wall_ns(),
		.use = use_of(f),
	};
	(void)str_copy(end->reason, sizeof(end->reason),
		       f->end->text[0] ? f->end->text : f->verdict.text);
}

/* Of an element nothing but its end is left, so that tells where its output is. */
static void tell_away(const struct commit *f, const struct spool *sp, struct spool_end *end)
{
	cleanup_free char *was = xstrdup(f->verdict.what == RETRY_DONE ? "" : end->reason);
	const char *also = was[0] ? "; " : "";
	struct log_away log = { .error = "" };

	if (!f->log_away || claim_find_log(sp, &f->claim, f->claim.attempt, &log, NULL) != 1)
		return;
	if (log.file[0])
		(void)str_print(end->reason, sizeof(end->reason),
				"%s%swhat it printed is in %s on %s: %s", was, also, log.file,
				log.host, log.error);
	else
		(void)str_print(end->reason, sizeof(end->reason), "%s%swhat it printed is lost: %s",
				was, also, log.error);
}

static void fill_again(const struct commit *f, struct spool_again *again)
{
	uint64_t wait_ns = f->verdict.at_ns > f->now_ns ? f->verdict.at_ns - f->now_ns : 0;

	*again = (struct spool_again){
		.attempts = f->state.tries,
		.not_before_ns = wait_ns ? f->now_wall_ns + wait_ns : 0,
		.memory = f->state.mem_bytes != f->spec->memory ? f->state.mem_bytes : 0,
		.begun_ns = f->end->started_wall_ns,
		.outside = !f->verdict.counted && f->ended.kind != END_GANG,
		.use = use_of(f),
	};
	(void)str_copy(again->reason, sizeof(again->reason), f->verdict.text);
}

/* What it teaches of those of its name: nothing where it failed by itself, or was stopped. Whatever
 * becomes of this commit, the same attempt counts once. */
static void learn(const struct commit *f, struct spool_place *p)
{
	struct learned_run run = { .id = f->claim.name.id,
				   .element = f->claim.name.element,
				   .epoch = f->claim.name.epoch,
				   .ended_ns = f->end->ended_wall_ns ? f->end->ended_wall_ns
								     : clock_wall_ns(),
				   .how = f->ended.kind == END_OOM ? LEARNED_OOM : LEARNED_DONE,
				   .gpus = f->spec->gpus,
				   .peak_bytes = f->most_bytes,
				   .asked_bytes = f->spec->memory,
				   .room_bytes = f->room_bytes,
				   .ran_ms = f->ended.ran_ms };

	if (!run.peak_bytes && f->gpus)
		run.peak_bytes = (f->end->gpu_peak_bytes + f->gpus - 1) / f->gpus;
	if (f->verdict.what == RETRY_DONE || f->ended.kind == END_OOM)
		learning_note(p, f->spec, &run);
}

static int commit_single(struct commit *f, struct spool_place *p)
{
	struct task_name waiting = f->claim.name;
	struct spool_again again;
	struct spool_end end;
	int code;

	scan_note(p->scan, SPOOL_RUNNING, &f->claim.name, false);
	if (f->verdict.what != RETRY_AGAIN) {
		fill_end(f, &end);
		code = transit_end(p->spool, p->events, &f->claim, &end, &f->e);
		if (code == 0)
			depends_ended(p, f->claim.name.id, f->verdict.what == RETRY_DONE);
		return code;
	}
	fill_again(f, &again);
	f->next_memory = f->state.mem_bytes;
	if (f->spec->learned && f->state.mem_bytes == f->spec->memory)
		f->next_memory = learning_again(p, f->claim.name.id, f->spec);
	code = transit_requeue(p->spool, p->events, &f->claim, &again, &f->e);
	transit_requeued_name(&waiting, again.not_before_ns);
	if (code == 0)
		scan_note(p->scan, SPOOL_PENDING, &waiting, true);
	return code;
}

/* Its batch was cancelled while it ran: only its own end is left to be written down. */
static int commit_stray(struct commit *f, struct spool_place *p)
{
	struct task_name n = { .id = f->claim.name.id, .count = SPEC_ELEMENTS_MAX };
	struct waiting_batch b;
	struct spool_end end;
	int code = waiting_open(p, &n, &b, &f->e);

	if (f->verdict.what == RETRY_AGAIN) /* there is nothing for it to wait in */
		f->verdict.what = RETRY_CANCELLED;
	fill_end(f, &end);
	if (code == 0)
		code = batch_end(b.batch, p->events, &f->claim, &end, &f->e);
	waiting_put(p, &b);
	return code;
}

static int commit_in_batch(struct commit *f, struct spool_place *p, struct batch *b)
{
	const struct batch_again *own;
	struct spool_again again;
	struct spool_end end;
	int code;

	if (f->verdict.what == RETRY_AGAIN) {
		fill_again(f, &again);
		code = batch_requeue(b, p->events, &f->claim, &again, &f->e);
		own = batch_again_of(b, f->claim.name.element);
		f->next_memory = own ? own->memory : 0;
		return code;
	}
	fill_end(f, &end);
	tell_away(f, p->spool, &end);
	code = batch_end(b, p->events, &f->claim, &end, &f->e);
	return code == 0 ? waiting_commit_if_over(b, p, f->claim.name.id, &f->e) : code;
}

/*
 * Its requeue was written, but its file could not be removed, and its owner has stopped it since:
 * it waits, and its own end is of an epoch that is over. Before its file goes, which says that it
 * was stopped. 0; BATCH_SUPERSEDED: another node has begun it; or negative.
 */
static int cancel_requeued(struct commit *f, struct spool_place *p)
{
	const struct task_name *n = &f->claim.name;
	struct waiting_batch b;
	unsigned int attempts;
	uint64_t epoch;
	bool waits = false;
	int r = waiting_get(p, n->id, &b, &f->e);

	if (r == 0)
		waits = batch_state(b.batch, n->element, &epoch, &attempts) == BATCH_WAITING &&
			epoch == n->epoch + 1;
	waiting_put(p, &b);
	if (waits)
		r = cancel_waiting(p, n, f->verdict.text, &f->e);
	if (r > 0)
		f->verdict.what = RETRY_CANCELLED;
	return r == -EBUSY ? BATCH_SUPERSEDED : r == -ENOENT || r > 0 ? 0 : r;
}

static int commit_element(struct commit *f, struct spool_place *p)
{
	int code, requeued = f->ended.last ? cancel_requeued(f, p) : 0;
	struct waiting_batch b;

	if (requeued < 0)
		return requeued;
	code = waiting_get(p, f->claim.name.id, &b, &f->e);
	if (code == 0)
		code = commit_in_batch(f, p, b.batch);
	else if (code == -ENOENT)
		code = commit_stray(f, p);
	waiting_put(p, &b);
	return code == 0 ? requeued : code;
}

static struct retry_policy policy_of(const struct commit *f)
{
	const struct task_spec *s = f->spec;
	struct retry_policy p;

	retry_defaults(&p);
	p.retries = s->retries < RETRY_FOREVER ? (uint32_t)s->retries : RETRY_FOREVER;
	p.retry_every = (uint32_t)s->retry_every;
	p.backoff_ms = s->backoff;
	p.oom_permille = (uint32_t)s->retry_memory;
	p.oom_cap_bytes = f->room_bytes;
	p.no_requeue = s->no_requeue;
	p.limit_ms = s->timeout;
	/* One that stands for itself ends with its retries: nothing is protected by a pause, and
	 * who waits for its end would wait for ever. */
	if (!s->lane && !f->claim.name.element)
		p.fast_limit = 0;
	return p;
}

/* The file was not where we had it. */
static void supersede(struct commit *f, struct spool_place *p)
{
	const struct scan_task *t = scan_find(p->scan, f->claim.name.id, 0);
	struct spool_end end;

	int code;

	fill_end(f, &end);
	code = transit_supersede(p->spool, &f->claim, &end, &f->e);
	f->superseded = code == 0;
	if (code != TRANSIT_GONE)
		f->code = code;
	/* Told anew by the next scan: what came of it while we had it was not taken. */
	if (t && code == 0) {
		struct task_name n = t->name;

		scan_note(p->scan, t->dir, &n, false);
	}
	/* If it has ended meanwhile there is nothing left of it that a scan could tell. */
	depends_seen(p, f->claim.name.id);
}

#define LOOKS 3 /* a command may give it another name meanwhile */

/* The index is as old as the last look at the directories. The next one finds what the batch is
 * called then, and tells the planner. 0; TRANSIT_GONE: it has no name that we can change; negative.
 */
static int pause_batch(struct spool_place *p, uint64_t id, struct err *e)
{
	const struct scan_task *t = scan_find(p->scan, id, 0);
	int r = TRANSIT_GONE;
	struct task_name n;

	if (t && t->dir == SPOOL_PENDING) {
		n = t->name;
		r = transit_pause(p->spool, &n, true, e);
	}
	for (int look = 1; look < LOOKS && r == TRANSIT_GONE; look++) {
		r = waiting_name(p, id, &n, e);
		if (r == 0)
			r = transit_pause(p->spool, &n, true, e);
	}
	return r;
}

/* It could not be: the next one that fails tries it again. */
static void pause_later(struct commit *f, const struct retry_policy *policy)
{
	f->verdict.pause = false;
	f->streak = (struct retry_streak){ .fast = policy->fast_limit };
}

/* ---- the command that follows ---- */

static const char *result_word(const struct commit *f)
{
	if (f->verdict.what == RETRY_DONE)
		return "done";
	if (f->verdict.what == RETRY_CANCELLED)
		return "stopped";
	return f->ended.kind == END_TIMEOUT	? "timeout"
	       : f->ended.kind == END_NODE_LOST ? "lost"
						: "failed";
}

/* Before its end is written, so that an agent that is killed in between leaves both or none. Where
 * it cannot be, the task ends all the same. Of a gang the whole has one (waiting_file()). */
static bool promise_command(struct commit *f, struct spool_place *p)
{
	struct spool_end end;
	const struct on_end_facts facts = {
		.end = &end,
		.result = result_word(f),
		.gpus = f->gpus_text,
		.uuids = f->uuids,
		.log = f->log_path[0] ? f->log_path : NULL,
		.run_s = f->end->started_wall_ns ? (double)(f->end->run_ns / NS_PER_US) / 1e6 : 0,
	};

	if (f->verdict.what == RETRY_AGAIN || spec_is_gang(f->spec) ||
	    !on_end_is_wanted(&p->on_end, f->spec))
		return false;
	fill_end(f, &end);
	return on_end_promise(p->spool, &p->on_end, f->spec, &f->claim.name, &facts,
			      &f->unfollowed) == 0;
}

/* As the end is in the spool by now, or is not: another agent may have filed another one. */
static void keep_promise(struct commit *f, struct spool_place *p)
{
	if (f->code == 0 && !f->superseded)
		f->followed = on_end_due(p->spool, &p->on_end, &f->claim.name, &f->unfollowed) == 0;
	else if (f->code == -ENOENT || f->superseded)
		on_end_withdraw(p->spool, &p->on_end, &f->claim.name);
}

void commit_work(struct spool_job *job, struct spool_place *p)
{
	struct commit *f = (struct commit *)job;
	struct retry_policy policy = policy_of(f);
	char path[SPOOL_PATH_MAX];

	bool failed =
		f->ended.kind == END_SIGNAL || (f->ended.kind == END_EXIT && f->ended.code != 0);
	int oom = failed ? find_oom(f, p->spool) : 0;

	if (oom < 0) {
		f->code = err_sys(&f->e, -oom, "open %s", f->log_path);
		return;
	}
	if (oom && f->ended.kind == END_EXIT)
		f->ended.kind = END_OOM;
	f->failed = failed && !oom;
	f->verdict = retry_decide(&policy, &f->state, &f->streak, &f->ended, f->now_ns);
	tell_log(f, p->spool);
	learn(f, p);

	bool promised = promise_command(f, p);

	/* What fails at once, again and again, is not tried on: its lane is paused, before anybody
	 * can see that it has ended and start the next one. A batch that has none is, below, when
	 * the element is back in it. */
	if (f->verdict.pause && f->spec->lane &&
	    lane_pause(p->spool, f->spec->lane, f->verdict.text, &f->e) != 0)
		pause_later(f, &policy);
	f->code = f->claim.name.element ? commit_element(f, p) : commit_single(f, p);
	/* Another file that is missing does not mean that somebody else has the task. */
	f->code = spool_confirm(p->spool, f->claim.path, f->code, &f->e);
	if (f->code == -ENOENT && !f->claim.name.element)
		supersede(f, p);
	f->superseded = f->superseded || f->code == BATCH_SUPERSEDED;
	if (promised)
		keep_promise(f, p);
	if (f->code >= 0 && f->verdict.pause && !f->spec->lane && f->verdict.what == RETRY_AGAIN &&
	    pause_batch(p, f->claim.name.id, &f->e) != 0)
		pause_later(f, &policy);
	if (f->code >= 0)
		(void)end_record_remove(f->run_dir, f->token);
	if ((f->code >= 0 || f->code == -ENOENT) && f->spec->gpus_max)
		gpus_file_remove(f->run_dir, f->token);
	if ((f->code >= 0 || f->code == -ENOENT) && f->heartbeats) {
		(void)spool_remove(p->spool, heartbeat_claim_path(&f->claim.name, path));
		(void)spool_remove(p->spool, heartbeat_end_path(&f->claim.name, path));
	}
}

/* It changed its user, so that its shim could signal it no more, and gave up. */
static bool runs_on(const struct task_end *end)
{
	return end->outcome == TASK_UNKNOWN && end->leftovers;
}

/* What the shim wrote down, whoever told it to. */
static enum end_kind written_kind(const struct task_end *end)
{
	static const enum end_kind of_causes[TASK_CAUSE_MAX] = {
		[CAUSE_SELF] = END_EXIT,	[CAUSE_STOP] = END_STOPPED,
		[CAUSE_TIMEOUT] = END_TIMEOUT,	[CAUSE_TERM] = END_NODE_LOST,
		[CAUSE_ALONE] = END_NODE_LOST,	[CAUSE_REQUEUE] = END_PREEMPTED,
		[CAUSE_FENCED] = END_NODE_LOST, [CAUSE_RECLAIMED] = END_NODE_LOST,
	};
	enum end_kind kind = end->cause < TASK_CAUSE_MAX ? of_causes[end->cause] : END_NODE_LOST;

	if (end->outcome == TASK_REFUSED)
		return END_REFUSED;
	if (end->outcome == TASK_UNKNOWN && !runs_on(end))
		return END_NODE_LOST;
	if ((end->outcome == TASK_CANCELLED || runs_on(end)) && kind == END_EXIT)
		return END_NODE_LOST;
	/* It was preempted before it began. */
	if (end->outcome == TASK_CANCELLED && kind == END_PREEMPTED)
		return END_TAKEN;
	/* Its command had ended by then: to begin again would be to run it twice. But one that was
	 * signalled as its node went down may have had that from who told the shim, too. */
	if (end->leader_first &&
	    (kind == END_PREEMPTED || (kind == END_NODE_LOST && end->outcome == TASK_EXITED)))
		kind = END_EXIT;
	return kind == END_EXIT && end->outcome == TASK_SIGNALLED ? END_SIGNAL : kind;
}

/*
 * What is written down wins over what we meant to do: our word may have come after the end, or
 * after that of its command, when it only ended what that had left behind. Where nothing ran, or
 * nothing is known, there is only what we meant. What its owner says counts always, except that
 * what ended by itself has ended so; it is not tried again then.
 */
static bool is_ours(const struct task_end *end, enum end_kind ours)
{
	bool ran = end->outcome == TASK_EXITED || end->outcome == TASK_SIGNALLED;

	if (ours == END_MAX || (ran && end->cause == CAUSE_SELF))
		return false;
	/* An engine that ends a job tells its processes, shims among them, as it tells us. */
	if (ours == END_EXPIRED && end->cause == CAUSE_TERM && !end->leader_first)
		return true;
	return !ran || ours == END_STOPPED || (end->cause == CAUSE_REQUEUE && !end->leader_first);
}

struct retry_end commit_judge(const struct task_end *end, enum end_kind ours, const char *why)
{
	struct retry_end e = { .kind = written_kind(end),
			       .code = end->exit_code,
			       .ran_ms = end->run_ns / NS_PER_MS,
			       .last = ours == END_STOPPED || runs_on(end),
			       .never_ran = end->outcome == TASK_CANCELLED ||
					    end->outcome == TASK_REFUSED };

	if (is_ours(end, ours)) {
		e.kind = ours;
		e.why = why;
		e.never_ran = e.never_ran || end->outcome == TASK_NOT_STARTED;
	} else if (e.kind == END_SIGNAL) {
		e.code = end->signal;
	} else if (e.kind == END_TAKEN) {
		e.why = "preempted before it began";
	} else if (e.kind == END_REFUSED || end->outcome == TASK_UNKNOWN ||
		   end->outcome == TASK_NOT_STARTED) {
		e.why = end->text;
	}
	if (runs_on(end) && e.kind != END_STOPPED)
		e.why = "its first process runs on, as another user's";
	return e;
}
