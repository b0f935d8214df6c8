/* SPDX-License-Identifier: MIT */

/* An instance is opened, or is not, and what belongs to whom there (spool_world.h). */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/fs.h"
#include "base/mem.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool_world.h"

static void test_open(void **state)
{
	struct err e = ERR_INIT;
	struct spool *sp = NULL;
	struct stat st;
	struct text_list names = { .n = 0 };
	cleanup_free char *file = xasprintf("%s/default/instance.json", spool_world_root());
	cleanup_free char *moved = xasprintf("%s-moved", spool_world_root());

	assert_int_equal(spool_open(spool_world_root(), "default", NULL, 0, &sp, &e), -ENOENT);
	assert_non_null(strstr(e.text, "no instance \"default\""));
	assert_int_equal(spool_open(spool_world_root(), "../x", NULL, SPOOL_CREATE, &sp, &e),
			 -EINVAL);
	sp = open_spool();
	assert_int_equal(fstat(sp->fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(sp->owner, geteuid());
	assert_int_equal(spool_instances(spool_world_root(), &names, &e), 0);
	assert_int_equal(names.n, 1);
	text_list_clear(&names);
	/* The root may be renamed under an open spool. */
	assert_int_equal(rename(spool_world_root(), moved), 0);
	assert_int_equal(submit(sp, "{\"argv\":[\"true\"]}"), 1);
	assert_int_equal(rename(moved, spool_world_root()), 0);
	sp = spool_close(sp);
	assert_int_equal(fs_write_atomic(file, "{\"format\":9}", 12, 0600, &e), 0);
	assert_int_equal(spool_open(spool_world_root(), "default", NULL, SPOOL_CREATE, &sp, &e),
			 -EPROTO);
	assert_non_null(strstr(e.text, "format 9"));
}

static void test_key(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *file = xasprintf("%s/default/key", spool_world_root());
	cleanup_free char *json = xasprintf("%s/default/instance.json", spool_world_root());
	char first[SPOOL_KEY_MAX], again[SPOOL_KEY_MAX];
	struct err e = ERR_INIT;

	assert_int_equal(spool_key(sp, first, &e), 0);
	assert_int_equal(strlen(first), SPOOL_KEY_MAX - 1);
	/* People edit that one. */
	assert_int_equal(fs_write_atomic(json, "{\"format\":1}", 12, 0600, &e), 0);
	sp = spool_close(sp);
	sp = open_spool();
	assert_int_equal(spool_key(sp, again, &e), 0);
	assert_string_equal(first, again);
	/* A spool made anew. */
	assert_int_equal(unlink(file), 0);
	assert_int_equal(spool_key(sp, again, &e), 0);
	assert_string_not_equal(first, again);
	assert_int_equal(fs_write_atomic(file, "", 0, 0600, &e), 0);
	assert_int_equal(spool_key(sp, again, &e), -EINVAL);
	assert_non_null(strstr(e.text, "key is no key"));
	sp = spool_close(sp);
}

static void test_foreign(void **state)
{
	struct spool *sp = open_spool();
	uint64_t id = submit(sp, "{\"argv\":[\"true\"],\"name\":\"x\"}");
	struct scan *s = scan_new(sp, 0);
	struct err e = ERR_INIT;

	if (geteuid() != 0)
		skip();
	assert_int_equal(fchmodat(sp->fd, "pending", 0777, 0), 0);
	assert_int_equal(fchownat(sp->fd, "pending/00500,1,nx", 12345, 12345, 0), 0);
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_null(scan_find(s, id, 0));
	assert_non_null(strstr(scan_notes(s), "user 12345"));
	sp->trust_directory = true;
	assert_int_equal(scan_update(s, NULL, NULL, &e), 0);
	assert_non_null(scan_find(s, id, 0));
	assert_string_equal(scan_notes(s), "");
	s = scan_free(s);
	sp = spool_close(sp);
}

/* To write down when a file was read last would cost more than to read it. */
static void test_reading_is_not_noted(void **state)
{
	const struct timespec times[] = { { .tv_sec = 1000 }, { .tv_sec = 2000 } };
	struct spool *sp = open_spool();
	cleanup_free char *text = NULL;
	struct err e = ERR_INIT;
	struct stat st;
	size_t len;

	put(sp, "failed/x", "text");
	assert_int_equal(utimensat(sp->fd, "failed/x", times, 0), 0);
	assert_int_equal(spool_read(sp, "failed/x", 100, &text, &len, &e), 0);
	assert_int_equal(len, 4);
	assert_int_equal(fstatat(sp->fd, "failed/x", &st, 0), 0);
	assert_int_equal(st.st_atim.tv_sec, 1000);
	sp = spool_close(sp);
}

/* Whatever part of a path is a link, and whatever lies in the place of a file. */
static void test_links(void **state)
{
	static const char *const bad[] = { "logs/link", "logs/fifo", "logs/dir" };
	struct spool *sp = open_spool();
	struct err e = ERR_INIT;
	struct stat st;

	put(sp, "logs/1.log", "log");
	assert_int_equal(symlinkat("1.log", sp->fd, "logs/link"), 0);
	assert_int_equal(mkfifoat(sp->fd, "logs/fifo", 0600), 0);
	assert_int_equal(mkdirat(sp->fd, "logs/dir", 0700), 0);
	assert_int_equal(symlinkat("logs", sp->fd, "elsewhere"), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_true(spool_is_bad(spool_open_file(sp, bad[i], O_RDONLY, NULL, NULL)));
		assert_true(spool_is_bad(spool_open_file(sp, bad[i], O_WRONLY, NULL, &e)));
		assert_non_null(strstr(e.text, bad[i]));
	}
	assert_int_equal(spool_open_file(sp, "elsewhere/1.log", O_RDONLY, NULL, NULL), -ENOTDIR);
	assert_int_equal(spool_openat(sp, "elsewhere/new", O_WRONLY | O_CREAT | O_EXCL), -ENOTDIR);

	/* What is ours takes their place; in bad/ there may be such things already. */
	assert_int_equal(mkdirat(sp->fd, "bad/link", 0700), 0);
	put(sp, "bad/dir", "before");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_fd int fd =
			spool_open_own(sp, bad[i], O_RDWR | O_APPEND | O_CREAT, &st, &e);

		assert_true(fd >= 0);
		assert_int_equal(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_APPEND), O_APPEND);
		assert_int_equal(st.st_size, 0);
		assert_int_equal(write(fd, "x", 1), 1);
	}
	assert_true(spool_exists(sp, "bad/fifo") && spool_exists(sp, "bad/fifo.reason"));
	assert_int_equal(fstatat(sp->fd, "logs/1.log", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_size, 3);
	sp = spool_close(sp);
}

/* Who is accepted, by what the setting says; the instance has no say in it. */
static void test_accepted(void **state)
{
	const char *const words[] = { "nosuchuserhere", "12345", "root" };
	const struct text_list list = { .n = ARRAY_LEN(words), .texts = (char **)(uintptr_t)words };
	const struct spool_trust some = { .accepted = &list }, all = { .setting = TRUST_DIRECTORY };
	struct spool *sp = open_spool();
	struct err e = ERR_INIT;

	put(sp, "instance.json", "{\"format\":1,\"owner\":12346,\"trust\":\"directory\"}");
	assert_false(spool_trusts(sp, 12345) || spool_trusts(sp, 12346));
	sp = spool_close(sp);
	assert_int_equal(spool_open(spool_world_root(), "default", &some, 0, &sp, &e), 0);
	assert_true(spool_trusts(sp, 12345) && spool_trusts(sp, 0) && spool_trusts(sp, geteuid()));
	assert_false(spool_trusts(sp, 12346) || spool_trusts(sp, (uid_t)-1));
	sp = spool_close(sp);
	assert_int_equal(spool_open(spool_world_root(), "default", &all, 0, &sp, &e), 0);
	assert_true(spool_trusts(sp, 12346));
	sp = spool_close(sp);

	assert_int_equal(chmod(spool_world_root(), 0777), 0);
	assert_int_equal(spool_open(spool_world_root(), "default", NULL, 0, &sp, &e), -EPERM);
	assert_int_equal(spool_open(spool_world_root(), "default", NULL, SPOOL_LOOK, &sp, &e), 0);
	sp = spool_close(sp);
	assert_int_equal(chmod(spool_world_root(), 01777), 0);
	assert_int_equal(spool_open(spool_world_root(), "default", NULL, 0, &sp, &e), 0);
	assert_int_equal(fchmod(sp->fd, 0707), 0);
	sp = spool_close(sp);
	assert_int_equal(spool_open(spool_world_root(), "default", &some, 0, &sp, &e), -EPERM);
	assert_int_equal(spool_open(spool_world_root(), "default", &all, 0, &sp, &e), 0);
	sp = spool_close(sp);
}

/* What is open goes on under another name, and is told from one that is gone. */
static void test_moved_and_removed(void **state)
{
	struct spool *sp = open_spool();
	cleanup_free char *moved = xasprintf("%s-moved", spool_path_of(sp));
	bool other = true;

	assert_false(spool_was_replaced(sp, &other) || spool_was_removed(sp));
	assert_int_equal(rename(spool_path_of(sp), moved), 0);
	assert_true(spool_was_replaced(sp, &other));
	assert_false(other || spool_was_removed(sp));
	assert_int_equal(mkdir(spool_path_of(sp), 0700), 0);
	assert_true(spool_was_replaced(sp, &other) && other);
	assert_int_equal(rmdir(spool_path_of(sp)), 0);
	assert_int_equal(rename(moved, spool_path_of(sp)), 0);
	assert_false(spool_was_replaced(sp, &other));
	/* All that was in it has gone. */
	assert_int_equal(unlinkat(sp->fd, "pending", AT_REMOVEDIR), 0);
	assert_false(spool_was_removed(sp));
	assert_int_equal(unlinkat(sp->fd, "running", AT_REMOVEDIR), 0);
	assert_true(spool_was_removed(sp));
	sp = spool_close(sp);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

static _Atomic bool leave;

/* instance.json comes and goes, many times while the test looks. */
static void *flicker(void *dir)
{
	char there[PATH_MAX], away[PATH_MAX];

	(void)snprintf(there, sizeof(there), "%s/instance.json", (const char *)dir);
	(void)snprintf(away, sizeof(away), "%s/away", (const char *)dir);
	while (!leave) {
		(void)rename(there, away);
		(void)usleep(100); /* so that a second look is seldom like the first */
		(void)rename(away, there);
		(void)usleep(100);
	}
	return NULL;
}

/* Somebody makes it while we look: it is there, or it is not, and neither is an error. */
static void test_made_meanwhile(void **state)
{
	struct spool *sp = open_spool(), *again;
	char dir[PATH_MAX];
	pthread_t t;

	(void)state;
	(void)snprintf(dir, sizeof(dir), "%s", spool_path_of(sp));
	leave = false;
	assert_int_equal(pthread_create(&t, NULL, flicker, dir), 0);
	for (int i = 0; i < 2000; i++) {
		struct err e = ERR_INIT;
		int r = spool_open(spool_world_root(), spool_instance(sp), NULL, 0, &again, &e);

		if (r != 0 && r != -ENOENT)
			fail_msg("%s", e.text);
		again = spool_close(again);
	}
	leave = true;
	(void)pthread_join(t, NULL);
	sp = spool_close(sp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_moved_and_removed),
		TEST(test_made_meanwhile),
		TEST(test_open),
		TEST(test_key),
		TEST(test_reading_is_not_noted),
		TEST(test_foreign),
		TEST(test_links),
		TEST(test_accepted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
