/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "agent/attempt/launch.h"
#include "base/mem.h"
#include "spool/task_text.h"
#include "task/claim_names.h"

static struct launch_with with_one(void)
{
	return (struct launch_with){ .instance = "default",
				     .node = "here",
				     .run_dir = "/run",
				     .visible = "1,3",
				     .by_index = true,
				     .id = 42,
				     .attempt = 2,
				     .memory = 20ULL << 30 };
}

static struct task_spec *make_spec(const char *text)
{
	struct task_spec *s;
	struct err e = ERR_INIT;
	size_t used;

	assert_int_equal(spec_read(text, strlen(text), &s, &used, &e), 0);
	return s;
}

/* The value of a variable that is there exactly once; NULL: it is not there. */
static const char *variable(const struct launch *j, const char *name)
{
	const struct launch_spec *t = launch_get(j);
	const char *found = NULL;

	for (uint32_t i = 0; i < t->n_env; i++)
		if (strncmp(t->env[i], name, strlen(name)) == 0 && t->env[i][strlen(name)] == '=') {
			assert_null(found);
			found = t->env[i] + strlen(name) + 1;
		}
	return found;
}

static void test_environment(void **state)
{
	struct task_spec *s = make_spec("{\"name\":\"t\",\"argv\":[\"true\"],\"env\":[\"A=1\","
					"\"CUDA_VISIBLE_DEVICES=7\",\"TENURE_TASK_ID=1\"]}");
	struct launch_with w = with_one();
	struct launch *j;

	assert_int_equal(launch_make(s, "tok", &w, &j, NULL), 0);
	assert_string_equal(variable(j, "A"), "1");
	assert_null(variable(j, "TENURE_JOB_KEY"));
	assert_false(launch_get(j)->flags & LAUNCH_IN_JOB);
	assert_string_equal(variable(j, "CUDA_VISIBLE_DEVICES"), "1,3");
	assert_string_equal(variable(j, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
	assert_string_equal(variable(j, "TENURE_TASK_ID"), "42");
	assert_string_equal(variable(j, "TENURE_ATTEMPT"), "2");
	assert_string_equal(variable(j, "TENURE_GPU_MEMORY"), "21474836480");
	assert_null(variable(j, "TENURE_ARRAY_INDEX"));
	assert_null(variable(j, "TENURE_GPUS_FILE"));
	launch_free(j);

	w.gpus_file = "/run/tok.gpus";
	assert_int_equal(launch_make(s, "tok", &w, &j, NULL), 0);
	assert_string_equal(variable(j, "TENURE_GPUS_FILE"), "/run/tok.gpus");
	launch_free(j);
	w.job = "slurm.12"; /* a command in the task finds the agent of the job */
	w.by_index = false; /* UUIDs: the order does not matter, and may be the user's */
	assert_int_equal(launch_make(s, "tok", &w, &j, NULL), 0);
	assert_null(variable(j, "CUDA_DEVICE_ORDER"));
	assert_string_equal(variable(j, "TENURE_JOB_KEY"), "slurm.12");
	assert_true(launch_get(j)->flags & LAUNCH_IN_JOB);
	launch_free(j);
	spec_free(s);
}

/* What nobody has said is as cron has it; what was said stays. */
static void test_login(void **state)
{
	struct task_spec *s =
		make_spec("{\"name\":\"t\",\"argv\":[\"true\"],\"env\":[\"HOME=/h\"]}");
	struct launch_with w = with_one();
	struct launch *j;
	struct login login;

	login_read(&login);
	w.login = &login;
	assert_int_equal(launch_make(s, "tok", &w, &j, NULL), 0);
	assert_string_equal(variable(j, "HOME"), "/h");
	assert_string_equal(variable(j, "PATH"), "/usr/local/bin:/usr/bin:/bin");
	assert_non_null(variable(j, "USER"));
	assert_non_null(variable(j, "LOGNAME"));
	assert_int_equal(variable(j, "SHELL")[0], '/');
	assert_string_equal(launch_get(j)->cwd, login.home);
	launch_free(j);
	login_clear(&login);
	spec_free(s);
}

static void test_elements(void **state)
{
	struct task_spec *all = make_spec("{\"name\":\"t\",\"commands\":[\"one\",\"two\"]}");
	struct task_spec *two = spec_for_element(all, 2);
	struct launch_with w = with_one();
	struct launch *j;

	w.element = 2;
	assert_int_equal(launch_make(two, "tok", &w, &j, NULL), 0);
	assert_string_equal(launch_get(j)->argv[2], "two");
	assert_string_equal(variable(j, "TENURE_TASK_ID"), "42.2");
	assert_string_equal(variable(j, "TENURE_ARRAY_INDEX"), "2");
	launch_free(j);
	/* The whole of a batch is nothing that can be run. */
	assert_int_equal(launch_make(all, "tok", &w, &j, NULL), -EINVAL);
	spec_free(two);
	spec_free(all);
}

static void test_sweep(void **state)
{
	struct task_spec *s = make_spec("{\"name\":\"t\",\"argv\":[\"x\"],\"env\":[\"lr=9\"],"
					"\"sweep\":[\"lr=0.1,0.01\",\"seed=1..2\"]}");
	struct launch_with w = with_one();
	struct launch *j;

	w.element = 4;
	assert_int_equal(launch_make(s, "tok", &w, &j, NULL), 0);
	assert_string_equal(variable(j, "lr"), "0.01");
	assert_string_equal(variable(j, "seed"), "2");
	launch_free(j);
	spec_free(s);
}

/* What all tokens of a spool begin with is found in each of them. */
static void test_spool_of_a_token(void **state)
{
	static const char *const keys[] = { "default.1.2", "with+plus", "with-e1-dashes", "" };
	static const char *const none[] = { "", "-", "e1", "name", "a-b", "7-", "default-1-2" };
	struct task_name n = { .id = 7, .element = 3, .epoch = 1 };
	char token[TASK_TOKEN_MAX], of[TASK_TOKEN_MAX];

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		(void)names_token(keys[i], &n, token);
		(void)names_tokens_of(keys[i], of);
		assert_int_equal(names_spool_of_token(token), strlen(of));
		assert_memory_equal(token, of, strlen(of));
		assert_string_equal(token + strlen(of), "7.3-e1");
	}
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		assert_int_equal(names_spool_of_token(none[i]), 0);
}

static void test_tokens(void **state)
{
	struct task_name n = { .id = 7, .epoch = 1 };
	char a[TASK_TOKEN_MAX], b[TASK_TOKEN_MAX], path[SPOOL_PATH_MAX];

	(void)names_token("default.1.2", &n, a);
	assert_true(token_valid(a));
	n.epoch = 2;
	assert_string_not_equal(a, names_token("default.1.2", &n, b));
	n.epoch = 1;
	assert_string_not_equal(a, names_token("default.1.3", &n, b)); /* made anew */
	n.element = 3;
	assert_string_not_equal(a, names_token("default.1.2", &n, b));
	/* Names that are cut to the same beginning stay apart. */
	assert_string_not_equal(names_token("a-name-of-more-than-thirty-two-characters-1", &n, a),
				names_token("a-name-of-more-than-thirty-two-characters-2", &n, b));
	assert_true(token_valid(names_token("with+plus", &n, a)));
	assert_string_equal(names_log_path(&n, "train", 2, path), "logs/7.3-train.2.log");
}

/* What runs in an allocation is ours, and is told whose spool it is. */
static void test_allocation(void **state)
{
	static const char *const words[] = { "/proc/self/exe", "keeper", "/root",
					     "default",	       "42",	 "/run",
					     "exp_train",      "owner",	 "alice,7" };
	struct task_spec *s = make_spec("{\"name\":\"exp_train\",\"allocation\":true,\"gpus\":2}");
	struct text_list accepted = { 0 };
	struct spool_trust trust = { .accepted = &accepted };
	struct launch_with w = with_one();
	struct launch *j;

	text_list_add(&accepted, "alice");
	text_list_add(&accepted, "7");
	w.libraries = "/lib/own";
	w.root = "/root";
	w.trust = &trust;
	assert_int_equal(launch_make(s, "tok", &w, &j, NULL), 0);
	assert_int_equal(launch_get(j)->n_argv, ARRAY_LEN(words));
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		assert_string_equal(launch_get(j)->argv[i], words[i]);
	assert_non_null(strstr(launch_get(j)->shown, "an allocation"));
	assert_string_equal(variable(j, "LD_LIBRARY_PATH"), "/lib/own");
	(void)launch_free(j);
	(void)spec_free(s);
	text_list_clear(&accepted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_allocation),
		cmocka_unit_test(test_login),
		cmocka_unit_test(test_elements),
		cmocka_unit_test(test_sweep),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_spool_of_a_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
