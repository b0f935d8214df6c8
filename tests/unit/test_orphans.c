/* SPDX-License-Identifier: MIT */

/* The processes of a shim that was killed, found by the token in their environment. They are
 * children of the test, which is what a fork server would be to them. */

#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/claim_names.h"
#include "task/orphans.h"
#include "task/shproto.h"

#define STEP_MS	 20
#define STEPS	 500
#define GRACE_MS 60000

static char token[64];

static int setup(void **state)
{
	static unsigned int n;

	/* A PID comes again, and what a run that was killed has left sleeps for minutes. */
	(void)str_print(token, sizeof(token), "unit-test-%d.%u.%llx", (int)getpid(), n++,
			(unsigned long long)clock_mono_ns());
	return 0;
}

static void wait_a_step(void)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = STEP_MS * 1000000L }, NULL);
}

/* A process of whomever that stays in execve(), as on a machine with much to do, is no answer: then
 * it is asked again. */
static int count(const char *of)
{
	int n;

	while ((n = orphans_count(of)) == -EAGAIN)
		wait_a_step();
	return n;
}

static int step(struct orphans *o)
{
	int left;

	while ((left = orphans_step(o)) == -EAGAIN)
		wait_a_step();
	return left;
}

/* A child with that token; ready when it is. */
static pid_t start(const char *of, const char *script)
{
	int ready[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		(void)setpgid(0, 0);
		(void)setenv(TASK_TOKEN_ENV, of, 1);
		(void)dup2(ready[1], 1);
		(void)close(ready[0]);
		(void)close(ready[1]);
		(void)execl("/bin/sh", "sh", "-c", script, (char *)NULL);
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

/* Until none is left: how the child ended. */
static int end_by(struct orphans *o, pid_t pid)
{
	int status = 0, left = 1;

	for (int i = 0; i < STEPS && left; i++) {
		left = step(o);
		assert_true(left >= 0);
		wait_a_step();
	}
	assert_int_equal(left, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void they_are_found_by_their_token(void **state)
{
	pid_t one, other;

	assert_int_equal(count(token), 0);
	one = start(token, SLEEPS);
	other = start("another", SLEEPS);
	assert_true(count(token) >= 1);
	/* What it starts is of it, also in a session of its own. */
	end(one);
	one = start(token, "setsid sh -c 'echo; exec 1>&-; sleep 600' & wait");
	assert_true(count(token) >= 2);
	/* To count is no signal. */
	assert_int_equal(waitpid(one, NULL, WNOHANG), 0);

	struct orphans *o = orphans_begin(token, SIGKILL, 0);

	(void)end_by(o, one);
	for (int i = 0; i < STEPS && count(token); i++)
		wait_a_step();
	assert_int_equal(count(token), 0);
	assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
	assert_null(orphans_free(o));
	assert_null(orphans_free(NULL));
	end(other);
}

static void the_signal_comes_first(void **state)
{
	const int signals[] = { 0, SIGINT };
	const int expected[] = { SIGTERM, SIGINT };

	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		/* A shell in the background would ignore SIGINT. */
		pid_t pid = start(token, "echo; exec 1>&-; exec sleep 600");
		struct orphans *o = orphans_begin(token, signals[i], GRACE_MS);
		int status = end_by(o, pid);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), expected[i]);
		o = orphans_free(o);
	}
}

static void who_does_not_listen_is_killed_after_the_grace(void **state)
{
	pid_t pid = start(token, DEAF);
	struct orphans *o = orphans_begin(token, SIGTERM, GRACE_MS);
	int status;

	for (int i = 0; i < 3; i++) {
		assert_true(step(o) >= 1);
		wait_a_step();
	}
	/* Only ever sooner. */
	orphans_hurry(o, 2 * GRACE_MS);
	assert_true(step(o) >= 1);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	orphans_hurry(o, 0);
	status = end_by(o, pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	o = orphans_free(o);
}

/* In execve() a process has no environment for a moment, and is there all the same. */
static void who_changes_its_program_is_found(void **state)
{
	pid_t pid = start(token, "echo; exec 1>&-; X='exec sh -c \"$X\"'; export X; eval \"$X\"");
	int missed = 0;

	for (int i = 0; i < 300; i++)
		missed += count(token) != 1;
	end(pid);
	assert_int_equal(missed, 0);
}

/* ---- what is left on a fork server ---- */

static const struct task_name first = { .id = 1, .epoch = 1 }, second = { .id = 2, .epoch = 1 };

/* One of that spool with the orphans of two of its tasks, of one of another spool that had been
 * started inside a task, and of one without an environment; ours, or one without an agent. Its
 * process group. */
static pid_t start_server(const char *key, bool ours)
{
	char tokens[3][TASK_TOKEN_MAX], of[TASK_TOKEN_MAX];
	cleanup_free char *script =
		xasprintf("{ printf " FORK_SERVER_COMM " >/proc/self/comm; echo; exec 1>&-;"
			  "for t in %s %s %s; do " TASK_TOKEN_ENV "=$t sleep 600 & done;"
			  "env -i sleep 600 & wait; }%s",
			  names_token(key, &first, tokens[0]), names_token(key, &second, tokens[1]),
			  names_token("nested", &first, tokens[2]), ours ? "" : " &");
	pid_t pid;

	(void)setenv(FORK_SERVER_OF_ENV, names_tokens_of(key, of), 1);
	pid = start("none", script);
	(void)unsetenv(FORK_SERVER_OF_ENV);
	return pid;
}

static bool comes_to(const char *of, int n)
{
	for (int i = 0; i < STEPS; i++) {
		if (count(of) == n)
			return true;
		wait_a_step();
	}
	return false;
}

static void end_server(pid_t pid)
{
	(void)kill(-pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

/* Each task of a spool has its grace; what cannot be told apart is of each. */
static void another_task_of_the_spool_is_left_alone(void **state)
{
	char one[TASK_TOKEN_MAX], two[TASK_TOKEN_MAX];

	(void)names_token(token, &first, one);
	(void)names_token(token, &second, two);
	for (int ours = 0; ours < 2; ours++) {
		pid_t server = start_server(token, ours);
		struct orphans *o = orphans_begin(one, SIGKILL, 0);

		assert_true(comes_to(one, 3));
		assert_true(comes_to(two, 3));
		while (step(o) > 0)
			wait_a_step();
		assert_int_equal(count(one), 0);
		assert_int_equal(count(two), 1);
		o = orphans_free(o);
		end_server(server);
	}
}

/* It ends its orphans itself, whatever they say that they are. */
static void a_fork_server_of_another_spool_is_left_alone(void **state)
{
	char ours[TASK_TOKEN_MAX], theirs[TASK_TOKEN_MAX];
	pid_t server = start_server(token, false);

	assert_true(comes_to(names_token(token, &first, theirs), 3));
	assert_int_equal(count(names_token("another spool", &first, ours)), 0);
	assert_int_equal(count("not-as-of-a-spool"), 0);
	end_server(server);
}

static void nobody_there_is_done_at_once(void **state)
{
	struct orphans *o = orphans_begin(token, SIGTERM, GRACE_MS);

	assert_int_equal(step(o), 0);
	o = orphans_free(o);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(they_are_found_by_their_token),
		TEST(the_signal_comes_first),
		TEST(who_does_not_listen_is_killed_after_the_grace),
		TEST(who_changes_its_program_is_found),
		TEST(another_task_of_the_spool_is_left_alone),
		TEST(a_fork_server_of_another_spool_is_left_alone),
		TEST(nobody_there_is_done_at_once),
	};

	/* Whoever has it in the background may have it ignore that, and children with it. */
	(void)signal(SIGINT, SIG_DFL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
