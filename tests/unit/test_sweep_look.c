/* SPDX-License-Identifier: MIT */

/* Which processes a sweep is about, what spares one, and how it ends those that it means. They are
 * children of the test; it says by PIDs which ones (SWEEP_GPU). */

#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "task/shproto.h"
#include "task/sweep.h"

#define STEP_MS	 20
#define STEPS	 500
#define GRACE_MS 60000

static void wait_a_step(void)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = STEP_MS * 1000000L }, NULL);
}

/* A child whose command line is that of `sleep` with this word behind it; ready when it is. */
static pid_t start(const char *script)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		(void)dup2(ready[1], 1);
		(void)close(ready[0]);
		(void)close(ready[1]);
		(void)execl("/bin/sh", "sh", "-c", script, "swept-by-a-test", (char *)NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	(void)close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	(void)close(ready[0]);
	return pid;
}

#define SLEEPS "echo; exec 1>&-; while :; do sleep 0.05; done"
#define DEAF   "trap '' TERM; " SLEEPS

static void end(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static bool lives(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == 0;
}

static struct sweep_rules rules_for(const pid_t *pids, size_t n)
{
	return (struct sweep_rules){ .what = SWEEP_GPU, .pids = pids, .n_pids = n };
}

/* What is said of one of them; VERDICT_MAX: it is not among those that the rules are about. */
static enum sweep_verdict verdict_on(const struct sweep_rules *rules, pid_t pid)
{
	struct sweep_list l = { 0 };
	enum sweep_verdict v = SWEEP_VERDICT_MAX;
	struct err e = ERR_INIT;

	if (sweep_look(rules, &l, &e) < 0)
		fail_msg("%s", e.text);
	for (size_t i = 0; i < l.n; i++)
		if (l.items[i].proc.id.pid == pid)
			v = l.items[i].verdict;
	sweep_list_clear(&l);
	return v;
}

/* ---- words ---- */

static void the_setting_says_what_is_swept(void **state)
{
	assert_int_equal(unsetenv(SWEEP_JOB_ENV), 0);
	assert_int_equal(sweep_of_setting(SWEEP_SET_AUTO), 0);
	assert_int_equal(sweep_of_setting(SWEEP_SET_NONE), 0);
	assert_int_equal(sweep_of_setting(SWEEP_SET_GPU), SWEEP_BIT(SWEEP_GPU));
	assert_int_equal(sweep_of_setting(SWEEP_SET_PYTHON), SWEEP_BIT(SWEEP_PYTHON));
	assert_int_equal(sweep_of_setting(99), 0);
	/* In a job of its own nothing else of its user's runs. */
	assert_int_equal(setenv(SWEEP_JOB_ENV, "", 1), 0);
	assert_int_equal(sweep_of_setting(SWEEP_SET_AUTO), 0);
	assert_int_equal(setenv(SWEEP_JOB_ENV, "1", 1), 0);
	assert_int_equal(sweep_of_setting(SWEEP_SET_AUTO), SWEEP_BIT(SWEEP_PYTHON));
	assert_int_equal(sweep_of_setting(SWEEP_SET_NONE), 0);
	assert_int_equal(unsetenv(SWEEP_JOB_ENV), 0);
}

static void everything_has_words(void **state)
{
	for (unsigned int v = 0; v < SWEEP_VERDICT_MAX; v++)
		assert_true(strlen(sweep_verdict_text(v)) > 5);
	assert_string_equal(sweep_verdict_text(SWEEP_VERDICT_MAX), "?");
	assert_string_equal(sweep_what_name(SWEEP_GPU), "gpu");
	assert_string_equal(sweep_what_name(SWEEP_PYTHON), "python");
	assert_string_equal(sweep_what_name(SWEEP_WHAT_MAX), "?");
}

/* ---- verdicts ---- */

static void only_what_is_named_is_concerned(void **state)
{
	const pid_t one = start(SLEEPS), other = start(SLEEPS);
	const struct sweep_rules rules = rules_for(&one, 1), none = rules_for(NULL, 0);

	assert_int_equal(verdict_on(&rules, one), SWEEP_END);
	assert_int_equal(verdict_on(&rules, other), SWEEP_VERDICT_MAX);
	assert_int_equal(verdict_on(&none, one), SWEEP_VERDICT_MAX);
	/* A zombie is nothing that could be ended. */
	assert_int_equal(kill(one, SIGKILL), 0);
	for (int i = 0; i < STEPS && verdict_on(&rules, one) != SWEEP_VERDICT_MAX; i++)
		wait_a_step();
	assert_int_equal(verdict_on(&rules, one), SWEEP_VERDICT_MAX);
	end(one);
	end(other);
}

static void we_and_who_started_us_are_spared(void **state)
{
	const pid_t pids[] = { getpid(), getppid() };
	const struct sweep_rules rules = rules_for(pids, 2);
	enum sweep_verdict parent = verdict_on(&rules, getppid());

	assert_int_equal(verdict_on(&rules, getpid()), SWEEP_SELF);
	/* Outside of a container it may be another user's. */
	assert_true(parent == SWEEP_SELF || parent == SWEEP_USER || parent == SWEEP_VERDICT_MAX);
}

static void patterns_spare(void **state)
{
	static const struct {
		const char *pattern;
		bool spares;
	} cases[] = {
		{ "swept-by-a", true }, /* a part is enough */
		{ "*swept-by-a-test*", true }, { "*swept-by-a-tes[tx]*", true },
		{ "swept-by-a*", false }, /* a pattern is about the whole line */
		{ "kept-by-a-test", false },
	};
	const pid_t pid = start(SLEEPS);

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *spare[] = { "nothing like it", cases[i].pattern };
		struct sweep_rules rules = rules_for(&pid, 1);

		rules.spare = spare;
		rules.n_spare = 2;
		assert_int_equal(verdict_on(&rules, pid),
				 cases[i].spares ? SWEEP_PATTERN : SWEEP_END);
	}
	end(pid);
}

/* Who is on a machine of its own has no business outside of it. */
static void what_is_outside_of_this_machine_is_left_alone(void **state)
{
	const pid_t outside = start(SLEEPS);
	pid_t inside;

	assert_int_equal(setenv("TENURE_DEV_DIR", "/tmp/a-machine-of-a-test", 1), 0);
	inside = start(SLEEPS);

	const pid_t pids[] = { outside, inside };
	const struct sweep_rules rules = rules_for(pids, 2);

	assert_int_equal(verdict_on(&rules, outside), SWEEP_MACHINE);
	assert_int_equal(verdict_on(&rules, inside), SWEEP_END);
	assert_int_equal(unsetenv("TENURE_DEV_DIR"), 0);
	assert_int_equal(verdict_on(&rules, inside), SWEEP_END);
	end(outside);
	end(inside);
}

/* ---- the end ---- */

/* Until nothing of it is left; how many steps that took. */
static int sweep_all(struct sweeper *s)
{
	int steps = 0;

	for (int left = 1; left != 0; steps++) {
		left = sweep_step(s);
		assert_true(left >= 0);
		assert_true(steps < STEPS);
		wait_a_step();
	}
	return steps;
}

static void what_is_meant_is_ended_and_nothing_else(void **state)
{
	const pid_t meant = start(SLEEPS), spared = start(SLEEPS);
	pid_t pids[] = { meant, spared, 0 };
	const char *spare[] = { "no such thing" };
	struct sweep_rules rules = rules_for(pids, 1);
	struct sweep_list l = { 0 };
	struct sweeper *s;

	rules.spare = spare;
	rules.n_spare = 1;
	assert_int_equal(sweep_look(&rules, &l, NULL), 0);
	assert_int_equal(l.n, 1);
	s = sweep_begin(&rules, &l, SIGTERM, GRACE_MS);
	sweep_list_clear(&l);
	/* Started meanwhile, and concerned, but not of the list. */
	pids[2] = start(SLEEPS);
	rules.n_pids = 3;
	(void)sweep_all(s);
	assert_false(lives(meant));
	assert_true(lives(spared) && lives(pids[2]));
	assert_null(sweep_free(s));
	assert_null(sweep_free(NULL));
	end(spared);
	end(pids[2]);
}

static void who_does_not_listen_is_killed_after_the_grace(void **state)
{
	const pid_t deaf = start(DEAF);
	const struct sweep_rules rules = rules_for(&deaf, 1);
	struct sweep_list l = { 0 };
	struct sweeper *s;
	int status;

	assert_int_equal(sweep_look(&rules, &l, NULL), 0);
	s = sweep_begin(&rules, &l, 0, GRACE_MS); /* 0: SIGTERM */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sweep_step(s), 1);
		wait_a_step();
	}
	assert_true(lives(deaf));
	s = sweep_free(s);
	s = sweep_begin(&rules, &l, SIGTERM, 0);
	(void)sweep_step(s);
	assert_int_equal(waitpid(deaf, &status, 0), deaf);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(sweep_step(s), 0);
	s = sweep_free(s);
	sweep_list_clear(&l);
}

/* All other processes of the machine are of another job, whatever runs Python there. */
struct told {
	pid_t about;
	int says;
};

static int is_told(const void *of_job, pid_t pid)
{
	const struct told *told = of_job;

	return pid == told->about ? told->says : 1;
}

/* One in execve() says nothing of itself: it gets no signal, and has not ended either. */
static void who_cannot_be_told_is_left_and_is_not_gone(void **state)
{
	struct told told = { .about = start("exec python3 -S -c 'import time\n"
					    "print(flush=True)\n"
					    "time.sleep(600)'") };
	const struct sweep_rules rules = { .what = SWEEP_PYTHON,
					   .in_other_job = is_told,
					   .of_job = &told };
	struct sweep_list l = { 0 };
	struct sweeper *s;

	assert_int_equal(sweep_look(&rules, &l, NULL), 0);
	s = sweep_begin(&rules, &l, SIGTERM, 0);
	sweep_list_clear(&l);
	told.says = -EAGAIN;
	assert_int_equal(verdict_on(&rules, told.about), SWEEP_JOB);
	assert_int_equal(sweep_step(s), 1);
	assert_int_equal(sweep_step(s), 1);
	assert_true(lives(told.about));
	told.says = 0;
	(void)sweep_all(s);
	assert_false(lives(told.about));
	s = sweep_free(s);
}

/* What it starts while it ends is of it. */
static void what_it_starts_while_it_ends_is_meant_too(void **state)
{
	int from[2];
	char text[20] = "";
	pid_t parent, child;

	assert_int_equal(pipe(from), 0);
	parent = fork();
	if (parent == 0) {
		(void)dup2(from[1], 1);
		(void)execl("/bin/sh", "sh", "-c", "sleep 600 & echo $!; wait", (char *)NULL);
		_exit(127);
	}
	(void)close(from[1]);
	assert_true(read(from[0], text, sizeof(text) - 1) > 0);
	(void)close(from[0]);
	child = (pid_t)atoi(text);
	assert_true(child > 0);

	pid_t pids[] = { parent, child };
	struct sweep_rules rules = rules_for(pids, 1);
	struct sweep_list l = { 0 };
	struct sweeper *s;

	assert_int_equal(sweep_look(&rules, &l, NULL), 0);
	s = sweep_begin(&rules, &l, SIGTERM, GRACE_MS);
	sweep_list_clear(&l);
	rules.n_pids = 2; /* seen since */
	for (int i = 0; i < STEPS && sweep_step(s) > 0; i++)
		wait_a_step();
	for (int i = 0; i < STEPS && kill(child, 0) == 0; i++)
		wait_a_step();
	assert_int_equal(kill(child, 0), -1);
	s = sweep_free(s);
	end(parent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_setting_says_what_is_swept),
		cmocka_unit_test(everything_has_words),
		cmocka_unit_test(only_what_is_named_is_concerned),
		cmocka_unit_test(we_and_who_started_us_are_spared),
		cmocka_unit_test(patterns_spare),
		cmocka_unit_test(what_is_outside_of_this_machine_is_left_alone),
		cmocka_unit_test(what_is_meant_is_ended_and_nothing_else),
		cmocka_unit_test(who_does_not_listen_is_killed_after_the_grace),
		cmocka_unit_test(who_cannot_be_told_is_left_and_is_not_gone),
		cmocka_unit_test(what_it_starts_while_it_ends_is_meant_too),
	};

	(void)unsetenv("TENURE_DEV_DIR");
	/* What runs under tenure is spared, this program's children too. */
	if (getenv(TASK_TOKEN_ENV))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
