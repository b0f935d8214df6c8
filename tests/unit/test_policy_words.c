/* SPDX-License-Identifier: MIT */

/* From settings to what the guard is told, and that in words. */

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/node/policy.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

/* Settings at their defaults, but for what is in these: "key=value", at the last NULL. */
static struct settings *settings_with(const char *const *words)
{
	static const struct setting_origin origin = { .layer = SETTING_FROM_COMMAND_LINE };
	struct settings *s = settings_new();

	for (; *words; words++) {
		const char *eq = strchr(*words, '=');
		cleanup_free char *key = xasprintf("%.*s", (int)(eq - *words), *words);
		enum setting_id id = 0;
		struct err e = ERR_INIT;

		while (id < SET_MAX && strcmp(setting_row(id)->key, key) != 0)
			id++;
		assert_true(id < SET_MAX);
		if (settings_set(s, id, eq + 1, &origin, &e) < 0)
			fail_msg("%s: %s", *words, e.text);
	}
	return s;
}

/* Of the policy that they make. */
static struct hold_policy policy_with(const char *const *words)
{
	struct settings *s = settings_with(words);
	struct hold_policy p;
	struct err e = ERR_INIT;

	if (policy_from_settings(s, true, &p, &e) < 0)
		fail_msg("%s", e.text);
	(void)settings_free(s);
	return p;
}

#define WITH(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define DEFAULTS  ((const char *const[]){ NULL })

/* ---- from settings ---- */

static void settings_and_policy_have_the_same_defaults(void **state)
{
	struct hold_policy p = policy_with(DEFAULTS), d;

	policy_defaults(&d);
	assert_memory_equal(&p, &d, sizeof(p));
}

static void every_setting_arrives(void **state)
{
	const struct hold_policy p =
		policy_with(WITH("memory=38G", "gpus=0,GPU-1a2b3c", "leave=1", "max_devices=3",
				 "idle_below=2G", "idle_for=10m", "refresh=5s", "together=yes",
				 "work=30s", "rest=1m", "load=gemm", "rehold_after=7m"));

	assert_true(p.hold && !p.all && p.together && !p.my_cgroup);
	assert_int_equal(p.memory.kind, MEM_BYTES);
	assert_true(p.memory.bytes == 38ULL << 30);
	assert_int_equal(p.n_gpus, 2);
	assert_string_equal(p.gpus[0], "0");
	assert_string_equal(p.gpus[1], "GPU-1a2b3c");
	assert_int_equal(p.leave, 1);
	assert_int_equal(p.max_devices, 3);
	assert_int_equal(p.site_devices, 0);
	assert_true(p.idle_below_bytes == 2ULL << 30);
	assert_int_equal(p.idle_for_ms, 600000);
	assert_int_equal(p.refresh_ms, 5000);
	assert_int_equal(p.work_ms, 30000);
	assert_int_equal(p.rest_ms, 60000);
	assert_int_equal(p.rehold_ms, 420000);
	assert_string_equal(load_kind_name(p.load), "gemm");
}

static void memory_may_be_a_share_or_all_but_some(void **state)
{
	struct hold_policy p = policy_with(WITH("memory=50%"));

	assert_int_equal(p.memory.kind, MEM_PERMILLE);
	assert_int_equal(p.memory.permille, 500);
	p = policy_with(WITH("memory=all-2G"));
	assert_int_equal(p.memory.kind, MEM_ALL_BUT);
	assert_true(p.memory.bytes == 2ULL << 30);
}

/* Either of them 0 says: no cycle. */
static void a_cycle_has_two_parts(void **state)
{
	static const char *const halves[][2] = { { "work=0", "rest=1m" }, { "work=1m", "rest=0" } };

	for (size_t i = 0; i < ARRAY_LEN(halves); i++) {
		const struct hold_policy p = policy_with(WITH(halves[i][0], halves[i][1]));

		assert_int_equal(p.work_ms + p.rest_ms, 0);
	}
}

/* A band alone is aimed at in the middle of its upper part. */
static void what_is_aimed_at(void **state)
{
	struct hold_policy p = policy_with(WITH("util_band=20,30,40"));

	assert_int_equal(p.util_low, 20);
	assert_int_equal(p.util, 35);
	assert_int_equal(p.util_high, 40);
	p = policy_with(WITH("util_band=20,30,40", "util=31"));
	assert_int_equal(p.util, 31);
	p = policy_with(WITH("util=60"));
	assert_int_equal(p.util, 60);
	assert_true(p.util_low < 60 && p.util_high >= 60);
}

static void exceptions_are_processes_that_are_there(void **state)
{
	cleanup_free char *mine = xasprintf("ignore_pid=%d", (int)getpid());
	struct hold_policy p = policy_with(WITH(mine));
	struct proc_id id;

	assert_int_equal(p.n_ignore, 1);
	assert_int_equal(p.ignore_pids[0], getpid());
	assert_int_equal(proc_identify(getpid(), &id), 0);
	assert_true(p.ignore_starts[0] == id.start);
}

static void more_devices_than_a_policy_has_room_for(void **state)
{
	cleanup_strbuf struct strbuf word = STRBUF_INIT;
	struct settings *s;
	struct hold_policy p;
	struct err e = ERR_INIT;

	strbuf_adds(&word, "gpus=0");
	for (int i = 1; i <= POLICY_GPUS_MAX; i++)
		strbuf_addf(&word, ",%d", i);
	s = settings_with(WITH(strbuf_str(&word)));
	assert_int_equal(policy_from_settings(s, true, &p, &e), -EINVAL);
	assert_string_equal(e.text, "gpus: 65 devices are named, 64 can be");
	(void)settings_free(s);
}

static void what_cannot_be_a_policy_says_why(void **state)
{
	static const struct {
		const char *word, *says;
		int code;
	} cases[] = {
		{ "ignore_pid=0", "ignore_pid: 0 is not a PID", -EINVAL },
		{ "ignore_pid=4294967296", "ignore_pid: 4294967296 is not a PID", -EINVAL },
		{ "ignore_pid=1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
		  "processes are named", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct settings *s = settings_with(WITH(cases[i].word));
		struct hold_policy p = { .leave = 77 };
		struct err e = ERR_INIT;

		assert_int_equal(policy_from_settings(s, true, &p, &e), cases[i].code);
		if (!strstr(e.text, cases[i].says))
			fail_msg("case %zu: %s", i, e.text);
		assert_int_equal(p.leave, 77); /* as it was */
		(void)settings_free(s);
	}
}

/* ---- in words ---- */

static void expect(const struct hold_policy *p, const struct view *v, const char *part)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	policy_describe(p, v, &b);
	if (!strstr(strbuf_str(&b), part))
		fail_msg("no \"%s\" in: %s", part, strbuf_str(&b));
}

static void a_policy_is_told_in_a_sentence(void **state)
{
	static const struct {
		const char *word, *part;
	} cases[] = {
		{ "memory=38G", "Holding 38.0 GiB on all GPUs, each when it is idle for " },
		{ "memory=50%", "Holding 50% of the free memory of all GPUs" },
		{ "memory=all-2G", "Holding all but 2.0 GiB of the free memory of all GPUs" },
		{ "memory=all-0G", "Holding all free memory of all GPUs" },
		{ "gpus=1", " of GPU 1 when it is idle for " },
		{ "gpus=1,0", " of GPUs 1, 0, each when it is idle" },
		{ "leave=1", " of all GPUs but the last one, each" },
		{ "leave=2", " of all GPUs but the last 2, each" },
		{ "max_devices=3", " of all GPUs, at most 3 at a time, each" },
		{ "together=yes", ", when all of them are idle for " },
		{ "idle_for=0", ", each when it is idle (nobody's process, under 1.0 GiB used)" },
		{ "idle_below=2G", "under 2.0 GiB used" },
		{ "load=none", "; no load. Whoever else starts on one gets it at once." },
		{ "util=60", ", 60 %. Whoever" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct hold_policy p = policy_with(WITH(cases[i].word));

		expect(&p, NULL, cases[i].part);
	}

	const struct hold_policy p = policy_with(WITH("work=30s", "rest=1m"));

	expect(&p, NULL, ", 30s of work and 1m of rest in turn. ");
}

static void who_leaves_all_to_others_holds_nothing(void **state)
{
	struct agent_config c = { .instance = "alpha" };
	cleanup_free struct view *v = xcalloc(1, sizeof(*v));
	const struct hold_policy all = policy_with(WITH("leave=3")),
				 two = policy_with(WITH("gpus=0,1", "leave=99")),
				 one = policy_with(WITH("gpus=1", "leave=1")),
				 some = policy_with(WITH("gpus=0,1", "leave=1"));

	v->c = &c;
	v->n_slots = 3;
	v->seen[0] = v->seen[1] = v->seen[2] = true;
	expect(&all, v, "Nothing is left to hold: of all GPUs the last 3 are for others.");
	expect(&all, NULL, "of all GPUs but the last 3"); /* how many there are is not known yet */
	expect(&two, NULL, "Nothing is left to hold: of GPUs 0, 1 the last 99 are for others.");
	expect(&one, NULL, "Nothing is left to hold: of GPU 1 the last one is for others.");
	expect(&some, NULL, " GPUs 0, 1 but the last one, each");
}

static void who_holds_nothing_watches(void **state)
{
	struct hold_policy p = policy_with(WITH("leave=1"));
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	p.hold = false;
	policy_describe(&p, NULL, &b);
	assert_string_equal(strbuf_str(&b),
			    "Watching all GPUs but the last one and holding nothing.");
}

/* What runs instead of a hold; and the number of a device that is named by its UUID. */
static void a_view_knows_more(void **state)
{
	struct agent_config c = { .instance = "alpha" };
	cleanup_free struct view *v = xcalloc(1, sizeof(*v));
	const struct hold_policy p = policy_with(WITH("gpus=GPU-1a2b,0"));

	v->c = &c;
	v->n_slots = 1;
	v->seen[0] = true;
	v->devices[0].index = 3;
	(void)str_copy(v->devices[0].uuid, sizeof(v->devices[0].uuid), "GPU-1a2b3c");
	expect(&p, v, "of GPUs GPU-1a2b (gpu 3), 0, each");
	expect(&p, NULL, "of GPUs GPU-1a2b, 0, each");
	c.workload = "train --all";
	expect(&p, v, "Running \"train --all\" on GPUs GPU-1a2b (gpu 3), 0, each when it is idle");
	expect(&p, v, "It is ended where somebody else starts, or a task needs the GPU.");
}

static void its_end_has_a_day_if_that_is_not_today(void **state)
{
	cleanup_strbuf struct strbuf none = STRBUF_INIT, now = STRBUF_INIT, later = STRBUF_INIT;
	char text[CLOCK_TEXT_MAX];
	uint64_t at = clock_wall_ns() + 40 * 86400 * NS_PER_S;
	cleanup_free char *expected = NULL;

	policy_describe_end(0, &none);
	assert_int_equal(none.len, 0);
	policy_describe_end(clock_wall_ns(), &now);
	assert_true(str_has_prefix(strbuf_str(&now), " It ends at "));
	policy_describe_end(at, &later);
	(void)clock_format_local(at, text);
	expected = xasprintf(" It ends on %.10s at %s.", text, text + 11);
	assert_string_equal(strbuf_str(&later), expected);
}

static void what_becomes_of_an_empty_queue(void **state)
{
	static const struct {
		enum on_empty on_empty;
		const char *text;
	} cases[] = {
		{ EMPTY_HOLD, "" },
		{ EMPTY_RELEASE, " When its queue has been empty for 5m, what it holds is released "
				 "until there are tasks." },
		{ EMPTY_EXIT, " When its queue has been empty for 5m, it ends." },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct agent_config c = { .on_empty = cases[i].on_empty, .empty_ms = 300000 };
		cleanup_strbuf struct strbuf b = STRBUF_INIT;

		policy_describe_empty(&c, &b);
		assert_string_equal(strbuf_str(&b), cases[i].text);
	}
}

static void what_will_not_do_as_it_was_meant(void **state)
{
	static const struct {
		uint32_t leave, devices;
		const char *text;
	} cases[] = {
		{ 0, 2, "" },
		{ 1, 2, "" },
		{ 2, 2, "nothing will be held: leave 2 leaves all selected GPUs to others\n" },
		{ 1, 1, "nothing will be held: leave 1 leaves the only selected GPU to others\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_strbuf struct strbuf b = STRBUF_INIT;
		struct hold_policy p = policy_with(DEFAULTS);

		p.leave = cases[i].leave;
		policy_warn(&p, cases[i].devices, &b);
		assert_string_equal(strbuf_str(&b), cases[i].text);
		/* Who only watches holds nothing anyway. */
		p.hold = false;
		b.len = 0;
		policy_warn(&p, cases[i].devices, &b);
		assert_int_equal(b.len, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_and_policy_have_the_same_defaults),
		cmocka_unit_test(every_setting_arrives),
		cmocka_unit_test(memory_may_be_a_share_or_all_but_some),
		cmocka_unit_test(a_cycle_has_two_parts),
		cmocka_unit_test(what_is_aimed_at),
		cmocka_unit_test(exceptions_are_processes_that_are_there),
		cmocka_unit_test(more_devices_than_a_policy_has_room_for),
		cmocka_unit_test(what_cannot_be_a_policy_says_why),
		cmocka_unit_test(a_policy_is_told_in_a_sentence),
		cmocka_unit_test(who_leaves_all_to_others_holds_nothing),
		cmocka_unit_test(who_holds_nothing_watches),
		cmocka_unit_test(a_view_knows_more),
		cmocka_unit_test(its_end_has_a_day_if_that_is_not_today),
		cmocka_unit_test(what_becomes_of_an_empty_queue),
		cmocka_unit_test(what_will_not_do_as_it_was_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
