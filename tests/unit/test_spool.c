/* SPDX-License-Identifier: MIT */

/* A task's whole life in a spool of its own, what clients do to it, and what bad days leave. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/batch.h"
#include "spool/control.h"
#include "spool/raw.h"
#include "spool/recover.h"
#include "spool/revive.h"
#include "spool/scan.h"
#include "spool/submit.h"
#include "spool/transit.h"

static char root[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int setup(void **state)
{
	(void)str_copy(root, sizeof(root), "/tmp/tenure-spool-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct spool *open_spool(void)
{
	struct err e = ERR_INIT;
	struct spool *sp = NULL;

	if (spool_open(root, "default", SPOOL_CREATE, &sp, &e) < 0)
		fail_msg("%s", e.text);
	return sp;
}

static uint64_t submit(const struct spool *sp, const char *json)
{
	struct spool_spec *s = NULL;
	struct err e = ERR_INIT;
	uint64_t id = 0;
	size_t used;

	if (spec_read(json, strlen(json), &s, &used, &e) < 0 || submit_task(sp, s, &id, &e) < 0)
		fail_msg("%s", e.text);
	(void)spec_free(s);
	return id;
}

static struct claimer self(const struct spool *sp, const char *agent)
{
	struct claimer c;

	assert_int_equal(claimer_self(sp, agent, &c, NULL), 0);
	return c;
}

static struct scan *scanned(const struct spool *sp)
{
	struct scan *s = scan_new(sp, 0);
	struct err e = ERR_INIT;

	if (scan_update(s, NULL, NULL, &e) < 0)
		fail_msg("%s", e.text);
	return s;
}

static bool get(const struct spool *sp, uint64_t id, struct scan_task *ret)
{
	struct scan *s = scanned(sp);
	const struct scan_task *t = scan_find(s, id, 0);

	if (t)
		*ret = *t;
	(void)scan_free(s);
	return t != NULL;
}

static struct claim claim(const struct spool *sp, uint64_t id, const struct claimer *who)
{
	struct err e = ERR_INIT;
	struct scan_task t;
	struct task_file f;
	struct claim c;

	assert_true(get(sp, id, &t));
	assert_int_equal(t.dir, SPOOL_PENDING);
	if (claim_task(sp, &t.name, who, &f, &c, &e) != 0)
		fail_msg("%s", e.text);
	task_file_clear(&f);
	return c;
}

static struct spool_end done(const struct claim *c)
{
	return (struct spool_end){ .result = RESULT_DONE,
				   .epoch = c->name.epoch,
				   .attempt = c->attempt,
				   .begun_ns = clock_wall_ns(),
				   .ended_ns = clock_wall_ns() };
}

static int count_id(void *data, const struct task_name *n, const char *dir)
{
	uint64_t *want = data;

	want[1] += n->id == want[0];
	return 0;
}

/* How often an id is in done/, failed/ and cancelled/. */
static uint64_t ended_times(const struct spool *sp, uint64_t id)
{
	uint64_t want[2] = { id, 0 };

	assert_int_equal(scan_done(sp, count_id, want, NULL), 0);
	assert_int_equal(scan_dir(sp, "failed", count_id, want, NULL), 0);
	assert_int_equal(scan_dir(sp, "cancelled", count_id, want, NULL), 0);
	return want[1];
}

static void test_open(void **state)
{
	struct err e = ERR_INIT;
	struct spool *sp = NULL;
	struct stat st;
	struct text_list names = { .n = 0 };
	cleanup_free char *file = xasprintf("%s/default/instance.json", root);
	cleanup_free char *moved = xasprintf("%s-moved", root);

	assert_int_equal(spool_open(root, "default", 0, &sp, &e), -ENOENT);
	assert_non_null(strstr(e.text, "no instance \"default\""));
	assert_int_equal(spool_open(root, "../x", SPOOL_CREATE, &sp, &e), -EINVAL);
	sp = open_spool();
	assert_int_equal(fstat(sp->fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(sp->owner, geteuid());
	assert_int_equal(spool_instances(root, &names, &e), 0);
	assert_int_equal(names.n, 1);
	text_list_clear(&names);
	/* The root may be renamed under an open spool. */
	assert_int_equal(rename(root, moved), 0);
	assert_int_equal(submit(sp, "{\"argv\":[\"true\"]}"), 1);
	assert_int_equal(rename(moved, root), 0);
	sp = spool_close(sp);
	assert_int_equal(fs_write_atomic(file, "{\"format\":9}", 12, 0600, &e), 0);
	assert_int_equal(spool_open(root, "default", SPOOL_CREATE, &sp, &e), -EPROTO);
	assert_non_null(strstr(e.text, "format 9"));
}

static void test_life(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct err e = ERR_INIT;
	struct events *ev = NULL;
	struct scan_task t;
	struct task_file f;
	const struct spool_again again = { .attempts = 1,
					   .not_before_ns = 5 * NS_PER_S,
					   .memory = 3UL << 30,
					   .reason = "exit 1" };
	uint64_t id =
		submit(sp, "{\"script\":\"echo\",\"name\":\"a.sh\",\"gpus\":2,\"memory\":\"2G\"}");

	assert_int_equal(events_open(sp, me.agent, &ev, &e), 0);

	struct claim c = claim(sp, id, &me);

	assert_int_equal(c.attempt, 1);
	assert_true(get(sp, id, &t) && t.dir == SPOOL_RUNNING && t.name.gpus == 2);
	assert_string_equal(t.name.agent, "node1");
	/* It fails, waits, and is claimed again. */
	assert_int_equal(transit_requeue(sp, ev, &c, &again, &e), 0);
	assert_true(get(sp, id, &t) && t.dir == SPOOL_PENDING);
	assert_true(t.name.epoch == 1 && t.name.begin_s == 5);
	c = claim(sp, id, &me);
	assert_int_equal(c.attempt, 2);
	assert_int_equal(task_file_read(sp, c.path, &f, &e), 0);
	assert_true(f.spec->memory == 3UL << 30);
	task_file_clear(&f);
	assert_int_equal(claim_started(sp, &c, &me.proc, &e), 0);

	struct spool_end end = done(&c);

	assert_int_equal(transit_end(sp, ev, &c, &end, &e), 0);
	assert_int_equal(events_sync(ev, &e), 0);
	assert_false(get(sp, id, &t));
	assert_int_equal(ended_times(sp, id), 1);
	ev = events_close(ev);
	sp = spool_close(sp);
}

static void test_lost_claim(void **state)
{
	struct spool *sp = open_spool();
	struct claimer one = self(sp, "one"), two = self(sp, "two");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	struct err e = ERR_INIT;
	struct scan_task t;
	struct task_file f;
	struct claim c;

	assert_true(get(sp, id, &t));
	(void)claim(sp, id, &one);
	assert_int_equal(claim_task(sp, &t.name, &two, &f, &c, &e), CLAIM_LOST);
	/* A stale view of its own is no second claim either. */
	assert_int_equal(claim_task(sp, &t.name, &one, &f, &c, &e), CLAIM_LOST);
	sp = spool_close(sp);
}

static void test_clients(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"memory\":\"1G\"}");
	struct err e = ERR_INIT;
	struct scan_task t;
	struct task_file f;
	struct claim c;
	json_t *set = json_pack("{s:s, s:i}", "memory", "2G", "gpus", 3);
	json_t *bad = json_pack("{s:s}", "memory", "lots");

	assert_true(get(sp, id, &t));
	assert_int_equal(transit_priority(sp, &t.name, 7, &e), 0);
	assert_int_equal(transit_pause(sp, &t.name, true, &e), 0);
	assert_int_equal(transit_edit(sp, &t.name, bad, &e), -EINVAL);
	assert_int_equal(transit_edit(sp, &t.name, set, &e), 0);
	json_decref(set);
	json_decref(bad);
	assert_true(get(sp, id, &t));
	assert_true(t.name.priority == 7 && t.name.flags == NAME_PAUSED && t.name.gpus == 3);
	assert_int_equal(claim_task(sp, &t.name, &me, &f, &c, &e), CLAIM_LOST);
	assert_int_equal(transit_pause(sp, &t.name, false, &e), 0);
	assert_int_equal(claim_task(sp, &t.name, &me, &f, &c, &e), 0);
	assert_true(f.spec->memory == 2ULL << 30 && f.spec->gpus == 3);
	task_file_clear(&f);
	assert_int_equal(transit_priority(sp, &t.name, 8, &e), TRANSIT_GONE);
	assert_int_equal(transit_cancel(sp, &t.name, "asked for", &e), TRANSIT_GONE);
	id = submit(sp, "{\"argv\":[\"true\"]}");
	assert_true(get(sp, id, &t));
	assert_int_equal(transit_cancel(sp, &t.name, "asked for", &e), 0);
	assert_false(get(sp, id, &t));
	assert_int_equal(ended_times(sp, id), 1);
	sp = spool_close(sp);
}

static int first_name(void *data, const struct task_name *n, const char *dir)
{
	*(struct task_name *)data = *n;
	return 1;
}

static void test_retry(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"argv\":[\"false\"]}");
	struct claim c = claim(sp, id, &me);
	struct spool_end end = done(&c);
	struct err e = ERR_INIT;
	struct task_name n;

	end.result = RESULT_FAILED;
	end.exit = 3;
	assert_int_equal(transit_end(sp, NULL, &c, &end, &e), 0);
	assert_int_equal(scan_dir(sp, "failed", first_name, &n, &e), 1);
	assert_true(n.exit == 3 && n.ended_s > 0);
	assert_int_equal(transit_retry(sp, &n, "failed", &e), 0);
	c = claim(sp, id, &me);
	assert_true(c.name.epoch == 1 && c.attempt == 1);
	sp = spool_close(sp);
}

static void test_refused_file(void **state)
{
	static const char *const files[][2] = {
		{ "00500,7,nx", "no json" },
		{ "00500,8,nx", "{\"argv\":[\"true\"],\"gpus\":2,\"name\":\"x\"}" },
	};
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		char path[SPOOL_PATH_MAX];
		struct err e = ERR_INIT;
		struct task_name n;
		struct task_file f;
		struct claim c;

		assert_int_equal(spool_write_new(sp, spool_path(SPOOL_PENDING, files[i][0], path),
						 files[i][1], strlen(files[i][1]), false, &e),
				 0);
		assert_true(name_parse(files[i][0], &n));
		assert_int_equal(claim_task(sp, &n, &me, &f, &c, &e), CLAIM_REFUSED);
		(void)str_print(path, sizeof(path), "bad/%s,cnode1.reason", files[i][0]);
		assert_true(spool_exists(sp, path));
	}
	sp = spool_close(sp);
}

struct changes {
	unsigned int n[3];
};

static void count_change(void *data, enum scan_change change, const struct scan_task *t)
{
	((struct changes *)data)->n[change]++;
}

static void test_scan(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct scan *s = scan_new(sp, 0);
	struct err e = ERR_INIT;
	struct changes ch = { { 0 } };
	struct claim c;

	for (int i = 0; i < 1000; i++)
		(void)submit(sp, "{\"argv\":[\"true\"]}");
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(ch.n[SCAN_ADDED], 1000);
	c = claim(sp, 500, &me);
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(ch.n[SCAN_CHANGED], 1);
	assert_int_equal(scan_count(s, SPOOL_RUNNING), 1);

	struct spool_end end = done(&c);

	assert_int_equal(transit_end(sp, NULL, &c, &end, &e), 0);
	scan_note(s, SPOOL_RUNNING, &c.name, false);
	assert_null(scan_find(s, 500, 0));
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(ch.n[SCAN_REMOVED], 0); /* it was noted */
	assert_int_equal(scan_count(s, SPOOL_PENDING), 999);
	for (uint64_t id = 1; id <= 1000; id++)
		assert_int_equal(scan_find(s, id, 0) != NULL, id != 500);
	s = scan_free(s);
	sp = spool_close(sp);
}

static void put(const struct spool *sp, const char *path, const char *text)
{
	assert_int_equal(spool_replace(sp, path, text, strlen(text), NULL), 0);
}

static void test_raw(void **state)
{
	struct spool *sp = open_spool();
	struct scan *s = scan_new(sp, SCAN_RAW);
	struct err e = ERR_INIT;
	struct scan_task t;
	const char *file;
	uint64_t id = 0;

	scan_set_settle(s, NS_PER_MS);
	put(sp, "pending/003_train.sh", "#!/bin/sh\necho\n");
	put(sp, "pending/half.part", "x");
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	(void)usleep(5000);
	put(sp, "pending/003_train.sh", "#!/bin/sh\necho more\n");
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_null(scan_raw_ripe(s)); /* it has changed */
	(void)usleep(5000);
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	file = scan_raw_ripe(s);
	assert_non_null(file);
	assert_int_equal(raw_import(sp, file, "node1", &id, &e), 0);
	assert_null(scan_raw_ripe(s));
	assert_true(get(sp, id, &t) && t.name.priority == 3);
	assert_string_equal(t.name.name, "train.sh");
	put(sp, "pending/bad.json", "{\"argv\":[\"x\"],\"gpuz\":1}");
	assert_int_equal(raw_import(sp, "bad.json", "node1", &id, &e), RAW_REFUSED);
	assert_non_null(strstr(e.text, "gpuz"));
	assert_int_equal(raw_import(sp, "gone", "node1", &id, &e), -ENOENT);
	put(sp, "instance.json",
	    "{\"format\":1,\"defaults\":{\"gpus\":\"all\",\"lane\":\"week\"}}\n");
	put(sp, "pending/7_a.sh", "#!/bin/sh\n");
	put(sp, "pending/b.json", "{\"argv\":[\"x\"]}"); /* says itself what it needs */
	assert_int_equal(raw_import(sp, "7_a.sh", "node1", &id, &e), 0);
	assert_true(get(sp, id, &t) && t.name.priority == 7 && t.name.gpus == SPEC_ALL);
	assert_string_equal(t.name.lane, "week");
	assert_int_equal(raw_import(sp, "b.json", "node1", &id, &e), 0);
	assert_true(get(sp, id, &t) && t.name.gpus == 1 && !t.name.lane[0]);
	put(sp, "instance.json", "{\"format\":1,\"defaults\":{\"gpuz\":1}}\n");
	put(sp, "pending/c.sh", "#!/bin/sh\n");
	assert_int_equal(raw_import(sp, "c.sh", "node1", &id, &e), RAW_REFUSED);
	assert_non_null(strstr(e.text, "defaults in instance.json: "));
	s = scan_free(s);
	sp = spool_close(sp);
}

/* As it lies in the queue now; who NULL: to read only. */
static struct batch *open_batch(const struct spool *sp, uint64_t id, const char *who)
{
	struct batch *b = NULL;
	struct err e = ERR_INIT;
	struct scan_task t;

	assert_true(get(sp, id, &t));
	if (batch_open(sp, &t.name, who, &b, &e) < 0)
		fail_msg("%s", e.text);
	return b;
}

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
	assert_int_equal(batch_file(b1, &e), 0);
	assert_int_equal(batch_refresh(b2, &e), 0);
	assert_true(batch_file(b2, &e) >= 0);
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
		assert_int_equal(
			revive_batch(sp, &t.name, "pending", who[i - 2], is_failed, NULL, &n, &e),
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

static enum recover_life all_dead(void *data, const struct claim *c)
{
	return RECOVER_DEAD;
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
	uint64_t again = submit(sp, "{\"argv\":[\"true\"]}");
	uint64_t many = submit(sp, "{\"script\":\"x\",\"array\":\"1-3\"}");
	struct events *ev = NULL;
	struct recover_counts n;
	struct err e = ERR_INIT;
	struct batch *b = NULL;
	struct scan_task t;
	struct spool_end end = { .result = RESULT_DONE, .attempt = 1, .ended_ns = clock_wall_ns() };
	struct spool_end second = end;
	const struct spool_again once = { .attempts = 1, .reason = "exit 1" };

	second.epoch = 1;
	(void)str_copy(sp->boot, sizeof(sp->boot), "an-earlier-boot");
	assert_int_equal(events_open(sp, me.agent, &ev, &e), 0);
	assert_int_equal(events_add_end(ev, id, 0, &end, &e), 0);
	assert_int_equal(events_add_requeue(ev, again, 0, 1, &once, &e), 0);
	assert_int_equal(events_add_end(ev, again, 0, &second, &e), 0);
	assert_int_equal(events_add_end(ev, many, 2, &end, &e), 0);
	assert_int_equal(events_sync(ev, &e), 0);
	ev = events_close(ev);
	/* And the ids. */
	assert_int_equal(spool_unlink(sp, "ids/3", &e), 0);
	sp = spool_close(sp);
	sp = open_spool();

	recover(sp, &n);
	assert_false(get(sp, id, &t));
	assert_int_equal(ended_times(sp, id), 1);
	assert_int_equal(ended_times(sp, again), 1);
	b = open_batch(sp, many, NULL);
	assert_int_equal(batch_counts(b).done, 1);
	b = batch_close(b);
	assert_int_equal(submit(sp, "{\"argv\":[\"true\"]}"), 4);
	recover(sp, &n);
	assert_int_equal(n.filed + n.requeued, 0);
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

static int count_file(void *data, const char *file, unsigned char type)
{
	(*(int *)data)++;
	return 0;
}

static int count_files(const struct spool *sp, const char *dir)
{
	int n = 0;

	assert_int_equal(spool_each(sp, dir, count_file, &n, NULL), 0);
	return n;
}

static void test_control(void **state)
{
	struct spool *sp = open_spool();
	struct err e = ERR_INIT;
	struct order_task task = { .id = 42, .element = 7 };
	struct order order = { .command = ORDER_STOP, .n = 1, .tasks = &task, .now = true }, got;
	char sent[SPOOL_PATH_MAX], at[SPOOL_PATH_MAX];
	struct control_order file;
	json_t *answer = NULL;

	assert_int_equal(control_next(sp, "node1", &got, at, &e), 1);
	assert_int_equal(control_send(sp, "node1", &order, sent, &e), 0);
	put(sp, "control/node1,x.json", "no json");
	assert_int_equal(control_answer_read(sp, sent, &answer, &e), 1);
	assert_int_equal(control_next(sp, "node", &got, at, &e), 1);
	assert_int_equal(control_next(sp, "node1", &got, at, &e), 0);
	assert_true(got.command == ORDER_STOP && got.n == 1 && got.now);
	assert_true(got.tasks[0].id == 42 && got.tasks[0].element == 7);
	order_clear(&got);
	assert_string_equal(at, sent);
	assert_false(control_take_back(sp, sent));
	assert_int_equal(control_answer(sp, at, json_pack("{s:i}", "code", 0), &e), 0);
	assert_int_equal(control_answer_read(sp, sent, &answer, &e), 0);
	assert_int_equal(json_object_size(answer), 1);
	json_decref(answer);

	/* A bad one is kept aside with its reason, and answered. */
	assert_int_equal(control_next(sp, "node1", &got, at, &e), 1);
	put(sp, "control/node1,y.json", "{\"command\":\"dance\"}");
	assert_int_equal(control_next(sp, "node1", &got, at, &e), 1);
	assert_non_null(strstr(e.text, "dance"));
	assert_false(spool_exists(sp, "control/node1,x.json") ||
		     spool_exists(sp, "control/node1,y.json"));
	assert_int_equal(count_files(sp, "bad"), 4);
	assert_int_equal(control_answer_read(sp, "control/node1,y.json", &answer, &e), 0);
	assert_int_equal(json_integer_value(json_object_get(answer, "code")), -EINVAL);
	json_decref(answer);

	/* Who has given up takes back what nobody took; who begins does not obey what is old. */
	assert_int_equal(control_send(sp, "node1", &order, sent, &e), 0);
	assert_true(control_take_back(sp, sent));
	assert_int_equal(control_send(sp, "node1", &order, sent, &e), 0);
	put(sp, "control/node10,x.json", "{\"command\":\"shutdown\"}");
	control_forget(sp, "node1");
	assert_int_equal(control_next(sp, "node1", &got, at, &e), 1);
	assert_int_equal(control_next(sp, "node10", &got, at, &e), 0);
	order_clear(&got);

	assert_int_equal(control_file_take(sp, &file, &e), 1);
	put(sp, "control.json", "{\"command\":\"stop\",\"task\":\"train.sh\"}");
	assert_int_equal(control_file_take(sp, &file, &e), 0);
	assert_true(file.command == CONTROL_STOP && file.sweep == SPEC_CLEAN_MAX);
	assert_string_equal(file.task, "train.sh");
	free(file.task);
	put(sp, "control.json", "{\"command\":\"stop_all\",\"sweep\":\"python\"}");
	assert_int_equal(control_file_take(sp, &file, &e), 0);
	assert_true(file.command == CONTROL_STOP_ALL && file.sweep == SPEC_CLEAN_PYTHON);
	assert_null(file.task);
	put(sp, "control.json", "{\"command\":\"stop_al\"}");
	assert_int_equal(control_file_take(sp, &file, &e), 1);
	assert_non_null(strstr(e.text, "stop_all"));
	put(sp, "control.json", "{\"command\":\"stop_all\",\"sweep\":\"all\"}");
	assert_int_equal(control_file_take(sp, &file, &e), 1);
	assert_non_null(strstr(e.text, "sweep: "));
	put(sp, "control.json", "{}");
	assert_int_equal(control_file_take(sp, &file, &e), 1);
	sp = spool_close(sp);
}

/* Many at once, through processes: every id is given once, and no task is lost. */
static void test_many_clients(void **state)
{
	enum { CLIENTS = 40, EACH = 10 };
	struct spool *sp = open_spool();
	pid_t pids[CLIENTS];
	struct scan *s;

	for (int i = 0; i < CLIENTS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct spool *mine = open_spool();

			for (int j = 0; j < EACH; j++)
				(void)submit(mine, "{\"argv\":[\"true\"]}");
			_exit(0);
		}
	}
	for (int i = 0; i < CLIENTS; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	s = scanned(sp);
	assert_int_equal(scan_count(s, SPOOL_PENDING), CLIENTS * EACH);
	s = scan_free(s);
	sp = spool_close(sp);
}

static void test_foreign(void **state)
{
	struct spool *sp = open_spool();
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"name\":\"x\"}");
	struct scan *s = scan_new(sp, 0);
	struct err e = ERR_INIT;

	if (geteuid() != 0)
		skip();
	assert_int_equal(fchmodat(sp->fd, "pending", 0777, 0), 0);
	assert_int_equal(fchownat(sp->fd, "pending/00500,1,nx", 12345, 12345, 0), 0);
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_null(scan_find(s, id, 0));
	assert_non_null(strstr(scan_notes(s), "user 12345"));
	sp->trust_directory = true;
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_non_null(scan_find(s, id, 0));
	assert_string_equal(scan_notes(s), "");
	s = scan_free(s);
	sp = spool_close(sp);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_open),	  TEST(test_life),
		TEST(test_lost_claim),	  TEST(test_clients),
		TEST(test_retry),	  TEST(test_refused_file),
		TEST(test_scan),	  TEST(test_raw),
		TEST(test_batch),	  TEST(test_revived_elements),
		TEST(test_stopped_batch), TEST(test_recover),
		TEST(test_late_end),	  TEST(test_power_loss),
		TEST(test_torn_record),	  TEST(test_control),
		TEST(test_many_clients),  TEST(test_foreign),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
