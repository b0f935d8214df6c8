/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/publish.h"
#include "base/sha256.h"

static char root[64];

/* What the next link() answers, after it was done if done is set; 0: the kernel's own word. */
static struct {
	int errnum;
	bool done;
} link_says;

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to)
{
	int errnum = link_says.errnum;

	if (!errnum)
		return __real_link(from, to);
	if (link_says.done)
		assert_int_equal(__real_link(from, to), 0);
	link_says.errnum = 0;
	errno = errnum;
	return -1;
}

static int setup(void **state)
{
	(void)snprintf(root, sizeof(root), "/tmp/tenure-test-XXXXXX");
	link_says.errnum = 0;
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", root, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) == pid ? 0 : -1;
}

static char *hash_of(const char *path)
{
	cleanup_free char *data = NULL;
	char hex[SHA256_HEX_MAX];
	size_t len;

	assert_int_equal(fs_read_file(path, 1UL << 30, &data, &len, NULL), 0);
	sha256_hex(data, len, hex);
	return xstrdup(hex);
}

static size_t n_files(const char *dir)
{
	DIR *d = opendir(dir);
	size_t n = 0;

	assert_non_null(d);
	for (struct dirent *de; (de = readdir(d));)
		n += strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0;
	(void)closedir(d);
	return n;
}

static char *published(void)
{
	struct err e = ERR_INIT;
	char *path = NULL;

	if (program_publish(root, &path, &e) < 0)
		fail_msg("%s", e.text);
	return path;
}

/* All of us, under its name, to be run by everybody, and nothing else. */
static void expect_whole(const char *path, const char *sub)
{
	cleanup_free char *mine = hash_of("/proc/self/exe");
	cleanup_free char *theirs = hash_of(path);
	cleanup_free char *bin = xasprintf("%s/%s/bin", root, sub);
	cleanup_free char *name = xasprintf("%s/tenure-" TENURE_VERSION "-%.12s", bin, mine);
	struct stat st;

	assert_string_equal(path, name);
	assert_string_equal(mine, theirs);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(n_files(bin), 1);
}

/* It is where it was said to be before; nothing was made for that. */
static char *said_path(void)
{
	char *path = NULL;

	assert_int_equal(program_publish_path(root, &path, NULL), 0);
	return path;
}

static void test_once(void **state)
{
	cleanup_free char *said = said_path();
	struct stat first, second;

	assert_int_equal(stat(said, &first), -1);
	assert_int_equal(n_files(root), 0);

	(void)umask(077); /* which takes nothing away from the copy */

	cleanup_free char *path = published();

	char hash[SHA256_HEX_MAX];

	expect_whole(path, ".tenure");
	assert_string_equal(path, said);
	assert_int_equal(program_hash(hash, NULL), 0);
	assert_memory_equal(strrchr(path, '-') + 1, hash, PUBLISH_HASH_DIGITS);
	assert_int_equal(stat(path, &first), 0);

	cleanup_free char *again = published();

	assert_string_equal(path, again);
	assert_int_equal(stat(path, &second), 0);
	assert_int_equal(first.st_ino, second.st_ino);
	assert_int_equal(first.st_mtim.tv_nsec, second.st_mtim.tv_nsec);
}

static void test_copy_runs(void **state)
{
	cleanup_free char *path = published();
	struct statvfs fs;
	int status;

	if (statvfs(path, &fs) == 0 && fs.f_flag & ST_NOEXEC)
		skip();

	pid_t pid = fork();

	if (pid == 0) {
		(void)execl(path, path, "--only-exit", (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
}

/* What has the name of the program and is none: cut, changed, open to everybody, a link, not to be
 * run. */
static void test_damaged(void **state)
{
	for (int i = 0; i < 6; i++) {
		cleanup_free char *path = published();
		int fd = open(path, O_WRONLY | O_CLOEXEC);

		assert_true(fd >= 0);
		switch (i) {
		case 0:
			assert_int_equal(ftruncate(fd, 1000), 0);
			break;
		case 1:
			assert_int_equal(pwrite(fd, "no", 2, 5000), 2);
			break;
		case 2:
			assert_int_equal(fchmod(fd, 0757), 0);
			break;
		case 3:
			assert_int_equal(fchmod(fd, 0644), 0);
			break;
		case 4:
			assert_int_equal(unlink(path), 0);
			assert_int_equal(symlink("/proc/self/exe", path), 0);
			break;
		case 5:
			assert_int_equal(unlink(path), 0);
			assert_int_equal(mkfifo(path, 0755), 0);
			break;
		}
		(void)close(fd);

		cleanup_free char *again = published();

		assert_string_equal(path, again);
		expect_whole(again, ".tenure");
	}
}

/* Eight hosts that begin at once have one file. */
static void test_at_once(void **state)
{
	enum { HOSTS = 8 };
	pid_t pids[HOSTS];
	int start[2];

	assert_int_equal(pipe(start), 0);
	for (int i = 0; i < HOSTS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char *path = NULL, c;

			(void)close(start[1]);
			(void)!read(start[0], &c, 1);
			_exit(program_publish(root, &path, NULL) == 0 ? 0 : 1);
		}
	}
	(void)close(start[0]);
	(void)close(start[1]);
	for (int i = 0; i < HOSTS; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}

	cleanup_free char *path = published();

	expect_whole(path, ".tenure");
}

/* The file server did it, and its answer got lost; it has no links; it is full. */
static void test_bad_days(void **state)
{
	static const int no_links[] = { EPERM, EOPNOTSUPP, ENOSYS };
	struct err e = ERR_INIT;
	char *none = NULL;

	link_says.errnum = ENOSPC;
	assert_int_equal(program_publish(root, &none, &e), -ENOSPC);
	assert_null(none);
	assert_non_null(strstr(e.text, "cannot put the program where other nodes find it: link "));

	cleanup_free char *bin = xasprintf("%s/.tenure/bin", root);

	assert_int_equal(n_files(bin), 0);
	link_says.errnum = EEXIST;
	link_says.done = true;

	cleanup_free char *path = published();

	expect_whole(path, ".tenure");
	link_says.done = false;
	for (size_t i = 0; i < ARRAY_LEN(no_links); i++) {
		assert_int_equal(unlink(path), 0);
		link_says.errnum = no_links[i];

		cleanup_free char *again = published();

		expect_whole(again, ".tenure");
	}
}

/* chmod -R g+w is usual on disks of projects: its group could put anything there that nodes run. */
static void test_group_writes(void **state)
{
	static const char *const below[] = { "", "/bin" };
	cleanup_free char *path = published();
	struct stat before, after;

	for (size_t i = 0; i < ARRAY_LEN(below); i++) {
		cleanup_free char *dir = xasprintf("%s/.tenure%s", root, below[i]);

		assert_int_equal(chmod(dir, 0775), 0);
	}
	assert_int_equal(chmod(path, 0775), 0);
	assert_int_equal(stat(path, &before), 0);

	cleanup_free char *again = published();

	for (size_t i = 0; i < ARRAY_LEN(below); i++) {
		cleanup_free char *dir = xasprintf("%s/.tenure%s", root, below[i]);

		assert_int_equal(stat(dir, &after), 0);
		assert_int_equal(after.st_mode & 07777, 0755);
	}
	/* And who runs from it keeps it. */
	assert_int_equal(stat(again, &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	expect_whole(again, ".tenure");
}

/* Root's is safe, but not from another group. */
static void test_group_of_root(void **state)
{
	cleanup_free char *shared = xasprintf("%s/.tenure", root);
	struct err e = ERR_INIT;
	char *none = NULL;
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();

	cleanup_free char *path = published(), *bin = xasprintf("%s/bin", shared);

	assert_non_null(path);
	assert_int_equal(chmod(bin, 0755), 0);
	assert_int_equal(chown(shared, 0, 12345), 0);
	assert_int_equal(chmod(shared, 0775), 0);
	assert_int_equal(chmod(root, 0777), 0);
	pid = fork();
	if (pid == 0)
		_exit(seteuid(12345) < 0		     ? 1
		      : program_publish(root, &none, &e) < 0 ? 2
		      : strstr(none, "/.tenure-12345/")	     ? 0
							     : 3);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_not_ours(void **state)
{
	cleanup_free char *shared = xasprintf("%s/.tenure", root);
	cleanup_free char *own = xasprintf(".tenure-%u", (unsigned int)geteuid());
	cleanup_free char *own_path = xasprintf("%s/%s", root, own);
	struct err e = ERR_INIT;
	char *none = NULL;

	/* Ours, but everybody can write there. */
	assert_int_equal(mkdir(shared, 0755), 0);
	assert_int_equal(chmod(shared, 0777), 0);
	assert_int_equal(program_publish(root, &none, &e), -EPERM);
	assert_non_null(strstr(e.text, "everybody may write to it"));
	assert_null(none);

	/* Somebody else's, as far as can be made without being root. */
	if (geteuid() != 0)
		return;
	assert_int_equal(chmod(shared, 0755), 0);
	assert_int_equal(chown(shared, 12345, 12345), 0);

	cleanup_free char *said = said_path();
	cleanup_free char *path = published();

	expect_whole(path, own);
	assert_string_equal(path, said);
	/* And that one as well. */
	assert_int_equal(chown(own_path, 12345, 12345), 0);
	assert_int_equal(program_publish(root, &none, &e), -EPERM);
	assert_null(none);
}

/* A file in our directory that is another user's is not run. */
static void test_foreign_file(void **state)
{
	if (geteuid() != 0)
		skip();

	cleanup_free char *path = published();
	struct stat st;

	assert_int_equal(chown(path, 12345, 12345), 0);

	cleanup_free char *again = published();

	assert_int_equal(stat(again, &st), 0);
	assert_int_equal(st.st_uid, 0);
	expect_whole(again, ".tenure");
}

static void test_no_room(void **state)
{
	cleanup_free char *file = xasprintf("%s/file", root);
	struct err e = ERR_INIT;
	char *none = NULL;

	assert_int_equal(fs_write_atomic(file, "", 0, 0600, &e), 0);
	assert_int_equal(program_publish(file, &none, &e), -ENOTDIR);
	assert_null(none);

	cleanup_free char *in_the_way = xasprintf("%s/.tenure", root);

	assert_int_equal(fs_write_atomic(in_the_way, "", 0, 0600, &e), 0);
	assert_int_equal(program_publish(root, &none, &e), -ENOTDIR);
	assert_null(none);
}

/* This program is linked against cmocka, which a node may lack. */
static void test_note(void **state)
{
	cleanup_free char *path = published();
	cleanup_free char *note = program_publish_note(path);

	assert_non_null(note);
	assert_non_null(strstr(note, "libcmocka.so."));
	assert_non_null(strstr(note, "./bootstrap dist"));
	assert_null(strstr(note, "libc.so"));
	assert_null(strstr(note, "noexec"));

	struct statvfs fs;

	if (statvfs("/proc", &fs) < 0 || !(fs.f_flag & ST_NOEXEC))
		return;

	cleanup_free char *there = program_publish_note("/proc/self/status");

	assert_non_null(strstr(there, "; programs on that disk cannot be run here"));
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--only-exit") == 0)
		return 42;

	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_copy_runs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_days, setup, teardown),
		cmocka_unit_test_setup_teardown(test_group_writes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_group_of_root, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_ours, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_note, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
