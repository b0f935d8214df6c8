/* SPDX-License-Identifier: MIT */

/* Where records of ends lie: in directories that are ours alone, beside what says that a start came
 * too late. What is in a record is test_taskdata's. */

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/end_record.h"

static char above[64], dir[80];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int setup(void **state)
{
	(void)str_copy(above, sizeof(above), "/tmp/tenure-records-XXXXXX");
	if (!mkdtemp(above))
		return -1;
	(void)str_print(dir, sizeof(dir), "%s/default", above);
	return 0;
}

static int teardown(void **state)
{
	return nftw(above, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static char *in_dir(const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

static bool is_there(const char *name)
{
	cleanup_free char *path = in_dir(name);
	struct stat st;

	return lstat(path, &st) == 0;
}

static void put(const char *name, const char *text)
{
	cleanup_free char *path = in_dir(name);
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, text, strlen(text)), 0);
}

/* As if it had been written so long ago. */
static void make_old(const char *name, uint64_t ago_ns)
{
	cleanup_free char *path = in_dir(name);
	time_t then = (time_t)((clock_wall_ns() - ago_ns) / NS_PER_S);
	const struct timespec times[2] = { { .tv_sec = then }, { .tv_sec = then } };

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* ---- the directory ---- */

static void a_directory_is_made_and_found_good(void **state)
{
	struct err e = ERR_INIT;
	struct stat st;

	assert_int_equal(rmdir(above), 0); /* tidied away */
	assert_int_equal(end_record_dir_check(dir, &e), -ENOENT);
	assert_int_equal(end_record_dir_make(dir, &e), 0);
	assert_int_equal(end_record_dir_make(dir, &e), 0);
	assert_int_equal(end_record_dir_check(dir, &e), 0);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

/* Others could put a record or a script of theirs there. */
static void what_others_may_write_in_is_not_used(void **state)
{
	static const mode_t modes[] = { 0770, 0702, 01777 };
	const char *const places[] = { dir, above };

	assert_int_equal(end_record_dir_make(dir, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(modes) * ARRAY_LEN(places); i++) {
		const char *place = places[i % 2];
		struct err e = ERR_INIT;

		assert_int_equal(chmod(place, modes[i / 2]), 0);
		assert_int_equal(end_record_dir_check(dir, &e), -EPERM);
		assert_non_null(strstr(e.text, place));
		assert_int_equal(end_record_dir_make(dir, NULL), -EPERM);
		assert_int_equal(chmod(place, 0700), 0);
		assert_int_equal(end_record_dir_check(dir, NULL), 0);
	}
}

static void what_is_no_directory_is_not_used(void **state)
{
	cleanup_free char *real = xasprintf("%s/real", above);

	assert_int_equal(mkdir(real, 0700), 0);
	assert_int_equal(symlink("real", dir), 0);
	assert_int_equal(end_record_dir_check(dir, NULL), -EPERM);
	assert_int_equal(end_record_dir_make(dir, NULL), -EPERM);
	assert_int_equal(unlink(dir), 0);
	assert_int_equal(rename(real, dir), 0);
	assert_int_equal(end_record_dir_check(dir, NULL), 0);
}

/* ---- what lies there ---- */

static void a_record_that_is_none_is_set_aside(void **state)
{
	struct task_record r;
	struct err e = ERR_INIT;

	assert_int_equal(end_record_dir_make(dir, NULL), 0);
	assert_int_equal(end_record_set_aside(dir, "a", &e), -ENOENT);
	put("a.json", ""); /* as a power loss leaves it */
	assert_int_equal(end_record_read(dir, "a", &r, &e), -EBADMSG);
	assert_true(end_record_exists(dir, "a"));
	assert_int_equal(end_record_set_aside(dir, "a", &e), 0);
	assert_false(end_record_exists(dir, "a"));
	assert_true(is_there("a" RECORD_BAD_END));
	assert_int_equal(end_record_read(dir, "a", &r, &e), -ENOENT);
}

/* Where it cannot be said that there is none, there may be one. */
static void what_cannot_be_looked_at_may_be_there(void **state)
{
	cleanup_free char *loop = NULL;

	assert_int_equal(end_record_dir_make(dir, NULL), 0);
	loop = in_dir("a.json");
	assert_int_equal(symlink("a.json", loop), 0);
	assert_true(end_record_exists(dir, "a"));
	assert_false(end_record_exists(dir, "b"));
	assert_false(end_record_is_void(dir, "a"));
}

static void a_start_that_was_given_up_stays_so(void **state)
{
	struct err e = ERR_INIT;

	/* The directory may have been tidied away. */
	assert_false(end_record_is_void(dir, "a"));
	assert_int_equal(end_record_void(dir, "a", &e), 0);
	assert_int_equal(end_record_void(dir, "a", &e), 0);
	assert_true(end_record_is_void(dir, "a"));
	assert_false(end_record_is_void(dir, "b"));
	assert_int_equal(end_record_void(dir, "../a", &e), -EINVAL);
	/* It is no record. */
	assert_false(end_record_exists(dir, "a"));
	assert_int_equal(end_record_remove(dir, "a"), 0);
	assert_true(end_record_is_void(dir, "a"));
}

/* What is written into one that was made so long ago, in this boot or another. */
static void make_void_of(const char *name, const char *boot_id, uint64_t ago_ns)
{
	cleanup_free char *text = xasprintf("%s %" PRIu64 "\n", boot_id, clock_boot_ns() - ago_ns);

	put(name, text);
}

/* The clock may be set at any time. */
static void a_void_goes_by_its_boot_and_not_by_the_clock(void **state)
{
	char now[BOOT_ID_MAX];

	assert_int_equal(boot_id_read(now, sizeof(now)), 0);
	assert_int_equal(end_record_void(dir, "new", NULL), 0);
	make_old("new.void", 100 * NS_PER_S);
	make_void_of("old.void", now, 2 * NS_PER_S);
	make_void_of("other-boot.void", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", 0);
	put("says-nothing.void", "");
	put("says-nothing-for-long.void", "");
	make_old("says-nothing-for-long.void", 100 * NS_PER_S);
	end_record_clear_voids(dir, 50 * NS_PER_S);
	assert_true(end_record_is_void(dir, "new") && end_record_is_void(dir, "old"));
	assert_true(end_record_is_void(dir, "says-nothing"));
	assert_false(end_record_is_void(dir, "other-boot"));
	assert_false(end_record_is_void(dir, "says-nothing-for-long"));
	/* It is made again where it is there already, and is as new then. */
	make_void_of("old.void", now, 60 * NS_PER_S);
	assert_int_equal(end_record_void(dir, "old", NULL), 0);
	end_record_clear_voids(dir, 50 * NS_PER_S);
	assert_true(end_record_is_void(dir, "old"));
	make_void_of("old.void", now, 60 * NS_PER_S);
	end_record_clear_voids(dir, 50 * NS_PER_S);
	assert_false(end_record_is_void(dir, "old"));
}

static void old_leftovers_are_cleared(void **state)
{
	assert_int_equal(end_record_void(dir, "new", NULL), 0);
	put("bad" RECORD_BAD_END, "x");
	put("kept.json", "x");
	put("kept.log", "x");
	make_old("bad" RECORD_BAD_END, 100 * NS_PER_S);
	make_old("kept.json", 100 * NS_PER_S);
	make_old("kept.log", 100 * NS_PER_S);
	end_record_clear_voids(dir, 200 * NS_PER_S);
	assert_true(is_there("bad" RECORD_BAD_END));
	end_record_clear_voids(dir, 50 * NS_PER_S);
	assert_false(is_there("bad" RECORD_BAD_END));
	assert_true(end_record_is_void(dir, "new"));
	assert_true(is_there("kept.json") && is_there("kept.log"));
	end_record_clear_voids("/no/such/directory", 0);
}

static void a_record_is_as_new_as_its_being_put_aside(void **state)
{
	assert_int_equal(end_record_dir_make(dir, NULL), 0);
	put("a.json", "x");
	make_old("a.json", 100 * NS_PER_S);
	assert_int_equal(end_record_set_aside(dir, "a", NULL), 0);
	end_record_clear_voids(dir, 50 * NS_PER_S);
	assert_true(is_there("a" RECORD_BAD_END));
}

/* Whoever comes with a clock that is a day ahead takes it from nobody. */
static void what_is_put_aside_stays_while_its_void_does(void **state)
{
	char now[BOOT_ID_MAX];

	assert_int_equal(boot_id_read(now, sizeof(now)), 0);
	assert_int_equal(end_record_void(dir, "a", NULL), 0);
	put("a" RECORD_BAD_END, "x");
	make_old("a" RECORD_BAD_END, 100 * NS_PER_S);
	end_record_clear_voids(dir, 50 * NS_PER_S);
	assert_true(is_there("a" RECORD_BAD_END));
	/* Which of the two is met first is the directory's. */
	make_void_of("a.void", now, 60 * NS_PER_S);
	end_record_clear_voids(dir, 50 * NS_PER_S);
	end_record_clear_voids(dir, 50 * NS_PER_S);
	assert_false(end_record_is_void(dir, "a") || is_there("a" RECORD_BAD_END));
}

static void a_log_beside_the_records(void **state)
{
	char path[PATH_MAX];
	struct err e = ERR_INIT;
	cleanup_fd int none = -1, fd = -1, again = -1;
	cleanup_free char *link = NULL;
	char c;

	none = end_record_open_log(dir, "a", O_RDONLY, NULL, &e);
	assert_int_equal(none, -ENOENT);
	fd = end_record_open_log(dir, "a", O_RDWR | O_CREAT, path, &e);
	assert_true(fd >= 0);
	assert_true(str_has_suffix(path, "/default/a.log"));
	assert_int_equal(write(fd, "x", 1), 1);
	again = end_record_open_log(dir, "a", O_RDONLY, NULL, &e);
	assert_int_equal(read(again, &c, 1), 1);
	assert_int_equal(end_record_open_log(dir, ".a", O_RDONLY, NULL, &e), -EINVAL);
	/* Whoever could write there does not choose which file is written. */
	link = in_dir("b.log");
	assert_int_equal(symlink("a.log", link), 0);
	assert_int_equal(end_record_open_log(dir, "b", O_RDWR | O_CREAT, NULL, &e), -ELOOP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_directory_is_made_and_found_good),
		TEST(what_others_may_write_in_is_not_used),
		TEST(what_is_no_directory_is_not_used),
		TEST(a_record_that_is_none_is_set_aside),
		TEST(what_cannot_be_looked_at_may_be_there),
		TEST(a_start_that_was_given_up_stays_so),
		TEST(a_void_goes_by_its_boot_and_not_by_the_clock),
		TEST(old_leftovers_are_cleared),
		TEST(a_record_is_as_new_as_its_being_put_aside),
		TEST(what_is_put_aside_stays_while_its_void_does),
		TEST(a_log_beside_the_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
