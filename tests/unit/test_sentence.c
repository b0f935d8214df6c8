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
		assert_int_equal(sentence_level(kind, NULL) < LOG_LEVEL_DEBUG,
				 kind != EVENT_START && kind != EVENT_GONE &&
					 kind != EVENT_RETURNED);
	/* What a later version tells is rather shown than not. */
	assert_int_equal(sentence_level(OWN_EVENT_MAX, NULL), LOG_LEVEL_INFO);
}

/* ---- the agent's own ---- */

static void own_events_are_told_of_their_members(void **state)
{
	static const struct {
		enum own_event kind;
		enum log_level level;
		const char *members, *line;
	} cases[] = {
		{ OWN_AGENT_STARTED, LOG_LEVEL_DEBUG, "{'pid': 7, 'version': '1.2'}",
		  "the agent has started: PID 7, tenure 1.2" },
		{ OWN_DEADLINE, LOG_LEVEL_WARNING,
		  "{'left_s': 599.3, 'ends': '2026-11-25T18:30:00.123+01:00', 'then': 'it ends'}",
		  "auto-shutdown in 10m 00s, at 2026-11-25 18:30:00: it ends" },
		{ OWN_DEADLINE, LOG_LEVEL_WARNING, "{}", "auto-shutdown in 0s, at : " },
		{ OWN_DRAINING, LOG_LEVEL_INFO, "{'why': 'told', 'running': 0, 'then': 'x'}",
		  "told: nothing more is started or held" },
		{ OWN_DRAINING, LOG_LEVEL_INFO,
		  "{'why': 'told', 'running': 2, 'then': 'is stopped'}",
		  "told: nothing more is started or held; what runs (2 tasks) is stopped" },
		{ OWN_NODE_LOST, LOG_LEVEL_WARNING, "{'agent': 'n7', 'why': 'silence'}",
		  "the agent n7 is gone: silence" },
		{ OWN_TASK_STARTED, LOG_LEVEL_INFO,
		  "{'task': 42, 'element': 7, 'name': 'a', 'gpus': [0, 3], 'attempt': 2}",
		  "task 42.7 (a) has started on GPU 0,3, try 2" },
		{ OWN_TASK_STARTED, LOG_LEVEL_INFO,
		  "{'task': 42, 'name': 'a', 'gpus': [], 'attempt': 1}",
		  "task 42 (a) has started" },
		{ OWN_TASK_ENDED, LOG_LEVEL_INFO, "{'task': 1, 'outcome': 'done', 'why': 'x'}",
		  "task 1 is done" },
		{ OWN_TASK_ENDED, LOG_LEVEL_INFO,
		  "{'task': 1, 'element': 2, 'name': 'a', 'outcome': 'requeued', 'why': 'x'}",
		  "task 1.2 (a) is requeued: x" },
		{ OWN_TASK_ENDED, LOG_LEVEL_WARNING,
		  "{'task': 1, 'outcome': 'failed', 'why': 'exit code 3, try 1 of 1'}",
		  "task 1 has failed: exit code 3, try 1 of 1" },
		{ OWN_TASK_ENDED, LOG_LEVEL_INFO, "{'task': 1, 'outcome': 'stopped'}",
		  "task 1 was stopped" },
		{ OWN_TASK_TROUBLE, LOG_LEVEL_ERROR,
		  "{'task': 1, 'element': 2, 'what': 'end', 'why': 'no room'}",
		  "the end of task 1.2 cannot be recorded: no room; trying again" },
		{ OWN_TASK_TROUBLE, LOG_LEVEL_WARNING,
		  "{'task': 1, 'what': 'log-elsewhere', 'why': 'no room', 'file': '/tmp/x'}",
		  "task 1 has no log: no room; what it prints is in /tmp/x" },
		{ OWN_TASK_TROUBLE, LOG_LEVEL_ERROR, "{'task': 1, 'what': 'new'}", "" },
		{ OWN_STUCK, LOG_LEVEL_WARNING,
		  "{'task': 7, 'element': 2, 'name': 'train', 'gpu': 3, 'for_s': 600.0, "
		  "'utilisation': 100, 'power_w': 118.2, 'power_limit_w': 700.0}",
		  "task 7.2 (train) seems stuck: GPU 3 is at 100 % for 10m 00s, and draws 118 W of "
		  "700, as one that only waits; one of its processes may be gone" },
		{ OWN_SCALED, LOG_LEVEL_INFO,
		  "{'task': 7, 'from': 1, 'to': 2, 'gpu': 3, 'because': 'it is busy'}",
		  "task 7 has 2 GPUs now, and had 1: GPU 3 was added, because it is busy" },
		{ OWN_FREE, LOG_LEVEL_INFO,
		  "{'free': 2, 'nodes': [{'node': 'n7', 'free': 2}], 'gpus': [0, 1]}",
		  "2 GPUs are free: 2 on n7 (GPU 0,1)" },
		{ OWN_QUARANTINE, LOG_LEVEL_INFO, "{'gpu': 1, 'quarantine': 'trusted'}",
		  "GPU 1 is trusted again" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_strbuf struct strbuf b = STRBUF_INIT;
		cleanup_free char *text = xstrdup(cases[i].members);

		for (char *c = text; *c; c++)
			*c = *c == '\'' ? '"' : *c;

		json_t *members = json_loads(text, 0, NULL);

		assert_non_null(members);
		sentence_own(cases[i].kind, members, &b);
		assert_string_equal(strbuf_str(&b), cases[i].line);
		assert_int_equal(sentence_level(cases[i].kind, members), cases[i].level);
		json_decref(members);
	}
}

/* Programs go by the name: each kind has one, and no other has it. */
static void every_kind_has_a_name_of_its_own(void **state)
{
	for (uint32_t i = 0; i < OWN_EVENT_MAX; i++)
		for (uint32_t k = i + 1; k < OWN_EVENT_MAX; k++)
			assert_string_not_equal(sentence_kind(i), sentence_kind(k));
	assert_string_equal(sentence_kind(OWN_EVENT_MAX), "agent");
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
	return sentence_event_json(ev, mig, 4711, &names);
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
		cmocka_unit_test(own_events_are_told_of_their_members),
		cmocka_unit_test(every_kind_has_a_name_of_its_own),
		cmocka_unit_test(a_device_says_what_it_is_and_why),
		cmocka_unit_test(a_device_says_when_it_will_be_held),
		cmocka_unit_test(an_event_has_what_is_known_of_it),
		cmocka_unit_test(a_yield_has_its_times),
		cmocka_unit_test(whose_lease_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
