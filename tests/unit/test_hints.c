/* SPDX-License-Identifier: MIT */

/* Opens of the device nodes: what is a hint, and for how long. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "hold/guard/hints.h"
#include "hold/guard/timings.h"

#define MS NS_PER_MS

static void test_tail(void **state)
{
	struct hints h = { .fd = -1 };
	uint64_t t = 100 * NS_PER_S;

	assert_false(hints_active(&h, t));
	hints_count(&h, IN_OPEN, t);
	assert_true(hints_active(&h, t));
	/* A program that keeps its nodes open: until 3 s after its last open. */
	assert_true(hints_active(&h, t + HINT_TAIL_NS - 1));
	hints_count(&h, IN_OPEN, t + 2 * NS_PER_S);
	assert_true(hints_active(&h, t + 2 * NS_PER_S + HINT_TAIL_NS - 1));
	assert_false(hints_active(&h, t + 2 * NS_PER_S + HINT_TAIL_NS));
	assert_int_equal(h.first_ns, 0);
	assert_int_equal(h.balance, 0);
}

static void test_balance(void **state)
{
	struct hints h = { .fd = -1 };
	uint64_t t = 100 * NS_PER_S;

	for (int i = 0; i < 8; i++)
		hints_count(&h, IN_OPEN, t + (uint64_t)i * MS);
	for (int i = 0; i < 8; i++)
		hints_count(&h, i % 2 ? IN_CLOSE_WRITE : IN_CLOSE_NOWRITE, t + 20 * MS);
	/* nvidia-smi came and went: short, but never at once. */
	assert_true(hints_active(&h, t + 7 * MS + HINT_BALANCED_NS - 1));
	assert_false(hints_active(&h, t + 7 * MS + HINT_BALANCED_NS));
	/* Closes of programs that were there before do not count against the next hint. */
	hints_count(&h, IN_CLOSE_WRITE, t + NS_PER_S);
	hints_count(&h, IN_OPEN, t + 2 * NS_PER_S);
	assert_int_equal(h.balance, 1);
	assert_true(hints_active(&h, t + 2 * NS_PER_S + HINT_TAIL_NS - 1));
}

/* As of somebody who opens nodes faster than that is read. */
static void test_a_turn_ends(void **state)
{
	struct hints h = { .fd = open("/dev/zero", O_RDONLY | O_CLOEXEC) };

	assert_true(h.fd >= 0);
	(void)alarm(60);
	assert_false(hints_read(&h, NS_PER_S));
	(void)alarm(0);
	assert_int_equal(close(h.fd), 0);
}

static void test_overflow(void **state)
{
	struct hints h = { .fd = -1 };

	hints_count(&h, IN_Q_OVERFLOW, 5 * NS_PER_S);
	assert_true(hints_active(&h, 5 * NS_PER_S));
	hints_count(&h, IN_IGNORED, 6 * NS_PER_S);
	assert_int_equal(h.last_ns, 5 * NS_PER_S);
}

static void test_ring(void **state)
{
	struct hints h = { .fd = -1 };

	assert_int_equal(hints_open_since(&h, 0), 0);
	for (uint64_t i = 1; i <= 3 * HINT_OPENS; i++)
		hints_count(&h, IN_OPEN, i * MS);
	assert_int_equal(hints_open_since(&h, 3 * HINT_OPENS * MS), 3 * HINT_OPENS * MS);
	assert_int_equal(hints_open_since(&h, 3 * HINT_OPENS * MS + 1), 0);
	assert_int_equal(hints_open_since(&h, 600 * MS - 1), 600 * MS);
	/* Older ones are forgotten: the first that is remembered. */
	assert_int_equal(hints_open_since(&h, 0), (2 * HINT_OPENS + 1) * MS);
}

static void touch(const char *dir, const char *name)
{
	cleanup_free char *path = xasprintf("%s/%s", dir, name);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	(void)close(fd);
}

static void test_real_nodes(void **state)
{
	char dir[] = "/tmp/tenure-hints-XXXXXX";
	static const char *const names[] = { "nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps",
					     "nvidia1" };
	struct hints h;
	struct err e = ERR_INIT;

	assert_non_null(mkdtemp(dir));
	hints_open(&h, dir, &e);
	assert_int_equal(h.n_watches, 0);
	assert_non_null(strstr(e.text, "no device nodes"));
	for (size_t i = 0; i < 4; i++)
		touch(dir, names[i]);
	hints_rescan(&h, dir);
	assert_int_equal(h.n_watches, 3);
	assert_false(hints_read(&h, 1));
	touch(dir, "nvidia-caps");
	assert_false(hints_read(&h, 1));
	touch(dir, "nvidia0");
	assert_true(hints_read(&h, 2));
	assert_int_equal(h.last_ns, 2);
	assert_int_equal(h.balance, 0);
	/* A node that comes later is watched after the next scan, and none of them twice. */
	touch(dir, "nvidia1");
	hints_rescan(&h, dir);
	assert_int_equal(h.n_watches, 4);
	touch(dir, "nvidia1");
	touch(dir, "nvidia0");
	assert_true(hints_read(&h, 3));
	assert_int_equal(h.n_opens, 3);
	hints_close(&h);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		cleanup_free char *path = xasprintf("%s/%s", dir, names[i]);

		(void)unlink(path);
	}
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tail),	   cmocka_unit_test(test_balance),
		cmocka_unit_test(test_overflow),   cmocka_unit_test(test_ring),
		cmocka_unit_test(test_real_nodes), cmocka_unit_test(test_a_turn_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
