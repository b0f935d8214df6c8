/* SPDX-License-Identifier: MIT */
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

/* One file is not replaced so often within the time that it takes to read it. */
#define STALE_TRIES 5

static int read_up_to(int fd, char *buf, size_t size, size_t *ret_len)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, buf + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*ret_len = len;
	return 0;
}

int fs_read_open(int fd, const char *path, size_t max, char **ret, size_t *ret_len, struct err *e)
{
	cleanup_free char *buf = NULL;
	struct stat st;
	size_t len;

	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "stat %s", path);

	/* st_size is a hint only: /proc says 0. */
	size_t size = (size_t)st.st_size + 1 > 4096 ? (size_t)st.st_size + 1 : 4096;

	if (size > max + 1)
		size = max + 1;
	buf = xmalloc(size + 1);

	int r = read_up_to(fd, buf, size, &len);

	if (r < 0)
		return err_sys(e, -r, "read %s", path);
	while (len == size && size < max + 1) {
		size_t more = 0, grown = 2 * size < max + 1 ? 2 * size : max + 1;

		buf = xrealloc(buf, grown + 1, 1);
		r = read_up_to(fd, buf + len, grown - len, &more);
		if (r < 0)
			return err_sys(e, -r, "read %s", path);
		len += more;
		size = grown;
	}
	if (len > max)
		return err_set(e, -EFBIG, "%s is larger than %zu bytes", path, max);
	buf[len] = '\0';
	*ret = take_ptr(buf);
	*ret_len = len;
	return 0;
}

static int check_own(const char *path, const struct stat *st, struct err *e)
{
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return err_set(e, -EPERM,
			       "%s belongs to another user (uid %u; you are %u), whose word it "
			       "would be: it is not read. Is HOME that user's, after sudo or su? "
			       "XDG_CONFIG_HOME names another place",
			       path, (unsigned int)st->st_uid, (unsigned int)geteuid());
	if (st->st_mode & S_IWOTH)
		return err_set(
			e, -EPERM,
			"everybody can write to %s: it is not read (chmod o-w makes it yours)",
			path);
	return 0;
}

bool fs_reads_again(int r, unsigned int *tries)
{
	return r == -ESTALE && ++*tries < STALE_TRIES;
}

static int read_once(const char *path, bool own, size_t max, char **ret, size_t *ret_len,
		     struct err *e)
{
	/* Not blocking: a FIFO of that name must not stop us. */
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "stat %s", path);
	if (S_ISDIR(st.st_mode))
		return err_sys(e, EISDIR, "read %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EINVAL, "%s is not a regular file", path);

	int r = own ? check_own(path, &st, e) : 0;

	return r < 0 ? r : fs_read_open(fd, path, max, ret, ret_len, e);
}

static int read_regular(const char *path, bool own, size_t max, char **ret, size_t *ret_len,
			struct err *e)
{
	unsigned int tries = 0;
	int r;

	do
		r = read_once(path, own, max, ret, ret_len, e);
	while (fs_reads_again(r, &tries));
	return r;
}

int fs_read_file(const char *path, size_t max, char **ret, size_t *ret_len, struct err *e)
{
	return read_regular(path, false, max, ret, ret_len, e);
}

int fs_read_own_file(const char *path, size_t max, char **ret, size_t *ret_len, struct err *e)
{
	return read_regular(path, true, max, ret, ret_len, e);
}

int fs_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* errnum 0: an earlier write has failed, and why is forgotten. */
static int stdout_is_lost(int errnum, struct err *e)
{
	if (!errnum)
		return err_set(e, -EIO, "cannot write to standard output");
	return err_sys(e, errnum, "write to standard output");
}

int fs_flush_stdout(struct err *e)
{
	bool failed = ferror(stdout);

	errno = 0;
	return fflush(stdout) == 0 && !failed ? 0 : stdout_is_lost(errno, e);
}

int fs_stdout_is_read(struct err *e)
{
	struct pollfd p = { .fd = STDOUT_FILENO };

	if (poll(&p, 1, 0) <= 0 || !(p.revents & (POLLERR | POLLHUP)))
		return 0;
	(void)raise(SIGPIPE);
	return stdout_is_lost(EPIPE, e);
}

int fs_close_stdout(struct err *e)
{
	bool failed = ferror(stdout);

	/* Also what only closing tells, on some network filesystems. */
	errno = 0;
	return fclose(stdout) == 0 && !failed ? 0 : stdout_is_lost(errno, e);
}

static char *dir_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	if (slash == path)
		return xstrdup("/");
	return xasprintf("%.*s", (int)(slash - path), path);
}

/* Those that one kernel has to itself (linux/magic.h, and ZFS's own); all others may be shared. */
bool fs_is_shared(int fd)
{
	static const uint32_t local[] = {
		0xef53 /* ext */,	0x58465342 /* xfs */,	  0x9123683e /* btrfs */,
		0x01021994 /* tmpfs */, 0x794c7630 /* overlay */, 0xf2f52010 /* f2fs */,
		0x2fc12fc1 /* zfs */,	0x858458f6 /* ramfs */,	  0xca451a4e /* bcachefs */,
	};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(local); i++)
		if ((uint32_t)fs.f_type == local[i])
			return false;
	return true;
}

bool fs_has_syncfs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (uint32_t)fs.f_type != 0x65735546; /* FUSE, and virtiofs */
}

int fs_sync_dir(const char *path, struct err *e)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	/* Some network filesystems cannot; a rename is on the server there. */
	if (fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP)
		return err_sys(e, errno, "sync %s", path);
	return 0;
}

static int write_synced(int fd, const void *data, size_t len, mode_t mode)
{
	int r = fs_write_all(fd, data, len);

	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

/* All of it in a file beside path, whose name the caller frees. */
static int write_beside(const char *path, const void *data, size_t len, mode_t mode, char **ret,
			struct err *e)
{
	cleanup_free char *tmp = xasprintf("%s.XXXXXX", path);
	cleanup_fd int fd = mkostemp(tmp, O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "create %s", tmp);

	int r = write_synced(fd, data, len, mode);

	if (r < 0) {
		(void)unlink(tmp);
		return err_sys(e, -r, "write %s", tmp);
	}
	*ret = take_ptr(tmp);
	return 0;
}

int fs_write_atomic(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
	cleanup_free char *dir = dir_of(path);
	cleanup_free char *tmp = NULL;
	int r = write_beside(path, data, len, mode, &tmp, e);

	if (r < 0)
		return r;
	if (rename(tmp, path) < 0) {
		r = err_sys(e, errno, "rename %s to %s", tmp, path);
		(void)unlink(tmp);
		return r;
	}
	return fs_sync_dir(dir, e);
}

/* Some filesystems have no links. */
static bool lacks_links(int errnum)
{
	return errnum == EPERM || errnum == EOPNOTSUPP || errnum == ENOSYS || errnum == EMLINK;
}

int fs_write_new(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
	cleanup_free char *dir = dir_of(path);
	cleanup_free char *tmp = NULL;
	int r = write_beside(path, data, len, mode, &tmp, e);

	if (r < 0)
		return r;
	if (link(tmp, path) < 0 && (!lacks_links(errno) || rename(tmp, path) < 0))
		r = err_sys(e, errno, "link %s to %s", tmp, path);
	(void)unlink(tmp);
	return r < 0 ? r : fs_sync_dir(dir, e);
}

/* A pipe that nobody reads is not waited for. */
static int open_special(const char *path, struct err *e)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, errno, "open %s%s", path,
			       errno == ENXIO ? " (nobody reads it)" : "");
	(void)fcntl(fd, F_SETFL, O_APPEND);
	return fd;
}

int fs_write_report(const char *path, const void *data, size_t len, mode_t mode, struct err *e)
{
	cleanup_free char *real = realpath(path, NULL); /* NULL: it is not there yet */
	struct stat st;

	if (stat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return fs_write_atomic(real ? real : path, data, len, mode, e);

	cleanup_fd int fd = open_special(path, e);
	int r = fd < 0 ? fd : fs_write_all(fd, data, len);

	return fd >= 0 && r < 0 ? err_sys(e, -r, "write %s", path) : r;
}

static bool is_stdout(const struct stat *st)
{
	struct stat out;

	return fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == st->st_dev &&
	       out.st_ino == st->st_ino;
}

int fs_check_report(const char *path, struct err *e)
{
	cleanup_free char *real = realpath(path, NULL);
	cleanup_free char *tmp = xasprintf("%s.XXXXXX", real ? real : path);
	const size_t len = strlen(path);
	struct stat st;
	int fd;

	if (!len)
		return err_set(e, -ENOENT, "the name of a file is empty");
	if (stat(path, &st) < 0)
		st = (struct stat){ .st_mode = path[len - 1] == '/' ? S_IFDIR : S_IFREG };
	else if (S_ISREG(st.st_mode) && is_stdout(&st))
		return err_set(e, -EINVAL, "%s is where standard output goes", path);
	if (S_ISDIR(st.st_mode))
		return err_sys(e, EISDIR, "write %s", path);
	if (!S_ISREG(st.st_mode))
		return access(path, W_OK) < 0 ? err_sys(e, errno, "write %s", path) : 0;
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "create %s", tmp);
	(void)unlink(tmp);
	(void)fd_close(fd);
	return 0;
}

int fs_open_no_link(const char *path, int flags, mode_t mode)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *dir = !slash		? xstrdup(".")
				 : slash > path ? xasprintf("%.*s", (int)(slash - path), path)
						: xstrdup("/");
	cleanup_fd int at = open(dir, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	int fd;

	if (at < 0 || fstat(at, &st) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode)) /* O_PATH opens the link itself */
		return -ELOOP;
	fd = openat(at, slash ? slash + 1 : path, flags | O_NOFOLLOW, mode);
	return fd < 0 ? -errno : fd;
}

int fs_mkdirs(const char *path, mode_t mode, struct err *e)
{
	cleanup_free char *copy = xstrdup(path);

	for (char *p = copy + 1; copy[0]; p++) {
		char c = *p;

		if (c != '/' && c != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, mode) < 0 && errno != EEXIST) {
			int errnum = errno;
			struct stat st;

			/* A read-only root answers EROFS for directories that are there. */
			if (stat(copy, &st) < 0 || !S_ISDIR(st.st_mode))
				return err_sys(e, errnum, "make directory %s", copy);
		}
		*p = c;
		if (!c)
			break;
	}

	struct stat st;

	if (stat(path, &st) < 0)
		return err_sys(e, errno, "make directory %s", path);
	if (!S_ISDIR(st.st_mode))
		return err_sys(e, ENOTDIR, "make directory %s", path);
	return 0;
}

static bool is_private(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & 077) == 0;
}

/* The first by name of those that were made beside it, so that every call finds the same. */
static char *find_private(const char *above, const char *name)
{
	DIR *d = opendir(above);
	char *best = NULL;

	for (struct dirent *de; d && (de = readdir(d));) {
		size_t len = strlen(name);

		if (strncmp(de->d_name, name, len) != 0 || de->d_name[len] != '.')
			continue;

		char *path = xasprintf("%s/%s", above, de->d_name);

		if (!is_private(path) || (best && strcmp(best, path) <= 0)) {
			free(path);
			continue;
		}
		free(best);
		best = path;
	}
	if (d)
		(void)closedir(d);
	return best;
}

char *fs_private_dir(const char *above, const char *name)
{
	char *path = xasprintf("%s/%s", above, name);

	if ((mkdir(path, 0700) == 0 || errno == EEXIST) && is_private(path))
		return path;
	free(path);
	path = find_private(above, name);
	if (path)
		return path;
	path = xasprintf("%s/%s.XXXXXX", above, name);
	if (mkdtemp(path))
		return path;
	free(path);
	return NULL;
}

char *fs_home_dir(void)
{
	const char *home = getenv("HOME");
	struct passwd pw, *found = NULL;
	char buf[4096];

	if (home && home[0] == '/')
		return xstrdup(home);
	if (getpwuid_r(getuid(), &pw, buf, sizeof(buf), &found) == 0 && found && pw.pw_dir)
		return xstrdup(pw.pw_dir);
	return xstrdup("/");
}

static char *xdg_dir(const char *variable, const char *fall_back)
{
	const char *base = getenv(variable);

	/* The specification: a relative path is to be ignored. */
	if (base && base[0] == '/')
		return xasprintf("%s/tenure", base);

	cleanup_free char *home = fs_home_dir();

	return xasprintf("%s/%s/tenure", strcmp(home, "/") == 0 ? "" : home, fall_back);
}

char *fs_config_dir(void)
{
	return xdg_dir("XDG_CONFIG_HOME", ".config");
}

char *fs_state_dir(void)
{
	return xdg_dir("XDG_STATE_HOME", ".local/state");
}

char *fs_runtime_dir(void)
{
	return xdg_dir("XDG_RUNTIME_DIR", ".local/state");
}

char *fs_cache_dir(void)
{
	return xdg_dir("XDG_CACHE_HOME", ".cache");
}

char *fs_real_dir(const char *path, const char *well_known)
{
	char *real = realpath(path, NULL);
	struct stat a, b;

	if (!real)
		return xstrdup(path);
	if (stat(real, &a) == 0 && stat(well_known, &b) == 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino) {
		free(real);
		return xstrdup(well_known);
	}
	return real;
}

char *fs_show_path(const char *path)
{
	cleanup_free char *home = fs_home_dir();
	size_t len = strlen(home);

	if (len > 1 && strncmp(path, home, len) == 0 && path[len] == '/')
		return xasprintf("~%s", path + len);
	return xstrdup(path);
}
