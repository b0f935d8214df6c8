/* SPDX-License-Identifier: MIT */

/* What the agent has swept, by a process that is this test once more, and hangs. */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "agent/attempt/sweep.h"
#include "task/sweep.h"

#define HANGS_S 60 /* when nobody ends it */

static unsigned int said, done, not_reaped;
static uint64_t limit_ms;

void __wrap_eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...);
void __wrap_eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...)
{
	said += level == LOG_LEVEL_ERROR;
}

int __real_uv_timer_start(uv_timer_t *t, uv_timer_cb fn, uint64_t ms, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb fn, uint64_t ms, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb fn, uint64_t ms, uint64_t repeat)
{
	limit_ms = ms;
	return __real_uv_timer_start(t, fn, 0, repeat); /* it is over by now */
}

static void on_done(void *user)
{
	done++;
	/* Of one that hangs in the kernel nobody knows when that is. */
	not_reaped += waitid(P_ALL, 0, &(siginfo_t){ 0 }, WEXITED | WNOWAIT | WNOHANG) == 0;
}

/* Whoever waits for it goes on; what is left of it is reaped when it ends. */
static void test_sweep_that_hangs(void **state)
{
	uv_loop_t loop;
	const struct agent_config config = { .sweep = 0 };
	struct node_self self = { .host = "n" };
	struct sweep_place place = { .c = &config, .run = { .self = &self, .loop = &loop } };

	assert_int_equal(uv_loop_init(&loop), 0);
	self.program_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(self.program_fd >= 0);
	assert_non_null(sweep_start(&place, SWEEP_BIT(SWEEP_PYTHON), "", on_done, NULL));
	assert_int_equal(limit_ms, 30000);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(done, 1);
	assert_int_equal(not_reaped, 1);
	assert_int_equal(said, 1);
	assert_true(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	assert_int_equal(uv_loop_close(&loop), 0);
	(void)close(self.program_fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sweep_that_hangs),
	};

	if (argc > 1 && strcmp(argv[1], "sweep") == 0)
		return (int)sleep(HANGS_S);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
