/* SPDX-License-Identifier: MIT */

/* Batches and their elements, and what agents find that come after a bad day (spool_world.h). */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/batch_retry.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool/raw.h"
#include "spool/recover.h"
#include "spool_world.h"

static void test_batch(void **state)
{
	const struct spool_again later = {
		.attempts = 1, .not_before_ns = 7, .memory = 5, .reason = "exit 1"
	};
	struct spool *sp = open_spool();
	struct claimer one = self(sp, "one"), two = self(sp, "two");
	uint64_t id = submit(sp, "{\"script\":\"x\",\"array\":\"0-9\"}"), element;
	struct batch *b1 = NULL, *b2 = NULL;
	struct err e = ERR_INIT;
	struct scan_task t;
	struct claim c;

	assert_true(get(sp, id, &t) && t.name.count == 10);
	assert_int_equal(batch_open(sp, &t.name, "one", &b1, &e), 0);
	assert_int_equal(batch_open(sp, &t.name, "two", &b2, &e), 0);
	assert_int_equal(batch_claim(b1, 1, &one, &c, &e), 0);
	/* The other has not heard of it: the file is there. */
	assert_int_equal(batch_next(b2, 0), 1);
	{
		struct claim lost;

		assert_int_equal(batch_claim(b2, 1, &two, &lost, &e), CLAIM_LOST);
	}
	assert_int_equal(batch_next(b2, 0), 2);

	struct spool_end end = done(&c);

	assert_int_equal(batch_end(b1, NULL, &c, &end, &e), 0);
	/* The file is gone again, and the other still believes that element 1 waits. */
	b2 = batch_close(b2);
	assert_int_equal(batch_open(sp, &t.name, "two", &b2, &e), 0);
	assert_int_equal(batch_next(b2, 0), 2);
	assert_int_equal(batch_claim(b1, 2, &one, &c, &e), 0);
	assert_int_equal(batch_requeue(b1, NULL, &c, &later, &e), 0);
	assert_true(batch_again_of(b1, 2)->memory == 5 && !batch_again_of(b1, 1));
	assert_int_equal(batch_next(b1, 6), 3);
	assert_int_equal(batch_next(b1, 7), 2);
	/* Epoch 0 of element 2 is over, which the other finds out when it claims it. */
	assert_int_equal(batch_claim(b2, 2, &two, &c, &e), CLAIM_LOST);
	assert_int_equal(batch_claim(b2, 2, &two, &c, &e), 0);
	assert_true(c.name.epoch == 1 && c.attempt == 2 && batch_again_of(b2, 2)->memory == 5);
	end = done(&c);
	end.result = RESULT_FAILED;
	assert_int_equal(batch_end(b2, NULL, &c, &end, &e), 0);
	while ((element = batch_next(b1, 0))) {
		int r = batch_claim(b1, element, &one, &c, &e);

		assert_true(r == 0 || r == CLAIM_LOST);
		end = done(&c);
		if (r == 0)
			assert_int_equal(batch_end(b1, NULL, &c, &end, &e), 0);
	}
	assert_int_equal(batch_refresh(b1, &e), 0);
	assert_true(batch_is_over(b1));
	assert_int_equal(batch_counts(b1).failed, 1);
	assert_int_equal(batch_counts(b1).done, 9);
	assert_int_equal(batch_commit(b1, &e), 0);
	assert_int_equal(batch_refresh(b2, &e), 0);
	assert_true(batch_commit(b2, &e) >= 0);
	assert_int_equal(ended_times(sp, id), 1);
	assert_int_equal(batch_forget(sp, id, &e), 0);
	b1 = batch_close(b1);
	b2 = batch_close(b2);
	sp = spool_close(sp);
}

static bool is_failed(void *data, uint64_t element, enum batch_state state)
{
	return state == BATCH_FAILED;
}

/* Who asks for elements again writes a journal of its own, and nobody knows which is read first. */
static void test_revived_elements(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "mm");
	uint64_t id = submit(sp, "{\"script\":\"x\",\"array\":\"1-3\"}"), n = 0;
	struct batch *b = open_batch(sp, id, "mm");
	const char *const who[] = { "aa", "zz" };
	struct err e = ERR_INIT;
	struct scan_task t;
	struct claim c;

	for (unsigned int i = 0; i < 4; i++) {
		struct spool_end end;

		assert_int_equal(batch_claim(b, i < 3 ? i + 1 : 2, &me, &c, &e), 0);
		end = done(&c);
		end.result = i == 1 || i == 3 ? RESULT_FAILED : RESULT_DONE;
		assert_int_equal(batch_end(b, NULL, &c, &end, &e), 0);
		if (i < 2)
			continue;
		assert_true(get(sp, id, &t) && batch_is_over(b));
		b = batch_close(b);
		assert_int_equal(batch_retry_ended(sp, &t.name, "pending", who[i - 2], is_failed,
						   NULL, &n, &e),
				 0);
		assert_int_equal(n, 1);
		assert_true(get(sp, id, &t) && t.name.epoch == i - 1 && !t.name.flags);
		b = open_batch(sp, id, "mm");
		assert_int_equal(batch_next(b, 0), 2);
		assert_int_equal(batch_counts(b).done, 2);
		assert_string_equal(batch_again_of(b, 2)->reason, "asked for again");
	}
	/* The claim of an epoch before the last tells nothing any more. */
	c.name.epoch = 0;

	struct spool_end late = done(&c);

	(void)batch_end(b, NULL, &c, &late, &e); /* its claim is gone */
	assert_int_equal(batch_counts(b).waiting, 1);
	b = batch_close(b);
	sp = spool_close(sp);
}

static void test_stopped_batch(void **state)
{
	struct spool *sp = open_spool();
	struct claimer one = self(sp, "one");
	uint64_t id = submit(sp, "{\"script\":\"x\",\"array\":\"1-3\"}");
	struct batch *b = open_batch(sp, id, "one");
	struct err e = ERR_INIT;
	struct scan_task t;
	struct claim c;

	assert_true(get(sp, id, &t));
	assert_int_equal(transit_cancel(sp, &t.name, "asked for", &e), 0);
	assert_int_equal(batch_claim(b, 1, &one, &c, &e), CLAIM_LOST);
	assert_false(spool_exists(sp, "running/1.1,e0"));
	b = batch_close(b);
	sp = spool_close(sp);
}

static enum liveness all_dead(void *data, const struct claim *c)
{
	return LIVENESS_DEAD;
}

static const struct recover_calls dead = { .life = all_dead };

static void recover(const struct spool *sp, struct recover_counts *ret)
{
	struct claimer me = self(sp, "node1");
	struct err e = ERR_INIT;

	if (recover_run(sp, &me, NULL, &dead, ret, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(ret->problems, 0);
}

static void test_recover(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node2");
	uint64_t plain = submit(sp, "{\"argv\":[\"true\"]}");
	uint64_t once = submit(sp, "{\"argv\":[\"true\"],\"no_requeue\":true}");
	uint64_t ended = submit(sp, "{\"argv\":[\"true\"]}");
	uint64_t many = submit(sp, "{\"script\":\"x\",\"array\":\"1-3\"}");
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct batch *b = NULL;
	struct scan_task t;
	struct claim c;

	(void)claim(sp, plain, &me);
	(void)claim(sp, once, &me);
	c = claim(sp, ended, &me);

	struct spool_end end = done(&c);

	/* Killed between the record and the rename. */
	assert_int_equal(record_append(sp, c.path, record_end(&end), false, &e), 0);
	b = open_batch(sp, many, "node2");
	assert_int_equal(batch_claim(b, 1, &me, &c, &e), 0);
	b = batch_close(b);

	recover(sp, &n);
	assert_int_equal(n.requeued, 2);
	assert_int_equal(n.failed, 1);
	assert_int_equal(n.filed, 1);
	assert_true(get(sp, plain, &t) && t.dir == SPOOL_PENDING && t.name.epoch == 1);
	assert_int_equal(ended_times(sp, once), 1);
	assert_int_equal(ended_times(sp, ended), 1);
	b = open_batch(sp, many, "node1");
	assert_int_equal(batch_claim(b, 1, &me, &c, &e), 0);
	assert_true(c.name.epoch == 1 && c.attempt == 1);
	b = batch_close(b);
	sp = spool_close(sp);
}

/* Killed between the record of a requeue and its rename, twice: what was counted stays so. */
static void test_interrupted_requeue(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node2");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	struct spool_again again = { .attempts = 3, .not_before_ns = 4000000000 * NS_PER_S };
	struct claim c = claim(sp, id, &me);
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct task_file file;
	struct scan_task t;
	char path[SPOOL_PATH_MAX], name[NAME_FILE_MAX];

	(void)str_copy(again.reason, sizeof(again.reason), "exit status 1");
	for (int i = 0; i < 2; i++)
		assert_int_equal(record_append(sp, c.path,
					       record_requeue(&again, 1, clock_wall_ns()), false,
					       &e),
				 0);
	recover(sp, &n);
	assert_int_equal(n.requeued, 1);
	assert_true(get(sp, id, &t) && t.dir == SPOOL_PENDING && t.name.epoch == 1);
	(void)spool_path(SPOOL_PENDING, name_format(&t.name, name), path);
	assert_int_equal(task_file_read(sp, path, &file, &e), 0);
	assert_int_equal(file.history.attempts, 3);
	assert_true(file.history.not_before_ns == again.not_before_ns);
	assert_string_equal(file.history.reason, again.reason);
	assert_true(transit_backs_off(&t.name, &file.history));
	task_file_clear(&file);
	sp = spool_close(sp);
}

/* Killed, or the power went, before the record of a claim was in its file: what had failed before
 * it still counts. */
static void test_claim_without_record(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node2");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	uint64_t many = submit(sp, "{\"script\":\"x\",\"array\":\"1-2\"}");
	const struct spool_again again = { .attempts = 2, .reason = "exit code 3" };
	struct claim c = claim(sp, id, &me);
	char from[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX], name[NAME_FILE_MAX];
	struct batch *b = open_batch(sp, many, "node2");
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct task_file file;
	struct scan_task t;

	assert_int_equal(transit_requeue(sp, NULL, &c, &again, &e), 0);
	assert_true(get(sp, id, &t));
	(void)spool_path(SPOOL_PENDING, name_format(&t.name, name), from);
	(void)str_copy(t.name.agent, sizeof(t.name.agent), me.agent);
	(void)spool_path(SPOOL_RUNNING, name_format(&t.name, name), to);
	assert_int_equal(spool_rename(sp, from, to, &e), 0);
	assert_int_equal(batch_claim(b, 1, &me, &c, &e), 0);
	assert_int_equal(batch_requeue(b, NULL, &c, &again, &e), 0);
	assert_int_equal(batch_claim(b, 1, &me, &c, &e), 0);
	b = batch_close(b);
	put(sp, c.path, "");

	recover(sp, &n);
	assert_int_equal(n.requeued, 2);
	assert_true(get(sp, id, &t) && t.dir == SPOOL_PENDING && t.name.epoch == 2);
	(void)spool_path(SPOOL_PENDING, name_format(&t.name, name), from);
	assert_int_equal(task_file_read(sp, from, &file, &e), 0);
	assert_int_equal(file.history.attempts, 2);
	task_file_clear(&file);
	b = open_batch(sp, many, NULL);
	assert_int_equal(batch_again_of(b, 1)->epoch, 2);
	assert_int_equal(batch_again_of(b, 1)->attempts, 2);
	b = batch_close(b);
	sp = spool_close(sp);
}

/* Where a second run would be wrong, an element waits again if the first cannot have begun: its
 * claim was never written, or is that of a command that was to end it and was killed. */
static void test_claims_that_ran_nothing(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node2"), tool = self(sp, "stop-node2");
	uint64_t id = submit(sp, "{\"script\":\"x\",\"array\":\"1-3\",\"no_requeue\":true}");
	struct batch *b = open_batch(sp, id, "node2");
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct claim c;

	tool.tool = true;
	assert_int_equal(batch_claim(b, 1, &me, &c, &e), 0);
	put(sp, c.path, "");
	assert_int_equal(batch_claim_to_end(b, 2, &tool, &c, &e), 0);
	assert_int_equal(batch_claim(b, 3, &me, &c, &e), 0);
	b = batch_close(b);
	recover(sp, &n);
	assert_true(n.requeued == 2 && n.failed == 1);
	b = open_batch(sp, id, NULL);
	assert_int_equal(batch_counts(b).waiting, 2);
	assert_int_equal(batch_counts(b).failed, 1);
	assert_int_equal(batch_again_of(b, 1)->attempts, 0);
	assert_int_equal(batch_again_of(b, 2)->attempts, 0);
	b = batch_close(b);
	sp = spool_close(sp);
}

/* What was stopped does not run again, whatever became of its node; of an array the rest does. */
static void test_stopped(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node2");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	uint64_t many = submit(sp, "{\"script\":\"x\",\"array\":\"1-2\"}");
	struct claim c = claim(sp, id, &me), one, two;
	struct batch *b = open_batch(sp, many, "node2");
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct scan_task t;

	assert_int_equal(batch_claim(b, 1, &me, &one, &e), 0);
	assert_int_equal(batch_claim(b, 2, &me, &two, &e), 0);
	b = batch_close(b);
	assert_int_equal(claim_stopped(sp, &c, &e), 0);
	assert_int_equal(claim_stopped(sp, &two, &e), 0);
	recover(sp, &n);
	assert_true(n.filed == 2 && n.requeued == 1);
	assert_false(get(sp, id, &t));
	assert_int_equal(ended_times(sp, id), 1);
	b = open_batch(sp, many, "node1");
	assert_int_equal(batch_claim(b, 2, &me, &c, &e), CLAIM_LOST);
	assert_int_equal(batch_claim(b, 1, &me, &c, &e), 0);
	b = batch_close(b);
	assert_int_equal(claim_stopped(sp, &one, &e), -ENOENT); /* it has another epoch now */
	sp = spool_close(sp);
}

struct adoptions {
	unsigned int stopped, others;
};

static enum liveness is_alive(void *data, const struct claim *c)
{
	return LIVENESS_ALIVE;
}

static void count_adopted(void *data, const struct claim *c, const struct task_spec *spec)
{
	struct adoptions *a = data;

	a->stopped += c->stopped;
	a->others += !c->stopped;
}

static void keep_adopted(void *data, const struct claim *c, const struct task_spec *spec)
{
	struct claim *ret = data;

	*ret = *c;
	ret->record_bytes = (size_t)spec->memory;
}

/* Its agent was killed between the record of a requeue and its rename, and what is left of the
 * attempt lives: it is the attempt that it was, with the memory that it had. */
static void test_interrupted_requeue_of_what_lives(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"memory\":\"1G\"}");
	struct spool_again again = { .attempts = 1,
				     .memory = 2ULL << 30,
				     .reason = "out of memory" };
	struct claim c = claim(sp, id, &me), adopted;
	const struct recover_calls calls = { .life = is_alive,
					     .adopt = keep_adopted,
					     .data = &adopted };
	struct recover_counts n;
	struct err e = ERR_INIT;

	/* Killed once and again. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(record_append(sp, c.path,
					       record_requeue(&again, 1, clock_wall_ns()), false,
					       &e),
				 0);
		assert_int_equal(recover_run(sp, &me, NULL, &calls, &n, &e), 0);
		assert_true(n.adopted == 1 && adopted.attempt == 1);
		assert_true(adopted.record_bytes == 1ULL << 30);
		assert_true(adopted.who.proc.pid == me.proc.pid);
	}
	/* The second attempt likewise. */
	assert_int_equal(transit_requeue(sp, NULL, &c, &again, &e), 0);
	c = claim(sp, id, &me);
	again = (struct spool_again){ .attempts = 2, .memory = 4ULL << 30 };
	assert_int_equal(
		record_append(sp, c.path, record_requeue(&again, 2, clock_wall_ns()), false, &e),
		0);
	assert_int_equal(recover_run(sp, &me, NULL, &calls, &n, &e), 0);
	assert_true(n.adopted == 1 && adopted.attempt == 2);
	assert_true(adopted.record_bytes == 2ULL << 30);
	sp = spool_close(sp);
}

/* Who takes over what lives is told what its owner has said. */
static void test_stopped_and_alive(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}"), again = submit(sp, "{\"script\":\"x\"}");
	uint64_t many = submit(sp, "{\"script\":\"x\",\"array\":\"1-2\"}");
	struct claim c = claim(sp, id, &me), one, two, other = claim(sp, again, &me);
	struct batch *b = open_batch(sp, many, "node1");
	struct adoptions adopted = { 0 };
	const struct recover_calls calls = { .life = is_alive,
					     .adopt = count_adopted,
					     .data = &adopted };
	const struct spool_again later = { .reason = "preempted" };
	struct recover_counts n;
	struct err e = ERR_INIT;

	assert_int_equal(batch_claim(b, 1, &me, &one, &e), 0);
	assert_int_equal(batch_claim(b, 2, &me, &two, &e), 0);
	b = batch_close(b);
	assert_int_equal(claim_stopped(sp, &c, &e), 0);
	assert_int_equal(claim_stopped(sp, &two, &e), 0);
	/* What was said of the attempt before it is over with that. */
	assert_int_equal(claim_stopped(sp, &other, &e), 0);
	assert_int_equal(transit_requeue(sp, NULL, &other, &later, &e), 0);
	(void)claim(sp, again, &me);
	assert_int_equal(recover_run(sp, &me, NULL, &calls, &n, &e), 0);
	assert_true(n.adopted == 4 && adopted.stopped == 2 && adopted.others == 2);
	sp = spool_close(sp);
}

/* Between the record of a requeue and its rename, or the removal of an element's file, its owner
 * stops what is about to wait again, and its node dies. */
static void test_stopped_when_put_back(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node2");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}"), epoch;
	uint64_t many = submit(sp, "{\"script\":\"x\",\"array\":\"1-3\"}");
	const struct spool_again again = { .attempts = 1, .reason = "exit status 1" };
	struct claim c = claim(sp, id, &me), now;
	struct batch *b = open_batch(sp, many, "node2");
	struct recover_counts n;
	struct err e = ERR_INIT;
	unsigned int attempts;

	assert_int_equal(record_append(sp, c.path, record_requeue(&again, 1, 1), false, &e), 0);
	assert_int_equal(claim_stopped(sp, &c, &e), 0);
	for (uint64_t i = 1; i <= 2; i++) {
		cleanup_free char *line = NULL;

		assert_int_equal(batch_claim(b, i, &me, &c, &e), 0);
		assert_int_equal(batch_requeue(b, NULL, &c, &again, &e), 0);
		line = record_line(record_claim(&me, 0, 1, c.claimed_ns));
		assert_int_equal(spool_write_new(sp, c.path, line, strlen(line), false, &e), 0);
		if (i == 1)
			assert_int_equal(claim_stopped(sp, &c, &e), 0);
	}
	recover(sp, &n);
	assert_int_equal(ended_times(sp, id), 1);
	assert_int_equal(n.filed, 2);
	assert_int_equal(batch_refresh(b, &e), 0);
	assert_int_equal(batch_state(b, 1, &epoch, &attempts), BATCH_CANCELLED);
	assert_int_equal(batch_claim(b, 2, &me, &now, &e), 0);
	assert_int_equal(now.name.epoch, 1);
	b = batch_close(b);
	sp = spool_close(sp);
}

/* A late record of a claim that was taken away changes nothing. */
static void test_late_end(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node2");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	struct claim old = claim(sp, id, &me), now;
	struct spool_end end = done(&old);
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct scan_task t;

	recover(sp, &n);
	assert_int_equal(transit_end(sp, NULL, &old, &end, &e), -ENOENT);
	now = claim(sp, id, &me);
	assert_int_equal(record_append(sp, now.path, record_end(&end), false, &e), 0);
	recover(sp, &n);
	assert_true(get(sp, id, &t) && t.name.epoch == 2);
	sp = spool_close(sp);
}

/* The power went: renames and records are gone, the events are not. */
static void test_power_loss(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	uint64_t stopped = submit(sp, "{\"argv\":[\"true\"]}");
	uint64_t again = submit(sp, "{\"argv\":[\"true\"]}");
	uint64_t many = submit(sp, "{\"script\":\"x\",\"array\":\"1-3\"}");
	struct endlog *ev = NULL;
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct batch *b = NULL;
	struct scan_task t;
	struct spool_end end = { .result = RESULT_DONE, .attempt = 1, .ended_ns = clock_wall_ns() };
	struct spool_end second = end;
	const struct spool_again once = { .attempts = 1, .reason = "exit 1" };

	second.epoch = 1;
	(void)str_copy(sp->boot, sizeof(sp->boot), "an-earlier-boot");
	assert_int_equal(endlog_open(sp, me.agent, &ev, &e), 0);
	assert_int_equal(endlog_add_end(ev, id, 0, &end, &e), 0);
	/* Its requeue could not be brought on, and then its owner had stopped it. */
	assert_int_equal(endlog_add_requeue(ev, stopped, 0, 1, &once, &e), 0);
	assert_int_equal(endlog_add_end(ev, stopped, 0, &end, &e), 0);
	assert_int_equal(endlog_add_requeue(ev, again, 0, 1, &once, &e), 0);
	assert_int_equal(endlog_add_end(ev, again, 0, &second, &e), 0);
	assert_int_equal(endlog_add_end(ev, many, 2, &end, &e), 0);
	assert_int_equal(endlog_sync(ev, &e), 0);
	ev = endlog_close(ev);
	/* And the ids. */
	assert_int_equal(spool_unlink(sp, "ids/4", &e), 0);
	sp = spool_close(sp);
	sp = open_spool();

	recover(sp, &n);
	assert_false(get(sp, id, &t));
	assert_int_equal(ended_times(sp, id), 1);
	assert_int_equal(ended_times(sp, stopped), 1);
	assert_int_equal(ended_times(sp, again), 1);
	b = open_batch(sp, many, NULL);
	assert_int_equal(batch_counts(b).done, 1);
	b = batch_close(b);
	assert_int_equal(submit(sp, "{\"argv\":[\"true\"]}"), 5);
	recover(sp, &n);
	assert_int_equal(n.filed + n.requeued, 0);
	sp = spool_close(sp);
}

static enum liveness not_known_yet(void *data, const struct claim *c)
{
	return LIVENESS_UNKNOWN;
}

/* What survived a power loss, as the agent of that name left them. */
static void note_end(const char *agent, uint64_t id, uint64_t element)
{
	struct spool_end end = { .result = RESULT_DONE, .attempt = 1, .ended_ns = clock_wall_ns() };
	struct spool *sp = open_spool();
	struct endlog *ev = NULL;
	struct err e = ERR_INIT;

	(void)str_copy(sp->boot, sizeof(sp->boot), "an-earlier-boot");
	assert_int_equal(endlog_open(sp, agent, &ev, &e), 0);
	assert_int_equal(endlog_add_end(ev, id, element, &end, &e), 0);
	assert_int_equal(endlog_sync(ev, &e), 0);
	ev = endlog_close(ev);
	sp = spool_close(sp);
}

/* The same of claims of which it could not be told at first whether anything of them runs, and of
 * those of another node, which expire later: what has ended is no less over then. */
static void test_power_loss_and_a_second_look(void **state)
{
	const struct recover_calls unknown = { .life = not_known_yet };
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1"), other = self(sp, "node2");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	uint64_t many = submit(sp, "{\"script\":\"x\",\"array\":\"1-2\"}"), part;
	struct claim c = claim(sp, id, &me);
	struct batch *b = open_batch(sp, many, "node2");
	struct endlog *ev = NULL;
	struct recover_counts n;
	struct err e = ERR_INIT;

	assert_int_equal(batch_claim(b, 1, &other, &c, &e), 0);
	b = batch_close(b);
	note_end("node1", id, 0);
	assert_int_equal(endlog_open(sp, me.agent, &ev, &e), 0);
	assert_int_equal(recover_run(sp, &me, ev, &unknown, &n, &e), 0);
	assert_int_equal(n.unknown, 2);
	assert_int_equal(endlog_cut(ev, &part, &e), ENDLOG_KEPT);
	note_end("node2", many, 1);
	assert_int_equal(recover_claims(sp, &me, ev, &dead, &n, &e), 0);
	assert_true(n.filed == 2 && n.requeued == 0 && n.problems == 0);
	assert_int_equal(ended_times(sp, id), 1);
	b = open_batch(sp, many, NULL);
	assert_int_equal(batch_counts(b).done, 1);
	b = batch_close(b);
	ev = endlog_close(ev);
	sp = spool_close(sp);
}

/* The power went: of a file nothing is left from there on, or bytes of 0. */
static void lose(const struct spool *sp, const char *path, off_t from, bool zeroes)
{
	static const char zero[4096];
	int fd = openat(sp->fd, path, O_WRONLY);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_size > from && st.st_size - from <= (off_t)sizeof(zero));
	if (zeroes)
		assert_int_equal(pwrite(fd, zero, (size_t)(st.st_size - from), from),
				 st.st_size - from);
	else
		assert_int_equal(ftruncate(fd, from), 0);
	(void)close(fd);
}

static off_t size_of(const struct spool *sp, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(sp->fd, path, &st, 0), 0);
	return st.st_size;
}

static void expect_waiting(const struct spool *sp, uint64_t id, uint64_t epoch,
			   const struct spool_again *again)
{
	char path[SPOOL_PATH_MAX], name[NAME_FILE_MAX];
	struct err e = ERR_INIT;
	struct task_file file;
	struct scan_task t;

	assert_true(get(sp, id, &t) && t.dir == SPOOL_PENDING && t.name.epoch == epoch);
	(void)spool_path(SPOOL_PENDING, name_format(&t.name, name), path);
	assert_int_equal(task_file_read(sp, path, &file, &e), 0);
	assert_int_equal(file.history.epoch, epoch);
	assert_int_equal(file.history.attempts, again->attempts);
	assert_true(file.spec->memory == again->memory);
	assert_true(file.history.not_before_ns == again->not_before_ns);
	task_file_clear(&file);
}

static enum liveness own_lives(void *data, const struct claim *c)
{
	return strcmp(c->who.agent, "node1") == 0 ? LIVENESS_ALIVE : LIVENESS_UNKNOWN;
}

/* The renames of a requeue, and of the claim behind it, are on the disk, and their records are not:
 * the name tells that there was one, and the events what it said. */
static void check_lost_records(bool zeroes)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1"), other = self(sp, "node2");
	static const char json[] = "{\"argv\":[\"true\"],\"memory\":\"1G\"}";
	const struct spool_again again = { .attempts = 1,
					   .not_before_ns = 4000000000 * NS_PER_S,
					   .memory = 2ULL << 30,
					   .reason = "out of memory" };
	const struct spool_again lost = { .attempts = 1, .memory = 2ULL << 30 };
	const struct claimer *const who[] = { &me, &other, &me };
	struct claim adopted = { .attempt = 0 }, c;
	const struct recover_calls alive = { .life = own_lives,
					     .adopt = keep_adopted,
					     .data = &adopted };
	char path[SPOOL_PATH_MAX], name[NAME_FILE_MAX], boot[SPOOL_BOOT_MAX];
	struct endlog *ev = NULL;
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct scan_task t;
	uint64_t ids[3];

	(void)str_copy(boot, sizeof(boot), sp->boot);
	(void)str_copy(sp->boot, sizeof(sp->boot), "an-earlier-boot");
	assert_int_equal(endlog_open(sp, me.agent, &ev, &e), 0);
	for (int i = 0; i < 3; i++) {
		ids[i] = submit(sp, json);
		assert_true(get(sp, ids[i], &t));
		(void)spool_path(SPOOL_PENDING, name_format(&t.name, name), path);

		off_t size = size_of(sp, path);

		c = claim(sp, ids[i], who[i]);
		assert_int_equal(transit_requeue(sp, ev, &c, &again, &e), 0);
		assert_true(get(sp, ids[i], &t));
		(void)spool_path(SPOOL_PENDING, name_format(&t.name, name), path);
		if (i)
			(void)str_copy(path, sizeof(path), claim(sp, ids[i], who[i]).path);
		lose(sp, path, size, zeroes);
	}
	ev = endlog_close(ev);
	(void)str_copy(sp->boot, sizeof(sp->boot), boot);

	assert_int_equal(recover_run(sp, &me, NULL, &alive, &n, &e), 0);
	assert_true(n.adopted == 1 && n.problems == 0);
	assert_int_equal(adopted.name.id, ids[2]);
	assert_int_equal(adopted.attempt, 2);
	assert_true(adopted.record_bytes == lost.memory);
	expect_waiting(sp, ids[0], 1, &again);
	recover(sp, &n);
	assert_int_equal(n.requeued, 2);
	expect_waiting(sp, ids[1], 2, &lost);
	expect_waiting(sp, ids[2], 2, &lost);
	sp = spool_close(sp);
}

static void test_lost_records(void **state)
{
	check_lost_records(false);
}

static void test_records_of_zeroes(void **state)
{
	check_lost_records(true);
}

/* The same of an element: its batch's journal is cut, and its claim is there. */
static void test_lost_journal(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node2");
	const struct spool_again first = { .attempts = 1, .memory = 5, .reason = "out of memory" };
	const struct spool_again second = { .attempts = 1, .reason = "preempted" };
	uint64_t id = submit(sp, "{\"script\":\"x\",\"array\":\"1-2\"}");
	char boot[SPOOL_BOOT_MAX];
	struct endlog *ev = NULL;
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct batch *b;
	struct claim c;

	(void)str_copy(boot, sizeof(boot), sp->boot);
	(void)str_copy(sp->boot, sizeof(sp->boot), "an-earlier-boot");
	assert_int_equal(endlog_open(sp, me.agent, &ev, &e), 0);
	b = open_batch(sp, id, "node2");
	assert_int_equal(batch_claim(b, 1, &me, &c, &e), 0);
	assert_int_equal(batch_requeue(b, ev, &c, &first, &e), 0);
	assert_int_equal(batch_claim(b, 1, &me, &c, &e), 0);
	assert_int_equal(batch_requeue(b, ev, &c, &second, &e), 0);
	assert_int_equal(batch_claim(b, 1, &me, &c, &e), 0);
	b = batch_close(b);
	ev = endlog_close(ev);
	lose(sp, "ends/1/node2", 0, true);
	put(sp, c.path, "");
	(void)str_copy(sp->boot, sizeof(sp->boot), boot);

	recover(sp, &n);
	b = open_batch(sp, id, NULL);
	assert_int_equal(batch_again_of(b, 1)->epoch, 3);
	assert_int_equal(batch_again_of(b, 1)->attempts, 1);
	assert_int_equal(batch_again_of(b, 1)->memory, 5);
	b = batch_close(b);
	sp = spool_close(sp);
}

static void note_path(void *data, const char *path)
{
	(void)str_copy(data, SPOOL_PATH_MAX, path);
}

/* Taking over are two renames: who is stopped between them, by an error or for good, finds the
 * claim again under its own name, though the record in it is that of the dead. */
static void test_interrupted_take_over(void **state)
{
	char left[SPOOL_PATH_MAX] = "", to[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	const struct recover_calls calls = { .life = all_dead, .failed = note_path, .data = left };
	struct spool *sp = open_spool();
	struct claimer other = self(sp, "node2"), me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct task_name again;
	struct scan_task t;

	sp->network = true;
	(void)str_copy(other.boot, sizeof(other.boot), "another kernel");

	struct claim c = claim(sp, id, &other);

	again = c.name;
	transit_requeued_name(&again, 0);
	(void)spool_path(SPOOL_PENDING, name_format(&again, file), to);
	assert_int_equal(mkdirat(sp->fd, to, 0700), 0); /* the second rename fails */
	assert_int_equal(recover_claims(sp, &me, NULL, &calls, &n, &e), 0);
	assert_int_equal(n.problems, 1);
	assert_string_not_equal(left, c.path);
	assert_true(spool_exists(sp, left));

	assert_int_equal(unlinkat(sp->fd, to, AT_REMOVEDIR), 0);
	assert_int_equal(recover_claims(sp, &me, NULL, NULL, &n, &e), 0);
	assert_true(n.requeued == 1 && n.problems == 0);
	assert_true(get(sp, id, &t) && t.dir == SPOOL_PENDING && t.name.epoch == 1);
	sp = spool_close(sp);
}

/* The same where it is cut off before anything was written: the record is still the dead one's. */
static void test_killed_take_over(void **state)
{
	struct spool *sp = open_spool();
	struct claimer other = self(sp, "node2"), me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	char to[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct scan_task t;

	sp->network = true;
	(void)str_copy(other.boot, sizeof(other.boot), "another kernel");

	struct claim c = claim(sp, id, &other);
	struct task_name taken = c.name;

	assert_int_equal(recover_claims(sp, &me, NULL, NULL, &n, &e), 0);
	assert_int_equal(n.unknown, 1);
	(void)str_copy(taken.agent, sizeof(taken.agent), me.agent);
	(void)spool_path(SPOOL_RUNNING, name_format(&taken, file), to);
	assert_int_equal(spool_rename(sp, c.path, to, &e), 0);
	assert_int_equal(recover_run(sp, &me, NULL, NULL, &n, &e), 0);
	assert_int_equal(n.requeued, 1);
	assert_true(get(sp, id, &t) && t.dir == SPOOL_PENDING && t.name.epoch == 1);
	sp = spool_close(sp);
}

/* An import that was cut off behind its last step: the task has ended, and only the bare file lies
 * there still. While it cannot be read what has ended, it is not taken for a new one. */
static void test_import_of_what_ended(void **state)
{
	static const char left[] = "raw,1,node1,5_raw.sh";
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"script\":\"a\"}"), same;
	struct claim c = claim(sp, id, &me);
	struct spool_end end = done(&c);
	char path[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;
	struct scan_task t;
	struct scan *s;

	assert_int_equal(id, 1);
	assert_int_equal(transit_end(sp, NULL, &c, &end, &e), 0);
	put(sp, spool_path(SPOOL_TMP, left, path), "echo\n");
	s = scanned(sp);
	assert_int_equal(spool_rename(sp, "done", "away", &e), 0);
	put(sp, "done", "no directory");
	assert_true(raw_resume(sp, left, "node1", s, &same, &e) < 0);
	assert_false(get(sp, id, &t));
	assert_true(spool_exists(sp, path));

	assert_int_equal(spool_unlink(sp, "done", &e), 0);
	assert_int_equal(spool_rename(sp, "away", "done", &e), 0);
	assert_int_equal(raw_resume(sp, left, "node1", s, &same, &e), 0);
	assert_false(get(sp, id, &t));
	assert_false(spool_exists(sp, path));
	(void)scan_free(s);
	sp = spool_close(sp);
}

struct hidden {
	const struct spool *sp;
	const char *at, *from;
};

static enum liveness show_again(void *data, const struct claim *c)
{
	const struct hidden *h = data;

	(void)spool_rename(h->sp, h->at, h->from, NULL);
	return LIVENESS_DEAD;
}

/* A batch whose name is changed just when the directory is read is not seen by that look. */
static void test_missed_batch(void **state)
{
	struct spool *sp = open_spool();
	struct claimer other = self(sp, "node2"), me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"script\":\"x\",\"array\":\"1-2\",\"no_requeue\":true}");
	struct batch *b = open_batch(sp, id, "node2");
	char from[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct hidden h = { sp, "tmp/away", from };
	const struct recover_calls calls = { .life = show_again, .data = &h };
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct scan_task t;
	struct claim c;

	assert_int_equal(batch_claim(b, 1, &other, &c, &e), 0);
	b = batch_close(b);
	assert_true(get(sp, id, &t));
	(void)spool_path(SPOOL_PENDING, name_format(&t.name, file), from);
	assert_int_equal(spool_rename(sp, from, h.at, &e), 0);
	assert_int_equal(recover_claims(sp, &me, NULL, &calls, &n, &e), 0);
	assert_true(n.failed == 1 && n.problems == 0);
	b = open_batch(sp, id, NULL);
	assert_int_equal(batch_counts(b).failed, 1);
	b = batch_close(b);
	sp = spool_close(sp);
}

static void test_torn_record(void **state)
{
	static const char torn[] = "{\"event\":\"requ";
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	struct claim c = claim(sp, id, &me);
	struct spool_end end = done(&c);
	struct err e = ERR_INIT;
	struct task_file f;
	int fd = openat(sp->fd, c.path, O_WRONLY | O_APPEND);

	assert_int_equal(write(fd, torn, strlen(torn)), (ssize_t)strlen(torn));
	(void)close(fd);
	assert_int_equal(record_append(sp, c.path, record_end(&end), false, &e), 0);
	assert_int_equal(task_file_read(sp, c.path, &f, &e), 0);
	assert_int_equal(f.history.unread, 1);
	assert_true(f.history.ended);
	task_file_clear(&f);
	sp = spool_close(sp);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_batch),
		TEST(test_revived_elements),
		TEST(test_stopped_batch),
		TEST(test_recover),
		TEST(test_interrupted_requeue),
		TEST(test_interrupted_requeue_of_what_lives),
		TEST(test_claim_without_record),
		TEST(test_claims_that_ran_nothing),
		TEST(test_stopped),
		TEST(test_stopped_and_alive),
		TEST(test_stopped_when_put_back),
		TEST(test_late_end),
		TEST(test_power_loss),
		TEST(test_power_loss_and_a_second_look),
		TEST(test_lost_records),
		TEST(test_records_of_zeroes),
		TEST(test_lost_journal),
		TEST(test_torn_record),
		TEST(test_missed_batch),
		TEST(test_import_of_what_ended),
		TEST(test_interrupted_take_over),
		TEST(test_killed_take_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
