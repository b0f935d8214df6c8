/* SPDX-License-Identifier: MIT */

/*
 * One device in the guard, from what is seen to what its holder is told. There is no driver: looks
 * are made up, the holder is a child that waits and the other end of its socket is ours.
 *
 * All of it happens while the wall clock jumps about: no state, wait or back-off may depend on it.
 */

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "hold/gclient.h"
#include "hold/gdev.h"
#include "hold/gholder.h"
#include "hold/gjudge.h"
#include "hold/gkin.h"
#include "hold/glease.h"
#include "hold/own.h"

#define GIBS	(1ULL << 30)
#define STRANGE 4100000 /* above the kernel's limit of PIDs, plausible to a driver */

/* In place of the C library's: every reading of the wall clock is a year off, to and fro. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	static _Atomic unsigned int n;
	const time_t year = (time_t)365 * 24 * 3600;
	long r = syscall(SYS_clock_gettime, id, ts);

	if (id == CLOCK_REALTIME)
		ts->tv_sec += n++ % 2 ? year : -year;
	return (int)r;
}

static void test_wall_clock_jumps(void **state)
{
	uint64_t a = clock_wall_ns(), b = clock_wall_ns();

	assert_true((a > b ? a - b : b - a) > NS_PER_S * 3600);
}

struct world {
	struct guard *g;
	struct gdev *d;
	int far; /* the holder's end */
	pid_t holder;
};

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct err e = ERR_INIT;

	w->g = xcalloc(1, sizeof(*w->g));
	w->d = &w->g->devs[0];
	w->g->hints.fd = -1;
	w->g->leases[0].pidfd = -1;
	policy_defaults(&w->g->plain);
	assert_int_equal(eyes_open(&w->g->eyes, &e), 0);
	w->g->n_devs = 1;
	*w->d = (struct gdev){ .owner = -1,
			       .known = true,
			       .present = true,
			       .lock_fd = -1,
			       .state = DEV_LEFT,
			       .holder = { .fd = -1 } };
	(void)strcpy(w->d->id.uuid, "GPU-1");
	w->d->id.mig = -1;
	w->g->clients[0] = (struct gclient){ .used = true, .fd = -1, .has_policy = true };
	(void)strcpy(w->g->clients[0].instance, "test");
	policy_defaults(&w->g->clients[0].policy);
	w->g->clients[0].policy.idle_for_ms = 0;
	gclient_assign_all(w->g);
	assert_int_equal(w->d->state, DEV_BUSY);
	w->far = -1;
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	if (w->holder) {
		(void)kill(w->holder, SIGKILL);
		(void)waitpid(w->holder, NULL, 0);
	}
	(void)fd_close(w->far);
	(void)fd_close(w->d->holder.fd);
	(void)fd_close(w->d->lock_fd);
	(void)fd_close(w->g->leases[0].pidfd);
	eyes_close(w->g->eyes);
	free(w->g);
	free(w);
	return 0;
}

/* The eyes have seen used bytes and the PIDs, the last n_graphics of them graphics processes. */
static void see(struct world *w, uint64_t used, const pid_t *pids, uint32_t n, uint32_t n_graphics)
{
	struct sight *s = &w->d->sight;

	s->seq++;
	s->code = 0;
	s->complete = true;
	s->look.valid = GPU_VALID_MEM | GPU_VALID_PROCS;
	s->look.begin_ns = s->look.end_ns = clock_mono_ns();
	s->look.total = 80 * GIBS;
	s->look.used = used;
	s->look.free = 80 * GIBS - used;
	s->look.procs = (struct gpu_procs){ .n = n, .n_total = n };
	for (uint32_t i = 0; i < n; i++)
		s->look.procs.p[i] = (struct gpu_proc){ .pid = pids[i],
							.graphics = i >= n - n_graphics,
							.used_known = true,
							.used_bytes = GIBS };
	/* What the holder uses is what it took, and its context. */
	for (uint32_t i = 0; i < n; i++)
		if (pids[i] == w->holder || pids[i] == w->d->holder.listed_pid)
			s->look.procs.p[i].used_bytes += w->d->holder.held;
	gdev_on_sight(w->g, w->d);
	w->d->check = false;
}

static void see_holder(struct world *w, uint64_t used)
{
	see(w, used, &w->holder, 1, 0);
}

/* What the holder was told next but whether it is there; 0: nothing. */
static uint16_t told(struct world *w)
{
	struct holder_msg m;

	while (sock_recv(w->far, &m, sizeof(m)) == (ssize_t)sizeof(m))
		if (m.type != HOLDER_BEAT)
			return m.type;
	return 0;
}

static void says(struct world *w, enum holder_type type, uint64_t bytes)
{
	struct holder_msg m = { .version = HPROTO_VERSION,
				.type = type,
				.bytes = bytes,
				.wanted = bytes,
				.at_ns = clock_mono_ns() };

	assert_int_equal(sock_send(w->far, &m, sizeof(m)), 0);
	gdev_on_holder(w->g, w->d);
}

/* As gdev_hold() leaves it, with a child that does nothing in the holder's place. */
static void start_holder(struct world *w)
{
	int pair[2];

	w->d->before = w->d->sight.look.procs;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	w->holder = fork();
	if (w->holder == 0) {
		for (;;)
			(void)pause();
	}
	w->far = pair[1];
	w->d->holder = (struct holder_proc){ .pid = w->holder,
					     .fd = pair[0],
					     .started_ns = clock_mono_ns() };
	w->d->state = DEV_HOLDING;
	w->d->since_ns = clock_mono_ns();
}

static void hold(struct world *w)
{
	start_holder(w);
	says(w, HOLDER_READY, 0);
	says(w, HOLDER_HELD, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_HELD);
	see_holder(w, 71 * GIBS);
}

/* As if the time for it had passed since the hold. */
static void settle(struct world *w)
{
	w->d->settle_at_ns = clock_mono_ns();
	w->d->since_ns -= 2 * NS_PER_S;
	see_holder(w, 71 * GIBS);
	assert_int_equal(w->d->settled_used, 71 * GIBS);
}

static const struct guard_event *last_event(const struct world *w)
{
	return &w->g->events[w->g->last_event % EVENT_RING];
}

static void test_newcomer(void **state)
{
	struct world *w = *state;
	pid_t pids[2];

	hold(w);
	pids[0] = w->holder;
	pids[1] = getpid();
	see(w, 72 * GIBS, pids, 2, 0);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_int_equal(w->d->who_pid, getpid());
	/* Looks that find the same again tell it nothing more. */
	see(w, 72 * GIBS, pids, 2, 0);
	assert_int_equal(told(w), 0);
	assert_int_equal(w->d->yields, 1);
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_BUSY);
	assert_int_equal(w->g->events[(w->g->last_event - 1) % EVENT_RING].kind, EVENT_YIELD);
	/* Its context stays for a while; a hold now would be one too many. */
	assert_true(w->d->holder.end_at_ns > clock_mono_ns() + NS_PER_S);
	w->d->check = true;
	see_holder(w, GIBS / 2);
	assert_int_equal(w->d->state, DEV_BUSY);
	/* Told to let go of everything, it goes at once. */
	w->g->clients[0].dropping = true;
	gdev_on_time(w->g, w->d, clock_mono_ns());
	assert_int_equal(told(w), HOLDER_END);
}

static void test_newcomer_while_holding(void **state)
{
	struct world *w = *state;
	pid_t pids[] = { 1 };

	start_holder(w);
	see(w, GIBS, pids, 1, 0);
	assert_int_equal(told(w), HOLDER_RELEASE);
	/* What it had said before it read that is no hold. */
	says(w, HOLDER_HELD, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_BUSY);
}

/* Xorg has some memory on every card of many machines: not foreign while it was there before. */
static void test_desktop(void **state)
{
	struct world *w = *state;
	pid_t pids[3] = { getpid() };

	w->d->check = true;
	see(w, GIBS / 100, pids, 1, 1);
	assert_int_equal(w->d->state, DEV_IDLE);
	hold(w);
	pids[0] = w->holder;
	pids[1] = getpid();
	see(w, 71 * GIBS, pids, 2, 1);
	assert_int_equal(w->d->state, DEV_HELD);
	/* A game that starts now is a newcomer. */
	pids[2] = getppid();
	see(w, 71 * GIBS, pids, 3, 2);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(w->d->who_pid, getppid());
}

static void test_memory(void **state)
{
	struct world *w = *state;

	hold(w);
	/* Not before it has settled: the figure is still that of our own allocation. */
	see_holder(w, 71 * GIBS + (64 << 20));
	assert_int_equal(w->d->state, DEV_HELD);
	settle(w);
	see_holder(w, 71 * GIBS + (8 << 20));
	assert_int_equal(w->d->rise_since_ns, 0);
	see_holder(w, 71 * GIBS + (24 << 20));
	assert_int_equal(w->d->state, DEV_HELD); /* processes are visible: give it a second */
	w->d->rise_since_ns -= NS_PER_S;
	see_holder(w, 71 * GIBS + (24 << 20));
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_int_equal(w->d->who_pid, 0);
}

/* A context's memory without a PID: nothing but a program makes that, so it gets no second. */
static void test_context_that_is_not_listed(void **state)
{
	struct world *w = *state;

	hold(w);
	settle(w);
	assert_int_equal(w->g->pid_class, PIDS_SAME);
	see_holder(w, 71 * GIBS + GIBS / 2);
	assert_int_equal(w->d->state, DEV_HELD);
	assert_int_equal(gjudge_rise_due(w->g, w->d), w->d->rise_since_ns + GJUDGE_UNLISTED_NS);
	w->d->rise_since_ns -= GJUDGE_UNLISTED_NS;
	see_holder(w, 71 * GIBS + GIBS / 2);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	/* It may be listed late; only who stays without a PID, or went without one, is hidden. */
	see_holder(w, 71 * GIBS + GIBS / 2);
	assert_false(w->g->hidden_seen);
	w->d->unlisted_ns -= NS_PER_S / 2;
	see_holder(w, 71 * GIBS);
	assert_true(w->g->hidden_seen);
	assert_int_equal(w->g->pid_class, PIDS_OWN);
	assert_true(gjudge_may_hide(w->g));
}

static void test_context_that_is_listed_late(void **state)
{
	struct world *w = *state;
	pid_t pids[2];

	hold(w);
	settle(w);
	see_holder(w, 71 * GIBS + GIBS / 2);
	w->d->rise_since_ns -= GJUDGE_UNLISTED_NS;
	see_holder(w, 71 * GIBS + GIBS / 2);
	assert_int_equal(w->d->state, DEV_YIELDING);
	pids[0] = w->holder;
	pids[1] = getpid();
	see(w, 71 * GIBS + GIBS / 2, pids, 2, 0);
	assert_int_equal(w->d->who_pid, getpid());
	see_holder(w, 71 * GIBS);
	w->d->unlisted_ns -= w->d->unlisted_ns ? NS_PER_S : 0;
	see_holder(w, 71 * GIBS);
	assert_false(w->g->hidden_seen);
	assert_int_equal(w->g->pid_class, PIDS_SAME);
}

/* Memory on a device that is not held, which no listed process explains. */
static void test_hidden_before_the_first_hold(void **state)
{
	struct world *w = *state;
	pid_t desktop[1] = { getpid() };

	/* A desktop's is explained, and who ends is cleaned up after it was listed last. */
	see(w, GIBS, desktop, 1, 1);
	w->d->unlisted_ns -= w->d->unlisted_ns ? NS_PER_S : 0;
	see(w, GIBS, desktop, 1, 1);
	assert_false(w->g->hidden_seen);
	see(w, 9 * GIBS, NULL, 0, 0);
	assert_false(w->g->hidden_seen);
	w->d->unlisted_ns -= NS_PER_S;
	see(w, 9 * GIBS, NULL, 0, 0);
	assert_true(w->g->hidden_seen);
	see(w, 0, NULL, 0, 0);
	hold(w);
	assert_int_equal(w->g->pid_class, PIDS_OWN);
}

static void test_memory_where_processes_are_hidden(void **state)
{
	struct world *w = *state;

	w->g->hidden_possible = true;
	hold(w);
	settle(w);
	assert_int_equal(w->g->pid_class, PIDS_OWN);
	see_holder(w, 71 * GIBS + (17 << 20));
	assert_int_equal(w->d->state, DEV_YIELDING);
}

static void test_numbers_of_the_host(void **state)
{
	struct world *w = *state;
	pid_t pids[] = { STRANGE, STRANGE + 1 }, ours[1];

	hold(w);
	w->d->since_ns -= 2 * NS_PER_S;
	w->d->holder.listed_pid = 0;
	w->g->pid_class = PIDS_UNKNOWN;
	see(w, 71 * GIBS, pids, 1, 0);
	assert_int_equal(w->d->state, DEV_HELD);
	assert_int_equal(w->g->pid_class, PIDS_HOST);
	assert_int_equal(w->d->holder.listed_pid, STRANGE);
	/* Our own number in that list is somebody else's. */
	ours[0] = w->holder;
	assert_int_equal(own_classify(w->g, w->d, &(struct gpu_proc){ .pid = ours[0] }),
			 OWN_FOREIGN);
	see(w, 71 * GIBS, pids, 2, 0);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(w->d->who_pid, STRANGE + 1);
}

/* A list that does not show our holder yet does not mean that it never will. */
static void test_class_none_takes_time(void **state)
{
	struct world *w = *state;

	start_holder(w);
	says(w, HOLDER_HELD, 70 * GIBS);
	see(w, 71 * GIBS, NULL, 0, 0);
	assert_int_equal(w->g->pid_class, PIDS_UNKNOWN);
	w->d->since_ns -= NS_PER_S;
	see(w, 71 * GIBS, NULL, 0, 0);
	assert_int_equal(w->g->pid_class, PIDS_NONE);
}

static void test_blind(void **state)
{
	struct world *w = *state;

	hold(w);
	w->d->sight.code = -EIO;
	(void)strcpy(w->d->sight.trouble, "Unknown Error");
	gdev_on_sight(w->g, w->d);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_non_null(strstr(w->d->reason, "Unknown Error"));
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_BUSY);
}

static void test_stuck_holder_is_killed(void **state)
{
	struct world *w = *state;
	pid_t pids[2];
	int status;

	hold(w);
	pids[0] = w->holder;
	pids[1] = getpid();
	see(w, 72 * GIBS, pids, 2, 0);
	gdev_on_time(w->g, w->d, clock_mono_ns());
	assert_int_equal(waitpid(w->holder, &status, WNOHANG), 0);
	w->d->since_ns -= NS_PER_S;
	gdev_on_time(w->g, w->d, clock_mono_ns());
	while (w->d->holder.pid)
		gdev_on_child(w->g, w->d);
	/* A list that is a moment old: its number, of which nothing is left. */
	assert_int_equal(w->d->state, DEV_BUSY);
	see(w, 0, &w->holder, 1, 0);
	assert_int_equal(w->d->who_pid, 0);
	w->holder = 0;
	/* Marked: why, and no new hold for a while. */
	w->d->check = true;
	see(w, 0, NULL, 0, 0);
	assert_int_equal(w->d->state, DEV_IDLE);
	assert_non_null(strstr(w->d->reason, "did not let go in time"));
	w->d->wait_ns = 0;
	assert_false(gdev_ripe(w->g, w->d, clock_mono_ns() + NS_PER_S));
	assert_true(gdev_ripe(w->g, w->d, clock_mono_ns() + 61 * NS_PER_S));
}

static void test_holder_killed_by_somebody(void **state)
{
	struct world *w = *state;

	hold(w);
	(void)kill(w->holder, SIGKILL);
	while (w->d->holder.pid)
		gdev_on_child(w->g, w->d);
	w->holder = 0;
	assert_int_equal(w->d->state, DEV_BUSY);
	assert_non_null(strstr(w->d->reason, "signal 9"));
	assert_true(w->d->yielded);
	assert_int_equal(w->g->events[(w->g->last_event - 1) % EVENT_RING].kind, EVENT_GONE);
}

static void test_policy_changes_while_held(void **state)
{
	struct world *w = *state;
	struct hold_policy *p = &w->g->clients[0].policy, before = *p;

	hold(w);
	p->util = 60;
	gdev_adapt(w->g, w->d, &before);
	assert_int_equal(told(w), HOLDER_LOAD);
	assert_int_equal(w->d->load.told_duty, 600);
	before = *p;
	p->load = LOAD_NONE;
	gdev_adapt(w->g, w->d, &before);
	assert_int_equal(told(w), HOLDER_LOAD);
	assert_int_equal(w->d->load.told, LOAD_NONE);
	before = *p;
	settle(w);
	p->memory = (struct mem_amount){ .kind = MEM_BYTES, .bytes = 40 * GIBS };
	gdev_adapt(w->g, w->d, &before);
	assert_int_equal(told(w), HOLDER_AMOUNT);
	assert_int_equal(w->d->settled_used, 0); /* our own memory moves: no witness now */
	says(w, HOLDER_HELD, 40 * GIBS);
	assert_non_null(strstr(last_event(w)->text, "holds 40.0 GiB now"));
	gdev_adapt(w->g, w->d, p);
	assert_int_equal(told(w), 0);
}

static void test_cycle(void **state)
{
	struct world *w = *state;
	struct hold_policy *p = &w->g->clients[0].policy;
	uint64_t now;

	p->work_ms = 1000;
	p->rest_ms = 500;
	hold(w);
	now = clock_mono_ns();
	w->d->load = (struct load_state){
		.duty_permille = 750, .phase_ns = now, .told = LOAD_LIGHT, .told_duty = 750
	};
	gdev_on_time(w->g, w->d, now + 999 * NS_PER_MS);
	assert_int_equal(told(w), 0);
	gdev_on_time(w->g, w->d, now + 1000 * NS_PER_MS);
	assert_int_equal(told(w), HOLDER_LOAD);
	assert_int_equal(w->d->load.told, LOAD_NONE);
	gdev_on_time(w->g, w->d, now + 1499 * NS_PER_MS);
	assert_int_equal(told(w), 0);
	gdev_on_time(w->g, w->d, now + 1500 * NS_PER_MS);
	assert_int_equal(w->d->load.told, LOAD_LIGHT);
}

/* After a rest the figure is still about the rest, and no reason for more load. */
static void test_load_is_left_alone_after_a_rest(void **state)
{
	struct world *w = *state;

	hold(w);
	w->d->since_ns -= 60 * NS_PER_S;
	w->d->load = (struct load_state){ .duty_permille = 750,
					  .phase_ns = clock_mono_ns(),
					  .told = LOAD_LIGHT,
					  .told_duty = 750 };
	w->d->sight.look.util = 0;
	see_holder(w, 71 * GIBS);
	w->d->sight.look.valid |= GPU_VALID_UTIL;
	gdev_on_sight(w->g, w->d);
	assert_int_equal(w->d->load.duty_permille, 750);
	w->d->load.phase_ns -= 4 * NS_PER_S;
	gdev_on_sight(w->g, w->d);
	assert_true(w->d->load.duty_permille > 750);
}

static void test_no_hold_while_ending(void **state)
{
	struct world *w = *state;

	w->d->check = true;
	see(w, 0, NULL, 0, 0);
	assert_true(gdev_ripe(w->g, w->d, clock_mono_ns()));
	/* Of an agent that died holds are kept for a while, and none are begun. */
	w->g->clients[0].orphan_until_ns = clock_mono_ns() + NS_PER_S;
	assert_false(gdev_ripe(w->g, w->d, clock_mono_ns()));
	assert_int_equal(gdev_hold_at(w->g, w->d), 0);
	w->g->clients[0].orphan_until_ns = 0;
	assert_true(gdev_ripe(w->g, w->d, clock_mono_ns()));
	w->g->quit_ns = clock_mono_ns();
	assert_false(gdev_ripe(w->g, w->d, clock_mono_ns()));
}

static void test_unfit(void **state)
{
	struct world *w = *state;

	hold(w);
	w->d->sight.look.mode = NVML_COMPUTEMODE_EXCLUSIVE_PROCESS;
	see_holder(w, 71 * GIBS);
	assert_int_equal(w->d->state, DEV_HELD); /* not known to be so */
	w->d->sight.look.valid |= GPU_VALID_MODE;
	gdev_on_sight(w->g, w->d);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_non_null(strstr(w->d->reason, "EXCLUSIVE_PROCESS"));
	assert_int_equal(w->d->yields, 0);
}

/* The next process of a number that was named is not meant. */
static void test_ignored_process(void **state)
{
	struct world *w = *state;
	struct hold_policy *p = &w->g->clients[0].policy;
	struct proc_id self;
	pid_t pids[2];

	assert_int_equal(proc_identify(getpid(), &self), 0);
	p->n_ignore = 1;
	p->ignore_pids[0] = self.pid;
	p->ignore_starts[0] = self.start;
	hold(w);
	pids[0] = w->holder;
	pids[1] = self.pid;
	see(w, 72 * GIBS, pids, 2, 0);
	assert_int_equal(w->d->state, DEV_HELD);
	p->ignore_starts[0]--;
	see(w, 72 * GIBS, pids, 2, 0);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(w->d->who_pid, self.pid);
}

/* A look that was begun while the last holder lived still shows it, and its memory. */
static void test_look_from_before_the_end(void **state)
{
	struct world *w = *state;
	struct sight *s = &w->d->sight;
	uint64_t before;
	pid_t listed =
		getpid(); /* where lists show other numbers, that one may be somebody's here */

	w->g->pid_class = PIDS_HOST;
	hold(w);
	w->d->holder.listed_pid = listed;
	see(w, 71 * GIBS, &listed, 1, 0);
	assert_int_equal(w->d->state, DEV_HELD);
	before = clock_mono_ns();
	assert_int_equal(kill(w->holder, SIGKILL), 0);
	while (w->d->holder.pid)
		gdev_on_child(w->g, w->d);
	w->holder = 0;
	assert_int_equal(w->d->state, DEV_BUSY);
	s->seq++;
	s->look.begin_ns = before;
	s->look.end_ns = clock_mono_ns();
	w->d->check = true;
	gdev_on_sight(w->g, w->d);
	assert_int_equal(w->d->who_pid, 0);
	assert_non_null(strstr(w->d->reason, "holder"));
	/* And one that was begun later is about somebody else. */
	see(w, 71 * GIBS, &listed, 1, 0);
	assert_int_equal(w->d->who_pid, listed);
}

/* A holder that stands in the driver, or is stopped, is found before somebody needs the device. */
static void test_holder_does_not_answer(void **state)
{
	struct world *w = *state;
	uint64_t now;

	hold(w);
	now = clock_mono_ns();
	for (int i = 0; i < 60; i++) {
		gdev_on_time(w->g, w->d, now += NS_PER_S / 2);
		says(w, HOLDER_BEAT, 0);
	}
	/* The guard itself slept: it asked nothing meanwhile. */
	gdev_on_time(w->g, w->d, now += 3600 * NS_PER_S);
	for (int i = 0; i < 9; i++) {
		gdev_on_time(w->g, w->d, now += NS_PER_S / 2);
		assert_int_equal(w->d->state, DEV_HELD);
	}
	gdev_on_time(w->g, w->d, now += NS_PER_S / 2);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(last_event(w)->kind, EVENT_FAILED);
	assert_int_equal(waitpid(w->holder, NULL, 0), w->holder); /* killed */
	w->holder = 0;
}

/* An agent that is stopped: its holds go, and come back with it; our own sleep is not its. */
static void test_silent_agent(void **state)
{
	struct world *w = *state;
	struct gclient *c = &w->g->clients[0];
	struct msg_plain beat = { .head = PROTO_HEAD(MSG_BEAT, struct msg_plain) };
	uint64_t now = clock_mono_ns();
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	c->fd = pair[0];
	c->pid = getpid();
	c->tick_ns = UINT64_MAX;
	c->listened_ns = now;
	hold(w);
	for (int i = 0; i < 9; i++)
		gclient_on_time(w->g, c, now += NS_PER_S);
	gclient_on_time(w->g, c, now += 3600 * NS_PER_S / 4000);
	assert_int_equal(w->d->state, DEV_HELD);
	assert_int_equal(sock_send(pair[1], &beat, sizeof(beat)), 0);
	gclient_on_readable(w->g, c);
	gclient_on_time(w->g, c, now += 3600 * NS_PER_S);
	for (int i = 0; i < 8; i++)
		gclient_on_time(w->g, c, now += NS_PER_S);
	assert_int_equal(w->d->state, DEV_HELD);
	gclient_on_time(w->g, c, now += NS_PER_S);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_false(gdev_ripe(w->g, w->d, now));
	assert_true(c->silent);
	assert_int_equal(sock_send(pair[1], &beat, sizeof(beat)), 0);
	gclient_on_readable(w->g, c);
	assert_false(c->silent);
	assert_int_equal(c->tick_ns, 0); /* looked at anew at once */
	(void)close(pair[1]);
	c->fd = fd_close(c->fd);
}

/* --- leases --- */

static struct glease *promise(struct world *w, uint32_t flags)
{
	struct msg_lease m = { .head = PROTO_HEAD(MSG_LEASE, struct msg_lease),
			       .id = { .task = 1, .attempt = 1 },
			       .uuid = "GPU-1",
			       .flags = flags };

	glease_on_lease(w->g, &w->g->clients[0], &m);
	return w->d->n_leases ? &w->g->leases[0] : NULL;
}

/* This process is the shim, so it and its children are the task's. */
static struct glease *grant(struct world *w)
{
	struct glease *l = promise(w, 0);
	struct msg_grant m = { .head = PROTO_HEAD(MSG_GRANT, struct msg_grant),
			       .id = { .task = 1, .attempt = 1 },
			       .pid = getpid() };
	struct proc_id self;

	assert_non_null(l);
	assert_int_equal(proc_identify(getpid(), &self), 0);
	m.start = self.start;
	glease_on_grant(w->g, &w->g->clients[0], &m);
	assert_int_equal(l->stage, LEASE_GRANTED);
	return l;
}

static void unlease(struct world *w)
{
	struct msg_unlease m = { .head = PROTO_HEAD(MSG_UNLEASE, struct msg_unlease),
				 .id = { .task = 1, .attempt = 1 } };

	glease_on_unlease(w->g, &w->g->clients[0], &m);
}

static void see_with(struct world *w, uint64_t used, pid_t other)
{
	pid_t pids[] = { w->holder, other };

	see(w, used, pids, 2, 0);
}

static void test_hand_over(void **state)
{
	struct world *w = *state;
	struct glease *l;

	hold(w);
	l = grant(w);
	assert_int_equal(w->d->state, DEV_HELD);
	see_with(w, 72 * GIBS, getpid());
	assert_int_equal(w->d->state, DEV_LENDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_int_equal(l->stage, LEASE_USED);
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_LENT);
	assert_int_equal(last_event(w)->kind, EVENT_LENT);
	assert_int_equal(last_event(w)->pid, getpid());
	assert_int_equal(w->d->yields, 0);
	/* The context stays, and a neighbour changes nothing. */
	see_with(w, 40 * GIBS, getpid());
	gdev_on_time(w->g, w->d, clock_mono_ns() + NS_PER_S / 4);
	assert_int_equal(told(w), 0);
	assert_true(w->d->holder.kept && !w->d->holder.end_at_ns);

	/* Over: not while it is listed; then held again at once, in the same process. */
	unlease(w);
	see_with(w, 40 * GIBS, getpid());
	assert_int_equal(w->d->state, DEV_LENT);
	assert_int_equal(w->d->n_over, 1);
	see_holder(w, GIBS / 2);
	assert_int_equal(w->d->n_leases, 0);
	assert_int_equal(w->d->state, DEV_HOLDING);
	assert_int_equal(told(w), HOLDER_HOLD);
	assert_false(w->d->holder.kept);
}

/* Memory moves before anybody is listed; who it was shows later, and may be somebody else. */
static void test_memory_while_a_task_is_awaited(void **state)
{
	struct world *w = *state;
	struct glease *l;

	hold(w);
	settle(w);
	l = grant(w);
	see_holder(w, 71 * GIBS + (17 << 20));
	assert_int_equal(w->d->state, DEV_LENDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	see_with(w, 72 * GIBS, 1);
	assert_true(l->taken);
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(last_event(w)->kind, EVENT_YIELD);
	assert_int_equal(last_event(w)->pid, 1);
	assert_int_equal(w->d->yields, 1);
}

static void test_foreign_wins_over_a_promise(void **state)
{
	struct world *w = *state;
	struct glease *l;

	hold(w);
	l = promise(w, 0);
	see_with(w, 72 * GIBS, 1);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_true(l->taken && l->stage == LEASE_PROMISED);
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_BUSY);
	assert_int_equal(w->d->n_leases, 1);
}

static void test_foreign_with_the_task(void **state)
{
	struct world *w = *state;
	pid_t pids[] = { 0, 1, getpid() };

	hold(w);
	(void)grant(w);
	pids[0] = w->holder;
	see(w, 72 * GIBS, pids, 3, 0);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(w->d->who_pid, 1);
	says(w, HOLDER_FREED, 70 * GIBS);
	see(w, 2 * GIBS, pids, 3, 0);
	assert_int_equal(w->d->state, DEV_LENT);
}

/* NVML is lost: the hold goes, the lease stays, and the task has the device when it is back. */
static void test_blind_with_a_lease(void **state)
{
	struct world *w = *state;

	hold(w);
	(void)grant(w);
	w->d->sight.code = -EIO;
	gdev_on_sight(w->g, w->d);
	assert_int_equal(told(w), HOLDER_RELEASE);
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->n_leases, 1);
	see_holder(w, GIBS / 2);
	assert_int_equal(w->d->state, DEV_LENT);
}

/* A shim is a PID and a start time; what it starts is the task's, and stays so without it. */
static void test_kin(void **state)
{
	struct world *w = *state;
	struct glease *l;
	pid_t child;

	hold(w);
	l = grant(w);
	child = fork();
	if (child == 0) {
		for (;;)
			(void)pause();
	}
	assert_ptr_equal(gkin_find(w->g, w->d, child), l);
	assert_null(gkin_find(w->g, w->d, 1));
	l->shim.start++;
	assert_null(gkin_find(w->g, w->d, getpid()));
	assert_ptr_equal(gkin_find(w->g, w->d, child), l);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	assert_ptr_equal(gkin_find(w->g, w->d, child), l); /* listed for a moment yet */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_newcomer),
		TEST(test_newcomer_while_holding),
		TEST(test_desktop),
		TEST(test_memory),
		TEST(test_context_that_is_not_listed),
		TEST(test_context_that_is_listed_late),
		TEST(test_hidden_before_the_first_hold),
		TEST(test_memory_where_processes_are_hidden),
		TEST(test_numbers_of_the_host),
		TEST(test_class_none_takes_time),
		TEST(test_blind),
		TEST(test_stuck_holder_is_killed),
		TEST(test_holder_killed_by_somebody),
		TEST(test_policy_changes_while_held),
		TEST(test_cycle),
		TEST(test_load_is_left_alone_after_a_rest),
		TEST(test_no_hold_while_ending),
		TEST(test_unfit),
		cmocka_unit_test(test_wall_clock_jumps),
		TEST(test_look_from_before_the_end),
		TEST(test_ignored_process),
		TEST(test_holder_does_not_answer),
		TEST(test_silent_agent),
		TEST(test_hand_over),
		TEST(test_memory_while_a_task_is_awaited),
		TEST(test_foreign_wins_over_a_promise),
		TEST(test_foreign_with_the_task),
		TEST(test_blind_with_a_lease),
		TEST(test_kin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
