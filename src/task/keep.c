/* SPDX-License-Identifier: MIT */
#include "task/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "spool/beat.h"
#include "spool/own.h"
#include "task/worker.h"

#define NEVER		     UINT64_MAX
#define FENCE_OF(promise_ms) ((promise_ms) / 5 * 4)
#define KILL_OF(promise_ms)  ((promise_ms) / 10 * 9)
#define GONE_MS		     120000 /* whoever waits for an end has taken the task over by then */

static void arm(struct keep *k, uint64_t at_ns)
{
	struct itimerspec its = { .it_value = { .tv_sec = (time_t)(at_ns / NS_PER_S),
						.tv_nsec = (long)(at_ns % NS_PER_S) } };
	uint64_t count;

	if (at_ns == k->look_ns)
		return;
	if (at_ns == NEVER)
		its.it_value = (struct timespec){ 0 };
	(void)!read(k->timer_fd, &count, sizeof(count));
	(void)timerfd_settime(k->timer_fd, TFD_TIMER_ABSTIME, &its, NULL);
	k->look_ns = at_ns;
}

int keep_init(struct keep *k, const struct task_spec *spec, const struct proc_id *self, int wake_fd,
	      struct err *e)
{
	*k = (struct keep){
		.spec = spec, .self = *self, .wake_fd = wake_fd, .timer_fd = -1, .look_ns = NEVER
	};
	if (!spec->beat_ms)
		return 0;
	k->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (k->timer_fd < 0)
		return err_sys(e, errno, "make a timer for the task's claim");
	k->kept_ns = clock_boot_ns();
	k->promise_ms = spec->promise_ms;
	k->begin_ns = k->kept_ns + spec->beat_ms * NS_PER_MS;
	arm(k, k->begin_ns);
	return 0;
}

static int is_other(void *data, const char *agent)
{
	return strcmp(agent, data) != 0;
}

/* Some other agent has a file there. */
static bool others_are_there(const struct spool *sp, const char *self)
{
	cleanup_free char *name = xstrdup(self);

	/* What cannot be read may be there. */
	return beat_each_agent(sp, is_other, name, NULL) != 0;
}

/*
 * Whether the claim is still ours: -ENOENT only when that is certain, which it is not where a
 * filesystem was unmounted below us.
 */
static int look_at_claim(const struct spool *sp, const char *claim)
{
	if (faccessat(sp->fd, claim, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != ENOENT)
		return -errno;
	return spool_is_gone(sp, claim) ? -ENOENT : -ESTALE;
}

/* The spool of the task, as much of it as is needed here. fd: the caller's. */
static int open_spool(const struct keep *k, struct spool *sp)
{
	*sp = (struct spool){ .trust_directory = true, .path = (char *)(uintptr_t) "" };
	sp->fd = open(k->spec->beat_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return sp->fd < 0 ? -errno : look_at_claim(sp, k->spec->claim);
}

static void wake(const struct keep *k)
{
	const uint64_t one = 1;

	(void)!write(k->wake_fd, &one, sizeof(one));
}

static void write_beat(struct keep *k, struct beat *b)
{
	struct spool sp;
	uint64_t begun = clock_boot_ns();
	int r = open_spool(k, &sp);

	if (r == -ENOENT && sp.fd >= 0) {
		k->lost = true;
		wake(k);
	}
	if (r == 0) {
		b->count++;
		b->promise_ms = others_are_there(&sp, b->who.agent) ? k->spec->promise_ms : 0;
		r = beat_write(&sp, k->spec->beat_file, b, NULL);
	}
	(void)fd_close(sp.fd);
	if (r < 0)
		return;
	k->kept_ns = begun; /* first: an old time must not meet a new promise */
	if (atomic_exchange(&k->promise_ms, b->promise_ms) != b->promise_ms)
		wake(k);
}

static void *keep_on(void *data)
{
	struct keep *k = data;
	struct beat b = { .who.proc = k->self };
	struct timespec step = { .tv_sec = (time_t)(k->spec->beat_ms / MS_PER_S),
				 .tv_nsec = (long)(k->spec->beat_ms % MS_PER_S * NS_PER_MS) };

	(void)str_copy(b.who.agent, sizeof(b.who.agent), k->spec->beat_agent);
	(void)str_copy(b.who.host, sizeof(b.who.host), k->spec->node);
	worker_own_files(&k->wake_fd, 1);
	for (;;) {
		write_beat(k, &b);
		(void)clock_nanosleep(CLOCK_BOOTTIME, 0, &step, NULL);
	}
	return NULL;
}

/* Where its thread cannot be started the claim is not kept, and the fence does the rest. */
static void begin(struct keep *k, uint64_t now)
{
	if (k->begun || now < k->begin_ns)
		return;
	k->begun = worker_thread(keep_on, k) == 0;
	k->begin_ns = now + k->spec->beat_ms * NS_PER_MS;
}

enum keep_state keep_look(struct keep *k, uint32_t *ret_grace_ms)
{
	if (k->timer_fd < 0)
		return KEEP_FINE;
	if (k->lost) {
		arm(k, NEVER);
		return KEEP_LOST;
	}

	uint64_t promise = k->promise_ms, kept = k->kept_ns, now = clock_boot_ns();
	uint64_t fence = promise ? kept + FENCE_OF(promise) * NS_PER_MS : NEVER;
	uint64_t kill = promise ? kept + KILL_OF(promise) * NS_PER_MS : NEVER;

	if (now > fence) {
		uint64_t left = now < kill ? (kill - now) / NS_PER_MS : 0;

		arm(k, now < kill ? kill : NEVER);
		*ret_grace_ms = left < k->spec->grace_ms ? (uint32_t)left : k->spec->grace_ms;
		return KEEP_LATE;
	}
	begin(k, now);
	arm(k, !k->begun && k->begin_ns < fence ? k->begin_ns : fence);
	return KEEP_FINE;
}

static int put_record(const struct spool *sp, const char *path, const struct task_record *r)
{
	size_t len;
	cleanup_free char *text = record_format(r, &len);

	return spool_replace(sp, path, text, len, NULL);
}

bool keep_is_watched(const struct keep *k)
{
	return k->begun && k->promise_ms;
}

/* 0: it is there, or nobody needs it: the claim is gone. Where that is while we write, who filed
 * the end may have tidied up before. */
static int leave_record(const struct keep *k, const char *path, const struct task_record *r)
{
	struct spool sp;
	int code = open_spool(k, &sp);
	bool gone = code == -ENOENT && sp.fd >= 0;

	if (code == 0)
		code = put_record(&sp, path, r);
	if (code == 0 && look_at_claim(&sp, k->spec->claim) == -ENOENT)
		(void)unlinkat(sp.fd, path, 0);
	(void)fd_close(sp.fd);
	return gone ? 0 : code;
}

void keep_leave_record(struct keep *k, const struct task_record *r)
{
	uint64_t end_ns = clock_boot_ns() + GONE_MS * NS_PER_MS;
	char path[SPOOL_PATH_MAX];
	int code;

	if (!k->spec->beat_ms)
		return;
	(void)str_print(path, sizeof(path), "%s,end", k->spec->beat_file);
	while ((code = leave_record(k, path, r)) < 0) {
		if (code == -ENOENT && clock_boot_ns() > end_ns)
			return;
		(void)usleep((useconds_t)(k->spec->beat_ms * 1000));
	}
}
