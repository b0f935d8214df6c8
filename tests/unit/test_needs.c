/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include "base/mem.h"
#include "base/needs.h"

static void test_versions(void **state)
{
	static const struct {
		const char *was, *version, *is;
	} cases[] = {
		{ "", "GLIBC_2.2.5", "2.2.5" },		 { "2.2.5", "GLIBC_2.3", "2.3" },
		{ "2.9", "GLIBC_2.28", "2.28" },	 { "2.28", "GLIBC_2.9", "2.28" },
		{ "2.2.5", "GLIBC_2.2", "2.2.5" },	 { "2.28", "GLIBC_PRIVATE", "2.28" },
		{ "2.28", "GLIBC_ABI_DT_RELR", "2.28" }, { "2.28", "LIBFOO_3.0", "2.28" },
		{ "2.28", "GLIBC_3.0", "3.0" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char text[16];

		(void)snprintf(text, sizeof(text), "%s", cases[i].was);
		needs_add_version(text, cases[i].version);
		assert_string_equal(text, cases[i].is);
	}
}

static void test_names(void **state)
{
	assert_true(needs_is_of_libc("libc.so.6"));
	assert_true(needs_is_of_libc("libm.so.6"));
	assert_true(needs_is_of_libc("ld-linux-x86-64.so.2"));
	assert_true(needs_is_of_libc("ld-linux-aarch64.so.1"));
	assert_false(needs_is_of_libc("libcuda.so.1"));
	assert_false(needs_is_of_libc("libcrypt.so.1"));
}

/* This program is linked against cmocka, of which readelf would say the same. */
static void test_this_program(void **state)
{
	struct needs n;
	bool cmocka = false;

	needs_of_program(&n);
	for (size_t i = 0; i < n.libraries.n; i++) {
		assert_false(needs_is_of_libc(n.libraries.texts[i]));
		cmocka = cmocka || strncmp(n.libraries.texts[i], "libcmocka.so", 12) == 0;
	}
	assert_true(cmocka);
#ifdef __GLIBC__
	unsigned int minor;

	assert_int_equal(sscanf(n.glibc, "2.%u", &minor), 1);
	assert_true(minor >= 2 && minor <= __GLIBC_MINOR__);
#endif
	needs_clear(&n);
	assert_int_equal(n.libraries.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_this_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
