/* SPDX-License-Identifier: MIT */

/* What the agent writes down, off the loop's thread: in files, for who watches, in the tail. */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/report/agentlog.h"
#include "agent/report/joblogs.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"

static char dir[64];
static uv_loop_t loop;
static struct strbuf shown, warned;

static void show(const char *line)
{
	strbuf_addf(&shown, "%s\n", line);
}

static void warn(const char *line)
{
	strbuf_addf(&warned, "%s\n", line);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int setup(void **state)
{
	(void)str_copy(dir, sizeof(dir), "/tmp/tenure-agentlog-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	return uv_loop_init(&loop);
}

static int teardown(void **state)
{
	strbuf_clear(&shown);
	strbuf_clear(&warned);
	if (uv_loop_close(&loop) < 0)
		return -1;
	return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct agentlog *new_log(enum log_level level)
{
	return agentlog_new(&loop, &(struct agentlog_config){ .state_dir = dir,
							      .instance = "alpha",
							      .host = "n7",
							      .level = level,
							      .show = show,
							      .warn = warn });
}

/* All of it is written. */
static void flush(struct agentlog *j)
{
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_true(agentlog_is_flushed(j));
}

static void end(struct agentlog *j)
{
	agentlog_close(j);
	flush(j);
	assert_int_equal(agentlog_free(j), 0);
}

static char *content(const char *path)
{
	char *text = NULL;
	size_t len;

	assert_int_equal(fs_read_file(path, 8 << 20, &text, &len, NULL), 0);
	return text;
}

static void lines_go_to_the_log_and_events_to_theirs(void **state)
{
	struct agentlog *j = new_log(LOG_LEVEL_INFO);
	cleanup_free char *log = NULL, *events = NULL;
	char trouble[200];

	assert_true(str_has_suffix(agentlog_log_path(j), "/alpha/logs/agent-n7.log"));
	assert_true(str_has_suffix(agentlog_event_path(j), "/alpha/events/n7.jsonl"));
	/* The directories are made with the first line, and not by the loop's thread. */
	assert_int_equal(access(agentlog_log_path(j), F_OK), -1);
	agentlog_log(j, LOG_LEVEL_WARNING, "disk %d is %s", 3, "slow");
	agentlog_log(j, LOG_LEVEL_INFO, "well");
	agentlog_event(j, "{\"event\":\"held\",\"gpu\":2}");
	assert_false(agentlog_is_flushed(j));
	assert_int_equal(agentlog_free(j), -EBUSY);
	flush(j);
	log = content(agentlog_log_path(j));
	events = content(agentlog_event_path(j));
	assert_non_null(strstr(log, " warning disk 3 is slow\n"));
	assert_true(str_has_suffix(log, " info well\n"));
	assert_string_equal(events, "{\"event\":\"held\",\"gpu\":2}\n");
	assert_int_equal(agentlog_lost(j), 0);
	assert_string_equal(agentlog_trouble(j, trouble, sizeof(trouble)), "");
	end(j);
}

static void what_is_below_the_level_is_not_written(void **state)
{
	struct agentlog *j = new_log(LOG_LEVEL_WARNING);

	agentlog_log(j, LOG_LEVEL_INFO, "too much");
	agentlog_log(j, LOG_LEVEL_DEBUG, "much too much");
	assert_true(agentlog_is_flushed(j));
	assert_null(agentlog_tail(j, 0));
	agentlog_log(j, LOG_LEVEL_ERROR, "bad");
	assert_non_null(strstr(agentlog_tail(j, 0), " error bad"));
	end(j);
}

/* What others wrote (a process's name) must not forge a line, nor end one early. */
static void a_line_stays_one_line(void **state)
{
	struct agentlog *j = new_log(LOG_LEVEL_INFO);
	cleanup_free char *log = NULL;
	size_t lines = 0;

	agentlog_log(j, LOG_LEVEL_INFO, "PID 1 (%s)", "sh\n2026-11-24 error forged\x1b[31m\xff");
	flush(j);
	log = content(agentlog_log_path(j));
	for (const char *p = log; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, 1);
	assert_null(strchr(log, '\x1b'));
	assert_null(strchr(log, '\xff'));
	assert_non_null(strstr(log, "forged"));
	end(j);
}

static void the_last_lines_are_kept(void **state)
{
	struct agentlog *j = new_log(LOG_LEVEL_INFO);

	assert_null(agentlog_tail(j, 0));
	for (int n = 0; n < AGENTLOG_TAIL + 3; n++) {
		agentlog_log(j, LOG_LEVEL_INFO, "line %d.", n);
		assert_non_null(
			strstr(agentlog_tail(j, 0), n < AGENTLOG_TAIL ? "line 0." : "line "));
	}
	for (size_t i = 0; i < AGENTLOG_TAIL; i++) {
		cleanup_free char *expect = xasprintf("line %zu.", i + 3);

		assert_non_null(strstr(agentlog_tail(j, i), expect));
	}
	assert_null(agentlog_tail(j, AGENTLOG_TAIL));
	end(j);
}

static void who_watches_reads_in_order(void **state)
{
	struct agentlog *j = new_log(LOG_LEVEL_INFO);

	for (int n = 0; n < 3; n++) {
		cleanup_free char *line = xasprintf("%d", n);

		agentlog_show(j, line);
	}
	agentlog_warn(j, "beware");
	flush(j);
	assert_string_equal(strbuf_str(&shown), "0\n1\n2\n");
	assert_string_equal(strbuf_str(&warned), "beware\n");
	end(j);
}

/* A terminal that was stopped, a disk that does not answer: what does not fit is counted. */
static void more_than_fits_is_counted(void **state)
{
	struct agentlog *j = new_log(LOG_LEVEL_INFO);
	cleanup_free char *big = xasprintf("%0*d", 100000, 0), *log = NULL, *missing = NULL;
	uint64_t lost;

	/* The loop does not run meanwhile, so the first job alone is under way. */
	for (int n = 0; n < 30; n++)
		agentlog_log(j, LOG_LEVEL_INFO, "%s", big);
	lost = agentlog_lost(j);
	assert_true(lost > 0 && lost < 30);
	flush(j);
	agentlog_log(j, LOG_LEVEL_INFO, "behind them");
	flush(j);
	log = content(agentlog_log_path(j));
	missing = xasprintf(" warning %llu lines are missing here", (unsigned long long)lost);
	assert_non_null(strstr(log, missing));
	assert_true(str_has_suffix(log, " info behind them\n"));
	assert_int_equal(agentlog_lost(j), lost);
	/* Of what is shown it is said as well. */
	for (int n = 0; n < 30; n++)
		agentlog_show(j, big);
	flush(j);
	agentlog_show(j, "behind them");
	flush(j);
	assert_non_null(strstr(strbuf_str(&shown), " lines are not shown)\n"));
	assert_true(str_has_suffix(strbuf_str(&shown), "\nbehind them\n"));
	end(j);
}

/* Warnings alone are shown where nobody watches: who is missing some is told there. */
static void warnings_that_do_not_fit_are_told_as_one(void **state)
{
	struct agentlog *j = agentlog_new(
		&loop, &(struct agentlog_config){
			       .state_dir = dir, .instance = "alpha", .host = "n7", .warn = warn });
	cleanup_free char *big = xasprintf("%0*d", 100000, 0);

	agentlog_show(j, "to nobody");
	assert_true(agentlog_is_flushed(j));
	for (int n = 0; n < 30; n++)
		agentlog_warn(j, big);
	flush(j);
	agentlog_warn(j, "behind them");
	flush(j);
	assert_non_null(strstr(strbuf_str(&warned), " lines are not shown)\n"));
	assert_true(str_has_suffix(strbuf_str(&warned), "\nbehind them\n"));
	end(j);
}

static void what_cannot_be_written_is_told(void **state)
{
	cleanup_free char *blocked = xasprintf("%s/alpha", dir);
	struct agentlog *j = new_log(LOG_LEVEL_INFO);
	char trouble[200];

	assert_int_equal(fs_write_atomic(blocked, "a file", 6, 0600, NULL), 0);
	assert_string_equal(agentlog_trouble(j, trouble, sizeof(trouble)), "");
	agentlog_log(j, LOG_LEVEL_INFO, "one");
	agentlog_log(j, LOG_LEVEL_INFO, "two");
	flush(j);
	assert_int_equal(agentlog_lost(j), 2);
	assert_non_null(strstr(agentlog_trouble(j, trouble, sizeof(trouble)), blocked));
	assert_non_null(strstr(agentlog_tail(j, 1), "two")); /* it is seen in the status */
	/* It is tried again. */
	assert_int_equal(unlink(blocked), 0);
	agentlog_log(j, LOG_LEVEL_INFO, "three");
	flush(j);
	end(j);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Of jobs that ended long ago few files are left; what is young, and what is of no job, stays. */
static void files_of_jobs_are_bounded(void **state)
{
	static const struct {
		const char *name;
		int age_days, kept;
	} files[] = {
		{ "logs/agent-n1-slurm.1.0.log", 90, 0 },
		{ "logs/agent-n1-slurm.2.0.log", 80, 0 },
		{ "logs/agent-n1-slurm.2.0.log.1", 85, 0 },
		{ "logs/agent-n1-slurm.3.0.log", 70, 1 },
		{ "logs/agent-n2-slurm.4.0.log", 1, 1 },
		{ "logs/agent-n1.log", 90, 1 },
		{ "logs/agent-n1-sge.5.0.log", 90, 1 },
	};
	cleanup_free char *logs = xasprintf("%s/logs", dir);

	assert_int_equal(mkdir(logs, 0700), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		cleanup_free char *path = xasprintf("%s/%s", dir, files[i].name);
		struct timespec then[2] = { { .tv_sec = time(NULL) - files[i].age_days * 86400L } };

		then[1] = then[0];
		assert_int_equal(fs_write_new(path, "x", 1, 0600, NULL), 0);
		assert_int_equal(utimensat(AT_FDCWD, path, then, 0), 0);
	}
	joblogs_prune(logs, "-slurm.", 2, 14 * 86400);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		cleanup_free char *path = xasprintf("%s/%s", dir, files[i].name);

		assert_int_equal(access(path, F_OK) == 0, files[i].kept);
	}
	joblogs_prune("/nowhere", "-slurm.", 2, 0);
}

/* The agent of a job sees to that when it opens its own. */
static void the_agent_of_a_job_prunes(void **state)
{
	cleanup_free char *logs = xasprintf("%s/alpha/logs", dir);
	cleanup_free char *own = xasprintf("%s/agent-n7-slurm.900.0.log", logs);
	struct agentlog_config c = { .state_dir = dir,
				     .instance = "alpha",
				     .host = "n7-slurm.900.0",
				     .job = "slurm.900.0",
				     .show = show };
	struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	size_t left = 0;
	struct agentlog *j;

	assert_int_equal(fs_mkdirs(logs, 0700, NULL), 0);
	for (int i = 0; i < 150; i++) {
		cleanup_free char *path = xasprintf("%s/agent-n7-slurm.%d.0.log", logs, i);

		assert_int_equal(fs_write_new(path, "x", 1, 0600, NULL), 0);
		assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	}
	j = agentlog_new(&loop, &c);
	agentlog_log(j, LOG_LEVEL_ERROR, "it begins");
	flush(j);
	for (int i = 0; i < 150; i++) {
		cleanup_free char *path = xasprintf("%s/agent-n7-slurm.%d.0.log", logs, i);

		left += access(path, F_OK) == 0;
	}
	assert_int_equal(left, JOBLOGS_KEPT - 1);
	assert_int_equal(access(own, F_OK), 0);
	end(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lines_go_to_the_log_and_events_to_theirs),
		TEST(what_is_below_the_level_is_not_written),
		TEST(a_line_stays_one_line),
		TEST(the_last_lines_are_kept),
		TEST(who_watches_reads_in_order),
		TEST(more_than_fits_is_counted),
		TEST(warnings_that_do_not_fit_are_told_as_one),
		TEST(what_cannot_be_written_is_told),
		TEST(files_of_jobs_are_bounded),
		TEST(the_agent_of_a_job_prunes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
