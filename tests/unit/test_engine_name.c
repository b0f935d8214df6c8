/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <string.h>

#include "engine/engine.h"

static void a_name_is_what_every_engine_takes(void **state)
{
	static const struct {
		const char *prefix, *instance, *token, *name;
	} cases[] = {
		{ "ydj", "train-exp1", "k3x9", "ydj-train-exp1-k3x9" },
		{ "ydj", "Train_Exp.1", "k3x9", "ydj-train-exp-1-k3x9" },
		{ "9x", "a", "b", "t9x-a-b" },
		{ "", "a", "b", "t-a-b" },
		{ "p", "\xc3\xa9", "b", "p----b" },
	};
	char buf[ENGINE_JOB_NAME_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(
			engine_job_name(cases[i].prefix, cases[i].instance, cases[i].token, buf),
			cases[i].name);
}

static void a_long_name_keeps_its_token(void **state)
{
	char prefix[201], instance[201], buf[ENGINE_JOB_NAME_MAX], begin[ENGINE_JOB_NAME_MAX];

	(void)state;
	(void)memset(prefix, 'p', sizeof(prefix) - 1);
	(void)memset(instance, 'i', sizeof(instance) - 1);
	prefix[200] = instance[200] = '\0';
	(void)engine_job_name(prefix, instance, "token01234567890", buf);
	assert_int_equal(strlen(buf), 63);
	assert_string_equal(strstr(buf, "-token"), "-token01234567890");
	(void)engine_job_name(prefix, instance, "t1", buf);
	(void)engine_job_name(prefix, instance, "", begin);
	assert_int_equal(strncmp(buf, begin, strlen(begin)), 0);
	assert_string_equal(buf + strlen(begin), "t1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_what_every_engine_takes),
		cmocka_unit_test(a_long_name_keeps_its_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
