/* SPDX-License-Identifier: MIT */

/* Bare files that become tasks (spool_world.h). */

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool/raw.h"
#include "spool_world.h"

/* 0: as it is (the linker gives us the spool's: tests/meson.build). */
static uint64_t stopped_ns;
uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return stopped_ns ? stopped_ns : __real_clock_mono_ns();
}

static void test_raw(void **state)
{
	struct spool *sp = open_spool();
	struct scan *s = scan_new(sp, SCAN_RAW);
	struct err e = ERR_INIT;
	struct scan_task t;
	const char *file;
	uint64_t id = 0;

	stopped_ns = clock_mono_ns();
	scan_set_settle(s, NS_PER_S);
	put(sp, "pending/003_train.sh", "#!/bin/sh\necho\n");
	put(sp, "pending/half.part", "x");
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	stopped_ns += NS_PER_S;
	put(sp, "pending/003_train.sh", "#!/bin/sh\necho more\n");
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_null(scan_raw_ripe(s)); /* it has changed */
	stopped_ns += NS_PER_S;
	assert_null(scan_raw_ripe(s)); /* nobody has looked at it since */
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	file = scan_raw_ripe(s);
	stopped_ns = 0;
	assert_non_null(file);
	assert_int_equal(raw_import(sp, file, "node1", &id, &e), 0);
	assert_null(scan_raw_ripe(s));
	assert_true(get(sp, id, &t) && t.name.priority == 3);
	assert_string_equal(t.name.name, "train.sh");
	put(sp, "pending/bad.json", "{\"argv\":[\"x\"],\"gpuz\":1}");
	assert_int_equal(raw_import(sp, "bad.json", "node1", &id, &e), RAW_REFUSED);
	assert_non_null(strstr(e.text, "gpuz"));
	assert_int_equal(raw_import(sp, "gone", "node1", &id, &e), RAW_GONE);
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

/* A second name for a file, as ln makes it, at another time than `was`. */
static void link_later(const struct spool *sp, const char *from, const char *to,
		       const struct timespec *was)
{
	struct stat st;

	do {
		(void)unlinkat(sp->fd, to, 0);
		assert_int_equal(linkat(sp->fd, from, sp->fd, to, 0), 0);
		assert_int_equal(fstatat(sp->fd, to, &st, 0), 0);
	} while (st.st_ctim.tv_sec == was->tv_sec && st.st_ctim.tv_nsec == was->tv_nsec);
}

/* What came is seen, and taken, once. */
static void expect_taken(const struct spool *sp, struct scan *s, const char *want)
{
	const char *file;
	uint64_t id;

	assert_int_equal(scan_update(s, NULL, NULL, NULL), 0);
	file = scan_raw_ripe(s);
	assert_non_null(file);
	assert_string_equal(file, want);
	assert_int_equal(raw_import(sp, file, "node1", &id, NULL), 0);
	assert_null(scan_raw_ripe(s));
}

/* Under the name that it had, as large and old as it was, before any reading has missed it. */
static void test_raw_same_again(void **state)
{
	struct spool *sp = open_spool();
	struct scan *s = scan_new(sp, SCAN_RAW);
	struct stat st;

	scan_set_settle(s, 0);
	put(sp, "tmp/kept", "#!/bin/sh\n");
	assert_int_equal(linkat(sp->fd, "tmp/kept", sp->fd, "pending/train.sh", 0), 0);
	assert_int_equal(fstatat(sp->fd, "tmp/kept", &st, 0), 0);
	expect_taken(sp, s, "train.sh");

	link_later(sp, "tmp/kept", "pending/train.sh", &st.st_ctim);
	expect_taken(sp, s, "train.sh");

	put(sp, "pending/train.sh", "#!/bin/sh\n");
	assert_int_equal(utimensat(sp->fd, "pending/train.sh",
				   (struct timespec[2]){ st.st_atim, st.st_mtim }, 0),
			 0);
	expect_taken(sp, s, "train.sh");

	assert_int_equal(scan_update(s, NULL, NULL, NULL), 0);
	assert_null(scan_raw_ripe(s));
	s = scan_free(s);
	sp = spool_close(sp);
}

/* Its taker was killed: on a node that comes back under that name, or under another one. */
static void test_raw_of_the_dead(void **state)
{
	struct spool *sp = open_spool();
	struct scan *s = scan_new(sp, SCAN_RAW);
	struct err e = ERR_INIT;
	struct scan_task t;
	uint64_t id = 7;

	put(sp, "tmp/raw,5,node2,3_train.sh", "#!/bin/sh\n");
	put(sp, "agents/node2", "{}\n");
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_int_equal(raw_resume(sp, "raw,5,node2,3_train.sh", "node1", s, &id, &e), 0);
	assert_int_equal(id, 0); /* it lives */
	assert_true(spool_exists(sp, "tmp/raw,5,node2,3_train.sh"));
	assert_int_equal(spool_unlink(sp, "agents/node2", &e), 0);
	assert_int_equal(raw_resume(sp, "raw,5,node2,3_train.sh", "node1", s, &id, &e), 0);
	assert_int_equal(id, 5);
	assert_true(get(sp, id, &t) && t.name.priority == 3);
	assert_false(spool_exists(sp, "tmp/raw,5,node2,3_train.sh"));
	/* It had submitted it before it died. */
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	put(sp, "tmp/raw,5,node3,3_train.sh", "#!/bin/sh\n");
	assert_int_equal(raw_resume(sp, "raw,5,node3,3_train.sh", "node1", s, &id, &e), 0);
	assert_false(spool_exists(sp, "tmp/raw,5,node3,3_train.sh"));
	s = scan_free(s);
	sp = spool_close(sp);
}

static void note_told(void *data, const char *file, int r, uint64_t id, const struct err *e)
{
	*(uint64_t *)data = r < 0 ? 0 : id;
	assert_string_equal(file, "job.sh");
}

/* One that no id, or no room, could be had for is tried again later, wherever it is by then. */
static void test_raw_again(void **state)
{
	struct spool *sp = open_spool();
	struct scan *s = scan_new(sp, SCAN_RAW);
	struct err e = ERR_INIT;
	struct scan_task t;
	uint64_t id = 0, told = 77;

	scan_set_settle(s, 1);
	put(sp, "pending/job.sh", "#!/bin/sh\n");
	put(sp, "pending/5_none.sh", "");
	put(sp, "tmp/raw,99999999999,node1,far.sh", "#!/bin/sh\n");
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	(void)usleep(1000);
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_string_equal(scan_raw_ripe(s), "5_none.sh");
	assert_string_equal(scan_raw_ripe(s), "job.sh");
	assert_null(scan_raw_ripe(s));
	assert_int_equal(renameat(sp->fd, "ids", sp->fd, "ids.away"), 0);
	assert_true(raw_import(sp, "job.sh", "node1", &id, &e) < 0);
	assert_int_equal(scan_raw_again(s, "job.sh"), 1);
	assert_int_equal(scan_raw_again(s, "nobody"), 0);
	(void)usleep(1000);
	assert_string_equal(scan_raw_ripe(s), "job.sh");
	assert_int_equal(renameat(sp->fd, "ids.away", sp->fd, "ids"), 0);
	/* It is taken, and then there is no pending/ for it for a moment. */
	assert_int_equal(renameat(sp->fd, "pending/job.sh", sp->fd, "tmp/raw,1,node1,job.sh"), 0);
	put(sp, "ids/1", "");
	assert_int_equal(renameat(sp->fd, "pending", sp->fd, "away"), 0);
	assert_int_equal(raw_resume_all(sp, "node1", s, note_told, &told, &e), 1);
	assert_int_equal(told, 0);
	put(sp, "agents/node1", "{}\n");
	assert_int_equal(raw_resume_all(sp, "node2", s, note_told, &told, &e), 0);
	assert_int_equal(renameat(sp->fd, "away", sp->fd, "pending"), 0);
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_int_equal(raw_resume_all(sp, "node1", s, note_told, &told, &e), 0);
	assert_int_equal(told, 1);
	assert_true(get(sp, 1, &t));
	assert_false(spool_exists(sp, "tmp/raw,1,node1,job.sh"));
	assert_true(spool_exists(
		sp, "tmp/raw,99999999999,node1,far.sh")); /* no id has that many digits */
	s = scan_free(s);
	sp = spool_close(sp);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_raw),
		TEST(test_raw_of_the_dead),
		TEST(test_raw_same_again),
		TEST(test_raw_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
