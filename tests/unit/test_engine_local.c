/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "engine/engine.h"

#define LOOKS 300

/* What a process of the job is at last: it sleeps, or goes from execve() to execve(). */
static const char SLEEP[] = "exec sleep 600";
static const char CHANGE[] = "X=\"exec sh -c \\\"\\$X\\\"\"; export X; eval \"$X\"";

extern char **environ;

static char job_name[64]; /* of this process alone: all jobs of the machine are listed */

struct world {
	char dir[40];
	char *output, *mark;
	char *id; /* of the job */
	pid_t pid;
};

static const struct engine_env *env(void)
{
	static struct engine_env e;

	e.environ = (const char *const *)environ;
	return &e;
}

/* What it was started with can be read again: not while it is in execve(). */
static bool is_asleep(pid_t pid)
{
	struct proc_peek peek;

	return proc_peek(pid, &peek) == 0 && strcmp(peek.comm, "sleep") == 0;
}

/* A job that starts a process with a session of its own, as an agent does a guard and a task.
 * started, own: what the two are at last. */
static struct world begin_with(const char *started, const char *own)
{
	struct world w = { .dir = "/tmp/test_engine_local.XXXXXX" };
	struct engine_request req = { .name = job_name };
	cleanup_free char *script = NULL;
	struct err e = ERR_INIT;

	assert_non_null(mkdtemp(w.dir));
	w.output = xasprintf("%s/out", w.dir);
	w.mark = xasprintf("%s/mark", w.dir);
	script = xasprintf("echo 'a  b' it\\'s\n"
			   "env >%s/env\n"
			   "setsid sh -c 'echo $$ >%s.new && mv %s.new %s; %s' &\n"
			   "%s\n",
			   w.dir, w.mark, w.mark, w.mark, started, own);
	req.output = w.output;
	assert_int_equal(engine_local.submit(env(), &req, script, &w.id, &e), 0);
	w.pid = (pid_t)strtol(w.id, NULL, 10);
	while (access(w.mark, F_OK) < 0 || !(is_asleep(w.pid) || own != SLEEP))
		(void)usleep(1000);
	return w;
}

static struct world begin(void)
{
	return begin_with(SLEEP, SLEEP);
}

static char *text_of(const struct world *w, const char *name)
{
	cleanup_free char *path = xasprintf("%s/%s", w->dir, name);
	struct err e = ERR_INIT;
	char *text;
	size_t len;

	assert_int_equal(fs_read_file(path, 65536, &text, &len, &e), 0);
	return text;
}

static void end(struct world *w)
{
	cleanup_free char *mark = text_of(w, "mark");
	cleanup_free char *command = xasprintf("rm -r %s", w->dir);

	(void)kill((pid_t)strtol(mark, NULL, 10), SIGKILL);
	if (w->pid) {
		(void)kill(w->pid, SIGKILL);
		(void)waitpid(w->pid, NULL, 0);
	}
	assert_int_equal(system(command), 0);
	free(w->output);
	free(w->mark);
	free(w->id);
}

/* A process of whomever that stays in execve(), as on a machine with much to do, is no answer: then
 * it is asked again. */
static struct engine_jobs list(void)
{
	struct engine_jobs jobs = { .n = 0 };
	struct err e = ERR_INIT;
	int r;

	while ((r = engine_local.jobs(env(), job_name, &jobs, &e)) == -EAGAIN)
		(void)usleep(1000);
	assert_int_equal(r, 0);
	return jobs;
}

static void what_a_job_starts_is_no_job(void **state)
{
	struct world w = begin();
	struct engine_jobs jobs = list();

	(void)state;
	assert_int_equal(jobs.n, 1);
	assert_string_equal(jobs.all[0].id, w.id);
	assert_string_equal(jobs.all[0].name, job_name);
	engine_jobs_clear(&jobs);
	end(&w);
}

/* In execve() a process has no environment for a moment, nor the rest of one that is being read. */
static void check_listed(const char *started, const char *own)
{
	struct world w = begin_with(started, own);
	int wrong = 0;

	for (int i = 0; i < LOOKS; i++) {
		struct engine_jobs jobs = list();

		wrong += jobs.n != 1 || strcmp(jobs.all[0].id, w.id) != 0;
		engine_jobs_clear(&jobs);
	}
	end(&w);
	assert_int_equal(wrong, 0);
}

static void what_a_job_starts_is_no_job_when_it_changes_its_program(void **state)
{
	(void)state;
	check_listed(CHANGE, SLEEP);
}

static void a_job_that_changes_its_program_is_listed(void **state)
{
	(void)state;
	check_listed(SLEEP, CHANGE);
}

static void a_job_that_has_ended_is_not_listed_for_what_it_left(void **state)
{
	struct world w = begin();
	struct text_list ids = { .n = 0 };
	struct engine_jobs jobs;
	struct err e = ERR_INIT;
	int status;

	(void)state;
	text_list_add(&ids, w.id);
	assert_int_equal(engine_local.cancel(env(), &ids, &e), 0);
	assert_int_equal(waitpid(w.pid, &status, 0), w.pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	w.pid = 0;
	jobs = list();
	assert_int_equal(jobs.n, 0);
	text_list_clear(&ids);
	end(&w);
}

/* It knows itself by the name that cancel() takes, and its script is run as it is. */
static void a_job_knows_its_id(void **state)
{
	struct world w = begin();
	cleanup_free char *text = NULL, *printed = NULL;
	cleanup_free char *line = xasprintf("TENURE_LOCAL_ID=%s\n", w.id);
	cleanup_free char *name = xasprintf("TENURE_LOCAL_JOB=%s", job_name);
	const char *const variables[] = { name, line, NULL };
	struct engine_here here;

	(void)state;
	text = text_of(&w, "env");
	assert_non_null(strstr(text, line));
	printed = text_of(&w, "out");
	assert_string_equal(printed, "a  b it's\n");
	*strchr(line, '\n') = '\0';
	assert_int_equal(engine_local.inside(variables, &here, NULL), 0);
	assert_string_equal(here.id, w.id);
	assert_string_equal(here.key, "local.abcdefgh");
	engine_here_clear(&here);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_job_starts_is_no_job),
		cmocka_unit_test(what_a_job_starts_is_no_job_when_it_changes_its_program),
		cmocka_unit_test(a_job_that_changes_its_program_is_listed),
		cmocka_unit_test(a_job_that_has_ended_is_not_listed_for_what_it_left),
		cmocka_unit_test(a_job_knows_its_id),
	};

	(void)str_print(job_name, sizeof(job_name), "tenure-unit-%d-abcdefgh", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
