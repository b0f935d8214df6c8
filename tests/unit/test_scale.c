/* SPDX-License-Identifier: MIT */

/* When a task grows and shrinks: the rules as a table, and days in virtual time. */

#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/units.h"
#include "sched/scale.h"

#define START_NS (1000 * NS_PER_S)
#define DAY_S	 86400

/* The thresholds of the resource manager's document, with the defaults of a task. */
static const struct scale_rule usual = { .min = 1,
					 .max = 4,
					 .up_permille = 800,
					 .down_permille = 300,
					 .window_ms = MS_PER_MIN,
					 .cooldown_ms = 5 * MS_PER_MIN };

static struct scale s;
static uint64_t now_ns;

static void begin(void)
{
	s = (struct scale){ 0 };
	now_ns = START_NS;
	scale_begin(&s, now_ns);
}

/* A sample each second. */
static void pass(const struct scale_rule *rule, unsigned int seconds, uint32_t util)
{
	for (unsigned int i = 0; i < seconds; i++) {
		now_ns += NS_PER_S;
		scale_sample(&s, rule, now_ns, util);
	}
}

static struct scale_at at(uint32_t n)
{
	return (struct scale_at){ .now_ns = now_ns, .n = n, .left_ms = UINT64_MAX };
}

static void expect(enum scale_verdict is, enum scale_verdict wanted, const char *what)
{
	if (is != wanted)
		fail_msg("%s: %s, and not %s", what, scale_verdict_name(is),
			 scale_verdict_name(wanted));
}

/* ---- the table ---- */

static void the_rules(void **state)
{
	static const struct {
		const char *what;
		uint32_t util, n; /* for ten minutes */
		struct scale_at at;
		enum scale_verdict verdict;
	} cases[] = {
		{ "busy", 930, 1, { 0 }, SCALE_GROW },
		{ "just above", 801, 1, { 0 }, SCALE_GROW },
		{ "at the threshold", 800, 1, { 0 }, SCALE_WITHIN },
		{ "neither", 550, 2, { 0 }, SCALE_WITHIN },
		{ "at the lower threshold", 300, 2, { 0 }, SCALE_WITHIN },
		{ "just below", 299, 2, { 0 }, SCALE_SHRINK },
		{ "idle", 0, 4, { 0 }, SCALE_SHRINK },
		{ "busy with all that it may have", 1000, 4, { 0 }, SCALE_AT_MAX },
		{ "busy with more than it may have", 1000, 5, { 0 }, SCALE_AT_MAX },
		{ "idle with what it keeps", 0, 1, { 0 }, SCALE_AT_MIN },
		{ "not known", SCALE_UNKNOWN, 2, { 0 }, SCALE_UNSEEN },
		{ "no device", 930, 1, { .room = SCALE_ROOM_NONE }, SCALE_NO_ROOM },
		{ "who waits comes first", 930, 1, { .room = SCALE_ROOM_WANTED }, SCALE_WANTED },
		{ "max_devices", 930, 1, { .room = SCALE_ROOM_LIMIT }, SCALE_LIMIT },
		{ "allocations", 930, 1, { .room = SCALE_ROOM_ALLOCATIONS }, SCALE_ALLOCATIONS },
		{ "idle while others wait", 100, 2, { .room = SCALE_ROOM_WANTED }, SCALE_SHRINK },
		{ "neither while others wait",
		  500,
		  2,
		  { .room = SCALE_ROOM_WANTED },
		  SCALE_WITHIN },
		{ "busy while its node drains", 930, 1, { .draining = true }, SCALE_DRAINING },
		{ "idle while its node drains", 0, 4, { .draining = true }, SCALE_DRAINING },
		{ "busy, and the job ends", 930, 1, { .left_ms = 299999 }, SCALE_ENDING },
		{ "idle, and the job ends", 0, 4, { .left_ms = 1 }, SCALE_ENDING },
		{ "busy, and the job ends later", 930, 1, { .left_ms = 300000 }, SCALE_GROW },
		{ "idle where nobody sees it", 0, 2, { .blind = true }, SCALE_BLIND },
		{ "busy where nobody sees it", 930, 2, { .blind = true }, SCALE_GROW },
		{ "a device of no use to it", 500, 2, { .unused = true }, SCALE_SHRINK_UNUSED },
		{ "the same, busy", 1000, 2, { .unused = true }, SCALE_SHRINK_UNUSED },
		{ "of no use, but kept", 500, 1, { .unused = true }, SCALE_WITHIN },
		{ "of no use, as far as anybody sees",
		  500,
		  2,
		  { .unused = true, .blind = true },
		  SCALE_WITHIN },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct scale_at a = cases[i].at;

		begin();
		pass(&usual, 600, cases[i].util);
		a.now_ns = now_ns;
		a.n = cases[i].n;
		a.left_ms = a.left_ms ? a.left_ms : UINT64_MAX;
		expect(scale_decide(&s, &usual, &a), cases[i].verdict, cases[i].what);
	}
}

/* What a change would undo is not begun. */
static void hysteresis(void **state)
{
	static const struct {
		uint32_t up, down, n, util;
		enum scale_verdict verdict;
	} cases[] = {
		/* 45 % on two, 40 % being too little. */
		{ 500, 400, 1, 820, SCALE_WOULD_SHRINK },
		{ 500, 400, 1, 830, SCALE_GROW },
		{ 500, 400, 3, 560, SCALE_GROW },
		/* On one alone twice as much. */
		{ 500, 400, 2, 250, SCALE_WOULD_GROW },
		{ 500, 400, 2, 240, SCALE_SHRINK },
		{ 800, 700, 2, 390, SCALE_SHRINK },
		{ 800, 700, 2, 395, SCALE_WOULD_GROW },
		/* A hundred per cent is never more than that. */
		{ 990, 600, 1, 1000, SCALE_WOULD_SHRINK },
		/* Thresholds that contradict each other do no harm. */
		{ 300, 800, 1, 900, SCALE_WOULD_SHRINK },
		{ 300, 800, 2, 200, SCALE_WOULD_GROW },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct scale_rule rule = usual;
		struct scale_at a;
		char what[32];

		rule.up_permille = cases[i].up;
		rule.down_permille = cases[i].down;
		begin();
		pass(&rule, 600, cases[i].util);
		a = at(cases[i].n);
		(void)snprintf(what, sizeof(what), "case %zu", i);
		expect(scale_decide(&s, &rule, &a), cases[i].verdict, what);
	}
}

/* ---- time ---- */

/* A program that loads data for minutes is not idle. */
static void after_a_start_nothing_happens(void **state)
{
	struct scale_at a;

	begin();
	pass(&usual, 299, 0);
	a = at(2);
	expect(scale_decide(&s, &usual, &a), SCALE_COOLING, "after 299 s");
	pass(&usual, 1, 0);
	a = at(2);
	expect(scale_decide(&s, &usual, &a), SCALE_SHRINK, "after 300 s");
	/* The window is what counts then, and not what was before it. */
	begin();
	pass(&usual, 240, 0);
	pass(&usual, 60, 950);
	a = at(2);
	expect(scale_decide(&s, &usual, &a), SCALE_GROW, "busy since a minute");
}

static void the_window_fills(void **state)
{
	struct scale_rule rule = usual;
	struct scale_at a;

	rule.cooldown_ms = 0;
	begin();
	pass(&rule, 59, 1000);
	a = at(1);
	expect(scale_decide(&s, &rule, &a), SCALE_FILLING, "after 59 s");
	pass(&rule, 1, 1000);
	a = at(1);
	expect(scale_decide(&s, &rule, &a), SCALE_GROW, "after a minute");
	scale_begin(&s, now_ns);
	a = at(2);
	expect(scale_decide(&s, &rule, &a), SCALE_FILLING, "after the change");
	pass(&rule, 60, 0);
	a = at(2);
	expect(scale_decide(&s, &rule, &a), SCALE_SHRINK, "a minute after it");
}

static void the_mean_is_of_the_window(void **state)
{
	static const uint64_t windows_ms[] = { 1000, 10 * 1000, MS_PER_MIN, MS_PER_H };

	for (size_t i = 0; i < ARRAY_LEN(windows_ms); i++) {
		unsigned int seconds = (unsigned int)(windows_ms[i] / 1000);
		struct scale_rule rule = usual;
		uint32_t mean;

		rule.window_ms = windows_ms[i];
		begin();
		pass(&rule, seconds * 3, 1000);
		assert_int_equal(scale_mean(&s, &rule, now_ns), 1000);
		pass(&rule, seconds - seconds / 2, 0);
		mean = scale_mean(&s, &rule, now_ns);
		if (seconds > 1)
			assert_in_range(mean, 450, 550);
		pass(&rule, seconds + seconds / 30 + 1, 200);
		assert_int_equal(scale_mean(&s, &rule, now_ns), 200);
	}
}

/* ---- what is not known ---- */

static void what_is_unknown_is_not_idle(void **state)
{
	struct scale_at a;

	begin();
	pass(&usual, 600, 0);
	/* Of the last minute 14 s are not known: the mean of the rest. */
	for (int i = 0; i < 14; i++) {
		pass(&usual, 1, SCALE_UNKNOWN);
		pass(&usual, 3, 900);
	}
	pass(&usual, 4, 900);
	assert_int_equal(scale_mean(&s, &usual, now_ns), 900);
	/* Of the next minute so many that nothing is decided, busy or idle. */
	for (int i = 0; i < 20; i++) {
		pass(&usual, 2, SCALE_UNKNOWN);
		pass(&usual, 1, 0);
	}
	a = at(4);
	expect(scale_decide(&s, &usual, &a), SCALE_UNSEEN, "half of it unknown");
	pass(&usual, 120, SCALE_UNKNOWN);
	a = at(4);
	expect(scale_decide(&s, &usual, &a), SCALE_UNSEEN, "all of it unknown");
}

/* While the agent is stopped nobody looks; the sample after it does not stand for all that time. */
static void a_gap_is_not_known(void **state)
{
	struct scale_at a;

	begin();
	pass(&usual, 600, 900);
	now_ns += 3600 * NS_PER_S;
	scale_sample(&s, &usual, now_ns, 0);
	a = at(2);
	expect(scale_decide(&s, &usual, &a), SCALE_UNSEEN, "after an hour's stop");
	pass(&usual, 60, 900);
	a = at(2);
	expect(scale_decide(&s, &usual, &a), SCALE_GROW, "a minute later");
	/* Samples that come twice, or from before, change nothing. */
	scale_sample(&s, &usual, now_ns, 0);
	scale_sample(&s, &usual, now_ns - NS_PER_S, 0);
	assert_int_equal(scale_mean(&s, &usual, now_ns), 900);
}

/* ---- what is in vain ---- */

static void what_it_does_not_use_is_tried_ever_later(void **state)
{
	struct scale_at a;
	uint64_t wait_s = 300;

	begin();
	for (int i = 0; i < 12; i++) {
		pass(&usual, 300, 1000);
		a = at(2);
		a.unused = true;
		expect(scale_decide(&s, &usual, &a), SCALE_SHRINK_UNUSED, "it did not come to it");
		scale_begin(&s, now_ns);
		scale_vain(&s, &usual, now_ns);
		wait_s = wait_s * 2 < DAY_S ? wait_s * 2 : DAY_S;
		pass(&usual, (unsigned int)wait_s - 1, 1000);
		a = at(1);
		expect(scale_decide(&s, &usual, &a), SCALE_IN_VAIN, "it waits");
		pass(&usual, 1, 1000);
		a = at(1);
		expect(scale_decide(&s, &usual, &a), SCALE_GROW, "it is tried again");
		scale_begin(&s, now_ns);
	}
	scale_used(&s);
	scale_begin(&s, now_ns);
	scale_vain(&s, &usual, now_ns);
	pass(&usual, 600, 1000);
	a = at(1);
	expect(scale_decide(&s, &usual, &a), SCALE_GROW, "after one that it used");
}

static void what_is_refused_is_tried_later(void **state)
{
	struct scale_at a;

	begin();
	pass(&usual, 600, 1000);
	scale_wait(&s, now_ns + 60 * NS_PER_S);
	a = at(1);
	expect(scale_decide(&s, &usual, &a), SCALE_IN_VAIN, "at once");
	pass(&usual, 60, 1000);
	a = at(1);
	expect(scale_decide(&s, &usual, &a), SCALE_GROW, "a minute later");
}

/* ---- days ---- */

/* A program on n devices that has so much to do, in devices' worth of work. */
struct program {
	struct scale_rule rule;
	uint32_t n;
	unsigned int changes, grown, shrunk, reversals;
	uint64_t changed_s;
	int direction;
	unsigned int away_s; /* it begins again, with its new devices, and does nothing meanwhile */
};

static uint64_t rand_state;

/* -1 .. 1 */
static double any(void)
{
	rand_state = hash_u64(rand_state, 11);
	return (double)(rand_state % 20001) / 10000.0 - 1;
}

static void change(struct program *p, uint64_t second, int direction)
{
	p->changes++;
	p->grown += direction > 0;
	p->shrunk += direction < 0;
	p->reversals += p->direction && direction != p->direction && second - p->changed_s < 1800;
	p->direction = direction;
	p->changed_s = second;
	p->n += direction > 0 ? 1 : UINT32_MAX;
	p->away_s = 90;
	scale_begin(&s, now_ns);
	assert_in_range(p->n, p->rule.min, p->rule.max);
}

/* One second of it. */
static void live(struct program *p, uint64_t second, double work, enum scale_room room, bool known)
{
	double util = p->away_s ? 0 : work / p->n;
	struct scale_at a;
	enum scale_verdict verdict;

	p->away_s -= p->away_s > 0;
	util = util < 0 ? 0 : util > 1 ? 1 : util;
	now_ns += NS_PER_S;
	scale_sample(&s, &p->rule, now_ns, known ? (uint32_t)(util * 1000) : SCALE_UNKNOWN);
	a = at(p->n);
	a.room = room;
	verdict = scale_decide(&s, &p->rule, &a);
	if (verdict == SCALE_GROW)
		change(p, second, 1);
	else if (verdict == SCALE_SHRINK)
		change(p, second, -1);
}

static double curve(uint64_t second)
{
	return 0.3 + 1.6 * (1 - cos(2 * M_PI * (double)second / DAY_S));
}

/* More work by noon and less by night, with noise of each second and of each quarter of an hour;
 * now and then nobody knows how busy the devices are, and others come to them and go. */
static void one_day(uint64_t seed)
{
	struct program p = { .rule = usual, .n = 1 };
	double slow = 0;
	bool free_now = true;
	uint32_t most = 1;

	rand_state = seed;
	begin();
	for (uint64_t second = 0; second < DAY_S; second++) {
		if (second % 900 == 0) {
			slow = any() * 0.08;
			free_now = any() > -0.3;
		}
		live(&p, second, curve(second) * (1 + slow + any() * 0.2),
		     free_now ? SCALE_ROOM_FREE : SCALE_ROOM_NONE, any() > -0.9);
		most = p.n > most ? p.n : most;
	}
	if (p.changes > 6 || p.reversals || p.n != 1 || most != 4)
		fail_msg("day %llu: %u changes, %u of them back within half an hour, most %u, "
			 "at the end %u",
			 (unsigned long long)seed, p.changes, p.reversals, most, p.n);
}

static void a_day_has_six_changes(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++)
		one_day(seed);
}

/* Work that comes and goes faster than anything can follow: never more than one change in a
 * cool-down, and never outside of the limits. */
static void a_day_of_bursts(void **state)
{
	struct program p = { .rule = usual, .n = 1 };

	begin();
	for (uint64_t second = 0; second < DAY_S; second++)
		live(&p, second, second / 600 % 2 ? 3.5 : 0.2, SCALE_ROOM_FREE, true);
	assert_in_range(p.changes, 1, DAY_S / 300);
}

/* The same work all day: whatever the thresholds are, the number of devices only rises or only
 * falls, and then stays. */
static void the_same_work_never_oscillates(void **state)
{
	rand_state = 3;
	for (unsigned int i = 0; i < 3000; i++) {
		struct program p = { .rule = usual };
		double work = (any() + 1) * 4;

		p.rule.up_permille = (uint32_t)(100 + (any() + 1) * 449);
		p.rule.down_permille = (uint32_t)(1 + (any() + 1) * 449);
		p.rule.max = (uint32_t)(1 + (any() + 1) * 4);
		p.rule.cooldown_ms = 10 * 1000;
		p.rule.window_ms = 5 * 1000;
		p.n = (uint32_t)(1 + (any() + 1) / 2 * (p.rule.max - 1));
		begin();
		for (uint64_t second = 0; second < 600; second++) {
			p.away_s = 0;
			live(&p, second, work, SCALE_ROOM_FREE, true);
		}
		if ((p.grown && p.shrunk) || p.changes > p.rule.max)
			fail_msg("work %.3f, up %u, down %u, max %u: grown %u times, shrunk %u",
				 work, p.rule.up_permille, p.rule.down_permille, p.rule.max,
				 p.grown, p.shrunk);
	}
}

/* ---- words ---- */

static void in_words(void **state)
{
	static const struct {
		uint32_t util, n;
		struct scale_at at;
		const char *text;
	} cases[] = {
		{ 931, 1, { 0 }, "its GPUs are busy 93.1% of 1m, more than 80%" },
		{ 931,
		  4,
		  { 0 },
		  "its GPUs are busy 93.1% of 1m, more than 80%; it has the 4 that it may have" },
		{ 931,
		  1,
		  { .room = SCALE_ROOM_NONE },
		  "its GPUs are busy 93.1% of 1m, more than 80%; no other GPU here is free for it" },
		{ 931,
		  1,
		  { .room = SCALE_ROOM_WANTED, .wanted_by = { 9, 2 } },
		  "its GPUs are busy 93.1% of 1m, more than 80%; task 9.2, which waits, comes first" },
		{ 931,
		  1,
		  { .room = SCALE_ROOM_LIMIT },
		  "its GPUs are busy 93.1% of 1m, more than 80%; max_devices allows no more" },
		{ 931,
		  1,
		  { .room = SCALE_ROOM_ALLOCATIONS },
		  "its GPUs are busy 93.1% of 1m, more than 80%; max_total_gpus or max_manual_gpus "
		  "allows no more" },
		{ 120, 2, { 0 }, "its GPUs are busy 12% of 1m, less than 30%" },
		{ 120, 1, { 0 }, "its GPUs are busy 12% of 1m, less than 30%; it keeps 1" },
		{ 550, 2, { 0 }, "its GPUs are busy 55% of 1m, between 30% and 80%" },
		{ SCALE_UNKNOWN, 2, { 0 }, "how busy its GPUs are is not known" },
		{ 120,
		  2,
		  { .blind = true },
		  "its GPUs are busy 12% of 1m, less than 30%; its processes are not listed here, "
		  "so nobody would see that it leaves one" },
		{ 550,
		  2,
		  { .unused = true },
		  "none of its processes has come to the GPU that it got last" },
		{ 120, 2, { .draining = true }, "nothing changes while its node drains" },
		{ 120,
		  2,
		  { .left_ms = 90000 },
		  "nothing changes any more: its node ends in 1m30s" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_strbuf struct strbuf b = STRBUF_INIT;
		struct scale_at a = cases[i].at;

		begin();
		pass(&usual, 600, cases[i].util);
		a.now_ns = now_ns;
		a.n = cases[i].n;
		a.left_ms = a.left_ms ? a.left_ms : UINT64_MAX;
		scale_text(&s, &usual, &a, scale_decide(&s, &usual, &a), &b);
		assert_string_equal(strbuf_str(&b), cases[i].text);
	}
	assert_string_equal(scale_verdict_name(SCALE_BLIND), "blind");
	assert_string_equal(scale_verdict_name(SCALE_VERDICT_MAX), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rules),
		cmocka_unit_test(hysteresis),
		cmocka_unit_test(after_a_start_nothing_happens),
		cmocka_unit_test(the_window_fills),
		cmocka_unit_test(the_mean_is_of_the_window),
		cmocka_unit_test(what_is_unknown_is_not_idle),
		cmocka_unit_test(a_gap_is_not_known),
		cmocka_unit_test(what_it_does_not_use_is_tried_ever_later),
		cmocka_unit_test(what_is_refused_is_tried_later),
		cmocka_unit_test(a_day_has_six_changes),
		cmocka_unit_test(a_day_of_bursts),
		cmocka_unit_test(the_same_work_never_oscillates),
		cmocka_unit_test(in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
