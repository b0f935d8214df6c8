/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/limited.h"
#include "base/units.h"

#define LONG_MS 60000
#define HANG_MS 2000

struct shared {
	int steps, fd;
	pid_t pid;
};

static void note(void *data)
{
	struct shared *s = data;

	s->steps++;
	s->pid = getpid();
}

static void look_at_fd(void *data)
{
	struct shared *s = data;

	s->steps = fcntl(s->fd, F_GETFD) < 0;
}

static void hang(void *data)
{
	note(data);
	for (;;)
		(void)pause();
}

static void hang_whatever_comes(void *data)
{
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	hang(data);
}

static void die(void *data)
{
	note(data);
	(void)raise(SIGSEGV);
}

static void leave(void *data)
{
	_exit(3);
}

static void test_what_it_found_is_there(void **state)
{
	struct shared *s = limited_alloc(sizeof(*s));
	struct err e = ERR_INIT;

	assert_non_null(s);
	assert_int_equal(limited_call(note, s, LONG_MS, &e), 0);
	assert_true(s->steps == 1 && s->pid != getpid());
	s->fd = dup(STDERR_FILENO);
	assert_int_equal(limited_call(look_at_fd, s, LONG_MS, &e), 0);
	assert_int_equal(s->steps, 1); /* it was closed there */
	(void)close(s->fd);
	assert_null(limited_free(s, sizeof(*s)));
}

/* False: it was not reaped, as where it has no processor to end in. */
static bool is_killed(void (*fn)(void *data))
{
	struct shared *s = limited_alloc(sizeof(*s));
	const uint64_t began = clock_mono_ns();
	struct err e = ERR_INIT;
	bool reaped;

	assert_int_equal(limited_call(fn, s, HANG_MS, &e), -ETIMEDOUT);
	assert_true(clock_mono_ns() - began >= HANG_MS * NS_PER_MS);
	assert_int_equal(s->steps, 1);
	assert_non_null(strstr(e.text, "no answer for 2 s"));
	reaped = kill(s->pid, 0) < 0;
	if (!reaped) {
		(void)kill(s->pid, SIGKILL);
		(void)waitpid(s->pid, NULL, 0);
	}
	assert_null(limited_free(s, sizeof(*s)));
	return reaped;
}

static void test_what_hangs_is_killed(void **state)
{
	void (*const hanging[])(void *data) = { hang, hang_whatever_comes };

	for (size_t i = 0; i < sizeof(hanging) / sizeof(hanging[0]); i++)
		assert_true(is_killed(hanging[i]) || is_killed(hanging[i]) ||
			    is_killed(hanging[i]));
}

static void test_what_ends_otherwise(void **state)
{
	struct shared *s = limited_alloc(sizeof(*s));
	struct err e = ERR_INIT;

	assert_int_equal(limited_call(die, s, LONG_MS, &e), -ECHILD);
	assert_int_equal(s->steps, 1);
	assert_int_equal(limited_call(leave, s, LONG_MS, &e), -ECHILD);
	assert_null(limited_free(s, sizeof(*s)));
	assert_null(limited_free(NULL, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_it_found_is_there),
		cmocka_unit_test(test_what_hangs_is_killed),
		cmocka_unit_test(test_what_ends_otherwise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
