/* SPDX-License-Identifier: MIT */

/* Events and devices in one line for people, and events for programs. */

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "agent/report/sentence.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "hold/device_state.h"
#include "hold/policy.h"

#define GIBS (1ULL << 30)
#define MS   NS_PER_MS

/* 1000 is alice; nobody else is known yet. */
static const char *name_of(void *user, uint32_t uid)
{
	return uid == 1000 ? "alice" : NULL;
}

static const struct user_names names = { .name = name_of };

static struct dev_reason because(const char *text)
{
	struct dev_reason r = { .code = DEV_REASON_TEXT, .uid = DEV_REASON_NO_UID };

	(void)str_copy(r.text, sizeof(r.text), text);
	return r;
}

static void expect_event(const struct guard_event *ev, int32_t mig, const char *expect)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	struct hold_policy p;

	policy_defaults(&p);
	p.load = LOAD_LIGHT;
	p.util = 75;
	sentence_event(ev, mig, &p, &names, &b);
	assert_string_equal(strbuf_str(&b), expect);
}

/* ---- events ---- */

static void an_event_is_about_a_device_or_none(void **state)
{
	struct guard_event ev = {
		.kind = EVENT_NOTE, .slot = -1, .index = 3, .reason = because("NVML is there")
	};

	expect_event(&ev, -1, "NVML is there");
	ev.slot = 0;
	expect_event(&ev, -1, "gpu 3  NVML is there");
	expect_event(&ev, 1, "gpu 3/1  NVML is there");
	expect_event(&ev, 0, "gpu 3/0  NVML is there");
	/* Without a sentence, and of a later version. */
	ev.reason = because("");
	ev.kind = EVENT_BACK;
	expect_event(&ev, -1, "gpu 3  back");
	ev.kind = EVENT_KIND_MAX;
	expect_event(&ev, -1, "gpu 3  ?");
}

static void a_hold_is_told_with_its_time(void **state)
{
	struct guard_event ev = { .kind = EVENT_HELD,
				  .index = 2,
				  .bytes = 117 * GIBS + 300 * (GIBS >> 10),
				  .took_ns = 456 * MS };

	expect_event(&ev, -1, "gpu 2  held 117.3 GiB in 0.46 s (light load, 75 %)");
	/* It was held before. */
	ev.took_ns = 0;
	ev.reason = because("holds 38.0 GiB now");
	expect_event(&ev, -1, "gpu 2  holds 38.0 GiB now");
}

static void a_yield_says_to_whom_and_how_fast(void **state)
{
	static const struct {
		struct guard_event ev;
		const char *line;
	} cases[] = {
		{ { .pid = 42, .uid = 1000, .command = "python", .verdict_to_freed_ns = 12 * MS },
		  "yielded to PID 42 (alice, python): free after 12 ms" },
		{ { .pid = 42, .uid = 7, .verdict_to_freed_ns = 9900000 },
		  "yielded to PID 42 (uid 7): free after 9.9 ms" },
		{ { .pid = 42, .uid = DEV_REASON_NO_UID, .command = "python" },
		  "yielded to PID 42 (python): free after 0.0 ms" },
		{ { .pid = 42, .uid = DEV_REASON_NO_UID }, "yielded to PID 42: free after 0.0 ms" },
		/* Only memory showed. */
		{ { .uid = DEV_REASON_NO_UID,
		    .hint_to_verdict_ns = 3 * MS,
		    .verdict_to_freed_ns = 123 * MS },
		  "yielded to somebody's memory: seen after 3.0 ms, free after 123 ms more" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct guard_event ev = cases[i].ev;
		cleanup_free char *line = xasprintf("gpu 0  %s", cases[i].line);

		ev.kind = EVENT_YIELD;
		expect_event(&ev, -1, line);
	}
}

/* Where nothing was held there was nothing to wait for. */
static void a_lease_is_told_with_its_times_where_there_was_a_hold(void **state)
{
	struct guard_event ev = { .kind = EVENT_LENT,
				  .reason = because("lent to task 42"),
				  .verdict_to_freed_ns = 20 * MS };

	expect_event(&ev, -1, "gpu 0  lent to task 42");
	ev.bytes = GIBS;
	expect_event(&ev, -1, "gpu 0  lent to task 42: free after 20 ms");
}

static void some_events_are_no_news(void **state)
{
	for (uint32_t kind = 0; kind < EVENT_KIND_MAX; kind++)
		assert_int_equal(sentence_is_news(kind), kind != EVENT_START &&
								 kind != EVENT_GONE &&
								 kind != EVENT_RETURNED);
	/* What a later version tells is rather shown than not. */
	assert_true(sentence_is_news(EVENT_KIND_MAX));
}

/* ---- devices ---- */

static void expect_device(const struct dev_status *d, const char *expect)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	sentence_device(d, "alpha", 100 * NS_PER_S, &names, &b);
	assert_string_equal(strbuf_str(&b), expect);
}

static void a_device_says_what_it_is_and_why(void **state)
{
	struct dev_status d = { .index = 1,
				.mig = -1,
				.state = DEV_BUSY,
				.reason = because("compute mode PROHIBITED") };

	expect_device(&d, "gpu 1  busy: compute mode PROHIBITED");
	d.mig = 2;
	d.reason = because("");
	d.state = DEV_HELD;
	d.held_bytes = GIBS * 3 / 2;
	expect_device(&d, "gpu 1/2  held 1.5 GiB");
	(void)str_copy(d.instance, sizeof(d.instance), "alpha");
	expect_device(&d, "gpu 1/2  held 1.5 GiB");
	/* How much is another instance's business. */
	(void)str_copy(d.instance, sizeof(d.instance), "beta");
	expect_device(&d, "gpu 1/2  not ours: held for instance beta");
}

static void a_device_says_when_it_will_be_held(void **state)
{
	struct dev_status d = { .mig = -1, .state = DEV_IDLE, .instance = "alpha" };

	d.hold_at_ns = 142 * NS_PER_S;
	expect_device(&d, "gpu 0  idle: to be held in 42s");
	d.reason = because("nobody is there");
	expect_device(&d, "gpu 0  idle: nobody is there; to be held in 42s");
	(void)str_copy(d.instance, sizeof(d.instance), "beta");
	expect_device(&d, "gpu 0  idle: nobody is there; to be held for beta in 42s");
	/* That has passed. */
	d.hold_at_ns = 100 * NS_PER_S;
	expect_device(&d, "gpu 0  idle: nobody is there");
}

/* ---- for programs ---- */

static json_t *json_of(const struct guard_event *ev, int32_t mig)
{
	return sentence_event_json(ev, mig, 4711, &names, "the line");
}

static const char *text(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static void an_event_has_what_is_known_of_it(void **state)
{
	struct guard_event ev = { .kind = EVENT_HELD,
				  .seq = 17,
				  .slot = 1,
				  .index = 2,
				  .state = DEV_HELD,
				  .uuid = "GPU-1a2b",
				  .instance = "alpha",
				  .bytes = GIBS,
				  .took_ns = 1500 * 1000,
				  .uid = DEV_REASON_NO_UID };
	json_t *o = json_of(&ev, -1);

	assert_string_equal(text(o, "event"), "held");
	assert_string_equal(text(o, "state"), "held");
	assert_string_equal(text(o, "uuid"), "GPU-1a2b");
	assert_string_equal(text(o, "instance"), "alpha");
	assert_string_equal(text(o, "text"), "the line");
	assert_int_equal(json_integer_value(json_object_get(o, "seq")), 17);
	assert_int_equal(json_integer_value(json_object_get(o, "guard")), 4711);
	assert_int_equal(json_integer_value(json_object_get(o, "gpu")), 2);
	assert_int_equal(json_integer_value(json_object_get(o, "bytes")), GIBS);
	assert_true(json_real_value(json_object_get(o, "took_ms")) == 1.5);
	assert_null(json_object_get(o, "mig"));
	assert_null(json_object_get(o, "pid"));
	assert_null(json_object_get(o, "task"));
	assert_null(json_object_get(o, "user"));
	json_decref(o);
	/* One of the whole node. */
	ev.slot = -1;
	o = json_of(&ev, 3);
	assert_null(json_object_get(o, "gpu"));
	assert_null(json_object_get(o, "mig"));
	assert_null(json_object_get(o, "state"));
	json_decref(o);
}

static void a_yield_has_its_times(void **state)
{
	struct guard_event ev = { .kind = EVENT_YIELD,
				  .pid = 42,
				  .uid = 1000,
				  .command = "python",
				  .verdict_to_freed_ns = 2 * MS,
				  .took_ns = MS };
	json_t *o = json_of(&ev, 1);

	assert_int_equal(json_integer_value(json_object_get(o, "pid")), 42);
	assert_int_equal(json_integer_value(json_object_get(o, "mig")), 1);
	assert_string_equal(text(o, "user"), "alice");
	assert_string_equal(text(o, "command"), "python");
	assert_true(json_real_value(json_object_get(o, "verdict_to_freed_ms")) == 2.0);
	assert_null(json_object_get(o, "hint_to_verdict_ms"));
	assert_null(json_object_get(o, "took_ms")); /* of a hold alone */
	json_decref(o);
	/* Nobody is named where only memory showed. */
	ev.pid = 0;
	ev.uid = 7;
	ev.hint_to_verdict_ns = MS;
	o = json_of(&ev, -1);
	assert_true(json_is_null(json_object_get(o, "pid")));
	assert_string_equal(text(o, "user"), "uid 7");
	assert_true(json_real_value(json_object_get(o, "hint_to_verdict_ms")) == 1.0);
	json_decref(o);
}

static void whose_lease_it_was(void **state)
{
	struct guard_event ev = { .kind = EVENT_RETURNED,
				  .lease = { .task = 42, .element = 7 },
				  .took_ns = MS };
	json_t *o = json_of(&ev, -1);

	assert_int_equal(json_integer_value(json_object_get(o, "task")), 42);
	assert_int_equal(json_integer_value(json_object_get(o, "element")), 7);
	assert_non_null(json_object_get(o, "took_ms"));
	assert_null(json_object_get(o, "workload"));
	json_decref(o);
	ev.lease = (struct lease_id){ .task = 42 };
	o = json_of(&ev, -1);
	assert_null(json_object_get(o, "element"));
	json_decref(o);
	ev.lease = (struct lease_id){ .task = LEASE_WORKLOAD, .element = 1 };
	o = json_of(&ev, -1);
	assert_true(json_is_true(json_object_get(o, "workload")));
	assert_null(json_object_get(o, "task"));
	assert_null(json_object_get(o, "element"));
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_is_about_a_device_or_none),
		cmocka_unit_test(a_hold_is_told_with_its_time),
		cmocka_unit_test(a_yield_says_to_whom_and_how_fast),
		cmocka_unit_test(a_lease_is_told_with_its_times_where_there_was_a_hold),
		cmocka_unit_test(some_events_are_no_news),
		cmocka_unit_test(a_device_says_what_it_is_and_why),
		cmocka_unit_test(a_device_says_when_it_will_be_held),
		cmocka_unit_test(an_event_has_what_is_known_of_it),
		cmocka_unit_test(a_yield_has_its_times),
		cmocka_unit_test(whose_lease_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
