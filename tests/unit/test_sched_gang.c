/* SPDX-License-Identifier: MIT */

/*
 * What the leader of a gang does, in a world of its own: three agents that take their ranks'
 * devices when they are called, start when the word is go, and end when it is over; claims that
 * expire; and leaders that are lost, doubled or late. A step is a turn of each agent and a look of
 * the leader. Whatever happens, no program starts before every rank has its devices, and in the end
 * the gang runs, or nothing of it does.
 */

#include "unit.h"

#include <string.h>

#include "base/mem.h"
#include "sched/gang.h"
#include "sched/plan.h"
#include "sched_bench.h"

#define RANKS	  3
#define STEP_MS	  1000
#define MUSTER_MS 20000
#define START_MS  10000
#define EXPIRE	  5 /* steps */

struct rank {
	bool dead;  /* its agent, and what it started */
	bool stuck; /* it never gets devices, or never starts */
	unsigned int dead_for;
	bool devices, runs;
};

struct sim {
	struct gang_facts f;
	struct gang_rank_facts facts[RANKS];
	struct rank ranks[RANKS];
	uint64_t now_ms, since_ms;
	enum gang_phase phase;
	unsigned int generation, begun; /* begun: how often all ran at once */
	bool cancelled;
};

static const struct gang_limits limits = { MUSTER_MS, START_MS };

static void begin(struct sim *s)
{
	*s = (struct sim){ .f = { .waits = true, .due = true, .n = RANKS } };
}

static bool stands(const struct sim *s)
{
	return s->f.called && !s->f.ended && !(s->f.decided && !s->f.go);
}

static struct gang_verdict judge(struct sim *s)
{
	struct gang_verdict v;

	s->f.ranks = s->facts;
	for (size_t i = 0; i < RANKS; i++)
		s->facts[i].lives = !s->ranks[i].dead;
	v = gang_judge(&s->f, &limits);
	if (v.phase != s->phase) {
		s->phase = v.phase;
		s->since_ms = s->now_ms;
	}
	s->f.for_ms = s->now_ms - s->since_ms;
	return gang_judge(&s->f, &limits);
}

static void call(struct sim *s)
{
	s->generation++;
	s->f.called = true;
	s->f.decided = s->f.go = s->f.ended = false;
	for (size_t i = 0; i < RANKS; i++) {
		assert_false(s->ranks[i].runs);
		s->facts[i] = (struct gang_rank_facts){ .standing = GANG_OPEN };
	}
}

/* As the files do: the first word counts. */
static void carry_out(struct sim *s, enum gang_action action)
{
	switch (action) {
	case GANG_CALL:
		call(s);
		break;
	case GANG_GO:
		s->f.go = s->f.decided ? s->f.go : true;
		s->f.decided = true;
		break;
	case GANG_WITHDRAW:
		s->f.decided = true;
		break;
	case GANG_END:
	case GANG_END_FOR_GOOD:
		s->f.ended = true;
		break;
	case GANG_CANCEL_REST:
		for (size_t i = 0; i < RANKS; i++)
			if (s->facts[i].standing == GANG_OPEN ||
			    s->facts[i].standing == GANG_REQUEUED)
				s->facts[i].standing = GANG_STOPPED;
		s->cancelled = true;
		s->f.waits = false;
		break;
	case GANG_FORGET:
		s->f.called = false;
		break;
	default:
		break;
	}
}

/* All or nothing. */
static void check_start(const struct sim *s)
{
	for (size_t i = 0; i < RANKS; i++)
		assert_true(s->ranks[i].devices || s->facts[i].standing != GANG_OPEN ||
			    s->ranks[i].dead);
}

static void give_back(struct sim *s, size_t i, enum gang_standing standing, bool outside)
{
	s->facts[i].claimed = false;
	s->facts[i].standing = standing;
	s->facts[i].outside = outside;
	s->ranks[i].devices = s->ranks[i].runs = false;
}

static void turn(struct sim *s, size_t i)
{
	struct gang_rank_facts *f = &s->facts[i];
	struct rank *r = &s->ranks[i];

	if (r->dead) {
		r->runs = false;
		if (f->claimed && ++r->dead_for > EXPIRE)
			give_back(s, i, GANG_REQUEUED, true);
		return;
	}
	if (f->claimed && !stands(s)) {
		give_back(s, i, s->f.waits ? GANG_REQUEUED : GANG_STOPPED, false);
		return;
	}
	if (!stands(s) || f->standing != GANG_OPEN)
		return;
	if (!s->f.decided && !r->stuck) {
		r->devices = f->claimed = f->ready = true;
	} else if (s->f.go && r->devices && !r->runs && !r->stuck) {
		check_start(s);
		r->runs = f->begun = true;
	}
}

static void step(struct sim *s)
{
	unsigned int running = 0;

	s->now_ms += STEP_MS;
	for (size_t i = 0; i < RANKS; i++) {
		turn(s, i);
		running += s->ranks[i].runs;
	}
	s->begun += running == RANKS;
	carry_out(s, judge(s).action);
}

static bool reaches(struct sim *s, enum gang_phase phase)
{
	for (int i = 0; i < 100; i++) {
		if (judge(s).phase == phase)
			return true;
		step(s);
	}
	return false;
}

/* It runs, of that generation. */
static void must_run(struct sim *s, unsigned int generation)
{
	for (int i = 0; i < 100 && s->generation < generation; i++)
		step(s);
	assert_true(reaches(s, GANG_RUNNING));
	assert_int_equal(s->generation, generation);
	for (size_t i = 0; i < RANKS; i++)
		assert_true(s->ranks[i].runs);
}

static void must_be_over(struct sim *s)
{
	for (int i = 0; i < 100; i++)
		step(s);
	assert_false(s->f.called);
	for (size_t i = 0; i < RANKS; i++)
		assert_false(s->ranks[i].runs || s->ranks[i].devices || s->facts[i].claimed);
}

/* ---- the table ---- */

static void what_is_over_in_every_phase_is_forgotten(void **state)
{
	for (enum gang_phase p = 0; p < GANG_PHASE_MAX; p++)
		assert_int_equal(gang_steps[p][GANG_OVER].action, GANG_FORGET);
}

/* A word is given once, an end only after go, and a call only where nothing is under way. */
static void each_action_has_its_phases(void **state)
{
	for (enum gang_phase p = 0; p < GANG_PHASE_MAX; p++)
		for (enum gang_event ev = 0; ev < GANG_EVENT_MAX; ev++) {
			enum gang_action a = gang_steps[p][ev].action;

			assert_true(a != GANG_CALL || p == GANG_IDLE);
			assert_true((a != GANG_GO && a != GANG_WITHDRAW) || p == GANG_MUSTERING);
			assert_true((a != GANG_END && a != GANG_END_FOR_GOOD) ||
				    p == GANG_STARTING || p == GANG_RUNNING);
			assert_true(a != GANG_CANCEL_REST || p == GANG_IDLE);
		}
}

/* ---- the good day ---- */

static void all_ranks_start_and_end_well(void **state)
{
	struct sim s;

	begin(&s);
	must_run(&s, 1);
	for (size_t i = 0; i < RANKS; i++) {
		give_back(&s, i, GANG_WELL, false);
		assert_int_equal(judge(&s).action, GANG_WAIT);
	}
	s.f.waits = false; /* the last one has filed it */
	must_be_over(&s);
	assert_int_equal(s.generation, 1);
}

/* ---- bad days ---- */

static void a_rank_that_never_gets_devices(void **state)
{
	struct sim s;

	begin(&s);
	s.ranks[1].stuck = true;
	assert_true(reaches(&s, GANG_MUSTERING));
	while (!s.f.decided) {
		struct gang_verdict v = judge(&s);

		assert_true(v.event == GANG_NOTHING || v.event == GANG_LATE);
		assert_true(v.event == GANG_NOTHING || v.rank == 1);
		step(&s);
	}
	assert_true(s.now_ms > MUSTER_MS);
	assert_false(s.f.go);
	assert_int_equal(s.begun, 0);
	s.ranks[1].stuck = false;
	must_run(&s, 2);
}

static void a_rank_that_never_starts(void **state)
{
	struct sim s;

	begin(&s);
	assert_true(reaches(&s, GANG_STARTING));
	s.ranks[2].stuck = true;
	assert_true(reaches(&s, GANG_CLOSING));
	assert_true(s.f.ended);
	s.ranks[2].stuck = false;
	must_run(&s, 2);
}

/* It waits for its devices, and other nodes have some. */
static void a_rank_that_is_better_elsewhere(void **state)
{
	struct sim s;

	begin(&s);
	s.ranks[1].stuck = true;
	assert_true(reaches(&s, GANG_MUSTERING));
	step(&s);
	s.f.better = true;
	assert_int_equal(judge(&s).event, GANG_BETTER);
	assert_int_equal(judge(&s).rank, 1);
	assert_int_equal(judge(&s).action, GANG_WITHDRAW);
	s.ranks[1].stuck = false;
	step(&s); /* it has them just now: that is as good */
	assert_true(s.f.go);
}

/* Edited, or paused: before go all begin anew, after it nothing changes. */
static void a_task_that_is_changed(void **state)
{
	struct sim s;

	begin(&s);
	assert_true(reaches(&s, GANG_MUSTERING));
	s.f.changed = true;
	for (size_t i = 0; i < RANKS; i++)
		s.facts[i].ready = true;
	assert_int_equal(judge(&s).event, GANG_CHANGED);
	assert_int_equal(judge(&s).action, GANG_WITHDRAW);
	s.f.decided = s.f.go = true;
	assert_int_equal(judge(&s).phase, GANG_STARTING);
	assert_int_equal(judge(&s).action, GANG_WAIT);
}

static void an_agent_that_refuses(void **state)
{
	struct sim s;

	begin(&s);
	assert_true(reaches(&s, GANG_MUSTERING));
	s.facts[1].refuses = true;
	assert_int_equal(judge(&s).action, GANG_WITHDRAW);
	assert_int_equal(judge(&s).rank, 1);
	must_run(&s, 2);
}

static void a_call_that_cannot_be_read(void **state)
{
	struct sim s;

	begin(&s);
	assert_true(reaches(&s, GANG_MUSTERING));
	s.f.n = 0;
	assert_int_equal(judge(&s).action, GANG_WITHDRAW);
}

/* The next leader sees the same files; only its clock begins anew. */
static void the_leader_is_lost_in_each_phase(void **state)
{
	for (enum gang_phase p = GANG_MUSTERING; p <= GANG_RUNNING; p++) {
		struct sim s;

		begin(&s);
		assert_true(reaches(&s, p));
		s.phase = GANG_IDLE; /* as one that has seen nothing before */
		s.since_ms = s.now_ms;
		must_run(&s, 1);
	}
}

/* With its rank: before go it is withdrawn at once, after go when the claim has expired. */
static void an_agent_is_lost_in_each_phase(void **state)
{
	for (enum gang_phase p = GANG_MUSTERING; p <= GANG_RUNNING; p++) {
		struct sim s;

		begin(&s);
		assert_true(reaches(&s, p));
		s.ranks[2].dead = true;
		assert_true(reaches(&s, GANG_CLOSING));
		for (int i = 0; i < 2 * EXPIRE; i++) {
			assert_false(s.generation > 1 && s.facts[2].claimed);
			s.f.due = false; /* there are no three nodes */
			step(&s);
		}
		assert_int_equal(judge(&s).phase, GANG_IDLE);
		assert_int_equal(s.generation, 1);
		s.ranks[2] = (struct rank){ .dead = false };
		s.f.due = true;
		must_run(&s, 2);
		assert_false(s.cancelled);
	}
}

/* The programs of the others fail long before the claim of the lost one has expired, which is not
 * their fault. */
static void a_lost_node_makes_the_others_fail(void **state)
{
	struct sim s;

	begin(&s);
	must_run(&s, 1);
	s.ranks[1].dead = true;
	step(&s);
	give_back(&s, 0, GANG_BADLY, false);
	assert_int_equal(judge(&s).action, GANG_END);
	s.f.due = false;
	while (judge(&s).phase != GANG_IDLE)
		step(&s);
	assert_int_equal(judge(&s).event, GANG_NOTHING);
	assert_int_equal(s.facts[0].standing, GANG_BADLY);
	s.ranks[1] = (struct rank){ .dead = false };
	s.f.due = true;
	must_run(&s, 2);
}

static void a_rank_that_fails_ends_the_others_for_good(void **state)
{
	for (enum gang_phase p = GANG_STARTING; p <= GANG_RUNNING; p++) {
		struct sim s;

		begin(&s);
		assert_true(reaches(&s, p));
		give_back(&s, 1, GANG_BADLY, false);
		assert_int_equal(judge(&s).action, GANG_END);
		assert_int_equal(judge(&s).rank, 1);
		must_be_over(&s);
		assert_true(s.cancelled);
		assert_int_equal(s.generation, 1);
	}
}

/* It has retries left. */
static void a_rank_that_is_tried_again_takes_the_others_along(void **state)
{
	struct sim s;

	begin(&s);
	must_run(&s, 1);
	give_back(&s, 1, GANG_REQUEUED, false);
	assert_int_equal(judge(&s).event, GANG_LOST);
	must_run(&s, 2);
}

/* `tenure stop ID`: the task has left pending/, and each rank is told by its agent as well. */
static void it_is_stopped_in_each_phase(void **state)
{
	for (enum gang_phase p = GANG_IDLE; p <= GANG_RUNNING; p++) {
		struct sim s;

		begin(&s);
		assert_true(reaches(&s, p));
		s.f.waits = s.f.due = false;
		must_be_over(&s);
	}
}

/* One rank alone was stopped: it is final, whatever else happened. */
static void a_rank_is_stopped_in_each_phase(void **state)
{
	for (enum gang_phase p = GANG_IDLE; p <= GANG_RUNNING; p++) {
		struct sim s;

		begin(&s);
		assert_true(reaches(&s, p));
		give_back(&s, 1, GANG_STOPPED, false);
		if (p == GANG_RUNNING)
			give_back(&s, 2, GANG_REQUEUED, true);
		must_be_over(&s);
		assert_true(s.cancelled);
		assert_true(s.generation <= 1);
	}
}

/* Each has judged by the same files, and both words are given: the first one counts. */
static void two_leaders_for_a_moment(void **state)
{
	for (enum gang_phase p = GANG_IDLE; p <= GANG_STARTING; p++) {
		struct sim s;
		struct gang_verdict one, other;

		begin(&s);
		assert_true(reaches(&s, p));
		s.facts[0].lives = s.facts[1].lives = s.facts[2].lives = true;
		one = judge(&s);
		s.ranks[2].dead = p == GANG_MUSTERING; /* the other takes an agent for dead */
		other = judge(&s);
		s.ranks[2].dead = false;
		if (p == GANG_IDLE) { /* the same generation cannot be made twice */
			carry_out(&s, one.action);
			assert_int_equal(other.action, GANG_CALL);
		} else {
			carry_out(&s, other.action);
			carry_out(&s, one.action);
		}
		if (p == GANG_MUSTERING)
			assert_false(s.f.go);
		must_run(&s, p == GANG_MUSTERING ? 2 : 1);
	}
}

/* ---- where ---- */

static void nodes_are_chosen(void **state)
{
	static const struct gang_node nodes[] = {
		{ "n1", "", 8, 8, false, false },   { "n2", "", 2, 8, false, false },
		{ "n3", "", 4, 4, false, false },   { "n4", "", 8, 8, false, true },
		{ "p1", "p", 8, 8, false, false },  { "p2", "p", 8, 8, false, false },
		{ "q1", "q", 16, 16, true, false }, { "q2", "q", 16, 16, true, false },
	};
	static const struct {
		size_t ranks;
		unsigned int devices;
		const char *expect; /* NULL: there are not as many */
	} rows[] = {
		{ 2, 4, "n1n3" },   /* n3 is all that is left over of nothing */
		{ 2, 8, "p1p2" },   /* at once, where n2 would have to be waited for */
		{ 3, 4, "n1n2n3" }, /* n4 has room, but was at fault */
		{ 4, 2, "n1n2n3n4" }, { 2, 9, NULL }, /* that pool is busy */
		{ 3, 8, "n1n2n4" },		      /* n2 has to be waited for */
		{ 4, 8, NULL },	      { 2, 0, "n2n3" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t chosen[4];
		char got[32] = "";
		bool there = gang_choose(nodes, ARRAY_LEN(nodes), rows[i].ranks, rows[i].devices,
					 chosen);

		for (size_t k = 0; there && k < rows[i].ranks; k++)
			(void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s",
				       nodes[chosen[k]].agent);
		if (there != (rows[i].expect != NULL) ||
		    (there && strcmp(got, rows[i].expect) != 0))
			fail_msg("row %zu: %s", i, there ? got : "none");
	}
}

static void room_is_counted(void **state)
{
	static const struct gang_node nodes[] = { { "a", "", 4, 8, false, false },
						  { "b", "", 8, 8, false, false },
						  { "c", "", 0, 2, false, false } };
	size_t now, ever;

	gang_count_room(nodes, ARRAY_LEN(nodes), 8, &now, &ever);
	assert_int_equal(now, 1);
	assert_int_equal(ever, 2);
}

static void what_fails_waits_longer_each_time(void **state)
{
	assert_int_equal(gang_backoff_ms(0), 0);
	assert_int_equal(gang_backoff_ms(1), 5000);
	assert_int_equal(gang_backoff_ms(2), 10000);
	assert_int_equal(gang_backoff_ms(7), 300000);
	assert_int_equal(gang_backoff_ms(1000000), 300000);
}

/* ---- in the plan ---- */

static unsigned int starts(struct bench *b)
{
	unsigned int n = 0;

	sched_plan(b->q, &b->view, &b->out);
	for (size_t i = 0; i < b->out.n; i++)
		n += b->actions[i].kind == SCHED_START;
	return n;
}

static void count(void *data, const struct sched_task *t)
{
	*(unsigned int *)data += t->n_elements;
}

/* A rank takes part in the plan only while it is called. */
static void a_rank_stands_aside_until_it_is_called(void **state)
{
	struct sched_task t = { .id = 7, .element = 1, .n_elements = 3, .order = 7, .gang = true };
	const struct sched_ref second = { 7, 2 };
	unsigned int uncalled = 0;
	struct bench b;

	bench_open(&b, 2);
	assert_int_equal(sched_add(b.q, &t, NULL), 0);
	assert_int_equal(starts(&b), 0);
	sched_each_gang(b.q, count, &uncalled);
	assert_int_equal(uncalled, 3);
	assert_int_equal(sched_call(b.q, second, true), 0);
	assert_int_equal(sched_call(b.q, second, true), 0);
	assert_int_equal(sched_call(b.q, second, false), 0);
	assert_int_equal(starts(&b), 0);
	assert_int_equal(sched_call(b.q, second, true), 0);
	assert_int_equal(starts(&b), 1);
	assert_int_equal(sched_call(b.q, second, true), -ENOENT); /* it runs */
	assert_int_equal(sched_requeue(b.q, second, 0, 0, NULL), 0);
	assert_int_equal(starts(&b), 0); /* it has to be called again */
	uncalled = 0;
	sched_each_gang(b.q, count, &uncalled);
	assert_int_equal(uncalled, 3);
	assert_int_equal(sched_call(b.q, (struct sched_ref){ 8, 1 }, true), -ENOENT);
	bench_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_over_in_every_phase_is_forgotten),
		cmocka_unit_test(each_action_has_its_phases),
		cmocka_unit_test(all_ranks_start_and_end_well),
		cmocka_unit_test(a_rank_that_never_gets_devices),
		cmocka_unit_test(a_rank_that_never_starts),
		cmocka_unit_test(a_rank_that_is_better_elsewhere),
		cmocka_unit_test(a_task_that_is_changed),
		cmocka_unit_test(an_agent_that_refuses),
		cmocka_unit_test(a_call_that_cannot_be_read),
		cmocka_unit_test(the_leader_is_lost_in_each_phase),
		cmocka_unit_test(an_agent_is_lost_in_each_phase),
		cmocka_unit_test(a_lost_node_makes_the_others_fail),
		cmocka_unit_test(a_rank_that_fails_ends_the_others_for_good),
		cmocka_unit_test(a_rank_that_is_tried_again_takes_the_others_along),
		cmocka_unit_test(it_is_stopped_in_each_phase),
		cmocka_unit_test(a_rank_is_stopped_in_each_phase),
		cmocka_unit_test(two_leaders_for_a_moment),
		cmocka_unit_test(nodes_are_chosen),
		cmocka_unit_test(room_is_counted),
		cmocka_unit_test(what_fails_waits_longer_each_time),
		cmocka_unit_test(a_rank_stands_aside_until_it_is_called),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
