/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/value.h"
#include "base/value_json.h"
#include "base/value_text.h"

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
	{ { VALUE_UINT, 2, 5 }, "6", NULL, "\"6\" is out of range, 2 to 5" },
	{ { VALUE_UINT, 2, 5 }, "1", NULL, "\"1\" is out of range, 2 to 5" },
	{ { VALUE_UINT }, "-1", NULL, "is less than 0" },
	{ { VALUE_SIZE }, "1.5G", "1.5G", NULL, "1610612736" },
	{ { VALUE_DURATION, 1000 }, "0", NULL, "\"0\" is out of range, 1s to 3650d" },
	{ { VALUE_DURATION }, "90m", "1h30m", NULL, "5400.0" },
	{ { VALUE_DURATION }, "3650d", "3650d", NULL, "315360000.0" },
	{ { VALUE_DURATION }, "213504d", NULL, "\"213504d\" is out of range, 0 to 3650d" },
	{ { VALUE_DURATION, .max = 500 }, "1s", NULL, "\"1s\" is out of range, 0 to 500ms" },
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
	/* What only task files had before, as an option would be. */
	{ { VALUE_COUNT, 0, 9, .word = "all" }, "all", "all", NULL, "\"all\"" },
	{ { VALUE_COUNT, 0, 9, .word = "all" }, "9", "9", NULL, "9" },
	{ { VALUE_COUNT, 0, 9, .word = "all" }, "10", NULL, "10 is out of range, 0 to 9" },
	{ { VALUE_COUNT, 0, 9, .word = "all" }, "forever", NULL, "must be a whole number or all" },
	{ { VALUE_FACTOR, 1000, 100000 }, "x1.5", "1.5", NULL, "1.5" },
	{ { VALUE_FACTOR, 1000, 100000 }, "0.5", NULL, "0.5 is out of range, 1 to 100" },
	{ { VALUE_OCTAL, .max = 0777 }, "22", "022", NULL, "\"022\"" },
	{ { VALUE_OCTAL, .max = 0777 }, "1000", NULL, "octal digits" },
	{ { VALUE_RANGE, .max = 100 }, "7", "7-7", NULL, "\"7-7\"" },
	{ { VALUE_RANGE, .max = 100 }, "0-100", NULL, "more than 100 elements" },
	{ { VALUE_SIGNAL }, "sigusr1", "USR1", NULL, "\"USR1\"" },
	{ { VALUE_TEXT, .max = 3 }, "a\n", "a\n", NULL, "\"a\\n\"" },
	{ { VALUE_TEXT, .max = 3 }, "abcd", NULL, "longer than 3B" },
	{ { VALUE_TEXT }, "\xff", NULL, "not UTF-8" },
	{ { VALUE_BYTES_PATH, .max = 9 }, "/\xff", "/\xff", NULL, "{\"base64\": \"L/8=\"}" },
	{ { VALUE_TASK_NAME, .max = 4 }, "\xc3\xa9t\xc3\xa9", NULL, "up to 4 bytes" },
	{ { VALUE_TEXTS }, "a,b\x1e\x1e", "a,b\x1e\x1e", NULL, "[\"a,b\", \"\", \"\"]" },
	{ { VALUE_BYTES },
	  "A=1,2\x1e\xff",
	  "A=1,2\x1e\xff",
	  NULL,
	  "[\"A=1,2\", {\"base64\": \"/w==\"}]" },
	{ { VALUE_IDS, .min = 1 },
	  "3 4,5\x1e"
	  "6",
	  "3,4,5,6",
	  NULL,
	  "[3, 4, 5, 6]" },
	{ { VALUE_IDS, .min = 1 },
	  "3,\x1e"
	  "4",
	  NULL,
	  "entry 2: must be the id of a task" },
	{ { VALUE_IDS, .min = 1 }, "\xff", NULL, "entry 1: must be the id of a task" },
	{ { VALUE_IDS, .min = 1 }, "3,,4", NULL, "entry 2: must be the id of a task" },
	{ { VALUE_IDS, .min = 1 }, "0", NULL, "entry 1: 0 is less than 1" },
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

/* A copy of a field owns what is in it; what is refused leaves the field as it was. */
static void test_fields(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct value v = { 0 }, copy = { .type = cases[i].spec.type };

		if (!cases[i].shown || value_parse(&cases[i].spec, cases[i].text, &v, NULL) < 0)
			continue;
		value_copy_field(v.type, &copy.num, &v.num);
		value_clear(&v);
		assert_int_equal(value_is_there(v.type, &v.num),
				 value_is(v.type, VALUE_IS_NUMBER) || v.type == VALUE_MEM ||
					 v.type == VALUE_BAND || v.type == VALUE_GPUS);

		cleanup_free char *shown = value_format(&cases[i].spec, &copy);

		assert_string_equal(shown, cases[i].shown);
		value_clear(&copy);
	}
}

static void test_refused(void **state)
{
	static const struct value_spec ids = { VALUE_IDS, .min = 1 },
				       bytes = { VALUE_BYTES, .max = 2 };
	struct uint_list list = { .n = 0 };
	struct text_list texts = { .n = 0 };
	json_t *good = json_pack("[i,i]", 1, 2), *bad = json_pack("[i,i]", 3, 0);
	json_t *words = json_pack("[s]", "a"), *many = json_pack("[s,s,s]", "b", "c", "d");

	assert_int_equal(value_from_json(&ids, good, &list, NULL), 0);
	assert_int_equal(value_from_json(&ids, bad, &list, NULL), -ERANGE);
	assert_true(list.n == 2 && list.nums[1] == 2);
	assert_int_equal(value_from_json(&bytes, words, &texts, NULL), 0);
	assert_int_equal(value_from_json(&bytes, many, &texts, NULL), -ERANGE);
	assert_true(texts.n == 1 && strcmp(texts.texts[0], "a") == 0);
	uint_list_clear(&list);
	text_list_clear(&texts);
	json_decref(good);
	json_decref(bad);
	json_decref(words);
	json_decref(many);
}

/* The tables of value_text.c and value_json.c have what value.c calls without asking. */
static void test_each_type_is_read_and_written(void **state)
{
	for (unsigned int type = 0; type < VALUE_TYPE_MAX; type++) {
		struct value_spec spec = { .type = type, .word = "word" };
		char hint[VALUE_KEY_HINT_MAX];

		assert_non_null(value_texts[type].write);
		assert_true(value_texts[type].read || value_jsons[type].read);
		assert_non_null(value_hint(type));
		/* A key of a file has it if it can be read there. */
		if (value_jsons[type].read)
			assert_true(strlen(value_key_hint(&spec, hint)) > 0);
		assert_true(!value_is(type, VALUE_IN_WORDS) || value_is(type, VALUE_IS_NUMBER));
		assert_true(!value_is(type, VALUE_IS_APART) || value_is(type, VALUE_IS_MANY));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_each_type_is_read_and_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
