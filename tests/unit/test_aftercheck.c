/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_world.h"
#include "spool_world.h"
#include "unit.h"

#include "base/mem.h"
#include "cli/task/aftercheck.h"
#include "spool/instance.h"
#include "spool/task_text.h"

/* 1 is done, 2 has failed, 3 waits for 1, 4 for 3, 5 for nothing, 6 for whatever becomes of 4. */
static struct spool *world(void)
{
	static const char *const after[] = {
		"", "", "\"after\":[1],", "\"after\":[3],", "", "\"after_any\":[4],"
	};
	struct spool *sp = open_spool();
	struct claimer me = self(sp, "n1");

	for (size_t i = 0; i < ARRAY_LEN(after); i++) {
		cleanup_free char *json =
			xasprintf("{%s\"argv\":[\"true\"],\"name\":\"t\"}", after[i]);

		assert_int_equal(submit(sp, json), i + 1);
	}
	for (uint64_t id = 1; id <= 2; id++) {
		struct claim c = claim(sp, id, &me);
		struct spool_end end = done(&c);

		end.result = id == 1 ? RESULT_DONE : RESULT_FAILED;
		assert_int_equal(transit_end(sp, NULL, &c, &end, NULL), 0);
	}
	return sp;
}

static const struct {
	uint64_t id; /* of the task; 0: it has none yet */
	const char *spec;
	int r;
	const char *error; /* or a warning, where r is 0 */
} cases[] = {
	{ 0, "{}", 0, "" },
	{ 0, "{\"after\":[1,3]}", 0, "" },
	{ 0, "{\"after\":[9]}", -ENOENT, "there is no task 9 to wait for" },
	{ 0, "{\"after_any\":[1,9]}", -ENOENT, "there is no task 9 to wait for" },
	{ 0, "{\"after\":[2]}", 0, "2" },
	{ 0, "{\"after_any\":[2]}", 0, "" }, /* it has ended, and that is all that is asked for */
	{ 5, "{\"after\":[4]}", 0, "" },
	{ 5, "{\"after\":[5]}", -ELOOP, "task 5 would wait for itself: 5 -> 5" },
	{ 3, "{\"after\":[4]}", -ELOOP, "task 3 would wait for itself: 3 -> 4 -> 3" },
	{ 3, "{\"after\":[1,5],\"after_any\":[6]}", -ELOOP,
	  "task 3 would wait for itself: 3 -> 6 -> 4 -> 3" },
	{ 4, "{\"after\":[3]}", 0, "" },
};

static void test_after(void **state)
{
	struct spool *sp = world();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct after_check c = { .sp = sp };
		struct task_spec *s = spec_new();
		json_t *o = json_loads(cases[i].spec, 0, NULL), *value;
		struct err e = ERR_INIT;
		struct printing p;
		cleanup_free char *said = NULL;
		const char *key;
		int r;

		json_object_foreach(o, key, value)
			assert_int_equal(spec_set_json(s, key, value, NULL), 0);
		json_decref(o);
		p = printing_begin(STDERR_FILENO);
		r = after_check(&c, cases[i].id, s, &e);
		said = printing_end(&p);
		if (r != cases[i].r || !strstr(r < 0 ? e.text : said, cases[i].error) ||
		    (r == 0 && !cases[i].error[0] && said[0]))
			fail_msg("%s of %d: %d, %s, %s", cases[i].spec, (int)cases[i].id, r, e.text,
				 said);
		after_check_clear(&c);
		(void)spec_free(s);
	}
	(void)spool_close(sp);
}

/* What has failed is warned of once, however many wait for it. */
static void test_once(void **state)
{
	struct spool *sp = world();
	struct after_check c = { .sp = sp };
	struct task_spec *s = spec_new();
	cleanup_free char *said = NULL;
	struct printing p;
	size_t lines = 0;

	assert_int_equal(spec_set_text(s, "after", "2", NULL), 0);
	p = printing_begin(STDERR_FILENO);
	for (int i = 0; i < 3; i++)
		assert_int_equal(after_check(&c, 0, s, NULL), 0);
	said = printing_end(&p);
	for (const char *at = said; (at = strstr(at, "tenure: warning: ")); at++)
		lines++;
	assert_int_equal(lines, 1);
	after_check_clear(&c);
	(void)spec_free(s);
	(void)spool_close(sp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_after, spool_setup, spool_teardown),
		cmocka_unit_test_setup_teardown(test_once, spool_setup, spool_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
