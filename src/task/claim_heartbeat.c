/* SPDX-License-Identifier: MIT */
#include "task/claim_heartbeat.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/heartbeat.h"
#include "task/worker.h"

#define NEVER			   UINT64_MAX
#define FENCE_OF(fence_timeout_ms) ((fence_timeout_ms) / 5 * 4)
#define KILL_OF(fence_timeout_ms)  ((fence_timeout_ms) / 10 * 9)
#define GONE_MS			   120000 /* whoever waits for an end has taken the task over by then */

static void arm(struct claim_heartbeat *k, uint64_t at_ns)
{
	struct itimerspec its = { .it_value = clock_timespec(at_ns) };
	uint64_t count;

	if (at_ns == k->look_ns)
		return;
	if (at_ns == NEVER)
		its.it_value = (struct timespec){ 0 };
	(void)!read(k->timer_fd, &count, sizeof(count));
	(void)timerfd_settime(k->timer_fd, TFD_TIMER_ABSTIME, &its, NULL);
	k->look_ns = at_ns;
}

int claim_heartbeat_init(struct claim_heartbeat *k, const struct launch_spec *spec,
			 const struct proc_id *self, int wake_fd, struct err *e)
{
	*k = (struct claim_heartbeat){
		.spec = spec, .self = *self, .wake_fd = wake_fd, .timer_fd = -1, .look_ns = NEVER
	};
	if (!spec->heartbeat_ms)
		return 0;
	k->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (k->timer_fd < 0)
		return err_sys(e, errno, "make a timer for the task's claim");
	k->kept_ns = clock_boot_ns();
	k->fence_timeout_ms = spec->fence_timeout_ms;
	k->begin_ns = k->kept_ns + spec->heartbeat_ms * NS_PER_MS;
	arm(k, k->begin_ns);
	return 0;
}

static void wake(const struct claim_heartbeat *k)
{
	const uint64_t one = 1;

	(void)!write(k->wake_fd, &one, sizeof(one));
}

static void write_heartbeat(struct claim_heartbeat *k, struct heartbeat *b)
{
	const struct launch_spec *s = k->spec;
	uint64_t begun = clock_boot_ns();
	int r = heartbeat_keep(s->heartbeat_dir, s->claim, s->heartbeat_file, b,
			       s->fence_timeout_ms, s->flags & LAUNCH_IN_JOB);

	if (r == HEARTBEAT_CLAIM_GONE) {
		k->lost = true;
		wake(k);
	}
	if (r != 0)
		return;
	k->kept_ns = begun; /* first: an old time must not meet a new promise */
	if (atomic_exchange(&k->fence_timeout_ms, b->fence_timeout_ms) != b->fence_timeout_ms)
		wake(k);
}

static void *keep_on(void *data)
{
	struct claim_heartbeat *k = data;
	struct heartbeat b = { .who.proc = k->self };
	struct timespec step = clock_timespec(k->spec->heartbeat_ms * NS_PER_MS);

	(void)str_copy(b.who.agent, sizeof(b.who.agent), k->spec->heartbeat_agent);
	(void)str_copy(b.who.host, sizeof(b.who.host), k->spec->node);
	worker_own_files(&k->wake_fd, 1);
	for (;;) {
		write_heartbeat(k, &b);
		(void)clock_nanosleep(CLOCK_BOOTTIME, 0, &step, NULL);
	}
	return NULL;
}

/* Where its thread cannot be started the claim is not kept, and the fence does the rest. */
static void begin(struct claim_heartbeat *k, uint64_t now)
{
	if (k->begun || now < k->begin_ns)
		return;
	k->begun = worker_thread(keep_on, k) == 0;
	k->begin_ns = now + k->spec->heartbeat_ms * NS_PER_MS;
}

enum claim_state claim_heartbeat_look(struct claim_heartbeat *k, uint32_t *ret_grace_ms)
{
	if (k->timer_fd < 0)
		return CLAIM_KEPT;
	if (k->lost) {
		arm(k, NEVER);
		return CLAIM_LOST;
	}

	uint64_t promise = k->fence_timeout_ms, kept = k->kept_ns, now = clock_boot_ns();
	uint64_t fence = promise ? kept + FENCE_OF(promise) * NS_PER_MS : NEVER;
	uint64_t kill = promise ? kept + KILL_OF(promise) * NS_PER_MS : NEVER;

	if (now > fence) {
		uint64_t left = now < kill ? (kill - now) / NS_PER_MS : 0;

		arm(k, now < kill ? kill : NEVER);
		*ret_grace_ms = left < k->spec->grace_ms ? (uint32_t)left : k->spec->grace_ms;
		return CLAIM_LATE;
	}
	begin(k, now);
	arm(k, !k->begun && k->begin_ns < fence ? k->begin_ns : fence);
	return CLAIM_KEPT;
}

bool claim_heartbeat_has_begun(const struct claim_heartbeat *k)
{
	return k->begun;
}

void claim_heartbeat_leave_record(struct claim_heartbeat *k, const struct task_record *r)
{
	uint64_t end_ns = clock_boot_ns() + GONE_MS * NS_PER_MS;
	const struct launch_spec *s = k->spec;
	cleanup_free char *text = NULL;
	char path[SPOOL_PATH_MAX];
	size_t len;
	int code;

	if (!s->heartbeat_ms)
		return;
	(void)str_print(path, sizeof(path), "%s,end", s->heartbeat_file);
	text = end_record_format(r, &len);
	/* Where the claim is gone nobody needs it. */
	while ((code = heartbeat_leave_end(s->heartbeat_dir, s->claim, path, text, len)) < 0) {
		if (code == -ENOENT && clock_boot_ns() > end_ns)
			return;
		(void)usleep((useconds_t)(s->heartbeat_ms * 1000));
	}
}
