/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/plan.h"

#define SECOND 1000000000ULL
#define NOW_S  100000ULL

/* A pool with its jobs, in virtual time. */
struct world {
	struct pool pool;
	struct pool_state st;
	struct pool_jobs jobs;
	bool live[64];
	struct pool_view v;
	struct pool_decision d;
};

static struct world *world_new(unsigned int max)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->pool = (struct pool){ .name = "main",
				 .engine = "local",
				 .gpus = 2,
				 .max = max,
				 .start_ms = 600000,
				 .asked_ns = NOW_S * SECOND };
	w->v = (struct pool_view){
		.pool = &w->pool, .jobs = &w->jobs, .live = w->live, .now_s = NOW_S
	};
	return w;
}

static void world_free(struct world *w)
{
	pool_jobs_clear(&w->jobs);
	free(w);
}

static struct pool_job *add(struct world *w, uint64_t age_s)
{
	struct pool_job *job = pool_jobs_add(&w->jobs);

	job->phase = POOL_JOB_SUBMITTED;
	job->submitted_s = w->v.now_s - age_s;
	return job;
}

static struct pool_job *add_live(struct world *w)
{
	struct pool_job *job = add(w, 1000);

	(void)snprintf(job->agent, sizeof(job->agent), "node%zu", w->jobs.n);
	w->live[w->jobs.n - 1] = true;
	return job;
}

static unsigned int submits(struct world *w)
{
	unsigned int live = 0;

	for (size_t i = 0; i < w->jobs.n; i++)
		live += w->live[i];
	w->v.more = w->v.needed > live ? w->v.needed - live : 0;
	pool_plan(&w->v, &w->st, &w->d);
	pool_say_next(&w->v, &w->st);
	return w->d.submit;
}

static void nothing_is_asked_for_without_a_need(void **state)
{
	struct world *w = world_new(4);

	(void)state;
	assert_int_equal(submits(w), 0);
	assert_string_equal(w->st.next, "nothing: no task that is ready needs a node of it");
	world_free(w);
}

static void it_follows_the_queue_one_at_a_time(void **state)
{
	struct world *w = world_new(4);

	(void)state;
	w->v.needed = 3;
	assert_int_equal(submits(w), 1);
	add(w, 0);
	assert_int_equal(submits(w), 0);
	assert_int_equal(w->st.waiting, 1);
	assert_string_equal(w->st.next, "waits for 1 job to start");
	(void)snprintf(w->jobs.all[0].agent, sizeof(w->jobs.all[0].agent), "node1");
	w->live[0] = true;
	assert_int_equal(submits(w), 1);
	add_live(w);
	add_live(w);
	assert_int_equal(submits(w), 0);
	assert_int_equal(w->st.live, 3);
	assert_string_equal(w->st.next, "nothing: it has what it wants");
	world_free(w);
}

static void those_that_up_asked_for_come_at_once(void **state)
{
	struct world *w = world_new(3);

	(void)state;
	w->pool.first = 3;
	assert_int_equal(submits(w), 3);
	assert_int_equal(w->d.first, 3);
	for (int i = 0; i < 3; i++) {
		add(w, 1000)->first = true;
		pool_note_submitted(&w->st);
	}
	/* They are wanted though nothing is in the queue, and nobody asks for them twice. */
	assert_int_equal(submits(w), 0);
	assert_int_equal(w->d.n_cancel, 0);
	assert_int_equal(w->st.wanted, 3);
	/* One ends: that was it. */
	w->jobs.all[0].phase = POOL_JOB_ENDED;
	assert_int_equal(submits(w), 0);
	/* Until somebody says so again. */
	w->pool.asked_ns++;
	w->pool.first = 3;
	assert_int_equal(submits(w), 1);
	world_free(w);
}

/* More than one step asks for: the next ones go on, whether the first have come up or not. */
static void as_many_as_up_asked_for_in_several_steps(void **state)
{
	struct world *w = world_new(20);

	(void)state;
	w->pool.first = 12;
	add_live(w); /* one was there */
	assert_int_equal(submits(w), POOL_TICK_JOBS);
	assert_int_equal(w->st.wanted, 12);
	for (int i = 0; i < POOL_TICK_JOBS; i++) {
		add_live(w);
		pool_note_submitted(&w->st);
	}
	assert_int_equal(submits(w), 3);
	assert_int_equal(w->st.wanted, 12);
	for (int i = 0; i < 3; i++) {
		add_live(w);
		pool_note_submitted(&w->st);
	}
	assert_int_equal(submits(w), 0);
	world_free(w);
}

static void jobs_of_no_use_make_it_wait(void **state)
{
	static const uint64_t waits_s[] = { 0, 60, 300, 900, 3600, 3600 };
	struct world *w = world_new(4);
	struct pool_job *job = add(w, 1000);

	(void)state;
	w->v.needed = 1;
	(void)snprintf(job->id, sizeof(job->id), "17");
	job->phase = POOL_JOB_ENDED;
	for (size_t i = 0; i < sizeof(waits_s) / sizeof(waits_s[0]); i++) {
		assert_int_equal(submits(w), 1);
		pool_note_vain(&w->st, job, "the job ends in 2m", w->v.now_s);
		assert_int_equal(pool_backoff_s(&w->st, w->v.now_s), waits_s[i]);
		assert_int_equal(submits(w), waits_s[i] ? 0 : 1);
		if (i)
			assert_non_null(strstr(w->st.error, "jobs in a row had agents that left"));
		w->v.now_s += waits_s[i];
		pool_note_submitted(&w->st); /* which says nothing of its use */
	}
	pool_note_useful(&w->st);
	assert_int_equal(pool_backoff_s(&w->st, w->v.now_s), 0);
	world_free(w);
}

static void what_waits_and_is_not_asked_for_any_more_is_replaced(void **state)
{
	struct world *w = world_new(4);
	struct pool_job *job = add(w, 10);

	(void)state;
	w->v.needed = 1;
	(void)snprintf(job->id, sizeof(job->id), "17");
	job->shape = pool_shape(&w->pool);
	assert_int_equal(submits(w), 0);
	w->pool.gpus = 8;
	assert_int_equal(submits(w), 1);
	assert_int_equal(w->d.n_cancel, 1);
	assert_int_equal(w->d.cancel[0], 0);
	job->began_s = NOW_S - 1; /* it has its node, and its agent may come */
	assert_int_equal(submits(w), 0);
	assert_int_equal(w->d.n_cancel, 0);
	job->began_s = 0;
	job->id[0] = '\0'; /* nor is anything known of this one */
	assert_int_equal(submits(w), 0);
	world_free(w);
}

/* One that is too small for what waits, and no more are allowed. */
static void what_serves_and_does_not_fit_is_said(void **state)
{
	struct world *w = world_new(1);

	(void)state;
	add_live(w);
	w->v.needed = 1;
	w->v.more = 1;
	pool_plan(&w->v, &w->st, &w->d);
	pool_say_next(&w->v, &w->st);
	assert_int_equal(w->d.submit, 0);
	assert_string_equal(w->st.next, "nothing: it has the 1 node that it may have");
	world_free(w);
}

static void no_more_than_its_caps(void **state)
{
	struct world *w = world_new(4);

	(void)state;
	w->pool.total_gpus = 5; /* two nodes of two */
	w->v.needed = 9;
	add_live(w);
	assert_int_equal(submits(w), 1);
	assert_int_equal(w->st.cap, 2);
	add_live(w);
	assert_int_equal(submits(w), 0);
	assert_string_equal(w->st.next, "nothing: it has the 2 nodes that it may have");
	/* What the engine lists and nobody has a record of counts, too. */
	w->pool.total_gpus = 0;
	w->v.strange = 2;
	assert_int_equal(submits(w), 0);
	w->v.strange = 1;
	assert_int_equal(submits(w), 1);
	world_free(w);
}

static void refusals_make_it_wait(void **state)
{
	static const uint64_t waits_s[] = { 60, 300, 900, 3600, 3600 };
	struct world *w = world_new(4);

	(void)state;
	w->v.needed = 1;
	for (size_t i = 0; i < sizeof(waits_s) / sizeof(waits_s[0]); i++) {
		assert_int_equal(submits(w), 1);
		pool_note_refused(&w->st, w->v.now_s);
		assert_int_equal(pool_backoff_s(&w->st, w->v.now_s), waits_s[i]);
		assert_int_equal(submits(w), 0);
		w->v.now_s += waits_s[i] - 1;
		assert_int_equal(submits(w), 0);
		assert_string_equal(w->st.next, "tries again in 1s");
		w->v.now_s += 1;
	}
	pool_note_submitted(&w->st);
	assert_int_equal(pool_backoff_s(&w->st, w->v.now_s), 0);
	world_free(w);
}

static void three_lost_in_a_row_pause_it_with_the_reason(void **state)
{
	struct world *w = world_new(4);
	struct pool_job *job = add(w, 1000);

	(void)state;
	w->v.needed = 1;
	(void)snprintf(job->id, sizeof(job->id), "17");
	(void)snprintf(job->node, sizeof(job->node), "qa-1");
	job->phase = POOL_JOB_ENDED;
	assert_int_equal(submits(w), 1);
	pool_note_lost(&w->st, job, "no such file");
	pool_note_lost(&w->st, job, "no such file");
	pool_note_reported(&w->st); /* the row is broken */
	pool_note_lost(&w->st, job, "no such file");
	pool_note_lost(&w->st, job, "no such file");
	assert_false(w->st.paused);
	pool_note_lost(&w->st, job, "no such file");
	assert_true(w->st.paused);
	assert_non_null(strstr(w->st.pause, "17 on qa-1"));
	assert_non_null(strstr(w->st.pause, "no such file"));
	assert_int_equal(submits(w), 0);
	assert_string_equal(w->st.next, "nothing, until tenure up is called again");
	w->pool.asked_ns++;
	assert_int_equal(submits(w), 1);
	assert_false(w->st.paused);
	world_free(w);
}

static void surplus_that_waits_is_cancelled_the_youngest_first(void **state)
{
	struct world *w = world_new(8);

	(void)state;
	add_live(w);
	add(w, 900);
	add(w, 500);
	add(w, POOL_SETTLE_S - 1); /* too young to be cancelled */
	w->v.needed = 2;
	assert_int_equal(submits(w), 0);
	assert_int_equal(w->d.n_cancel, 2);
	assert_int_equal(w->d.cancel[0], 2);
	assert_int_equal(w->d.cancel[1], 1);
	/* What serves is never cancelled. */
	w->v.needed = 0;
	assert_int_equal(submits(w), 0);
	for (size_t i = 0; i < w->d.n_cancel; i++)
		assert_int_not_equal(w->d.cancel[i], 0);
	world_free(w);
}

static void an_agent_that_does_not_report_in_time_is_given_up(void **state)
{
	struct world *w = world_new(8);
	struct pool_job *job = add(w, 5000);

	(void)state;
	w->v.needed = 1;
	assert_int_equal(submits(w), 0); /* it waits in the engine's queue, however long */
	assert_int_equal(w->d.n_cancel, 0);
	job->began_s = NOW_S - 600;
	assert_int_equal(submits(w), 0);
	assert_int_equal(w->d.n_cancel, 0);
	job->began_s--;
	(void)submits(w);
	assert_int_equal(w->d.n_cancel, 1);
	assert_non_null(strstr(w->d.why[0], "not reported"));
	world_free(w);
}

static void down_cancels_what_waits_at_once(void **state)
{
	struct world *w = world_new(8);

	(void)state;
	add_live(w);
	add(w, 0)->first = true;
	w->pool.down = true;
	w->v.needed = 5;
	assert_int_equal(submits(w), 0);
	assert_int_equal(w->d.n_cancel, 1);
	assert_int_equal(w->d.cancel[0], 1);
	assert_non_null(strstr(w->st.next, "it is down"));
	world_free(w);
}

static void what_is_kept_is_kept_for_its_time(void **state)
{
	struct world *w = world_new(2);

	(void)state;
	w->pool.min = 2;
	w->pool.keep_ms = 3600000;
	assert_int_equal(submits(w), 2);
	w->v.now_s += 3601;
	assert_int_equal(submits(w), 0);
	w->pool.keep_ms = 0; /* a minimum without a time stays */
	assert_int_equal(submits(w), 2);
	world_free(w);
}

static void count_changed(void *user, struct pool_job *job)
{
	(void)job;
	++*(int *)user;
}

/* Two of the same second, of which the other one comes first by its name; and one that waits. */
static void who_was_told_to_stay_does(void **state)
{
	struct world *w = world_new(8);
	int changed = 0;

	(void)state;
	add_live(w);
	pool_plan_stay(&w->jobs, 1, count_changed, &changed);
	assert_true(w->jobs.all[0].stay);
	add_live(w)->stay = true;
	w->jobs.all[0].stay = false;
	changed = 0;
	pool_plan_stay(&w->jobs, 1, count_changed, &changed);
	assert_true(!w->jobs.all[0].stay && w->jobs.all[1].stay);
	assert_int_equal(changed, 0);
	/* What waits is not there yet, whatever it was told before. */
	w->jobs.all[0].agent[0] = '\0';
	w->jobs.all[0].stay = true;
	w->jobs.all[1].stay = false;
	pool_plan_stay(&w->jobs, 1, count_changed, &changed);
	assert_true(!w->jobs.all[0].stay && w->jobs.all[1].stay);
	assert_int_equal(changed, 2);
	world_free(w);
}

static void the_oldest_stay(void **state)
{
	struct world *w = world_new(8);
	int changed = 0;

	(void)state;
	add(w, 900)->phase = POOL_JOB_ENDED;
	add_live(w);
	add(w, 10);
	add(w, 5);
	pool_plan_stay(&w->jobs, 2, count_changed, &changed);
	assert_int_equal(changed, 2);
	assert_true(!w->jobs.all[0].stay && w->jobs.all[1].stay && w->jobs.all[2].stay &&
		    !w->jobs.all[3].stay);
	pool_plan_stay(&w->jobs, 2, count_changed, &changed);
	assert_int_equal(changed, 2);
	w->jobs.all[1].phase = POOL_JOB_ENDED;
	pool_plan_stay(&w->jobs, 2, count_changed, &changed);
	assert_int_equal(changed, 3);
	assert_true(w->jobs.all[3].stay);
	pool_plan_stay(&w->jobs, 0, count_changed, &changed);
	assert_int_equal(changed, 5);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_asked_for_without_a_need),
		cmocka_unit_test(it_follows_the_queue_one_at_a_time),
		cmocka_unit_test(those_that_up_asked_for_come_at_once),
		cmocka_unit_test(as_many_as_up_asked_for_in_several_steps),
		cmocka_unit_test(jobs_of_no_use_make_it_wait),
		cmocka_unit_test(what_waits_and_is_not_asked_for_any_more_is_replaced),
		cmocka_unit_test(what_serves_and_does_not_fit_is_said),
		cmocka_unit_test(the_oldest_stay),
		cmocka_unit_test(who_was_told_to_stay_does),
		cmocka_unit_test(no_more_than_its_caps),
		cmocka_unit_test(refusals_make_it_wait),
		cmocka_unit_test(three_lost_in_a_row_pause_it_with_the_reason),
		cmocka_unit_test(surplus_that_waits_is_cancelled_the_youngest_first),
		cmocka_unit_test(an_agent_that_does_not_report_in_time_is_given_up),
		cmocka_unit_test(down_cancels_what_waits_at_once),
		cmocka_unit_test(what_is_kept_is_kept_for_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
