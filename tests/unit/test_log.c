/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"

static char dir[] = "/tmp/tenure-test-XXXXXX";

static char *name(unsigned int i)
{
	return i ? xasprintf("%s/log.%u", dir, i) : xasprintf("%s/log", dir);
}

static char *content(unsigned int i)
{
	cleanup_free char *path = name(i);
	char *text = NULL;
	size_t len;

	return fs_read_file(path, 1 << 20, &text, &len, NULL) == 0 ? text : NULL;
}

static void remove_all(void)
{
	for (unsigned int i = 0; i < 8; i++) {
		cleanup_free char *path = name(i);

		(void)unlink(path);
	}
}

static void test_rotate(void **state)
{
	cleanup_free char *path = name(0);
	struct log *log;
	char line[40];

	assert_int_equal(log_open(path, 100, 3, &log, NULL), 0);
	for (int i = 0; i < 40; i++) {
		(void)snprintf(line, sizeof(line), "line %04d ..........", i);
		log_line(log, line, strlen(line));
	}
	log = log_close(log);

	cleanup_free char *now = content(0);
	cleanup_free char *before = content(1);
	cleanup_free char *oldest = content(2);
	cleanup_free char *gone = content(3);

	/* 20 bytes and a newline: four lines each. */
	assert_non_null(strstr(now, "line 0039"));
	assert_int_equal(strncmp(before, "line 0032", 9), 0);
	assert_int_equal(strncmp(oldest, "line 0028", 9), 0);
	assert_null(gone);
	remove_all();
}

static void test_lines(void **state)
{
	cleanup_free char *path = name(0);
	struct log *log;

	assert_int_equal(log_open(path, 4096, 2, &log, NULL), 0);
	log_print(log, LOG_LEVEL_DEBUG, "not shown");
	log_print(log, LOG_LEVEL_INFO, "process %s", "a\nforged line");
	/* Somebody removes the file: the next line makes a new one. */
	cleanup_free char *first = content(0);

	(void)unlink(path);
	log_print(log, LOG_LEVEL_ERROR, "again");

	cleanup_free char *second = content(0);

	assert_null(strstr(first, "not shown"));
	assert_non_null(strstr(first, " info process a forged line\n"));
	assert_non_null(strstr(second, " error again\n"));
	log = log_close(log);
	remove_all();
}

/* A limit on the size of files stands for the full disk. */
static void test_full(void **state)
{
	cleanup_free char *path = name(0);
	struct rlimit old, small;
	struct log *log;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){ 25, old.rlim_max };
	assert_int_equal(log_open(path, 4096, 2, &log, NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	log_line(log, "a line of 20 bytes..", 20);
	log_line(log, "lost line one", 13);
	log_line(log, "lost line two", 13);
	assert_int_equal(log_dropped(log), 2);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	log_line(log, "back", 4);
	assert_int_equal(log_dropped(log), 0);

	cleanup_free char *text = content(0);

	assert_int_equal(strncmp(text, "a line of 20 bytes..\n20", 23), 0);
	assert_non_null(strstr(text, " warning 2 lines are missing here: "));
	assert_null(strstr(text, "lost"));
	assert_non_null(strstr(text, "\nback\n"));
	log = log_close(log);
	remove_all();
}

static void test_no_dir(void **state)
{
	struct err e = ERR_INIT;
	struct log *log;

	assert_int_equal(log_open("/nowhere/log", 100, 2, &log, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/nowhere/log"));
	log_print(log, LOG_LEVEL_INFO, "x");
	assert_int_equal(log_dropped(log), 1);
	assert_null(log_close(log));
	log_print(NULL, LOG_LEVEL_INFO, "nothing happens");
}

static int make_dir(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	return rmdir(dir);
}

/* Neither in the place of the file nor in that of its directory, at the start or later. */
static void test_links_are_not_followed(void **state)
{
	cleanup_free char *real = xasprintf("%s/real", dir), *at = xasprintf("%s/at", dir);
	cleanup_free char *path = xasprintf("%s/at/log", dir), *in = xasprintf("%s/real/log", dir);
	cleanup_free char *file = xasprintf("%s/real/file", dir);
	struct err e = ERR_INIT;
	struct log *log;

	assert_int_equal(mkdir(real, 0700) | symlink("real", at), 0);
	assert_int_equal(log_open(path, 1000, 2, &log, &e), -ELOOP);
	log_line(log, "one", 3);
	assert_int_equal(log_drop_errno(log), ELOOP);
	assert_int_equal(access(in, F_OK), -1);
	assert_int_equal(unlink(at) | mkdir(at, 0700), 0);
	log_line(log, "two", 3);
	assert_int_equal(log_dropped(log), 0);
	log = log_close(log);
	assert_int_equal(unlink(path) | symlink(file, path), 0);
	assert_int_equal(log_open(path, 1000, 2, &log, &e), -ELOOP);
	log = log_close(log);
	assert_int_equal(access(file, F_OK), -1);
	assert_int_equal(unlink(path) | rmdir(at) | rmdir(real), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rotate),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_no_dir),
		cmocka_unit_test(test_links_are_not_followed),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
