/* SPDX-License-Identifier: MIT */

/* A task's whole life in a spool of its own, and what clients do to it (spool_world.h). */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/control.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool/raw.h"
#include "spool/submit.h"
#include "spool_world.h"

static void test_open(void **state)
{
	struct err e = ERR_INIT;
	struct spool *sp = NULL;
	struct stat st;
	struct text_list names = { .n = 0 };
	cleanup_free char *file = xasprintf("%s/default/instance.json", spool_world_root());
	cleanup_free char *moved = xasprintf("%s-moved", spool_world_root());

	assert_int_equal(spool_open(spool_world_root(), "default", NULL, 0, &sp, &e), -ENOENT);
	assert_non_null(strstr(e.text, "no instance \"default\""));
	assert_int_equal(spool_open(spool_world_root(), "../x", NULL, SPOOL_CREATE, &sp, &e),
			 -EINVAL);
	sp = open_spool();
	assert_int_equal(fstat(sp->fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(sp->owner, geteuid());
	assert_int_equal(spool_instances(spool_world_root(), &names, &e), 0);
	assert_int_equal(names.n, 1);
	text_list_clear(&names);
	/* The root may be renamed under an open spool. */
	assert_int_equal(rename(spool_world_root(), moved), 0);
	assert_int_equal(submit(sp, "{\"argv\":[\"true\"]}"), 1);
	assert_int_equal(rename(moved, spool_world_root()), 0);
	sp = spool_close(sp);
	assert_int_equal(fs_write_atomic(file, "{\"format\":9}", 12, 0600, &e), 0);
	assert_int_equal(spool_open(spool_world_root(), "default", NULL, SPOOL_CREATE, &sp, &e),
			 -EPROTO);
	assert_non_null(strstr(e.text, "format 9"));
}

static void test_key(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *file = xasprintf("%s/default/key", spool_world_root());
	cleanup_free char *json = xasprintf("%s/default/instance.json", spool_world_root());
	char first[SPOOL_KEY_MAX], again[SPOOL_KEY_MAX];
	struct err e = ERR_INIT;

	assert_int_equal(spool_key(sp, first, &e), 0);
	assert_int_equal(strlen(first), SPOOL_KEY_MAX - 1);
	/* People edit that one. */
	assert_int_equal(fs_write_atomic(json, "{\"format\":1}", 12, 0600, &e), 0);
	sp = spool_close(sp);
	sp = open_spool();
	assert_int_equal(spool_key(sp, again, &e), 0);
	assert_string_equal(first, again);
	/* A spool made anew. */
	assert_int_equal(unlink(file), 0);
	assert_int_equal(spool_key(sp, again, &e), 0);
	assert_string_not_equal(first, again);
	assert_int_equal(fs_write_atomic(file, "", 0, 0600, &e), 0);
	assert_int_equal(spool_key(sp, again, &e), -EINVAL);
	assert_non_null(strstr(e.text, "key is no key"));
	sp = spool_close(sp);
}

static void test_life(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct err e = ERR_INIT;
	struct endlog *ev = NULL;
	struct scan_task t;
	struct task_file f;
	const struct spool_again again = { .attempts = 1,
					   .not_before_ns = 5 * NS_PER_S,
					   .memory = 3UL << 30,
					   .reason = "exit 1" };
	struct text_list devices = { .n = 0 };
	uint64_t id =
		submit(sp, "{\"script\":\"echo\",\"name\":\"a.sh\",\"gpus\":2,\"memory\":\"2G\"}");

	assert_int_equal(endlog_open(sp, me.agent, &ev, &e), 0);

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
	text_list_add(&devices, "GPU-1");
	text_list_add(&devices, "MIG-2");
	assert_int_equal(claim_started(sp, &c, &me.proc, &devices, &e), 0);
	text_list_clear(&devices);
	assert_int_equal(claim_devices(sp, &c, &devices, &e), 0);
	assert_int_equal(devices.n, 2);
	assert_string_equal(devices.texts[1], "MIG-2");
	text_list_clear(&devices);

	struct spool_end end = done(&c);

	assert_int_equal(transit_end(sp, ev, &c, &end, &e), 0);
	assert_int_equal(endlog_sync(ev, &e), 0);
	assert_false(get(sp, id, &t));
	assert_int_equal(ended_times(sp, id), 1);
	ev = endlog_close(ev);
	sp = spool_close(sp);
}

/* -ENOENT is for a claim that is gone; whoever hears it lets go of the task. */
static void test_no_place(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct err e = ERR_INIT;
	struct scan_task t;
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	struct claim c = claim(sp, id, &me);
	struct spool_end end = done(&c);
	const struct spool_again again = { .reason = "exit 1" };

	assert_int_equal(renameat(sp->fd, "done", sp->fd, "aside"), 0);
	assert_int_equal(close(openat(sp->fd, "done", O_WRONLY | O_CREAT, 0600)), 0);
	assert_int_equal(transit_end(sp, NULL, &c, &end, &e), -ENOTDIR);
	assert_true(get(sp, id, &t) && t.dir == SPOOL_RUNNING);
	/* There is room again, and the directory of the day is made with those above it. */
	assert_int_equal(unlinkat(sp->fd, "done", 0), 0);
	assert_int_equal(transit_end(sp, NULL, &c, &end, &e), 0);
	assert_false(get(sp, id, &t));
	id = submit(sp, "{\"argv\":[\"true\"]}");
	c = claim(sp, id, &me);
	assert_int_equal(renameat(sp->fd, "pending", sp->fd, "elsewhere"), 0);
	assert_int_equal(transit_requeue(sp, NULL, &c, &again, &e), 0);
	assert_true(get(sp, id, &t) && t.dir == SPOOL_PENDING);
	assert_int_equal(transit_requeue(sp, NULL, &c, &again, &e), -ENOENT);
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
	assert_int_equal(transit_edit(sp, &t.name, &(struct transit_edit){ .set = bad }, &e),
			 -EINVAL);
	assert_int_equal(transit_edit(sp, &t.name, &(struct transit_edit){ .set = set }, &e), 0);
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

	/* What cannot be written down is not done: it has failed as before. */
	struct rlimit was, none;
	struct task_name still;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	none = (struct rlimit){ .rlim_cur = 1, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(transit_retry(sp, &n, "failed", true, &e), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(scan_dir(sp, "pending", first_name, &still, &e), 0);
	assert_int_equal(scan_dir(sp, "failed", first_name, &still, &e), 1);
	assert_true(still.epoch == 0 && still.exit == 3 && still.ended_s == n.ended_s);

	assert_int_equal(transit_retry(sp, &n, "failed", true, &e), 0);
	c = claim(sp, id, &me);
	assert_true(c.name.epoch == 1 && c.attempt == 1);
	sp = spool_close(sp);
}

struct read_dirs {
	enum spool_dir dirs[8];
	size_t n, most;
};

static int note_dir(void *data, const struct task_name *n, const char *dir)
{
	struct read_dirs *d = data;

	d->dirs[d->n++] = spool_dir_of(dir);
	return d->n == d->most ? 7 : 0;
}

static void test_scan_of_what_ended(void **state)
{
	static const enum task_result results[] = { RESULT_DONE, RESULT_CANCELLED, RESULT_FAILED };
	static const enum spool_dir order[] = { SPOOL_DONE, SPOOL_PENDING };
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct read_dirs d = { .most = 8 };
	struct err e = ERR_INIT;

	assert_int_equal(spool_dir_of("done/2026-11-21"), SPOOL_DONE);
	assert_int_equal(spool_dir_of("failed"), SPOOL_FAILED);
	assert_int_equal(spool_dir_of("failed2/x"), SPOOL_DIR_MAX);
	assert_int_equal(scan_ended(sp, note_dir, &d, &e), 0);
	assert_int_equal(d.n, 0);
	for (size_t i = 0; i < ARRAY_LEN(results); i++) {
		uint64_t id = submit(sp, "{\"argv\":[\"false\"]}");
		struct claim c = claim(sp, id, &me);
		struct spool_end end = done(&c);

		end.result = results[i];
		assert_int_equal(transit_end(sp, NULL, &c, &end, &e), 0);
	}
	(void)submit(sp, "{\"argv\":[\"true\"]}");

	assert_int_equal(scan_ended(sp, note_dir, &d, &e), 0);
	assert_int_equal(d.n, 3);
	assert_true(d.dirs[0] == SPOOL_FAILED && d.dirs[1] == SPOOL_CANCELLED &&
		    d.dirs[2] == SPOOL_DONE);
	d.n = 0;
	assert_int_equal(scan_dirs(sp, order, ARRAY_LEN(order), note_dir, &d, &e), 0);
	assert_true(d.n == 2 && d.dirs[0] == SPOOL_DONE && d.dirs[1] == SPOOL_PENDING);
	/* What the function says ends all of it. */
	d = (struct read_dirs){ .most = 2 };
	assert_int_equal(scan_ended(sp, note_dir, &d, &e), 7);
	assert_int_equal(d.n, 2);
	sp = spool_close(sp);
}

/* By hand, as a script may, and not by tenure retry: it is no running one that has ended. */
static void test_put_back(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"name\":\"x\"}");
	struct scan_task t;
	struct claim c;

	assert_int_equal(renameat(sp->fd, "pending/00500,1,nx", sp->fd, "pending/00500,1,nx,u5,z1"),
			 0);
	c = claim(sp, id, &me);
	assert_string_equal(c.path, "running/00500,1,nx,cnode1");
	assert_true(get(sp, id, &t) && t.dir == SPOOL_RUNNING);
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

/* Under one name a file says one thing: who saw neither of an edit's renames reads it again. */
static void test_scan_of_edits(void **state)
{
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "node1");
	struct scan *s = scan_new(sp, 0);
	uint64_t id = submit(sp, "{\"argv\":[\"true\"]}");
	json_t *set = json_pack("{s:s}", "memory", "2G"), *none = json_object();
	uint64_t begin = 4000000000;
	struct changes ch = { { 0 } };
	struct task_name n;
	struct claim c;

	assert_int_equal(scan_update(s, count_change, &ch, NULL), 0);
	for (unsigned int i = 1; i <= 3; i++) {
		n = scan_find(s, id, 0)->name;
		assert_int_equal(transit_edit(sp, &n, &(struct transit_edit){ .set = set }, NULL),
				 0);
		assert_int_equal(scan_update(s, count_change, &ch, NULL), 0);
		assert_int_equal(ch.n[SCAN_CHANGED], i);
		assert_int_equal(scan_find(s, id, 0)->name.edits, 2 * i);
	}
	/* So does one that is all in the name, so that who has planned it otherwise is told. */
	n = scan_find(s, id, 0)->name;
	assert_int_equal(transit_edit(sp, &n,
				      &(struct transit_edit){ .set = none, .begin_s = &begin },
				      NULL),
			 0);
	assert_true(n.edits == 7 && n.begin_s == begin);
	begin = 0;
	assert_int_equal(transit_edit(sp, &n,
				      &(struct transit_edit){ .set = none, .begin_s = &begin },
				      NULL),
			 0);
	/* Who gives a claim back leaves what was known of it, and an end what is told of all. */
	c = claim(sp, id, &me);
	assert_int_equal(c.name.edits, 8);
	n = c.name;
	assert_int_equal(transit_commit(sp, c.path, &n, RESULT_DONE, clock_wall_ns(), 0, NULL), 0);
	assert_int_equal(n.edits, 0);
	json_decref(none);
	json_decref(set);
	s = scan_free(s);
	sp = spool_close(sp);
}

/* Hosts of a cluster are often called alike but for the end. */
static void test_names_of_tools(void **state)
{
	char one[SPEC_NAME_MAX + 1], two[SPEC_NAME_MAX + 1];

	claimer_tool_name("stop", "node1", one);
	assert_string_equal(one, "stop-node1");
	claimer_tool_name("resume", "training-cluster-a100-80g-worker-10", one);
	claimer_tool_name("resume", "training-cluster-a100-80g-worker-11", two);
	assert_true(strcmp(one, two) != 0);
	assert_true(spec_is_name(one) && strlen(one) <= NAME_AGENT_MAX);
}

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

/* Under the name that it had, as large and as old as it was, and before any reading has missed it.
 */
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
	json_t *answer = NULL, *doc = order_json(&order);

	assert_int_equal(control_next(sp, "node1", &got, at, &e), 1);
	assert_int_equal(control_send(sp, "node1", doc, sent, &e), 0);
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

	/* A name without room for a number in tmp/ stops no order behind it. */
	char longest[NAME_FILE_MAX], path[SPOOL_PATH_MAX];

	(void)str_print(longest, sizeof(longest), "node1,%0*d.json",
			(int)(sizeof(longest) - strlen("node1,.json") - 1), 7);
	put(sp, spool_path(SPOOL_CONTROL, longest, path), "no json");
	assert_int_equal(control_next(sp, "node1", &got, at, &e), 1);
	assert_false(spool_exists(sp, path));
	/* Without tmp/ nothing can be taken, which is no reason to try for ever. */
	assert_int_equal(control_send(sp, "node1", doc, sent, &e), 0);
	assert_int_equal(spool_rename(sp, "tmp", "away", &e), 0);
	assert_int_equal(control_next(sp, "node1", &got, at, &e), -ENOENT);
	assert_int_equal(spool_rename(sp, "away", "tmp", &e), 0);
	assert_int_equal(control_next(sp, "node1", &got, at, &e), 0);
	order_clear(&got);

	/* Who has given up takes back what nobody took; who begins does not obey what is old. */
	assert_int_equal(control_send(sp, "node1", doc, sent, &e), 0);
	assert_true(control_take_back(sp, sent));
	assert_int_equal(control_send(sp, "node1", doc, sent, &e), 0);
	put(sp, "control/node10,x.json", "{\"command\":\"shutdown\"}");
	put(sp, "control/node1,a.answer", "{\"code\":0}");
	put(sp, "control/node1,b.answer", "{\"code\":0}");
	assert_int_equal(
		utimensat(sp->fd, "control/node1,b.answer", (struct timespec[2]){ { 0, 0 } }, 0),
		0);
	control_forget(sp, "node1");
	assert_int_equal(control_next(sp, "node1", &got, at, &e), 1);
	/* Who waits for it is told, and who has not fetched an answer yet may. */
	assert_int_equal(control_answer_read(sp, sent, &answer, &e), 0);
	assert_int_equal(json_integer_value(json_object_get(answer, "code")), -EAGAIN);
	json_decref(answer);
	assert_true(spool_exists(sp, "control/node1,a.answer"));
	assert_false(spool_exists(sp, "control/node1,b.answer"));
	assert_int_equal(control_next(sp, "node10", &got, at, &e), 0);
	order_clear(&got);
	json_decref(doc);
	sp = spool_close(sp);
}

static void test_control_file(void **state)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "{\"command\":\"stop_al\"}", "stop_all" },
		{ "{\"command\":\"stop_all\",\"sweep\":\"all\"}", "sweep: " },
		{ "{}", "no command" },
		{ "{\"command\":\"stop", "not a JSON object" },
	};
	struct spool *sp = open_spool();
	struct control_look look = { .size = 0 };
	struct control_order file;
	struct err e = ERR_INIT;

	assert_int_equal(control_file_take(sp, &look, &file, &e), 1);
	put(sp, "control.json", "{\"command\":\"stop\",\"task\":\"train.sh\"}");
	assert_int_equal(control_file_take(sp, &look, &file, &e), 0);
	assert_true(file.command == CONTROL_STOP && file.sweep == SPEC_CLEAN_MAX);
	assert_string_equal(file.task, "train.sh");
	free(file.task);
	put(sp, "control.json", "{\"command\":\"stop_all\",\"sweep\":\"python\"}");
	assert_int_equal(control_file_take(sp, &look, &file, &e), 0);
	assert_true(file.command == CONTROL_STOP_ALL && file.sweep == SPEC_CLEAN_PYTHON);
	assert_null(file.task);

	/* Caught while it is written. */
	put(sp, "control.json", "");
	assert_int_equal(control_file_take(sp, &look, &file, &e), 1);
	put(sp, "control.json", "{\"command\":\"shut");
	look.since_ns = 0;
	assert_int_equal(control_file_take(sp, &look, &file, &e), 1);
	put(sp, "control.json", "{\"command\":\"shutdown\"}");
	assert_int_equal(control_file_take(sp, &look, &file, &e), 0);
	assert_int_equal(file.command, CONTROL_SHUTDOWN);
	assert_int_equal(e.code, 0);
	assert_int_equal(count_files(sp, "bad"), 0);

	/* Only what stays wrong is. */
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		put(sp, "control.json", bad[i].text);
		assert_int_equal(control_file_take(sp, &look, &file, &e), 1);
		assert_true(spool_exists(sp, "control.json"));
		look.since_ns = 0; /* long ago */
		assert_int_equal(control_file_take(sp, &look, &file, &e), 1);
		assert_non_null(strstr(e.text, bad[i].why));
		assert_false(spool_exists(sp, "control.json"));
		assert_int_equal(count_files(sp, "bad"), 2 * (i + 1));
		e = (struct err)ERR_INIT;
	}
	sp = spool_close(sp);
}

/* Whoever makes a file of that name must not make tasks that no name can hold. */
static void test_last_id(void **state)
{
	struct spool *sp = open_spool();
	struct err e = ERR_INIT;
	uint64_t id = 0;

	put(sp, "ids/9999999999999", "");
	assert_int_equal(submit_new_id(sp, &id, &e), 0);
	assert_int_equal(id, 1);
	put(sp, "ids/9999999999", "");
	assert_int_equal(submit_new_id(sp, &id, &e), -ERANGE);
	assert_non_null(strstr(e.text, "remove it"));
	sp = spool_close(sp);
}

static void set_time(const struct spool *sp, const char *dir, time_t sec)
{
	const struct timespec times[2] = { { .tv_sec = sec }, { .tv_sec = sec } };

	assert_int_equal(utimensat(sp->fd, dir, times, 0), 0);
}

/* Directories in which nothing has come or gone are not read again. */
static void test_scan_settled(void **state)
{
	struct spool *sp = open_spool();
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"name\":\"x\"}");
	struct scan *s = scan_new(sp, 0);
	struct err e = ERR_INIT;
	struct changes ch = { { 0 } };
	struct task_name n;

	set_time(sp, "pending", 1000);
	set_time(sp, "running", 1000);
	for (int i = 0; i < 2; i++)
		assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	put(sp, "pending/00500,77,nunseen", "{\"argv\":[\"true\"],\"name\":\"unseen\"}\n");
	set_time(sp, "pending", 1000); /* as if it had not come */
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_null(scan_find(s, 77, 0));
	assert_non_null(scan_find(s, id, 0));
	set_time(sp, "pending", 1001);
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_non_null(scan_find(s, 77, 0));
	/* What is gone is missed twice before it counts, settled or not. */
	assert_int_equal(unlinkat(sp->fd, "pending/00500,77,nunseen", 0), 0);
	set_time(sp, "pending", 1002);
	for (int i = 0; i < 2; i++)
		assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_null(scan_find(s, 77, 0));

	/* What is taken out of the index though it is there is told anew, as it is met then. */
	n = scan_find(s, id, 0)->name;
	scan_note(s, SPOOL_RUNNING, &n, false);
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(ch.n[SCAN_ADDED], 0);
	scan_note(s, SPOOL_PENDING, &n, false);
	assert_null(scan_find(s, id, 0));
	assert_int_equal(scan_update(s, count_change, &ch, &e), 0);
	assert_int_equal(ch.n[SCAN_ADDED], 1);
	assert_non_null(scan_find(s, id, 0));
	s = scan_free(s);
	sp = spool_close(sp);
}

/* ret_ids may be NULL. */
static void submit_many(const struct spool *sp, size_t n, uint64_t *ret_ids)
{
	cleanup_free struct spool_spec **specs = xcalloc(n, sizeof(*specs));
	cleanup_free uint64_t *ids = xcalloc(n, sizeof(*ids));
	struct err e = ERR_INIT;
	size_t done = 0, used;

	for (size_t i = 0; i < n; i++)
		assert_int_equal(spec_read("{\"argv\":[\"true\"]}", 17, &specs[i], &used, &e), 0);
	assert_int_equal(submit_tasks(sp, specs, n, ids, &done, &e), 0);
	assert_int_equal(done, n);
	for (size_t i = 0; i < n; i++)
		specs[i] = spec_free(specs[i]);
	if (ret_ids)
		(void)memcpy(ret_ids, ids, n * sizeof(*ids));
}

/* Very many ids are one file, far enough above them that who was asleep sees it. */
static void test_ids_of_many(void **state)
{
	enum { LARGE = 300 };
	struct spool *sp = open_spool();
	uint64_t ids[LARGE], before = submit(sp, "{\"argv\":[\"true\"]}");

	submit_many(sp, LARGE, ids);
	for (size_t i = 0; i < LARGE; i++)
		assert_int_equal(ids[i], before + 1 + i);
	assert_int_equal(count_files(sp, "ids"), 2);
	assert_true(submit(sp, "{\"argv\":[\"true\"]}") > ids[LARGE - 1] + 50);
	sp = spool_close(sp);
}

/* Many at once, through processes, some of which take a range of ids: every id is given once, and
 * no task is lost. */
static void test_many_clients(void **state)
{
	enum { CLIENTS = 40, EACH = 10, RANGES = 10, LARGE = 200 };
	struct spool *sp = open_spool();
	pid_t pids[CLIENTS];
	struct scan *s;

	for (int i = 0; i < CLIENTS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct spool *mine = open_spool();

			if (i % (CLIENTS / RANGES) == 0)
				submit_many(mine, LARGE, NULL);
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
	assert_int_equal(scan_count(s, SPOOL_PENDING), CLIENTS * EACH + RANGES * LARGE);
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

/* To write down when a file was read last would cost more than to read it. */
static void test_reading_is_not_noted(void **state)
{
	const struct timespec times[] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
	struct spool *sp = open_spool();
	cleanup_free char *text = NULL;
	struct err e = ERR_INIT;
	struct stat st;
	size_t len;

	put(sp, "failed/x", "text");
	assert_int_equal(utimensat(sp->fd, "failed/x", times, 0), 0);
	assert_int_equal(spool_read(sp, "failed/x", 100, &text, &len, &e), 0);
	assert_int_equal(len, 4);
	assert_int_equal(fstatat(sp->fd, "failed/x", &st, 0), 0);
	assert_int_equal(st.st_atim.tv_sec, 1000);
	sp = spool_close(sp);
}

/* Whatever part of a path is a link, and whatever lies in the place of a file. */
static void test_links(void **state)
{
	static const char *const bad[] = { "logs/link", "logs/fifo", "logs/dir" };
	struct spool *sp = open_spool();
	struct err e = ERR_INIT;
	struct stat st;

	put(sp, "logs/1.log", "log");
	assert_int_equal(symlinkat("1.log", sp->fd, "logs/link"), 0);
	assert_int_equal(mkfifoat(sp->fd, "logs/fifo", 0600), 0);
	assert_int_equal(mkdirat(sp->fd, "logs/dir", 0700), 0);
	assert_int_equal(symlinkat("logs", sp->fd, "elsewhere"), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_true(spool_is_bad(spool_open_file(sp, bad[i], O_RDONLY, NULL, NULL)));
		assert_true(spool_is_bad(spool_open_file(sp, bad[i], O_WRONLY, NULL, &e)));
		assert_non_null(strstr(e.text, bad[i]));
	}
	assert_int_equal(spool_open_file(sp, "elsewhere/1.log", O_RDONLY, NULL, NULL), -ENOTDIR);
	assert_int_equal(spool_openat(sp, "elsewhere/new", O_WRONLY | O_CREAT | O_EXCL), -ENOTDIR);

	/* What is ours takes their place; in bad/ there may be such things already. */
	assert_int_equal(mkdirat(sp->fd, "bad/link", 0700), 0);
	put(sp, "bad/dir", "before");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_fd int fd =
			spool_open_own(sp, bad[i], O_RDWR | O_APPEND | O_CREAT, &st, &e);

		assert_true(fd >= 0);
		assert_int_equal(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_APPEND), O_APPEND);
		assert_int_equal(st.st_size, 0);
		assert_int_equal(write(fd, "x", 1), 1);
	}
	assert_true(spool_exists(sp, "bad/fifo") && spool_exists(sp, "bad/fifo.reason"));
	assert_int_equal(fstatat(sp->fd, "logs/1.log", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_size, 3);
	sp = spool_close(sp);
}

/* Who is accepted, by what the setting says; the instance has no say in it. */
static void test_accepted(void **state)
{
	const char *const words[] = { "nosuchuserhere", "12345", "root" };
	const struct text_list list = { .n = ARRAY_LEN(words), .texts = (char **)(uintptr_t)words };
	const struct spool_trust some = { .accepted = &list }, all = { .setting = TRUST_DIRECTORY };
	struct spool *sp = open_spool();
	struct err e = ERR_INIT;

	put(sp, "instance.json", "{\"format\":1,\"owner\":12346,\"trust\":\"directory\"}");
	assert_false(spool_trusts(sp, 12345) || spool_trusts(sp, 12346));
	sp = spool_close(sp);
	assert_int_equal(spool_open(spool_world_root(), "default", &some, 0, &sp, &e), 0);
	assert_true(spool_trusts(sp, 12345) && spool_trusts(sp, 0) && spool_trusts(sp, geteuid()));
	assert_false(spool_trusts(sp, 12346) || spool_trusts(sp, (uid_t)-1));
	sp = spool_close(sp);
	assert_int_equal(spool_open(spool_world_root(), "default", &all, 0, &sp, &e), 0);
	assert_true(spool_trusts(sp, 12346));
	sp = spool_close(sp);

	assert_int_equal(chmod(spool_world_root(), 0777), 0);
	assert_int_equal(spool_open(spool_world_root(), "default", NULL, 0, &sp, &e), -EPERM);
	assert_int_equal(spool_open(spool_world_root(), "default", NULL, SPOOL_LOOK, &sp, &e), 0);
	sp = spool_close(sp);
	assert_int_equal(chmod(spool_world_root(), 01777), 0);
	assert_int_equal(spool_open(spool_world_root(), "default", NULL, 0, &sp, &e), 0);
	assert_int_equal(fchmod(sp->fd, 0707), 0);
	sp = spool_close(sp);
	assert_int_equal(spool_open(spool_world_root(), "default", &some, 0, &sp, &e), -EPERM);
	assert_int_equal(spool_open(spool_world_root(), "default", &all, 0, &sp, &e), 0);
	sp = spool_close(sp);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_open),
		TEST(test_key),
		TEST(test_life),
		TEST(test_no_place),
		TEST(test_lost_claim),
		TEST(test_clients),
		TEST(test_retry),
		TEST(test_put_back),
		TEST(test_refused_file),
		TEST(test_scan),
		TEST(test_scan_of_what_ended),
		TEST(test_scan_of_edits),
		TEST(test_names_of_tools),
		TEST(test_raw),
		TEST(test_raw_of_the_dead),
		TEST(test_raw_same_again),
		TEST(test_scan_settled),
		TEST(test_raw_again),
		TEST(test_control),
		TEST(test_control_file),
		TEST(test_last_id),
		TEST(test_ids_of_many),
		TEST(test_many_clients),
		TEST(test_reading_is_not_noted),
		TEST(test_foreign),
		TEST(test_links),
		TEST(test_accepted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
