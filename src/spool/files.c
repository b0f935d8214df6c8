/* SPDX-License-Identifier: MIT */

/*
 * The file calls that everything else here is made of. All paths are relative to one descriptor.
 *
 * spool_rename() is the transition: on a network filesystem its answer can get lost after it
 * happened, so that an error alone says nothing; what counts is which of the two names is there.
 * That works because every target is a name that only its maker uses.
 */

#include "spool/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/nofile.h"
#include "base/str.h"
#include "base/units.h"
#include "spool/own.h"

#define LIST_BYTES 32768 /* of names, in one call */
#define BLOCK_MAX  (2 * LINES_MAX)

static const char *const dir_names[] = {
	[SPOOL_PENDING] = "pending", [SPOOL_RUNNING] = "running",     [SPOOL_FAILED] = "failed",
	[SPOOL_DONE] = "done",	     [SPOOL_CANCELLED] = "cancelled", [SPOOL_ENDS] = "ends",
	[SPOOL_IDS] = "ids",	     [SPOOL_LANES] = "lanes",	      [SPOOL_LOGS] = "logs",
	[SPOOL_CONTROL] = "control", [SPOOL_AGENTS] = "agents",	      [SPOOL_EVENTS] = "events",
	[SPOOL_POOLS] = "pools",     [SPOOL_ALLOCS] = "allocs",	      [SPOOL_GANGS] = "gangs",
	[SPOOL_BURNS] = "burns",     [SPOOL_ON_END] = "on_end",	      [SPOOL_TMP] = "tmp",
	[SPOOL_BAD] = "bad",
};
_Static_assert(ARRAY_LEN(dir_names) == SPOOL_DIR_MAX, "every directory has a name");

const char *spool_dir_name(enum spool_dir dir)
{
	return dir_names[dir];
}

char *spool_path(enum spool_dir dir, const char *file, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "%s/%s", dir_names[dir], file);
}

char *spool_day_path(uint64_t wall_ns, char *buf)
{
	time_t sec = (time_t)(wall_ns / NS_PER_S);
	char day[16];
	struct tm tm;

	(void)localtime_r(&sec, &tm);
	(void)strftime(day, sizeof(day), "%Y-%m-%d", &tm);
	return spool_path(SPOOL_DONE, day, buf);
}

bool spool_accepts(const struct spool *sp, uid_t uid)
{
	if (uid == geteuid() || (sp->looks && uid == sp->owner))
		return true;
	for (size_t i = 0; i < sp->n_accepted; i++)
		if (sp->accepted[i] == uid)
			return true;
	return false;
}

bool spool_trusts(const struct spool *sp, uid_t uid)
{
	return sp->trust_directory || spool_accepts(sp, uid);
}

/* ---- opening ---- */

#define OPEN_FLAGS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)

/* With one call, which kernels before 5.6 do not have. */
static int open_at_once(const struct spool *sp, const char *path, int flags)
{
	struct open_how how = { .flags = (unsigned int)(flags | OPEN_FLAGS),
				.resolve = RESOLVE_NO_SYMLINKS };

	return (int)syscall(SYS_openat2, sp->fd, path, &how, sizeof(how));
}

/* ---- root who serves somebody's queue ---- */

/* What root of a container makes in the queue of a user outside is that user's, who could not read
 * it otherwise. */
static bool makes_for_owner(const struct spool *sp)
{
	return geteuid() == 0 && sp->owner != 0 && !sp->looks;
}

static void give_to_owner(const struct spool *sp, int fd)
{
	if (fchown(fd, sp->owner, sp->group) < 0)
		return; /* where root may not do that either, it stays root's */
}

/* Only what was made just now: a name that was there may be a link to any file of root's. */
static int create_for_owner(const struct spool *sp, int at, const char *file, int flags)
{
	int fd = openat(at, file, flags | O_EXCL | OPEN_FLAGS, 0600);

	if (fd < 0 && errno == EEXIST && !(flags & O_EXCL))
		return openat(at, file, flags | OPEN_FLAGS, 0600);
	if (fd >= 0)
		give_to_owner(sp, fd);
	return fd;
}

int spool_mkdirat(const struct spool *sp, const char *path, struct err *e)
{
	struct stat st;

	if (mkdirat(sp->fd, path, 0700) < 0)
		return errno == EEXIST ? 0
				       : err_sys(e, errno, "make directory %s/%s", sp->path, path);
	if (!makes_for_owner(sp))
		return 0;

	cleanup_fd int fd = spool_openat(sp, path, O_RDONLY | O_DIRECTORY);

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == 0)
		give_to_owner(sp, fd);
	return 0;
}

int spool_openat(const struct spool *sp, const char *path, int flags)
{
	cleanup_fd int dir = -1;
	const char *slash;
	int at = sp->fd;

	/* Any other error is found out part by part below. */
	if (!(flags & O_CREAT)) {
		int fd = open_at_once(sp, path, flags);

		if (fd >= 0 || errno == ENOENT)
			return fd < 0 ? -errno : fd;
	}

	/* O_NOFOLLOW is about the last part of a path alone. */
	while ((slash = strchr(path, '/'))) {
		char part[SPOOL_PATH_MAX];
		int next;

		(void)str_print(part, sizeof(part), "%.*s", (int)(slash - path), path);
		next = openat(at, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			return -errno;
		(void)fd_close(dir);
		at = dir = next;
		path = slash + 1;
	}

	int fd = flags & O_CREAT && makes_for_owner(sp)
			 ? create_for_owner(sp, at, path, flags)
			 : openat(at, path, flags | OPEN_FLAGS, 0600);

	return fd < 0 ? -errno : fd;
}

/* A directory of the spool that is a link is "not a directory" to the kernel. */
int spool_open_failed(const struct spool *sp, const char *path, int errnum, struct err *e)
{
	if (errnum == ELOOP)
		return err_set(e, -ELOOP, "%s/%s is a symbolic link, which is not followed here",
			       sp->path, path);
	if (errnum == ENOTDIR)
		return err_set(e, -ENOTDIR,
			       "open %s/%s: there is no directory, or a symbolic link to one, "
			       "which is not followed here",
			       sp->path, path);
	return err_sys(e, errnum, "open %s/%s", sp->path, path);
}

/* ---- lists of names ---- */

/* What getdents64() gives. */
struct listed {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

static int each_listed(const char *buf, size_t len, spool_entry_fn fn, void *data)
{
	int r = 0;

	for (size_t at = 0; r == 0 && at < len;) {
		const struct listed *l = (const struct listed *)(buf + at);

		at += l->len;
		if (l->name[0] != '.')
			r = fn(data, l->name, l->type);
	}
	return r;
}

/* 0, and what fn has come to; or -errno. Not with readdir(): to that, ENOENT is the end of the
 * list, and what was not told would be gone. */
static int each_in(int fd, spool_entry_fn fn, void *data, int *ret)
{
	_Alignas(struct listed) char buf[LIST_BYTES];
	long n = 0;
	int r = 0;

	while (r == 0 && (n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0)
		r = each_listed(buf, (size_t)n, fn, data);
	*ret = r;
	return n < 0 ? -errno : 0;
}

static int is_named(void *data, const char *file, unsigned char type)
{
	return strcmp(file, data) == 0;
}

int spool_each(const struct spool *sp, const char *dir, spool_entry_fn fn, void *data,
	       struct err *e)
{
	cleanup_fd int fd = spool_openat(sp, dir, O_RDONLY | O_DIRECTORY);
	int unread, r = 0;
	struct stat st;

	if (fd < 0)
		return spool_open_failed(sp, dir, -fd, e);
	/* A client of a file server keeps a listing until it asks for the time of the
	 * directory again. */
	if (sp->network)
		(void)spool_stat_now(fd, "", &st);
	unread = each_in(fd, fn, data, &r);
	return unread < 0 ? err_sys(e, -unread, "read %s/%s", sp->path, dir) : r;
}

/* ---- what is there, and what is not ---- */

bool spool_exists(const struct spool *sp, const char *path)
{
	return faccessat(sp->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool spool_is_there_now(const struct spool *sp, enum spool_dir dir, const char *file)
{
	char path[SPOOL_PATH_MAX];

	if (!sp->network)
		return spool_exists(sp, spool_path(dir, file, path));

	/* A file server that knows files by numbers opens a file whatever name it has now. */
	if (sp->stale_opens)
		return spool_lists(sp, dir, file, NULL) == 1;

	/* When a directory is opened NFS asks whether it has changed, and with it its names;
	 * when a file is opened NFS 4 asks for the file. */
	cleanup_fd int at = spool_openat(sp, dir_names[dir], O_RDONLY | O_DIRECTORY);
	cleanup_fd int fd =
		at < 0 ? -1 : openat(at, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

	return fd >= 0;
}

int spool_lists(const struct spool *sp, enum spool_dir dir, const char *file, struct err *e)
{
	return spool_each(sp, dir_names[dir], is_named, (void *)(uintptr_t)file, e);
}

/* As spool_lists(), of any path. */
static int is_listed(const struct spool *sp, const char *path)
{
	const char *file = strrchr(path, '/');
	char dir[SPOOL_PATH_MAX];

	(void)str_print(dir, sizeof(dir), "%.*s", file ? (int)(file - path) : 1, file ? path : ".");
	file = file ? file + 1 : path;
	return spool_each(sp, dir, is_named, (void *)(uintptr_t)file, NULL);
}

/* Where the listing may not be read, the one look has to do. */
bool spool_is_no_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *file = slash ? slash + 1 : path;
	size_t len = slash && slash > path ? (size_t)(slash - path) : 1;
	cleanup_free char *dir = xasprintf("%.*s", (int)len, slash ? path : ".");
	bool first = strcmp(dir, path) == 0;
	cleanup_fd int fd = -1;
	int named;

	if (!file[0])
		return !first && spool_is_no_path(dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || (errno == ENOENT && !first && spool_is_no_path(dir));
	return each_in(fd, is_named, (void *)(uintptr_t)file, &named) == 0 && !named;
}

bool spool_is_gone(const struct spool *sp, const char *path)
{
	return faccessat(sp->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
	       is_listed(sp, path) == 0;
}

int spool_confirm(const struct spool *sp, const char *path, int r, struct err *e)
{
	if (r != -ENOENT || spool_is_gone(sp, path))
		return r;
	return err_set(e, -EIO, "%s/%s is not found, though it is there", sp->path, path);
}

enum spool_dir spool_dir_of(const char *path)
{
	size_t len = strcspn(path, "/");
	enum spool_dir dir = (enum spool_dir)0;

	while (dir < SPOOL_DIR_MAX &&
	       (strlen(dir_names[dir]) != len || strncmp(path, dir_names[dir], len) != 0))
		dir++;
	return dir;
}

int spool_make_dir(const struct spool *sp, enum spool_dir dir, struct err *e)
{
	return spool_mkdirat(sp, dir_names[dir], e);
}

static bool is_of_ended(const char *path)
{
	enum spool_dir dir = spool_dir_of(path);

	return dir == SPOOL_FAILED || dir == SPOOL_CANCELLED || dir == SPOOL_DONE;
}

int spool_or_empty(const struct spool *sp, const char *dir, int r)
{
	return r == -ENOENT && is_of_ended(dir) && spool_is_gone(sp, dir) ? 0 : r;
}

int spool_stat_now(int dir_fd, const char *path, struct stat *ret)
{
	struct statx now;
	int flags = AT_SYMLINK_NOFOLLOW | (path[0] ? 0 : AT_EMPTY_PATH);

	/* After a forced statx() the kernel knows the file as it is; the call itself does not
	 * tell all of a stat. */
	if (statx(dir_fd, path, flags | AT_STATX_FORCE_SYNC, STATX_SIZE, &now) < 0 &&
	    errno != ENOSYS)
		return -errno;
	return fstatat(dir_fd, path, ret, flags) < 0 ? -errno : 0;
}

/* ---- renaming, removing, syncing ---- */

static int rename_failed(const struct spool *sp, int errnum, const char *from, const char *to,
			 struct err *e)
{
	return err_sys(e, errnum, "rename %s to %s in %s", from, to, sp->path);
}

int spool_take(const struct spool *sp, const char *from, const char *to, struct err *e)
{
	return renameat(sp->fd, from, sp->fd, to) < 0 ? rename_failed(sp, errno, from, to, e) : 0;
}

int spool_rename(const struct spool *sp, const char *from, const char *to, struct err *e)
{
	if (renameat(sp->fd, from, sp->fd, to) == 0)
		return 0;

	int errnum = errno;

	/* A cache may still say that `from` is there and `to` is not. */
	if (sp->network ? is_listed(sp, to) == 1 && is_listed(sp, from) == 0
			: spool_exists(sp, to) && !spool_exists(sp, from))
		return 0;
	return rename_failed(sp, errnum, from, to, e);
}

int spool_unlink(const struct spool *sp, const char *path, struct err *e)
{
	int r = unlinkat(sp->fd, path, 0) < 0 ? -errno : 0;

	if (r < 0 && r != -ENOENT)
		return err_sys(e, -r, "remove %s/%s", sp->path, path);
	return spool_confirm(sp, path, r, e) == -EIO ? -EIO : 0;
}

int spool_remove(const struct spool *sp, const char *path)
{
	return unlinkat(sp->fd, path, 0) < 0 ? -errno : 0;
}

int spool_stat(const struct spool *sp, const char *path, struct stat *ret)
{
	return fstatat(sp->fd, path, ret, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int spool_sync(const struct spool *sp, const char *path, struct err *e)
{
	cleanup_fd int fd = spool_openat(sp, path, O_RDONLY);

	if (fd < 0)
		return spool_open_failed(sp, path, -fd, e);
	/* Some network filesystems cannot; a rename is on the server there. */
	if (fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP)
		return err_sys(e, errno, "sync %s/%s", sp->path, path);
	return 0;
}

struct committing {
	const struct spool *sp;
	struct err *e;
};

static int commit_day(void *data, const char *file, unsigned char type)
{
	const struct committing *c = data;
	char path[SPOOL_PATH_MAX];

	if (type != DT_DIR && type != DT_UNKNOWN)
		return 0;
	return spool_sync(c->sp, spool_path(SPOOL_DONE, file, path), c->e);
}

int spool_sync_dirs(const struct spool *sp, unsigned int dirs, struct err *e)
{
	struct committing c = { sp, e };
	int r = 0;

	for (unsigned int i = 0; i < SPOOL_DIR_MAX && r == 0; i++)
		if (dirs & SPOOL_BIT(i))
			r = spool_or_empty(sp, dir_names[i], spool_sync(sp, dir_names[i], e));
	if (r == 0 && dirs & SPOOL_BIT(SPOOL_DONE))
		r = spool_or_empty(sp, dir_names[SPOOL_DONE],
				   spool_each(sp, dir_names[SPOOL_DONE], commit_day, &c, e));
	return r;
}

int spool_sync_all(const struct spool *sp, struct err *e)
{
	return syncfs(sp->fd) < 0 ? err_sys(e, errno, "sync the filesystem of %s", sp->path) : 0;
}

/* 0 or -errno. These four do only what is safe after fork() in a process with threads. */
static int sync_dir_at(int above_fd, const char *name, spool_entry_fn below)
{
	int fd = openat(above_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = 0, in = 0;

	if (fd < 0) /* gone; or nothing of ours is in it, as its owner does not let us in */
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
	if (below)
		in = each_in(fd, below, &fd, &r);
	if (in == 0 && r == 0 && fsync(fd) < 0 && errno != EINVAL && errno != ENOTSUP)
		r = -errno;
	(void)close(fd);
	return in < 0 ? in : r;
}

static int sync_below(void *data, const char *file, unsigned char type)
{
	const int *above_fd = data;

	return type == DT_DIR || type == DT_UNKNOWN ? sync_dir_at(*above_fd, file, NULL) : 0;
}

static int sync_names(int spool_fd)
{
	int r = 0;

	for (unsigned int i = 0; i < SPOOL_DIR_MAX && r == 0; i++)
		r = sync_dir_at(spool_fd, dir_names[i],
				i == SPOOL_DONE || i == SPOOL_ENDS ? sync_below : NULL);
	return r;
}

static void __attribute__((noreturn)) sync_and_tell(bool names, int spool_fd, int pipe_fd)
{
	int errnum;

	if (dup2(pipe_fd, 0) < 0 || dup2(spool_fd, 1) < 0)
		_exit(126);
	nofile_close(2, ~0U);
	(void)prctl(PR_SET_NAME, "tenure-sync");
	errnum = syncfs(1) < 0 ? errno : 0;
	if (errnum == 0 && names)
		errnum = -sync_names(1);
	(void)close(1); /* so that who is told need not wait for our end */
	_exit(write(0, &errnum, sizeof(errnum)) == (ssize_t)sizeof(errnum) ? 0 : 126);
}

int spool_sync_child(const struct spool *sp, pid_t *ret_child, int *ret_pipe)
{
	int fds[2];
	pid_t child;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	child = fork();
	if (child == 0)
		sync_and_tell(sp->no_syncfs, sp->fd, fds[1]);
	(void)fd_close(fds[1]);
	if (child < 0) {
		(void)fd_close(fds[0]);
		return -EAGAIN;
	}
	*ret_child = child;
	*ret_pipe = fds[0];
	return 0;
}

/* ---- writing and reading ---- */

/*
 * A name in tmp/ is nobody else's (spool_tmp_path()). Where it is there it was made by this very
 * call, which was made again because its first answer got lost, or was not believed (ESTALE).
 */
static int create_new(const struct spool *sp, const char *path)
{
	int fd = spool_openat(sp, path, O_WRONLY | O_CREAT | O_EXCL);

	if (fd != -EEXIST || strncmp(path, "tmp/", 4) != 0 || unlinkat(sp->fd, path, 0) < 0)
		return fd;
	return spool_openat(sp, path, O_WRONLY | O_CREAT | O_EXCL);
}

/* Only close() sends what was written to the file server, and only close() is told of an
 * error. */
int spool_send(const struct spool *sp, int fd)
{
	int copy = sp->network ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;

	if (!sp->network)
		return 0;
	return copy < 0 || close(copy) < 0 ? -errno : 0;
}

int spool_write_new(const struct spool *sp, const char *path, const void *data, size_t len,
		    bool durable, struct err *e)
{
	cleanup_fd int fd = create_new(sp, path);

	if (fd < 0)
		return err_sys(e, -fd, "create %s/%s", sp->path, path);

	int r = fs_write_all(fd, data, len);

	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	if (r == 0)
		r = spool_send(sp, fd);
	if (r < 0) {
		(void)unlinkat(sp->fd, path, 0);
		return err_sys(e, -r, "write %s/%s", sp->path, path);
	}
	return 0;
}

int spool_replace(const struct spool *sp, const char *path, const void *data, size_t len,
		  struct err *e)
{
	char tmp[SPOOL_PATH_MAX];
	int r = spool_write_new(sp, spool_tmp_path(sp, "write", 0, tmp), data, len, false, e);

	if (r == 0) {
		r = spool_rename(sp, tmp, path, e);
		if (r < 0)
			(void)unlinkat(sp->fd, tmp, 0);
	}
	return r;
}

int spool_put_once(const struct spool *sp, const char *tmp, const char *path, struct err *e)
{
	int r = 0;

	if (linkat(sp->fd, tmp, sp->fd, path, 0) == 0 || errno == EEXIST)
		r = 0;
	else if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) /* it has no links */
		r = spool_rename(sp, tmp, path, e);
	else
		r = err_sys(e, errno, "make %s/%s", sp->path, path);
	(void)unlinkat(sp->fd, tmp, 0);
	return r == 0 ? spool_sync(sp, ".", e) : r;
}

/* A record that a power loss cut must not swallow the next one. */
static bool ends_in_line(int fd, off_t size)
{
	char last;

	return size == 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n';
}

int spool_append(int fd, const void *data, size_t len)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;

	int r = ends_in_line(fd, st.st_size) ? 0 : fs_write_all(fd, "\n", 1);

	if (r == 0)
		r = fs_write_all(fd, data, len);
	/* Where even that fails, the reader passes over the half line. */
	if (r < 0 && ftruncate(fd, st.st_size) < 0)
		return r;
	return r;
}

/* Nobody asks when a file was read last, and the kernel's note of it, made whenever the file
 * was written since, costs more than the reading. Only root may leave it out of files of
 * others. */
static int open_quietly(const struct spool *sp, const char *path, int flags)
{
	bool reads = (flags & O_ACCMODE) != O_WRONLY && !(flags & O_CREAT);
	int fd = reads ? spool_openat(sp, path, flags | O_NOATIME) : -EPERM;

	return fd == -EPERM ? spool_openat(sp, path, flags) : fd;
}

static int open_file(const struct spool *sp, const char *path, int flags, struct stat *ret,
		     struct err *e)
{
	cleanup_fd int fd = open_quietly(sp, path, flags);
	struct stat st;

	/* A FIFO that nobody reads, or a directory, that should be written. */
	if (fd == -ENXIO || fd == -EISDIR)
		return err_set(e, -EINVAL, "%s/%s is not a regular file", sp->path, path);
	if (fd < 0)
		return spool_open_failed(sp, path, -fd, e);
	if (sp->stale_opens)
		(void)spool_stat_now(fd, "", &st);
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "stat %s/%s", sp->path, path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EINVAL, "%s/%s is not a regular file", sp->path, path);
	if (!spool_trusts(sp, st.st_uid))
		return err_set(e, -EPERM,
			       "%s/%s belongs to user %u, who is not trusted here (settings "
			       "accept_owners and trust)",
			       sp->path, path, (unsigned int)st.st_uid);
	/* A log is passed on to programs that may care. */
	if ((flags & O_ACCMODE) != O_RDONLY && fcntl(fd, F_SETFL, flags & O_APPEND) < 0)
		return err_sys(e, errno, "open %s/%s", sp->path, path);
	if (ret)
		*ret = st;
	return take_fd(fd);
}

int spool_open_file(const struct spool *sp, const char *path, int flags, struct stat *ret,
		    struct err *e)
{
	unsigned int tries = 0;
	int fd;

	do
		fd = open_file(sp, path, flags, ret, e);
	while (!(flags & O_CREAT) && fs_reads_again(fd, &tries));
	return fd;
}

bool spool_is_bad(int r)
{
	return r == -ELOOP || r == -EINVAL || r == -EPERM;
}

int spool_open_own(const struct spool *sp, const char *path, int flags, struct stat *ret,
		   struct err *e)
{
	struct err why = ERR_INIT;
	int fd = spool_open_file(sp, path, flags, ret, &why);

	if (spool_is_bad(fd) && spool_refuse(sp, path, why.text, NULL) == 0)
		return spool_open_file(sp, path, flags, ret, e);
	if (fd < 0 && e)
		*e = why;
	return fd;
}

int spool_read(const struct spool *sp, const char *path, size_t max, char **ret, size_t *ret_len,
	       struct err *e)
{
	struct stat st;

	return spool_read_stat(sp, path, max, ret, ret_len, &st, e);
}

static int read_whole(const struct spool *sp, const char *path, size_t max, char **ret,
		      size_t *ret_len, struct stat *ret_stat, struct err *e)
{
	struct stat st;
	cleanup_fd int fd = open_file(sp, path, O_RDONLY, &st, e);
	size_t len = 0;

	if (fd < 0)
		return fd;
	if ((uint64_t)st.st_size > max) {
		char text[UNIT_TEXT_MAX];

		return err_set(e, -EFBIG, "%s/%s is larger than %s", sp->path, path,
			       unit_format_size_exact(max, text));
	}

	cleanup_free char *buf = xmalloc((size_t)st.st_size + 1);

	while (len < (size_t)st.st_size) {
		ssize_t n = read(fd, buf + len, (size_t)st.st_size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "read %s/%s", sp->path, path);
		if (n == 0)
			break;
		len += (size_t)n;
	}
	buf[len] = '\0';
	*ret = take_ptr(buf);
	*ret_len = len;
	*ret_stat = st;
	return 0;
}

int spool_read_stat(const struct spool *sp, const char *path, size_t max, char **ret,
		    size_t *ret_len, struct stat *ret_stat, struct err *e)
{
	unsigned int tries = 0;
	int r;

	do
		r = read_whole(sp, path, max, ret, ret_len, ret_stat, e);
	while (fs_reads_again(r, &tries));
	return r;
}

char *spool_tmp_path(const struct spool *sp, const char *what, uint64_t id, char *buf)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		random = clock_wall_ns() ^ (uint64_t)getpid() << 40;
	return str_print(buf, SPOOL_PATH_MAX, "tmp/%s,%" PRIu64 ",%016" PRIx64, what, id, random);
}

int spool_now(const struct spool *sp, uint64_t *ret_ns, struct err *e)
{
	char tmp[SPOOL_PATH_MAX];
	struct stat st;
	int r;

	(void)spool_tmp_path(sp, "now", 0, tmp);
	r = spool_write_new(sp, tmp, "", 0, false, e);
	if (r < 0)
		return r;
	r = spool_stat(sp, tmp, &st);
	(void)spool_remove(sp, tmp);
	if (r < 0)
		return err_sys(e, -r, "stat %s/%s", sp->path, tmp);
	*ret_ns = clock_timespec_ns(&st.st_mtim);
	return 0;
}

uint64_t spool_now_or_ours(const struct spool *sp)
{
	uint64_t now_ns;

	if (!sp->network || (sp->looks && sp->owner != geteuid()) ||
	    spool_now(sp, &now_ns, NULL) < 0)
		return clock_wall_ns();
	return now_ns;
}

int spool_refuse(const struct spool *sp, const char *path, const char *reason, struct err *e)
{
	const char *slash = strrchr(path, '/');
	cleanup_free char *line = xasprintf("%s\n", reason);
	char to[SPOOL_PATH_MAX], note[SPOOL_PATH_MAX + 8];

	/* Room for the suffix; what is cut off is the tail of a name that is bad anyway. */
	(void)str_print(to, sizeof(to), "bad/%.240s", slash ? slash + 1 : path);
	(void)str_print(note, sizeof(note), "%s.reason", to);

	int r = spool_rename(sp, path, to, NULL);

	if (r == -EISDIR || r == -ENOTDIR || r == -EEXIST || r == -ENOTEMPTY) {
		/* A directory that cannot be replaced is there, or becomes one. */
		char tmp[SPOOL_PATH_MAX];

		(void)spool_tmp_path(sp, "", 0, tmp);
		(void)str_print(to, sizeof(to), "bad/%.220s%s", slash ? slash + 1 : path,
				strrchr(tmp, ','));
		(void)str_print(note, sizeof(note), "%s.reason", to);
		r = spool_rename(sp, path, to, NULL);
	}
	if (r < 0)
		return rename_failed(sp, -r, path, to, e);
	return spool_replace(sp, note, line, strlen(line), e);
}

/* ---- line by line ---- */

struct block {
	char *text;
	size_t len;
	off_t at;     /* of text in the file */
	bool passing; /* in a line that is too long */
};

static void tell_line(const char *line, size_t len, lines_fn fn, void *data)
{
	while (len && *line == '\0') {
		line++;
		len--;
	}
	if (len && len <= LINES_MAX)
		fn(data, line, len);
}

/* Tells the whole lines of a block, and keeps the rest at its beginning. */
static void take_lines(struct block *b, off_t *offset, lines_fn fn, void *data)
{
	size_t at = 0;

	for (char *stop; (stop = memchr(b->text + at, '\n', b->len - at));) {
		size_t next = (size_t)(stop - b->text) + 1;

		if (!b->passing)
			tell_line(b->text + at, next - 1 - at, fn, data);
		b->passing = false;
		at = next;
		*offset = b->at + (off_t)at;
	}
	/* A line that has no end yet is read again from its beginning, which costs no more
	 * than time. */
	if (b->len - at > LINES_MAX || b->passing) {
		b->passing = true;
		at = b->len;
	}
	(void)memmove(b->text, b->text + at, b->len - at);
	b->len -= at;
	b->at += (off_t)at;
}

/* Mostly there is a line or two to read. */
static int read_on(int fd, off_t end, off_t *offset, lines_fn fn, void *data)
{
	size_t size = end - *offset < BLOCK_MAX ? (size_t)(end - *offset) : BLOCK_MAX;
	cleanup_free char *text = xmalloc(size);
	struct block b = { .text = text, .at = *offset };

	while (b.at + (off_t)b.len < end) {
		ssize_t n = pread(fd, b.text + b.len, size - b.len, b.at + (off_t)b.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		b.len += (size_t)n;
		take_lines(&b, offset, fn, data);
	}
	return 0;
}

int lines_read(const struct spool *sp, const char *path, off_t *offset, lines_fn fn, void *data,
	       struct err *e)
{
	struct stat st;
	cleanup_fd int fd = spool_open_file(sp, path, O_RDONLY, &st, e);
	int r;

	if (fd < 0)
		return fd;
	if (st.st_size <= *offset)
		return 0;
	r = read_on(fd, st.st_size, offset, fn, data);
	return r < 0 ? err_sys(e, -r, "read %s/%s", sp->path, path) : 0;
}
