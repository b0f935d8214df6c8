/* SPDX-License-Identifier: MIT */
/*
 * This machine as an engine: a job is a process with a session of its own. There is no record of
 * them but themselves: their name is in their environment, and their id, a PID with its start time,
 * by which what a job starts (its guard, its tasks), with the same environment and sessions of its
 * own, is told from it. Nothing waits: what is submitted runs, or is refused.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/spawn.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/script.h"

#define VARIABLES     "TENURE_LOCAL_"
#define NAME_VARIABLE "TENURE_LOCAL_JOB="
#define ID_VARIABLE   "TENURE_LOCAL_ID="
#define GPUS_VARIABLE "TENURE_LOCAL_GPUS="
#define RESTARTS_VARIABLE                                                                          \
	"TENURE_LOCAL_RESTARTS=" /* by whoever starts a job's script once more                     \
				  */
#define SHELL	    "/bin/sh"
#define TOKEN_LEAST 8 /* characters of a token, and its dash */

static int local_probe(const struct engine_env *env, struct err *e)
{
	(void)env;
	return access(SHELL, X_OK) == 0 ? 0 : err_sys(e, errno, SHELL);
}

static int local_render(const struct engine_request *req, struct strbuf *script, struct err *e)
{
	(void)e;
	strbuf_adds(script, "#!" SHELL "\n");
	script_add_options(script, NULL, req);
	script_add_agent(script, "exec", req);
	return 0;
}

/* -------- its processes -------- */

static char *id_text(const struct proc_id *id)
{
	return xasprintf("%d.%llu", (int)id->pid, (unsigned long long)id->start);
}

static int parse_id(const char *text, struct proc_id *ret)
{
	unsigned long long start;
	char end;
	int pid;

	if (sscanf(text, "%d.%llu%c", &pid, &start, &end) != 2 || pid <= 1)
		return -EINVAL;
	*ret = (struct proc_id){ .pid = pid, .start = start };
	return 0;
}

struct environment {
	char *text;
	size_t len;
};

/* The value of a variable in the environment that a process was started with; NULL. */
static const char *variable_of(const struct environment *env, const char *assignment)
{
	for (const char *p = env->text; p < env->text + env->len; p += strlen(p) + 1)
		if (str_has_prefix(p, assignment))
			return p + strlen(assignment);
	return NULL;
}

static void add_job(struct engine_jobs *jobs, const struct proc_id *id, const char *name,
		    const char *gpus)
{
	struct engine_job *job = engine_jobs_add(jobs);
	char host[256] = "";
	uint64_t n = 0;

	(void)gethostname(host, sizeof(host) - 1);
	job->id = id_text(id);
	job->name = xstrdup(name);
	job->node = xstrdup(host);
	job->state = ENGINE_JOB_RUNNING;
	job->start_ns = clock_wall_ns() - (clock_mono_ns() - proc_start_mono_ns(id->start));
	job->gpus_known = gpus && str_to_u64(gpus, &n) == 0 && n <= UINT32_MAX;
	job->gpus = job->gpus_known ? (unsigned int)n : 0;
}

/*
 * Whether a process is a job, by one picture of its environment: between two there could be an
 * execve(), and what a job has started, with the job's environment, would have a name and no id, as
 * a job has that is about to begin. 0; -errno: it cannot be told whether it is one, and what would
 * be listed could lack a job that is there.
 */
static int look_at(struct engine_jobs *jobs, pid_t pid, const char *prefix)
{
	cleanup_free char *text = NULL, *own = NULL;
	struct environment env;
	const char *name, *of;
	struct proc_id id;
	int r = proc_is_of(pid, getuid());

	if (r == 0)
		return 0;
	if (r > 0)
		r = proc_identify(pid, &id);
	if (r == 0)
		r = proc_environ(pid, &text, &env.len);
	if (r < 0)
		return proc_is_no_answer(r) ? r : 0;
	env.text = text;
	name = variable_of(&env, NAME_VARIABLE);
	of = variable_of(&env, ID_VARIABLE);
	own = id_text(&id);
	if (name && engine_name_begins(name, prefix) && (!of || strcmp(of, own) == 0) &&
	    proc_alive(&id))
		add_job(jobs, &id, name, variable_of(&env, GPUS_VARIABLE));
	return 0;
}

static int local_jobs(const struct engine_env *env, const char *prefix, struct engine_jobs *ret,
		      struct err *e)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	uint64_t pid = 0;
	int r = 0;

	(void)env;
	*ret = (struct engine_jobs){ .n = 0 };
	if (!dir)
		return err_sys(e, errno, "open /proc");
	while (r == 0 && (entry = readdir(dir)))
		if (str_to_u64(entry->d_name, &pid) == 0 && getsid((pid_t)pid) == (pid_t)pid)
			r = look_at(ret, (pid_t)pid, prefix);
	(void)closedir(dir);
	if (r == 0)
		return 0;
	engine_jobs_clear(ret);
	if (r == -EAGAIN)
		return err_set(e, r,
			       "whether the process %d is a job cannot be told yet: it stays in "
			       "execve(), which a file that does not answer makes last, or a busy "
			       "machine",
			       (int)pid);
	return err_sys(e, -r, "look whether the process %d is a job", (int)pid);
}

/* What a job begins as: it tells its script the job's id, which nobody knows before. The 22nd word
 * of stat is when it started (proc(5)). */
static const char beginning[] = "read -r TENURE_LOCAL_ID </proc/$$/stat\n"
				"set -- \"$1\" $TENURE_LOCAL_ID\n"
				"export TENURE_LOCAL_ID=$$.${23}\n"
				"exec " SHELL " -c \"$1\"\n";

static int open_files(const char *output, int fds[3])
{
	fds[0] = -1;
	fds[1] = open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	fds[2] = fds[1];
	return fds[1] < 0 ? -errno : 0;
}

static int local_submit(const struct engine_env *env, const struct engine_request *req,
			const char *script, char **ret_id, struct err *e)
{
	cleanup_free char *first = xstrdup(beginning), *text = xstrdup(script);
	char shell[] = SHELL, option[] = "-c";
	char *const argv[] = { shell, option, first, shell, text, NULL };
	struct text_list own = { .n = 0 };
	struct spawn s = SPAWN_INIT;
	bool in_task = script_variable(env->environ, "TENURE_TASK_ID=");
	struct proc_peek peek;
	struct proc_id id;
	int r = open_files(req->output, s.fds);

	if (r < 0)
		return err_sys(e, -r, "open %s", req->output);
	/* Of a job or a task that asks for another job, its own are not meant. */
	for (const char *const *v = env->environ; *v; v++)
		if (!str_has_prefix(*v, VARIABLES) &&
		    !(in_task && str_has_prefix(*v, "CUDA_VISIBLE_DEVICES=")))
			text_list_add(&own, *v);
	text_list_take(&own, xasprintf(NAME_VARIABLE "%s", req->name));
	text_list_take(&own, xasprintf(GPUS_VARIABLE "%u", req->gpus));
	text_list_take(&own, NULL);
	s.path = SHELL;
	s.argv = argv;
	s.env = own.texts;
	s.session = true;

	pid_t pid = spawn_start(&s);

	text_list_clear(&own);
	(void)fd_close(s.fds[1]);
	if (pid < 0)
		return err_sys(e, -pid, "start " SHELL);
	/* One that has ended at once is still ours to wait for, and has its number until then. */
	r = proc_peek(pid, &peek);
	if (r < 0)
		return err_sys(e, -r, "look at the job's process");
	id = (struct proc_id){ .pid = pid, .start = peek.start };
	*ret_id = id_text(&id);
	return 0;
}

static int local_cancel(const struct engine_env *env, const struct text_list *ids, struct err *e)
{
	struct proc_id id;
	int r, worst = 0;

	(void)env;
	for (size_t i = 0; i < ids->n; i++) {
		r = parse_id(ids->texts[i], &id);
		r = r < 0 ? r : proc_signal(&id, SIGTERM);
		if (r < 0 && r != -ESRCH)
			worst = err_sys(e, -r, "end the job %s", ids->texts[i]);
	}
	return worst;
}

/* -------- what it says of itself -------- */

static int local_inventory(const struct engine_env *env, struct engine_nodes *ret, struct err *e)
{
	(void)env;
	*ret = (struct engine_nodes){ .n = 0 };
	return err_set(e, -ENOTSUP, "tenure devices shows what this machine has");
}

static int local_when(const struct engine_env *env, const struct engine_request *req,
		      const char *id, uint64_t *ret_ns, struct strbuf *words, struct err *e)
{
	(void)env, (void)req, (void)id, (void)e;
	*ret_ns = clock_wall_ns();
	strbuf_adds(words, "at once");
	return 0;
}

static int local_inside(const char *const *variables, struct engine_here *ret, struct err *e)
{
	const char *name = script_variable(variables, NAME_VARIABLE);
	const char *id = script_variable(variables, ID_VARIABLE);
	const char *gpus = script_variable(variables, GPUS_VARIABLE);
	const char *again = script_variable(variables, RESTARTS_VARIABLE);
	const char *visible = script_variable(variables, "CUDA_VISIBLE_DEVICES=");
	/* The token, by which a job of a pool is told from all others, and which is short. */
	const char *dash = name ? strrchr(name, '-') : NULL;
	const char *mark = dash && strlen(dash) > TOKEN_LEAST ? dash + 1 : name;
	uint64_t n = 0, restarts = 0;

	if (!name || !name[0])
		return err_set(e, -ENOENT, "no job of this machine");
	(void)(gpus && str_to_u64(gpus, &n));
	(void)(again && str_to_u64(again, &restarts));
	*ret = (struct engine_here){ .engine = "local",
				     .id = xstrdup(id ? id : name),
				     .gpus = visible	  ? xstrdup(visible)
					     : gpus && !n ? xstrdup("") /* none, and it is said */
							  : NULL,
				     .n_gpus = (unsigned int)n,
				     .restarts = (unsigned int)restarts };
	ret->key = restarts ? xasprintf("local.%s.%u", mark, ret->restarts)
			    : xasprintf("local.%s", mark);
	return 0;
}

static int local_deadline(const struct engine_env *env, const struct engine_here *here,
			  uint64_t *ret_ns, struct err *e)
{
	(void)env, (void)here, (void)e;
	*ret_ns = 0;
	return 0;
}

const struct engine engine_local = {
	.name = "local",
	.here_alone = true,
	.title = "this machine: processes of its own, for what needs no other",
	.probe = local_probe,
	.render = local_render,
	.submit = local_submit,
	.jobs = local_jobs,
	.cancel = local_cancel,
	.inventory = local_inventory,
	.when = local_when,
	.inside = local_inside,
	.deadline = local_deadline,
};
