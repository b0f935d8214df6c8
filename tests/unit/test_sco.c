/* SPDX-License-Identifier: MIT */
/* The engine against tests/func/fakesco, a scripted `sco` that really runs the jobs. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "engine/engine.h"

#define LIMIT_MS 60000
#define HANG_MS	 1500

struct world {
	char dir[64];
	struct text_list env, settings;
	struct engine_env engine;
	struct engine_request req;
	char output[128];
	const char *agent[4];
	struct err e;
};

/* -------- the world -------- */

static void write_file(const struct world *w, const char *name, const char *text)
{
	cleanup_free char *path = xasprintf("%s/%s", w->dir, name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static char *read_file(const struct world *w, const char *name)
{
	cleanup_free char *path = xasprintf("%s/%s", w->dir, name);
	char *text;
	size_t len;

	return fs_read_file(path, 1 << 24, &text, &len, NULL) == 0 ? text : xstrdup("");
}

static int set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	cleanup_free char *bin = NULL, *link = NULL;

	(void)strcpy(w->dir, "/tmp/test_sco.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	/* As its users have it: not on PATH. */
	bin = xasprintf("%s/.sco/bin", w->dir);
	link = xasprintf("%s/sco", bin);
	assert_int_equal(fs_mkdirs(bin, 0700, NULL), 0);
	assert_int_equal(symlink(FAKESCO, link), 0);
	text_list_add(&w->env, "PATH=/usr/bin:/bin");
	text_list_take(&w->env, xasprintf("HOME=%s", w->dir));
	text_list_take(&w->env, xasprintf("FAKESCO_DIR=%s", w->dir));
	text_list_add(&w->env, "https_proxy=http://nowhere");
	text_list_add(&w->env, "HTTP_PROXY=http://nowhere");
	text_list_take(&w->env, NULL);
	text_list_add(&w->settings, "workspace=share-space");
	text_list_add(&w->settings, "aec2=computing");
	text_list_add(&w->settings, "image=registry/ours:v1");
	text_list_add(&w->settings, "spec=N6lS.Iu.I80.{gpus}");
	text_list_add(&w->settings, "mounts=01995892:/mnt/afs");
	w->engine = (struct engine_env){ .environ = (const char *const *)w->env.texts,
					 .limit_ms = LIMIT_MS,
					 .settings = &w->settings };
	(void)snprintf(w->output, sizeof(w->output), "%s/exp1,tok1.out", w->dir);
	w->agent[0] = "/bin/sleep";
	w->agent[1] = "600";
	w->req = (struct engine_request){ .name = "ydj-train-exp1-tok1",
					  .title = "ydj-train-exp1",
					  .token = "tok1",
					  .gpus = 2,
					  .dir = w->dir,
					  .output = w->output,
					  .agent = w->agent,
					  .settings = &w->settings };
	*state = w;
	return 0;
}

/* Runs what takes a moment until it is so. */
static bool comes(bool (*so)(struct world *), struct world *w)
{
	for (int i = 0; i < 1200; i++) {
		if (so(w))
			return true;
		(void)usleep(50000);
	}
	return false;
}

static bool is_empty(struct world *w)
{
	struct engine_jobs jobs = { .n = 0 };
	size_t n;

	assert_int_equal(engine_sco.jobs(&w->engine, "ydj-", &jobs, &w->e), 0);
	n = jobs.n;
	engine_jobs_clear(&jobs);
	return n == 0;
}

static void end_all(struct world *w)
{
	struct engine_jobs jobs = { .n = 0 };
	struct text_list ids = { .n = 0 };

	write_file(w, "modes", "");
	if (engine_sco.jobs(&w->engine, "ydj-", &jobs, &w->e) < 0)
		return;
	for (size_t i = 0; i < jobs.n; i++)
		text_list_add(&ids, jobs.all[i].id);
	if (ids.n)
		(void)engine_sco.cancel(&w->engine, &ids, &w->e);
	(void)comes(is_empty, w);
	engine_jobs_clear(&jobs);
	text_list_clear(&ids);
}

static int tear_down(void **state)
{
	struct world *w = *state;

	w->engine.limit_ms = LIMIT_MS;
	end_all(w);

	cleanup_free char *command = xasprintf("rm -rf %s", w->dir);

	assert_int_equal(system(command), 0);
	text_list_clear(&w->env);
	text_list_clear(&w->settings);
	free(w);
	return 0;
}

/* Its code; *id is the caller's. */
static int submit(struct world *w, char **id)
{
	cleanup_strbuf struct strbuf script = STRBUF_INIT;

	*id = NULL;
	w->e.text[0] = '\0';
	assert_int_equal(engine_sco.render(&w->req, &script, &w->e), 0);

	int r = engine_sco.submit(&w->engine, &w->req, strbuf_str(&script), id, &w->e);

	if (r)
		print_message("%d: %s\n", r, w->e.text);
	return r;
}

static struct engine_jobs jobs_of(struct world *w)
{
	struct engine_jobs jobs = { .n = 0 };
	int r = engine_sco.jobs(&w->engine, "ydj-train-exp1-", &jobs, &w->e);

	if (r < 0)
		print_error("%s\n", w->e.text);
	assert_int_equal(r, 0);
	return jobs;
}

/* -------- good days -------- */

static bool has_ended(struct world *w)
{
	struct engine_jobs jobs = jobs_of(w);
	bool over = jobs.n == 1 && engine_job_is_over(jobs.all[0].state);

	engine_jobs_clear(&jobs);
	return over;
}

static void a_job_is_created_listed_and_deleted(void **state)
{
	struct world *w = *state;
	cleanup_free char *id = NULL;
	struct text_list ids = { .n = 0 };
	struct engine_jobs jobs;

	assert_int_equal(engine_sco.probe(&w->engine, &w->e), 0);
	assert_true(is_empty(w));
	assert_int_equal(submit(w, &id), 0);
	assert_string_equal(id, "ydj-train-exp1-tok1");
	jobs = jobs_of(w);
	assert_int_equal(jobs.n, 1);
	assert_string_equal(jobs.all[0].id, id);
	assert_string_equal(jobs.all[0].name, "ydj-train-exp1-tok1");
	assert_int_equal(jobs.all[0].state, ENGINE_JOB_RUNNING);
	engine_jobs_clear(&jobs);
	text_list_add(&ids, id);
	assert_int_equal(engine_sco.cancel(&w->engine, &ids, &w->e), 0);
	assert_true(comes(is_empty, w));
	/* Twice is no error. */
	assert_int_equal(engine_sco.cancel(&w->engine, &ids, &w->e), 0);
	text_list_clear(&ids);
}

static void its_script_runs_and_prints_into_its_file(void **state)
{
	struct world *w = *state;
	cleanup_free char *id = NULL, *text = NULL, *calls = NULL;
	struct engine_jobs jobs;

	w->agent[0] = "/bin/sh";
	w->agent[1] = "-c";
	w->agent[2] = "echo \"I'm $TENURE_SCO_JOB in $(pwd) with "
		      "$SENSECORE_ACCELERATE_DEVICE_COUNT\"; exit 0";
	assert_int_equal(submit(w, &id), 0);
	assert_true(comes(has_ended, w));
	jobs = jobs_of(w);
	assert_int_equal(jobs.all[0].state, ENGINE_JOB_DONE);
	engine_jobs_clear(&jobs);
	text = read_file(w, "exp1,tok1.out");

	cleanup_free char *want = xasprintf("I'm ydj-train-exp1-tok1 in %s with 2\n", w->dir);

	assert_string_equal(text, want);
	/* No proxy of the user's was in its way, and it was found though it is not on PATH. */
	calls = read_file(w, "calls");
	assert_null(strstr(calls, "proxy\""));
	assert_non_null(strstr(calls, "\"launcher\": null"));
	assert_non_null(strstr(calls, "--name=ydj-train-exp1-tok1"));
	assert_non_null(strstr(calls, "--job-name=ydj-train-exp1\""));
}

static void what_the_user_sets_for_the_launcher_stays(void **state)
{
	struct world *w = *state;
	cleanup_free char *calls = NULL;

	w->env.n--; /* the NULL at its end */
	text_list_add(&w->env, "SCO_LAUNCHED_BY=launcher");
	text_list_take(&w->env, NULL);
	w->engine.environ = (const char *const *)w->env.texts;
	assert_true(is_empty(w));
	calls = read_file(w, "calls");
	assert_non_null(strstr(calls, "\"launcher\": \"launcher\""));
}

/* A server that numbers jobs itself: ours is found by the command that it runs. */
static void a_job_with_a_number_of_the_server_is_found(void **state)
{
	struct world *w = *state;
	cleanup_free char *id = NULL;
	struct engine_jobs jobs;

	write_file(w, "config.json", "{\"own_names\": false, \"shape\": \"training_jobs\"}");
	assert_int_equal(submit(w, &id), 0);
	assert_int_equal(strncmp(id, "pt-", 3), 0);
	jobs = jobs_of(w);
	assert_int_equal(jobs.n, 1);
	assert_string_equal(jobs.all[0].id, id);
	assert_string_equal(jobs.all[0].name, "ydj-train-exp1-tok1");
	engine_jobs_clear(&jobs);
}

static void what_is_idle_and_how_it_stands_are_told(void **state)
{
	struct world *w = *state;
	cleanup_strbuf struct strbuf words = STRBUF_INIT;
	struct engine_nodes nodes = { .n = 0 };
	cleanup_free char *id = NULL;
	uint64_t ns = 1;

	write_file(w, "config.json", "{\"gpus\": 12}");
	assert_int_equal(submit(w, &id), 0);
	assert_int_equal(engine_sco.inventory(&w->engine, &nodes, &w->e), 0);
	assert_int_equal(nodes.n, 1);
	assert_string_equal(nodes.all[0].name, "computing");
	assert_int_equal(nodes.all[0].total, 12);
	assert_int_equal(nodes.all[0].used, 2);
	assert_int_equal(nodes.all[0].free, 10);
	engine_nodes_clear(&nodes);
	assert_int_equal(engine_sco.when(&w->engine, &w->req, NULL, &ns, &words, &w->e), 0);
	assert_int_equal(ns, 0);
	assert_string_equal(strbuf_str(&words), "10 of the 12 GPUs of computing are idle");
	strbuf_reset(&words);
	assert_int_equal(engine_sco.when(&w->engine, &w->req, id, &ns, &words, &w->e), 0);
	assert_string_equal(strbuf_str(&words),
			    "ydj-train-exp1-tok1 is running, its worker "
			    "ydj-train-exp1-tok1-worker-0 (running); 10 of the 12 GPUs of "
			    "computing are idle");
}

/* Nobody asks for more than one list, unless it was cut. */
static void a_list_that_is_full_hides_nothing_that_runs(void **state)
{
	struct world *w = *state;
	cleanup_free char *id = NULL, *calls = NULL;
	struct engine_jobs jobs;

	assert_int_equal(submit(w, &id), 0);
	write_file(w, "calls", "");
	jobs = jobs_of(w);
	engine_jobs_clear(&jobs);
	calls = read_file(w, "calls");
	assert_ptr_equal(strchr(calls, '\n'), calls + strlen(calls) - 1);
	write_file(w, "modes", "list full once\n");
	jobs = jobs_of(w);
	assert_int_equal(jobs.n, 1);
	engine_jobs_clear(&jobs);
	write_file(w, "config.json", "{\"display\": false, \"shape\": \"jobs\"}");
	write_file(w, "modes", "list huge once\n"); /* 10 MB of others' */
	jobs = jobs_of(w);
	assert_int_equal(jobs.n, 1);
	assert_string_equal(jobs.all[0].id, id);
	engine_jobs_clear(&jobs);
}

static void jobs_can_be_stopped_in_place_of_deleted(void **state)
{
	struct world *w = *state;
	cleanup_free char *id = NULL;
	struct text_list ids = { .n = 0 };
	struct engine_jobs jobs;

	text_list_add(&w->settings, "end=stop");
	assert_int_equal(submit(w, &id), 0);
	text_list_add(&ids, id);
	assert_int_equal(engine_sco.cancel(&w->engine, &ids, &w->e), 0);
	assert_true(comes(has_ended, w));
	jobs = jobs_of(w);
	assert_int_equal(jobs.all[0].state, ENGINE_JOB_EXPIRED);
	engine_jobs_clear(&jobs);
	text_list_clear(&ids);
	free(w->settings.texts[--w->settings.n]);
	text_list_add(&w->settings, "end=delete");
}

/* -------- bad days -------- */

static void submissions_that_fail_say_why(void **state)
{
	static const struct {
		const char *mode;
		int code;
		const char *text;
	} cases[] = {
		{ "create quota once", -EDQUOT, "MEMBER_QUOTA_EXCEEDED" },
		{ "create refused once", ENGINE_REFUSED, "container image url is illegal" },
		{ "create down once", -ECONNREFUSED, "connection refused" },
		{ "create login once", -EACCES, "sco init" },
		{ "create rc0 once", ENGINE_UNSURE, "internal error" },
		{ "create silent once", ENGINE_UNSURE, "said nothing" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_free char *id = NULL;
		int r;

		write_file(w, "modes", cases[i].mode);
		r = submit(w, &id);
		if (r != cases[i].code || !strstr(w->e.text, cases[i].text))
			print_error("%s: %d %s\n", cases[i].mode, r, w->e.text);
		assert_int_equal(r, cases[i].code);
		assert_non_null(strstr(w->e.text, cases[i].text));
		assert_true(is_empty(w));
	}
}

/* A queue may be called after anything that goes wrong. */
static void a_name_that_sounds_like_a_failure_is_none(void **state)
{
	struct world *w = *state;
	cleanup_free char *id = NULL, *calls = NULL;

	w->req.name = "ydj-quota-login-invalid-tok1";
	w->req.title = "ydj-quota-login-invalid";
	assert_int_equal(submit(w, &id), 0);
	assert_int_equal(submit(w, &calls), ENGINE_UNSURE);
	assert_non_null(strstr(w->e.text, "already exists"));
}

/* The server has the job, and we have no answer: it is found by its name, and a second one is not
 * made. */
static void a_submission_without_an_answer_is_found_by_its_name(void **state)
{
	struct world *w = *state;
	cleanup_free char *again = NULL;
	struct engine_jobs jobs = { .n = 0 };

	/* Where the machine is busy it takes a while until the server has it. */
	for (w->engine.limit_ms = HANG_MS; !jobs.n && w->engine.limit_ms < LIMIT_MS;
	     w->engine.limit_ms *= 2) {
		cleanup_free char *id = NULL;
		struct engine_env patient = w->engine;

		write_file(w, "modes", "create lost once");
		assert_int_equal(submit(w, &id), ENGINE_UNSURE);
		assert_non_null(strstr(w->e.text, "has not answered"));
		patient.limit_ms = LIMIT_MS;
		assert_int_equal(engine_sco.jobs(&patient, "ydj-train-exp1-", &jobs, &w->e), 0);
	}
	w->engine.limit_ms = LIMIT_MS;
	assert_int_equal(jobs.n, 1);
	assert_string_equal(jobs.all[0].name, w->req.name);
	engine_jobs_clear(&jobs);
	assert_int_equal(submit(w, &again), ENGINE_UNSURE);
	assert_non_null(strstr(w->e.text, "already exists"));
	jobs = jobs_of(w);
	assert_int_equal(jobs.n, 1);
	engine_jobs_clear(&jobs);
}

/* A job that is not listed has ended, so what is no list must never look like an empty one. */
static void what_is_no_list_is_no_empty_list(void **state)
{
	static const struct {
		const char *mode;
		int code;
	} cases[] = {
		{ "list rc0", -EBADMSG }, { "list cut", -EBADMSG }, { "list down", -EIO },
		{ "list login", -EIO },	  { "list silent", -EIO },  { "list endless", -EMSGSIZE },
	};
	struct world *w = *state;
	cleanup_free char *id = NULL;
	struct engine_jobs jobs = { .n = 0 };

	assert_int_equal(submit(w, &id), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int r;

		write_file(w, "modes", cases[i].mode);
		r = engine_sco.jobs(&w->engine, "ydj-", &jobs, &w->e);
		if (r != cases[i].code)
			print_error("%s: %d %s\n", cases[i].mode, r, w->e.text);
		assert_int_equal(r, cases[i].code);
		assert_int_equal(jobs.n, 0);
	}
	write_file(w, "modes", "list hang");
	w->engine.limit_ms = HANG_MS;
	assert_int_equal(engine_sco.jobs(&w->engine, "ydj-", &jobs, &w->e), -ETIMEDOUT);
	write_file(w, "modes", "list sentence");
	w->engine.limit_ms = LIMIT_MS;
	assert_int_equal(engine_sco.jobs(&w->engine, "ydj-", &jobs, &w->e), 0);
	write_file(w, "modes", "list strange");
	jobs = jobs_of(w);
	assert_int_equal(jobs.all[0].state, ENGINE_JOB_UNKNOWN);
	assert_string_equal(jobs.all[0].reason, "Hibernating");
	engine_jobs_clear(&jobs);
}

/* One of several is gone: the others are ended all the same. */
static void one_that_is_gone_keeps_no_other(void **state)
{
	struct world *w = *state;
	cleanup_free char *id = NULL;
	struct text_list ids = { .n = 0 };

	assert_int_equal(submit(w, &id), 0);
	text_list_add(&ids, "pt-gone");
	text_list_add(&ids, id);
	assert_int_equal(engine_sco.cancel(&w->engine, &ids, &w->e), 0);
	assert_true(comes(is_empty, w));
	write_file(w, "modes", "delete down");
	assert_int_equal(engine_sco.cancel(&w->engine, &ids, &w->e), -EIO);
	text_list_clear(&ids);
}

static void without_the_command_nothing_is_asked(void **state)
{
	struct world *w = *state;
	cleanup_free char *path = xasprintf("%s/.sco/bin/sco", w->dir);

	assert_int_equal(unlink(path), 0);
	assert_int_equal(engine_sco.probe(&w->engine, &w->e), -ENOENT);
	assert_non_null(strstr(w->e.text, "sco: there is no such command"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define ROW(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		ROW(a_job_is_created_listed_and_deleted),
		ROW(its_script_runs_and_prints_into_its_file),
		ROW(what_the_user_sets_for_the_launcher_stays),
		ROW(a_job_with_a_number_of_the_server_is_found),
		ROW(what_is_idle_and_how_it_stands_are_told),
		ROW(a_list_that_is_full_hides_nothing_that_runs),
		ROW(jobs_can_be_stopped_in_place_of_deleted),
		ROW(submissions_that_fail_say_why),
		ROW(a_name_that_sounds_like_a_failure_is_none),
		ROW(a_submission_without_an_answer_is_found_by_its_name),
		ROW(what_is_no_list_is_no_empty_list),
		ROW(one_that_is_gone_keeps_no_other),
		ROW(without_the_command_nothing_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
