/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/enumstr.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

static void test_nearest(void **state)
{
	static const char *const words[] = { "util", "util-band", "memory", "json", NULL };
	static const char *const short_words[] = { "x", "ab", NULL };
	static const char *const options[] = { "name", "timeout", NULL };
	static const char *const commands[] = { "on",  "off",  "list",	  "logs", "stop",
						"use", "edit", "history", "wait", NULL };

	assert_string_equal(str_nearest("utl", words), "util");
	assert_string_equal(str_nearest("Memroy", words), "memory");
	assert_string_equal(str_nearest("util-bnad", words), "util-band");
	assert_null(str_nearest("something", words));
	assert_string_equal(str_nearest("mem", words), "memory");
	assert_string_equal(str_nearest("uti", words), "util");
	assert_null(str_nearest("3", short_words));
	assert_null(str_nearest("", short_words));
	assert_null(str_nearest("zz", short_words));
	assert_string_equal(str_nearest("yx", short_words), "x");
	assert_string_equal(str_nearest("time", options), "timeout");
	assert_string_equal(str_nearest("lsit", commands), "list");
	assert_string_equal(str_nearest("stpo", commands), "stop");
	assert_string_equal(str_nearest("histroy", commands), "history");
	assert_string_equal(str_nearest("of", commands), "off");
	assert_null(str_nearest("open", commands));
	assert_null(str_nearest("load", commands));
	assert_null(str_nearest("test", commands));
	assert_null(str_nearest("node", commands));
}

static void test_distance(void **state)
{
	static const struct {
		const char *a, *b;
		size_t d;
	} cases[] = {
		{ "", "", 0 },
		{ "", "abc", 3 },
		{ "abc", "", 3 },
		{ "top", "stop", 1 },
		{ "stop", "top", 1 },
		{ "ab", "ba", 1 },
		{ "Memroy", "memory", 1 },
		{ "abcd", "badc", 2 },
		{ "ca", "abc", 3 },
		{ "load", "logs", 2 },
		{ "x", "x", 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(str_distance(cases[i].a, cases[i].b), cases[i].d);
}

static void test_copy(void **state)
{
	char b[4];

	assert_true(str_copy(b, sizeof(b), "abc"));
	assert_string_equal(b, "abc");
	assert_false(str_copy(b, sizeof(b), "abcd"));
	assert_string_equal(b, "abc");
}

static void test_suffix(void **state)
{
	assert_true(str_has_suffix("a.json", ".json"));
	assert_true(str_has_suffix(".json", ".json"));
	assert_true(str_has_suffix("a", ""));
	assert_false(str_has_suffix("json", ".json"));
	assert_false(str_has_suffix("a.jsonl", ".json"));
	assert_false(str_has_suffix("", "~"));
}

static void test_to_u64(void **state)
{
	uint64_t v = 7;

	assert_int_equal(str_to_u64("18446744073709551615", &v), 0);
	assert_int_equal(v, UINT64_MAX);
	assert_int_equal(str_to_u64("18446744073709551616", &v), -ERANGE);
	assert_int_equal(str_to_u64("-1", &v), -EINVAL);
	assert_int_equal(str_to_u64(" 1", &v), -EINVAL);
	assert_int_equal(str_to_u64("1x", &v), -EINVAL);
	assert_int_equal(str_to_u64("", &v), -EINVAL);
}

static void test_strbuf(void **state)
{
	struct strbuf b = STRBUF_INIT;

	assert_string_equal(strbuf_str(&b), "");
	for (int i = 0; i < 1000; i++)
		strbuf_addf(&b, "%d,", i % 10);
	assert_int_equal(b.len, 2000);
	assert_int_equal(strlen(strbuf_str(&b)), 2000);
	strbuf_reset(&b);
	assert_string_equal(strbuf_str(&b), "");
	strbuf_add(&b, "a\0b", 3);
	assert_int_equal(b.len, 3);

	char *taken = strbuf_take(&b);

	assert_memory_equal(taken, "a\0b", 4);
	free(taken);
	assert_int_equal(b.len, 0);
}

static void numbers_are_added_in_decimal(void **state)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_add_u64(&b, 0);
	strbuf_addc(&b, ' ');
	strbuf_add_u64(&b, 907);
	strbuf_addc(&b, ' ');
	strbuf_add_u64(&b, UINT64_MAX);
	assert_string_equal(strbuf_str(&b), "0 907 18446744073709551615");
}

static void only_the_first_of_many_are_told(void **state)
{
	static const struct {
		size_t n, most;
		const char *want;
	} cases[] = {
		{ 0, 3, "" },
		{ 1, 3, "#0" },
		{ 3, 3, "#0, #1, #2" },
		{ 4, 3, "#0, #1, #2 and 1 more" },
		{ 100, 1, "#0 and 99 more" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_strbuf struct strbuf b = STRBUF_INIT;

		for (size_t j = 0; j < cases[i].n; j++)
			strbuf_add_some(&b, j, cases[i].most, "#%zu", j);
		strbuf_add_more(&b, cases[i].n, cases[i].most);
		assert_string_equal(strbuf_str(&b), cases[i].want);
	}
}

/* Of numbers that differ by more than an int holds, and of structs by their first member. */
static void numbers_are_compared_whole(void **state)
{
	struct {
		uint64_t number;
		char letter;
	} a[] = {
		{ UINT64_MAX, 'e' }, { 0, 'a' }, { 1UL << 32, 'c' }, { 1, 'b' }, { 1UL << 63, 'd' }
	};

	qsort(a, ARRAY_LEN(a), sizeof(a[0]), compare_u64);
	for (size_t i = 0; i < ARRAY_LEN(a); i++)
		assert_int_equal(a[i].letter, 'a' + i);
	assert_int_equal(compare_u64(&a[1], &a[1]), 0);
}

static void a_text_of_a_list_is_there_as_a_whole(void **state)
{
	static const struct {
		const char *list, *text;
		bool there;
	} cases[] = {
		{ "", "a", false },
		{ "a", "a", true },
		{ "a, b, c", "a", true },
		{ "a, b, c", "b", true },
		{ "a, b, c", "c", true },
		{ "a, b, c", "d", false },
		{ "ab, ba", "a", false },
		{ "ab, ba", "b", false },
		{ "xa, a", "a", true },
		{ "ax, a", "a", true },
		{ "b,a", "a", true },
		{ "b,a,c", "a", true },
		{ "b,xa", "a", false },
		{ "--gpus 1, --name x", "--gpus 1", true },
		{ "--gpus 12", "--gpus 1", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(str_lists(cases[i].list, cases[i].text), cases[i].there);
}

static void test_wrap(void **state)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_add_wrapped(&b, "one two three four", 2, 11);
	assert_string_equal(strbuf_str(&b), "one two\n  three\n  four\n");
	strbuf_reset(&b);
	strbuf_add_wrapped(&b, "a\n\nb overlongword", 0, 6);
	assert_string_equal(strbuf_str(&b), "a\n\nb\noverlongword\n");
}

static void test_enum(void **state)
{
	static const char *const names[] = { [0] = "idle", [2] = "held" };
	unsigned int v = 9;
	struct err e = ERR_INIT;

	assert_string_equal(enum_name(names, 3, 2), "held");
	assert_string_equal(enum_name(names, 3, 1), "?");
	assert_string_equal(enum_name(names, 3, 99), "?");
	assert_int_equal(enum_parse(names, 3, "held", &v, &e), 0);
	assert_int_equal(v, 2);
	assert_int_equal(enum_parse(names, 3, "hedl", &v, &e), -EINVAL);
	assert_non_null(strstr(e.text, "did you mean held?"));
}

static void test_err(void **state)
{
	struct err e = ERR_INIT;

	assert_int_equal(err_sys(&e, EACCES, "open %s", "/x"), -EACCES);
	assert_int_equal(err_wrap(&e, "cannot hold GPU %d", 2), -EACCES);
	assert_string_equal(e.text, "cannot hold GPU 2: open /x: Permission denied");
}

/* As a shell reads them back. */
static void test_words(void **state)
{
	static const char *const words[] = { "sh",   "-c", "echo 'a b'",     "",       "x=1,2",
					     "a\nb", "*",  "\t\033[1m'\n\\", "caf\xe9" };
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		strbuf_add_word(&b, words[i]);
	assert_string_equal(strbuf_str(&b), "sh -c 'echo '\\''a b'\\''' '' x=1,2 'a\nb' '*' "
					    "$'\\011\\033[1m\\'\\n\\\\' $'caf\\351'");
	strbuf_reset(&b);
	for (size_t i = 0; i < 6; i++)
		strbuf_add_word_in_line(&b, words[i]);
	strbuf_add_word_in_line(&b, "a\tb");
	assert_string_equal(strbuf_str(&b),
			    "sh -c 'echo '\\''a b'\\''' '' x=1,2 $'a\\nb' $'a\\011b'");
}

static void bytes_survive_base64(void **state)
{
	static const char *const cases[][2] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "\xff\xfe", "//4=" },
		{ "\xfb", "+w==" },
		{ "CAF=\xe9", "Q0FGPek=" },
	};
	static const char *const wrong[] = {
		"Zg", "Zg=", "Z===", "Zg==Zg==", "Z!==", "====", "AA=="
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *coded = str_to_base64(cases[i][0]);
		cleanup_free char *bytes = str_from_base64(cases[i][1]);

		assert_string_equal(coded, cases[i][1]);
		assert_non_null(bytes);
		assert_string_equal(bytes, cases[i][0]);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		assert_null(str_from_base64(wrong[i]));
}

static void figures_are_no_news(void **state)
{
	static const struct {
		const char *was, *text;
		bool same;
	} cases[] = {
		{ "waits for 2 GPUs: 1.5 free", "waits for 10 GPUs: 0 free", true },
		{ "for 9s", "for 10s", true },
		{ "", "", true },
		{ "", "12", true },
		{ "GPU 0 free", "GPU 0 busy", false },
		{ "waits", "waits 3", false },
		{ "waits for", "waits", false },
		{ NULL, "waits", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(str_same_but_figures(cases[i].was, cases[i].text), cases[i].same);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_survive_base64),
		cmocka_unit_test(figures_are_no_news),
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_suffix),
		cmocka_unit_test(test_to_u64),
		cmocka_unit_test(test_strbuf),
		cmocka_unit_test(numbers_are_added_in_decimal),
		cmocka_unit_test(only_the_first_of_many_are_told),
		cmocka_unit_test(numbers_are_compared_whole),
		cmocka_unit_test(a_text_of_a_list_is_there_as_a_whole),
		cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_enum),
		cmocka_unit_test(test_err),
		cmocka_unit_test(test_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
