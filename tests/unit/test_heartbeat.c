/* SPDX-License-Identifier: MIT */

/* Liveness in virtual time: what an observer concludes from counters and its own clock. */

#include "unit.h"

#include <string.h>

#include "base/clock.h"
#include "spool/heartbeat.h"

#define STEP_MS	  10000ULL
#define EXPIRE_MS 300000ULL

static uint64_t look(struct heartbeat_watch *w, uint64_t at_ms, const char *key, uint64_t count)
{
	uint64_t quiet;

	heartbeat_watch_begin(w, at_ms * NS_PER_MS);
	quiet = heartbeat_watch_see(w, key, count);
	heartbeat_watch_finish(w);
	return quiet;
}

static void test_counter_is_timed_by_our_clock(void **state)
{
	struct heartbeat_watch *w = heartbeat_watch_new(STEP_MS);
	uint64_t at = 5000000;

	/* However old it is by its own account: what is seen for the first time is not quiet. */
	assert_int_equal(look(w, at, "a", 17), 0);
	for (unsigned int i = 1; i <= 31; i++)
		assert_int_equal(look(w, at += STEP_MS, "a", 17), i * STEP_MS);
	assert_int_equal(look(w, at += STEP_MS, "a", 18), 0);
	assert_int_equal(look(w, at += STEP_MS, "a", 18), STEP_MS);
	/* A counter that goes back has moved, too: its writer was started anew. */
	assert_int_equal(look(w, at += STEP_MS, "a", 1), 0);
	assert_null(heartbeat_watch_free(w));
}

static void test_time_without_looking_does_not_count(void **state)
{
	struct heartbeat_watch *w = heartbeat_watch_new(STEP_MS);

	(void)look(w, 1000, "a", 1);
	assert_int_equal(look(w, 1000 + STEP_MS, "a", 1), STEP_MS);
	/* The observer was stopped for an hour: nobody is dead because of that. */
	assert_int_equal(look(w, 3600000, "a", 1), 3 * STEP_MS);
	assert_int_equal(look(w, 3600000 + STEP_MS, "a", 1), 4 * STEP_MS);
	assert_null(heartbeat_watch_free(w));
}

static void test_each_thing_has_its_own_time(void **state)
{
	struct heartbeat_watch *w = heartbeat_watch_new(STEP_MS);
	char key[16] = "claim";

	(void)look(w, STEP_MS, "a", 1);
	heartbeat_watch_begin(w, 2 * STEP_MS * NS_PER_MS);
	assert_int_equal(heartbeat_watch_see(w, key, 0), 0);
	(void)strcpy(key, "a"); /* the key is copied */
	assert_int_equal(heartbeat_watch_see(w, key, 1), STEP_MS);
	assert_int_equal(heartbeat_watch_see(w, key, 1), STEP_MS); /* asked twice in one look */
	heartbeat_watch_finish(w);
	/* What was not there in a look begins anew. */
	assert_int_equal(look(w, 3 * STEP_MS, "claim", 0), STEP_MS);
	assert_int_equal(look(w, 4 * STEP_MS, "a", 1), 0);
	assert_null(heartbeat_watch_free(w));
}

static void test_judging(void **state)
{
	static const struct {
		const char *what;
		struct liveness_facts f;
		enum liveness want;
	} rows[] = {
		{ "a process of this node runs",
		  { .same_node = true, .runs = true, .silent_ms = 900000 },
		  LIVENESS_ALIVE },
		{ "one of this node does not", { .same_node = true }, LIVENESS_DEAD },
		{ "it beats", { .silent_ms = 299999, .fence_timeout_ms = 300000 }, LIVENESS_ALIVE },
		{ "its promise is over",
		  { .silent_ms = 300000, .fence_timeout_ms = 300000 },
		  LIVENESS_DEAD },
		{ "it promised more than we would wait",
		  { .silent_ms = 310000, .fence_timeout_ms = 600000 },
		  LIVENESS_ALIVE },
		{ "it promised less than we wait",
		  { .silent_ms = 200000, .fence_timeout_ms = 90000 },
		  LIVENESS_ALIVE },
		{ "it was alone and may run on, cut off",
		  { .silent_ms = 9000000 },
		  LIVENESS_UNKNOWN },
		{ "a neighbour cannot be cut off alone",
		  { .silent_ms = 300001, .same_kernel = true },
		  LIVENESS_DEAD },
		{ "a neighbour needs its time, too",
		  { .silent_ms = 1, .same_kernel = true, .local_files = true },
		  LIVENESS_ALIVE },
		{ "a command was interrupted, which runs nothing",
		  { .silent_ms = 300001, .tool = true },
		  LIVENESS_DEAD },
		{ "a command needs its time, too",
		  { .silent_ms = 1, .tool = true },
		  LIVENESS_ALIVE },
		{ "an earlier boot of a local disk", { .local_files = true }, LIVENESS_DEAD },
		{ "somebody vouches that it is gone", { .gone = true }, LIVENESS_DEAD },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct liveness_facts f = rows[i].f;

		f.expire_ms = EXPIRE_MS;
		if (liveness_judge(&f) != rows[i].want)
			fail_msg("%s: %d", rows[i].what, liveness_judge(&f));
	}
}

static void test_name_of_an_agent(void **state)
{
	static const char long_host[] = "a-node-with-a-long-name-1.cluster.example.org",
			  long_host2[] = "a-node-with-a-long-name-2.cluster.example.org",
			  uid[] = "k8s.0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";
	char a[NAME_AGENT_MAX + 1], b[NAME_AGENT_MAX + 1];

	assert_string_equal(heartbeat_agent_name(NULL, "n7", NULL, a), "n7");
	assert_string_equal(heartbeat_agent_name("seven", "n7", NULL, a), "seven");
	assert_string_equal(heartbeat_agent_name(NULL, "n7", "slurm.12", a), "n7-slurm.12");
	assert_string_equal(heartbeat_agent_name("seven", "n7", "slurm.12.1", a),
			    "seven-slurm.12.1");
	/* What is too long is told apart all the same, and is a name. */
	(void)heartbeat_agent_name(NULL, long_host, uid, a);
	(void)heartbeat_agent_name(NULL, long_host2, uid, b);
	assert_int_equal(strlen(a), NAME_AGENT_MAX);
	assert_true(ident_is_name(a));
	assert_string_not_equal(a, b);
	(void)heartbeat_agent_name(NULL, long_host, "k8s.0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f1", b);
	assert_string_not_equal(a, b);
	assert_true(ident_is_name(b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counter_is_timed_by_our_clock),
		cmocka_unit_test(test_time_without_looking_does_not_count),
		cmocka_unit_test(test_each_thing_has_its_own_time),
		cmocka_unit_test(test_judging),
		cmocka_unit_test(test_name_of_an_agent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
