/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/claim.h"
#include "agent/attempt/commit.h"
#include "agent/queue/cancel.h"
#include "agent/queue/depends.h"
#include "agent/queue/recovery.h"
#include "base/clock.h"
#include "base/mem.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool/task_text.h"
#include "spool_world.h"

/* The linker gives us the spool's (tests/meson.build). */
static bool no_sync;
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	errno = EIO;
	return no_sync ? -1 : __real_fdatasync(fd);
}

/* What was written goes to the file server, which has no room, when a copy of its descriptor is
 * closed.
 */
static bool no_room;
static unsigned int sent;
int __real_fcntl64(int fd, int cmd, ...);
int __wrap_fcntl64(int fd, int cmd, ...);
int __wrap_fcntl64(int fd, int cmd, ...)
{
	va_list list;

	va_start(list, cmd);

	long arg = va_arg(list, long);

	va_end(list);
	sent += cmd == F_DUPFD_CLOEXEC;
	if (no_room && cmd == F_DUPFD_CLOEXEC) {
		errno = ENOSPC;
		return -1;
	}
	return __real_fcntl64(fd, cmd, arg);
}

/* What the shim wrote down, and what we meant to do, give what the rules for retries hear. */
struct row {
	enum task_outcome outcome;
	enum task_cause cause;
	enum end_kind ours, expect;
	bool never_ran;
	bool leader_first;
	uint32_t leftovers;
};

static void expect_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct task_end end = { .outcome = rows[i].outcome,
					      .cause = rows[i].cause,
					      .leader_first = rows[i].leader_first,
					      .leftovers = rows[i].leftovers };
		bool runs_on = end.outcome == TASK_UNKNOWN && end.leftovers;
		const struct retry_end e = commit_judge(&end, rows[i].ours, "meant");

		assert_int_equal(e.kind, rows[i].expect);
		assert_int_equal(e.never_ran, rows[i].never_ran);
		assert_int_equal(e.last, rows[i].ours == END_STOPPED || runs_on);
	}
}

static void test_nothing_meant(void **state)
{
	static const struct row rows[] = {
		{ TASK_EXITED, CAUSE_SELF, END_MAX, END_EXIT, false },
		{ TASK_SIGNALLED, CAUSE_SELF, END_MAX, END_SIGNAL, false },
		{ TASK_NOT_STARTED, CAUSE_SELF, END_MAX, END_EXIT, false },
		{ TASK_EXITED, CAUSE_STOP, END_MAX, END_STOPPED, false },
		{ TASK_SIGNALLED, CAUSE_TIMEOUT, END_MAX, END_TIMEOUT, false },
		{ TASK_SIGNALLED, CAUSE_TERM, END_MAX, END_NODE_LOST, false },
		{ TASK_SIGNALLED, CAUSE_FENCED, END_MAX, END_NODE_LOST, false },
		{ TASK_SIGNALLED, CAUSE_RECLAIMED, END_MAX, END_NODE_LOST, false },
		{ TASK_EXITED, CAUSE_REQUEUE, END_MAX, END_PREEMPTED, false },
		{ TASK_UNKNOWN, CAUSE_SELF, END_MAX, END_NODE_LOST, false },
		/* Before it began: of an agent that went, or that preempted it. */
		{ TASK_CANCELLED, CAUSE_ALONE, END_MAX, END_NODE_LOST, true },
		{ TASK_CANCELLED, CAUSE_REQUEUE, END_MAX, END_TAKEN, true },
		{ TASK_CANCELLED, CAUSE_STOP, END_MAX, END_STOPPED, true },
		{ TASK_REFUSED, CAUSE_SELF, END_MAX, END_REFUSED, true },
	};

	expect_rows(rows, ARRAY_LEN(rows));
}

static void test_what_is_written_wins(void **state)
{
	static const struct row rows[] = {
		/* It had ended before our word came. */
		{ TASK_EXITED, CAUSE_SELF, END_PREEMPTED, END_EXIT, false },
		{ TASK_EXITED, CAUSE_SELF, END_STOPPED, END_EXIT, false },
		{ TASK_SIGNALLED, CAUSE_SELF, END_TAKEN, END_SIGNAL, false },
		{ TASK_SIGNALLED, CAUSE_TIMEOUT, END_PREEMPTED, END_TIMEOUT, false },
		{ TASK_SIGNALLED, CAUSE_STOP, END_LIFETIME, END_STOPPED, false },
		/* Our word ended it. */
		{ TASK_EXITED, CAUSE_REQUEUE, END_LIFETIME, END_LIFETIME, false },
		/* An engine tells the shim as well. */
		{ TASK_SIGNALLED, CAUSE_TERM, END_EXPIRED, END_EXPIRED, false },
		{ TASK_SIGNALLED, CAUSE_TERM, END_LIFETIME, END_NODE_LOST, false },
		{ TASK_SIGNALLED, CAUSE_SELF, END_EXPIRED, END_SIGNAL, false },
		{ TASK_SIGNALLED, CAUSE_REQUEUE, END_TAKEN, END_TAKEN, false },
		{ TASK_SIGNALLED, CAUSE_REQUEUE, END_STOPPED, END_STOPPED, false },
		{ TASK_SIGNALLED, CAUSE_TIMEOUT, END_STOPPED, END_STOPPED, false },
		/* Nothing ran, or nothing is known. */
		{ TASK_CANCELLED, CAUSE_REQUEUE, END_PREEMPTED, END_PREEMPTED, true },
		{ TASK_NOT_STARTED, CAUSE_SELF, END_TAKEN, END_TAKEN, true },
		{ TASK_REFUSED, CAUSE_SELF, END_STOPPED, END_STOPPED, true },
		{ TASK_UNKNOWN, CAUSE_SELF, END_PREEMPTED, END_PREEMPTED, false },
	};

	expect_rows(rows, ARRAY_LEN(rows));
}

/* Only what it had left behind was ended: the task has run, and must not run again. */
static void test_command_that_had_ended(void **state)
{
	static const struct row rows[] = {
		{ TASK_EXITED, CAUSE_REQUEUE, END_MAX, END_EXIT, false, true },
		{ TASK_EXITED, CAUSE_REQUEUE, END_PREEMPTED, END_EXIT, false, true },
		{ TASK_EXITED, CAUSE_REQUEUE, END_LIFETIME, END_EXIT, false, true },
		{ TASK_EXITED, CAUSE_TERM, END_EXPIRED, END_EXIT, false, true },
		{ TASK_SIGNALLED, CAUSE_REQUEUE, END_PREEMPTED, END_SIGNAL, false, true },
		{ TASK_EXITED, CAUSE_TERM, END_MAX, END_EXIT, false, true },
		{ TASK_EXITED, CAUSE_FENCED, END_MAX, END_EXIT, false, true },
		/* A reboot signals all of a tree, and who comes first is chance. */
		{ TASK_SIGNALLED, CAUSE_TERM, END_MAX, END_NODE_LOST, false, true },
		/* Its owner's word, and its own limit, are about the whole tree. */
		{ TASK_EXITED, CAUSE_STOP, END_MAX, END_STOPPED, false, true },
		{ TASK_EXITED, CAUSE_REQUEUE, END_STOPPED, END_STOPPED, false, true },
		{ TASK_EXITED, CAUSE_TIMEOUT, END_MAX, END_TIMEOUT, false, true },
	};

	expect_rows(rows, ARRAY_LEN(rows));
}

/* Its first process became another user's, and could not be ended: to begin again would be to run
 * it beside that. */
static void test_command_that_runs_on(void **state)
{
	static const struct row rows[] = {
		{ TASK_UNKNOWN, CAUSE_TIMEOUT, END_MAX, END_TIMEOUT, .leftovers = 1 },
		{ TASK_UNKNOWN, CAUSE_STOP, END_MAX, END_STOPPED, .leftovers = 1 },
		{ TASK_UNKNOWN, CAUSE_REQUEUE, END_MAX, END_PREEMPTED, .leftovers = 2 },
		{ TASK_UNKNOWN, CAUSE_REQUEUE, END_LIFETIME, END_LIFETIME, .leftovers = 1 },
		{ TASK_UNKNOWN, CAUSE_REQUEUE, END_STOPPED, END_STOPPED, .leftovers = 1 },
		{ TASK_UNKNOWN, CAUSE_FENCED, END_MAX, END_NODE_LOST, .leftovers = 1 },
		/* The first process has ended, and only that is the task's. */
		{ TASK_SIGNALLED, CAUSE_REQUEUE, END_PREEMPTED, END_PREEMPTED, .leftovers = 1 },
	};
	const struct task_end left = { .cause = CAUSE_REQUEUE, .leftovers = 1 };

	expect_rows(rows, ARRAY_LEN(rows));
	assert_string_equal(commit_judge(&left, END_PREEMPTED, "meant").why,
			    "its first process runs on, as another user's");
	assert_string_equal(commit_judge(&left, END_STOPPED, "meant").why, "meant");
}

static void test_words(void **state)
{
	struct task_end end = { .outcome = TASK_REFUSED, .text = "cannot start a shim: no room" };

	assert_string_equal(commit_judge(&end, END_MAX, "meant").why, end.text);
	assert_string_equal(commit_judge(&end, END_STOPPED, "meant").why, "meant");
	end = (struct task_end){ .outcome = TASK_SIGNALLED, .signal = 11 };
	assert_int_equal(commit_judge(&end, END_MAX, "").code, 11);
}

/* Calls until the one that fails; 0: none does. */
static unsigned int syncs, sync_fails;

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	if (++syncs != sync_fails)
		return __real_fsync(fd);
	errno = EIO;
	return -1;
}

static struct claiming take(struct spool_place *p, uint64_t id, uint64_t element)
{
	struct claiming k = {
		.ref = { .id = id, .element = element },
		.key = "key",
		.run_dir = spool_world_root(),
	};

	syncs = 0;
	claiming_work(&k.job, p);
	if (k.code == 0) {
		(void)close(k.log_fd);
		(void)spec_free(k.spec);
	}
	return k;
}

/* A second run would be wrong, so the claim is on the disk before the first one begins. */
static void test_claim_of_an_element_is_kept(void **state)
{
	struct spool_place p = { .spool = open_spool() };
	uint64_t once = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-2\",\"no_requeue\":true}");
	uint64_t plain = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-2\"}");
	struct place_batch *b;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	for (sync_fails = 1; sync_fails <= 2; sync_fails++) { /* the file, and its name */
		assert_int_equal(take(&p, once, 1).code, -EIO);
		assert_int_equal(syncs, sync_fails);
		assert_false(spool_exists(p.spool, "running/1.1,e0"));
		b = place_batch(&p, once, NULL);
		assert_int_equal(batch_next(b->batch, 0), 1);
	}
	sync_fails = 0;
	assert_int_equal(take(&p, once, 1).code, 0);
	assert_int_equal(syncs, 2);
	assert_int_equal(take(&p, plain, 1).code, 0);
	assert_int_equal(syncs, 0);
	place_forget_batch(&p, once);
	place_forget_batch(&p, plain);
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

/* The same of a single task. What could not begin for want of a disk is no failure of its own. */
static void test_claim_that_cannot_be_kept(void **state)
{
	struct spool_place p = { .spool = open_spool() };
	uint64_t id = submit(p.spool, "{\"script\":\"x\",\"no_requeue\":true,\"retries\":1}");
	struct scan_task t;
	struct claiming k;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	no_sync = true;
	assert_int_equal(take(&p, id, 0).code, -EIO);
	no_sync = false;
	for (sync_fails = 1; sync_fails <= 2; sync_fails++)
		assert_int_equal(take(&p, id, 0).code, -EIO);
	sync_fails = 0;
	assert_true(get(p.spool, id, &t) && t.dir == SPOOL_PENDING);
	k = take(&p, id, 0);
	assert_int_equal(k.code, 0);
	assert_int_equal(k.claim.attempt, 1);
	assert_int_equal(k.tries, 0);
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

/* Where two agents end the last elements of an array, one of them finds that the other has filed
 * the array. Its own end was not too late for that. */
static void test_array_that_another_has_filed(void **state)
{
	static const struct task_end ended = { .outcome = TASK_EXITED };
	struct spool_place p = { .spool = open_spool() };
	uint64_t id = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-2\"}");
	struct commit f = { .end = &ended,
			    .ended = { .kind = END_EXIT },
			    .token = "none",
			    .run_dir = spool_world_root(),
			    .log_path = "logs/none" };
	struct err e = ERR_INIT;
	struct place_batch *b;
	struct scan_task t;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	b = place_batch(&p, id, &e);
	assert_non_null(b);
	f.spec = b->spec;
	assert_true(get(p.spool, id, &t));
	for (uint64_t i = 1; i <= 2; i++) {
		assert_int_equal(batch_claim(b->batch, i, &p.self, &f.claim, &e), 0);
		if (i == 2) /* it is not called so any more, as after it was filed */
			assert_int_equal(transit_priority(p.spool, &t.name, 9, &e), 0);
		commit_work(&f.job, &p);
		assert_int_equal(f.code, 0);
		assert_false(f.superseded);
	}
	assert_int_equal(batch_counts(b->batch).done, 2);
	place_forget_batch(&p, id);
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

static struct task_spec *spec_after(uint64_t id)
{
	struct task_spec *s = NULL;
	struct err e = ERR_INIT;
	char json[80];
	size_t used;

	(void)snprintf(json, sizeof(json), "{\"argv\":[\"true\"],\"after\":[%llu]}",
		       (unsigned long long)id);
	if (spec_read(json, strlen(json), &s, &used, &e) < 0)
		fail_msg("%s", e.text);
	return s;
}

static void expect_dep(struct spool_place *p, uint64_t id, enum sched_dep expected)
{
	for (int i = 0; i < 2; i++) /* what is not there is looked for twice */
		depends_settle(p, DEPENDS_ALL | DEPENDS_SYNCED, NULL, NULL);
	assert_int_equal(depends_state(p, id), expected);
}

/* As another node does it with a claim that has expired. */
static void take_over(const struct spool *sp, const struct claim *c, enum task_result result,
		      bool prune)
{
	struct spool_again again = { .reason = "its node is silent" };
	struct claimer two = self(sp, "two");
	char file[NAME_FILE_MAX], path[SPOOL_PATH_MAX];
	struct spool_end end;
	struct claim late;

	assert_int_equal(transit_requeue(sp, NULL, c, &again, NULL), 0);
	late = claim(sp, c->name.id, &two);
	end = done(&late);
	end.result = result;
	assert_int_equal(transit_end(sp, NULL, &late, &end, NULL), 0);
	late.name.agent[0] = '\0';
	late.name.ended_s = end.ended_ns / NS_PER_S;
	if (prune)
		assert_int_equal(
			spool_unlink(sp,
				     spool_path(SPOOL_FAILED, name_format(&late.name, file), path),
				     NULL),
			0);
}

/* While this node slept: its index knows the claim, and what is filed too late takes that out of
 * it. */
static void test_too_late_for_who_waits(void **state)
{
	static const struct {
		enum task_result result;
		bool prune;
		int code;
		enum sched_dep dep;
	} rows[] = { { RESULT_DONE, false, 0, SCHED_DEP_READY },
		     { RESULT_FAILED, false, 0, SCHED_DEP_NEVER },
		     { RESULT_CANCELLED, false, 0, SCHED_DEP_NEVER },
		     { RESULT_FAILED, true, -ENOENT, SCHED_DEP_NEVER } };
	static const struct task_end ended = { .outcome = TASK_EXITED };
	struct spool_place p = { .spool = open_spool() };
	struct claimer one = self(p.spool, "one");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t id = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":0}");
		struct task_spec *waits = spec_after(id);
		struct commit f = { .claim = claim(p.spool, id, &one),
				    .spec = waits,
				    .end = &ended,
				    .ended = { .kind = END_EXIT },
				    .token = "none",
				    .run_dir = spool_world_root(),
				    .log_path = "logs/none" };

		p.scan = scanned(p.spool);
		depends_set(&p, id + 1000, waits);
		expect_dep(&p, id + 1000, SCHED_DEP_WAIT);
		take_over(p.spool, &f.claim, rows[i].result, rows[i].prune);
		commit_work(&f.job, &p);
		assert_int_equal(f.code, rows[i].code);
		assert_int_equal(f.superseded, rows[i].code == 0);
		expect_dep(&p, id + 1000, rows[i].dep);
		(void)spec_free(waits);
		depends_free(&p);
		p.scan = scan_free(p.scan);
	}
	p.spool = spool_close(p.spool);
}

/* An element that waits again though it was to be stopped; its batch is called otherwise by now, or
 * gone. */
static void test_cancel_of_an_element(void **state)
{
	struct spool_place p = { .spool = open_spool() };
	uint64_t id = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-3\"}");
	struct task_name n = { .id = id, .element = 1 };
	struct err e = ERR_INIT;
	struct place_batch *b;
	struct scan_task t;
	struct claim c;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	b = place_batch(&p, id, &e);
	assert_non_null(b);
	assert_true(get(p.spool, id, &t));
	assert_int_equal(transit_priority(p.spool, &t.name, 9, &e), 0);
	assert_int_equal(cancel_waiting(&p, &n, "stopped", &e), 1);
	assert_int_equal(batch_counts(b->batch).cancelled, 1);
	assert_int_equal(cancel_waiting(&p, &n, "stopped", &e), 0);

	/* Claimed to be ended, which could not be written. */
	assert_int_equal(batch_claim_to_end(b->batch, 2, &p.self, &c, &e), 0);
	batch_give_back(b->batch, &c);
	assert_false(spool_exists(p.spool, c.path));
	assert_int_equal(batch_next(b->batch, 0), 2);

	/* What is not on disk is not said to be. */
	n.element = 2;
	no_sync = true;
	assert_int_equal(cancel_waiting(&p, &n, "stopped", &e), -EIO);
	no_sync = false;

	n.element = 3;
	assert_int_equal(transit_cancel(p.spool, &t.name, "all of it", &e), 0);
	assert_int_equal(cancel_waiting(&p, &n, "stopped", &e), 0);
	place_forget_batch(&p, id);
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

/* What was to be stopped here was given to another node, which runs it: "it does not wait" would
 * mean that it is over. */
static void test_cancel_of_what_another_runs(void **state)
{
	struct spool_place p = { .spool = open_spool() };
	struct claimer two = self(p.spool, "two");
	const struct spool_again again = { .reason = "its node or agent went away" };
	uint64_t single = submit(p.spool, "{\"script\":\"x\"}");
	uint64_t many = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-3\"}");
	struct batch *theirs = open_batch(p.spool, many, "two");
	struct err e = ERR_INIT;
	struct place_batch *b;
	struct claim c, now;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	c = claim(p.spool, single, &p.self);
	assert_int_equal(transit_requeue(p.spool, NULL, &c, &again, &e), 0);
	now = claim(p.spool, single, &two);
	assert_int_equal(cancel_waiting(&p, &c.name, "stopped", &e), -EBUSY);
	assert_true(spool_exists(p.spool, now.path));

	b = place_batch(&p, many, &e);
	assert_non_null(b);
	assert_int_equal(batch_claim(b->batch, 1, &p.self, &c, &e), 0);
	assert_int_equal(batch_requeue(theirs, NULL, &c, &again, &e), 0);
	assert_int_equal(batch_claim(theirs, 1, &two, &now, &e), 0);
	assert_int_equal(cancel_waiting(&p, &c.name, "stopped", &e), -EBUSY);
	assert_true(spool_exists(p.spool, now.path));
	theirs = batch_close(theirs);
	place_forget_batch(&p, many);
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

/* Filing was slow, and before the stop was looked at its owner asked for the task again. */
static void test_cancel_of_what_was_asked_for_again(void **state)
{
	struct spool_place p = { .spool = open_spool() };
	uint64_t id = submit(p.spool, "{\"script\":\"x\"}");
	const struct spool_again again = { .attempts = 1, .reason = "exit 1" };
	struct spool_end end = { .result = RESULT_FAILED, .exit = 1, .ended_ns = clock_wall_ns() };
	struct claim first, second;
	struct err e = ERR_INIT;
	struct task_name n;
	struct scan_task t;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	first = claim(p.spool, id, &p.self);
	n = first.name;
	assert_int_equal(record_append(p.spool, first.path, record_end(&end), false, &e), 0);
	assert_int_equal(
		transit_commit(p.spool, first.path, &n, RESULT_FAILED, end.ended_ns, 1, &e), 0);
	assert_int_equal(transit_retry(p.spool, &n, "failed", false, &e), 0);
	assert_int_equal(cancel_waiting(&p, &first.name, "stopped", &e), 0);
	assert_true(get(p.spool, id, &t) && t.dir == SPOOL_PENDING);

	/* A stop of what was asked for holds. */
	second = claim(p.spool, id, &p.self);
	assert_int_equal(transit_requeue(p.spool, NULL, &second, &again, &e), 0);
	assert_int_equal(cancel_waiting(&p, &second.name, "stopped", &e), 1);
	assert_false(get(p.spool, id, &t));
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

/* The requeue of an element is in its journal, and its file stayed; then its owner stops it. */
static void test_stop_of_an_element_that_was_put_back(void **state)
{
	static const struct task_end ended = { .outcome = TASK_EXITED, .exit_code = 3 };
	struct spool_place p = { .spool = open_spool() };
	uint64_t id = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-2\",\"retries\":9}"), epoch;
	const struct spool_again again = { .attempts = 1, .reason = "exit 3" };
	struct commit f = { .end = &ended,
			    .ended = { .kind = END_EXIT, .code = 3, .last = true },
			    .token = "none",
			    .run_dir = spool_world_root(),
			    .log_path = "logs/none" };
	cleanup_free char *line = NULL;
	struct err e = ERR_INIT;
	struct place_batch *b;
	unsigned int attempts;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	b = place_batch(&p, id, &e);
	assert_non_null(b);
	f.spec = b->spec;
	assert_int_equal(batch_claim(b->batch, 1, &p.self, &f.claim, &e), 0);
	assert_int_equal(batch_requeue(b->batch, NULL, &f.claim, &again, &e), 0);
	line = record_line(record_claim(&p.self, 0, 1, f.claim.claimed_ns));
	assert_int_equal(spool_write_new(p.spool, f.claim.path, line, strlen(line), false, &e), 0);
	assert_int_equal(claim_stopped(p.spool, &f.claim, &e), 0);
	commit_work(&f.job, &p);
	assert_int_equal(f.code, 0);
	assert_int_equal(f.verdict.what, RETRY_CANCELLED);
	assert_int_equal(batch_state(b->batch, 1, &epoch, &attempts), BATCH_CANCELLED);
	assert_false(spool_exists(p.spool, f.claim.path));
	place_forget_batch(&p, id);
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

/* Renamed by a command on another node, a batch is not in the index by its name of now. What is to
 * be tried again of it is, and what waits of it can be stopped. */
static void test_batch_out_of_the_index(void **state)
{
	static const struct task_end ended = { .outcome = TASK_EXITED, .exit_code = 3 };
	struct spool_place p = { .spool = open_spool() };
	uint64_t id, epoch;
	struct commit f = { .end = &ended,
			    .ended = { .kind = END_EXIT, .code = 3, .ran_ms = 3600000 },
			    .token = "none",
			    .run_dir = spool_world_root(),
			    .log_path = "logs/none" };
	struct task_name other = { .element = 2 };
	struct err e = ERR_INIT;
	unsigned int attempts;
	struct batch *b;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	id = other.id = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-3\",\"retries\":1}");
	b = open_batch(p.spool, id, "one");
	struct task_spec *spec = spec_new();

	spec->retries = 1;
	f.spec = spec;
	assert_int_equal(batch_claim(b, 1, &p.self, &f.claim, &e), 0);
	commit_work(&f.job, &p);
	assert_int_equal(f.code, 0);
	assert_int_equal(f.verdict.what, RETRY_AGAIN);
	assert_int_equal(cancel_waiting(&p, &other, "stopped", &e), 1);
	assert_int_equal(batch_refresh(b, &e), 0);
	assert_int_equal(batch_state(b, 1, &epoch, &attempts), BATCH_WAITING);
	assert_true(epoch == 1 && attempts == 1);
	assert_int_equal(batch_state(b, 2, &epoch, &attempts), BATCH_CANCELLED);
	assert_null(scan_find(p.scan, id, 0)); /* which is what tells the planner of it */
	(void)spec_free(spec);
	b = batch_close(b);
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

/* An element of the batch fails at once; its streak is so long before. */
static struct commit fail_at_once(struct spool_place *p, struct place_batch *b, uint64_t element,
				  uint32_t streak)
{
	static const struct task_end ended = { .outcome = TASK_EXITED, .exit_code = 1 };
	struct commit f = { .end = &ended,
			    .ended = { .kind = END_EXIT, .code = 1 },
			    .spec = b->spec,
			    .token = "none",
			    .run_dir = spool_world_root(),
			    .log_path = "logs/none",
			    .streak = { .fast = streak },
			    .now_ns = 77 };

	assert_int_equal(batch_claim(b->batch, element, &p->self, &f.claim, NULL), 0);
	commit_work(&f.job, p);
	assert_int_equal(f.code, 0);
	assert_int_equal(f.verdict.what, RETRY_AGAIN);
	return f;
}

static void expect_paused(struct spool_place *p, uint64_t id, const struct commit *f)
{
	struct scan_task t;

	assert_true(f->verdict.pause);
	assert_int_equal(f->streak.fast, 0);
	assert_true(get(p->spool, id, &t) && t.name.flags & NAME_PAUSED);
}

/* A batch that is to be paused is called otherwise since the directories were read, or a command
 * holds it. */
static void test_pause_of_what_fails(void **state)
{
	struct spool_place p = { .spool = open_spool() };
	uint64_t id = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-4\",\"retries\":9}");
	struct place_batch *b;
	struct scan_task t;
	struct commit f;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	b = place_batch(&p, id, NULL);
	assert_non_null(b);
	f = fail_at_once(&p, b, 1, 2);
	expect_paused(&p, id, &f);

	assert_true(get(p.spool, id, &t));
	assert_int_equal(transit_pause(p.spool, &t.name, false, NULL), 0);
	assert_int_equal(transit_priority(p.spool, &t.name, 9, NULL), 0);
	batch_set_name(b->batch, &t.name);
	f = fail_at_once(&p, b, 2, 2);
	expect_paused(&p, id, &f);

	/* It is not said then, and the next failure tries it again. */
	assert_true(get(p.spool, id, &t));
	assert_int_equal(transit_pause(p.spool, &t.name, false, NULL), 0);
	batch_set_name(b->batch, &t.name);
	assert_int_equal(batch_claim(b->batch, 4, &p.self, &f.claim, NULL), 0);
	assert_int_equal(transit_hold(p.spool, &t.name, "pending", NULL), 0);
	f.streak = (struct retry_streak){ .fast = 2 };
	commit_work(&f.job, &p);
	assert_int_equal(f.code, 0);
	assert_false(f.verdict.pause);
	assert_int_equal(f.streak.fast, 3);
	assert_int_equal(transit_free_edit(p.spool, &t.name, NULL), 0);
	assert_false(t.name.flags & NAME_PAUSED);
	batch_set_name(b->batch, &t.name);
	f = fail_at_once(&p, b, 3, f.streak.fast);
	expect_paused(&p, id, &f);

	place_forget_batch(&p, id);
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

/* Killed between what it wrote into the log and the rename: the next agent judges the attempt
 * again, and says it once. */
static void test_log_is_told_once(void **state)
{
	static const char *const file = "logs/none";
	struct spool_place p = { .spool = open_spool() };
	uint64_t id = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-2\",\"retries\":9}");
	cleanup_free char *text = NULL;
	struct place_batch *b;
	struct commit f;
	size_t len;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	b = place_batch(&p, id, NULL);
	assert_non_null(b);
	put(p.spool, file, "=== tenure    task\n");
	f = fail_at_once(&p, b, 1, 0);
	f.told = false;
	f.state.tries = 0;
	commit_work(&f.job, &p);
	assert_int_equal(f.code, 0);
	assert_int_equal(spool_read(p.spool, file, 4096, &text, &len, NULL), 0);
	assert_non_null(strstr(text, "\n=== then "));
	assert_null(strstr(strstr(text, "=== then ") + 1, "=== then "));
	place_forget_batch(&p, id);
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

/* What others read once a claim has gone is with the file server before: else they would claim it
 * again, and nobody would hear that there was no room for it. */
static void test_written_before_the_claim_goes(void **state)
{
	struct spool_place p = { .spool = open_spool() };
	uint64_t many = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-2\"}");
	uint64_t id = submit(p.spool, "{\"argv\":[\"true\"]}");
	const struct spool_again again = { .attempts = 1 };
	const struct spool_end end = { .result = RESULT_DONE };
	struct claim one, two, single;
	struct place_batch *b;
	struct task_file file;
	struct scan_task t;

	p.self = self(p.spool, "one");
	p.scan = scanned(p.spool);
	p.spool->network = true;
	b = place_batch(&p, many, NULL);
	assert_non_null(b);
	assert_int_equal(batch_claim(b->batch, 1, &p.self, &one, NULL), 0);
	assert_int_equal(batch_claim(b->batch, 2, &p.self, &two, NULL), 0);
	assert_true(get(p.spool, id, &t));
	assert_int_equal(claim_task(p.spool, &t.name, &p.self, &file, &single, NULL), 0);
	task_file_clear(&file);
	no_room = true;
	assert_int_equal(batch_end(b->batch, NULL, &one, &end, NULL), -ENOSPC);
	assert_int_equal(batch_requeue(b->batch, NULL, &two, &again, NULL), -ENOSPC);
	assert_int_equal(transit_requeue(p.spool, NULL, &single, &again, NULL), -ENOSPC);
	no_room = false;
	assert_true(spool_exists(p.spool, one.path) && spool_exists(p.spool, two.path));
	assert_true(spool_exists(p.spool, single.path));
	sent = 0;
	assert_int_equal(batch_end(b->batch, NULL, &one, &end, NULL), 0);
	assert_int_equal(transit_requeue(p.spool, NULL, &single, &again, NULL), 0);
	assert_int_equal(sent, 2);
	place_forget_batch(&p, many);
	p.scan = scan_free(p.scan);
	p.spool = spool_close(p.spool);
}

/* The second attempt lives on, though its agent had written already that it is put back: it has the
 * memory that it began with. */
static void test_adopted_element_that_was_put_back(void **state)
{
	const struct spool_again first = { .attempts = 1, .memory = 2ULL << 30 };
	const struct spool_again second = { .attempts = 2, .memory = 4ULL << 30 };
	struct spool *sp = open_spool();
	struct claimer one = self(sp, "one");
	uint64_t id = submit(sp, "{\"script\":\"x\",\"array\":\"1-2\",\"memory\":\"1G\"}");
	struct batch *b = open_batch(sp, id, "one");
	struct adoptee a = { .tries = 1 };
	cleanup_free char *line = NULL;
	struct scan *s = scanned(sp);
	struct err e = ERR_INIT;

	assert_int_equal(batch_claim(b, 1, &one, &a.claim, &e), 0);
	assert_int_equal(batch_requeue(b, NULL, &a.claim, &first, &e), 0);
	assert_int_equal(batch_claim(b, 1, &one, &a.claim, &e), 0);
	assert_int_equal(batch_requeue(b, NULL, &a.claim, &second, &e), 0);
	line = record_line(record_claim(&one, 1, 2, a.claim.claimed_ns));
	assert_int_equal(spool_write_new(sp, a.claim.path, line, strlen(line), false, &e), 0);
	assert_int_equal(adoptee_fill(&a, sp, s, &e), 0);
	assert_true(a.spec->memory == first.memory);
	adoptee_clear(&a);
	(void)scan_free(s);
	b = batch_close(b);
	sp = spool_close(sp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_meant),
		cmocka_unit_test(test_what_is_written_wins),
		cmocka_unit_test(test_command_that_had_ended),
		cmocka_unit_test(test_command_that_runs_on),
		cmocka_unit_test(test_words),
		cmocka_unit_test_setup_teardown(test_claim_of_an_element_is_kept, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_claim_that_cannot_be_kept, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_array_that_another_has_filed, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_too_late_for_who_waits, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_cancel_of_an_element, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_cancel_of_what_another_runs, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_cancel_of_what_was_asked_for_again,
						spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(test_stop_of_an_element_that_was_put_back,
						spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(test_batch_out_of_the_index, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_pause_of_what_fails, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_log_is_told_once, spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(test_written_before_the_claim_goes, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_adopted_element_that_was_put_back, spool_setup,
						spool_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
