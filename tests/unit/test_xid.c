/* SPDX-License-Identifier: MIT */

/* Error reports of the driver: what they mean, and what the guard does (guard_world.h). */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "gpu/xid.h"
#include "guard_world.h"
#include "hold/guard/device.h"
#include "hold/guard/look.h"
#include "hold/guard/requests.h"
#include "hold/guard/xid.h"

static void test_kinds(void **state)
{
	static const uint32_t trouble[] = {
		48, 62, 64, 74, 79, 92, 94, 95, 119, 120, 140, 144, 150
	};
	static const uint32_t program[] = { 13, 31, 43, 45, 68, 109, 70, 72, 126, 135 };
	static const uint32_t notice[] = { 14, 63, 106, 154 };
	char text[XID_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(trouble); i++)
		assert_int_equal(xid_kind(trouble[i]), XID_TROUBLE);
	for (size_t i = 0; i < ARRAY_LEN(program); i++)
		assert_int_equal(xid_kind(program[i]), XID_PROGRAM);
	for (size_t i = 0; i < ARRAY_LEN(notice); i++)
		assert_int_equal(xid_kind(notice[i]), XID_NOTICE);
	assert_string_equal(xid_text(79, text), "XID 79 (GPU has fallen off the bus)");
	/* One that nobody knows yet points at the device. */
	assert_int_equal(xid_kind(999), XID_TROUBLE);
	assert_string_equal(xid_text(999, text), "XID 999");
	for (uint32_t xid = 0; xid < 300; xid++)
		assert_true(strlen(xid_text(xid, text)) < XID_TEXT_MAX - 20);
}

static void report(struct world *w, int32_t slot, uint32_t xid, uint32_t n)
{
	xid_guard_on_error(w->g, &(struct eyes_error){ .slot = slot, .xid = xid, .n = n });
}

static void test_of_a_program(void **state)
{
	struct world *w = *state;
	uint64_t events;

	hold(w);
	report(w, 0, 31, 7);
	assert_int_equal(told(w), 0);
	assert_int_equal(w->d->state, DEV_HELD);
	assert_int_equal(w->d->seen.xid, 0);
	assert_int_equal(last_event(w)->kind, EVENT_NOTE);
	assert_non_null(strstr(sentence(&last_event(w)->reason),
			       "XID 31 (GPU memory page fault), 7 times: "));
	assert_int_equal(w->d->seen.xids[0].xid, 31);
	assert_int_equal(w->d->seen.xids[0].n, 7);
	/* A program can make thousands. */
	events = w->g->last_event;
	report(w, 0, 31, 900);
	assert_int_equal(w->g->last_event, events);
	/* Nor is each of several that come in turn told each time. */
	for (uint32_t i = 0; i < 8; i++)
		report(w, 0, i % 2 ? 31 : 43, 1);
	assert_int_equal(w->g->last_event, events + 1);
	for (size_t i = 0; i < ARRAY_LEN(w->d->seen.xids_told); i++)
		w->d->seen.xids_told[i].ns -= 61 * NS_PER_S;
	report(w, 0, 31, 1);
	assert_int_equal(w->g->last_event, events + 2);
	/* Of a card that was gone when it was read. */
	report(w, -1, 79, 1);
	assert_int_equal(w->d->seen.xid, 0);
	/* However many there are, the newest are known. */
	for (uint32_t xid = 1000; xid < 1020; xid++) {
		report(w, 0, xid, 1);
		assert_true(w->g->last_event > events);
		events = w->g->last_event;
		report(w, 0, xid, 1);
		assert_int_equal(w->g->last_event, events);
	}
}

static void test_of_the_device(void **state)
{
	struct world *w = *state;

	hold(w);
	report(w, 0, 48, 1);
	assert_int_equal(told(w), HOLDER_RELEASE);
	assert_int_equal(w->d->state, DEV_YIELDING);
	says(w, HOLDER_FREED, 70 * GIBS);
	assert_int_equal(w->d->hold.yields, 0);
	assert_non_null(strstr(sentence(&last_event(w)->reason),
			       "released: XID 48 (double bit ECC error)"));
	for (int i = 0; i < 2; i++) {
		w->d->hold.check = true;
		see_holder(w, GIBS / 2);
		assert_int_equal(w->d->state, DEV_BUSY);
		assert_string_equal(sentence(&w->d->said.reason), "XID 48 (double bit ECC error)");
		assert_int_equal(w->d->seen.room, ROOM_NONE);
	}
	/* That looks fail for a while says nothing; that it was not there does. */
	w->d->sample.code = -EIO;
	look_on_sample(w->g, w->d);
	see(w, 0, NULL, 0, 0);
	assert_int_equal(w->d->seen.xid, 48);
	w->d->sample.code = -ENODEV;
	(void)strcpy(w->d->sample.trouble, "GPU is lost");
	look_on_sample(w->g, w->d);
	assert_string_equal(sentence(&w->d->said.reason),
			    "cannot be seen: GPU is lost; XID 48 (double bit ECC error)");
	see(w, 0, NULL, 0, 0);
	assert_int_equal(w->d->seen.xid, 0);
	assert_string_equal(sentence(&w->d->said.reason), "it was away and is back");
}

/* To a task whose process is the test's own. */
static void lend(struct world *w, struct msg_lease *m)
{
	struct proc_id self;

	assert_int_equal(proc_identify(getpid(), &self), 0);
	see(w, 0, NULL, 0, 0);
	(void)str_copy(m->uuid, sizeof(m->uuid), w->d->id.uuid);
	m->pid = getpid();
	m->start = self.start;
	request_lease(w->g, &w->g->clients[0], m);
}

/* What runs there sees the error itself; nothing comes after it. */
static void test_beside_a_task(void **state)
{
	struct msg_lease m = { .head = PROTO_HEAD(MSG_LEASE, struct msg_lease),
			       .id = { .task = 1, .attempt = 1 } };
	struct msg_unlease end = { .head = PROTO_HEAD(MSG_UNLEASE, struct msg_unlease),
				   .id = { .task = 1, .attempt = 1 } };
	struct world *w = *state;
	pid_t pid = getpid();

	lend(w, &m);
	see(w, GIBS, &pid, 1, 0);
	assert_int_equal(w->d->state, DEV_LENT);
	report(w, 0, 79, 1);
	/* What is told of it now is of one moment, and so is what the next look says. */
	for (int i = 0; i < 2; i++) {
		assert_string_equal(sentence(&w->d->said.reason),
				    "lent to task 1; XID 79 (GPU has fallen off the bus)");
		see(w, GIBS, &pid, 1, 0);
	}
	request_unlease(w->g, &w->g->clients[0], &end);
	see(w, 0, NULL, 0, 0);
	assert_int_equal(w->d->ledger.n_leases, 0);
	assert_int_equal(w->d->state, DEV_BUSY);
	m.pid = 0;
	request_lease(w->g, &w->g->clients[0], &m);
	assert_int_equal(w->d->ledger.n_leases, 0);
	/* Its owner says that it is to be used. */
	xid_guard_forget(w->g, w->d, "tenure was started anew");
	see(w, 0, NULL, 0, 0);
	request_lease(w->g, &w->g->clients[0], &m);
	assert_int_equal(w->d->ledger.n_leases, 1);
}

/* Who else is there is said on, and nothing of the error any more when it counts no more. */
static void test_beside_a_task_and_somebody(void **state)
{
	struct msg_lease m = { .head = PROTO_HEAD(MSG_LEASE, struct msg_lease),
			       .id = { .task = 1, .attempt = 1 } };
	struct world *w = *state;
	pid_t pids[] = { getpid(), STRANGE };

	lend(w, &m);
	see(w, 2 * GIBS, pids, 2, 0);
	assert_string_equal(sentence(&w->d->said.reason), "lent to task 1; beside it PID 4100000");
	report(w, 0, 48, 1);
	assert_string_equal(sentence(&w->d->said.reason),
			    "lent to task 1; beside it PID 4100000; XID 48 (double bit ECC error)");
	xid_guard_forget(w->g, w->d, "tenure was started anew");
	assert_string_equal(sentence(&w->d->said.reason), "lent to task 1; beside it PID 4100000");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		TEST(test_of_a_program),
		TEST(test_of_the_device),
		TEST(test_beside_a_task),
		TEST(test_beside_a_task_and_somebody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
