/* SPDX-License-Identifier: MIT */
#include "task/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"
#include "spool/beat.h"

#define STACK_BYTES	     (256UL * 1024)
#define FENCE_OF(promise_ms) ((promise_ms) / 5 * 4)
#define GRACE_OF(promise_ms) ((promise_ms) / 10)

void keep_init(struct keep *k, const struct task_spec *spec, const struct proc_id *self)
{
	*k = (struct keep){ .spec = spec, .self = *self, .next_ns = UINT64_MAX };
	if (!spec->beat_ms)
		return;
	k->next_ns = clock_mono_ns() + spec->beat_ms * NS_PER_MS;
	k->kept_ns = clock_boot_ns();
	k->promise_ms = spec->promise_ms;
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
	return spool_exists(sp, spool_dir_name(SPOOL_RUNNING)) ? -ENOENT : -ESTALE;
}

/* The spool of the task, as much of it as is needed here. fd: the caller's. */
static int open_spool(const struct keep *k, struct spool *sp)
{
	*sp = (struct spool){ .trust_directory = true, .path = (char *)(uintptr_t) "" };
	sp->fd = open(k->spec->beat_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return sp->fd < 0 ? -errno : look_at_claim(sp, k->spec->claim);
}

static void write_beat(struct keep *k, struct beat *b)
{
	struct spool sp;
	uint64_t begun = clock_boot_ns();
	int r = open_spool(k, &sp);

	if (r == -ENOENT && sp.fd >= 0)
		k->lost = true;
	if (r == 0) {
		b->count++;
		b->promise_ms = others_are_there(&sp, b->who.agent) ? k->spec->promise_ms : 0;
		r = beat_write(&sp, k->spec->beat_file, b, NULL);
	}
	(void)fd_close(sp.fd);
	if (r < 0)
		return;
	k->kept_ns = begun; /* first: an old time must not meet a new promise */
	k->promise_ms = b->promise_ms;
}

static void *keep_on(void *data)
{
	struct keep *k = data;
	struct beat b = { .who.proc = k->self };
	struct timespec step = { .tv_sec = (time_t)(k->spec->beat_ms / MS_PER_S),
				 .tv_nsec = (long)(k->spec->beat_ms % MS_PER_S * NS_PER_MS) };

	(void)str_copy(b.who.agent, sizeof(b.who.agent), k->spec->beat_agent);
	(void)str_copy(b.who.host, sizeof(b.who.host), k->spec->node);
	for (;;) {
		write_beat(k, &b);
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &step, NULL);
	}
	return NULL;
}

/* Where it cannot be started the claim is not kept, and the fence does the rest. */
static void begin(struct keep *k)
{
	pthread_attr_t attr;
	pthread_t thread;

	if (pthread_attr_init(&attr) != 0)
		return;
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	k->begun = pthread_create(&thread, &attr, keep_on, k) == 0;
	(void)pthread_attr_destroy(&attr);
}

uint64_t keep_at_ns(const struct keep *k)
{
	return k->next_ns;
}

enum keep_state keep_look(struct keep *k)
{
	uint64_t now = clock_mono_ns(), promise = k->promise_ms;

	if (now < k->next_ns)
		return KEEP_FINE;
	k->next_ns = now + k->spec->beat_ms * NS_PER_MS;
	if (k->lost)
		return KEEP_LOST;
	if (promise && clock_boot_ns() - k->kept_ns > FENCE_OF(promise) * NS_PER_MS)
		return KEEP_LATE;
	if (!k->begun)
		begin(k);
	return KEEP_FINE;
}

uint32_t keep_grace_ms(const struct keep *k)
{
	uint64_t grace = GRACE_OF(k->spec->promise_ms);

	return grace < k->spec->grace_ms ? (uint32_t)grace : k->spec->grace_ms;
}

static int put_record(const struct spool *sp, const char *path, const struct task_record *r)
{
	size_t len;
	cleanup_free char *text = record_format(r, &len);

	return spool_replace(sp, path, text, len, NULL);
}

void keep_leave_record(struct keep *k, const struct task_record *r)
{
	char path[SPOOL_PATH_MAX];
	int code;

	if (!k->spec->beat_ms)
		return;
	(void)str_print(path, sizeof(path), "%s,end", k->spec->beat_file);
	do {
		struct spool sp;

		code = open_spool(k, &sp);
		if (code == 0)
			code = put_record(&sp, path, r);
		(void)fd_close(sp.fd);
		if (code < 0 && code != -ENOENT)
			(void)usleep((useconds_t)(k->spec->beat_ms * 1000));
	} while (code < 0 && code != -ENOENT);
}
