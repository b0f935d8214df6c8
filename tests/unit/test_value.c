/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/value.h"

static const char *const colours[] = { "red", "green", NULL };

/* text is read and shown again as shown; NULL: it is refused and error is part of the reason. */
static const struct {
	struct value_spec spec;
	const char *text;
	const char *shown;
	const char *error;
	const char *json;
} cases[] = {
	{ { VALUE_FLAG }, "Yes", "true", NULL, "true" },
	{ { VALUE_FLAG }, "maybe", NULL, "neither true nor false" },
	{ { VALUE_UINT, 2, 5 }, "5", "5", NULL, "5" },
	{ { VALUE_UINT, 2, 5 }, "6", NULL, "\"6\" is more than 5" },
	{ { VALUE_UINT, 2, 5 }, "1", NULL, "\"1\" is less than 2" },
	{ { VALUE_UINT }, "-1", NULL, "not a whole number" },
	{ { VALUE_SIZE }, "1.5G", "1.5G", NULL, "1610612736" },
	{ { VALUE_DURATION, 1000 }, "0", NULL, "less than 1s" },
	{ { VALUE_DURATION }, "90m", "1h30m", NULL, "5400.0" },
	{ { VALUE_DURATION }, "3650d", "3650d", NULL, "315360000.0" },
	{ { VALUE_DURATION }, "213504d", NULL, "\"213504d\" is more than 3650d" },
	{ { VALUE_DURATION, .max = 500 }, "1s", NULL, "more than 500ms" },
	{ { VALUE_PERCENT, 10 }, "75", "75%", NULL, "75.0" },
	{ { VALUE_PERCENT, 10 }, "0.5", NULL, "less than 1%" },
	{ { VALUE_CHOICE, .choices = colours }, "green", "green", NULL, "\"green\"" },
	{ { VALUE_CHOICE, .choices = colours }, "blue", NULL, "not one of red, green" },
	{ { VALUE_MEM }, "all-2G", "all-2G", NULL, "\"all-2G\"" },
	{ { VALUE_BAND }, "50, 70, 85", "50,70,85", NULL, "[50, 70, 85]" },
	{ { VALUE_GPUS }, "0-2 GPU-ab", "0,1,2,GPU-ab" },
	{ { VALUE_STRING }, "a b", "a b", NULL, "\"a b\"" },
	{ { VALUE_STRING }, "a\033[31m", NULL, "control character" },
	{ { VALUE_PATH }, "/dev", "/dev" },
	{ { VALUE_PATH }, "dev", NULL, "not an absolute path" },
	{ { VALUE_PATH }, "~/a\033", NULL, "control character" },
	{ { VALUE_NAME }, "night-1.x", "night-1.x" },
	{ { VALUE_NAME }, "../x", NULL, "not a name" },
	{ { VALUE_NAME }, "a/b", NULL, "not a name" },
	{ { VALUE_NAME }, "", NULL, "not a name" },
	{ { VALUE_WORDS }, "alice, @gpu", "alice,@gpu", NULL, "[\"alice\", \"@gpu\"]" },
	{ { VALUE_WORDS }, "", "", NULL, "[]" },
	{ { VALUE_UINTS }, "1,22", "1,22", NULL, "[1, 22]" },
	{ { VALUE_UINTS }, "1,x", NULL, "\"x\" is not a whole number" },
};

static void check_json(size_t i, const struct value *v)
{
	json_t *json = value_json(&cases[i].spec, v);
	char *text = json_dumps(json, JSON_ENCODE_ANY);

	assert_string_equal(text, cases[i].json);
	free(text);
	json_decref(json);
}

static void test_table(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct value v = { 0 };
		struct err e = ERR_INIT;
		int r = value_parse(&cases[i].spec, cases[i].text, &v, &e);

		if ((r == 0) != !!cases[i].shown)
			fail_msg("\"%s\" gave %d: %s", cases[i].text, r, e.text);
		if (r < 0) {
			if (!strstr(e.text, cases[i].error))
				fail_msg("\"%s\": %s", cases[i].text, e.text);
			continue;
		}

		cleanup_free char *shown = value_format(&cases[i].spec, &v);

		assert_string_equal(shown, cases[i].shown);
		if (cases[i].json)
			check_json(i, &v);
		value_clear(&v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_table) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
