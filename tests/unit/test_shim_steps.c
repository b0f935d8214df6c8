/* SPDX-License-Identifier: MIT */

/* What the events of a task mean in each state of its shim, and what is said of that. GO is left
 * out: it starts a program (test_task.py). */

#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/shim_steps.h"

/* One that is in that state, as far as its actions look at it. */
static struct shim in_state(enum shim_state state)
{
	return (struct shim){ .state = state,
			      .spec = { .grace_ms = 5000 },
			      .started_ns = 1,
			      .grace_at_ns = UINT64_MAX,
			      .timeout_at_ns = UINT64_MAX,
			      .why = CAUSE_STOP,
			      .stop_grace_ms = STOP_GRACE_DEF };
}

static void events_lead_from_state_to_state(void **state)
{
	static const struct {
		enum shim_state from;
		enum shim_event ev;
		enum shim_state to;
	} cases[] = {
		{ SHIM_PREPARED, EV_CANCEL, SHIM_ENDED },
		{ SHIM_PREPARED, EV_STOP, SHIM_ENDED },
		{ SHIM_STARTING, EV_STARTED, SHIM_RUNNING },
		{ SHIM_STARTING, EV_NOT_STARTED, SHIM_ENDED },
		{ SHIM_RUNNING, EV_STOP, SHIM_STOPPING },
		{ SHIM_RUNNING, EV_CANCEL, SHIM_STOPPING },
		{ SHIM_RUNNING, EV_LEADER_GONE, SHIM_TRAILING },
		{ SHIM_TRAILING, EV_STOP, SHIM_STOPPING },
		{ SHIM_TRAILING, EV_REST, SHIM_STOPPING },
		{ SHIM_TRAILING, EV_TREE_GONE, SHIM_ENDED },
		{ SHIM_STOPPING, EV_STOP, SHIM_STOPPING },
		{ SHIM_STOPPING, EV_STARTED, SHIM_STOPPING },
		{ SHIM_STOPPING, EV_NOT_STARTED, SHIM_ENDED },
		{ SHIM_STOPPING, EV_GRACE_OVER, SHIM_KILLING },
		{ SHIM_STOPPING, EV_TREE_GONE, SHIM_ENDED },
		{ SHIM_KILLING, EV_ONLY_OTHERS, SHIM_ENDED },
		{ SHIM_KILLING, EV_NEVER_BEGAN, SHIM_ENDED },
		{ SHIM_KILLING, EV_TREE_GONE, SHIM_ENDED },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct shim sh = in_state(cases[i].from);

		shim_event(&sh, cases[i].ev);
		if (sh.state != cases[i].to)
			fail_msg("%s and event %d is %s", shim_state_name(cases[i].from),
				 cases[i].ev, shim_state_name(sh.state));
	}
}

/* What comes late, or twice, changes nothing. */
static void other_events_mean_nothing(void **state)
{
	static const struct {
		enum shim_state state;
		enum shim_event ev;
	} cases[] = {
		{ SHIM_PREPARED, EV_TREE_GONE },   { SHIM_PREPARED, EV_STARTED },
		{ SHIM_PREPARED, EV_GRACE_OVER },  { SHIM_STARTING, EV_GO },
		{ SHIM_STARTING, EV_LEADER_GONE }, { SHIM_STARTING, EV_TREE_GONE },
		{ SHIM_RUNNING, EV_GO },	   { SHIM_RUNNING, EV_TREE_GONE },
		{ SHIM_RUNNING, EV_REST },	   { SHIM_RUNNING, EV_NOT_STARTED },
		{ SHIM_RUNNING, EV_ONLY_OTHERS },  { SHIM_TRAILING, EV_GO },
		{ SHIM_TRAILING, EV_LEADER_GONE }, { SHIM_STOPPING, EV_GO },
		{ SHIM_STOPPING, EV_LEADER_GONE }, { SHIM_STOPPING, EV_ONLY_OTHERS },
		{ SHIM_KILLING, EV_GO },	   { SHIM_KILLING, EV_STOP },
		{ SHIM_KILLING, EV_GRACE_OVER },   { SHIM_KILLING, EV_LEADER_GONE },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct shim sh = in_state(cases[i].state), before;

		before = sh;
		shim_event(&sh, cases[i].ev);
		assert_memory_equal(&sh, &before, sizeof(sh));
	}
	for (unsigned int ev = 0; ev < EV_MAX; ev++) {
		struct shim sh = in_state(SHIM_ENDED), before;

		before = sh;
		shim_event(&sh, ev);
		assert_memory_equal(&sh, &before, sizeof(sh));
	}
}

/* ---- a stop ---- */

static void a_stop_before_go_is_a_task_that_never_ran(void **state)
{
	struct shim sh = in_state(SHIM_PREPARED);

	shim_stop(&sh, CAUSE_FENCED, SIGKILL, STOP_TREE, 0);
	assert_int_equal(sh.state, SHIM_ENDED);
	assert_int_equal(sh.rec.end.outcome, TASK_CANCELLED);
	assert_int_equal(sh.rec.end.cause, CAUSE_FENCED);
	assert_int_equal(sh.started_ns, 0);
}

static void a_stop_has_signal_and_grace(void **state)
{
	static const struct {
		int32_t spec, told, signal;
		uint32_t grace_ms;
		uint64_t after_ms;
	} cases[] = {
		{ 0, 0, SIGTERM, STOP_GRACE_DEF, 5000 },
		{ SIGINT, 0, SIGINT, STOP_GRACE_DEF, 5000 },
		{ SIGINT, SIGUSR1, SIGUSR1, 700, 700 },
		{ SIGINT, SIGKILL, SIGKILL, 0, 0 },
		/* Numbers that are no signals. */
		{ SIGINT, -1, SIGINT, 700, 700 },
		{ 0, NSIG, SIGTERM, 700, 700 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct shim sh = in_state(SHIM_RUNNING);
		uint64_t before = clock_mono_ns(), after;

		sh.spec.stop_signal = cases[i].spec;
		sh.timeout_at_ns = before + NS_PER_S;
		shim_stop(&sh, CAUSE_TIMEOUT, cases[i].told, STOP_LEADER, cases[i].grace_ms);
		after = clock_mono_ns();
		assert_int_equal(sh.state, SHIM_STOPPING);
		assert_int_equal(sh.stop_signal, cases[i].signal);
		assert_int_equal(sh.stop_scope, STOP_LEADER);
		assert_int_equal(sh.rec.end.cause, CAUSE_TIMEOUT);
		assert_true(sh.grace_at_ns >= before + cases[i].after_ms * NS_PER_MS);
		assert_true(sh.grace_at_ns <= after + cases[i].after_ms * NS_PER_MS);
		/* The first pass is due, and the time-out does not come any more. */
		assert_true(sh.pass_at_ns <= after && sh.pass_every_ns == PASS_FIRST_NS);
		assert_true(sh.timeout_at_ns == UINT64_MAX);
	}
}

/* Who is told again is only told to hurry: the signal and who gets it stay. */
static void a_second_stop_only_shortens_the_grace(void **state)
{
	struct shim sh = in_state(SHIM_RUNNING);
	uint64_t first;

	shim_stop(&sh, CAUSE_STOP, SIGINT, STOP_LEADER, 10000);
	first = sh.grace_at_ns;
	shim_stop(&sh, CAUSE_TIMEOUT, SIGUSR1, STOP_TREE, 60000);
	assert_true(sh.grace_at_ns == first);
	assert_int_equal(sh.stop_signal, SIGINT);
	assert_int_equal(sh.stop_scope, STOP_LEADER);
	assert_int_equal(sh.rec.end.cause, CAUSE_STOP);
	shim_stop(&sh, CAUSE_STOP, 0, STOP_TREE, 0);
	assert_true(sh.grace_at_ns < first && sh.grace_at_ns <= clock_mono_ns());
	assert_int_equal(sh.state, SHIM_STOPPING);
	shim_event(&sh, EV_GRACE_OVER);
	assert_int_equal(sh.state, SHIM_KILLING);
	assert_true(sh.grace_at_ns == UINT64_MAX && sh.pass_at_ns <= clock_mono_ns());
}

/* On the way to its program: where it has not passed the gate, nothing of it runs or will. */
static void a_stop_while_it_starts(void **state)
{
	struct shim sh = in_state(SHIM_STARTING);

	shim_stop(&sh, CAUSE_STOP, 0, STOP_TREE, STOP_GRACE_DEF);
	assert_int_equal(sh.state, SHIM_ENDED);
	assert_int_equal(sh.rec.end.outcome, TASK_CANCELLED);

	sh = in_state(SHIM_STARTING);
	sh.gate.is = GATE_PASSED;
	shim_stop(&sh, CAUSE_STOP, 0, STOP_TREE, STOP_GRACE_DEF);
	assert_int_equal(sh.state, SHIM_STOPPING);
	assert_int_equal(sh.rec.end.outcome, TASK_UNKNOWN);
	assert_int_equal(sh.rec.end.cause, CAUSE_STOP);
	/* Its start is told meanwhile. */
	sh.start_pid = 4711;
	shim_event(&sh, EV_STARTED);
	assert_int_equal(sh.leader, 4711);
	assert_int_equal(sh.rec.end.task_pid, 4711);
}

/* How its command ended is how the task did. */
static void a_stop_after_the_first_process_says_so(void **state)
{
	struct shim sh = in_state(SHIM_TRAILING);

	sh.leader_gone = true;
	shim_stop(&sh, CAUSE_REQUEUE, 0, STOP_TREE, STOP_GRACE_DEF);
	assert_int_equal(sh.rec.end.leader_first, 1);
	sh = in_state(SHIM_RUNNING);
	shim_stop(&sh, CAUSE_REQUEUE, 0, STOP_TREE, STOP_GRACE_DEF);
	assert_int_equal(sh.rec.end.leader_first, 0);
}

/* By its own wish: the others of its tree are ended as by a stop, which is nobody's. */
static void the_rest_of_a_tree_is_ended(void **state)
{
	struct shim sh = in_state(SHIM_TRAILING);

	sh.leader_gone = true;
	sh.spec.stop_signal = SIGHUP;
	sh.stop_grace_ms = 1; /* of a stop that came to nothing */
	shim_event(&sh, EV_REST);
	assert_int_equal(sh.state, SHIM_STOPPING);
	assert_int_equal(sh.rec.end.cause, CAUSE_SELF);
	assert_int_equal(sh.stop_signal, SIGHUP);
	assert_int_equal(sh.stop_scope, STOP_TREE);
	assert_true(sh.grace_at_ns > clock_mono_ns() + 4000 * NS_PER_MS);
}

/* ---- a start that fails ---- */

static void what_was_not_started_says_why(void **state)
{
	for (int fault = 0; fault < 2; fault++) {
		struct shim sh = in_state(SHIM_STARTING);

		sh.program.exit_code = EXIT_NOT_FOUND;
		sh.program.not_its_fault = fault;
		(void)err_set(&sh.start_err, -1, "there is no x");
		shim_event(&sh, EV_NOT_STARTED);
		assert_int_equal(sh.state, SHIM_ENDED);
		assert_int_equal(sh.rec.end.outcome, fault ? TASK_REFUSED : TASK_NOT_STARTED);
		assert_int_equal(sh.rec.end.exit_code, EXIT_NOT_FOUND);
		assert_string_equal(sh.rec.end.text, "cannot start: there is no x");
	}
}

static void what_never_began_has_not_run(void **state)
{
	struct shim sh = in_state(SHIM_KILLING);

	shim_event(&sh, EV_NEVER_BEGAN);
	assert_int_equal(sh.rec.end.outcome, TASK_CANCELLED);
	assert_int_equal(sh.started_ns, 0);
}

/* ---- what is said ---- */

/* Two connections; the ends of those who listen. */
static void connect_two(struct shim *sh, int *ends)
{
	for (size_t i = 0; i < 2; i++) {
		int pair[2];

		assert_int_equal(
			socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		sh->conns[i].fd = pair[0];
		ends[i] = pair[1];
	}
	sh->n_conns = 2;
}

static void hang_up(struct shim *sh, const int *ends)
{
	for (size_t i = 0; i < 2; i++) {
		(void)close(sh->conns[i].fd);
		(void)close(ends[i]);
	}
}

static void everybody_is_told_of_the_state(void **state)
{
	struct shim sh = in_state(SHIM_TRAILING);
	union shmsg m;
	int ends[2];

	connect_two(&sh, ends);
	(void)str_copy(sh.rec.token, sizeof(sh.rec.token), "default-42");
	sh.leader = 4711;
	sh.leader_gone = true;
	sh.rec.end.outcome = TASK_SIGNALLED;
	sh.rec.end.signal = SIGSEGV;
	shim_tell_status(&sh, SHMSG_STATUS);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(shmsg_recv(ends[i], &m), SHMSG_STATUS);
		assert_int_equal(m.status.state, SHIM_TRAILING);
		assert_int_equal(m.status.task_pid, 4711);
		assert_true(m.status.leader_ended && m.status.run_ns);
		assert_int_equal(m.status.leader_exit, SHMSG_SIGNALLED + SIGSEGV);
		assert_string_equal(m.status.token, "default-42");
	}
	shim_tell_ended(&sh);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(shmsg_recv(ends[i], &m), SHMSG_ENDED);
		assert_int_equal(m.ended.end.signal, SIGSEGV);
	}
	hang_up(&sh, ends);
}

/* Who asks is answered alone, of an end with the end. */
static void who_asks_is_answered(void **state)
{
	struct shim sh = in_state(SHIM_PREPARED);
	union shmsg m;
	int ends[2];

	connect_two(&sh, ends);
	sh.started_ns = 0;
	shim_answer(&sh, sh.conns[1].fd);
	assert_int_equal(shmsg_recv(ends[1], &m), SHMSG_STATUS);
	assert_true(m.status.state == SHIM_PREPARED && !m.status.run_ns && !m.status.leader_ended);
	sh.state = SHIM_ENDED;
	sh.rec.end.outcome = TASK_EXITED;
	sh.rec.end.exit_code = 3;
	shim_answer(&sh, sh.conns[1].fd);
	assert_int_equal(shmsg_recv(ends[1], &m), SHMSG_ENDED);
	assert_int_equal(m.ended.end.exit_code, 3);
	assert_int_equal(shmsg_recv(ends[0], &m), -EAGAIN);
	hang_up(&sh, ends);
}

/* Its first process is told of to who serves it. */
static void a_start_is_told(void **state)
{
	struct shim sh = in_state(SHIM_STARTING);
	union shmsg m;
	int ends[2];

	connect_two(&sh, ends);
	sh.start_pid = 4711;
	shim_event(&sh, EV_STARTED);
	assert_int_equal(shmsg_recv(ends[0], &m), SHMSG_STARTED);
	assert_int_equal(m.status.state, SHIM_RUNNING);
	assert_int_equal(m.status.task_pid, 4711);
	hang_up(&sh, ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_lead_from_state_to_state),
		cmocka_unit_test(other_events_mean_nothing),
		cmocka_unit_test(a_stop_before_go_is_a_task_that_never_ran),
		cmocka_unit_test(a_stop_has_signal_and_grace),
		cmocka_unit_test(a_second_stop_only_shortens_the_grace),
		cmocka_unit_test(a_stop_while_it_starts),
		cmocka_unit_test(a_stop_after_the_first_process_says_so),
		cmocka_unit_test(the_rest_of_a_tree_is_ended),
		cmocka_unit_test(what_was_not_started_says_why),
		cmocka_unit_test(what_never_began_has_not_run),
		cmocka_unit_test(everybody_is_told_of_the_state),
		cmocka_unit_test(who_asks_is_answered),
		cmocka_unit_test(a_start_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
