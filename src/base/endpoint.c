/* SPDX-License-Identifier: MIT */
#include "base/endpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "base/str.h"

#define LOCK_SUFFIX ".lock"

/*
 * A child of the owner has a copy of the lock between fork and exec, and who looks whether it is
 * free has it for a moment: it is asked for more than once.
 */
#define LOCK_TRIES 6
#define LOCK_STEP  (10 * NS_PER_MS)
#define GONE_TRIES 8 /* the directory was removed as the last one left it */

/* ---- names and files ---- */

static uint64_t hash_of(const char *text)
{
	uint64_t h = 0xcbf29ce484222325ULL; /* FNV-1a */

	for (const char *p = text; *p; p++)
		h = (h ^ (unsigned char)*p) * 0x100000001b3ULL;
	return h;
}

/* No name has a ':', nor begins with '~'. */
static void file_of(const char *name, char file[ENDPOINT_FILE_MAX])
{
	if (strlen(name) >= ENDPOINT_FILE_MAX - sizeof(LOCK_SUFFIX)) {
		(void)str_print(file, ENDPOINT_FILE_MAX, "~%016" PRIx64, hash_of(name));
		return;
	}
	(void)str_copy(file, ENDPOINT_FILE_MAX, name);
	for (char *p = file; *p; p++)
		if (*p == '/')
			*p = ':';
}

static char *lock_of(const char *file, char lock[ENDPOINT_FILE_MAX + 8])
{
	return str_print(lock, ENDPOINT_FILE_MAX + 8, "%s" LOCK_SUFFIX, file);
}

static char *old_name_of(const char *name, char old[ENDPOINT_NAME_MAX + 32])
{
	return str_print(old, ENDPOINT_NAME_MAX + 32, "tenure/%u/%s", (unsigned int)geteuid(),
			 name);
}

static bool is_file(int dir_fd, const char *file, const struct endpoint_file *id)
{
	struct stat st;

	return fstatat(dir_fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == id->dev &&
	       st.st_ino == id->ino;
}

static int identify(int fd, struct endpoint_file *ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*ret = (struct endpoint_file){ .dev = st.st_dev, .ino = st.st_ino };
	return 0;
}

static void rest(void)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = LOCK_STEP }, NULL);
}

/* ---- the lock ---- */

/* 0; 1: the file went meanwhile; -EADDRINUSE; -errno. */
static int lock_once(int dir_fd, const char *lock, int *ret, struct endpoint_file *ret_id)
{
	cleanup_fd int fd =
		openat(dir_fd, lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
	r = identify(fd, ret_id);
	if (r < 0)
		return r;
	if (!is_file(dir_fd, lock, ret_id))
		return 1;
	*ret = take_fd(fd);
	return 0;
}

static int take_lock(struct endpoint *ep)
{
	char lock[ENDPOINT_FILE_MAX + 8];
	int r = 1;

	(void)lock_of(ep->file, lock);
	for (int i = 0; i < LOCK_TRIES && (r == 1 || r == -EADDRINUSE); i++) {
		if (i)
			rest();
		r = lock_once(ep->dir.fd, lock, &ep->lock_fd, &ep->lock_id);
	}
	if (r == 0 && ftruncate(ep->lock_fd, 0) == 0) /* for people, and endpoint_each() */
		(void)dprintf(ep->lock_fd, "%s\nPID %d\n", ep->name, (int)getpid());
	return r == 1 ? -EADDRINUSE : r;
}

static bool is_held(int dir_fd, const char *lock)
{
	cleanup_fd int fd = openat(dir_fd, lock, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* As take_lock(): who has it for longer than a moment. */
static bool is_held_for_good(int dir_fd, const char *lock)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (i)
			rest();
		if (!is_held(dir_fd, lock))
			return false;
	}
	return true;
}

/* ---- the socket ---- */

static void address_of(int dir_fd, const char *file, struct sockaddr_un *sa)
{
	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)str_print(sa->sun_path, sizeof(sa->sun_path), "/proc/self/fd/%d/%s", dir_fd, file);
}

/* With the lock, so that whatever has the name is left over. */
static int bind_socket(struct endpoint *ep)
{
	cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un sa;
	struct stat st;

	address_of(ep->dir.fd, ep->file, &sa);
	if (fd < 0 || (unlinkat(ep->dir.fd, ep->file, 0) < 0 && errno != ENOENT) ||
	    bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, SOCK_BACKLOG) < 0 ||
	    fstatat(ep->dir.fd, ep->file, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	ep->sock_id = (struct endpoint_file){ .dev = st.st_dev, .ino = st.st_ino };
	ep->fd = take_fd(fd);
	return 0;
}

static void close_all(struct endpoint *ep)
{
	ep->fd = fd_close(ep->fd);
	ep->lock_fd = fd_close(ep->lock_fd);
	ep->dir.fd = fd_close(ep->dir.fd);
}

/* ---- taking a name ---- */

struct opening {
	struct endpoint *ep;
	int code;
	char why[256]; /* not in the first places that were tried */
};

static void note_unfit(void *data, const char *path, const char *why)
{
	struct opening *o = data;
	size_t n = strlen(o->why);

	(void)str_print(o->why + n, sizeof(o->why) - n, "%s%s: %s", n ? "; " : "", path, why);
}

static int look_for_owner(void *data, const struct sockdir *dir)
{
	char lock[ENDPOINT_FILE_MAX + 8];

	return is_held_for_good(dir->fd, lock_of(data, lock));
}

/* A process of ours has the name, in some place, or under the name of older versions. */
static bool has_owner(const char *name, char *file)
{
	const struct sockdir_walk walk = { .found = look_for_owner, .data = file };
	char old[ENDPOINT_NAME_MAX + 32];
	struct ucred who;

	return sockdir_walk(&walk) ||
	       (sock_listener(old_name_of(name, old), &who) == 0 && who.uid == geteuid());
}

static int open_in(void *data, const struct sockdir *dir)
{
	struct opening *o = data;
	struct endpoint *ep = o->ep;
	int r;

	ep->dir = *dir;
	ep->dir.fd = fcntl(dir->fd, F_DUPFD_CLOEXEC, 3);
	r = ep->dir.fd < 0 ? -errno : identify(ep->dir.fd, &ep->dir_id);
	if (r == 0)
		r = take_lock(ep);
	if (r == 0)
		r = bind_socket(ep);
	/* systemd-tmpfiles spares a directory that is locked. */
	if (r == 0)
		(void)flock(ep->dir.fd, LOCK_SH | LOCK_NB);
	if (r < 0)
		close_all(ep);
	o->code = r;
	if (r < 0 && r != -EADDRINUSE)
		note_unfit(o, dir->path, strerror(-r));
	return r == 0 || r == -EADDRINUSE || r == -ENOENT;
}

static bool is_there(const struct endpoint *ep)
{
	char lock[ENDPOINT_FILE_MAX + 8];

	return is_file(AT_FDCWD, ep->dir.path, &ep->dir_id) &&
	       is_file(ep->dir.fd, lock_of(ep->file, lock), &ep->lock_id);
}

int endpoint_open(struct endpoint *ret, const char *name, struct err *e)
{
	struct endpoint ep = ENDPOINT_NONE;
	struct opening o;
	const struct sockdir_walk walk = {
		.make = true, .found = open_in, .unfit = note_unfit, .data = &o
	};

	(void)str_copy(ep.name, sizeof(ep.name), name);
	file_of(name, ep.file);
	if (has_owner(name, ep.file))
		return err_set(e, -EADDRINUSE, "another process has the name %s", name);
	for (int i = 0; i < GONE_TRIES; i++) {
		o = (struct opening){ .ep = &ep, .code = -ENOENT };
		(void)sockdir_walk(&walk);
		if (o.code == 0 && is_there(&ep)) {
			*ret = ep;
			return 0;
		}
		if (o.code == 0)
			close_all(&ep);
		else if (o.code != -ENOENT)
			break;
	}
	if (o.code == -EADDRINUSE)
		return err_set(e, o.code, "another process has the name %s", name);
	return err_set(e, o.code ? o.code : -ENOENT, "there is no place for the socket %s: %s",
		       name, o.why);
}

int endpoint_check(struct endpoint *ep, struct err *e)
{
	struct endpoint again;
	int fd = ep->fd, r;

	if (is_there(ep)) {
		if (is_file(ep->dir.fd, ep->file, &ep->sock_id))
			return 0;
		r = bind_socket(ep);
		if (r < 0)
			return err_sys(e, -r, "put the socket %s back into %s", ep->name,
				       ep->dir.path);
		(void)fd_close(fd);
		return 1;
	}
	r = endpoint_open(&again, ep->name, e);
	if (r < 0)
		return r;
	close_all(ep);
	*ep = again;
	return 1;
}

void endpoint_close(struct endpoint *ep)
{
	char lock[ENDPOINT_FILE_MAX + 8];

	if (ep->fd < 0)
		return;
	if (is_there(ep)) {
		if (is_file(ep->dir.fd, ep->file, &ep->sock_id))
			(void)unlinkat(ep->dir.fd, ep->file, 0);
		(void)unlinkat(ep->dir.fd, lock_of(ep->file, lock), 0);
		(void)rmdir(ep->dir.path); /* who comes next makes it anew */
	}
	close_all(ep);
}

/* ---- connecting ---- */

struct connecting {
	const char *file;
	unsigned int wait_ms;
	int fd, code;
};

static int connect_to(const struct sockaddr_un *sa, unsigned int wait_ms)
{
	const struct timeval limit = { .tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000 };
	cleanup_fd int fd =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (wait_ms ? 0 : SOCK_NONBLOCK), 0);
	struct ucred who;
	socklen_t len = sizeof(who);

	if (fd < 0)
		return -errno;
	/* The kernel lets those who wait in, one after another. */
	if (wait_ms)
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	while (connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0)
		if (errno != EINTR)
			return -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return -errno;
	if (who.uid != geteuid())
		return -EPERM;
	if (wait_ms && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return take_fd(fd);
}

static int connect_in(void *data, const struct sockdir *dir)
{
	struct connecting *c = data;
	struct sockaddr_un sa;
	int r;

	address_of(dir->fd, c->file, &sa);
	r = connect_to(&sa, c->wait_ms);
	if (r >= 0)
		c->fd = r;
	else if (r != -ENOENT && r != -ECONNREFUSED)
		c->code = r;
	return r >= 0;
}

int endpoint_connect(const char *name, unsigned int wait_ms, struct err *e)
{
	char file[ENDPOINT_FILE_MAX], old[ENDPOINT_NAME_MAX + 32];
	struct connecting c = { .file = file, .wait_ms = wait_ms, .fd = -1, .code = -ECONNREFUSED };
	const struct sockdir_walk walk = { .found = connect_in, .data = &c };

	file_of(name, file);
	(void)sockdir_walk(&walk);
	if (c.fd < 0 && c.code == -ECONNREFUSED)
		c.fd = sock_connect(old_name_of(name, old), NULL);
	if (c.fd >= 0)
		return c.fd;
	if (c.code == -EAGAIN)
		return err_set(e, c.code, "%s is asked by so many that there is no room", name);
	return err_sys(e, -c.code, "connect to %s", name);
}

/* ---- who is there ---- */

struct listing {
	const char *prefix;
	void (*fn)(void *data, const char *name);
	void *data;
};

/* fn gets the name of each lock file, without its suffix. */
static void each_lock(const struct sockdir *dir,
		      void (*fn)(void *data, int dir_fd, const char *file), void *data)
{
	int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *all = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *d;

	while (all && (d = readdir(all))) {
		size_t n = strlen(d->d_name), cut = sizeof(LOCK_SUFFIX) - 1;
		char file[ENDPOINT_FILE_MAX];

		if (n <= cut || n - cut >= sizeof(file) || strcmp(d->d_name + n - cut, LOCK_SUFFIX))
			continue;
		(void)str_print(file, sizeof(file), "%.*s", (int)(n - cut), d->d_name);
		fn(data, dir->fd, file);
	}
	if (all)
		(void)closedir(all);
	else
		(void)fd_close(fd);
}

static void tell_name(void *data, int dir_fd, const char *file)
{
	const struct listing *l = data;
	char lock[ENDPOINT_FILE_MAX + 8], name[ENDPOINT_NAME_MAX];
	cleanup_fd int fd =
		openat(dir_fd, lock_of(file, lock), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd >= 0 && is_held(dir_fd, lock) ? pread(fd, name, sizeof(name) - 1, 0) : 0;

	if (n <= 0)
		return;
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
	if (str_has_prefix(name, l->prefix))
		l->fn(l->data, name);
}

static int list_in(void *data, const struct sockdir *dir)
{
	each_lock(dir, tell_name, data);
	return 0;
}

/* Of versions before this one, from the kernel's list of abstract names. */
static int list_old(const struct listing *l)
{
	char own[32], line[512];
	FILE *f = fopen("/proc/net/unix", "re");

	if (!f)
		return -errno;
	(void)str_print(own, sizeof(own), " @tenure/%u/", (unsigned int)geteuid());
	while (fgets(line, sizeof(line), f)) {
		char *at = strstr(line, own);
		struct ucred who;
		unsigned int flags = 0;

		/* Listening ones only: a connection has its listener's name. */
		if (!at || sscanf(line, "%*s %*s %*s %x", &flags) != 1 || !(flags & 0x10000))
			continue;
		at[strcspn(at, "\n")] = '\0';
		if (str_has_prefix(at + strlen(own), l->prefix) &&
		    sock_listener(at + 2, &who) == 0 && who.uid == geteuid())
			l->fn(l->data, at + strlen(own));
	}
	(void)fclose(f);
	return 0;
}

int endpoint_each(const char *prefix, void (*fn)(void *data, const char *name), void *data)
{
	struct listing l = { .prefix = prefix, .fn = fn, .data = data };
	const struct sockdir_walk walk = { .found = list_in, .data = &l };

	(void)sockdir_walk(&walk);
	return list_old(&l);
}

static void tidy_one(void *data, int dir_fd, const char *file)
{
	char lock[ENDPOINT_FILE_MAX + 8];
	struct endpoint_file id;
	int fd = -1;

	if (lock_once(dir_fd, lock_of(file, lock), &fd, &id) != 0)
		return;
	(void)unlinkat(dir_fd, file, 0);
	(void)unlinkat(dir_fd, lock, 0);
	(void)fd_close(fd);
}

static int tidy_in(void *data, const struct sockdir *dir)
{
	each_lock(dir, tidy_one, NULL);
	(void)rmdir(dir->path);
	return 0;
}

void endpoint_tidy(void)
{
	(void)sockdir_walk(&(struct sockdir_walk){ .found = tidy_in });
}

/* ---- the keeper ---- */

struct endpoint_keeper {
	pthread_t thread;
	_Atomic pid_t tid;  /* of the thread, once it runs */
	struct endpoint ep; /* the thread's */
	int news[2];	    /* a pipe of int: what endpoint_keeper_take() returns */
	int stop_fd;
};

#define STOP_LOOK_NS  (10 * NS_PER_MS)
#define STOP_LOOKS    20 /* that find it waiting for something */
#define STOP_LIMIT_NS (10 * NS_PER_S)

static void *keep(void *user)
{
	struct endpoint_keeper *k = user;
	struct pollfd p = { .fd = k->stop_fd, .events = POLLIN };

	k->tid = (pid_t)syscall(SYS_gettid); /* glibc has a function since 2.30 */

	bool owed = false; /* a copy of the new socket, until there is a descriptor for it */

	endpoint_tidy();
	while (poll(&p, 1, ENDPOINT_CHECK_MS) <= 0) {
		int r = endpoint_check(&k->ep, NULL);

		owed = owed || r == 1;
		if (owed && r >= 0) {
			r = fcntl(k->ep.fd, F_DUPFD_CLOEXEC, 3);
			owed = r < 0;
		}
		if (r > 0 || r == -EADDRINUSE)
			(void)!write(k->news[1], &r, sizeof(r));
		if (r == -EADDRINUSE)
			break;
	}
	return NULL;
}

static struct endpoint_keeper *keeper_free(struct endpoint_keeper *k)
{
	endpoint_close(&k->ep);
	(void)fd_close(k->stop_fd);
	(void)fd_close(k->news[0]);
	(void)fd_close(k->news[1]);
	free(k);
	return NULL;
}

int endpoint_keep(const char *name, struct endpoint_keeper **ret, int *ret_fd, struct err *e)
{
	struct endpoint_keeper *k = xcalloc(1, sizeof(*k));
	int r;

	k->ep = (struct endpoint)ENDPOINT_NONE;
	k->news[0] = k->news[1] = -1;
	k->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = endpoint_open(&k->ep, name, e);

	cleanup_fd int fd = r == 0 ? fcntl(k->ep.fd, F_DUPFD_CLOEXEC, 3) : -1;

	if (r == 0 && (fd < 0 || k->stop_fd < 0 || pipe2(k->news, O_CLOEXEC | O_NONBLOCK) < 0))
		r = err_sys(e, errno, "keep the socket %s", name);
	if (r == 0) {
		r = pthread_create(&k->thread, NULL, keep, k);
		if (r > 0)
			r = err_sys(e, r, "start a thread that keeps the socket %s", name);
	}
	if (r < 0) {
		k = keeper_free(k);
		return r;
	}
	*ret = k;
	*ret_fd = take_fd(fd);
	return 0;
}

int endpoint_keeper_fd(const struct endpoint_keeper *k)
{
	return k->news[0];
}

int endpoint_keeper_take(struct endpoint_keeper *k)
{
	int r;

	return read(k->news[0], &r, sizeof(r)) == sizeof(r) ? r : -EAGAIN;
}

/*
 * What hangs in a file system is left to the end of the process, and so is what it uses. What has
 * no processor, or has not begun for want of one, does not hang.
 */
static bool join(struct endpoint_keeper *k)
{
	uint64_t now, end = clock_mono_ns() + STOP_LIMIT_NS;

	for (int looks = 0; looks < STOP_LOOKS && (now = clock_mono_ns()) < end;) {
		const struct timespec until = clock_timespec(now + STOP_LOOK_NS);
		struct proc_peek p = { .state = '?' };

		if (pthread_clockjoin_np(k->thread, NULL, CLOCK_MONOTONIC, &until) == 0)
			return true;
		if (k->tid)
			(void)proc_peek(k->tid, &p);
		looks += k->tid && p.state != 'R';
	}
	return false;
}

void endpoint_release(struct endpoint_keeper *k)
{
	int r;

	if (!k)
		return;
	(void)eventfd_write(k->stop_fd, 1);
	if (!join(k))
		return;
	while ((r = endpoint_keeper_take(k)) != -EAGAIN)
		(void)fd_close(r);
	(void)keeper_free(k);
}
