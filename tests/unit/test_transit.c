/* SPDX-License-Identifier: MIT */

/* A task's whole life in a spool of its own, and what clients do to it (spool_world.h). */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool_world.h"

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
	/* It has another number of them while it runs; since when it does is the same. */
	{
		uint64_t started_ns;

		assert_int_equal(task_file_read(sp, c.path, &f, &e), 0);
		started_ns = f.history.started_ns;
		task_file_clear(&f);
		text_list_add(&devices, "MIG-2");
		assert_int_equal(claim_started(sp, &c, &me.proc, &devices, &e), 0);
		text_list_clear(&devices);
		assert_int_equal(claim_devices(sp, &c, &devices, &e), 0);
		assert_int_equal(devices.n, 1);
		assert_string_equal(devices.texts[0], "MIG-2");
		text_list_clear(&devices);
		assert_int_equal(task_file_read(sp, c.path, &f, &e), 0);
		assert_true(f.history.started && f.history.started_ns == started_ns);
		task_file_clear(&f);
	}

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

/* Hosts of a cluster are often called alike but for the end. */
static void test_names_of_tools(void **state)
{
	char one[SPEC_NAME_MAX + 1], two[SPEC_NAME_MAX + 1];

	claimer_tool_name("stop", "node1", one);
	assert_string_equal(one, "stop-node1");
	claimer_tool_name("resume", "training-cluster-a100-80g-worker-10", one);
	claimer_tool_name("resume", "training-cluster-a100-80g-worker-11", two);
	assert_true(strcmp(one, two) != 0);
	assert_true(ident_is_name(one) && strlen(one) <= NAME_AGENT_MAX);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_life),	 TEST(test_no_place),	    TEST(test_lost_claim),
		TEST(test_clients),	 TEST(test_retry),	    TEST(test_put_back),
		TEST(test_refused_file), TEST(test_names_of_tools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
