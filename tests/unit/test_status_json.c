/* SPDX-License-Identifier: MIT */

/* The status: the phase in a sentence, and what is known of each device, as `tenure status --json`
 * prints it. That all members are documented is test_json.py's. */

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "agent/report/status_json.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "hold/device_state.h"

#define GIBS (1ULL << 30)

static uv_loop_t loop;
static struct view *v;
static struct agent_config config;
static struct view_workload workloads[8];
static struct agentlog *agentlog;
static struct eventlog *eventlog;

static const struct node_self self = { .host = "n7.example", .name = "n7" };

static int setup(void **state)
{
	v = xcalloc(1, sizeof(*v));
	config = (struct agent_config){ .instance = "alpha", .dev_dir = "/dev" };
	memset(workloads, 0, sizeof(workloads));
	v->c = &config;
	v->self = &self;
	v->log_path = "/log";
	v->event_path = "/events";
	v->guard_up = true;
	v->guard.flags = GUARD_SEES;
	v->life.phase = LIFE_SERVING;
	policy_defaults(&v->policy);
	config.policy = v->policy;
	if (uv_loop_init(&loop) < 0)
		return -1;
	agentlog = agentlog_new(&loop, &(struct agentlog_config){ .state_dir = "/nowhere",
								  .instance = "alpha",
								  .host = "n7" });
	eventlog =
		eventlog_new(&loop, &(struct eventlog_config){ .view = v, .agentlog = agentlog });
	return 0;
}

static int teardown(void **state)
{
	eventlog_close(eventlog);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(eventlog_free(eventlog), 0);
	assert_int_equal(agentlog_free(agentlog), 0);
	free(v);
	return uv_loop_close(&loop);
}

/* One more device that the guard has spoken of. */
static struct dev_status *add(enum dev_state state)
{
	struct dev_status *d = &v->devices[v->n_slots];

	d->index = v->n_slots;
	d->mig = -1;
	d->state = state;
	v->seen[v->n_slots++] = true;
	v->guard.n_devices = v->n_slots;
	return d;
}

static void hold(struct dev_status *d, uint64_t gib)
{
	d->state = DEV_HELD;
	d->held_bytes = gib * GIBS;
	(void)str_copy(d->instance, sizeof(d->instance), "alpha");
}

static void lease(struct dev_status *d, enum lease_stage stage, uint64_t task)
{
	d->n_leases = 1;
	d->lease_stage = stage;
	d->lease = (struct lease_id){ .task = task, .attempt = 1 };
	(void)str_copy(d->lease_instance, sizeof(d->lease_instance), "alpha");
}

static void expect_sentence(const char *expect)
{
	json_t *o = status_json(v, agentlog, eventlog);

	assert_string_equal(json_string_value(json_object_get(o, "sentence")), expect);
	json_decref(o);
}

/* ---- the phase in a sentence ---- */

static void what_is_held_is_counted(void **state)
{
	expect_sentence("nothing held");
	hold(add(DEV_HELD), 100);
	expect_sentence("1 of 1 GPUs held (100.0 GiB)");
	hold(add(DEV_HELD), 50);
	(void)add(DEV_BUSY);
	(void)add(DEV_BUSY);
	(void)add(DEV_IDLE);
	expect_sentence("2 of 5 GPUs held (150.0 GiB); 1 idle; 2 busy");
	v->devices[0].state = DEV_YIELDING;
	v->devices[0].held_bytes = 0;
	expect_sentence("1 of 5 GPUs held (50.0 GiB); 1 yielding; 1 idle; 2 busy");
}

static void what_tasks_have_is_theirs(void **state)
{
	struct dev_status *d = add(DEV_LENT);

	lease(d, LEASE_USED, 42);
	expect_sentence("nothing held; 1 in use");
	lease(add(DEV_BUSY), LEASE_OVER, 43); /* it was just freed */
	expect_sentence("nothing held; 2 in use");
	hold(add(DEV_HELD), 10);
	expect_sentence("1 of 3 GPUs held (10.0 GiB); 2 in use");
}

/* What is held for a task that waits is told with it, and not as held. */
static void what_is_collected_is_told_apart(void **state)
{
	hold(add(DEV_HELD), 10);
	lease(&v->devices[0], LEASE_PROMISED, 42);
	expect_sentence("1 reserved (10.0 GiB held for its task)");
	hold(add(DEV_HELD), 20);
	lease(&v->devices[1], LEASE_PROMISED, 42);
	expect_sentence("2 reserved (30.0 GiB held for their tasks)");
	hold(add(DEV_HELD), 5);
	expect_sentence("1 of 3 GPUs held (5.0 GiB); 2 reserved (30.0 GiB held for their tasks)");
	lease(add(DEV_IDLE), LEASE_PROMISED, 43);
	expect_sentence("1 of 4 GPUs held (5.0 GiB); 3 reserved (30.0 GiB held for their tasks)");
}

static void what_other_instances_hold_is_told_last(void **state)
{
	hold(add(DEV_HELD), 10);
	(void)str_copy(v->devices[0].instance, sizeof(v->devices[0].instance), "beta");
	(void)add(DEV_IDLE);
	expect_sentence("nothing held; 1 idle; 1 held by other instances");
}

static void other_phases(void **state)
{
	(void)add(DEV_IDLE);
	v->guard.flags = 0;
	expect_sentence("cannot see the GPUs, so nothing is held: NVML has not answered yet");
	(void)str_copy(v->guard.trouble, sizeof(v->guard.trouble), "no driver");
	expect_sentence("cannot see the GPUs, so nothing is held: no driver");
	v->guard_up = false;
	expect_sentence("no guard yet");
	(void)str_copy(v->trouble, sizeof(v->trouble), "the guard: gone");
	expect_sentence("no guard yet: the guard: gone");
	v->guard_up = true;
	v->guard.flags = GUARD_SEES;
	v->policy.hold = 0;
	expect_sentence("watching; told to hold nothing");
	v->life.released = true;
	expect_sentence("nothing is held until there are tasks: the queue is empty");
	v->life.how = DRAIN_WAIT;
	(void)str_copy(v->life.why, sizeof(v->life.why), "draining (tenure off --drain)");
	expect_sentence("draining (tenure off --drain): nothing more is started or held; it ends "
			"when the tasks that run have");
	v->life.phase = LIFE_RELEASING;
	expect_sentence("letting go of everything");
}

/* A device on which the workload runs is lent, as the guard sees it. */
static void a_workload_instead_of_a_hold(void **state)
{
	config.workload = "train";
	v->workloads = workloads;
	for (int i = 0; i < 3; i++)
		workloads[i].state = "off";
	(void)add(DEV_LENT);
	(void)add(DEV_LENT);
	(void)add(DEV_IDLE);
	workloads[0].runs = true;
	expect_sentence("the workload runs on 1 of 3 GPUs; 1 idle; 1 lent");
	workloads[1].runs = true;
	expect_sentence("the workload runs on 2 of 3 GPUs; 1 idle");
}

/* ---- a device ---- */

static json_t *device(struct dev_status *d)
{
	return status_device(v, d, eventlog, 100 * NS_PER_S);
}

static void expect_text(const json_t *o, const char *key, const char *expect)
{
	const json_t *value = json_object_get(o, key);

	assert_non_null(value);
	if (expect)
		assert_string_equal(json_string_value(value), expect);
	else
		assert_true(json_is_null(value));
}

/* Unknown is never 0. */
static void a_figure_that_is_not_known_is_null(void **state)
{
	static const struct {
		const char *key;
		uint32_t known;
	} figures[] = {
		{ "memory_total_bytes", KNOWN_MEM }, { "memory_used_bytes", KNOWN_MEM },
		{ "memory_free_bytes", KNOWN_MEM },  { "utilisation", KNOWN_UTIL },
		{ "power_w", KNOWN_POWER },	     { "power_limit_w", KNOWN_POWER_LIMIT },
		{ "temperature_c", KNOWN_TEMP },     { "processes", KNOWN_PROCS },
	};
	struct dev_status *d = add(DEV_IDLE);

	for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
		json_t *o;

		d->known = figures[i].known;
		o = device(d);
		for (size_t k = 0; k < ARRAY_LEN(figures); k++)
			assert_int_equal(json_is_null(json_object_get(o, figures[k].key)),
					 figures[k].known != figures[i].known);
		json_decref(o);
	}
}

static void times_are_ages(void **state)
{
	struct dev_status *d = add(DEV_IDLE);
	json_t *o = device(d);

	assert_true(json_is_null(json_object_get(o, "for_s")));
	assert_true(json_is_null(json_object_get(o, "hold_in_s")));
	assert_true(json_is_null(json_object_get(o, "age_s")));
	json_decref(o);
	d->since_ns = 40 * NS_PER_S;
	d->looked_ns = 101 * NS_PER_S; /* just now */
	d->hold_at_ns = 142 * NS_PER_S + 500 * NS_PER_MS;
	o = device(d);
	assert_true(json_real_value(json_object_get(o, "for_s")) == 60.0);
	assert_true(json_real_value(json_object_get(o, "age_s")) == 0.0);
	assert_true(json_real_value(json_object_get(o, "hold_in_s")) == 42.5);
	json_decref(o);
	d->hold_at_ns = 99 * NS_PER_S;
	o = device(d);
	assert_true(json_is_null(json_object_get(o, "hold_in_s")));
	json_decref(o);
}

static void whose_a_device_is(void **state)
{
	static const struct {
		enum lease_stage stage;
		enum dev_state state;
		uint64_t task;
		const char *instance, *use;
	} cases[] = {
		{ LEASE_PROMISED, DEV_IDLE, 42, "alpha", "reserved: task 42" },
		{ LEASE_GRANTED, DEV_LENT, 42, "alpha", "in use by task 42" },
		{ LEASE_GRANTED, DEV_HELD, 42, "alpha", "reserved: task 42" },
		{ LEASE_USED, DEV_LENT, 42, "beta", "in use by task 42 of beta" },
		{ LEASE_OVER, DEV_BUSY, 42, "alpha", "just freed by task 42" },
		{ LEASE_USED, DEV_LENT, LEASE_WORKLOAD, "alpha", NULL },
	};
	struct dev_status *d = add(DEV_IDLE);
	json_t *o = device(d);

	expect_text(o, "use", NULL);
	json_decref(o);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		lease(d, cases[i].stage, cases[i].task);
		d->state = cases[i].state;
		(void)str_copy(d->lease_instance, sizeof(d->lease_instance), cases[i].instance);
		o = device(d);
		expect_text(o, "use", cases[i].use);
		expect_text(o, "state", dev_state_name(cases[i].state));
		json_decref(o);
	}
}

static void names_and_neighbours(void **state)
{
	struct dev_status *d = add(DEV_BUSY);
	const json_t *peers;
	json_t *o;

	(void)add(DEV_IDLE);
	(void)add(DEV_IDLE);
	d->peers[0] = 1 << 2 | 1 << 5; /* the second is not known any more */
	d->xid = 79;
	d->reason = (struct dev_reason){ .code = DEV_REASON_TEXT, .uid = DEV_REASON_NO_UID };
	(void)str_copy(d->reason.text, sizeof(d->reason.text), "a display uses it");
	o = device(d);
	expect_text(o, "reason", "a display uses it");
	expect_text(o, "reason_code", "text");
	expect_text(o, "held_for", NULL);
	expect_text(o, "instance", NULL);
	assert_int_equal(json_integer_value(json_object_get(o, "xid")), 79);
	assert_true(json_is_null(json_object_get(o, "mig")));
	assert_true(json_is_null(json_object_get(o, "holder_pid")));
	peers = json_object_get(o, "nvlink");
	assert_int_equal(json_array_size(peers), 1);
	assert_int_equal(json_integer_value(json_array_get(peers, 0)), 2);
	json_decref(o);
	d->mig = 3;
	d->xid = 0;
	d->holder_pid = 77;
	o = device(d);
	assert_int_equal(json_integer_value(json_object_get(o, "mig")), 3);
	assert_int_equal(json_integer_value(json_object_get(o, "holder_pid")), 77);
	assert_true(json_is_null(json_object_get(o, "xid")));
	json_decref(o);
}

/* ---- the workload on a device ---- */

static json_t *first_device(void)
{
	json_t *o = status_json(v, agentlog, eventlog);
	json_t *d = json_incref(json_array_get(json_object_get(o, "devices"), 0));

	json_decref(o);
	return d;
}

static void a_workload_says_when_it_comes(void **state)
{
	const uint64_t now = clock_mono_ns();
	struct dev_status *d = add(DEV_IDLE);
	json_t *o;

	config.workload = "train";
	v->workloads = workloads;
	workloads[0].state = "off";
	o = first_device();
	expect_text(o, "reason", NULL); /* it is not idle for a known time */
	assert_true(json_is_null(json_object_get(json_object_get(o, "workload"), "next_in_s")));
	json_decref(o);
	d->idle_since_ns = now;
	v->policy.idle_for_ms = 600000;
	o = first_device();
	assert_true(str_has_prefix(json_string_value(json_object_get(o, "reason")),
				   "the workload in "));
	json_decref(o);
	/* It ended at once, or could not be started. */
	workloads[0].next_ns = now + 3600 * NS_PER_S;
	(void)str_copy(workloads[0].text, sizeof(workloads[0].text), "exit code 1");
	o = first_device();
	assert_true(str_has_prefix(json_string_value(json_object_get(o, "reason")),
				   "the workload ended at once: exit code 1; again in "));
	json_decref(o);
	workloads[0].refused = true;
	o = first_device();
	assert_true(str_has_prefix(json_string_value(json_object_get(o, "reason")),
				   "the workload cannot start: exit code 1; again in "));
	json_decref(o);
}

static void a_workload_that_runs_is_the_state(void **state)
{
	json_t *o;

	config.workload = "train";
	v->workloads = workloads;
	workloads[0] = (struct view_workload){
		.state = "running", .runs = true, .there = true, .pid = 4711, .starts = 2
	};
	lease(add(DEV_LENT), LEASE_USED, LEASE_WORKLOAD);
	o = first_device();
	expect_text(o, "state", "workload");
	expect_text(o, "reason", "the workload: PID 4711, start 2");
	expect_text(o, "use", NULL);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "workload"), "pid")),
			 4711);
	json_decref(o);
}

/* ---- the rest ---- */

static void devices_that_were_not_seen_are_left_out(void **state)
{
	json_t *o;

	(void)add(DEV_IDLE);
	(void)add(DEV_IDLE);
	v->seen[0] = false;
	o = status_json(v, agentlog, eventlog);
	assert_int_equal(json_array_size(json_object_get(o, "devices")), 1);
	expect_text(o, "instance", "alpha");
	expect_text(o, "host", "n7.example");
	expect_text(o, "phase", "waiting");
	expect_text(o, "log_trouble", NULL);
	json_decref(o);
}

/* The last of them, in their order. */
static void the_last_yields_are_kept(void **state)
{
	const json_t *yields;
	json_t *o;

	for (; v->n_yields < VIEW_YIELDS + 2; v->n_yields++) {
		struct view_yield *y = &v->yields[v->n_yields % VIEW_YIELDS];

		y->event = (struct guard_event){ .kind = EVENT_YIELD,
						 .seq = v->n_yields,
						 .uid = DEV_REASON_NO_UID };
		y->mig = -1;
	}
	o = status_json(v, agentlog, eventlog);
	yields = json_object_get(o, "yields");
	assert_int_equal(json_array_size(yields), VIEW_YIELDS);
	for (size_t i = 0; i < VIEW_YIELDS; i++)
		assert_int_equal(
			json_integer_value(json_object_get(json_array_get(yields, i), "seq")),
			i + 2);
	json_decref(o);
}

static void of_a_guard_that_is_not_there_only_why(void **state)
{
	const json_t *guard;
	json_t *o;

	v->guard_up = false;
	(void)str_copy(v->trouble, sizeof(v->trouble), "nobody answers");
	o = status_json(v, agentlog, eventlog);
	guard = json_object_get(o, "guard");
	assert_true(json_is_false(json_object_get(guard, "connected")));
	expect_text(guard, "trouble", "nobody answers");
	assert_null(json_object_get(guard, "pid"));
	json_decref(o);
	v->guard_up = true;
	v->guard.pid = 12;
	o = status_json(v, agentlog, eventlog);
	guard = json_object_get(o, "guard");
	assert_int_equal(json_integer_value(json_object_get(guard, "pid")), 12);
	assert_true(json_is_true(json_object_get(guard, "sees")));
	expect_text(guard, "trouble", NULL);
	json_decref(o);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_held_is_counted),
		TEST(what_tasks_have_is_theirs),
		TEST(what_is_collected_is_told_apart),
		TEST(what_other_instances_hold_is_told_last),
		TEST(other_phases),
		TEST(a_workload_instead_of_a_hold),
		TEST(a_figure_that_is_not_known_is_null),
		TEST(times_are_ages),
		TEST(whose_a_device_is),
		TEST(names_and_neighbours),
		TEST(a_workload_says_when_it_comes),
		TEST(a_workload_that_runs_is_the_state),
		TEST(devices_that_were_not_seen_are_left_out),
		TEST(the_last_yields_are_kept),
		TEST(of_a_guard_that_is_not_there_only_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
