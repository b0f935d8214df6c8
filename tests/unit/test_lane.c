/* SPDX-License-Identifier: MIT */

/* Who owns a lane, seen by several agents of one spool. */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"
#include "spool/lane.h"
#include "spool/own.h"
#include "spool_world.h"

/* A file server that answers with an error: what a call was to make is there all the same, or
 * another agent's, who was faster. */
static bool link_fails;
static const char *faster; /* NULL: nobody was */

int __real_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);

static struct spool *sp;

static void come(const char *agent)
{
	char path[SPOOL_PATH_MAX];
	struct heartbeat b = { .count = 1 };

	assert_int_equal(heartbeat_write(sp, heartbeat_agent_path(agent, path), &b, NULL), 0);
}

static void go(const char *agent)
{
	char path[SPOOL_PATH_MAX];

	assert_int_equal(unlinkat(sp->fd, heartbeat_agent_path(agent, path), 0), 0);
}

int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
	cleanup_free char *text = xasprintf("{\"agent\":\"%s\"}\n", faster ? faster : "");

	if (!link_fails)
		return __real_linkat(from_fd, from, to_fd, to, flags);
	if (faster)
		assert_int_equal(spool_write_new(sp, to, text, strlen(text), false, NULL), 0);
	else
		assert_int_equal(__real_linkat(from_fd, from, to_fd, to, flags), 0);
	errno = EIO;
	return -1;
}

/* Names that nobody of us gives a file, and what is in one. */
static void test_odd_files(void **state)
{
	static const char *const odd[] = { "odd,e18446744073709551615",
					   "odd,e18446744073709551614",
					   "odd,e007",
					   "odd,e9999999999",
					   "odd,e",
					   "odd,e-1" };
	static const char owner_text[] = "{\"agent\":\"../agents/a\"}\n";
	uint64_t a = LANE_NONE;
	char owner[NAME_AGENT_MAX + 1], path[SPOOL_PATH_MAX];

	come("a");
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		assert_int_equal(spool_write_new(sp, spool_path(SPOOL_LANES, odd[i], path), "", 0,
						 false, NULL),
				 0);
	assert_int_equal(
		spool_write_new(sp, "lanes/odd,e3", owner_text, strlen(owner_text), false, NULL),
		0);
	assert_int_equal(lane_take(sp, "odd", "b", &a, owner, NULL), 0);
	assert_int_equal(a, 4);
	assert_int_equal(lane_release(sp, "odd", "b", a, true, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(odd); i++)
		assert_int_equal(unlinkat(sp->fd, spool_path(SPOOL_LANES, odd[i], path), 0), 0);
	go("a");
}

static void test_one_owner(void **state)
{
	uint64_t a = LANE_NONE, b = LANE_NONE;
	char owner[NAME_AGENT_MAX + 1];

	come("a");
	come("b");
	assert_int_equal(lane_take(sp, "week", "a", &a, owner, NULL), 0);
	assert_int_equal(a, 0);
	assert_int_equal(lane_take(sp, "week", "b", &b, owner, NULL), LANE_ELSEWHERE);
	assert_string_equal(owner, "a");
	assert_int_equal(b, LANE_NONE);
	/* Another one is another one, whatever its name begins with. */
	assert_int_equal(lane_take(sp, "week2", "b", &b, owner, NULL), 0);
	assert_int_equal(lane_release(sp, "week2", "b", b, true, NULL), 0);

	/* A process of the same agent that comes after a crash knows no epoch. */
	a = LANE_NONE;
	assert_int_equal(lane_take(sp, "week", "a", &a, owner, NULL), 0);
	assert_int_equal(a, 0);

	assert_int_equal(lane_release(sp, "week", "a", a, false, NULL), 0);
	b = LANE_NONE;
	assert_int_equal(lane_take(sp, "week", "b", &b, owner, NULL), 0);
	assert_int_equal(b, 1);
	assert_int_equal(count_files(sp, "lanes"), 1);
	/* Released twice, or by who has it no more: nothing happens to the other's. */
	assert_int_equal(lane_release(sp, "week", "a", 0, false, NULL), 0);
	assert_int_equal(lane_release(sp, "week", "a", 1, false, NULL), 0);
	assert_int_equal(lane_take(sp, "week", "a", &a, owner, NULL), LANE_ELSEWHERE);
	assert_string_equal(owner, "b");
	assert_int_equal(a, LANE_NONE);
	go("a");
	go("b");
}

static void test_owner_is_gone(void **state)
{
	uint64_t a = LANE_NONE, b = LANE_NONE, c = LANE_NONE;
	char owner[NAME_AGENT_MAX + 1];

	come("a");
	come("b");
	come("c");
	assert_int_equal(lane_take(sp, "gone", "a", &a, owner, NULL), 0);
	go("a");
	assert_int_equal(lane_take(sp, "gone", "b", &b, owner, NULL), 0);
	assert_int_equal(b, a + 1);
	assert_int_equal(lane_take(sp, "gone", "c", &c, owner, NULL), LANE_ELSEWHERE);
	/* The one who was thought to be gone finds out. */
	come("a");
	assert_int_equal(lane_take(sp, "gone", "a", &a, owner, NULL), LANE_ELSEWHERE);
	assert_string_equal(owner, "b");
	go("a");
	go("b");
	go("c");
}

/* He makes the file that would be next by what he saw long ago. */
static void test_old_view(void **state)
{
	uint64_t a = LANE_NONE, c = LANE_NONE;
	char owner[NAME_AGENT_MAX + 1];

	come("a");
	come("c");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(lane_take(sp, "old", "a", &a, owner, NULL), 0);
		assert_int_equal(lane_release(sp, "old", "a", a, false, NULL), 0);
		a = LANE_NONE;
	}
	assert_int_equal(lane_take(sp, "old", "a", &a, owner, NULL), 0);
	assert_int_equal(a, 3);
	assert_int_equal(
		spool_write_new(sp, "lanes/old,e1", "{\"agent\":\"c\"}\n", 14, false, NULL), 0);
	assert_int_equal(lane_take(sp, "old", "c", &c, owner, NULL), LANE_ELSEWHERE);
	assert_string_equal(owner, "a");
	go("a");
	go("c");
}

static void note(void *data, const char *key)
{
	(void)strcat((char *)data, key);
	(void)strcat((char *)data, " ");
}

static void test_what_was_left(void **state)
{
	uint64_t e = LANE_NONE;
	char owner[NAME_AGENT_MAX + 1], key[LANE_KEY_MAX], found[256] = "";

	come("x");
	assert_int_equal(lane_take(sp, lane_of_array(42, key), "x", &e, owner, NULL), 0);
	assert_string_equal(key, "%42");
	assert_int_equal(lane_each_of(sp, "x", note, found, NULL), 0);
	assert_string_equal(found, "%42 ");

	/* One that cannot be read may be: there is room for the directory's descriptor alone. */
	struct rlimit was, one;
	int next = dup(0);

	(void)close(next);
	found[0] = '\0';
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	one = (struct rlimit){ .rlim_cur = (rlim_t)next + 1, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &one), 0);
	assert_int_equal(lane_each_of(sp, "nobody", note, found, NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_non_null(strstr(found, "%42 "));
	assert_int_equal(lane_release(sp, key, "x", e, true, NULL), 0);
	found[0] = '\0';
	assert_int_equal(lane_each_of(sp, "x", note, found, NULL), 0);
	assert_string_equal(found, "");
}

/* An error while a lane is taken leaves no file of ours, and takes away none of another's. */
static void test_failed_take(void **state)
{
	uint64_t e = LANE_NONE;
	char owner[NAME_AGENT_MAX + 1];
	int before = count_files(sp, "lanes");

	come("f");
	come("g");
	link_fails = true;
	assert_int_equal(lane_take(sp, "broken", "f", &e, owner, NULL), -EIO);
	assert_int_equal(count_files(sp, "lanes"), before);

	faster = "g";
	assert_int_equal(lane_take(sp, "broken", "f", &e, owner, NULL), -EIO);
	link_fails = false;
	faster = NULL;
	assert_int_equal(count_files(sp, "lanes"), before + 1);
	assert_int_equal(lane_take(sp, "broken", "f", &e, owner, NULL), LANE_ELSEWHERE);
	assert_string_equal(owner, "g");
	go("f");
	go("g");
}

static int set_up(void **state)
{
	if (spool_setup(state) != 0)
		return -1;
	sp = open_spool();
	return 0;
}

static int tear_down(void **state)
{
	sp = spool_close(sp);
	return spool_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_odd_files),     cmocka_unit_test(test_one_owner),
		cmocka_unit_test(test_owner_is_gone), cmocka_unit_test(test_old_view),
		cmocka_unit_test(test_what_was_left), cmocka_unit_test(test_failed_take),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
