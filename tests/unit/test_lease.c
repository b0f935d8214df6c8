/* SPDX-License-Identifier: MIT */

/* Leases on one device in the guard: promised, handed over, taken, returned (guard_world.h). */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "base/str.h"
#include "guard_world.h"
#include "hold/guard/client.h"
#include "hold/guard/device.h"
#include "hold/guard/event_ring.h"
#include "hold/guard/hold.h"
#include "hold/guard/lease.h"
#include "hold/guard/look.h"
#include "hold/guard/ownership.h"
#include "hold/guard/requests.h"
#include "hold/guard/usage.h"

static struct lease *promise(struct world *w, uint32_t flags)
{
	struct msg_lease m = { .head = PROTO_HEAD(MSG_LEASE, struct msg_lease),
			       .id = { .task = 1, .attempt = 1 },
			       .flags = flags };

	(void)str_copy(m.uuid, sizeof(m.uuid), w->d->id.uuid);
	request_lease(w->g, &w->g->clients[0], &m);
	return w->d->ledger.n_leases ? &w->g->leases[0] : NULL;
}

/* This process is the shim, so it and its children are the task's. */
static struct lease *grant_with(struct world *w, uint32_t flags)
{
	struct lease *l = promise(w, flags);
	struct msg_grant m = { .head = PROTO_HEAD(MSG_GRANT, struct msg_grant),
			       .id = { .task = 1, .attempt = 1 },
			       .pid = getpid() };
	struct proc_id self;

	assert_non_null(l);
	assert_int_equal(proc_identify(getpid(), &self), 0);
	m.start = self.start;
	request_grant(w->g, &w->g->clients[0], &m);
	return l;
}

static struct lease *grant(struct world *w)
{
	struct lease *l = grant_with(w, 0);

	assert_int_equal(l->stage, LEASE_GRANTED);
	return l;
}

static void unlease(struct world *w)
{
	struct msg_unlease m = { .head = PROTO_HEAD(MSG_UNLEASE, struct msg_unlease),
				 .id = { .task = 1, .attempt = 1 } };

	request_unlease(w->g, &w->g->clients[0], &m);
}

static void see_with(struct world *w, uint64_t used, pid_t other)
{
	pid_t pids[] = { w->holder, other };

	see(w, used, pids, 2, 0);
}

/* Of a device that no instance has, all hear; of a task that is not known, nobody twice. */
static void test_events_of_a_task_of_another_instance(void **state)
{
	struct world *w = *state;
	struct guard_event *ev;
	uint64_t seq;

	hold(w);
	ev = event_add(w->g, w->d, EVENT_LENT, "lent");
	assert_string_not_equal(ev->instance, "");
	seq = w->g->last_event;
	event_share(w->g, ev, ev->instance);
	event_share(w->g, ev, "");
	assert_int_equal(w->g->last_event, seq);
	event_share(w->g, ev, "other");
	assert_int_equal(w->g->last_event, seq + 1);
	assert_int_equal(last_event(w)->seq, seq + 1);
	assert_string_equal(last_event(w)->instance, "other");
	assert_int_equal(last_event(w)->kind, EVENT_LENT);
	ev->instance[0] = '\0';
	event_share(w->g, ev, "other");
	assert_int_equal(w->g->last_event, seq + 1);
}

static void test_hand_over(void **state)
{
	struct world *w = *state;
	struct lease *l;

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
	assert_int_equal(w->d->hold.yields, 0);
	/* The context stays, and a neighbour changes nothing. */
	see_with(w, 40 * GIBS, getpid());
	look_on_time(w->g, w->d, clock_mono_ns() + NS_PER_S / 4);
	assert_int_equal(told(w), 0);
	assert_true(w->d->holder.kept && !w->d->holder.end_at_ns);

	/* Over: not while it is listed; then held again at once, in the same process. */
	unlease(w);
	see_with(w, 40 * GIBS, getpid());
	assert_int_equal(w->d->state, DEV_LENT);
	assert_int_equal(w->d->ledger.n_over, 1);
	see_holder(w, GIBS / 2);
	assert_int_equal(w->d->ledger.n_leases, 0);
	assert_int_equal(w->d->state, DEV_HOLDING);
	assert_int_equal(told(w), HOLDER_HOLD);
	assert_false(w->d->holder.kept);
}

/* That many seconds after base a look was complete that read that utilisation. */
static void see_util(struct world *w, struct lease *l, uint64_t base, double after_s, uint32_t util)
{
	struct sample *s = &w->d->sample;

	s->look.valid |= GPU_VALID_UTIL;
	s->look.util = util;
	s->look.begin_ns = s->look.end_ns = base + (uint64_t)(after_s * (double)NS_PER_S);
	lease_usage_on_look(w->g, w->d, l);
}

/* Until the device is handed over its utilisation is that of our own load. */
static void test_use_counts_from_the_hand_over(void **state)
{
	struct world *w = *state;
	uint64_t base = clock_mono_ns();
	struct lease *l;

	hold(w);
	l = grant(w);
	for (int i = 1; i <= 8; i++)
		see_util(w, l, base, i, 75);
	assert_int_equal(lease_usage_message(l).util_ns, 0);
	l->n_procs = 1;
	see_util(w, l, base, 9, 75);
	see_util(w, l, base, 9.5, 40); /* half of that mean is older */
	assert_int_equal(lease_usage_message(l).util_ns, 0);
	w->d->sample.complete = false; /* one that repeats it */
	see_util(w, l, base, 10, 40);
	assert_int_equal(lease_usage_message(l).util_ns, 0);
	w->d->sample.complete = true;
	see_util(w, l, base, 10.5, 20);
	see_util(w, l, base, 12, 40);
	assert_int_equal(lease_usage_message(l).util_ns, 3 * NS_PER_S);
	assert_int_equal(lease_usage_message(l).util_permille, 300);
}

/* Without a load of ours there is nothing to wait for. */
static void test_use_where_nothing_was_held(void **state)
{
	struct world *w = *state;
	uint64_t base = clock_mono_ns();
	struct lease *l;

	see(w, 0, NULL, 0, 0);
	l = grant_with(w, 0);
	see(w, 0, NULL, 0, 0);
	assert_int_equal(l->stage, LEASE_GRANTED);
	see_util(w, l, base, 1, 0);
	assert_int_equal(lease_usage_message(l).util_ns, 0);
	l->n_procs = 1;
	see_util(w, l, base, 2, 0);
	see_util(w, l, base, 2.5, 80);
	assert_int_equal(lease_usage_message(l).util_ns, NS_PER_S / 2);
	assert_int_equal(lease_usage_message(l).util_permille, 800);
}

/* Where processes are not listed the memory of a hold that is still there is no task's. */
static void test_use_of_the_unlisted_counts_from_the_hand_over(void **state)
{
	struct world *w = *state;
	uint64_t base = clock_mono_ns();
	struct lease *l;

	hold(w);
	l = grant(w);
	w->g->pid_class = PIDS_NONE;
	w->d->sample.look.procs.n = 0;
	see_util(w, l, base, 2, 75);
	see_util(w, l, base, 3, 75);
	assert_int_equal(lease_usage_message(l).util_ns, 0);
	assert_int_equal(lease_usage_message(l).peak_bytes, 0);
	w->d->holder.held = 0;
	w->d->sample.look.used = 40 * GIBS;
	w->d->state = DEV_LENT;
	w->d->since_ns = base + 4 * NS_PER_S;
	see_util(w, l, base, 4, 0);
	see_util(w, l, base, 6, 50);
	assert_int_equal(lease_usage_message(l).util_ns, 2 * NS_PER_S);
	assert_int_equal(lease_usage_message(l).util_permille, 500);
	assert_int_equal(lease_usage_message(l).peak_bytes, 40 * GIBS);
}

static int connect_agent(struct client *c, int pair[2])
{
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	c->fd = pair[0];
	return pair[1];
}

/* The agent counts what a task used when it hears of the end, so the last figures go before it. */
static void test_last_use_is_told_before_the_end(void **state)
{
	struct world *w = *state;
	struct client *c = &w->g->clients[0];
	union {
		struct msg_head head;
		struct msg_lease_use use;
		char room[PROTO_MSG_MAX];
	} got = { .use = { .peak_bytes = 0 } };
	uint64_t peak = 0;
	pid_t self = getpid();
	int pair[2];

	c->policy.hold = 0;
	w->d->hold.check = true;
	see(w, 0, NULL, 0, 0);
	(void)grant_with(w, 0);
	see(w, 0, NULL, 0, 0);
	see(w, 2 * GIBS, &self, 1, 0);

	int far = connect_agent(c, pair);

	unlease(w);
	see(w, 0, NULL, 0, 0);
	assert_int_equal(w->d->ledger.n_leases, 0);
	while (sock_recv(far, &got, sizeof(got)) > 0 && got.head.type != MSG_UNLEASED)
		if (got.head.type == MSG_LEASE_USE)
			peak = got.use.peak_bytes;
	assert_int_equal(got.head.type, MSG_UNLEASED);
	assert_int_equal(peak, GIBS);
	c->fd = fd_close(c->fd);
	(void)close(far);
}

/* A task is over whose agent is there: the memory is left alone until that one has planned. */
static void end_of_a_task(struct world *w, int *ret_agent)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	hold(w);
	(void)grant(w);
	see_with(w, 72 * GIBS, getpid());
	assert_int_equal(told(w), HOLDER_RELEASE);
	says(w, HOLDER_FREED, 70 * GIBS);
	w->g->clients[0].fd = pair[0];
	*ret_agent = pair[1];
	unlease(w);

	uint64_t before = clock_mono_ns();

	see_holder(w, GIBS / 2);
	assert_int_equal(w->d->ledger.n_leases, 0);
	assert_int_equal(w->d->state, DEV_IDLE);
	assert_true(w->d->holder.kept && !w->d->holder.end_at_ns);
	assert_int_equal(told(w), 0);
	assert_false(hold_ripe(w->g, w->d, before + 20 * NS_PER_MS));
	assert_true(hold_ripe(w->g, w->d, clock_mono_ns() + 100 * NS_PER_MS));
}

static void close_agent(struct world *w, int agent)
{
	(void)fd_close(agent);
	w->g->clients[0].fd = fd_close(w->g->clients[0].fd);
}

/* The context that waits for the next hold does not stay beside a newcomer. */
static void test_newcomer_beside_a_kept_context(void **state)
{
	struct world *w = *state;
	int agent;

	end_of_a_task(w, &agent);
	see_with(w, 40 * GIBS, getpid());
	assert_int_equal(w->d->state, DEV_BUSY);
	assert_true(w->d->holder.end_at_ns);
	look_on_time(w->g, w->d, w->d->holder.end_at_ns);
	assert_true(w->d->holder.ending);
	close_agent(w, agent);
}

static void test_chain_of_tasks(void **state)
{
	struct world *w = *state;
	struct lease *l;
	int agent;

	end_of_a_task(w, &agent);
	/* The next one is promised it and starts: our context is there all the time, and alone. */
	l = promise(w, 0);
	assert_non_null(l);
	client_consider(w->g, &w->g->clients[0]);
	assert_false(hold_ripe(w->g, w->d, clock_mono_ns() + 100 * NS_PER_MS));
	assert_true(hold_ripe(w->g, w->d, clock_mono_ns() + NS_PER_S));
	(void)grant_with(w, 0);
	assert_int_equal(l->stage, LEASE_ASKED);
	see_holder(w, GIBS / 2);
	assert_int_equal(l->stage, LEASE_GRANTED);
	assert_int_equal(w->d->state, DEV_LENT);
	look_on_time(w->g, w->d, clock_mono_ns() + NS_PER_S);
	assert_int_equal(told(w), 0);
	assert_true(w->d->holder.kept && !w->d->holder.end_at_ns);
	/* Who comes before that task wins here, too. */
	l->stage = LEASE_GRANTED;
	see_with(w, 2 * GIBS, getppid());
	assert_true(l->taken);
	close_agent(w, agent);
}

static void test_end_of_a_chain(void **state)
{
	struct world *w = *state;
	struct msg_reserve none = { .head = PROTO_HEAD(MSG_RESERVE, struct msg_reserve) };
	int agent;

	(void)strcpy(none.uuid, w->d->id.uuid);
	end_of_a_task(w, &agent);
	/* Nothing comes: it is looked at again, and held. */
	request_reserve(w->g, &w->g->clients[0], &none);
	assert_true(w->d->hold.check);
	see_holder(w, GIBS / 2);
	client_consider(w->g, &w->g->clients[0]);
	assert_int_equal(w->d->state, DEV_HOLDING);
	assert_int_equal(told(w), HOLDER_HOLD);
	close_agent(w, agent);
}

static void test_chain_whose_next_task_waits_for_others(void **state)
{
	struct world *w = *state;
	struct msg_reserve m = { .head = PROTO_HEAD(MSG_RESERVE, struct msg_reserve),
				 .id = { .task = 2 } };
	int agent;

	(void)strcpy(m.uuid, w->d->id.uuid);
	end_of_a_task(w, &agent);
	request_reserve(w->g, &w->g->clients[0], &m);
	assert_int_equal(w->d->state, DEV_HOLDING);
	assert_int_equal(told(w), HOLDER_HOLD);
	close_agent(w, agent);
}

/* Where our context is there already a hold takes the memory at once, so somebody who came since
 * the last look would not get his. */
static void test_reservation_after_an_old_look(void **state)
{
	struct world *w = *state;
	struct msg_reserve m = { .head = PROTO_HEAD(MSG_RESERVE, struct msg_reserve),
				 .id = { .task = 2 } };
	int agent;

	(void)strcpy(m.uuid, w->d->id.uuid);
	end_of_a_task(w, &agent);
	w->g->clients[0].policy.hold = 0; /* nothing but the reservation wants it held */
	w->d->sample.look.end_ns -= NS_PER_S;
	request_reserve(w->g, &w->g->clients[0], &m);
	look_on_time(w->g, w->d, clock_mono_ns());
	assert_int_equal(w->d->state, DEV_IDLE);
	assert_int_equal(told(w), 0);
	assert_true(w->d->hold.check);
	/* Nobody is there: it is held with the answer to that. */
	see_holder(w, GIBS / 2);
	look_on_time(w->g, w->d, clock_mono_ns());
	assert_int_equal(w->d->state, DEV_HOLDING);
	assert_int_equal(told(w), HOLDER_HOLD);
	close_agent(w, agent);
}

/* Memory moves before anybody is listed; who it was shows later, and may be somebody else. */
static void test_memory_while_a_task_is_awaited(void **state)
{
	struct world *w = *state;
	struct lease *l;

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
	assert_int_equal(w->d->hold.yields, 1);
}

static void test_foreign_wins_over_a_promise(void **state)
{
	struct world *w = *state;
	struct lease *l;

	hold(w);
	l = promise(w, 0);
	see_with(w, 72 * GIBS, 1);
	assert_int_equal(w->d->state, DEV_YIELDING);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_true(l->taken && l->stage == LEASE_PROMISED);
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_BUSY);
	assert_int_equal(w->d->ledger.n_leases, 1);
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
	assert_int_equal(w->d->said.who_pid, 1);
	says(w, HOLDER_FREED, 70 * GIBS);
	see(w, 2 * GIBS, pids, 3, 0);
	assert_int_equal(w->d->state, DEV_LENT);
}

/* Beside a preemptible task whoever comes is told to the agent; beside another nobody is. */
static void test_foreign_beside_a_preemptible_one(void **state)
{
	static const uint32_t flags[] = { 0, LEASE_PREEMPTIBLE,
					  LEASE_PREEMPTIBLE | LEASE_OTHERS_OK };
	struct world *w = *state;

	w->g->clients[0].policy.hold = 0;
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		bool tells = flags[i] == LEASE_PREEMPTIBLE;
		pid_t pids[] = { getpid(), 1 };
		struct lease *l;

		w->d->hold.check = true;
		see(w, 0, NULL, 0, 0);
		l = grant_with(w, flags[i]);
		see(w, 0, NULL, 0, 0); /* nothing is held, so a look decides */
		assert_int_equal(l->stage, LEASE_GRANTED);

		assert_int_equal(w->d->ledger.n_preemptible, (flags[i] & LEASE_PREEMPTIBLE) != 0);
		see(w, 40 * GIBS, pids, 1, 0);
		assert_int_equal(l->stage, LEASE_USED);
		assert_false(l->taken);
		/* Memory is its own business: it may be the task's. */
		see(w, 60 * GIBS, pids, 1, 0);
		assert_false(l->taken);
		see(w, 60 * GIBS, pids, 2, 0);
		assert_int_equal(l->taken, tells);
		assert_int_equal(w->d->said.who_pid, 1);
		/* Told once; an agent that comes then may not know. */
		l->due = 0;
		see(w, 60 * GIBS, pids, 2, 0);
		assert_int_equal(l->due & DUE_TAKEN, 0);
		lease_tell_all(w->g, &w->g->clients[0]);
		see(w, 60 * GIBS, pids, 2, 0);
		assert_int_equal(l->taken, tells);
		/* What is over cannot be preempted any more. */
		lease_tell_all(w->g, &w->g->clients[0]);
		unlease(w);
		see(w, 60 * GIBS, pids, 2, 0);
		assert_int_equal(w->d->ledger.n_over, 1);
		assert_false(l->taken);
		see(w, 0, NULL, 0, 0);
		assert_int_equal(w->d->ledger.n_leases, 0);
		assert_int_equal(w->d->hold.lock_fd, -1); /* another user's may have it now */
	}
}

/* NVML is lost: the hold goes, the lease stays, and the task has the device when it is back. */
static void test_blind_with_a_lease(void **state)
{
	struct world *w = *state;

	hold(w);
	(void)grant(w);
	w->d->sample.code = -EIO;
	look_on_sample(w->g, w->d);
	assert_int_equal(told(w), HOLDER_RELEASE);
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->ledger.n_leases, 1);
	see_holder(w, GIBS / 2);
	assert_int_equal(w->d->state, DEV_LENT);
}

/* Of a card that is gone for good nothing will ever be listed: its task must not wait for that. */
static void test_lost_with_a_lease(void **state)
{
	struct world *w = *state;
	uint64_t now = clock_mono_ns();

	hold(w);
	(void)grant(w);
	see_with(w, 72 * GIBS, getpid());
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->state, DEV_LENT);
	unlease(w);
	w->d->sample.code = -ENODEV;
	look_on_sample(w->g, w->d);
	look_on_time(w->g, w->d, now);
	assert_int_equal(w->d->ledger.n_over, 1);
	/* Back in time: a look says who is there. */
	see_with(w, 40 * GIBS, getpid());
	look_on_time(w->g, w->d, now += NS_PER_S);
	w->d->sample.code = -ENODEV;
	look_on_sample(w->g, w->d);
	look_on_time(w->g, w->d, now += NS_PER_S);
	look_on_time(w->g, w->d, now += 3 * NS_PER_S / 2);
	assert_int_equal(w->d->ledger.n_over, 1);
	look_on_time(w->g, w->d, now += NS_PER_S);
	assert_int_equal(w->d->ledger.n_leases, 0);
	assert_int_equal(w->d->state, DEV_BUSY);
	assert_non_null(strstr(sentence(&w->d->said.reason), "cannot be seen"));
}

/* A card that answers with errors and nothing else: the task's end waits while one of its processes
 * may still be on it, and not for ever. */
static void test_failing_with_a_lease(void **state)
{
	struct world *w = *state;
	uint64_t now = clock_mono_ns();
	pid_t child;

	w->g->clients[0].policy.hold = 0;
	w->d->hold.check = true;
	see(w, 0, NULL, 0, 0);
	(void)grant_with(w, 0);
	see(w, 0, NULL, 0, 0);
	child = fork();
	if (child == 0) {
		for (;;)
			(void)pause();
	}
	see(w, 40 * GIBS, &child, 1, 0);
	assert_int_equal(w->d->state, DEV_LENT);
	unlease(w);
	w->d->sample.code = -EIO;
	look_on_sample(w->g, w->d);
	look_on_time(w->g, w->d, now + 60 * NS_PER_S);
	assert_int_equal(w->d->ledger.n_over, 1);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	look_on_time(w->g, w->d, now + 29 * NS_PER_S);
	assert_int_equal(w->d->ledger.n_over, 1);
	look_on_time(w->g, w->d, now + 32 * NS_PER_S);
	assert_int_equal(w->d->ledger.n_leases, 0);
	assert_int_equal(w->d->state, DEV_BUSY);
	assert_non_null(strstr(sentence(&w->d->said.reason), "cannot be seen"));
}

/* What runs on, or was not told to be over, keeps its lease whatever is seen. */
static void test_lost_beside_a_task(void **state)
{
	struct world *w = *state;
	struct lease *l;

	hold(w);
	l = grant(w);
	see_with(w, 72 * GIBS, getpid());
	says(w, HOLDER_FREED, 70 * GIBS);
	w->d->sample.code = -ENODEV;
	look_on_sample(w->g, w->d);
	look_on_time(w->g, w->d, clock_mono_ns());
	look_on_time(w->g, w->d, clock_mono_ns() + 60 * NS_PER_S);
	assert_int_equal(l->stage, LEASE_USED);
	assert_int_equal(w->d->state, DEV_LENT);
}

/* A look that fails is an answer as well, and so is a card that nobody looks at any more. */
static void test_grant_of_what_cannot_be_seen(void **state)
{
	struct world *w = *state;
	struct lease *l;

	w->g->clients[0].policy.hold = 0;
	w->d->hold.check = true;
	see(w, 0, NULL, 0, 0);
	l = grant_with(w, 0);
	assert_int_equal(l->stage, LEASE_ASKED);
	w->d->sample.code = -ENODEV;
	look_on_sample(w->g, w->d);
	assert_int_equal(l->stage, LEASE_PROMISED);
	assert_true(l->due & DUE_GRANTED && l->code < 0);
	assert_non_null(strstr(sentence(&l->reason), "cannot be seen"));
	l->due = 0;
	(void)grant_with(w, 0);
	assert_int_equal(l->stage, LEASE_PROMISED);
	assert_true(l->due & DUE_GRANTED && l->code < 0);
	l->due = 0;
	w->d->sample.code = 0;
	w->d->present = false;
	(void)grant_with(w, 0);
	assert_true(l->due & DUE_GRANTED && l->code == -ENODEV);
}

/* Ctrl-Z takes back what was promised, and a GRANT that waits for its look is answered: nobody asks
 * a second time. */
static void test_drop_while_a_grant_is_asked(void **state)
{
	struct world *w = *state;
	struct msg_plain drop = { .head = PROTO_HEAD(MSG_DROP, struct msg_plain) };
	struct client *c = &w->g->clients[0];
	struct msg_lease_reply m;
	int pair[2];

	w->g->clients[0].policy.hold = 0;
	w->d->hold.check = true;
	see(w, 0, NULL, 0, 0);
	assert_int_equal(grant_with(w, 0)->stage, LEASE_ASKED);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	c->fd = pair[0];
	assert_int_equal(sock_send(pair[1], &drop, sizeof(drop)), 0);
	client_on_readable(w->g, c);
	assert_int_equal(w->d->ledger.n_leases, 0);
	assert_int_equal(sock_recv(pair[1], &m, sizeof(m)), sizeof(m));
	assert_int_equal(m.head.type, MSG_GRANTED);
	assert_int_equal(m.code, -ENOENT);
	assert_int_equal(m.id.task, 1);
	assert_int_equal(sock_recv(pair[1], &m, sizeof(m)), -EAGAIN);
	c->fd = fd_close(c->fd);
	(void)close(pair[1]);
}

/* What an agent asks is not read before there is room for the answer. */
static void test_agent_that_does_not_read(void **state)
{
	struct world *w = *state;
	struct client *c = &w->g->clients[0];
	struct msg_lease m = { .head = PROTO_HEAD(MSG_LEASE, struct msg_lease),
			       .id = { .task = 1, .attempt = 1 } };
	union {
		struct msg_head head;
		struct msg_lease_reply reply;
		char room[PROTO_MSG_MAX];
	} got;
	int pair[2];

	(void)str_copy(m.uuid, sizeof(m.uuid), w->d->id.uuid);
	hold(w);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	c->fd = pair[0];
	while (sock_send(c->fd, &m, sizeof(m)) == 0)
		;
	assert_int_equal(sock_send(pair[1], &m, sizeof(m)), 0);
	client_on_readable(w->g, c);
	assert_int_equal(w->d->ledger.n_leases, 0);
	assert_true(c->full);
	while (sock_recv(pair[1], &got, sizeof(got)) > 0)
		;
	client_on_readable(w->g, c);
	assert_false(c->full);
	assert_int_equal(w->d->ledger.n_leases, 1);
	assert_int_equal(sock_recv(pair[1], &got, sizeof(got)), sizeof(got.reply));
	assert_int_equal(got.head.type, MSG_LEASE_REPLY);
	assert_int_equal(got.reply.code, 0);
	/* Its last words are read all the same. */
	while (sock_send(c->fd, &m, sizeof(m)) == 0)
		;
	(void)close(pair[1]);
	client_on_readable(w->g, c);
	assert_int_equal(c->fd, -1);
}

/* It was stopped, so it could not be told that its task is gone; then it was killed. What is left
 * of the task stands in nobody's way. */
static void test_end_that_a_dead_agent_was_not_told(void **state)
{
	struct world *w = *state;
	struct client *c = &w->g->clients[0];
	struct msg_lease m = { .head = PROTO_HEAD(MSG_LEASE, struct msg_lease) };
	int pair[2], far = connect_agent(c, pair);

	w->g->clients[0].policy.hold = 0;
	w->d->hold.check = true;
	see(w, 0, NULL, 0, 0);
	(void)grant_with(w, 0);
	see(w, 0, NULL, 0, 0);
	while (sock_send(c->fd, &m, sizeof(m)) == 0)
		;
	unlease(w);
	see(w, 0, NULL, 0, 0);
	assert_int_equal(w->d->ledger.n_over, 1);
	(void)close(far);
	client_on_readable(w->g, c);
	assert_int_equal(c->fd, -1);
	assert_int_equal(w->d->ledger.n_leases, 0);
}

/* A guard that comes after another is told of a task that runs, and is not listed at that moment.
 * Who is there by then came beside it, and has nothing to claim. */
static void test_newcomer_beside_a_task_that_runs_already(void **state)
{
	struct world *w = *state;
	struct msg_lease m = { .head = PROTO_HEAD(MSG_LEASE, struct msg_lease),
			       .id = { .task = 1, .attempt = 1 } };
	pid_t other = 1;
	struct proc_id self;

	w->g->clients[0].policy.hold = 0;
	w->d->hold.check = true;
	see(w, 0, NULL, 0, 0);
	assert_int_equal(proc_identify(getpid(), &self), 0);
	m.pid = self.pid;
	m.start = self.start;
	(void)str_copy(m.uuid, sizeof(m.uuid), w->d->id.uuid);
	request_lease(w->g, &w->g->clients[0], &m);
	assert_int_equal(w->d->ledger.n_leases, 1);
	see(w, 40 * GIBS, &other, 1, 0);
	assert_int_equal(w->d->said.who_pid, 1);
	assert_false(w->g->leases[0].taken);
}

static void pass(struct world *w, unsigned int seconds)
{
	uint64_t now = clock_mono_ns();

	for (unsigned int i = 1; i <= seconds; i++)
		client_on_time(w->g, &w->g->clients[0], now + i * NS_PER_S);
}

/* What was promised to an agent, or is reserved for it, does not stand in the way of others for as
 * long as it is stopped; of what it believes to have reserved it hears when it goes on. */
static void test_promises_of_an_agent_that_is_stopped(void **state)
{
	struct world *w = *state;
	struct client *c = &w->g->clients[0];
	struct msg_reserve r = { .head = PROTO_HEAD(MSG_RESERVE, struct msg_reserve),
				 .id = { .task = 7 } };
	union {
		struct msg_head head;
		struct msg_lease_reply reply;
		char room[PROTO_MSG_MAX];
	} got = { .reply = { .code = 0 } };
	int pair[2], far = connect_agent(c, pair);
	bool refused = false;

	w->g->clients[0].policy.hold = 0;
	w->d->hold.check = true;
	see(w, 0, NULL, 0, 0);
	assert_non_null(promise(w, 0));
	pass(w, 9);
	assert_int_equal(w->d->ledger.n_leases, 1);
	pass(w, 3);
	assert_int_equal(w->d->ledger.n_leases, 0);

	c->silent = false;
	c->silent_ns = 0;
	(void)str_copy(r.uuid, sizeof(r.uuid), w->d->id.uuid);
	request_reserve(w->g, c, &r);
	assert_true(w->g->leases[0].used);
	pass(w, 12);
	assert_false(w->g->leases[0].used);
	while (sock_recv(far, &got, sizeof(got)) > 0)
		refused = refused || (got.head.type == MSG_LEASE_REPLY && got.reply.id.task == 7 &&
				      got.reply.code == -ETIMEDOUT);
	assert_true(refused);
	c->fd = fd_close(c->fd);
	(void)close(far);
}

/* A shim is a PID and a start time; what it starts is the task's, and stays so without it. */
static void test_kin(void **state)
{
	struct world *w = *state;
	struct lease *l;
	pid_t child;

	hold(w);
	l = grant(w);
	child = fork();
	if (child == 0) {
		for (;;)
			(void)pause();
	}
	assert_ptr_equal(descendants_find(w->g, w->d, child), l);
	assert_null(descendants_find(w->g, w->d, 1));
	l->shim.start++;
	assert_null(descendants_find(w->g, w->d, getpid()));
	assert_ptr_equal(descendants_find(w->g, w->d, child), l);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	assert_ptr_equal(descendants_find(w->g, w->d, child), l); /* listed for a moment yet */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_newcomer_beside_a_kept_context),
		TEST(test_events_of_a_task_of_another_instance),
		TEST(test_hand_over),
		TEST(test_use_counts_from_the_hand_over),
		TEST(test_use_where_nothing_was_held),
		TEST(test_use_of_the_unlisted_counts_from_the_hand_over),
		TEST(test_last_use_is_told_before_the_end),
		TEST(test_chain_of_tasks),
		TEST(test_end_of_a_chain),
		TEST(test_chain_whose_next_task_waits_for_others),
		TEST(test_reservation_after_an_old_look),
		TEST(test_memory_while_a_task_is_awaited),
		TEST(test_foreign_wins_over_a_promise),
		TEST(test_foreign_with_the_task),
		TEST(test_foreign_beside_a_preemptible_one),
		TEST(test_blind_with_a_lease),
		TEST(test_lost_with_a_lease),
		TEST(test_failing_with_a_lease),
		TEST(test_lost_beside_a_task),
		TEST(test_grant_of_what_cannot_be_seen),
		TEST(test_drop_while_a_grant_is_asked),
		TEST(test_agent_that_does_not_read),
		TEST(test_end_that_a_dead_agent_was_not_told),
		TEST(test_newcomer_beside_a_task_that_runs_already),
		TEST(test_promises_of_an_agent_that_is_stopped),
		TEST(test_kin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
