/* SPDX-License-Identifier: MIT */
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/nofile.h"

#define SLOTS	   (SPAWN_FDS + 1)
#define PROGRAM	   SPAWN_FDS /* the last slot */
#define STACK_SIZE (64UL * 1024)
#define WORD	   64	      /* bits of a word, and the smallest table of descriptors */
#define SCARCE	   (4 * WORD) /* there are better uses for the first ones then */

/* Slots are open on /dev/null while they are not used. */
static struct {
	pthread_mutex_t lock;
	bool reserved;
	bool unshares; /* close_range() can leave out what is closed */
	int null;
	int slots[SLOTS];
	unsigned int end; /* all numbers below are taken, since nothing could hang */
} own = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct child {
	const struct spawn *s;
	bool shares; /* the table of descriptors and the memory of its parent */
	int errnum;
};

/* Something that we were started with may hang when a copy of it is closed: our output, say. */
static bool was_given_slow(unsigned int end)
{
	struct stat st;

	for (int fd = 0; fd < (int)end; fd++)
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fs_is_shared(fd))
			return true;
	return false;
}

/*
 * All numbers below own.end are taken now, so that what is opened later lies behind. The kernel
 * copies a WORD of descriptors at least, whichever are left out (fs/file.c, dup_fd(); seen
 * on 6.18).
 */
static int reserve_locked(void)
{
	bool scarce = nofile_soft() < SCARCE;
	int n = 0, fd;

	if (own.reserved)
		return 0;
	own.null = open("/dev/null", O_RDWR | O_CLOEXEC);
	do {
		fd = own.null < 0 ? -1 : fcntl(own.null, F_DUPFD_CLOEXEC, 0);
		/* 3 is what a child has by that number, and no slot. */
		if (fd >= SPAWN_FDS && n < SLOTS)
			own.slots[n++] = fd;
	} while (fd >= 0 && (n < SLOTS || (!scarce && (fd + 1) % WORD != 0)));
	if (fd < 0)
		return -errno;
	own.end = (unsigned int)fd + 1;
	/* Asked without the flag, which came with the call: this thread's table is to stay that of
	 * all threads. */
	own.unshares =
		!scarce && !was_given_slow(own.end) && syscall(SYS_close_range, ~0U, ~0U, 0) == 0;
	own.reserved = true;
	return 0;
}

int spawn_reserve(void)
{
	(void)pthread_mutex_lock(&own.lock);

	int r = reserve_locked();

	(void)pthread_mutex_unlock(&own.lock);
	return r;
}

/* -------- in the child: only what is safe there -------- */

static int drop_the_rest(bool shares)
{
	if (shares)
		return (int)syscall(SYS_close_range, own.end, ~0U, CLOSE_RANGE_UNSHARE);
	nofile_close(own.end, ~0U);
	return 0;
}

/* The parent's slot does not have it: what may hang when it is executed may when it is closed. */
static int take_program(const struct spawn *s)
{
	return s->path ? 0 : dup3(s->program, own.slots[PROGRAM], O_CLOEXEC) < 0 ? -1 : 0;
}

static int take_files(const struct spawn *s)
{
	for (int i = 0; i < SPAWN_FDS; i++)
		if (i < 3 || s->fds[i] >= 0 ? dup2(own.slots[i], i) < 0 : close(i) < 0)
			return -1;
	for (int fd = SPAWN_FDS; fd < (int)own.end; fd++)
		if (fd != own.slots[PROGRAM])
			(void)close(fd);
	return 0;
}

static void default_signals(void)
{
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		(void)signal(sig, SIG_DFL); /* of those that cannot be it is so already */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Its stack is none that the sanitizer knows. */
__attribute__((no_sanitize("address"))) static int become(void *data)
{
	struct child *c = data;

	/* What is shared is not, after that; what is copied is needed before it. */
	if (c->shares ? drop_the_rest(true) == 0 && take_files(c->s) == 0
		      : take_program(c->s) == 0 && take_files(c->s) == 0 &&
				drop_the_rest(false) == 0) {
		default_signals();
		if ((!c->s->session || setsid() >= 0) && chdir("/") == 0)
			(void)(c->s->path ? execve(c->s->path, c->s->argv, c->s->env)
					  : fexecve(own.slots[PROGRAM], c->s->argv, c->s->env));
	}
	c->errnum = errno;
	_exit(127);
}

/* -------- in the parent -------- */

static void fill_slots(const struct child *c, bool with)
{
	for (int i = 0; i < SLOTS; i++) {
		int fd = i < SPAWN_FDS ? c->s->fds[i] : c->shares ? c->s->program : -1;

		if (fd >= 0)
			(void)dup3(with ? fd : own.null, own.slots[i], O_CLOEXEC);
	}
}

/* Like posix_spawn(), but for the table of descriptors. We go on when the child has its program. */
static pid_t start_sharing(struct child *c)
{
	cleanup_free char *stack = xmalloc(STACK_SIZE);
	pid_t pid = clone(become, stack + STACK_SIZE,
			  CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, c);

	return pid < 0 ? -errno : pid;
}

static pid_t start_copying(struct child *c)
{
	pid_t pid = fork();

	if (pid == 0)
		(void)become(c);
	return pid < 0 ? -errno : pid;
}

static pid_t start_locked(const struct spawn *s)
{
	struct child c = { .s = s };
	sigset_t all, before;
	int r = reserve_locked();

	if (r < 0)
		return r;
	/* Who shares is waited for; a copy may hang by itself. */
	c.shares = own.unshares && !s->path && !fs_is_shared(s->program);
	fill_slots(&c, true);
	/* Handlers are not for the child. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);

	pid_t pid = c.shares ? start_sharing(&c) : start_copying(&c);

	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	fill_slots(&c, false);
	if (pid > 0 && c.errnum) {
		(void)waitpid(pid, NULL, 0);
		return -c.errnum;
	}
	return pid;
}

pid_t spawn_start(const struct spawn *s)
{
	(void)pthread_mutex_lock(&own.lock);

	pid_t pid = start_locked(s);

	(void)pthread_mutex_unlock(&own.lock);
	return pid;
}
