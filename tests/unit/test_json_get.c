/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/json_get.h"

static void test_get(void **state)
{
	json_t *o = json_pack("{s:I, s:i, s:s, s:s, s:n}", "big", (json_int_t)INT64_MAX, "negative",
			      -7, "number", "12", "text", "two\nlines, cut", "null");
	char text[10];

	assert_true(json_get_u64(o, "big") == INT64_MAX);
	assert_int_equal(json_get_small(o, "big", 1000), 1000);
	assert_int_equal(json_get_small(o, "negative", 1000), 0);
	assert_int_equal(json_get_u64(o, "negative"), 0);
	assert_int_equal(json_get_u64(o, "number"), 0);
	assert_int_equal(json_get_u64(o, "null"), 0);
	assert_int_equal(json_get_u64(o, "missing"), 0);
	assert_int_equal(json_get_u64(NULL, "missing"), 0);
	json_get_text(o, "text", text, sizeof(text));
	assert_string_equal(text, "two lines");
	json_get_text(o, "big", text, sizeof(text));
	assert_string_equal(text, "");
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_get),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
