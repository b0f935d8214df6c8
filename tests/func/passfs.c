/* SPDX-License-Identifier: MIT */

/*
 * A file system that passes everything on to a directory: passfs DIRECTORY MOUNTPOINT [HANGS].
 * Nothing is cached, so that every access has to ask it. Two ways to have a network file system
 * whose server does not answer:
 * - stopped with SIGSTOP it does not even read what it is asked, so whoever asks can be killed;
 * - operations whose names are in the file HANGS ("getattr write", or "all") begin and do not go
 *   on for as long as they are in there: whoever asked cannot be killed either.
 */
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANG_STEP_US 10000

static int root_fd;
static const char *hangs;

static bool is_named(const char *text, const char *operation)
{
	size_t n = strlen(operation);

	for (const char *p = text; (p = strstr(p, operation)); p += n)
		if ((p == text || p[-1] == ' ') && (!p[n] || strchr(" \n", p[n])))
			return true;
	return false;
}

static bool hangs_in(const char *operation)
{
	char text[256] = "";
	int fd = hangs ? open(hangs, O_RDONLY) : -1;
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		(void)close(fd);
	return n > 0 && (is_named(text, "all") || is_named(text, operation));
}

/* At the beginning of each operation. */
static void wait_for(const char *operation)
{
	while (hangs_in(operation))
		(void)usleep(HANG_STEP_US);
}

#define AT(path)     ((path)[1] ? (path) + 1 : ".")
#define RESULT(call) ((call) < 0 ? -errno : 0)

static int p_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	wait_for("getattr");

	return RESULT(fstatat(root_fd, AT(path), st, AT_SYMLINK_NOFOLLOW));
}

static int p_open(const char *path, struct fuse_file_info *fi)
{
	wait_for("open");

	int fd = openat(root_fd, AT(path), fi->flags & ~O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	fi->fh = (uint64_t)fd;
	return 0;
}

static int p_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	wait_for("create");

	int fd = openat(root_fd, AT(path), fi->flags | O_CREAT, mode);

	if (fd < 0)
		return -errno;
	fi->fh = (uint64_t)fd;
	return 0;
}

static int p_release(const char *path, struct fuse_file_info *fi)
{
	wait_for("release");

	return RESULT(close((int)fi->fh));
}

static int p_read(const char *path, char *buf, size_t size, off_t at, struct fuse_file_info *fi)
{
	wait_for("read");

	ssize_t n = pread((int)fi->fh, buf, size, at);

	return n < 0 ? -errno : (int)n;
}

static int p_write(const char *path, const char *buf, size_t size, off_t at,
		   struct fuse_file_info *fi)
{
	wait_for("write");

	ssize_t n = pwrite((int)fi->fh, buf, size, at);

	return n < 0 ? -errno : (int)n;
}

static int p_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t at,
		     struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	wait_for("readdir");

	int fd = openat(root_fd, AT(path), O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		(void)fill(buf, entry->d_name, NULL, 0, 0);
	(void)closedir(dir);
	return 0;
}

static int p_mkdir(const char *path, mode_t mode)
{
	wait_for("mkdir");

	return RESULT(mkdirat(root_fd, AT(path), mode));
}

static int p_unlink(const char *path)
{
	wait_for("unlink");

	return RESULT(unlinkat(root_fd, AT(path), 0));
}

static int p_rename(const char *from, const char *to, unsigned int flags)
{
	wait_for("rename");

	return RESULT(renameat(root_fd, AT(from), root_fd, AT(to)));
}

static int p_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	wait_for("chmod");

	return RESULT(fchmodat(root_fd, AT(path), mode, 0));
}

static int p_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	wait_for("truncate");

	int fd = openat(root_fd, AT(path), O_WRONLY);
	int r = fd < 0 ? -errno : RESULT(ftruncate(fd, size));

	if (fd >= 0)
		(void)close(fd);
	return r;
}

/* Where it is not there, the kernel stops asking after the first close(). */
static int p_flush(const char *path, struct fuse_file_info *fi)
{
	wait_for("flush");

	return 0;
}

static int p_fsync(const char *path, int data, struct fuse_file_info *fi)
{
	wait_for("fsync");

	return RESULT(fsync((int)fi->fh));
}

static void *p_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	cfg->attr_timeout = cfg->entry_timeout = cfg->negative_timeout = 0;
	return NULL;
}

static const struct fuse_operations operations = {
	.init = p_init,
	.getattr = p_getattr,
	.open = p_open,
	.create = p_create,
	.release = p_release,
	.read = p_read,
	.write = p_write,
	.readdir = p_readdir,
	.mkdir = p_mkdir,
	.unlink = p_unlink,
	.rename = p_rename,
	.chmod = p_chmod,
	.fsync = p_fsync,
	.flush = p_flush,
	.truncate = p_truncate,
};

int main(int argc, char **argv)
{
	char name[] = "passfs", foreground[] = "-f";
	char *arguments[] = { name, foreground, argc >= 3 ? argv[2] : NULL, NULL };

	if (argc < 3)
		return 2;
	hangs = argc > 3 ? argv[3] : NULL;
	root_fd = open(argv[1], O_RDONLY | O_DIRECTORY);
	if (root_fd < 0) {
		perror(argv[1]);
		return 1;
	}
	return fuse_main(3, arguments, &operations, NULL);
}
