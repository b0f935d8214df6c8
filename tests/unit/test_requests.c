/* SPDX-License-Identifier: MIT */

/* What agents ask of the guard's ledger, and its answers. Two of them, ME and OTHER, on one device
 * that nobody holds (guard_world.h), or on two. */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sock.h"
#include "base/str.h"
#include "guard_world.h"
#include "hold/guard/assign.h"
#include "hold/guard/lease.h"
#include "hold/guard/ledger.h"
#include "hold/guard/requests.h"

enum { ME, OTHER, CLIENTS };

static int agents[CLIENTS];

static int setup(void **state)
{
	static const char *const names[CLIENTS] = { "me", "other" };
	struct world *w;

	if (world_setup(state) < 0)
		return -1;
	w = *state;
	for (int i = 0; i < CLIENTS; i++) {
		struct client *c = &w->g->clients[i];
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
			return -1;
		*c = (struct client){
			.used = true, .fd = pair[0], .has_policy = true, .asked = (uint64_t)i
		};
		(void)str_copy(c->instance, sizeof(c->instance), names[i]);
		policy_defaults(&c->policy);
		c->policy.hold = 0;
		agents[i] = pair[1];
	}
	/* A second one that is as the first. */
	w->g->devs[1] = *w->d;
	w->g->devs[1].slot = w->g->devs[1].id.index = 1;
	(void)str_print(w->g->devs[1].id.uuid, sizeof(w->d->id.uuid), "GPU-other-%d",
			(int)getpid());
	w->d->hold.check = true;
	see(w, 0, NULL, 0, 0);
	w->g->devs[1].sample = w->d->sample;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < CLIENTS; i++) {
		(void)close(agents[i]);
		(void)fd_close(w->g->clients[i].fd);
	}
	LEASES_EACH(w->g, l)
		if (l != &w->g->leases[0] && l->pidfd > 0)
			(void)close(l->pidfd);
	(void)fd_close(w->g->devs[1].hold.lock_fd);
	return world_teardown(state);
}

/* ---- what is asked ---- */

static struct msg_lease_reply answer(int who, enum msg_type type)
{
	struct msg_lease_reply m;

	assert_int_equal(sock_recv(agents[who], &m, sizeof(m)), sizeof(m));
	assert_int_equal(m.head.type, type);
	return m;
}

static void no_answer(int who)
{
	char room[PROTO_MSG_MAX];

	assert_int_equal(sock_recv(agents[who], room, sizeof(room)), -EAGAIN);
}

static struct msg_lease_reply ask(struct world *w, int who, struct msg_lease m)
{
	if (!m.uuid[0])
		(void)str_copy(m.uuid, sizeof(m.uuid), w->d->id.uuid);
	request_lease(w->g, &w->g->clients[who], &m);
	return answer(who, MSG_LEASE_REPLY);
}

static int lease(struct world *w, int who, uint64_t task, uint32_t flags)
{
	return ask(w, who, (struct msg_lease){ .id = { task, .attempt = 1 }, .flags = flags }).code;
}

static struct msg_lease_reply reserve(struct world *w, int who, uint64_t task, unsigned int slot)
{
	struct msg_reserve m = { .id = { .task = task } };

	(void)str_copy(m.uuid, sizeof(m.uuid), w->g->devs[slot].id.uuid);
	request_reserve(w->g, &w->g->clients[who], &m);
	return answer(who, MSG_LEASE_REPLY);
}

/* Nothing is answered to that. */
static void reserve_no_more(struct world *w, int who)
{
	struct msg_reserve m = { .id = { .task = 0 } };

	(void)str_copy(m.uuid, sizeof(m.uuid), w->d->id.uuid);
	request_reserve(w->g, &w->g->clients[who], &m);
	no_answer(who);
}

static void unlease(struct world *w, int who, uint64_t task)
{
	const struct msg_unlease m = { .id = { task, .attempt = 1 } };

	request_unlease(w->g, &w->g->clients[who], &m);
}

/* This process is the shim. */
static void grant(struct world *w, uint64_t task, pid_t pid, uint64_t start)
{
	const struct msg_grant m = { .id = { task, .attempt = 1 }, .pid = pid, .start = start };

	request_grant(w->g, &w->g->clients[ME], &m);
}

static uint64_t own_start(void)
{
	struct proc_id self;

	assert_int_equal(proc_identify(getpid(), &self), 0);
	return self.start;
}

/* ---- a lease ---- */

static void a_device_that_is_free_is_promised(void **state)
{
	struct world *w = *state;
	const struct msg_lease m = { .id = { 42, .element = 7, .attempt = 2 } };
	struct msg_lease_reply r = ask(w, ME, m);

	assert_int_equal(r.code, 0);
	assert_int_equal(r.slot, 0);
	assert_false(r.held);
	assert_memory_equal(&r.id, &m.id, sizeof(m.id));
	assert_string_equal(sentence(&r.reason), "");
	assert_int_equal(ledger_count(w->g, "me"), 1);
	/* Asked again, it is the same lease. */
	assert_int_equal(ask(w, ME, m).code, 0);
	assert_int_equal(ledger_count(w->g, NULL), 1);
	assert_int_equal(w->d->ledger.n_leases, 1);
}

static void what_is_held_is_said(void **state)
{
	struct world *w = *state;
	struct msg_lease_reply r;

	w->g->clients[ME].policy.hold = 1;
	hold(w);
	r = ask(w, ME, (struct msg_lease){ .id = { 42 } });
	assert_int_equal(r.code, 0);
	assert_true(r.held);
	assert_int_equal(w->d->state, DEV_HELD);
}

static void a_device_that_is_not_there(void **state)
{
	struct world *w = *state;
	struct msg_lease m = { .id = { 42 } };
	struct msg_lease_reply r;

	(void)str_copy(m.uuid, sizeof(m.uuid), "GPU-none");
	r = ask(w, ME, m);
	assert_int_equal(r.code, -ENODEV);
	assert_int_equal(r.slot, -1);
	assert_string_equal(sentence(&r.reason), "there is no device GPU-none");
	/* A name without an end is no name, and is not read behind its room. */
	memset(m.uuid, 'x', sizeof(m.uuid));
	assert_int_equal(ask(w, ME, m).code, -ENODEV);
	w->d->present = false;
	assert_int_equal(lease(w, ME, 42, 0), -ENODEV);
	assert_int_equal(ledger_count(w->g, NULL), 0);
}

static void what_is_no_lease_is_refused(void **state)
{
	static const uint32_t flags[] = { LEASE_RESERVED, LEASE_FLAGS + 1, UINT32_MAX };
	struct world *w = *state;

	assert_int_equal(lease(w, ME, 0, 0), -EINVAL);
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		assert_int_equal(lease(w, ME, 42, flags[i]), -EINVAL);
	assert_int_equal(ledger_count(w->g, NULL), 0);
}

/* No device ever has two leases unless all of them are shared. */
static void one_has_it_or_all_share_it(void **state)
{
	static const struct {
		uint32_t first, second;
		bool both;
	} cases[] = {
		{ 0, 0, false },
		{ LEASE_SHARED, 0, false },
		{ 0, LEASE_SHARED, false },
		{ LEASE_SHARED, LEASE_SHARED, true },
		{ LEASE_SHARED, LEASE_SHARED | LEASE_PREEMPTIBLE, true },
		{ LEASE_OTHERS_OK, LEASE_OTHERS_OK, false },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases) * CLIENTS; i++) {
		int who = (int)(i % CLIENTS); /* one's own is in the way as well */
		struct msg_lease_reply r;

		assert_int_equal(lease(w, ME, 1, cases[i / CLIENTS].first), 0);
		r = ask(w, who,
			(struct msg_lease){ .id = { 2 }, .flags = cases[i / CLIENTS].second });
		assert_int_equal(r.code, cases[i / CLIENTS].both ? 0 : -EBUSY);
		if (r.code)
			assert_string_equal(sentence(&r.reason), "leased to task 1 of me");
		memset(w->g->leases, 0, sizeof(w->g->leases));
		w->d->ledger = (struct device_ledger){ 0 };
	}
}

static void memory_is_promised_once(void **state)
{
	struct world *w = *state;
	struct msg_lease m = { .id = { 1 }, .flags = LEASE_SHARED, .bytes = 50 * GIBS };
	struct msg_lease_reply r;

	assert_int_equal(ask(w, ME, m).code, 0);
	assert_true(ledger_promised(w->g, w->d) == 50 * GIBS);
	m.id.task = 2;
	r = ask(w, OTHER, m);
	assert_int_equal(r.code, -ENOMEM);
	assert_string_equal(sentence(&r.reason),
			    "needs 50.0 GiB; 30.0 GiB are free and not promised");
	m.bytes = 30 * GIBS;
	assert_int_equal(ask(w, OTHER, m).code, 0);
	/* What does not say how much it needs is not asked. */
	m.id.task = 3;
	m.bytes = 0;
	assert_int_equal(ask(w, OTHER, m).code, 0);
}

static void somebody_is_there(void **state)
{
	static const pid_t stranger = 1;
	struct world *w = *state;
	struct msg_lease_reply r;

	see(w, 2 * GIBS, &stranger, 1, 0);
	r = ask(w, ME, (struct msg_lease){ .id = { 42 } });
	assert_int_equal(r.code, -EBUSY);
	assert_true(str_has_prefix(sentence(&r.reason), "taken by PID 1"));
	/* Some tasks do not mind. */
	assert_int_equal(lease(w, ME, 42, LEASE_OTHERS_OK), 0);
}

/* ... but what runs there already is there, whatever is said against it. */
static void policies_and_limits_are_heeded(void **state)
{
	struct world *w = *state;
	struct msg_lease_reply r;

	w->g->clients[ME].policy.max_devices = 1;
	w->g->clients[ME].policy.leave = 1;
	w->g->n_devs = 2;
	w->d->leaver = OTHER;
	r = ask(w, ME, (struct msg_lease){ .id = { 42 } });
	assert_int_equal(r.code, -EPERM);
	assert_string_equal(sentence(&r.reason), "left for others by the policy of other");
	w->d->leaver = -1;
	assert_int_equal(lease(w, ME, 42, LEASE_SHARED), 0);

	struct msg_lease m = { .id = { 43 } };

	(void)str_copy(m.uuid, sizeof(m.uuid), w->g->devs[1].id.uuid);
	r = ask(w, ME, m);
	assert_int_equal(r.code, -EDQUOT);
	assert_string_equal(sentence(&r.reason), "max_devices of me allows 1 GPU at a time");
	m.pid = getpid();
	m.start = own_start();
	assert_int_equal(ask(w, ME, m).code, 0);
	assert_int_equal(ledger_first(w->g, &w->g->devs[1])->stage, LEASE_USED);
}

/* What is said to run has to be a process of ours. */
static void a_shim_that_is_gone_has_no_lease(void **state)
{
	struct world *w = *state;
	const struct {
		pid_t pid;
		uint64_t start;
	} cases[] = { { STRANGE, 1 }, { getpid(), own_start() + 1 }, { -1, 1 } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct msg_lease_reply r =
			ask(w, ME,
			    (struct msg_lease){
				    .id = { 42 }, .pid = cases[i].pid, .start = cases[i].start });

		assert_int_equal(r.code, -ESRCH);
		assert_non_null(strstr(sentence(&r.reason), "is gone"));
		assert_int_equal(ledger_count(w->g, NULL), 0);
		assert_int_equal(w->d->ledger.n_leases, 0);
	}
}

static void a_ledger_may_be_full(void **state)
{
	struct world *w = *state;

	for (uint64_t task = 1; task <= GUARD_LEASES_MAX; task++)
		assert_int_equal(lease(w, ME, task, LEASE_SHARED), 0);
	assert_int_equal(lease(w, ME, GUARD_LEASES_MAX + 1, LEASE_SHARED), -ENOSPC);
	assert_int_equal(ledger_count(w->g, NULL), GUARD_LEASES_MAX);
	assert_int_equal(w->d->ledger.n_leases, GUARD_LEASES_MAX);
}

static void the_same_task_while_its_last_try_ends(void **state)
{
	struct world *w = *state;

	assert_int_equal(lease(w, ME, 42, 0), 0);
	w->g->leases[0].stage = LEASE_OVER;
	assert_int_equal(lease(w, ME, 42, 0), -EBUSY);
}

/* ---- a reservation ---- */

static void what_is_reserved_is_for_one_instance(void **state)
{
	struct world *w = *state;
	struct msg_lease_reply r = reserve(w, ME, 42, 0);

	assert_int_equal(r.code, 0);
	assert_int_equal(w->d->ledger.n_leases, 1);
	r = ask(w, OTHER, (struct msg_lease){ .id = { 7 }, .flags = LEASE_SHARED });
	assert_int_equal(r.code, -EBUSY);
	assert_string_equal(sentence(&r.reason), "reserved for task 42 of me");
	/* Any task of its own takes it over. */
	assert_int_equal(lease(w, ME, 43, 0), 0);
	assert_int_equal(w->d->ledger.n_leases, 1);
	assert_int_equal(ledger_first(w->g, w->d)->id.task, 43);
}

static void a_reservation_passes_to_another_task(void **state)
{
	struct world *w = *state;

	assert_int_equal(reserve(w, ME, 42, 0).code, 0);
	assert_int_equal(reserve(w, ME, 43, 0).code, 0);
	assert_int_equal(w->d->ledger.n_leases, 1);
	assert_int_equal(w->g->leases[0].id.task, 43);
	reserve_no_more(w, OTHER); /* that is not its own */
	assert_int_equal(w->d->ledger.n_leases, 1);
	reserve_no_more(w, ME);
	assert_int_equal(w->d->ledger.n_leases, 0);
	reserve_no_more(w, ME);
}

static void what_is_no_reservation_is_refused(void **state)
{
	struct world *w = *state;
	struct msg_reserve m = { .id = { .task = 42, .attempt = 1 } };

	(void)str_copy(m.uuid, sizeof(m.uuid), w->d->id.uuid);
	request_reserve(w->g, &w->g->clients[ME], &m);
	assert_int_equal(answer(ME, MSG_LEASE_REPLY).code, -EINVAL);
	m.id.attempt = 0;
	memset(m.uuid, 'x', sizeof(m.uuid));
	request_reserve(w->g, &w->g->clients[ME], &m);
	assert_int_equal(answer(ME, MSG_LEASE_REPLY).code, -ENODEV);
	assert_int_equal(lease(w, OTHER, 1, LEASE_SHARED), 0);
	assert_int_equal(reserve(w, ME, 42, 0).code, -EBUSY);
	assert_int_equal(w->d->ledger.n_leases, 1);
}

/* Two that each collect what the other waits for would wait for ever. */
static void who_collects_first_goes_on_alone(void **state)
{
	struct world *w = *state;
	struct msg_lease_reply r;

	w->g->n_devs = 2;
	assert_int_equal(reserve(w, ME, 42, 0).code, 0);
	r = reserve(w, OTHER, 7, 1);
	assert_int_equal(r.code, -EBUSY);
	assert_string_equal(sentence(&r.reason),
			    "GPUs are collected for task 42 of me, which came first");
	/* It collects on, and a device that it cannot want is none of that. */
	assert_int_equal(reserve(w, ME, 42, 1).code, 0);
	w->g->leases[1] = (struct lease){ .pidfd = -1 };
	w->g->devs[1].ledger = (struct device_ledger){ 0 };
	w->g->clients[ME].policy.all = false;
	w->g->clients[ME].policy.n_gpus = 1;
	(void)str_copy(w->g->clients[ME].policy.gpus[0], POLICY_GPU_TEXT, "0");
	assert_int_equal(reserve(w, OTHER, 7, 1).code, 0);
}

/* ---- a grant ---- */

static void a_grant_needs_a_lease_and_a_shim(void **state)
{
	struct world *w = *state;
	struct msg_lease_reply r;

	grant(w, 42, getpid(), own_start());
	r = answer(ME, MSG_GRANTED);
	assert_int_equal(r.code, -ENOENT);
	assert_string_equal(sentence(&r.reason), "it has no lease");
	assert_int_equal(reserve(w, ME, 42, 0).code, 0);
	grant(w, 42, getpid(), own_start());
	assert_int_equal(answer(ME, MSG_GRANTED).code, -ENOENT); /* that is none */
	assert_int_equal(lease(w, ME, 42, 0), 0);
	grant(w, 42, STRANGE, 1);
	assert_int_equal(answer(ME, MSG_GRANTED).code, -ESRCH);
	assert_int_equal(ledger_first(w->g, w->d)->stage, LEASE_PROMISED);
}

static void a_grant_is_for_one_shim(void **state)
{
	struct world *w = *state;
	const struct lease *l;
	struct proc_id parent;

	assert_int_equal(lease(w, ME, 42, 0), 0);
	grant(w, 42, getpid(), own_start());
	l = ledger_first(w->g, w->d);
	assert_int_equal(l->stage, LEASE_ASKED); /* a look decides */
	assert_int_equal(l->shim.pid, getpid());
	no_answer(ME);
	grant(w, 42, getpid(), own_start());
	assert_int_equal(ledger_first(w->g, w->d)->stage, LEASE_ASKED);
	assert_int_equal(proc_identify(getppid(), &parent), 0);
	grant(w, 42, parent.pid, parent.start);
	assert_int_equal(answer(ME, MSG_GRANTED).code, -EEXIST);
}

/* ---- one more, and one back ---- */

static void look_again(struct world *w, struct device *d)
{
	d->sample.look.begin_ns = clock_mono_ns();
	d->sample.look.end_ns = d->sample.look.begin_ns;
	lease_on_sample(w->g, d, SEEN_CLEAR);
}

static int lease_on(struct world *w, unsigned int slot, uint64_t task)
{
	struct msg_lease m = { .id = { task, .attempt = 1 } };

	(void)str_copy(m.uuid, sizeof(m.uuid), w->g->devs[slot].id.uuid);
	return ask(w, ME, m).code;
}

static void unlease_one(struct world *w, uint64_t task, const char *uuid)
{
	struct msg_unlease m = { .id = { task, .attempt = 1 } };

	(void)str_copy(m.uuid, sizeof(m.uuid), uuid);
	request_unlease(w->g, &w->g->clients[ME], &m);
}

static struct msg_unleased gone(void)
{
	struct msg_unleased m;

	assert_int_equal(sock_recv(agents[ME], &m, sizeof(m)), sizeof(m));
	assert_int_equal(m.head.type, MSG_UNLEASED);
	return m;
}

static void a_task_that_runs_gets_one_more(void **state)
{
	struct world *w = *state;
	struct device *first = w->d, *second = &w->g->devs[1];

	w->g->n_devs = 2;
	assert_int_equal(lease(w, ME, 42, 0), 0);
	grant(w, 42, getpid(), own_start());
	look_again(w, first);
	lease_tell(w->g, &w->g->clients[ME]);
	assert_int_equal(answer(ME, MSG_GRANTED).code, 0);
	assert_int_equal(ledger_first(w->g, first)->stage, LEASE_GRANTED);
	/* The second: a promise at first, which changes nothing of what runs; then granted alone.
	 */
	assert_int_equal(lease_on(w, 1, 42), 0);
	assert_int_equal(ledger_first(w->g, second)->stage, LEASE_PROMISED);
	grant(w, 42, getpid(), own_start());
	assert_int_equal(ledger_first(w->g, first)->stage, LEASE_GRANTED);
	assert_int_equal(ledger_first(w->g, second)->stage, LEASE_ASKED);
	no_answer(ME);
	look_again(w, second);
	lease_tell(w->g, &w->g->clients[ME]);
	assert_int_equal(answer(ME, MSG_GRANTED).code, 0);
	assert_int_equal(ledger_first(w->g, second)->stage, LEASE_GRANTED);
}

/* What runs keeps its lease where the second is refused. */
static void one_more_is_refused(void **state)
{
	struct world *w = *state;
	struct device *first = w->d, *second = &w->g->devs[1];

	w->g->n_devs = 2;
	assert_int_equal(lease(w, ME, 42, 0), 0);
	grant(w, 42, getpid(), own_start());
	look_again(w, first);
	lease_tell(w->g, &w->g->clients[ME]);
	assert_int_equal(answer(ME, MSG_GRANTED).code, 0);
	assert_int_equal(lease_on(w, 1, 42), 0);
	second->seen.xid = 79; /* it fails meanwhile */
	grant(w, 42, getpid(), own_start());
	look_again(w, second);
	lease_tell(w->g, &w->g->clients[ME]);
	assert_int_equal(answer(ME, MSG_GRANTED).code, -EIO);
	assert_int_equal(ledger_first(w->g, first)->stage, LEASE_GRANTED);
	assert_int_equal(ledger_first(w->g, second)->stage, LEASE_PROMISED);
	unlease_one(w, 42, second->id.uuid);
	assert_string_equal(gone().uuid, second->id.uuid);
	assert_int_equal(second->ledger.n_leases, 0);
	assert_int_equal(first->ledger.n_leases, 1);
}

static void one_is_given_back(void **state)
{
	struct world *w = *state;
	struct device *first = w->d, *second = &w->g->devs[1];
	struct msg_unleased m;

	w->g->n_devs = 2;
	assert_int_equal(lease(w, ME, 42, 0), 0);
	assert_int_equal(lease_on(w, 1, 42), 0);
	grant(w, 42, getpid(), own_start());
	look_again(w, first);
	look_again(w, second);
	lease_tell(w->g, &w->g->clients[ME]);
	assert_int_equal(answer(ME, MSG_GRANTED).code, 0);
	unlease_one(w, 42, second->id.uuid);
	assert_int_equal(ledger_first(w->g, second)->stage, LEASE_OVER);
	assert_int_equal(ledger_first(w->g, first)->stage, LEASE_GRANTED);
	no_answer(ME); /* before NVML agrees */
	look_again(w, second);
	m = gone();
	assert_string_equal(m.uuid, second->id.uuid);
	assert_int_equal(m.slot, 1);
	assert_int_equal(second->ledger.n_leases, 0);
	assert_int_equal(first->ledger.n_leases, 1);
	/* One that it does not have. */
	unlease_one(w, 42, second->id.uuid);
	m = gone();
	assert_int_equal(m.slot, -1);
	assert_int_equal(first->ledger.n_leases, 1);
	/* The rest with the end. */
	unlease(w, ME, 42);
	look_again(w, first);
	m = gone();
	assert_string_equal(m.uuid, first->id.uuid);
	assert_int_equal(first->ledger.n_leases, 0);
}

/* ---- the end ---- */

static void what_has_no_lease_is_over_already(void **state)
{
	struct world *w = *state;
	struct msg_unleased m;

	unlease(w, ME, 42);
	assert_int_equal(sock_recv(agents[ME], &m, sizeof(m)), sizeof(m));
	assert_int_equal(m.head.type, MSG_UNLEASED);
	assert_int_equal(m.id.task, 42);
	assert_int_equal(m.slot, -1);
	/* Another instance's task of that number is another one. */
	assert_int_equal(lease(w, ME, 42, 0), 0);
	unlease(w, OTHER, 42);
	assert_int_equal(sock_recv(agents[OTHER], &m, sizeof(m)), sizeof(m));
	assert_int_equal(m.slot, -1);
	assert_int_equal(w->d->ledger.n_leases, 1);
	unlease(w, ME, 42);
	assert_int_equal(w->d->ledger.n_leases, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_device_that_is_free_is_promised),
		TEST(what_is_held_is_said),
		TEST(a_device_that_is_not_there),
		TEST(what_is_no_lease_is_refused),
		TEST(one_has_it_or_all_share_it),
		TEST(memory_is_promised_once),
		TEST(somebody_is_there),
		TEST(policies_and_limits_are_heeded),
		TEST(a_shim_that_is_gone_has_no_lease),
		TEST(a_ledger_may_be_full),
		TEST(the_same_task_while_its_last_try_ends),
		TEST(what_is_reserved_is_for_one_instance),
		TEST(a_reservation_passes_to_another_task),
		TEST(what_is_no_reservation_is_refused),
		TEST(who_collects_first_goes_on_alone),
		TEST(a_grant_needs_a_lease_and_a_shim),
		TEST(a_grant_is_for_one_shim),
		TEST(a_task_that_runs_gets_one_more),
		TEST(one_more_is_refused),
		TEST(one_is_given_back),
		TEST(what_has_no_lease_is_over_already),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
