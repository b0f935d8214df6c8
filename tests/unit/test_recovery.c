/* SPDX-License-Identifier: MIT */

/* What an agent says of tasks while it is not known yet which of them are its own. */

#include "unit.h"

#include "agent/queue/recovery.h"

/* The spooler works when it is asked to; what it would find is nothing. */
static struct spool_job *asked;

void __wrap_spooler_do(struct spooler *s, struct spool_job *job);
void __wrap_spooler_do(struct spooler *s, struct spool_job *job)
{
	assert_null(asked);
	asked = job;
}

static void work(void)
{
	struct spool_job *job = asked;

	assert_non_null(job);
	asked = NULL;
	job->done(job);
}

static void opened(void *user, const char *cgroup)
{
}

static void recovered(void *user, const struct text_list *lanes)
{
}

static void reclaimed(void *user)
{
}

static bool owns(void *user, struct sched_ref ref)
{
	return false;
}

/* Before the queue is open that may be any task; while claims are looked at, those alone. */
static void test_may_have(void **state)
{
	static const struct recovery_ops ops = {
		.opened = opened, .recovered = recovered, .reclaimed = reclaimed, .owns = owns
	};
	const struct dirwatch watch = { .fd = -1 };
	const struct recovery_parts parts = { .watch = &watch };
	struct dead_claims claims = { 0 };
	struct recovery *r;
	uv_loop_t loop;

	assert_int_equal(uv_loop_init(&loop), 0);
	r = recovery_new(&loop, &parts, &ops, NULL);
	recovery_start(r);
	assert_true(recovery_may_have(r, 7));
	work();
	assert_false(recovery_may_have(r, 7));

	dead_claims_add(&claims, "running/00500,7,e1,nx,cother", HOLDER_DEAD);
	dead_claims_add(&claims, "running/9.2,e1", HOLDER_DEAD);
	recovery_reclaim(r, &claims);
	assert_true(recovery_may_have(r, 7) && recovery_may_have(r, 9));
	assert_false(recovery_may_have(r, 8));
	work();
	assert_false(recovery_may_have(r, 7) || recovery_may_have(r, 9));

	dead_claims_clear(&claims);
	recovery_free(r);
	assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_may_have),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
