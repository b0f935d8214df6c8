/* SPDX-License-Identifier: MIT */

/* One device in the guard, from what is seen to what its holder is told (guard_world.h). */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "guard_world.h"
#include "hold/guard/assign.h"
#include "hold/guard/client.h"
#include "hold/guard/device.h"
#include "hold/guard/hold.h"
#include "hold/guard/look.h"
#include "hold/guard/ownership.h"
#include "hold/guard/timings.h"
#include "hold/guard/verdict.h"

/* However busy the machine is, a nanosecond passes from look to look, and else what a test says. */
static uint64_t now_ns;

uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	now_ns = now_ns ? now_ns + 1 : __real_clock_mono_ns();
	return now_ns;
}

static void test_wall_clock_jumps(void **state)
{
	uint64_t a = clock_wall_ns(), b = clock_wall_ns();

	assert_true((a > b ? a - b : b - a) > NS_PER_S * 3600);
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
	assert_int_equal(w->d->said.who_pid, getpid());
	/* Looks that find the same again tell it nothing more. */
	see(w, 72 * GIBS, pids, 2, 0);
	assert_int_equal(told(w), 0);
	assert_int_equal(w->d->hold.yields, 1);
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_BUSY);
	assert_int_equal(w->g->events[(w->g->last_event - 1) % EVENT_RING].kind, EVENT_YIELD);
	/* Its context stays for a while; a hold now would be one too many. */
	assert_true(w->d->holder.end_at_ns > clock_mono_ns() + NS_PER_S);
	w->d->hold.check = true;
	see_holder(w, GIBS / 2);
	assert_int_equal(w->d->state, DEV_BUSY);
	/* Told to let go of everything, it goes at once. */
	w->g->clients[0].dropping = true;
	look_on_time(w->g, w->d, clock_mono_ns());
	assert_int_equal(told(w), HOLDER_END);
}

/* The next PEERS; windows.n is BURN_PEERS_MAX + 1 where that is not what comes next. */
static struct burn_peers told_peers(struct world *w)
{
	struct holder_msg m;

	while (sock_recv(w->far, &m, sizeof(m)) == (ssize_t)sizeof(m))
		if (m.type != HOLDER_HEARTBEAT)
			return m.type == HOLDER_PEERS
				       ? m.peers
				       : (struct burn_peers){ .n = BURN_PEERS_MAX + 1 };
	return (struct burn_peers){ .n = BURN_PEERS_MAX + 1 };
}

/* Its holder's window is told to all once, and that it is gone after the order to let go. */
static void test_windows_are_told(void **state)
{
	struct world *w = *state;
	struct holder_msg m = { .version = HPROTO_VERSION, .type = HOLDER_WINDOW, .peers.n = 1 };
	pid_t pids[2];
	struct burn_peers p;

	hold(w);
	settle(w);
	m.peers.windows[0].bytes = BURN_WINDOW_MOST;
	m.peers.windows[0].slot = 5; /* it cannot know */
	m.peers.windows[0].handle[7] = 42;
	assert_int_equal(sock_send(w->far, &m, sizeof(m)), 0);
	hold_on_holder(w->g, w->d);
	while (told(w))
		;
	hold_tell_windows(w->g);
	p = told_peers(w);
	assert_true(p.n == 1 && p.own == 0 && p.windows[0].slot == w->d->slot);
	assert_true(p.windows[0].bytes == BURN_WINDOW_MOST && p.windows[0].handle[7] == 42);
	hold_tell_windows(w->g);
	assert_int_equal(told(w), 0);
	pids[0] = w->holder;
	pids[1] = STRANGE;
	see(w, 71 * GIBS, pids, 2, 0);
	hold_tell_windows(w->g);
	assert_int_equal(told(w), HOLDER_RELEASE);
	p = told_peers(w);
	assert_true(p.n == 0 && p.own == 0);
	/* What is no window kills who says so. */
	m.peers.windows[0].bytes = BURN_WINDOW_MOST + 1;
	assert_int_equal(holder_msg_take(&m, sizeof(m)), -EPROTO);
	m.peers.windows[0].bytes = 0;
	m.peers.windows[0].slot = BURN_PEERS_MAX;
	assert_int_equal(holder_msg_take(&m, sizeof(m)), -EPROTO);
	m.peers = (struct burn_peers){ .n = 1, .own = 2 };
	assert_int_equal(holder_msg_take(&m, sizeof(m)), -EPROTO);
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

	w->d->hold.check = true;
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
	assert_int_equal(w->d->said.who_pid, getppid());
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
	assert_int_equal(w->d->seen.rise_since_ns, 0);
	see_holder(w, 71 * GIBS + (24 << 20));
	assert_int_equal(w->d->state, DEV_HELD); /* processes are visible: give it a second */
	w->d->seen.rise_since_ns -= NS_PER_S;
	see_holder(w, 71 * GIBS + (24 << 20));
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_int_equal(w->d->said.who_pid, 0);
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
	assert_int_equal(verdict_rise_due(w->g, w->d), w->d->seen.rise_since_ns + UNLISTED_NS);
	w->d->seen.rise_since_ns -= UNLISTED_NS;
	see_holder(w, 71 * GIBS + GIBS / 2);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	/* It may be listed late; only who stays without a PID, or went without one, is hidden. */
	see_holder(w, 71 * GIBS + GIBS / 2);
	assert_false(w->g->hidden_seen);
	w->d->seen.unlisted_ns -= NS_PER_S / 2;
	see_holder(w, 71 * GIBS);
	assert_true(w->g->hidden_seen);
	assert_int_equal(w->g->pid_class, PIDS_OWN);
	assert_true(verdict_may_hide(w->g));
}

/* What was seen last, in a look of these times. */
static void look_again(struct world *w, uint64_t begin_ns, uint64_t end_ns)
{
	struct sample *s = &w->d->sample;

	s->seq++;
	s->look.begin_ns = begin_ns;
	s->look.end_ns = end_ns;
	now_ns = end_ns;
	look_on_sample(w->g, w->d);
}

/* The driver lists who came while the look stands in it: the list of that look is too old. */
static void test_list_of_a_slow_look(void **state)
{
	struct world *w = *state;
	uint64_t since, due;
	pid_t pids[2];

	hold(w);
	settle(w);
	see_holder(w, 71 * GIBS + GIBS / 2);
	since = w->d->seen.rise_since_ns;
	due = verdict_rise_due(w->g, w->d);
	assert_int_equal(due, since + UNLISTED_NS);
	look_again(w, since + 1, due + NS_PER_S);
	assert_int_equal(w->d->state, DEV_HELD);
	assert_int_equal(verdict_rise_due(w->g, w->d), due);
	pids[0] = w->holder;
	pids[1] = getpid();
	see(w, 71 * GIBS + GIBS / 2, pids, 2, 0);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_int_equal(w->d->said.who_pid, getpid());
	assert_false(w->d->seen.unlisted_yield);
}

/* But one that begins when it is due and lists nobody is the verdict, however long it takes. */
static void test_list_of_a_look_that_is_due(void **state)
{
	struct world *w = *state;
	uint64_t due;

	hold(w);
	settle(w);
	see_holder(w, 71 * GIBS + GIBS / 2);
	due = verdict_rise_due(w->g, w->d);
	look_again(w, due, due + NS_PER_S);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(w->d->said.who_pid, 0);
}

/* Where processes may be hidden no list is waited for. */
static void test_slow_look_where_processes_are_hidden(void **state)
{
	struct world *w = *state;
	uint64_t begin;

	w->g->hidden_possible = true;
	hold(w);
	settle(w);
	begin = clock_mono_ns();
	w->d->sample.look.used += GIBS / 2;
	look_again(w, begin, begin + NS_PER_S);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
}

static void test_context_that_is_listed_late(void **state)
{
	struct world *w = *state;
	pid_t pids[2];

	hold(w);
	settle(w);
	see_holder(w, 71 * GIBS + GIBS / 2);
	w->d->seen.rise_since_ns -= UNLISTED_NS;
	see_holder(w, 71 * GIBS + GIBS / 2);
	assert_int_equal(w->d->state, DEV_YIELDING);
	pids[0] = w->holder;
	pids[1] = getpid();
	see(w, 71 * GIBS + GIBS / 2, pids, 2, 0);
	assert_int_equal(w->d->said.who_pid, getpid());
	see_holder(w, 71 * GIBS);
	w->d->seen.unlisted_ns -= w->d->seen.unlisted_ns ? NS_PER_S : 0;
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
	w->d->seen.unlisted_ns -= w->d->seen.unlisted_ns ? NS_PER_S : 0;
	see(w, GIBS, desktop, 1, 1);
	assert_false(w->g->hidden_seen);
	see(w, 9 * GIBS, NULL, 0, 0);
	assert_false(w->g->hidden_seen);
	w->d->seen.unlisted_ns -= NS_PER_S;
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

/* In the first moments of a hold the figure is what explains it, once that was learnt. */
static void test_hidden_before_the_figure_is_taken(void **state)
{
	struct world *w = *state;

	w->g->hidden_possible = true;
	hold(w);
	see_holder(w, 72 * GIBS); /* it may be ours */
	assert_int_equal(w->d->state, DEV_HELD);
	settle(w);
	says(w, HOLDER_HELD, 70 * GIBS);
	assert_int_equal(w->d->figure.used, 0);
	see_holder(w, 71 * GIBS + (8 << 20));
	assert_int_equal(w->d->state, DEV_HELD);
	see_holder(w, 71 * GIBS + (24 << 20));
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_non_null(strstr(sentence(&w->d->said.reason), "0.02 GiB came into use"));
	assert_false(w->d->figure.baseline.learnt);
}

/* Where nothing is known yet of the numbers, one that cannot be seen may be our holder's; not
 * beside our holder's own. */
static void test_stranger_beside_a_holder_that_is_listed(void **state)
{
	struct world *w = *state;
	pid_t pids[] = { 0, STRANGE };

	hold(w);
	w->d->holder.listed_pid = 0;
	w->g->pid_class = PIDS_UNKNOWN;
	pids[0] = w->holder;
	see(w, 72 * GIBS, pids, 2, 0);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(w->d->said.who_pid, STRANGE);
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
	assert_int_equal(w->d->said.who_pid, STRANGE + 1);
}

/* A child of that name, which sleeps or has exited and waits to be reaped. */
static pid_t child_called_holder(bool exited)
{
	int ends[2];
	char byte;
	siginfo_t info;

	assert_int_equal(pipe(ends), 0);

	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)prctl(PR_SET_NAME, HOLDER_COMM);
		(void)!write(ends[1], "", 1);
		if (exited)
			_exit(0);
		for (;;)
			(void)pause();
	}
	assert_int_equal(read(ends[0], &byte, 1), 1);
	(void)close(ends[0]);
	(void)close(ends[1]);
	if (exited)
		assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	return pid;
}

/* A holder of the guard before this one that has not gone yet, and what only looks like one. */
static void test_dying_holder_of_another_guard(void **state)
{
	struct world *w = *state;
	uint64_t before = __real_clock_mono_ns();
	struct gpu_proc dead = { .pid = child_called_holder(true) };
	struct gpu_proc alive = { .pid = child_called_holder(false) };

	now_ns = __real_clock_mono_ns(); /* the children's is the kernel's */
	w->g->born_ns = clock_mono_ns();
	assert_int_equal(own_classify(w->g, w->d, &dead), OWN_DYING);
	assert_int_equal(own_classify(w->g, w->d, &alive), OWN_FOREIGN);
	/* None of that time: some seconds later, or begun after this guard. */
	w->g->born_ns = clock_mono_ns() - 6 * NS_PER_S;
	assert_int_equal(own_classify(w->g, w->d, &dead), OWN_FOREIGN);
	w->g->born_ns = before - NS_PER_S;
	assert_int_equal(own_classify(w->g, w->d, &dead), OWN_FOREIGN);
	(void)kill(alive.pid, SIGKILL);
	(void)waitpid(alive.pid, NULL, 0);
	(void)waitpid(dead.pid, NULL, 0);
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
	w->d->sample.code = -EIO;
	(void)strcpy(w->d->sample.trouble, "Unknown Error");
	look_on_sample(w->g, w->d);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_non_null(strstr(sentence(&w->d->said.reason), "Unknown Error"));
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
	look_on_time(w->g, w->d, clock_mono_ns());
	assert_int_equal(waitpid(w->holder, &status, WNOHANG), 0);
	w->d->holder.freeing_ns = NS_PER_S;
	look_on_time(w->g, w->d, clock_mono_ns());
	while (w->d->holder.pid)
		hold_on_child(w->g, w->d);
	/* A list that is a moment old: its number, of which nothing is left. */
	assert_int_equal(w->d->state, DEV_BUSY);
	see(w, 0, &w->holder, 1, 0);
	assert_int_equal(w->d->said.who_pid, 0);
	w->holder = 0;
	/* Marked: why, and no new hold for a while. */
	w->d->hold.check = true;
	see(w, 0, NULL, 0, 0);
	assert_int_equal(w->d->state, DEV_IDLE);
	assert_non_null(strstr(sentence(&w->d->said.reason), "did not let go in time"));
	w->d->hold.wait_ns = 0;
	assert_false(hold_ripe(w->g, w->d, clock_mono_ns() + NS_PER_S));
	assert_true(hold_ripe(w->g, w->d, clock_mono_ns() + 61 * NS_PER_S));
}

/* It sleeps, or is stopped, unless it was killed. A signal is seen in /proc at once, the end of the
 * process later. */
static bool holder_is_killed(struct world *w)
{
	struct proc_peek peek;

	for (;;) {
		assert_int_equal(proc_peek(w->holder, &peek), 0);
		if (peek.ending)
			return true;
		if (peek.state == 'S' || peek.state == 'T')
			return false;
		(void)usleep(100);
	}
}

/* look_on_time() after so many ms of waiting for the holder; whether that has killed it. */
static bool killed_after(struct world *w, unsigned int ms)
{
	w->d->hold.turn_ns = clock_mono_ns();
	w->d->holder.freeing_ns = ms * NS_PER_MS;
	w->d->holder.peeked_ns = 0;
	look_on_time(w->g, w->d, clock_mono_ns());
	return holder_is_killed(w);
}

static void newcomer_comes(struct world *w)
{
	const pid_t pids[] = { w->holder, getpid() };

	see(w, 72 * GIBS, pids, 2, 0);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
}

static void test_stopped_holder_is_killed_at_once(void **state)
{
	struct world *w = *state;

	hold(w);
	(void)kill(w->holder, SIGSTOP);
	assert_int_equal(waitpid(w->holder, NULL, WUNTRACED), w->holder);
	newcomer_comes(w);
	assert_true(killed_after(w, 0));
	assert_non_null(strstr(sentence(&w->d->said.reason), "was stopped"));
}

/* How long is too long follows from what it takes here. */
static void test_holder_that_does_not_free_is_killed_soon(void **state)
{
	static const struct {
		unsigned int took_ms, lives_ms, dies_ms;
	} cases[] = {
		{ 0, 290, 310 },   /* not known: the least */
		{ 50, 290, 310 },  /* quick: the least */
		{ 130, 500, 530 }, /* four times that */
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world *w = *state;

		hold(w);
		w->d->hold.free_ns = cases[i].took_ms * NS_PER_MS;
		newcomer_comes(w);
		assert_false(killed_after(w, cases[i].lives_ms));
		assert_true(killed_after(w, cases[i].dies_ms));
		(void)world_teardown(state);
		(void)world_setup(state);
	}
}

/* So long the holder's device turns, in steps; false when that has killed it. */
static bool lives_on(struct world *w, uint64_t *now, unsigned int ms)
{
	for (uint64_t end = *now + ms * NS_PER_MS; *now < end; *now += 10 * NS_PER_MS)
		look_on_time(w->g, w->d, *now);
	return !holder_is_killed(w);
}

/*
 * The driver lets one go after the other: the last one is not late because of those before it, and
 * one whose turn does not end is still found.
 */
static void test_holders_that_free_at_once_queue_for_the_driver(void **state)
{
	static const unsigned int at_once[] = { 2, 3, 8, 16 };
	enum { EACH_MS = 90 };

	for (size_t i = 0; i < ARRAY_LEN(at_once); i++) {
		struct world *w = *state;
		uint64_t now;

		hold(w);
		w->d->hold.free_ns = EACH_MS * NS_PER_MS;
		w->g->n_devs = at_once[i];
		for (unsigned int k = 1; k < at_once[i]; k++)
			w->g->devs[k] = (struct device){ .state = DEV_YIELDING, .owner = -1 };
		newcomer_comes(w);
		now = clock_mono_ns();
		w->d->hold.turn_ns = now;
		for (unsigned int k = 1; k < at_once[i]; k++) {
			assert_true(lives_on(w, &now, EACH_MS));
			w->g->devs[k].state = DEV_BUSY;
		}
		assert_true(lives_on(w, &now, EACH_MS));
		assert_false(lives_on(w, &now, 4 * EACH_MS));
		w->g->n_devs = 1;
		(void)world_teardown(state);
		(void)world_setup(state);
	}
}

static void test_time_to_free_is_learnt(void **state)
{
	struct world *w = *state;

	hold(w);
	newcomer_comes(w);
	w->d->holder.asked_ns -= 100 * NS_PER_MS;
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_true(w->d->hold.free_ns >= 100 * NS_PER_MS && w->d->hold.free_ns < 200 * NS_PER_MS);
}

static void test_holder_killed_by_somebody(void **state)
{
	struct world *w = *state;

	hold(w);
	assert_true(figure_awaited(&w->d->figure));
	(void)kill(w->holder, SIGKILL);
	while (w->d->holder.pid)
		hold_on_child(w->g, w->d);
	w->holder = 0;
	assert_int_equal(w->d->state, DEV_BUSY);
	assert_non_null(strstr(sentence(&w->d->said.reason), "signal 9"));
	assert_true(w->d->hold.yielded);
	assert_int_equal(w->d->figure.is, FIGURE_OFF);
	assert_int_equal(w->g->events[(w->g->last_event - 1) % EVENT_RING].kind, EVENT_GONE);
}

static void test_policy_changes_while_held(void **state)
{
	struct world *w = *state;
	struct hold_policy *p = &w->g->clients[0].policy, before = *p;

	hold(w);
	p->util = 60;
	hold_adapt(w->g, w->d, &before);
	assert_int_equal(told(w), HOLDER_LOAD);
	assert_int_equal(w->d->load.told_duty, 600);
	before = *p;
	p->load = LOAD_NONE;
	hold_adapt(w->g, w->d, &before);
	assert_int_equal(told(w), HOLDER_LOAD);
	assert_int_equal(w->d->load.told, LOAD_NONE);
	before = *p;
	settle(w);
	p->memory = (struct mem_amount){ .kind = MEM_BYTES, .bytes = 40 * GIBS };
	hold_adapt(w->g, w->d, &before);
	assert_int_equal(told(w), HOLDER_AMOUNT);
	assert_int_equal(w->d->figure.used, 0); /* our own memory moves: no witness now */
	says(w, HOLDER_HELD, 40 * GIBS);
	assert_non_null(strstr(sentence(&last_event(w)->reason), "holds 40.0 GiB now"));
	hold_adapt(w->g, w->d, p);
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
	look_on_time(w->g, w->d, now + 999 * NS_PER_MS);
	assert_int_equal(told(w), 0);
	look_on_time(w->g, w->d, now + 1000 * NS_PER_MS);
	assert_int_equal(told(w), HOLDER_LOAD);
	assert_int_equal(w->d->load.told, LOAD_NONE);
	look_on_time(w->g, w->d, now + 1499 * NS_PER_MS);
	assert_int_equal(told(w), 0);
	look_on_time(w->g, w->d, now + 1500 * NS_PER_MS);
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
	w->d->sample.look.util = 0;
	see_holder(w, 71 * GIBS);
	w->d->sample.look.valid |= GPU_VALID_UTIL;
	look_on_sample(w->g, w->d);
	assert_int_equal(w->d->load.duty_permille, 750);
	w->d->load.phase_ns -= 4 * NS_PER_S;
	look_on_sample(w->g, w->d);
	assert_true(w->d->load.duty_permille > 750);
}

static void test_no_hold_while_ending(void **state)
{
	struct world *w = *state;

	w->d->hold.check = true;
	see(w, 0, NULL, 0, 0);
	assert_true(hold_ripe(w->g, w->d, clock_mono_ns()));
	/* Of an agent that died holds are kept for a while, and none are begun. */
	w->g->clients[0].awaited_until_ns = clock_mono_ns() + NS_PER_S;
	assert_false(hold_ripe(w->g, w->d, clock_mono_ns()));
	assert_int_equal(hold_at(w->g, w->d), 0);
	w->g->clients[0].awaited_until_ns = 0;
	assert_true(hold_ripe(w->g, w->d, clock_mono_ns()));
	w->g->quit_ns = clock_mono_ns();
	assert_false(hold_ripe(w->g, w->d, clock_mono_ns()));
}

static void test_unfit(void **state)
{
	struct world *w = *state;

	hold(w);
	w->d->sample.look.mode = NVML_COMPUTEMODE_EXCLUSIVE_PROCESS;
	see_holder(w, 71 * GIBS);
	assert_int_equal(w->d->state, DEV_HELD); /* not known to be so */
	w->d->sample.look.valid |= GPU_VALID_MODE;
	look_on_sample(w->g, w->d);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_non_null(strstr(sentence(&w->d->said.reason), "EXCLUSIVE_PROCESS"));
	assert_int_equal(w->d->hold.yields, 0);
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
	assert_int_equal(w->d->said.who_pid, self.pid);
}

/* A look that was begun while the last holder lived still shows it, and its memory. */
static void test_look_from_before_the_end(void **state)
{
	struct world *w = *state;
	struct sample *s = &w->d->sample;
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
		hold_on_child(w->g, w->d);
	w->holder = 0;
	assert_int_equal(w->d->state, DEV_BUSY);
	s->seq++;
	s->look.begin_ns = before;
	s->look.end_ns = clock_mono_ns();
	w->d->hold.check = true;
	look_on_sample(w->g, w->d);
	assert_int_equal(w->d->said.who_pid, 0);
	assert_non_null(strstr(sentence(&w->d->said.reason), "holder"));
	/* And one that was begun later is about somebody else. */
	see(w, 71 * GIBS, &listed, 1, 0);
	assert_int_equal(w->d->said.who_pid, listed);
}

/* A holder that stands in the driver, or is stopped, is found before somebody needs the device. */
static void test_holder_does_not_answer(void **state)
{
	struct world *w = *state;
	uint64_t now;

	hold(w);
	now = clock_mono_ns();
	for (int i = 0; i < 60; i++) {
		look_on_time(w->g, w->d, now += NS_PER_S / 2);
		says(w, HOLDER_HEARTBEAT, 0);
	}
	/* The guard itself slept: it asked nothing meanwhile. */
	look_on_time(w->g, w->d, now += 3600 * NS_PER_S);
	for (int i = 0; i < 9; i++) {
		look_on_time(w->g, w->d, now += NS_PER_S / 2);
		assert_int_equal(w->d->state, DEV_HELD);
	}
	look_on_time(w->g, w->d, now += NS_PER_S / 2);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(last_event(w)->kind, EVENT_FAILED);
	assert_int_equal(waitpid(w->holder, NULL, 0), w->holder); /* killed */
	w->holder = 0;
}

/* An agent that is stopped: its holds go, and come back with it; our own sleep is not its. */
static void test_silent_agent(void **state)
{
	struct world *w = *state;
	struct client *c = &w->g->clients[0];
	struct msg_heartbeat heartbeat = { .head = PROTO_HEAD(MSG_HEARTBEAT,
							      struct msg_heartbeat) };
	uint64_t now = clock_mono_ns();
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	c->fd = pair[0];
	c->pid = getpid();
	c->tick_ns = UINT64_MAX;
	c->listened_ns = now;
	hold(w);
	for (int i = 0; i < 9; i++)
		client_on_time(w->g, c, now += NS_PER_S);
	client_on_time(w->g, c, now += 3600 * NS_PER_S / 4000);
	assert_int_equal(w->d->state, DEV_HELD);
	assert_int_equal(sock_send(pair[1], &heartbeat, sizeof(heartbeat)), 0);
	client_on_readable(w->g, c);
	client_on_time(w->g, c, now += 3600 * NS_PER_S);
	for (int i = 0; i < 8; i++)
		client_on_time(w->g, c, now += NS_PER_S);
	assert_int_equal(w->d->state, DEV_HELD);
	client_on_time(w->g, c, now += NS_PER_S);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_false(hold_ripe(w->g, w->d, now));
	assert_true(c->silent);
	assert_int_equal(sock_send(pair[1], &heartbeat, sizeof(heartbeat)), 0);
	client_on_readable(w->g, c);
	assert_false(c->silent);
	assert_int_equal(c->tick_ns, 0); /* looked at anew at once */
	(void)close(pair[1]);
	c->fd = fd_close(c->fd);
}

/* Places of clients are used again: which one it is says nothing of who came first. */
static void test_who_asked_first(void **state)
{
	struct world *w = *state;
	struct client *first = &w->g->clients[0], *other = &w->g->clients[1];

	*other = *first;
	(void)strcpy(other->instance, "other");
	first->asked = 2;
	other->asked = 1;
	w->d->owner = -1;
	assign_all(w->g);
	assert_int_equal(w->d->owner, 1);
	/* What it has it keeps, if it came from one that selects it no more ... */
	other->has_policy = false;
	assign_all(w->g);
	assert_int_equal(w->d->owner, 0);
	other->has_policy = true;
	assign_all(w->g);
	assert_int_equal(w->d->owner, 0);
	/* ... but for one that would hold it while it only watches, ... */
	first->policy.hold = false;
	assign_all(w->g);
	assert_int_equal(w->d->owner, 1);
	first->policy.hold = true;
	assign_all(w->g);
	assert_int_equal(w->d->owner, 1);
	/* ... and what anybody leaves for others. */
	other->policy.leave = 1;
	assign_all(w->g);
	assert_int_equal(w->d->owner, 1);
	assert_int_equal(w->d->leaver, 1);
	assert_true(device_is_left(w->d));
}

/* Of several that would hold it, the one whose own rule does so the soonest. */
static void test_who_holds_first(void **state)
{
	struct world *w = *state;
	struct client *first = &w->g->clients[0], *other = &w->g->clients[1];
	const pid_t ignored = getppid();

	first->policy.idle_for_ms = 60000;
	*other = *first;
	(void)strcpy(other->instance, "other");
	first->asked = 1;
	other->asked = 2;
	assign_all(w->g);
	assert_int_equal(w->d->owner, 0);
	other->policy.idle_for_ms = 1000;
	assign_all(w->g);
	assert_int_equal(w->d->owner, 1);
	/* At its limit, gone, or with more in use than it calls idle, it holds nothing. */
	other->policy.max_devices = 1;
	w->g->n_devs = 2;
	w->g->devs[1] = (struct device){ .state = DEV_HELD, .owner = 1, .leaver = -1 };
	assign_all(w->g);
	assert_int_equal(w->d->owner, 0);
	w->g->n_devs = 1;
	other->policy.max_devices = 0;
	other->policy.idle_below_bytes = GIBS;
	first->policy.idle_below_bytes = 3 * GIBS;
	see(w, 2 * GIBS, NULL, 0, 0);
	assign_again(w->g);
	assert_int_equal(w->d->owner, 0);
	/* Exceptions are everybody's own. */
	other->policy.idle_below_bytes = 3 * GIBS;
	first->policy.n_ignore = 1;
	first->policy.ignore_pids[0] = ignored;
	see(w, 2 * GIBS, &ignored, 1, 0);
	assign_again(w->g);
	assert_int_equal(w->d->owner, 0);
	/* After a yield each waits as long as it wants to. */
	see(w, 0, NULL, 0, 0);
	assign_again(w->g);
	assert_int_equal(w->d->owner, 1);
	w->d->hold.yielded = true;
	other->policy.rehold_ms = 2 * first->policy.rehold_ms;
	assign_all(w->g);
	assert_int_equal(w->d->owner, 0);
	assert_true(w->d->hold.yielded);
	/* What is held stays with who holds it. */
	other->policy.rehold_ms = 0;
	hold(w);
	assign_all(w->g);
	assert_int_equal(w->d->owner, 0);
}

/* Anybody can take the name of a device; a hold heeds it for a while. */
static void test_name_of_a_device(void **state)
{
	struct world *w = *state;
	struct dev_reason why;
	char ready, name[128];
	int ends[2];

	(void)snprintf(w->d->id.uuid, sizeof(w->d->id.uuid), "GPU-%d", (int)getpid());
	(void)snprintf(name, sizeof(name), "tenure/dev/%s", w->d->id.uuid);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);

	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		ready = sock_listen(name, NULL) >= 0;
		(void)!write(ends[1], &ready, 1);
		(void)pause();
		_exit(0);
	}
	assert_int_equal(read(ends[0], &ready, 1), 1);
	assert_true(ready);
	w->d->hold.wait_ns = 5 * NS_PER_S;
	w->d->hold.idle_since_ns = clock_mono_ns() - 6 * NS_PER_S;
	assert_false(device_may_hold(w->d, &why));
	assert_int_equal(why.code, DEV_REASON_LOCKED);
	assert_int_equal(why.uid, getuid());
	w->d->hold.idle_since_ns = clock_mono_ns() - 36 * NS_PER_S;
	assert_true(device_may_hold(w->d, &why));
	assert_int_equal(w->d->hold.lock_fd, -1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	w->d->hold.idle_since_ns = clock_mono_ns();
	assert_true(device_may_hold(w->d, &why));
	assert_true(w->d->hold.lock_fd >= 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_newcomer),
		TEST(test_windows_are_told),
		TEST(test_newcomer_while_holding),
		TEST(test_desktop),
		TEST(test_memory),
		TEST(test_context_that_is_not_listed),
		TEST(test_list_of_a_slow_look),
		TEST(test_list_of_a_look_that_is_due),
		TEST(test_slow_look_where_processes_are_hidden),
		TEST(test_context_that_is_listed_late),
		TEST(test_hidden_before_the_first_hold),
		TEST(test_memory_where_processes_are_hidden),
		TEST(test_hidden_before_the_figure_is_taken),
		TEST(test_stranger_beside_a_holder_that_is_listed),
		TEST(test_numbers_of_the_host),
		TEST(test_dying_holder_of_another_guard),
		TEST(test_class_none_takes_time),
		TEST(test_blind),
		TEST(test_stuck_holder_is_killed),
		TEST(test_stopped_holder_is_killed_at_once),
		TEST(test_holder_that_does_not_free_is_killed_soon),
		TEST(test_holders_that_free_at_once_queue_for_the_driver),
		TEST(test_time_to_free_is_learnt),
		TEST(test_holder_killed_by_somebody),
		TEST(test_policy_changes_while_held),
		TEST(test_cycle),
		TEST(test_load_is_left_alone_after_a_rest),
		TEST(test_no_hold_while_ending),
		TEST(test_unfit),
		TEST(test_look_from_before_the_end),
		TEST(test_ignored_process),
		TEST(test_holder_does_not_answer),
		TEST(test_silent_agent),
		TEST(test_who_asked_first),
		TEST(test_who_holds_first),
		TEST(test_name_of_a_device),
		cmocka_unit_test(test_wall_clock_jumps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
