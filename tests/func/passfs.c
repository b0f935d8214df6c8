/* SPDX-License-Identifier: MIT */

/*
 * A file system that passes everything on to a directory: passfs DIRECTORY MOUNTPOINT. Stopped with
 * SIGSTOP it is a network file system whose server does not answer. Nothing is cached, so that
 * every access has to ask it.
 */
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int root_fd;

#define AT(path)     ((path)[1] ? (path) + 1 : ".")
#define RESULT(call) ((call) < 0 ? -errno : 0)

static int p_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	return RESULT(fstatat(root_fd, AT(path), st, AT_SYMLINK_NOFOLLOW));
}

static int p_open(const char *path, struct fuse_file_info *fi)
{
	int fd = openat(root_fd, AT(path), fi->flags & ~O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	fi->fh = (uint64_t)fd;
	return 0;
}

static int p_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	int fd = openat(root_fd, AT(path), fi->flags | O_CREAT, mode);

	if (fd < 0)
		return -errno;
	fi->fh = (uint64_t)fd;
	return 0;
}

static int p_release(const char *path, struct fuse_file_info *fi)
{
	return RESULT(close((int)fi->fh));
}

static int p_read(const char *path, char *buf, size_t size, off_t at, struct fuse_file_info *fi)
{
	ssize_t n = pread((int)fi->fh, buf, size, at);

	return n < 0 ? -errno : (int)n;
}

static int p_write(const char *path, const char *buf, size_t size, off_t at,
		   struct fuse_file_info *fi)
{
	ssize_t n = pwrite((int)fi->fh, buf, size, at);

	return n < 0 ? -errno : (int)n;
}

static int p_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t at,
		     struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
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
	return RESULT(mkdirat(root_fd, AT(path), mode));
}

static int p_unlink(const char *path)
{
	return RESULT(unlinkat(root_fd, AT(path), 0));
}

static int p_rename(const char *from, const char *to, unsigned int flags)
{
	return RESULT(renameat(root_fd, AT(from), root_fd, AT(to)));
}

static int p_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	return RESULT(fchmodat(root_fd, AT(path), mode, 0));
}

static int p_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	int fd = openat(root_fd, AT(path), O_WRONLY);
	int r = fd < 0 ? -errno : RESULT(ftruncate(fd, size));

	if (fd >= 0)
		(void)close(fd);
	return r;
}

static int p_fsync(const char *path, int data, struct fuse_file_info *fi)
{
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
	.truncate = p_truncate,
};

int main(int argc, char **argv)
{
	char name[] = "passfs", foreground[] = "-f";
	char *arguments[] = { name, foreground, argc == 3 ? argv[2] : NULL, NULL };

	if (argc != 3)
		return 2;
	root_fd = open(argv[1], O_RDONLY | O_DIRECTORY);
	if (root_fd < 0) {
		perror(argv[1]);
		return 1;
	}
	return fuse_main(3, arguments, &operations, NULL);
}
