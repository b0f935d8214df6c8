/* SPDX-License-Identifier: MIT */

/* Of which nodes a person may say that they do not exist any more: `tenure shutdown --gone`. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"

/* ---- time, which passes only here ---- */

static uint64_t now_ns, look_ns; /* look_ns: what a look at a directory takes */
static size_t naps;
static void (*at_nap)(void); /* what happens while nobody looks; NULL */

uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return now_ns;
}

int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
	now_ns += us * (uint64_t)1000;
	naps++;
	if (at_nap)
		at_nap();
	return 0;
}

int __real_spool_each(const struct spool *sp, const char *dir, spool_entry_fn fn, void *data,
		      struct err *e);
int __wrap_spool_each(const struct spool *sp, const char *dir, spool_entry_fn fn, void *data,
		      struct err *e);
int __wrap_spool_each(const struct spool *sp, const char *dir, spool_entry_fn fn, void *data,
		      struct err *e)
{
	int r = __real_spool_each(sp, dir, fn, data, e);

	now_ns += look_ns;
	return r;
}

static int setup(void **state)
{
	int r = cli_setup(state);

	now_ns = NS_PER_S;
	look_ns = 0;
	naps = 0;
	at_nap = NULL;
	return r;
}

static void write_sign(const struct spool *sp, const char *path, const char *agent,
		       const char *boot, uint64_t count)
{
	struct heartbeat b = { .count = count, .who = self(sp, agent) };

	if (boot)
		(void)str_copy(b.who.boot, sizeof(b.who.boot), boot);
	assert_int_equal(heartbeat_write(sp, path, &b, NULL), 0);
}

/* boot NULL: it is of this node. */
static void leave(const struct spool *sp, const char *agent, const char *boot)
{
	char path[SPOOL_PATH_MAX];

	write_sign(sp, heartbeat_agent_path(agent, path), agent, boot, 7);
}

/* A task that an agent of another boot runs. */
static void run(const struct spool *sp, uint64_t id, const char *agent, const char *boot)
{
	struct claimer who = self(sp, agent);

	assert_int_equal(submit(sp, "{\"argv\":[\"true\"],\"name\":\"a\"}"), id);
	(void)str_copy(who.boot, sizeof(who.boot), boot);
	(void)claim(sp, id, &who);
}

static bool is_declared(const struct spool *sp, const char *agent)
{
	char path[SPOOL_PATH_MAX];

	return spool_exists(sp, heartbeat_declared_dead_path(agent, path));
}

static struct said declare(const char *agent)
{
	cleanup_free char *line = xasprintf("--gone %s", agent);

	return cli(&cmd_shutdown, line);
}

static void one_that_is_silent_is_declared_dead(void **state)
{
	struct spool *sp = open_spool();

	leave(sp, "n7", "its-kernel");
	leave(sp, "n8", "another-kernel");
	run(sp, 1, "n7", "its-kernel");
	run(sp, 2, "n8", "another-kernel");
	run(sp, 3, "n7", "its-kernel");
	/* The second time it was said before, and nothing is waited for. */
	for (int i = 0; i < 2; i++) {
		struct said s = declare("n7");

		if (s.code != 0 ||
		    !str_has_prefix(s.out, "n7 is declared dead: the other agents take "
					   "over task 1, 3; none runs now"))
			fail_msg("%d, %s%s", s.code, s.out, s.err);
		assert_true(is_declared(sp, "n7"));
		assert_false(is_declared(sp, "n8"));
		said_clear(&s);
	}
	(void)spool_close(sp);
}

/* Its file may be gone; what it runs tells who it was. */
static void its_claims_are_enough_to_know_it(void **state)
{
	struct spool *sp = open_spool();
	struct heartbeat b;
	char path[SPOOL_PATH_MAX];
	struct said s;

	for (uint64_t id = 1; id <= 10; id++)
		run(sp, id, "n7", "its-kernel");
	s = declare("n7");
	assert_int_equal(s.code, 0);
	assert_non_null(
		strstr(s.out, "take over task 1, 2, 3, 4, 5, 6, 7, 8 and 2 more; none runs now"));
	assert_int_equal(
		heartbeat_read(sp, heartbeat_declared_dead_path("n7", path), &b, NULL, NULL), 0);
	assert_string_equal(b.who.boot, "its-kernel");
	said_clear(&s);
	(void)spool_close(sp);
}

static void one_that_nobody_knows_is_refused(void **state)
{
	static const struct {
		const char *agent, *err;
	} cases[] = {
		{ "nodee7", "; did you mean node7 (tenure instances shows them)\n" },
		{ "nowhere-at-all", " is called \"nowhere-at-all\" (tenure instances" },
		{ "../agents/node7", "is called \"../agents/node7\"" },
		{ "a,b", "is called \"a,b\"" },
		{ "''", "is called \"\"" },
	};
	struct spool *sp = open_spool();

	leave(sp, "node7", "its-kernel");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = declare(cases[i].agent);

		if (s.code != 1 || s.out[0] || !strstr(s.err, cases[i].err))
			fail_msg("%s: %d, %s%s", cases[i].agent, s.code, s.out, s.err);
		said_clear(&s);
	}
	assert_int_equal(count_files(sp, "agents"), 1);
	(void)spool_close(sp);
}

/* Of this node it is known whether it lives. */
static void one_of_this_node_is_refused(void **state)
{
	struct spool *sp = open_spool();
	struct heartbeat b = { .count = 7, .who = self(sp, "dead") };
	char path[SPOOL_PATH_MAX];
	struct said s;

	leave(sp, "here", NULL);
	s = declare("here");
	assert_int_equal(s.code, 1);
	assert_true(str_has_prefix(s.err, "tenure: the agent here runs on this node (PID "));
	said_clear(&s);
	b.who.proc.start++; /* another process has its number by now */
	assert_int_equal(heartbeat_write(sp, heartbeat_agent_path("dead", path), &b, NULL), 0);
	s = declare("dead");
	assert_int_equal(s.code, 1);
	assert_true(str_has_prefix(s.err,
				   "tenure: the agent dead was one of this node, which is there: "
				   "tenure on takes over what it has left\n"));
	said_clear(&s);
	assert_false(is_declared(sp, "here") || is_declared(sp, "dead"));
	(void)spool_close(sp);
}

/* ---- one that sends heartbeats ---- */

static const struct spool *beating_sp;
static const char *beating_path;
static size_t beats_from; /* this nap on */

static void beat(void)
{
	if (naps >= beats_from)
		write_sign(beating_sp, beating_path, "n7", "its-kernel", 7 + naps);
}

static struct said declare_beating(const struct spool *sp, const char *path, size_t from)
{
	beating_sp = sp;
	beating_path = path;
	beats_from = from;
	naps = 0;
	at_nap = beat;
	return declare("n7");
}

/* The agent's own sign, or one of a task that it has started. */
static void one_that_sends_heartbeats_is_refused(void **state)
{
	static const struct {
		const char *path, *err;
	} cases[] = {
		{ "agents/n7",
		  "tenure: the agent n7 sends heartbeats: agents/n7 was written just now;" },
		{ "agents/1,e0",
		  "tenure: a task that was started by the agent n7 sends heartbeats: "
		  "agents/1,e0 was written just now;" },
	};
	struct spool *sp = open_spool();

	leave(sp, "n7", "its-kernel");
	run(sp, 1, "n7", "its-kernel");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct said s = declare_beating(sp, cases[i].path, 20);

		if (s.code != 1 || s.out[0] || !strstr(s.err, cases[i].err))
			fail_msg("%s: %d, %s%s", cases[i].path, s.code, s.out, s.err);
		assert_int_equal(naps, 20);
		assert_false(is_declared(sp, "n7"));
		said_clear(&s);
	}
	(void)spool_close(sp);
}

/* A look that hangs for longer than three heartbeats take is none in which they did not come. */
static void one_that_could_not_be_looked_at_is_not_silent(void **state)
{
	struct spool *sp = open_spool();
	struct said s;

	look_ns = 60 * NS_PER_S;
	leave(sp, "n7", "its-kernel");
	s = declare_beating(sp, "agents/n7", 3);
	if (s.code != 1 || s.out[0] || !strstr(s.err, "the agent n7 sends heartbeats"))
		fail_msg("%d, %s%s", s.code, s.out, s.err);
	assert_false(is_declared(sp, "n7"));
	said_clear(&s);
	(void)spool_close(sp);
}

static void what_is_gone_can_not_be_drained(void **state)
{
	static const char *const lines[] = { "--gone n7 --drain", "--gone n7 --stop-tasks" };
	struct spool *sp = open_spool();

	leave(sp, "n7", "its-kernel");
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct said s = cli(&cmd_shutdown, lines[i]);

		assert_int_equal(s.code, CMD_USAGE);
		assert_non_null(strstr(s.err, "nothing there can be drained or stopped\n"));
		said_clear(&s);
	}
	assert_false(is_declared(sp, "n7"));
	(void)spool_close(sp);
}

int main(void)
{
#define IN_A_SPOOL(fn) cmocka_unit_test_setup_teardown(fn, setup, cli_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_SPOOL(one_that_is_silent_is_declared_dead),
		IN_A_SPOOL(its_claims_are_enough_to_know_it),
		IN_A_SPOOL(one_that_nobody_knows_is_refused),
		IN_A_SPOOL(one_of_this_node_is_refused),
		IN_A_SPOOL(one_that_sends_heartbeats_is_refused),
		IN_A_SPOOL(one_that_could_not_be_looked_at_is_not_silent),
		IN_A_SPOOL(what_is_gone_can_not_be_drained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
