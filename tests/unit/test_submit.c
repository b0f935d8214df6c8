/* SPDX-License-Identifier: MIT */

/* Ids, and who takes them (spool_world.h). */

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/mem.h"
#include "spool/instance.h"
#include "spool/submit.h"
#include "spool/task_text.h"
#include "spool_world.h"

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

/* ret_ids may be NULL. */
static void submit_many(const struct spool *sp, size_t n, uint64_t *ret_ids)
{
	cleanup_free struct task_spec **specs = xcalloc(n, sizeof(*specs));
	cleanup_free uint64_t *ids = xcalloc(n, sizeof(*ids));
	struct err e = ERR_INIT;
	size_t done = 0, used;

	for (size_t i = 0; i < n; i++)
		assert_int_equal(spec_read("{\"argv\":[\"true\"]}", 17, &specs[i], &used, &e), 0);
	assert_int_equal(submit_tasks(sp, specs, n, ids, &done, NULL, NULL, &e), 0);
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

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_last_id),
		TEST(test_ids_of_many),
		TEST(test_many_clients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
