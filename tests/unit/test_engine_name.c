/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <string.h>

#include "base/mem.h"
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

static void assert_key(const char *const *env, const char *want)
{
	cleanup_free char *key = engine_job_key(env);

	if (!want)
		assert_null(key);
	else
		assert_string_equal(key, want);
}

/* What an agent told its task goes before the engine's variables, which may be of another job. */
static void the_key_of_the_job_that_a_process_is_in(void **state)
{
	(void)state;
	assert_key((const char *const[]){ "HOME=/", NULL }, NULL);
	assert_key((const char *const[]){ "TENURE_LOCAL_JOB=a-b", NULL }, "local.a-b");
	assert_key((const char *const[]){ "TENURE_LOCAL_JOB=a-b", "TENURE_LOCAL_RESTARTS=2", NULL },
		   "local.a-b.2");
	assert_key((const char *const[]){ "TENURE_LOCAL_JOB=a-b", "TENURE_JOB_KEY=slurm.7", NULL },
		   "slurm.7");
	assert_key((const char *const[]){ "TENURE_LOCAL_JOB=a-b", "TENURE_JOB_KEY=", NULL }, NULL);
}

static void a_name_begins_as_engines_write_it(void **state)
{
	static const struct {
		const char *name, *prefix;
		bool begins;
	} rows[] = {
		{ "NDFS_exp1", "NDFS-", true },
		{ "ndfs-exp1-alloc-1-abc", "NDFS-", true },
		{ "NDFS_exp1", "NDFS_exp1", true },
		{ "NDFS", "NDFS-", false },
		{ "NDFSX_exp1", "NDFS-", false },
		{ "tenure-exp-alloc-1-abc", "tenure-exp-", true },
		{ "tenure-exp2-abc", "tenure-exp-", false },
		{ "x", "", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(engine_name_begins(rows[i].name, rows[i].prefix), rows[i].begins);
}

static void a_local_job_says_how_many_gpus_it_has(void **state)
{
	static const struct {
		const char *gpus;
		unsigned int n;
		bool none;
	} rows[] = { { "TENURE_LOCAL_GPUS=2", 2, false },
		     { "TENURE_LOCAL_GPUS=0", 0, true },
		     { "X=1", 0, false } };
	const struct engine *engine;
	struct engine_here here;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const env[] = { "TENURE_LOCAL_JOB=j", rows[i].gpus, NULL };

		assert_int_equal(engine_inside(env, &engine, &here, NULL), 0);
		assert_int_equal(here.n_gpus, rows[i].n);
		assert_int_equal(here.gpus && !here.gpus[0], rows[i].none);
		engine_here_clear(&here);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_is_what_every_engine_takes),
		cmocka_unit_test(a_long_name_keeps_its_token),
		cmocka_unit_test(the_key_of_the_job_that_a_process_is_in),
		cmocka_unit_test(a_name_begins_as_engines_write_it),
		cmocka_unit_test(a_local_job_says_how_many_gpus_it_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
