/* SPDX-License-Identifier: MIT */

/* What claims say of the owners of lanes and arrays, and what the plan makes of it; how they are
 * let go of; and what is said of lanes that are paused. */

#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/queue/lanes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "sched/why.h"
#include "spool/instance.h"
#include "spool/lane.h"
#include "spool/own.h"
#include "spool_world.h"

/* Time passes when the test says so, and the spooler works when it is asked to. */
static uint64_t later_ns;
static struct spool_place place;
static struct spool_job *asked;

uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);
void __wrap_spooler_do(struct spooler *s, struct spool_job *job);

uint64_t __wrap_clock_mono_ns(void)
{
	return __real_clock_mono_ns() + later_ns;
}

void __wrap_spooler_do(struct spooler *s, struct spool_job *job)
{
	assert_null(asked);
	asked = job;
}

static bool work(void)
{
	struct spool_job *job = asked;

	if (!job)
		return false;
	asked = NULL;
	job->work(job, &place);
	job->done(job);
	return true;
}

static struct lanes open_tasks(void)
{
	return (struct lanes){ .plan = sched_queue_new() };
}

static void close_tasks(struct lanes *q)
{
	lanes_clear(q);
	q->plan = sched_queue_free(q->plan);
}

static void expect_why(const struct lanes *q, uint64_t id, uint32_t element, const char *why)
{
	const struct sched_view view = { .n_devices = 0 };
	static struct reason_device devices[SCHED_DEVICES_MAX];
	struct strbuf text = STRBUF_INIT;
	struct reason r;

	assert_true(sched_why(q->plan, (struct sched_ref){ id, element }, &view, devices, &r) >= 0);
	reason_text(&r, NULL, &text);
	assert_string_equal(strbuf_str(&text), why);
	strbuf_clear(&text);
}

static void met_elsewhere(struct lanes *q, const char *key)
{
	struct lanes_met m = { .owner = "other" };

	(void)str_copy(m.blocked, sizeof(m.blocked), key);
	lanes_met(q, &m);
}

static void met_ours(struct lanes *q, const char *key)
{
	struct lanes_met m = { .id = 0 };

	(void)str_copy(m.keys[0], sizeof(m.keys[0]), key);
	lanes_met(q, &m);
}

/* One plan starts two tasks of a wide lane. The claim of the first one meets another owner, which
 * lets go before the claim of the second one. */
static void test_lane_that_becomes_ours(void **state)
{
	struct lanes q = open_tasks();
	const struct sched_task t = { .id = 1, .order = 1, .lane = sched_lane(q.plan, "wide") };

	assert_int_equal(sched_add(q.plan, &t, NULL), 0);
	met_elsewhere(&q, "wide");
	expect_why(&q, 1, 0,
		   "waits for its lane wide: the agent other starts them, one node at a time; 1st "
		   "in order");
	met_ours(&q, "wide");
	expect_why(&q, 1, 0, "can start, and will with the next plan; 1st in order");
	close_tasks(&q);
}

static void test_array_that_becomes_ours(void **state)
{
	struct lanes q = open_tasks();
	const struct sched_task t = {
		.id = 7, .order = 7, .element = 1, .n_elements = 4, .array_limit = 2
	};

	assert_int_equal(sched_add(q.plan, &t, NULL), 0);
	met_elsewhere(&q, "%7");
	expect_why(&q, 7, 2,
		   "waits for its array: the agent other starts them, one node at a time; 1st in "
		   "order");
	met_ours(&q, "%7");
	expect_why(&q, 7, 2, "can start, and will with the next plan; 1st in order");
	close_tasks(&q);
}

static int take(const char *key, const char *agent, char *ret_owner)
{
	uint64_t epoch = LANE_NONE;

	return lane_take(place.spool, key, agent, &epoch, ret_owner, NULL);
}

/* Whether it was to be let go of, a while after it was used last. */
static bool look_later(struct lanes *q)
{
	later_ns += 3 * NS_PER_S;
	lanes_look(q);
	return work();
}

/* It is let go of while lanes/ cannot be read. */
static void expect_release_again(const char *key, bool is_missing)
{
	struct lanes q = open_tasks();
	char owner[NAME_AGENT_MAX + 1];
	int fd = place.spool->fd;

	assert_int_equal(take(key, "one", owner), 0);
	lanes_found(&q, key);
	assert_int_equal(renameat(fd, "lanes", fd, "away"), 0);
	if (!is_missing)
		put(place.spool, "lanes", "");
	assert_true(look_later(&q));
	assert_true(look_later(&q));
	if (!is_missing)
		assert_int_equal(unlinkat(fd, "lanes", 0), 0);
	assert_int_equal(renameat(fd, "away", fd, "lanes"), 0);
	assert_int_equal(take(key, "two", owner), LANE_ELSEWHERE);
	assert_string_equal(owner, "one");

	assert_true(look_later(&q));
	assert_int_equal(take(key, "two", owner), 0);
	assert_false(look_later(&q));
	close_tasks(&q);
}

/* One whose release fails names us, and keeps it from all other nodes, until it is tried again. */
static void test_release_that_fails(void **state)
{
	place = (struct spool_place){ .spool = open_spool() };
	place.self = self(place.spool, "one");
	place.scan = scanned(place.spool);
	put(place.spool, "agents/one", "{}\n");
	put(place.spool, "agents/two", "{}\n");
	expect_release_again("week", false);
	expect_release_again("month", true);
	expect_release_again("%7", false);
	place.scan = scan_free(place.scan);
	place.spool = spool_close(place.spool);
}

static void expect_reason(const struct spool *sp, const char *lane, const char *part)
{
	cleanup_free char *reason = lane_reason(sp, lane);

	if (!part)
		assert_null(reason);
	else if (!reason || !strstr(reason, part))
		fail_msg("%s: %s", lane, reason ? reason : "not paused");
}

/* It is the file that pauses, and not what can be read of it. */
static void test_reason_of_a_pause(void **state)
{
	struct spool *sp = open_spool();
	struct rlimit was, none;
	char big[5000];

	(void)memset(big, ' ', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	put(sp, "lanes/told", "{\"paused\":\"by bob\",\"time\":1}\n");
	put(sp, "lanes/odd", "bob");
	put(sp, "lanes/big", big);
	assert_int_equal(symlinkat("told", sp->fd, "lanes/link"), 0);
	expect_reason(sp, "told", "by bob");
	expect_reason(sp, "odd", "no reason is given");
	expect_reason(sp, "big", "larger than");
	expect_reason(sp, "link", NULL);
	expect_reason(sp, "none", NULL);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	expect_reason(sp, "told", "Too many open files");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	expect_reason(sp, "told", "by bob");
	sp = spool_close(sp);
}

/* An error may hide that its file is made, and names us: that is let go of. */
static void test_take_that_fails(void **state)
{
	struct task_name n = { .id = 7, .lane = "week" };
	struct rlimit was, none;
	struct lanes_met m;

	place = (struct spool_place){ .spool = open_spool() };
	place.self = self(place.spool, "one");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(lanes_claim(&place, &n, &m, NULL), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_string_equal(m.keys[0], "week");
	assert_string_equal(m.blocked, "");
	place.spool = spool_close(place.spool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lane_that_becomes_ours),
		cmocka_unit_test(test_array_that_becomes_ours),
		cmocka_unit_test_setup_teardown(test_release_that_fails, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_reason_of_a_pause, spool_setup,
						spool_teardown),
		cmocka_unit_test_setup_teardown(test_take_that_fails, spool_setup, spool_teardown),
	};

	return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
