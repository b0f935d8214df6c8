/* SPDX-License-Identifier: MIT */

/*
 * Looks at gangs over a real spool, by two agents: what each of them writes, and what it makes of
 * what the other one has written. The clock is the test's.
 */

#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/attempt/claim.h"
#include "agent/queue/gang_lead.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "place_world.h"
#include "spool/agent_status.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"
#include "spool_world.h"

static uint64_t later_ns;

uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	static uint64_t base; /* what the test itself takes is no time of theirs */

	base = base ? base : __real_clock_mono_ns();
	return base + later_ns;
}

#define AGENTS 3

struct agent {
	const char *name;
	struct spool_place place;
	struct gang_lead *lead;
	bool dead, draining, quiet, only;
	bool shut; /* one of its devices is in quarantine */
	const char *pool;
	struct gang_look last;
};

static struct agent agents[AGENTS] = { { .name = "alpha" },
				       { .name = "beta" },
				       { .name = "gamma" } };
static struct agent *const alpha = &agents[0], *const beta = &agents[1], *const gamma_ = &agents[2];
static const struct gang_limits limits = { .muster_ms = 60000, .start_ms = 10000 };
static uint64_t id, edits; /* edits: of the version that is planned */

/* As if so many of its two devices were free. */
static void tell_status(const struct agent *a, unsigned int n_free)
{
	struct agent_status s = {
		.knows_gangs = true, .only = a->only, .free = n_free, .n_devices = 2
	};
	cleanup_free char *text = NULL;

	(void)str_copy(s.pool, sizeof(s.pool), a->pool ? a->pool : "");
	(void)str_copy(s.agent, sizeof(s.agent), a->name);
	for (unsigned int i = 0; i < s.n_devices; i++) {
		(void)str_print(s.devices[i].uuid, sizeof(s.devices[i].uuid), "GPU-%u", i);
		(void)str_copy(s.devices[i].model, sizeof(s.devices[i].model), "NVIDIA H200");
		s.devices[i].mem_bytes = 141ULL << 30;
		s.devices[i].shut = a->shut && i == 0;
		(void)str_copy(s.devices[i].state, sizeof(s.devices[i].state),
			       i < n_free ? "idle" : "lent");
	}
	text = agent_status_text(&s);
	assert_int_equal(agent_status_write(a->place.spool, a->name, text, NULL), 0);
}

static void tell_heartbeat(const struct agent *a, bool ended)
{
	struct heartbeat b = { .count = 1, .who = a->place.self, .ended = ended };
	char path[SPOOL_PATH_MAX];

	assert_int_equal(
		heartbeat_write(a->place.spool, heartbeat_agent_path(a->name, path), &b, NULL), 0);
}

static int begin(void **state)
{
	if (spool_setup(state) != 0)
		return -1;
	edits = 0;
	for (size_t i = 0; i < AGENTS; i++) {
		agents[i] = (struct agent){ .name = agents[i].name,
					    .place = open_place(agents[i].name),
					    .lead = gang_lead_new(&limits, 1) };
		tell_status(&agents[i], 2);
		tell_heartbeat(&agents[i], false);
	}
	id = submit(alpha->place.spool,
		    "{\"script\":\"x\",\"name\":\"job\",\"nodes\":2,\"gpus\":2}");
	return 0;
}

static int end(void **state)
{
	for (size_t i = 0; i < AGENTS; i++) {
		gang_look_clear(&agents[i].last);
		agents[i].lead = gang_lead_free(agents[i].lead);
		close_place(&agents[i].place);
	}
	return spool_teardown(state);
}

static void pass_ms(uint64_t ms)
{
	later_ns += ms * NS_PER_MS;
}

/* A look of that agent, which has these answers. The gang as it is then; NULL: there is none. */
static const struct gang *look_with(struct agent *a, const struct gang_own *own, size_t n_own)
{
	struct gang_look l = { .agent = a->name, .known = true, .n_own = n_own };

	pass_ms(10);
	look_around(&a->place);
	l.peers = xcalloc(AGENTS, sizeof(*l.peers));
	for (size_t i = 0; i < AGENTS; i++) {
		if (&agents[i] == a || agents[i].dead)
			continue;
		l.peers[l.n_peers] = (struct node_peer){ .draining = agents[i].draining,
							 .quiet = agents[i].quiet };
		(void)str_copy(l.peers[l.n_peers++].agent, sizeof(l.peers->agent), agents[i].name);
	}
	l.waiting = xcalloc(1, sizeof(*l.waiting));
	l.waiting[l.n_waiting++] = id;
	l.own = xcalloc(n_own + 1, sizeof(*l.own));
	for (size_t i = 0; i < n_own; i++)
		l.own[i] = own[i];
	gang_look_clear(&a->last);
	a->last = l;
	gang_look_work(a->lead, &a->last, &a->place);
	assert_int_equal(a->last.code, 0);
	return gang_find(&a->last.gangs, id);
}

static const struct gang *look(struct agent *a)
{
	return look_with(a, NULL, 0);
}

static const struct gang *answer(struct agent *a, const struct gang *g, struct gang_reply reply)
{
	struct gang_own own = { .id = id, .generation = g->generation, .reply = reply };

	own.rank = (size_t)gang_rank_of(g, a->name);
	return look_with(a, &own, 1);
}

static const struct gang *ready(struct agent *a, const struct gang *g)
{
	return answer(
		a, g,
		(struct gang_reply){ .answer = GANG_READY, .address = "10.0.0.1", .port = 777 });
}

static void assert_said(const struct agent *a, const char *text)
{
	if (!strstr(strbuf_str(&a->last.notes), text))
		fail_msg("\"%s\" is not in \"%s\"", text, strbuf_str(&a->last.notes));
}

static void assert_why(const struct agent *a, const char *text)
{
	assert_int_equal(a->last.n_whys, 1);
	if (!strstr(a->last.whys[0].text, text))
		fail_msg("\"%s\" is not in \"%s\"", text, a->last.whys[0].text);
}

/* What an attempt of a rank does in the spool. */
static struct claim claim_rank(struct agent *a, uint64_t element)
{
	struct batch *b = open_batch(a->place.spool, id, a->name);
	struct claim c;

	assert_int_equal(batch_claim(b, element, &a->place.self, &c, NULL), 0);
	b = batch_close(b);
	return c;
}

static void end_rank(struct agent *a, const struct claim *c, enum task_result result)
{
	struct batch *b = open_batch(a->place.spool, id, a->name);
	struct spool_end how = done(c);

	how.result = result;
	(void)str_copy(how.reason, sizeof(how.reason), "exit code 3, try 1 of 1");
	assert_int_equal(batch_end(b, NULL, c, &how, NULL), 0);
	b = batch_close(b);
}

static void requeue_rank(struct agent *a, const struct claim *c, bool outside)
{
	struct batch *b = open_batch(a->place.spool, id, a->name);
	struct spool_again again = { .outside = outside };

	(void)str_copy(again.reason, sizeof(again.reason),
		       outside ? "its node was lost" : "another rank of it has ended");
	assert_int_equal(batch_requeue(b, NULL, c, &again, NULL), 0);
	b = batch_close(b);
}

/* Called, ready and gone; both ranks are claimed and have begun. */
static const struct gang *start(struct claim claims[2])
{
	const struct gang *g = look(alpha);

	assert_non_null(g);
	claims[0] = claim_rank(alpha, 1);
	claims[1] = claim_rank(beta, 2);
	(void)ready(beta, g);
	g = ready(alpha, g);
	assert_true(g && g->decided && g->go);
	(void)answer(beta, g, (struct gang_reply){ .answer = GANG_BEGUN });
	return answer(alpha, g, (struct gang_reply){ .answer = GANG_BEGUN });
}

/* ---- the way through ---- */

static void only_the_leader_calls(void **state)
{
	const struct gang *g;

	assert_null(look(beta));
	assert_null(look(gamma_));
	assert_why(beta, "needs 2 nodes with 2 GPUs each at once; 3 of 3 agents have them");
	g = look(alpha);
	assert_non_null(g);
	assert_int_equal(g->generation, 1);
	assert_int_equal(g->n, 2);
	assert_int_equal(gang_rank_of(g, "alpha"), 0);
	assert_int_equal(gang_rank_of(g, "beta"), 1);
	assert_said(alpha, "its ranks are called: alpha, beta");
	assert_int_equal(look(alpha)->generation, 1); /* once */
	(void)look(beta);
	assert_why(
		beta,
		"waits for all ranks: 0 of 2 ranks have their GPUs; not yet: rank 0 on alpha, rank 1 on beta");
}

static void the_word_is_go_when_all_are_ready(void **state)
{
	const struct gang *g = look(alpha);

	g = ready(alpha, g);
	assert_false(g->decided);
	g = ready(beta, g);
	assert_false(g->decided); /* it is not its to say */
	g = look(alpha);
	assert_true(g->decided && g->go);
	assert_string_equal(g->address, "10.0.0.1");
	assert_int_equal(g->port, 777);
	assert_said(alpha, "they start, and meet at 10.0.0.1 port 777");
}

static void what_is_over_is_forgotten(void **state)
{
	struct claim c[2];

	(void)start(c);
	end_rank(alpha, &c[0], RESULT_DONE);
	end_rank(beta, &c[1], RESULT_DONE);
	assert_int_equal(ended_times(alpha->place.spool, id), 0);
	assert_non_null(look(alpha)); /* who ends the last one files it */
	{
		struct batch *b = open_batch(alpha->place.spool, id, "alpha");

		assert_true(batch_is_over(b));
		assert_int_equal(batch_commit(b, NULL), 0);
		b = batch_close(b);
	}
	for (int i = 0; i < 100 && look(alpha); i++) /* a directory is read when its time is new */
		(void)usleep(10000);
	assert_null(look(alpha));
	assert_int_equal(count_files(alpha->place.spool, "gangs"), 0);
}

/* ---- who may be called ---- */

static void who_is_not_to_be_asked_is_not_called(void **state)
{
	const struct gang *g;

	beta->draining = true;
	g = look(alpha);
	assert_int_equal(gang_rank_of(g, "beta"), -1);
	assert_int_equal(gang_rank_of(g, "gamma"), 1);
}

/* Its GPU in quarantine is idle, and would be waited for until gang_wait is over: it is not called,
 * though the others are busy. */
static void what_is_in_quarantine_is_no_room(void **state)
{
	const struct gang *g;

	beta->shut = true;
	tell_status(beta, 2);
	tell_status(gamma_, 0);
	g = look(alpha);
	assert_non_null(g);
	assert_int_equal(gang_rank_of(g, "beta"), -1);
	assert_int_equal(gang_rank_of(g, "gamma"), 1);
}

/* What it asks for, and what there is. */
static void what_nobody_has_is_told(void **state)
{
	id = submit(alpha->place.spool,
		    "{\"script\":\"x\",\"nodes\":2,\"model\":\"*A100*\",\"memory\":\"40G\"}");
	assert_null(look(alpha));
	assert_why(alpha, "needs 2 nodes with 1 GPU each (model *A100*, 40.0 GiB) at once; 0 of 3 "
			  "agents have them, and 0 could: there are NVIDIA H200 (141.0 GiB)");
}

static void who_is_silent_neither_leads_nor_is_called(void **state)
{
	const struct gang *g;

	alpha->quiet = true;
	g = look(beta);
	assert_non_null(g);
	assert_int_equal(gang_rank_of(g, "alpha"), -1);
}

/* Of a pool that is for tasks that name it, and for such a task. */
static void a_pool_has_its_own_tasks(void **state)
{
	alpha->pool = beta->pool = "night";
	alpha->only = beta->only = true;
	for (size_t i = 0; i < AGENTS; i++)
		tell_status(&agents[i], 2);
	assert_null(look(alpha));
	assert_why(alpha, "1 of 1 agent has them, and 1 could");
	id = submit(alpha->place.spool, "{\"script\":\"x\",\"nodes\":2,\"pool\":\"night\"}");
	assert_non_null(look(alpha));
	assert_int_equal(gang_rank_of(look(alpha), "gamma"), -1);
}

static void room_is_waited_for_where_nobody_has_more(void **state)
{
	const struct gang *g;

	tell_status(beta, 0);
	g = look(alpha);
	assert_int_equal(gang_rank_of(g, "gamma"), 1);
	assert_int_equal(gang_remove(alpha->place.spool, id, UINT64_MAX, NULL), 0);
	tell_status(gamma_, 1);
	pass_ms(100);
	g = look(alpha);
	assert_int_equal(gang_rank_of(g, "gamma"), 1); /* it has one already */
	assert_int_equal(gang_remove(alpha->place.spool, id, UINT64_MAX, NULL), 0);
	beta->dead = gamma_->dead = true;
	assert_null(look(alpha));
	assert_why(alpha, "1 of 1 agent has them, and 1 could");
}

/* ---- bad days ---- */

static void a_refusal_withdraws_and_is_avoided(void **state)
{
	const struct gang *g = look(alpha);
	struct gang_reply no = { .answer = GANG_REFUSES, .reason = "it is full" };

	(void)answer(beta, g, no);
	g = look(alpha);
	assert_true(g->decided && !g->go);
	assert_string_equal(g->reason, "rank 1 on beta cannot be started: it is full");
	assert_int_equal(look(alpha)->generation, 1); /* not at once */
	assert_why(alpha, "tried again in ");
	pass_ms(6000);
	g = look(alpha);
	assert_int_equal(g->generation, 2);
	assert_int_equal(gang_rank_of(g, "beta"), -1);
	assert_int_equal(count_files(alpha->place.spool, "gangs"), 1); /* the first one has gone */
}

static void a_rank_that_is_late_withdraws(void **state)
{
	const struct gang *g = look(alpha);

	gamma_->dead = true; /* or it would be called instead */
	g = ready(alpha, g);
	pass_ms(limits.muster_ms / 2);
	assert_false(look(alpha)->decided);
	pass_ms(limits.muster_ms);
	g = look(alpha);
	assert_true(g->decided && !g->go);
	assert_string_equal(g->reason, "rank 1 on beta has not got its GPUs within 1m 00s");
}

/* It was chosen by a status of before. Not at once, since that of now may not have come yet. */
static void a_rank_that_waits_is_called_where_there_is_room(void **state)
{
	const struct gang *g = look(alpha);

	g = ready(alpha, g);
	tell_status(alpha, 0);
	tell_status(beta, 0);
	assert_false(look(alpha)->decided);
	pass_ms(4000);
	g = look(alpha);
	assert_true(g->decided && !g->go);
	assert_string_equal(g->reason, "rank 1 on beta waits for GPUs, which other nodes have");
	tell_status(alpha, 2);
	pass_ms(100);
	g = look(alpha);
	assert_int_equal(g->generation, 2);
	assert_int_equal(gang_rank_of(g, "gamma"), 1);
	g = ready(alpha, g);
	tell_status(alpha, 0);
	pass_ms(4000); /* it takes its time, but nobody else has more */
	assert_false(look(alpha)->decided);
}

static struct task_name name_now(const struct agent *a)
{
	const struct scan_task *t = scan_find(a->place.scan, id, 0);

	assert_non_null(t);
	return t->name;
}

/* Its ranks would not all run what it says now, and a paused one keeps nobody's devices. All are
 * ready, even. */
static void what_is_changed_meanwhile_is_called_anew(void **state)
{
	const struct gang *g = look(alpha);
	struct task_name n = name_now(alpha);

	assert_int_equal(transit_pause(alpha->place.spool, &n, true, NULL), 0);
	(void)ready(beta, g);
	g = ready(alpha, g);
	assert_true(g->decided && !g->go);
	assert_string_equal(g->reason, "the task was paused");
	n = name_now(alpha);
	assert_int_equal(transit_pause(alpha->place.spool, &n, false, NULL), 0);
	g = look(alpha); /* at once: it is no node's fault */
	assert_int_equal(g->generation, 2);
	assert_int_equal(g->edits, 2);
	(void)ready(beta, g);
	g = ready(alpha, g);
	assert_true(g->decided && g->go);
}

static void an_agent_that_is_gone_before_go_withdraws(void **state)
{
	const struct gang *g = look(alpha);

	(void)ready(alpha, g);
	beta->dead = true;
	g = look(alpha);
	assert_true(g->decided && !g->go);
	assert_string_equal(g->reason, "rank 1 on beta: its agent is not there any more");
}

/* Who looks at the others has not heard of it yet, and it said that it was ready. */
static void an_agent_that_has_left_is_not_counted_upon(void **state)
{
	const struct gang *g = look(alpha);

	(void)ready(beta, g);
	tell_heartbeat(beta, true);
	g = ready(alpha, g);
	assert_true(g->decided && !g->go);
	assert_string_equal(g->reason, "rank 1 on beta: its agent is not there any more");
}

/* Its claim is still there: nothing is called before that is gone. */
static void what_is_claimed_is_waited_for(void **state)
{
	const struct gang *g = look(alpha);
	struct claim c = claim_rank(beta, 2);

	(void)answer(beta, g, (struct gang_reply){ .answer = GANG_REFUSES });
	(void)look(alpha);
	pass_ms(10000);
	assert_int_equal(look(alpha)->generation, 1);
	assert_why(alpha, "waits until all its ranks have ended");
	requeue_rank(beta, &c, false);
	g = look(alpha);
	assert_int_equal(g->generation, 2);
	assert_int_equal(g->ranks[(size_t)gang_rank_of(g, "alpha")].epoch, 0);
}

static void a_rank_that_fails_ends_all_for_good(void **state)
{
	struct claim c[2];
	const struct gang *g;

	(void)start(c);
	end_rank(beta, &c[1], RESULT_FAILED);
	g = look(alpha);
	assert_true(g->ended);
	assert_string_equal(g->reason,
			    "rank 1 on beta failed (exit code 3, try 1 of 1); its log is "
			    "logs/1.2-job.1.log");
	requeue_rank(alpha, &c[0], false);
	(void)look(alpha);
	assert_int_equal(ended_times(alpha->place.spool, id), 1);
	assert_null(look(alpha));
}

/* A lost node, by which the other rank failed: both run again. */
static void a_lost_node_runs_all_again(void **state)
{
	struct claim c[2];
	const struct gang *g;

	(void)start(c);
	end_rank(alpha, &c[0], RESULT_FAILED);
	beta->dead = true;
	g = look(alpha);
	assert_true(g->ended);
	assert_int_equal(look(alpha)->generation, 1); /* its claim has not expired */
	requeue_rank(gamma_, &c[1], true);
	g = look(alpha);
	assert_int_equal(g->generation, 2);
	assert_int_equal(g->ranks[0].epoch, 1);
	assert_int_equal(g->ranks[1].epoch, 1);
	assert_int_equal(gang_rank_of(g, "gamma"), 1);
}

/* The next leader, whatever the last one had done. */
static void the_next_leader_goes_on(void **state)
{
	struct claim c[2];
	const struct gang *g = look(alpha);

	c[0] = claim_rank(alpha, 1);
	c[1] = claim_rank(beta, 2);
	g = ready(alpha, g);
	(void)ready(beta, g);
	alpha->quiet = true; /* its rank waits for the word all the same */
	g = look(beta);
	assert_true(g->decided && !g->go);
	requeue_rank(alpha, &c[0], false);
	requeue_rank(beta, &c[1], false);
	pass_ms(10000);
	g = look(beta);
	assert_int_equal(g->generation, 2);
	assert_int_equal(gang_rank_of(g, "alpha"), -1);
}

/* The other one has not seen that it is none any more: what it says comes second. */
static void two_leaders_say_one_thing(void **state)
{
	const struct gang *g = look(alpha), *other;

	(void)claim_rank(alpha, 1);
	(void)claim_rank(beta, 2);
	g = ready(alpha, g);
	(void)ready(beta, g);
	alpha->dead = true;
	other = look(beta); /* withdraws, since an agent is gone */
	assert_true(other->decided && !other->go);
	alpha->dead = false;
	g = look(alpha);
	assert_true(g->decided && !g->go);
	assert_int_equal(g->generation, other->generation);
}

/* ---- who may claim ---- */

/* As the plan of that agent would have it start this rank. */
static int try_to_claim(struct agent *a, uint32_t element, unsigned int *ret_tries)
{
	struct claiming c = { .ref = { id, element },
			      .edits = edits,
			      .key = "key",
			      .run_dir = "/tmp",
			      .log_fd = -1 };

	look_around(&a->place);
	claiming_work(&c.job, &a->place);
	(void)fd_close(c.log_fd);
	spec_free(c.spec);
	if (ret_tries)
		*ret_tries = c.tries;
	return c.code;
}

static void assert_not_claimed(struct agent *a, uint32_t element)
{
	int before = count_files(a->place.spool, "running");

	assert_int_equal(try_to_claim(a, element, NULL), CLAIM_LOST);
	assert_int_equal(count_files(a->place.spool, "running"), before);
}

/* Whatever a plan says that has not heard of it yet. */
static void nobody_claims_a_rank_but_who_is_called(void **state)
{
	const struct gang *g;

	assert_not_claimed(alpha, 1); /* nothing was called */
	g = look(alpha);
	assert_not_claimed(gamma_, 1);
	assert_not_claimed(alpha, 2); /* beta's */
	(void)answer(beta, g, (struct gang_reply){ .answer = GANG_REFUSES });
	assert_false(gang_stands(look(alpha)));
	assert_not_claimed(alpha, 1); /* it was withdrawn */
	pass_ms(10000);
	beta->draining = false;
	(void)look(alpha);
	assert_int_equal(try_to_claim(alpha, 1, NULL), 0);
}

/* The call was for the attempt before. */
static void a_rank_of_another_epoch_is_not_claimed(void **state)
{
	struct claim c;

	(void)look(alpha);
	c = claim_rank(alpha, 1);
	requeue_rank(alpha, &c, false);
	assert_not_claimed(alpha, 1);
}

/* The call was for what the task said before, or its agent has not read what it says now. */
static void a_rank_of_another_version_is_not_claimed(void **state)
{
	struct task_name n;

	(void)look(alpha);
	n = name_now(alpha);
	assert_int_equal(transit_priority(alpha->place.spool, &n, 7, NULL), 0);
	look_around(&alpha->place);
	edits = name_now(alpha).edits;
	assert_not_claimed(alpha, 1);
	(void)look(alpha); /* withdrawn */
	assert_int_equal(look(alpha)->generation, 2);
	place_forget_batch(&alpha->place, id); /* as reading what was edited does */
	assert_int_equal(try_to_claim(alpha, 1, NULL), 0);
}

static void a_gang_is_tried_as_often_as_its_unluckiest_rank(void **state)
{
	struct spool_again again = { .attempts = 2, .reason = "exit code 1" };
	unsigned int tries = 0;
	struct claim c;
	struct batch *b;

	(void)look(alpha);
	c = claim_rank(beta, 2);
	b = open_batch(beta->place.spool, id, "beta");
	assert_int_equal(batch_requeue(b, NULL, &c, &again, NULL), 0);
	b = batch_close(b);
	pass_ms(10000);
	(void)look(alpha); /* withdrawn */
	pass_ms(10000);
	assert_int_equal(look(alpha)->generation, 2);
	assert_int_equal(try_to_claim(alpha, 1, &tries), 0);
	assert_int_equal(tries, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_the_leader_calls, begin, end),
		cmocka_unit_test_setup_teardown(the_word_is_go_when_all_are_ready, begin, end),
		cmocka_unit_test_setup_teardown(what_is_over_is_forgotten, begin, end),
		cmocka_unit_test_setup_teardown(who_is_not_to_be_asked_is_not_called, begin, end),
		cmocka_unit_test_setup_teardown(what_is_in_quarantine_is_no_room, begin, end),
		cmocka_unit_test_setup_teardown(what_nobody_has_is_told, begin, end),
		cmocka_unit_test_setup_teardown(who_is_silent_neither_leads_nor_is_called, begin,
						end),
		cmocka_unit_test_setup_teardown(a_pool_has_its_own_tasks, begin, end),
		cmocka_unit_test_setup_teardown(room_is_waited_for_where_nobody_has_more, begin,
						end),
		cmocka_unit_test_setup_teardown(a_refusal_withdraws_and_is_avoided, begin, end),
		cmocka_unit_test_setup_teardown(a_rank_that_is_late_withdraws, begin, end),
		cmocka_unit_test_setup_teardown(a_rank_that_waits_is_called_where_there_is_room,
						begin, end),
		cmocka_unit_test_setup_teardown(what_is_changed_meanwhile_is_called_anew, begin,
						end),
		cmocka_unit_test_setup_teardown(an_agent_that_is_gone_before_go_withdraws, begin,
						end),
		cmocka_unit_test_setup_teardown(an_agent_that_has_left_is_not_counted_upon, begin,
						end),
		cmocka_unit_test_setup_teardown(what_is_claimed_is_waited_for, begin, end),
		cmocka_unit_test_setup_teardown(a_rank_that_fails_ends_all_for_good, begin, end),
		cmocka_unit_test_setup_teardown(a_lost_node_runs_all_again, begin, end),
		cmocka_unit_test_setup_teardown(the_next_leader_goes_on, begin, end),
		cmocka_unit_test_setup_teardown(two_leaders_say_one_thing, begin, end),
		cmocka_unit_test_setup_teardown(nobody_claims_a_rank_but_who_is_called, begin, end),
		cmocka_unit_test_setup_teardown(a_rank_of_another_epoch_is_not_claimed, begin, end),
		cmocka_unit_test_setup_teardown(a_rank_of_another_version_is_not_claimed, begin,
						end),
		cmocka_unit_test_setup_teardown(a_gang_is_tried_as_often_as_its_unluckiest_rank,
						begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
