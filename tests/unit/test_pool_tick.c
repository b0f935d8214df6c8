/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "pool/owner.h"
#include "pool/plan.h"
#include "pool/tick.h"
#include "spool/agent_status.h"
#include "spool/heartbeat.h"
#include "spool/instance.h"
#include "spool_world.h"

/* ---- an engine that does as it is told ---- */

static struct {
	int submit_code, jobs_code;  /* what it answers */
	bool keeps;		     /* it takes the job, whatever it answers */
	bool refuses_exclusion;	     /* a job that is not to run on some node */
	enum engine_job_state state; /* of all that it has */
	size_t other_ids;	     /* it lists them under numbers so much higher */
	unsigned int submits, polls;
	size_t n_cancelled;
	size_t n; /* that it has */
	char names[32][ENGINE_JOB_NAME_MAX];
	struct text_list excluded;
	char after[ENGINE_JOB_ID_MAX];
	const struct spool *forgets; /* the next one who has read the pool finds it forgotten */
} fake;

static int fake_render(const struct engine_request *req, struct strbuf *script, struct err *e)
{
	(void)e;
	strbuf_addf(script, "run %s\n", req->agent[0]);
	return 0;
}

static int fake_submit(const struct engine_env *env, const struct engine_request *req,
		       const char *script, char **ret_id, struct err *e)
{
	(void)env, (void)script;
	fake.submits++;
	text_list_clear(&fake.excluded);
	if (req->exclude)
		fake.excluded = text_list_copy(req->exclude);
	(void)str_copy(fake.after, sizeof(fake.after), req->after ? req->after : "");
	if (fake.refuses_exclusion && req->exclude && req->exclude->n)
		return err_set(e, ENGINE_REFUSED, "fake: no other node");
	if (fake.submit_code == 0 || fake.keeps)
		(void)str_copy(fake.names[fake.n++], sizeof(fake.names[0]), req->name);
	if (fake.submit_code)
		return err_set(e, fake.submit_code, "fake: no");
	*ret_id = xasprintf("%zu", fake.n);
	return 0;
}

static int fake_jobs(const struct engine_env *env, const char *prefix, struct engine_jobs *ret,
		     struct err *e)
{
	(void)env;
	*ret = (struct engine_jobs){ .n = 0 };
	fake.polls++;
	if (fake.jobs_code)
		return err_set(e, fake.jobs_code, "fake: no list");
	for (size_t i = 0; i < fake.n; i++) {
		struct engine_job *job;

		if (!str_has_prefix(fake.names[i], prefix))
			continue;
		job = engine_jobs_add(ret);
		job->id = xasprintf("%zu", i + 1 + fake.other_ids);
		job->name = xstrdup(fake.names[i]);
		job->node = xstrdup("qa-1");
		job->state = fake.state;
		job->reason = xstrdup("Resources");
	}
	return 0;
}

static int fake_cancel(const struct engine_env *env, const struct text_list *ids, struct err *e)
{
	(void)env, (void)e;
	fake.n_cancelled += ids->n;
	return 0;
}

static const struct engine fake_engine = { .name = "fake",
					   .follows = true,
					   .render = fake_render,
					   .submit = fake_submit,
					   .jobs = fake_jobs,
					   .cancel = fake_cancel };

const struct engine *__wrap_engine_find(const char *name);
const struct engine *__wrap_engine_find(const char *name)
{
	const struct spool *sp = fake.forgets;

	fake.forgets = NULL;
	if (sp)
		assert_int_equal(pool_forget(sp, "main", NULL), 0);
	return strcmp(name, "fake") == 0 ? &fake_engine : NULL;
}

/* ---- somebody else who ticks ---- */

/* Another one who is done while it is waited for, and a third one who begins then. */
static struct {
	const struct spool *sp; /* NULL: nobody waits */
	struct pool_owner owner;
} other;

/* Time passes where somebody waits, and else not at all. */
static uint64_t mono_ns = NS_PER_S;

uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return mono_ns;
}

int __wrap_usleep(useconds_t us);
int __wrap_usleep(useconds_t us)
{
	struct err e = ERR_INIT;

	mono_ns += us * NS_PER_US;
	if (!other.sp)
		return 0;
	pool_disown(other.sp, &other.owner);
	assert_int_equal(pool_own(other.sp, "main", &other.owner, &e), 0);
	other.sp = NULL;
	return 0;
}

/* ---- a pool of it ---- */

struct world {
	struct spool *sp;
	struct pool pool;
	struct pool_caller caller;
	struct pool_report report;
};

static const char *const no_environ[] = { NULL };

static struct world begin(void)
{
	struct world w = {
		.sp = open_spool(),
		.pool = { .name = "main",
			  .engine = "fake",
			  .prefix = "tenure",
			  .gpus = 2,
			  .max = 4,
			  .start_ms = 600000,
			  .idle_ms = 300000,
			  .asked_ns = 1 },
		.caller = { .environ = no_environ, .root = spool_world_root(), .expire_ms = 300000 }
	};
	struct err e = ERR_INIT;

	text_list_clear(&fake.excluded);
	(void)memset(&fake, 0, sizeof(fake));
	assert_int_equal(pool_write(w.sp, &w.pool, &e), 0);
	return w;
}

static void end(struct world *w)
{
	pool_report_clear(&w->report);
	w->sp = spool_close(w->sp);
	text_list_clear(&fake.excluded);
}

static void tick(struct world *w)
{
	struct err e = ERR_INIT;

	pool_report_clear(&w->report);
	assert_int_equal(pool_tick(w->sp, "main", &w->caller, &w->report, &e), 0);
}

static void write_pool(struct world *w)
{
	struct err e = ERR_INIT;

	assert_int_equal(pool_write(w->sp, &w->pool, &e), 0);
}

/* All that is remembered happened so much earlier. */
static void pass(struct world *w, uint64_t seconds)
{
	struct pool_jobs jobs = { .n = 0 };
	struct pool_state st;
	struct err e = ERR_INIT;

	assert_int_equal(pool_state_read(w->sp, "main", &st, NULL), 0);
	st.polled_s -= st.polled_s ? seconds : 0;
	st.tried_s -= st.tried_s ? seconds : 0;
	assert_int_equal(pool_state_write(w->sp, "main", &st, &e), 0);
	assert_int_equal(pool_jobs_read(w->sp, "main", &jobs, &e), 0);
	for (size_t i = 0; i < jobs.n; i++) {
		jobs.all[i].submitted_s -= seconds;
		jobs.all[i].began_s -= jobs.all[i].began_s ? seconds : 0;
		assert_int_equal(pool_job_write(w->sp, "main", &jobs.all[i], false, &e), 0);
	}
	pool_jobs_clear(&jobs);
}

static struct pool_job only_job(struct world *w)
{
	struct pool_jobs jobs = { .n = 0 };
	struct pool_job job;
	struct err e = ERR_INIT;

	assert_int_equal(pool_jobs_read(w->sp, "main", &jobs, &e), 0);
	assert_int_equal(jobs.n, 1);
	job = jobs.all[0];
	pool_jobs_clear(&jobs);
	return job;
}

static void need_one(struct world *w)
{
	(void)submit(w->sp, "{\"commands\":[\"true\"],\"gpus\":1}");
}

/* An agent of that job comes up. */
static void report(struct world *w, const char *agent, const char *token, bool ended)
{
	struct heartbeat b = { .count = 1, .who = self(w->sp, agent), .ended = ended };
	struct agent_status s = { .end_ns = 0 };
	cleanup_free char *text = NULL;
	char path[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;

	(void)str_copy(s.agent, sizeof(s.agent), agent);
	(void)str_copy(s.host, sizeof(s.host), "qa-1");
	(void)str_copy(s.token, sizeof(s.token), token);
	text = agent_status_text(&s);
	assert_int_equal(agent_status_write(w->sp, agent, text, &e), 0);
	assert_int_equal(heartbeat_write(w->sp, heartbeat_agent_path(agent, path), &b, &e), 0);
}

/* ---- tests ---- */

static void a_job_is_recorded_with_its_script(void **state)
{
	struct world w = begin();
	struct pool_job job;
	char path[SPOOL_PATH_MAX], file[32];

	(void)state;
	tick(&w);
	assert_int_equal(fake.submits, 0); /* nothing needs it */
	assert_int_equal(fake.polls, 0);
	need_one(&w);
	tick(&w);
	assert_int_equal(fake.submits, 1);
	job = only_job(&w);
	assert_int_equal(job.phase, POOL_JOB_SUBMITTED);
	assert_string_equal(job.id, "1");
	assert_true(spool_exists(w.sp,
				 pool_path_of("main", pool_job_file(job.token, "sh", file), path)));
	assert_true(str_has_suffix(fake.names[0], job.token));
	tick(&w);
	assert_int_equal(fake.submits, 1);
	assert_string_equal(w.report.state.next, "waits for 1 job to start");
	end(&w);
}

static void the_engine_is_asked_once_a_minute_at_most(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	tick(&w);
	tick(&w);
	assert_int_equal(fake.polls, 1);
	tick(&w);
	assert_int_equal(fake.polls, 1);
	pass(&w, 61);
	tick(&w);
	assert_int_equal(fake.polls, 2);
	assert_string_equal(only_job(&w).reason, "Resources");
	/* And not at all while every agent lives. */
	report(&w, "n1", only_job(&w).token, false);
	pass(&w, 61);
	tick(&w);
	tick(&w);
	assert_int_equal(fake.polls, 2);
	end(&w);
}

/* Something else that has its name is not it. */
static void the_id_that_was_given_stays(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	tick(&w);
	fake.other_ids = 7;
	fake.state = ENGINE_JOB_RUNNING;
	pass(&w, 30);
	tick(&w);
	assert_int_equal(fake.polls, 1);
	assert_string_equal(only_job(&w).id, "1");
	assert_int_equal(only_job(&w).began_s, 0);
	pass(&w, 61);
	tick(&w);
	assert_int_equal(fake.submits, 2); /* the first one has gone */
	end(&w);
}

/* The answer was lost: sbatch timed out, and the job is there. */
static void what_may_have_been_submitted_is_looked_up_first(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	fake.submit_code = ENGINE_UNSURE;
	fake.keeps = true;
	tick(&w);
	assert_int_equal(only_job(&w).phase, POOL_JOB_SUBMITTING);
	assert_string_equal(only_job(&w).id, "");
	pass(&w, 4000);
	fake.submit_code = 0;
	tick(&w);
	assert_int_equal(fake.submits, 1);
	assert_int_equal(only_job(&w).phase, POOL_JOB_SUBMITTED);
	assert_string_equal(only_job(&w).id, "1");
	end(&w);
}

static void what_was_never_taken_is_submitted_anew(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	fake.submit_code = ENGINE_UNSURE;
	tick(&w);
	fake.submit_code = 0;
	pass(&w, 50); /* not listed yet: an engine may take a moment */
	tick(&w);
	assert_int_equal(fake.submits, 1);
	pass(&w, 70);
	tick(&w);
	assert_int_equal(fake.submits, 2);
	assert_int_equal(w.report.state.lost, 0); /* it never was a job */
	end(&w);
}

static void a_refusal_is_shown_and_not_repeated_at_once(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	fake.submit_code = ENGINE_REFUSED;
	tick(&w);
	assert_string_equal(w.report.state.error, "fake: no");
	assert_string_equal(w.report.state.next, "tries again in 1m 00s");
	assert_int_equal(w.report.refused, 1);
	tick(&w);
	assert_int_equal(fake.submits, 1);
	pass(&w, 61);
	fake.submit_code = 0;
	tick(&w);
	assert_int_equal(fake.submits, 2);
	assert_int_equal(w.report.state.refusals, 0);
	end(&w);
}

static void a_node_without_the_commands_leaves_it_to_others(void **state)
{
	struct world w = begin();
	struct pool_state before, after;

	(void)state;
	need_one(&w);
	fake.submit_code = ENGINE_REFUSED;
	tick(&w);
	pass(&w, 61);
	assert_int_equal(pool_state_read(w.sp, "main", &before, NULL), 0);
	fake.submit_code = -ENOENT;
	w.caller.by_agent = true;
	tick(&w);
	assert_int_equal(pool_state_read(w.sp, "main", &after, NULL), 0);
	assert_memory_equal(&before, &after, sizeof(before));
	/* A person is told. */
	w.caller.by_agent = false;
	tick(&w);
	assert_string_equal(w.report.state.error, "fake: no");
	assert_int_equal(w.report.state.refusals, 1); /* and that is no refusal */
	end(&w);
}

static void a_listing_that_fails_changes_nothing(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	tick(&w);
	fake.jobs_code = -EIO;
	pass(&w, 1000);
	tick(&w);
	assert_string_equal(w.report.state.error, "fake: no list");
	assert_int_equal(only_job(&w).phase, POOL_JOB_SUBMITTED);
	assert_int_equal(fake.submits, 1);
	end(&w);
}

static void a_job_of_which_an_agent_lives_is_alive_whatever_the_engine_says(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	tick(&w);
	report(&w, "n1", only_job(&w).token, false);
	fake.n = 0; /* it has forgotten it */
	pass(&w, 1000);
	tick(&w);
	assert_int_equal(only_job(&w).phase, POOL_JOB_SUBMITTED);
	assert_string_equal(only_job(&w).agent, "n1");
	assert_int_equal(w.report.state.live, 1);
	report(&w, "n1", only_job(&w).token, true);
	tick(&w);
	assert_int_equal(w.report.state.lost, 0);
	end(&w);
}

static void three_that_never_report_pause_it(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	for (int i = 0; i < 3; i++) {
		tick(&w);
		fake.n = 0;
		pass(&w, 1000);
	}
	tick(&w);
	assert_true(w.report.state.paused);
	assert_int_equal(fake.submits, 3);
	pass(&w, 100000);
	tick(&w);
	assert_int_equal(fake.submits, 3);
	end(&w);
}

static void an_agent_that_is_late_is_given_up(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	tick(&w);
	fake.state = ENGINE_JOB_RUNNING;
	pass(&w, 61);
	tick(&w); /* it runs since now */
	pass(&w, 599);
	tick(&w);
	assert_int_equal(fake.n_cancelled, 0);
	pass(&w, 61);
	tick(&w);
	assert_int_equal(fake.n_cancelled, 1);
	assert_int_equal(w.report.state.lost, 1);
	pass(&w, 61);
	tick(&w);
	assert_int_equal(fake.submits, 2);
	/* No agent has ever come up: maybe it is not the node. */
	assert_int_equal(fake.excluded.n, 0);
	end(&w);
}

/* A job of it that has ended, as its record says. */
static void add_ended(struct world *w, const char *token, const char *node, bool lost)
{
	struct pool_job job = { .phase = POOL_JOB_ENDED,
				.lost = lost,
				.asked_ns = w->pool.asked_ns,
				.submitted_s = 1000,
				.ended_s = 2000 };
	struct err e = ERR_INIT;

	(void)str_copy(job.token, sizeof(job.token), token);
	(void)str_copy(job.node, sizeof(job.node), node);
	(void)str_copy(job.agent, sizeof(job.agent), lost ? "" : "n1");
	assert_int_equal(pool_job_write(w->sp, "main", &job, false, &e), 0);
}

static void a_node_is_avoided_where_there_are_others(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	add_ended(&w, "aaabbb", "qa-1", true);
	add_ended(&w, "aaaccc", "qa-1", true);
	add_ended(&w, "aaaddd", "qa-2", false);
	tick(&w);
	assert_int_equal(fake.excluded.n, 1);
	assert_string_equal(fake.excluded.texts[0], "qa-1");
	end(&w);
}

/* The other one may be gone, or too small. */
static void a_node_that_is_the_only_one_is_not_avoided(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	add_ended(&w, "aaabbb", "qa-1", true);
	add_ended(&w, "aaaddd", "qa-2", false);
	fake.refuses_exclusion = true;
	tick(&w);
	assert_int_equal(fake.submits, 2);
	assert_int_equal(fake.excluded.n, 0);
	assert_int_equal(w.report.submitted, 1);
	assert_int_equal(w.report.refused, 0);
	end(&w);
}

/* The job that is there now has an agent, which leaves at once. */
static void come_and_leave(struct world *w, uint64_t n_ended)
{
	struct pool_jobs jobs = { .n = 0 };
	char token[ENGINE_TOKEN_MAX + 1] = "";
	struct err e = ERR_INIT;

	assert_int_equal(pool_jobs_read(w->sp, "main", &jobs, &e), 0);
	for (size_t i = 0; i < jobs.n; i++)
		if (jobs.all[i].phase != POOL_JOB_ENDED)
			(void)str_copy(token, sizeof(token), jobs.all[i].token);
	pool_jobs_clear(&jobs);
	report(w, token, token, false);
	tick(w);
	report(w, token, token, true);
	w->caller.token = token;
	w->caller.n_ended = n_ended;
	tick(w);
	w->caller.token = NULL;
}

/* The job's time was nearly up when it began, and the task goes back again and again. */
static void agents_that_leave_at_once_are_not_replaced_at_once(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	tick(&w);
	come_and_leave(&w, 0); /* once may be chance */
	assert_int_equal(fake.submits, 2);
	come_and_leave(&w, 0);
	assert_int_equal(fake.submits, 2);
	assert_int_equal(w.report.state.vain, 2);
	assert_non_null(strstr(w.report.state.error, "had agents that left at once"));
	tick(&w);
	assert_int_equal(fake.submits, 2);
	pass(&w, 61);
	tick(&w);
	assert_int_equal(fake.submits, 3);
	end(&w);
}

/* Slurm requeues a job after a preemption: its script runs once more, with the same token. */
static void a_job_that_the_engine_begins_again_is_the_pools_again(void **state)
{
	struct world w = begin();
	struct pool_job job;
	char order[SPOOL_PATH_MAX];

	(void)state;
	need_one(&w);
	tick(&w);
	report(&w, "n1", only_job(&w).token, false);
	tick(&w);
	report(&w, "n1", only_job(&w).token, true);
	w.pool.down = true;
	write_pool(&w);
	tick(&w);
	assert_int_equal(only_job(&w).phase, POOL_JOB_ENDED);
	report(&w, "n1", only_job(&w).token, true); /* the same agent is no news */
	tick(&w);
	assert_int_equal(only_job(&w).phase, POOL_JOB_ENDED);
	job = only_job(&w);
	report(&w, "n1-again", job.token, false);
	w.caller.by_agent = true;
	tick(&w);
	assert_int_equal(only_job(&w).phase, POOL_JOB_SUBMITTED);
	assert_string_equal(only_job(&w).agent, "n1-again");
	assert_int_equal(w.report.state.live, 1);
	(void)str_print(order, sizeof(order), "control/n1-again,%s.json", job.token);
	assert_true(spool_exists(w.sp, order)); /* it is told that the pool is down */
	end(&w);
}

/* One that only begins takes no order that lies there, and whoever comes after it was not told. */
static void an_agent_is_told_that_the_pool_is_down_until_it_drains(void **state)
{
	struct world w = begin();
	struct heartbeat b = { .count = 2, .draining = true };
	struct pool_job job;
	char path[SPOOL_PATH_MAX], order[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;

	(void)state;
	need_one(&w);
	tick(&w);
	job = only_job(&w);
	report(&w, "n1", job.token, false);
	w.pool.down = true;
	w.caller.by_agent = true;
	write_pool(&w);
	(void)str_print(order, sizeof(order), "control/n1,%s.json", job.token);
	for (int i = 0; i < 2; i++) {
		tick(&w);
		assert_true(spool_exists(w.sp, order));
		assert_int_equal(spool_unlink(w.sp, order, &e), 0);
	}
	b.who = self(w.sp, "n1");
	assert_int_equal(heartbeat_write(w.sp, heartbeat_agent_path("n1", path), &b, &e), 0);
	tick(&w);
	assert_false(spool_exists(w.sp, order));
	/* What one of a pool that comes up again has not taken yet is none of its business. */
	report(&w, "n1", job.token, false);
	tick(&w);
	assert_true(spool_exists(w.sp, order));
	w.pool.down = false;
	w.pool.asked_ns = clock_wall_ns();
	write_pool(&w);
	tick(&w);
	assert_false(spool_exists(w.sp, order));
	end(&w);
}

static void an_agent_under_which_a_task_ended_was_of_use(void **state)
{
	struct world w = begin();

	(void)state;
	need_one(&w);
	tick(&w);
	come_and_leave(&w, 0);
	come_and_leave(&w, 1);
	assert_int_equal(w.report.state.vain, 0);
	assert_int_equal(fake.submits, 3);
	end(&w);
}

static void an_agent_that_was_never_seen_says_itself_that_it_left(void **state)
{
	struct world w = begin();
	struct pool_job job;

	(void)state;
	need_one(&w);
	tick(&w);
	job = only_job(&w);
	w.caller.token = job.token;
	w.pool.down = true; /* so that nothing follows */
	write_pool(&w);
	tick(&w);
	assert_int_equal(only_job(&w).phase, POOL_JOB_ENDED);
	assert_false(only_job(&w).lost);
	end(&w);
}

/* Its heartbeat is fresh, and its process was one of this node. */
static void who_has_no_time_hears_at_once_that_an_agent_was_killed(void **state)
{
	struct world w = begin();
	struct heartbeat b = { .count = 2, .who = self(w.sp, "n1") };
	char path[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;

	(void)state;
	need_one(&w);
	tick(&w);
	report(&w, "n1", only_job(&w).token, false);
	pass(&w, 100);
	tick(&w);
	assert_int_equal(w.report.state.live, 1);
	fake.n = 0; /* the engine has seen it */
	b.who.proc.start--;
	assert_int_equal(heartbeat_write(w.sp, heartbeat_agent_path("n1", path), &b, &e), 0);
	tick(&w);
	assert_int_equal(fake.submits, 1); /* it may run on, for all that who ticks has heard */
	w.caller.silent_ms = 15000;
	tick(&w);
	assert_int_equal(fake.submits, 2);
	end(&w);
}

/* Its last heartbeat is so old; when that was. */
static time_t be_silent(struct world *w, const char *agent, time_t seconds)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *file =
		xasprintf("%s/%s", spool_path_of(w->sp), heartbeat_agent_path(agent, path));
	struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };

	times[1] = (struct timespec){ .tv_sec = time(NULL) - seconds };
	assert_int_equal(utimensat(AT_FDCWD, file, times, 0), 0);
	return times[1].tv_sec;
}

/* Its process was one of this node, and is gone. */
static void be_killed(struct world *w, const char *agent)
{
	struct heartbeat b = { .count = 2, .who = self(w->sp, agent) };
	char path[SPOOL_PATH_MAX];
	struct err e = ERR_INIT;

	b.who.proc.start--;
	assert_int_equal(heartbeat_write(w->sp, heartbeat_agent_path(agent, path), &b, &e), 0);
}

/* The pool's only job, whose agent has reported; and the engine was asked just now. */
static void begin_with_agent(struct world *w)
{
	need_one(w);
	tick(w);
	fake.state = ENGINE_JOB_RUNNING;
	pass(w, 100);
	tick(w);
	report(w, "n1", only_job(w).token, false);
	tick(w);
	assert_int_equal(w->report.state.live, 1);
	assert_int_equal(fake.submits, 1);
	fake.polls = 0;
}

/* One that is silent may be cut off, and its node is there while the engine has its job. */
static void a_silent_agent_keeps_its_node_while_the_engine_has_its_job(void **state)
{
	struct world w = begin();

	(void)state;
	begin_with_agent(&w);
	pass(&w, 61);
	(void)be_silent(&w, "n1", 60);
	w.caller.silent_ms = 15000;
	tick(&w);
	assert_int_equal(fake.polls, 1);
	assert_int_equal(fake.submits, 1);
	assert_int_equal(w.report.state.live, 1);
	assert_non_null(strstr(strbuf_str(&w.report.said),
			       "the agent of job 1 does not answer, and fake has not said"));
	end(&w);
}

/* What was killed here starts nothing, whatever becomes of its job. */
static void an_agent_that_was_killed_here_is_no_place_for_a_task(void **state)
{
	struct world w = begin();

	(void)state;
	begin_with_agent(&w);
	be_killed(&w, "n1");
	w.caller.silent_ms = 15000;
	tick(&w);
	assert_int_equal(fake.submits, 2);
	tick(&w);
	assert_int_equal(fake.submits, 2);
	end(&w);
}

/* Where the pool may have no other node the engine has to say that this one is over. */
static void who_has_no_time_asks_the_engine_soon_of_a_silent_agent(void **state)
{
	struct world w = begin();

	(void)state;
	w.pool.max = 1;
	write_pool(&w);
	begin_with_agent(&w);
	pass(&w, 10);
	(void)be_silent(&w, "n1", 60);
	tick(&w);
	assert_int_equal(fake.polls, 0); /* an agent asks once a minute */
	w.caller.silent_ms = 15000;
	tick(&w);
	assert_int_equal(fake.polls, 1);
	fake.n = 0;
	pass(&w, (uint64_t)-60); /* however long that takes here */
	tick(&w);
	assert_int_equal(fake.polls, 1); /* a burst of submits asks once */
	pass(&w, 70);
	tick(&w);
	assert_int_equal(fake.polls, 2);
	assert_int_equal(fake.submits, 2);
	end(&w);
}

/* Ages are whole seconds, and a heartbeat may be less than one. */
static void an_agent_with_short_heartbeats_is_not_silent_between_two(void **state)
{
	struct world w = begin();
	uint64_t age_s = 0;

	(void)state;
	begin_with_agent(&w);
	w.caller.silent_ms = 450;
	while (age_s != 1) { /* or the second was over before it was looked at */
		time_t then = be_silent(&w, "n1", 1);

		pass(&w, 61);
		fake.polls = 0;
		tick(&w);
		age_s = w.report.state.ticked_s - (uint64_t)then;
	}
	assert_int_equal(fake.polls, 0);
	end(&w);
}

static void whoever_finds_somebody_at_it_does_nothing(void **state)
{
	struct world w = begin();
	struct pool_owner owner;
	struct err e = ERR_INIT;

	(void)state;
	need_one(&w);
	assert_int_equal(pool_own(w.sp, "main", &owner, &e), 0);
	tick(&w);
	assert_true(w.report.busy);
	assert_int_equal(fake.submits, 0);
	end(&w);
}

/* Who waits for it knows whether the other one has begun before. */
static void who_has_begun_meanwhile_sees_what_there_is(void **state)
{
	struct world w = begin();
	struct err e = ERR_INIT;

	(void)state;
	need_one(&w);
	w.caller.patience_ms = 50;
	assert_int_equal(pool_own(w.sp, "main", &other.owner, &e), 0);
	tick(&w);
	assert_true(w.report.busy);
	assert_false(w.report.begun);
	other.sp = w.sp;
	tick(&w);
	assert_true(w.report.busy);
	assert_true(w.report.begun);
	pool_disown(w.sp, &other.owner);
	tick(&w);
	assert_false(w.report.busy);
	assert_false(w.report.begun);
	assert_int_equal(fake.submits, 1);
	end(&w);
}

static int count_file(void *data, const char *file, unsigned char type)
{
	(void)file, (void)type;
	++*(unsigned int *)data;
	return 0;
}

static unsigned int n_files(const struct world *w)
{
	unsigned int n = 0;
	struct err e = ERR_INIT;

	assert_int_equal(spool_each(w->sp, spool_dir_name(SPOOL_POOLS), count_file, &n, &e), 0);
	return n;
}

static void who_ticks_keeps_it_from_being_forgotten(void **state)
{
	struct world w = begin();
	struct pool_owner owner;
	struct err e = ERR_INIT;
	unsigned int n;

	(void)state;
	need_one(&w);
	tick(&w);
	assert_int_equal(pool_own(w.sp, "main", &owner, &e), 0);
	n = n_files(&w);
	assert_int_equal(pool_forget(w.sp, "main", &e), POOL_BUSY);
	assert_int_equal(n_files(&w), n);
	pool_disown(w.sp, &owner);
	assert_int_equal(pool_forget(w.sp, "main", &e), 0);
	assert_int_equal(n_files(&w), 0);
	end(&w);
}

static void what_was_forgotten_meanwhile_leaves_nothing(void **state)
{
	struct world w = begin();
	struct err e = ERR_INIT;

	(void)state;
	need_one(&w);
	tick(&w);
	fake.forgets = w.sp;
	pool_report_clear(&w.report);
	assert_int_equal(pool_tick(w.sp, "main", &w.caller, &w.report, &e), -ENOENT);
	assert_int_equal(fake.submits, 1);
	assert_int_equal(n_files(&w), 0);
	end(&w);
}

/* A node that is about to end has its successor queued behind it, and no more than one. */
static void a_relay_queues_the_next_one_behind(void **state)
{
	struct world w = begin();
	struct pool_job first;

	(void)state;
	w.pool.relay = true;
	w.pool.max = 1;
	write_pool(&w);
	need_one(&w);
	tick(&w);
	assert_string_equal(fake.after, "");
	first = only_job(&w);
	report(&w, "n1", first.token, false);
	tick(&w);
	assert_int_equal(fake.submits, 2);
	assert_string_equal(fake.after, first.id);
	tick(&w);
	assert_int_equal(fake.submits, 2);
	assert_int_equal(w.report.state.live, 1);
	end(&w);
}

#define WITH_SPOOL(f) cmocka_unit_test_setup_teardown(f, spool_setup, spool_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SPOOL(a_job_is_recorded_with_its_script),
		WITH_SPOOL(the_engine_is_asked_once_a_minute_at_most),
		WITH_SPOOL(the_id_that_was_given_stays),
		WITH_SPOOL(what_may_have_been_submitted_is_looked_up_first),
		WITH_SPOOL(what_was_never_taken_is_submitted_anew),
		WITH_SPOOL(a_refusal_is_shown_and_not_repeated_at_once),
		WITH_SPOOL(a_node_without_the_commands_leaves_it_to_others),
		WITH_SPOOL(a_listing_that_fails_changes_nothing),
		WITH_SPOOL(a_job_of_which_an_agent_lives_is_alive_whatever_the_engine_says),
		WITH_SPOOL(three_that_never_report_pause_it),
		WITH_SPOOL(an_agent_that_is_late_is_given_up),
		WITH_SPOOL(a_node_is_avoided_where_there_are_others),
		WITH_SPOOL(a_node_that_is_the_only_one_is_not_avoided),
		WITH_SPOOL(an_agent_is_told_that_the_pool_is_down_until_it_drains),
		WITH_SPOOL(agents_that_leave_at_once_are_not_replaced_at_once),
		WITH_SPOOL(a_job_that_the_engine_begins_again_is_the_pools_again),
		WITH_SPOOL(an_agent_under_which_a_task_ended_was_of_use),
		WITH_SPOOL(an_agent_that_was_never_seen_says_itself_that_it_left),
		WITH_SPOOL(who_has_no_time_hears_at_once_that_an_agent_was_killed),
		WITH_SPOOL(a_silent_agent_keeps_its_node_while_the_engine_has_its_job),
		WITH_SPOOL(an_agent_that_was_killed_here_is_no_place_for_a_task),
		WITH_SPOOL(who_has_no_time_asks_the_engine_soon_of_a_silent_agent),
		WITH_SPOOL(an_agent_with_short_heartbeats_is_not_silent_between_two),
		WITH_SPOOL(whoever_finds_somebody_at_it_does_nothing),
		WITH_SPOOL(who_has_begun_meanwhile_sees_what_there_is),
		WITH_SPOOL(who_ticks_keeps_it_from_being_forgotten),
		WITH_SPOOL(what_was_forgotten_meanwhile_leaves_nothing),
		WITH_SPOOL(a_relay_queues_the_next_one_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
