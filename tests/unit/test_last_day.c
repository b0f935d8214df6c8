/* SPDX-License-Identifier: MIT */

/* The last day, which the agent is asked for seldom enough. */

#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/agent_client.h"
#include "serve/history.h"
#include "serve/serve.h"

#define NO_AGENT "nobody is there"
#define THREADS	 4
#define ROUNDS	 10 /* of each */

static struct {
	uint64_t now_ns;
	uint64_t takes_ns; /* the agent, for an answer */
	uint64_t began_ns, ended_ns;
	unsigned int asked;
	atomic_int at_once; /* who ask it now */
	atomic_bool together;
	bool really, fails;
} world;

static _Thread_local uint64_t step_s;

uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return world.now_ns;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	world.now_ns += (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
	return 0;
}

int __wrap_request_query_num(struct request *r, const char *key, uint64_t otherwise, uint64_t max,
			     uint64_t *ret);
int __wrap_request_query_num(struct request *r, const char *key, uint64_t otherwise, uint64_t max,
			     uint64_t *ret)
{
	(void)r;
	(void)max;
	*ret = strcmp(key, "step") == 0 ? step_s : otherwise;
	return 0;
}

int __wrap_agent_ask(const struct cmd_ctx *ctx, const struct ctl_request *req, int timeout_ms,
		     json_t **ret, int *ret_fd, struct err *e);
int __wrap_agent_ask(const struct cmd_ctx *ctx, const struct ctl_request *req, int timeout_ms,
		     json_t **ret, int *ret_fd, struct err *e)
{
	(void)ctx;
	(void)timeout_ms;
	(void)ret_fd;
	assert_int_equal(req->verb, CTL_HISTORY);
	if (atomic_fetch_add(&world.at_once, 1) > 0)
		world.together = true;
	world.asked++;
	world.began_ns = world.now_ns;
	if (world.really)
		(void)usleep(2000);
	world.now_ns += world.takes_ns;
	world.ended_ns = world.now_ns;
	(void)atomic_fetch_sub(&world.at_once, 1);
	if (world.fails) {
		(void)err_set(e, -ECONNREFUSED, NO_AGENT);
		return CMD_NOTHING_RUNS;
	}
	*ret = json_pack("{s:i, s:I, s:[]}", "code", 0, "step_s", (json_int_t)req->element,
			 "devices");
	return CMD_OK;
}

static int begin(void **state)
{
	static struct serve all[8]; /* each with what it keeps to the end */
	static size_t n;

	memset(&world, 0, sizeof(world));
	world.now_ns = 5 * NS_PER_S;
	world.takes_ns = 30 * NS_PER_MS;
	all[n].history = history_seat_new();
	*state = &all[n++];
	return 0;
}

/* The status of the answer, and in ret_step what it is about. */
static unsigned int ask(struct serve *s, uint64_t step, json_int_t *ret_step)
{
	struct request r = { .serve = s };
	unsigned int status;
	json_t *doc;

	step_s = step;
	history_answer(s, &r);
	status = r.answer.status;
	doc = json_loads(r.answer.body, 0, NULL);
	assert_non_null(doc);
	*ret_step = json_integer_value(json_object_get(doc, "step_s"));
	assert_null(json_object_get(doc, "code"));
	if (status != MHD_HTTP_OK)
		assert_string_equal(json_string_value(json_object_get(doc, "detail")), NO_AGENT);
	json_decref(doc);
	answer_clear(&r.answer);
	return status;
}

static void it_is_left_alone_for_twice_as_long_as_it_took(void **state)
{
	uint64_t came_ns;
	json_int_t step;

	for (unsigned int n = 1; n <= 8; n++) {
		const uint64_t before_ns = world.ended_ns,
			       took_ns = world.ended_ns - world.began_ns;

		world.takes_ns = n * 7 * NS_PER_MS;
		assert_int_equal(ask(*state, n * 10, &step), MHD_HTTP_OK);
		assert_int_equal(step, n * 10);
		assert_int_equal(world.asked, n);
		if (n > 1)
			assert_int_equal(world.began_ns, before_ns + 2 * took_ns);
	}
	/* Who comes later than that waits for nothing. */
	world.now_ns += NS_PER_S;
	came_ns = world.now_ns;
	assert_int_equal(ask(*state, 5, &step), MHD_HTTP_OK);
	assert_int_equal(world.began_ns, came_ns);
}

static void the_same_question_has_the_same_answer_for_a_while(void **state)
{
	json_int_t step;

	for (int i = 0; i < 3; i++)
		assert_int_equal(ask(*state, 60, &step), MHD_HTTP_OK);
	world.now_ns = world.began_ns + HISTORY_FRESH_MS * NS_PER_MS - 1;
	assert_int_equal(ask(*state, 60, &step), MHD_HTTP_OK);
	assert_int_equal(world.asked, 1);
	world.now_ns++;
	assert_int_equal(ask(*state, 60, &step), MHD_HTTP_OK);
	assert_int_equal(world.asked, 2);
	assert_int_equal(ask(*state, 61, &step), MHD_HTTP_OK);
	assert_int_equal(step, 61);
	assert_int_equal(world.asked, 3);
}

static void an_agent_that_does_not_answer_is_said_and_asked_again(void **state)
{
	json_int_t step;

	world.fails = true;
	assert_int_equal(ask(*state, 60, &step), MHD_HTTP_SERVICE_UNAVAILABLE);
	world.fails = false;
	assert_int_equal(ask(*state, 60, &step), MHD_HTTP_OK);
	assert_int_equal(world.asked, 2);
	/* What it said before is no answer when it is gone. */
	world.fails = true;
	world.now_ns += HISTORY_FRESH_MS * NS_PER_MS;
	assert_int_equal(ask(*state, 60, &step), MHD_HTTP_SERVICE_UNAVAILABLE);
}

static void *ask_often(void *data)
{
	static atomic_int next = 100;
	json_int_t step;

	for (int n = 0; n < ROUNDS; n++) {
		const int mine = next++;

		if (ask(data, (uint64_t)mine, &step) != MHD_HTTP_OK || step != mine)
			return data;
	}
	return NULL;
}

static void it_is_asked_by_one_at_a_time(void **state)
{
	pthread_t threads[THREADS];
	void *failed;

	world.really = true;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, *state), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	assert_false(world.together);
	assert_int_equal(world.asked, THREADS * ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(it_is_left_alone_for_twice_as_long_as_it_took, begin),
		cmocka_unit_test_setup(the_same_question_has_the_same_answer_for_a_while, begin),
		cmocka_unit_test_setup(an_agent_that_does_not_answer_is_said_and_asked_again,
				       begin),
		cmocka_unit_test_setup(it_is_asked_by_one_at_a_time, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
