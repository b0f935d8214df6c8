/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/fs.h"
#include "base/mem.h"

static char dir[] = "/tmp/tenure-test-XXXXXX";

static size_t n_files(void)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	assert_non_null(d);
	for (struct dirent *de; (de = readdir(d));)
		n += de->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static void test_atomic(void **state)
{
	cleanup_free char *path = xasprintf("%s/f", dir);
	cleanup_free char *no_dir = xasprintf("%s/no/f", dir);
	cleanup_free char *text = NULL;
	struct err e = ERR_INIT;
	struct stat st;
	size_t len;

	assert_int_equal(fs_write_atomic(path, "old", 3, 0640, &e), 0);
	assert_int_equal(fs_write_atomic(path, "newer", 5, 0640, &e), 0);
	assert_int_equal(fs_read_file(path, 100, &text, &len, &e), 0);
	assert_int_equal(len, 5);
	assert_string_equal(text, "newer");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(fs_write_atomic(no_dir, "x", 1, 0600, &e), -ENOENT);
	assert_non_null(strstr(e.text, "create "));
	/* A target that cannot be replaced: what was written beside it is gone again. */
	assert_int_equal(fs_write_atomic(dir, "x", 1, 0600, &e) < 0, 1);
	assert_int_equal(n_files(), 1);
	(void)unlink(path);
}

/* What a person has named: a link stays one, and what is no file is written to. */
static void test_report(void **state)
{
	cleanup_free char *path = xasprintf("%s/f", dir);
	cleanup_free char *link = xasprintf("%s/link", dir);
	cleanup_free char *fifo = xasprintf("%s/fifo", dir);
	cleanup_free char *no_dir = xasprintf("%s/no/f", dir);
	cleanup_free char *slash = xasprintf("%s/new/", dir);
	cleanup_free char *text = NULL;
	struct err e = ERR_INIT;
	struct stat st;
	char buf[8];
	size_t len;
	int fd;

	assert_int_equal(fs_check_report(path, &e), 0);
	assert_int_equal(n_files(), 0);
	assert_int_equal(fs_write_report(path, "old", 3, 0644, &e), 0);
	assert_int_equal(symlink("f", link), 0);
	assert_int_equal(fs_check_report(link, &e), 0);
	assert_int_equal(fs_write_report(link, "newer", 5, 0644, &e), 0);
	assert_int_equal(lstat(link, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(fs_read_file(path, 100, &text, &len, &e), 0);
	assert_string_equal(text, "newer");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(fs_check_report(fifo, &e), 0);
	assert_int_equal(fs_write_report(fifo, "x", 1, 0644, &e), -ENXIO); /* and does not wait */
	fd = open(fifo, O_RDONLY | O_NONBLOCK);
	assert_int_equal(fs_write_report(fifo, "piped", 5, 0644, &e), 0);
	assert_int_equal(read(fd, buf, sizeof(buf)), 5);
	(void)close(fd);
	assert_int_equal(stat(fifo, &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
	assert_int_equal(fs_write_report("/dev/null", "x", 1, 0644, &e), 0);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_int_equal(fs_write_report("/dev/full", "x", 1, 0644, &e), -ENOSPC);
	assert_int_equal(fs_check_report("", &e), -ENOENT);
	assert_int_equal(fs_check_report(dir, &e), -EISDIR);
	assert_int_equal(fs_check_report(slash, &e), -EISDIR);
	assert_int_equal(fs_check_report(no_dir, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/no/f"));
	assert_int_equal(n_files(), 3);
	(void)unlink(fifo);
	(void)unlink(link);
	(void)unlink(path);
}

static void test_new(void **state)
{
	cleanup_free char *path = xasprintf("%s/f", dir);
	cleanup_free char *text = NULL;
	struct err e = ERR_INIT;
	struct stat st;
	size_t len;

	assert_int_equal(fs_write_new(path, "first", 5, 0755, &e), 0);
	assert_int_equal(fs_write_new(path, "second", 6, 0755, &e), -EEXIST);
	assert_int_equal(fs_read_file(path, 100, &text, &len, &e), 0);
	assert_string_equal(text, "first");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(n_files(), 1);
	(void)unlink(path);
}

static void test_read_bound(void **state)
{
	cleanup_free char *path = xasprintf("%s/f", dir);
	cleanup_free char *text = NULL;
	cleanup_free char *proc = NULL;
	struct err e = ERR_INIT;
	size_t len;

	assert_int_equal(fs_write_atomic(path, "12345", 5, 0600, &e), 0);
	assert_int_equal(fs_read_file(path, 4, &text, &len, &e), -EFBIG);
	assert_int_equal(fs_read_file(path, 5, &text, &len, &e), 0);
	/* Files of /proc say that they are empty. */
	assert_int_equal(fs_read_file("/proc/self/status", 65536, &proc, &len, &e), 0);
	assert_true(len > 100);
	(void)unlink(path);
}

static void test_mkdirs(void **state)
{
	cleanup_free char *path = xasprintf("%s/a/b/c", dir);
	cleanup_free char *up = xasprintf("%s/a/b", dir);
	cleanup_free char *top = xasprintf("%s/a", dir);
	cleanup_free char *file = xasprintf("%s/a/b/c/f", dir);
	struct err e = ERR_INIT;

	assert_int_equal(fs_mkdirs(path, 0700, &e), 0);
	assert_int_equal(fs_mkdirs(path, 0700, &e), 0);
	assert_int_equal(fs_write_atomic(file, "", 0, 0600, &e), 0);
	assert_int_equal(fs_mkdirs(file, 0700, &e), -ENOTDIR);
	assert_int_equal(unlink(file) | rmdir(path) | rmdir(up) | rmdir(top), 0);
}

/* Whoever takes the name first does not keep us from having one, and always the same. */
static void test_private_dir(void **state)
{
	cleanup_free char *plain = xasprintf("%s/ours", dir);
	cleanup_free char *fit = fs_private_dir(dir, "ours");
	struct stat st;

	assert_string_equal(fit, plain);
	assert_int_equal(stat(plain, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	/* Others may write in it: as unfit as one of somebody else. */
	assert_int_equal(chmod(plain, 0777), 0);

	cleanup_free char *other = fs_private_dir(dir, "ours");
	cleanup_free char *again = fs_private_dir(dir, "ours");

	assert_string_not_equal(other, plain);
	assert_string_equal(other, again);
	assert_memory_equal(other, plain, strlen(plain));
	assert_int_equal(rmdir(plain), 0);
	assert_int_equal(symlink("/", plain), 0);

	cleanup_free char *beside_link = fs_private_dir(dir, "ours");

	assert_string_equal(beside_link, other);
	assert_null(fs_private_dir("/nonexistent", "ours"));
	assert_int_equal(unlink(plain), 0);
	assert_int_equal(rmdir(other), 0);
}

static void test_xdg(void **state)
{
	(void)setenv("HOME", "/home/x", 1);
	(void)setenv("XDG_CONFIG_HOME", "/cfg", 1);
	(void)setenv("XDG_STATE_HOME", "relative", 1);

	cleanup_free char *config = fs_config_dir();
	cleanup_free char *state_dir = fs_state_dir();
	cleanup_free char *shown = fs_show_path("/home/x/y");
	cleanup_free char *other = fs_show_path("/home/xy");

	assert_string_equal(config, "/cfg/tenure");
	assert_string_equal(state_dir, "/home/x/.local/state/tenure");
	assert_string_equal(shown, "~/y");
	assert_string_equal(other, "/home/xy");
}

static int make_dir(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_atomic), cmocka_unit_test(test_report),
		cmocka_unit_test(test_new),    cmocka_unit_test(test_read_bound),
		cmocka_unit_test(test_mkdirs), cmocka_unit_test(test_private_dir),
		cmocka_unit_test(test_xdg),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
