/* SPDX-License-Identifier: MIT */

/* What an agent's look at its queue tells the plan (spool_world.h). */

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"

#include "agent/attempt/claim.h"
#include "agent/queue/cancel.h"
#include "agent/queue/depends.h"
#include "agent/queue/index.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "place_world.h"
#include "spool/instance.h"
#include "spool/lane.h"
#include "spool/own.h"
#include "spool_world.h"

/* Time passes only when it is asked for, so that no reading is cut by a machine that is busy: so
 * much each time. (tests/meson.build) */
#define QUICK_NS 1000
#define SLOW_NS	 (60 * NS_PER_MS) /* longer than a part of a reading may take */
static uint64_t now_ns = 1000 * NS_PER_S, step_ns = QUICK_NS;

uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return now_ns += step_ns;
}

/* As after a claim that was lost: only that task is looked at. */
static struct index_reading look_at(struct spool_place *p, uint64_t id)
{
	struct index_reading b = { .want = { .ids = { .n = 1 } } };

	b.want.ids.nums = xcalloc(1, sizeof(id));
	b.want.ids.nums[0] = id;
	index_work(&b, p);
	return b;
}

/* The directories are read rarely where they are large or far away. What another agent has claimed
 * meanwhile is not planned again, only to be lost again, until they have been. */
static void test_claimed_by_another(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t waits = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":0}");
	uint64_t taken = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":0}");
	struct claimer other = self(p.spool, "two");
	struct index_reading b;

	look_around(&p);
	(void)claim(p.spool, taken, &other);

	b = look_at(&p, taken);
	assert_int_equal(b.n_changes, 1);
	assert_int_equal(b.changes[0].task.id, taken);
	assert_false(b.changes[0].waits);
	assert_null(scan_find(p.scan, taken, 0));
	index_clear(&b);

	b = look_at(&p, waits);
	assert_int_equal(b.n_changes, 1);
	assert_true(b.changes[0].waits);
	index_clear(&b);

	/* Where it is now is told by the directories. */
	look_around(&p);
	assert_int_equal(scan_find(p.scan, taken, 0)->dir, SPOOL_RUNNING);
	close_place(&p);
}

/* A batch that was renamed, and one that was renamed and is called again as it was, before the
 * directories were read: neither is ever out of the index, and what a lost claim took from the plan
 * comes back to it. */
static void test_renamed_batch(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-3\"}");
	struct task_name n;
	struct index_reading b;

	look_around(&p);
	for (int i = 0; i < 2; i++) {
		n = scan_find(p.scan, id, 0)->name;
		assert_int_equal(transit_pause(p.spool, &n, i == 0, NULL), 0);
		b = look_at(&p, id);
		assert_true(b.n_changes >= 1);
		for (size_t k = 0; k < b.n_changes; k++) {
			assert_true(b.changes[k].waits);
			assert_int_equal(b.changes[k].task.paused, i == 0);
			assert_int_equal(b.changes[k].task.n_elements, 3);
		}
		assert_int_equal(scan_find(p.scan, id, 0)->name.flags & NAME_PAUSED, n.flags);
		index_clear(&b);
	}
	place_forget_batch(&p, id);
	close_place(&p);
}

/* The nth time from now on that a directory is read fails; 0: none does. (tests/meson.build) */
static unsigned int fail_read;

static bool fails_syscall(long number)
{
	if (number != SYS_getdents64 || !fail_read || --fail_read)
		return false;
	errno = EIO;
	return true;
}

WRAP_SYSCALL(fails_syscall)

/* Whatever could not be read, nothing is told as if it could start that waits for another task, and
 * no reading counts that does not know which lanes are paused. */
static void test_reading_that_fails(void **state)
{
	bool failed = true;

	for (unsigned int nth = 1; failed; nth++) {
		struct spool_place p = open_place("one");
		struct index_reading b = { .want = { .all = true } };
		char json[64];
		uint64_t first = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":1}"), second;

		(void)str_print(json, sizeof(json), "{\"argv\":[\"true\"],\"after\":[%llu]}",
				(unsigned long long)first);
		second = submit(p.spool, json);
		assert_int_equal(lane_pause(p.spool, "week", "by a test", NULL), 0);
		fail_read = nth;
		index_work(&b, &p);
		failed = fail_read == 0;
		fail_read = 0;
		for (size_t i = 0; i < b.n_changes; i++)
			if (b.changes[i].task.id == second)
				assert_int_not_equal(b.changes[i].task.dep, SCHED_DEP_READY);
		if (b.code >= 0)
			assert_true(b.lanes_read && b.lanes.n == 1);
		assert_true(failed || (b.code >= 0 && b.n_changes >= 2));
		index_clear(&b);
		close_place(&p);
	}
}

static void edit(const struct spool_place *p, uint64_t id, const char *key, const char *value)
{
	json_t *set = json_pack("{s:s}", key, value);
	struct scan_task t;

	assert_true(get(p->spool, id, &t));
	assert_int_equal(
		transit_edit(p->spool, &t.name, &(struct transit_edit){ .set = set }, NULL), 0);
	json_decref(set);
}

/* The index may know of an edit before the planner is told: what that has planned is another task,
 * with other devices and conditions, and is not started. */
static void test_claim_of_what_was_edited(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t ids[] = { submit(p.spool, "{\"argv\":[\"true\"]}"),
			   submit(p.spool, "{\"script\":\"x\",\"array\":\"1-3\"}") };

	for (uint32_t i = 0; i < ARRAY_LEN(ids); i++) {
		struct claiming k = { .ref = { ids[i], i },
				      .key = "key",
				      .run_dir = spool_world_root() };

		edit(&p, ids[i], "memory", "2G");
		look_around(&p);
		claiming_work(&k.job, &p);
		assert_int_equal(k.code, CLAIM_LOST);
		k.edits = 2; /* the name while it was held, and that after it */
		claiming_work(&k.job, &p);
		assert_int_equal(k.code, 0);
		assert_true(k.spec->memory == 2ULL << 30);
		(void)spec_free(k.spec);
		(void)fd_close(k.log_fd);
	}
	place_forget_batch(&p, ids[1]);
	close_place(&p);
}

/* What was changed while it was being claimed waits changed, when it waits again. */
static void test_change_of_what_is_claimed(void **state)
{
	struct sched_queue *plan = sched_queue_new();
	struct sched_task t = { .id = 7, .gpus = 1, .order = 7 };
	struct index_change c = { .waits = true, .task = t };
	struct devset none = { 0 };

	assert_int_equal(sched_adopt(plan, &t, none, 1, NULL), 0);
	c.task.gpus = 2;
	c.task.edits = 1;
	c.task.priority = 3;
	index_apply(plan, NULL, &c);
	assert_int_equal(sched_get(plan, (struct sched_ref){ 7, 0 }, &t), 0);
	assert_int_equal(t.gpus, 1);
	assert_int_equal(sched_requeue(plan, (struct sched_ref){ 7, 0 }, 0, 0, "again"), 0);
	assert_int_equal(sched_get(plan, (struct sched_ref){ 7, 0 }, &t), 0);
	assert_true(t.gpus == 2 && t.edits == 1 && t.priority == 3);
	(void)sched_queue_free(plan);
}

/* As every two seconds. True: a batch was filed. */
static bool read_all(struct spool_place *p)
{
	struct index_reading b = { .want = { .all = true } };
	bool filed;

	index_work(&b, p);
	assert_int_equal(b.code, 0);
	filed = b.filed;
	index_clear(&b);
	return filed;
}

/* As after a sync. */
static void settle(struct spool_place *p)
{
	struct index_reading b = { .want = { .settle = true } };

	index_work(&b, p);
	index_clear(&b);
}

static uint64_t submit_after(const struct spool *sp, const char *how, uint64_t id)
{
	char json[80];

	(void)snprintf(json, sizeof(json), "{\"argv\":[\"true\"],\"gpus\":0,\"%s\":[%llu]}", how,
		       (unsigned long long)id);
	return submit(sp, json);
}

static void expect_dep(struct spool_place *p, uint64_t id, enum sched_dep expected)
{
	assert_int_equal(depends_state(p, id), expected);
}

static void expect_by_reading(struct spool_place *p, uint64_t id, enum sched_dep expected)
{
	(void)read_all(p);
	expect_dep(p, id, expected);
}

static int keep_name(void *data, const struct task_name *n, const char *dir)
{
	struct task_name *want = data;

	if (n->id != want->id)
		return 0;
	*want = *n;
	return 1;
}

/* As `tenure retry` does it. */
static void ask_again(const struct spool *sp, uint64_t id, const char *dir)
{
	struct task_name n = { .id = id };

	assert_int_equal(scan_dir(sp, dir, keep_name, &n, NULL), 1);
	assert_int_equal(transit_retry(sp, &n, dir, false, NULL), 0);
}

/* Run by another agent. */
static void attempt_elsewhere(const struct spool *sp, uint64_t id, enum task_result result)
{
	struct claimer other = self(sp, "two");
	struct claim c = claim(sp, id, &other);
	struct spool_end end = done(&c);

	end.result = result;
	assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
}

/* What was filed here is told when it is safe on the disk; by then it may have run again. */
static void test_ended_here_before_it_ended_elsewhere(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":0}");
	uint64_t waits = submit_after(p.spool, "after", id);

	expect_by_reading(&p, waits, SCHED_DEP_WAIT);
	assert_int_equal(cancel_waiting(&p, &(struct task_name){ .id = id }, "stopped", NULL), 1);
	ask_again(p.spool, id, "cancelled");
	expect_by_reading(&p, waits, SCHED_DEP_WAIT);
	attempt_elsewhere(p.spool, id, RESULT_DONE);
	(void)read_all(&p);
	(void)read_all(&p); /* of which the first may have missed it */
	expect_dep(&p, waits, SCHED_DEP_READY);
	settle(&p);
	expect_dep(&p, waits, SCHED_DEP_READY);
	close_place(&p);
}

/* It is retried, begun and ended elsewhere while nobody looks here: no reading has met it. */
static void test_retried_between_two_looks(void **state)
{
	static const char *const dirs[] = {
		[RESULT_FAILED] = "failed", [RESULT_CANCELLED] = "cancelled"
	};
	struct spool_place p = open_place("one");

	for (enum task_result r = RESULT_FAILED; r <= RESULT_CANCELLED; r++) {
		uint64_t id = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":0}");
		uint64_t waits = submit_after(p.spool, "after", id);

		(void)read_all(&p);
		attempt_elsewhere(p.spool, id, r);
		for (int i = 0; i < 2; i++)
			(void)read_all(&p);
		expect_dep(&p, waits, SCHED_DEP_NEVER);
		ask_again(p.spool, id, dirs[r]);
		attempt_elsewhere(p.spool, id, r); /* as badly as before */
		expect_by_reading(&p, waits, SCHED_DEP_NEVER);
		ask_again(p.spool, id, dirs[r]);
		attempt_elsewhere(p.spool, id, RESULT_DONE);
		expect_by_reading(&p, waits, SCHED_DEP_READY);
	}
	close_place(&p);
}

/* The same where it had failed here. */
static void test_ended_here_and_retried(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":0}");
	uint64_t waits = submit_after(p.spool, "after", id);
	struct task_name n = { .id = id };

	(void)read_all(&p);
	assert_int_equal(cancel_waiting(&p, &n, "stopped", NULL), 1);
	n = scan_find(p.scan, id, 0)->name;
	scan_note(p.scan, SPOOL_PENDING, &n, false); /* as of one that has run here */
	settle(&p);
	expect_by_reading(&p, waits, SCHED_DEP_NEVER);
	ask_again(p.spool, id, "cancelled");
	attempt_elsewhere(p.spool, id, RESULT_FAILED);
	expect_by_reading(&p, waits, SCHED_DEP_NEVER);

	ask_again(p.spool, id, "failed");
	attempt_elsewhere(p.spool, id, RESULT_DONE);
	expect_by_reading(&p, waits, SCHED_DEP_READY);
	close_place(&p);
}

#define MANY 300

/* Of very many a part is looked at with each reading. */
static void test_many_that_failed(void **state)
{
	struct spool_place p = open_place("one");
	struct task_name n = { .priority = 500, .ended_s = 1, .name = "x" };
	char file[NAME_FILE_MAX], path[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX];
	struct strbuf json = STRBUF_INIT;
	uint64_t waits;

	strbuf_adds(&json, "{\"argv\":[\"true\"],\"gpus\":0,\"after\":[");
	for (n.id = 1000; n.id < 1000 + MANY; n.id++) {
		put(p.spool, spool_path(SPOOL_FAILED, name_format(&n, file), path), "");
		strbuf_addf(&json, "%s%d", n.id > 1000 ? "," : "", (int)n.id);
	}
	strbuf_adds(&json, "]}");
	waits = submit(p.spool, strbuf_str(&json));
	strbuf_clear(&json);
	expect_by_reading(&p, waits, SCHED_DEP_NEVER);

	assert_int_equal(mkdirat(p.spool->fd, "done/2026-01-01", 0700), 0);
	for (n.id = 1000; n.id < 1000 + MANY; n.id++) {
		(void)spool_path(SPOOL_FAILED, name_format(&n, file), path);
		(void)str_print(to, sizeof(to), "done/2026-01-01/%s", file);
		assert_int_equal(spool_rename(p.spool, path, to, NULL), 0);
	}
	expect_by_reading(&p, waits, SCHED_DEP_NEVER);
	expect_by_reading(&p, waits, SCHED_DEP_READY);
	close_place(&p);
}

/* It has ended all the same: who waits for that, well or not, goes on. */
static void test_failed_and_removed(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":0}");
	uint64_t waits = submit_after(p.spool, "after_any", id);
	char file[NAME_FILE_MAX], path[SPOOL_PATH_MAX];
	struct task_name n = { .id = id };

	attempt_elsewhere(p.spool, id, RESULT_FAILED);
	expect_by_reading(&p, waits, SCHED_DEP_READY);
	assert_int_equal(scan_dir(p.spool, "failed", keep_name, &n, NULL), 1);
	(void)spool_path(SPOOL_FAILED, name_format(&n, file), path);
	assert_int_equal(spool_unlink(p.spool, path, NULL), 0);
	for (int i = 0; i < 4; i++)
		(void)read_all(&p);
	expect_dep(&p, waits, SCHED_DEP_READY);
	close_place(&p);
}

/* A reading may miss what comes while it goes on, and have what came after it. */
static void test_missed_by_a_reading(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":0}");
	uint64_t waits = submit_after(p.spool, "after", id);
	char file[NAME_FILE_MAX], path[SPOOL_PATH_MAX];
	struct scan_task t;

	assert_true(get(p.spool, id, &t));
	(void)spool_path(SPOOL_PENDING, name_format(&t.name, file), path);
	assert_int_equal(spool_rename(p.spool, path, "away", NULL), 0);
	expect_by_reading(&p, waits, SCHED_DEP_WAIT);
	assert_int_equal(spool_rename(p.spool, "away", path, NULL), 0);
	attempt_elsewhere(p.spool, id, RESULT_DONE);
	expect_by_reading(&p, waits, SCHED_DEP_READY);
	close_place(&p);
}

/* A cache of the filesystem may hide for longer where it has gone. */
static void test_not_there_for_a_while(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":0}");
	uint64_t waits = submit_after(p.spool, "after", id);

	attempt_elsewhere(p.spool, id, RESULT_DONE);
	assert_int_equal(spool_rename(p.spool, "done", "away", NULL), 0);
	for (int i = 0; i < 10; i++) {
		expect_by_reading(&p, waits, i ? SCHED_DEP_NEVER : SCHED_DEP_WAIT);
	}
	assert_int_equal(spool_rename(p.spool, "away", "done", NULL), 0);
	for (int i = 0; i < 10; i++) /* as often again, at most */
		(void)read_all(&p);
	expect_dep(&p, waits, SCHED_DEP_READY);
	close_place(&p);
}

/* Who ended its last element has not come to file it. */
static void test_batch_that_is_over(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, "{\"script\":\"x\",\"array\":\"1-1\"}");
	uint64_t waits = submit_after(p.spool, "after", id);
	struct claimer two = self(p.spool, "two");
	struct spool_end end;
	struct batch *other;
	struct claim c;

	assert_false(read_all(&p));
	other = open_batch(p.spool, id, "two");
	assert_int_equal(batch_claim(other, 1, &two, &c, NULL), 0);
	end = done(&c);
	assert_int_equal(batch_end(other, NULL, &c, &end, NULL), 0);
	assert_true(read_all(&p)); /* which a sync has to follow */
	settle(&p);
	for (int i = 0; i < 2; i++)
		assert_false(read_all(&p));
	expect_dep(&p, waits, SCHED_DEP_READY);
	(void)batch_close(other);
	close_place(&p);
}

/* Where nothing is done within the time of a part, a part has one of them. Whether more is to come.
 */
static bool read_part(struct spool_place *p, bool all, uint64_t id, bool *ret_waits)
{
	struct index_reading b = { .want = { .all = all } };
	bool more;

	index_work(&b, p);
	assert_int_equal(b.code, 0);
	for (size_t i = 0; i < b.n_changes; i++)
		if (b.changes[i].task.id == id)
			*ret_waits = b.changes[i].waits;
	more = b.more;
	index_clear(&b);
	return more;
}

static void test_slow_queue(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t ids[3];
	int parts = 1;

	step_ns = SLOW_NS;
	for (size_t i = 0; i < ARRAY_LEN(ids); i++)
		ids[i] = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":1}");
	for (bool waits = false; read_part(&p, parts == 1, ids[2], &waits) || !waits; parts++)
		assert_true(parts < 10);
	assert_int_equal(parts, 3);
	step_ns = QUICK_NS;
	close_place(&p);
}

/* What could not be read is read again, also where all that comes before takes longer than that. */
static void test_unread_in_a_slow_queue(void **state)
{
	struct spool_place p = open_place("one");
	uint64_t id = submit(p.spool, "{\"argv\":[\"true\"],\"gpus\":1}");
	char file[NAME_FILE_MAX], path[SPOOL_PATH_MAX];
	bool waits = false;
	struct scan_task t;

	assert_true(get(p.spool, id, &t));
	(void)spool_path(SPOOL_PENDING, name_format(&t.name, file), path);
	assert_int_equal(spool_rename(p.spool, path, "away", NULL), 0);
	assert_int_equal(symlinkat("nowhere", p.spool->fd, path), 0);
	step_ns = SLOW_NS;
	while (read_part(&p, true, id, &waits))
		continue;
	assert_false(waits);
	assert_int_equal(unlinkat(p.spool->fd, path, 0), 0);
	assert_int_equal(spool_rename(p.spool, "away", path, NULL), 0);
	for (int i = 0; i < 100 && !waits; i++)
		(void)read_part(&p, true, id, &waits);
	assert_true(waits);
	step_ns = QUICK_NS;
	close_place(&p);
}

static struct index_reading read_raw(struct spool_place *p, bool waits)
{
	struct index_reading b = { .want = { .all = true } };

	index_work(&b, p);
	assert_true(b.code == 0 && b.raw_known);
	assert_int_equal(b.raw_waits, waits);
	return b;
}

/* A bare file that is no task, while bad/ cannot have it: so many readings later it is in tmp/. */
static void take_in_vain(struct spool_place *p, int readings)
{
	put(p->spool, "pending/wrong.json", "{}");
	assert_int_equal(spool_rename(p->spool, "bad", "away", NULL), 0);
	put(p->spool, "bad", "");
	for (int i = 0; i < readings; i++) {
		struct index_reading b = read_raw(p, true);

		index_clear(&b);
		now_ns += 2 * NS_PER_S;
	}
}

/* From when a bare file is seen until it is a task in the plan, the queue is not empty. What cannot
 * become one is no reason to wait. */
static void test_bare_file_waits(void **state)
{
	struct spool_place p = open_place("one");
	struct index_reading b;

	put(p.spool, "pending/wrong.json", "{}");
	put(p.spool, "pending/right.json", "{\"argv\":[\"true\"],\"gpus\":0}");
	for (int i = 0; i < 2; i++) {
		b = read_raw(&p, true);
		assert_int_equal(b.n_changes, 0);
		index_clear(&b);
		now_ns += 2 * NS_PER_S;
	}
	assert_int_equal(count_files(p.spool, "bad"), 2);
	b = read_raw(&p, false);
	assert_true(b.n_changes == 1 && b.changes[0].waits);
	index_clear(&b);
	put(p.spool, "pending/wrong.json", "{}");
	b = read_raw(&p, true);
	index_clear(&b);
	now_ns += 2 * NS_PER_S;
	b = read_raw(&p, false);
	index_clear(&b);
	close_place(&p);
}

/* The same where it was taken from its place and could not be dealt with: it is tried again. */
static void test_bare_file_waits_elsewhere(void **state)
{
	struct spool_place p = open_place("one");
	struct index_reading b;

	take_in_vain(&p, 3);
	assert_int_equal(count_files(p.spool, "pending"), 0);
	assert_int_equal(unlinkat(p.spool->fd, "bad", 0), 0);
	assert_int_equal(spool_rename(p.spool, "away", "bad", NULL), 0);
	now_ns += 10 * NS_PER_S;
	b = read_raw(&p, false);
	assert_int_equal(count_files(p.spool, "bad"), 2);
	index_clear(&b);
	close_place(&p);
}

/* What became of those in tmp/ is not known while that cannot be listed. */
static void test_bare_file_in_an_unread_place(void **state)
{
	struct spool_place p = open_place("one");
	struct index_reading b;

	take_in_vain(&p, 2);
	assert_int_equal(spool_rename(p.spool, "tmp", "aside", NULL), 0);
	now_ns += 10 * NS_PER_S;
	b = read_raw(&p, true);
	index_clear(&b);
	assert_int_equal(spool_rename(p.spool, "aside", "tmp", NULL), 0);
	b = read_raw(&p, true);
	index_clear(&b);
	close_place(&p);
}

/* One that grows on and on, as a log does, is waited for only so long. It is taken all the same
 * when it stands still. */
static void test_bare_file_that_grows(void **state)
{
	struct spool_place p = open_place("one");
	struct index_reading b;
	char text[512] = "";

	for (size_t i = 0; i < 302; i++) {
		text[i] = '#';
		put(p.spool, "pending/grows.sh", text);
		b = read_raw(&p, i < 300);
		index_clear(&b);
		now_ns += NS_PER_S;
	}
	now_ns += 2 * NS_PER_S;
	b = read_raw(&p, true);
	assert_int_equal(count_files(p.spool, "pending"), 1);
	index_clear(&b);
	b = read_raw(&p, false);
	assert_true(b.n_changes == 1 && b.changes[0].waits);
	index_clear(&b);
	close_place(&p);
}

/* Nobody can move it. (tests/meson.build) */
#define STUCK "pending/stuck.sh"

int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	if (strcmp(from, STUCK) == 0) {
		errno = EIO;
		return -1;
	}
	return __real_renameat(from_fd, from, to_fd, to);
}

/* Nor is one that cannot be taken, however often that is tried. */
static void test_bare_file_that_is_stuck(void **state)
{
	struct spool_place p = open_place("one");
	struct index_reading b;
	unsigned int told = 0;

	put(p.spool, STUCK, "true\n");
	for (size_t i = 0; i < 1000; i++) {
		b = read_raw(&p, i < 300);
		told += strstr(strbuf_str(&b.notes), "stuck.sh in pending/ could not") != NULL;
		index_clear(&b);
		now_ns += NS_PER_S;
	}
	assert_int_equal(told, 1);
	assert_int_equal(count_files(p.spool, "pending"), 1);
	close_place(&p);
}

/* Nor is one that was taken, and can be dealt with in no way; that is told once. */
static void test_bare_file_that_stays_elsewhere(void **state)
{
	struct spool_place p = open_place("one");
	struct index_reading b;
	unsigned int told = 0;

	put(p.spool, "pending/wrong.json", "{}");
	assert_int_equal(spool_rename(p.spool, "bad", "away", NULL), 0);
	put(p.spool, "bad", "");
	for (size_t i = 0; i < 31; i++) {
		b = read_raw(&p, i < 29);
		told += strstr(strbuf_str(&b.notes), "wrong.json") != NULL;
		index_clear(&b);
		now_ns += 11 * NS_PER_S;
	}
	assert_int_equal(told, 1);
	close_place(&p);
}

/* What an agent before left, and can be dealt with in no way, is told of, too: our name has no room
 * in that of the one, and the other cannot be refused. */
static void test_bare_file_of_another(void **state)
{
	struct spool_place p = open_place("one");
	struct index_reading b;
	unsigned int told = 0, told_long = 0;
	char name[NAME_MAX + 1], path[SPOOL_PATH_MAX];

	memset(name, 'x', NAME_MAX);
	name[NAME_MAX] = '\0';
	memcpy(name, "raw,8,b,", strlen("raw,8,b,"));
	put(p.spool, spool_path(SPOOL_TMP, name, path), "true\n");
	put(p.spool, "tmp/raw,7,one,wrong.json", "{}");
	assert_int_equal(spool_rename(p.spool, "bad", "away", NULL), 0);
	put(p.spool, "bad", "");
	for (size_t i = 0; i < 3; i++) {
		b = read_raw(&p, true);
		told += strstr(strbuf_str(&b.notes), "wrong.json in pending/ could not be") != NULL;
		told_long += strstr(strbuf_str(&b.notes), "xxx in pending/ could not be") != NULL;
		index_clear(&b);
		now_ns += 11 * NS_PER_S;
	}
	assert_int_equal(told, 1);
	assert_int_equal(told_long, 1);
	close_place(&p);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_claimed_by_another),
		TEST(test_renamed_batch),
		TEST(test_reading_that_fails),
		TEST(test_claim_of_what_was_edited),
		TEST(test_change_of_what_is_claimed),
		TEST(test_ended_here_before_it_ended_elsewhere),
		TEST(test_batch_that_is_over),
		TEST(test_slow_queue),
		TEST(test_unread_in_a_slow_queue),
		TEST(test_retried_between_two_looks),
		TEST(test_ended_here_and_retried),
		TEST(test_failed_and_removed),
		TEST(test_many_that_failed),
		TEST(test_missed_by_a_reading),
		TEST(test_not_there_for_a_while),
		TEST(test_bare_file_waits),
		TEST(test_bare_file_waits_elsewhere),
		TEST(test_bare_file_in_an_unread_place),
		TEST(test_bare_file_that_grows),
		TEST(test_bare_file_that_is_stuck),
		TEST(test_bare_file_that_stays_elsewhere),
		TEST(test_bare_file_of_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
