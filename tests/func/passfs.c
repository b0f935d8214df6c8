/* SPDX-License-Identifier: MIT */

/*
 * A file system that passes everything on to a directory:
 *
 *	passfs DIRECTORY MOUNTPOINT [RULES [NEGATIVE ENTRY ATTR]]
 *
 * Stopped with SIGSTOP it is a network file system whose server does not even read what it is
 * asked, so that whoever asks can be killed. RULES is a file that may change at any time, a line
 *
 *	OPERATION PATTERN ACTION
 *
 * for each fault: the operation is called as in `operations` below, or anything (a star), the
 * pattern is of the path without a slash in front, and the action is the name of an error, `hang`,
 * until the line is gone, which nobody can be killed in, or `slow`, 20 ms. NEGATIVE, ENTRY
 * and ATTR: for how many seconds the kernel believes what it was told of names that are not there,
 * of those that are, and of files; 0 by default, so that every access has to ask.
 */
#define FUSE_USE_VERSION 31

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int root_fd;
static const char *rules;
static double negative, entry, attr;

/* Of a file that was removed while it was open there is none. */
#define AT(path)     ((path) && (path)[1] ? (path) + 1 : ".")
#define RESULT(call) ((call) < 0 ? -errno : 0)

#define HANG 1
#define SLOW 2

/* What the first rule says that is about it: -errno, HANG, SLOW; 0: there is none. */
static int ruled(const char *operation, const char *path)
{
	static const struct {
		const char *name;
		int code;
	} actions[] = { { "hang", HANG },      { "slow", SLOW },      { "EIO", -EIO },
			{ "ENOENT", -ENOENT }, { "ENOSPC", -ENOSPC }, { "ESTALE", -ESTALE },
			{ "EACCES", -EACCES }, { "EEXIST", -EEXIST } };
	char op[32], pattern[512], action[32];
	FILE *f = rules ? fopen(rules, "re") : NULL;
	int code = 0;

	while (f && !code && fscanf(f, "%31s %511s %31s", op, pattern, action) == 3)
		for (size_t i = 0; i < sizeof(actions) / sizeof(*actions) && !code; i++)
			if (strcmp(action, actions[i].name) == 0 &&
			    fnmatch(op, operation, 0) == 0 && fnmatch(pattern, AT(path), 0) == 0)
				code = actions[i].code;
	if (f)
		(void)fclose(f);
	return code;
}

static int fault(const char *operation, const char *path)
{
	int code;

	while ((code = ruled(operation, path)) == HANG)
		(void)usleep(5000);
	if (code == SLOW)
		(void)usleep(20000);
	return code == SLOW ? 0 : code;
}

/* The fault of the operation that this function is called after, without its p_. */
#define RULES(path)                                                                                \
	do {                                                                                       \
		int fault_ = fault(__func__ + 2, path);                                            \
                                                                                                   \
		if (fault_)                                                                        \
			return fault_;                                                             \
	} while (0)

static int p_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	RULES(path);
	return fi ? RESULT(fstat((int)fi->fh, st))
		  : RESULT(fstatat(root_fd, AT(path), st, AT_SYMLINK_NOFOLLOW));
}

static int p_open(const char *path, struct fuse_file_info *fi)
{
	int fd;

	RULES(path);
	fd = openat(root_fd, AT(path), fi->flags & ~O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	fi->fh = (uint64_t)fd;
	return 0;
}

static int p_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	int fd;

	RULES(path);
	fd = openat(root_fd, AT(path), fi->flags | O_CREAT, mode);
	if (fd < 0)
		return -errno;
	fi->fh = (uint64_t)fd;
	return 0;
}

static int p_release(const char *path, struct fuse_file_info *fi)
{
	RULES(path);
	return RESULT(close((int)fi->fh));
}

static int p_read(const char *path, char *buf, size_t size, off_t at, struct fuse_file_info *fi)
{
	ssize_t n;

	RULES(path);
	n = pread((int)fi->fh, buf, size, at);
	return n < 0 ? -errno : (int)n;
}

static int p_write(const char *path, const char *buf, size_t size, off_t at,
		   struct fuse_file_info *fi)
{
	ssize_t n;

	RULES(path);
	n = pwrite((int)fi->fh, buf, size, at);
	return n < 0 ? -errno : (int)n;
}

static int p_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t at,
		     struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	struct dirent *one;
	DIR *dir;
	int fd;

	RULES(path);
	fd = openat(root_fd, AT(path), O_RDONLY | O_DIRECTORY);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return -errno;
	while ((one = readdir(dir)))
		(void)fill(buf, one->d_name, NULL, 0, 0);
	(void)closedir(dir);
	return 0;
}

static int p_mkdir(const char *path, mode_t mode)
{
	RULES(path);
	return RESULT(mkdirat(root_fd, AT(path), mode));
}

static int p_unlink(const char *path)
{
	RULES(path);
	return RESULT(unlinkat(root_fd, AT(path), 0));
}

static int p_rmdir(const char *path)
{
	RULES(path);
	return RESULT(unlinkat(root_fd, AT(path), AT_REMOVEDIR));
}

static int p_link(const char *from, const char *to)
{
	RULES(from);
	return RESULT(linkat(root_fd, AT(from), root_fd, AT(to), 0));
}

static int p_rename(const char *from, const char *to, unsigned int flags)
{
	RULES(from);
	return RESULT(renameat(root_fd, AT(from), root_fd, AT(to)));
}

static int p_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	RULES(path);
	return RESULT(fchmodat(root_fd, AT(path), mode, 0));
}

static int p_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	int fd, r;

	RULES(path);
	fd = openat(root_fd, AT(path), O_WRONLY);
	r = fd < 0 ? -errno : RESULT(ftruncate(fd, size));

	if (fd >= 0)
		(void)close(fd);
	return r;
}

/* What the owner of a file waits for in close(). */
static int p_flush(const char *path, struct fuse_file_info *fi)
{
	RULES(path);
	return RESULT(close(dup((int)fi->fh)));
}

static int p_fsync(const char *path, int data, struct fuse_file_info *fi)
{
	RULES(path);
	return RESULT(fsync((int)fi->fh));
}

static void *p_init(struct fuse_conn_info *conn, struct fuse_config *cfg)
{
	cfg->attr_timeout = attr;
	cfg->entry_timeout = entry;
	cfg->negative_timeout = negative;
	cfg->hard_remove = 1;
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
	.rmdir = p_rmdir,
	.link = p_link,
	.rename = p_rename,
	.chmod = p_chmod,
	.flush = p_flush,
	.fsync = p_fsync,
	.truncate = p_truncate,
};

int main(int argc, char **argv)
{
	char name[] = "passfs", foreground[] = "-f";
	char *arguments[] = { name, foreground, argc > 2 ? argv[2] : NULL, NULL };

	if (argc != 3 && argc != 4 && argc != 7)
		return 2;
	root_fd = open(argv[1], O_RDONLY | O_DIRECTORY);
	if (root_fd < 0) {
		perror(argv[1]);
		return 1;
	}
	rules = argc > 3 ? argv[3] : NULL;
	if (argc > 4) {
		negative = strtod(argv[4], NULL);
		entry = strtod(argv[5], NULL);
		attr = strtod(argv[6], NULL);
	}
	return fuse_main(3, arguments, &operations, NULL);
}
