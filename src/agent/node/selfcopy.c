/* SPDX-License-Identifier: MIT */
#include "agent/node/selfcopy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/str.h"

#ifndef MFD_EXEC /* since Linux 6.3 */
#define MFD_EXEC 0x0010U
#endif
#define ZFS_MAGIC 0x2fc12fc1 /* not of the kernel's own tree */

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int selfcopy_try_main(int argc, char **argv)
{
	return 0;
}

/* Run it. 0, or -errno of what kept it from being executed. */
static int try_to_run(int fd)
{
	char path[48], argv0[] = COPY_TRY_ARGV0;
	char *const argv[] = { argv0, NULL };
	int status, r;
	pid_t pid;

	(void)str_print(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = posix_spawn(&pid, path, NULL, NULL, argv, environ);
	if (r != 0)
		return -r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR) /* whoever started us ignores SIGCHLD: there is no status */
			return 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ENOEXEC;
}

/* 0, or -errno. */
static int copy_all(int to, int self)
{
	struct stat st;

	if (fstat(self, &st) < 0)
		return -errno;
	for (off_t done = 0; done < st.st_size;) {
		ssize_t n = sendfile(to, self, &done, (size_t)(st.st_size - done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
	}
	return 0;
}

/* A sealed copy in memory. Its descriptor, or -errno. */
static int copy_to_memory(int self)
{
	/* Kernels before 6.3 do not know that flag, and every memory file is executable there. */
	cleanup_fd int fd = memfd_create("tenure", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("tenure", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;

	int r = copy_all(fd, self);

	if (r == 0 && fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		r = -errno;
	if (r == 0)
		r = try_to_run(fd);
	return r < 0 ? r : take_fd(fd);
}

/* Of a kind that is on this machine, and allows programs. */
static bool is_local(const char *dir)
{
	static const long local[] = { TMPFS_MAGIC,	     RAMFS_MAGIC,	EXT4_SUPER_MAGIC,
				      XFS_SUPER_MAGIC,	     BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
				      OVERLAYFS_SUPER_MAGIC, ZFS_MAGIC };
	struct statfs fs;

	if (statfs(dir, &fs) < 0 || fs.f_flags & ST_NOEXEC)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(local); i++)
		if ((long)fs.f_type == local[i])
			return true;
	return false;
}

/*
 * A copy in a file of dir that has no name any more. It has one for a moment, in a directory of its
 * own, since that is how /proc/PID/exe calls the processes that run from it. Its descriptor, or
 * -errno.
 */
static int copy_to_file(int self, const char *dir)
{
	cleanup_free char *own = xasprintf("%s/tenure-XXXXXX", dir);
	int r;

	if (!is_local(dir))
		return -EACCES;
	if (!mkdtemp(own))
		return -errno;

	cleanup_free char *path = xasprintf("%s/tenure", own);
	cleanup_fd int out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	cleanup_fd int fd = out < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);

	r = out < 0 || fd < 0 ? -errno : 0;
	(void)unlink(path);
	(void)rmdir(own);
	if (r == 0)
		r = copy_all(out, self);
	out = fd_close(out); /* what is open for writing cannot be executed */
	if (r == 0)
		r = try_to_run(fd);
	return r < 0 ? r : take_fd(fd);
}

static bool copy_to_any_file(int self, struct selfcopy *c)
{
	cleanup_free char *runtime = fs_runtime_dir();
	cleanup_free char *user = xasprintf("/run/user/%u", (unsigned int)geteuid());
	const char *const dirs[] = { runtime, user, "/dev/shm", "/tmp", "/var/tmp" };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		c->fd = copy_to_file(self, dirs[i]);
		if (c->fd < 0)
			continue;
		c->place = COPY_IN_FILE;
		(void)str_copy(c->dir, sizeof(c->dir), dirs[i]);
		return true;
	}
	return false;
}

int selfcopy_make(struct selfcopy *ret, struct err *e)
{
	cleanup_fd int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct selfcopy c = { .place = COPY_IN_MEMORY };

	if (self < 0)
		return err_sys(e, errno, "open /proc/self/exe");
	c.fd = copy_to_memory(self);
	if (c.fd < 0) {
		(void)str_copy(c.reason, sizeof(c.reason), strerror(-c.fd));
		if (!copy_to_any_file(self, &c)) {
			c.place = COPY_NONE;
			c.fd = take_fd(self);
		}
	}
	*ret = c;
	return 0;
}
