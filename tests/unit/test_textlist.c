/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "unit.h"

#include "base/mem.h"
#include "base/textlist.h"

static void test_grow(void **state)
{
	int *p = NULL;

	for (size_t i = 0; i < 1000; i++) {
		p = xgrow(p, i, sizeof(*p));
		p[i] = (int)i;
	}
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(p[i], (int)i);
	free(p);
}

static void test_list(void **state)
{
	struct text_list l = { 0 }, copy;

	for (int i = 0; i < 100; i++)
		text_list_take(&l, xasprintf("%d", i));
	text_list_add(&l, "100");
	copy = text_list_copy(&l);
	text_list_clear(&l);
	assert_int_equal(l.n, 0);
	assert_null(l.texts);
	assert_int_equal(copy.n, 101);
	for (int i = 0; i <= 100; i++)
		assert_int_equal(atoi(copy.texts[i]), i);
	text_list_clear(&copy);
}

static void test_variables(void **state)
{
	static const char *const set[] = { "A=1", "AB=2", "A=3", "AB=", "B=A=4" };
	static const char *const want[] = { "A=3", "AB=", "B=A=4" };
	struct text_list l = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(set); i++)
		text_list_set_variable(&l, set[i]);
	assert_int_equal(l.n, ARRAY_LEN(want));
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		assert_string_equal(l.texts[i], want[i]);
	text_list_clear(&l);
}

static void test_formats(void **state)
{
	struct text_list l = { .n = 0 };

	text_list_addf(&l, "%u of %s", 3U, "8");
	text_list_addf(&l, "%s", "");
	assert_int_equal(l.n, 2);
	assert_string_equal(l.texts[0], "3 of 8");
	assert_string_equal(l.texts[1], "");
	text_list_clear(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_grow),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_variables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
