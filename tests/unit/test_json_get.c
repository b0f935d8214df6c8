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

static void another_type_reads_as_nothing(void **state)
{
	json_t *o = json_pack("{s:s, s:b, s:b, s:f, s:i}", "text", "yes", "on", 1, "off", 0, "real",
			      0.5, "whole", 3);

	assert_string_equal(json_get_str(o, "text"), "yes");
	assert_null(json_get_str(o, "on"));
	assert_null(json_get_str(o, "missing"));
	assert_null(json_get_str(NULL, "text"));
	assert_true(json_get_flag(o, "on"));
	assert_false(json_get_flag(o, "off"));
	assert_false(json_get_flag(o, "text"));
	assert_false(json_get_flag(o, "whole"));
	assert_true(json_get_num(o, "real") == 0.5);
	assert_true(json_get_num(o, "whole") == 3);
	assert_true(json_get_num(o, "text") == 0);
	assert_int_equal(json_get_u64(o, "real"), 0);
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_get),
		cmocka_unit_test(another_type_reads_as_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
