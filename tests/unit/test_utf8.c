/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

static void test_names(void **state)
{
	static const char *const good[] = { "train.sh",
					    "\u8bad\u7ec3.sh",
					    "\u00e9t\u00e9",
					    "e\u0301",
					    "\u043f\u0440\u0438\u0432\u0435\u0442",
					    "_+1",
					    "\U0001f680",
					    "\U00020000" };
	static const char *const bad[] = {
		"",
		".x",
		"-x",
		"a b",
		"a,b",
		"a/b",
		"a\nb",
		"\xff",
		"\xc3",		    /* cut */
		"\xe8\xae",	    /* cut */
		"\xc0\xaf",	    /* an overlong slash */
		"\xed\xa0\x80",	    /* half of a pair */
		"\xf4\x90\x80\x80", /* behind the last */
		"\xc2\x85",	    /* a control */
		"\u00a0x",
		"a\u3000b",
		"a\u200bb",
		"a\u202eb",
		"a\u2066b",
		"\ufeffa",
		"\ue000",
		"\ufffe",
		"\U0001fffe",
		"\U000e0041",
		"12345678901234567890123456789012345678901234567890123456789012345",
		"123456789012345678901234567890123456789012345678901234567890123\u00e9",
	};

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (!utf8_is_name(good[i], 64))
			fail_msg("%s is a name", good[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (utf8_is_name(bad[i], 64))
			fail_msg("\"%s\" (%zu) is no name", bad[i], i);
}

static void test_made_names(void **state)
{
	static const char *const cases[][2] = {
		{ "\u8bad\u7ec3.s", "\u8bad\u7ec3.s" },
		{ "a,b c", "a_b_c" },
		{ ".-x", "x" },
		{ "...", "" },
		{ "a\xff\u202eb", "a__b" },
		{ "1234567\u8bad", "1234567" },
		{ "12345\u8bad9", "12345\u8bad" },
	};
	char name[9];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		utf8_make_name(cases[i][0], name, 8);
		assert_string_equal(name, cases[i][1]);
		assert_true(!name[0] || utf8_is_name(name, 8));
	}
}

static void test_columns(void **state)
{
	static const char text[] = "a\u8bad\u00e9e\u0301\xff";

	assert_int_equal(utf8_columns(text), 1 + 2 + 1 + 1 + 0 + 1);
	assert_int_equal(utf8_bytes_of(text, 0), 0);
	assert_int_equal(utf8_bytes_of(text, 2), 1); /* the wide one does not fit */
	assert_int_equal(utf8_bytes_of(text, 3), 4);
	assert_int_equal(utf8_bytes_of(text, 5), 4 + 2 + 3); /* with its mark */
	assert_int_equal(utf8_bytes_of(text, 99), strlen(text));
	assert_int_equal(utf8_columns(""), 0);
}

static void test_clean(void **state)
{
	static const char *const cases[][2] = {
		{ "", "" },
		{ "python 3", "python 3" },
		{ "\u8bad\u7ec3 \u00e9", "\u8bad\u7ec3 \u00e9" },
		{ "caf\xc3", "caf?" }, /* the kernel cuts names in the middle of a character */
		{ "a\xff\xfe"
		  "b",
		  "a??b" },
		{ "\xe8\xae", "??" },
		{ "\033[31mR\033[0m", "?[31mR?[0m" },
		{ "x\n12:00:00 gpu\t1\r", "x 12:00:00 gpu 1 " },
		{ "a\x7f\xc2\x9b"
		  "1mb",
		  "a??1mb" },
		{ "a\u202e"
		  "b\u2067"
		  "c",
		  "a?b?c" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[64];

		assert_true(str_copy(text, sizeof(text), cases[i][0]));
		assert_ptr_equal(utf8_clean(text), text);
		assert_string_equal(text, cases[i][1]);
	}
}

static void test_whole(void **state)
{
	static const char text[] = "a\u00e9\u8bad\U0001f680z";
	static const size_t expect[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11 };
	char cut[8];

	for (size_t len = 0; len < ARRAY_LEN(expect); len++)
		assert_int_equal(utf8_whole(text, len), expect[len]);
	assert_int_equal(utf8_whole("a\x80\x80\x80\x80", 5), 5); /* no better for being cut */
	assert_false(str_copy(cut, 6, text));
	assert_string_equal(cut, "a\u00e9");
	assert_string_equal(str_print(cut, 7, "%s", text), "a\u00e9\u8bad");
	assert_string_equal(str_print(cut, 3, "%s", text), "a");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	cmocka_unit_test(test_made_names),
		cmocka_unit_test(test_columns), cmocka_unit_test(test_clean),
		cmocka_unit_test(test_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
