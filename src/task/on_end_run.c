/* SPDX-License-Identifier: MIT */
#include "task/on_end_run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/textlist.h"
#include "base/units.h"
#include "base/value.h"
#include "task/logfile.h"
#include "task/tree.h"

#define DIR_FD	 3
#define LOG_FD	 STDERR_FILENO
#define STEP_MS	 50
#define GRACE_NS (5 * NS_PER_S) /* from TERM to KILL */
#define EXIT_RUN 127
#define COUNT	 65536 /* of variables */
#define NOWHERE	 "/proc"

extern char **environ;

struct run {
	const char *title, *log_path;
	json_t *job;
	struct text_list env; /* ends with NULL */
	char *cwd;
	uint64_t until_ns; /* monotonic */
	struct logfile log;
};

/* ---- what is to be run ---- */

/* The first that is set counts. */
static void add_default(struct text_list *env, const char *assignment)
{
	size_t len = strcspn(assignment, "=") + 1;

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->texts[i], assignment, len) == 0)
			return;
	text_list_add(env, assignment);
}

static int take_env(struct run *r, struct err *e)
{
	static const char *const names[] = { "HOME=", "USER=", "LOGNAME=", "SHELL=", "PATH=" };
	static const struct value_spec bytes = { VALUE_BYTES, .max = COUNT };
	int code = value_from_json(&bytes, json_object_get(r->job, "env"), &r->env, e);

	for (char **v = environ; code == 0 && *v; v++)
		for (size_t i = 0; i < ARRAY_LEN(names); i++)
			if (str_has_prefix(*v, names[i]))
				add_default(&r->env, *v);
	if (code == 0)
		text_list_take(&r->env, NULL);
	return code;
}

static int take_cwd(struct run *r, struct err *e)
{
	static const struct value_spec path = { VALUE_BYTES_PATH, .max = 4096 };
	const json_t *cwd = json_object_get(r->job, "cwd");
	const char *home = getenv("HOME");

	if (cwd)
		return value_from_json(&path, cwd, &r->cwd, e);
	r->cwd = xstrdup(home ? home : "/");
	return 0;
}

static int take_job(struct run *r, struct err *e)
{
	json_error_t je;
	int code;

	r->job = json_loadfd(STDIN_FILENO, 0, &je);
	if (!r->job)
		return err_set(e, -EINVAL, "not JSON: %s", je.text);
	r->title = json_get_str(r->job, "title");
	r->log_path = json_get_str(r->job, "log");
	if (!json_is_array(json_object_get(r->job, "commands")) || !r->title || !r->log_path)
		return err_set(e, -EINVAL, "it does not say what to run");
	if (json_is_integer(json_object_get(r->job, "umask")))
		(void)umask((mode_t)json_get_small(r->job, "umask", 0777));
	code = take_env(r, e);
	return code == 0 ? take_cwd(r, e) : code;
}

/* ---- a command ---- */

static void say(struct run *r, const char *name, const char *text)
{
	cleanup_strbuf struct strbuf line = STRBUF_INIT;

	strbuf_addf(&line, "%s=== %-9s ", logfile_in_line(&r->log) > 0 ? "\n" : "", name);
	for (const char *p = text; *p; p++) /* of several lines it stays one here */
		strbuf_addc(&line, (unsigned char)*p < 0x20 ? ' ' : *p);
	strbuf_addc(&line, '\n');
	logfile_write(&r->log, strbuf_str(&line), line.len);
}

static void become(const struct run *r, const char *command)
{
	char *const argv[] = { (char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
			       (char *)(uintptr_t)command, NULL };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setsid();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	/* dup2() of the log to itself would leave it to be closed (begin()). */
	if (dup2(null, STDIN_FILENO) < 0 || dup2(LOG_FD, STDOUT_FILENO) < 0 ||
	    fcntl(LOG_FD, F_SETFD, 0) < 0)
		_exit(EXIT_RUN);
	(void)close(DIR_FD);
	/* That its directory is gone may be why the task failed, of which this is to tell. What the
	 * command names by relative paths is not to be looked for where something else is. */
	if (chdir(r->cwd) < 0) {
		(void)dprintf(LOG_FD,
			      "its directory %s cannot be entered (%s): it runs in " NOWHERE
			      ", where no file can be made or removed\n",
			      r->cwd, strerror(errno));
		if (chdir(NOWHERE) < 0)
			_exit(EXIT_RUN);
	}
	(void)execve("/bin/sh", argv, r->env.texts);
	(void)dprintf(LOG_FD, "cannot run /bin/sh: %s\n", strerror(errno));
	_exit(EXIT_RUN);
}

/* What has ended of our children; *ret is how the command did. False: there is none left. */
static bool reap(pid_t command, int *ret)
{
	int status;
	pid_t pid = 0;

	for (int n = 0; n < REAP_AT_ONCE && (pid = waitpid(-1, &status, WNOHANG)) > 0; n++)
		if (pid == command)
			*ret = status;
	return pid >= 0;
}

static void wait_a_step(void)
{
	const struct timespec step = { .tv_nsec = STEP_MS * (long)NS_PER_MS };
	sigset_t chld;

	(void)sigemptyset(&chld);
	(void)sigaddset(&chld, SIGCHLD);
	(void)sigtimedwait(&chld, NULL, &step);
}

/* Until nothing of it is left. True: its time was over. */
static bool wait_for(struct run *r, pid_t command, int *ret)
{
	uint64_t ending_ns = 0, now;
	struct ender ender = { .n_told = 0 };
	bool late = false;

	*ret = -1;
	ender_begin(&ender);
	while (reap(command, ret)) {
		now = clock_mono_ns();
		if (now >= r->log.next_ns)
			logfile_look(&r->log, now);
		if (!ending_ns && (*ret >= 0 || now >= r->until_ns)) {
			late = *ret < 0;
			ending_ns = now;
		}
		if (ending_ns)
			ender_pass_below_us(&ender, now < ending_ns + GRACE_NS ? SIGTERM : SIGKILL);
		wait_a_step();
	}
	ender_clear(&ender);
	return late;
}

static void tell_end(struct run *r, int status, bool late, uint64_t ran_ns)
{
	char text[128], how[64];

	if (WIFSIGNALED(status))
		(void)str_print(how, sizeof(how), "signal %d", WTERMSIG(status));
	else
		(void)str_print(how, sizeof(how), "exit code %d", WEXITSTATUS(status));
	(void)str_print(text, sizeof(text), "%s after %.1f s%s", how, (double)ran_ns / 1e9,
			late ? ", because its time was over (on_end_limit)" : "");
	say(r, "ended", text);
	if (late || status != 0)
		(void)dprintf(STDOUT_FILENO, "%s: the command that follows its end: %s; see %s\n",
			      r->title, text, r->log_path);
}

static void run_command(struct run *r, const char *command)
{
	uint64_t began = clock_mono_ns();
	int status = -1;
	bool late;
	pid_t pid;

	say(r, "on end", command);
	pid = fork();
	if (pid == 0)
		become(r, command);
	if (pid < 0) {
		(void)dprintf(STDOUT_FILENO,
			      "%s: the command that follows its end cannot start: %s\n", r->title,
			      strerror(errno));
		return;
	}
	late = wait_for(r, pid, &status);
	tell_end(r, status < 0 ? SIGKILL : status, late, clock_mono_ns() - began);
}

static void begin(struct run *r, const char *const *args)
{
	uint64_t limit_ms = strtoull(args[0], NULL, 10), log_limit = strtoull(args[1], NULL, 10);
	sigset_t chld;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	(void)fcntl(DIR_FD, F_SETFD, FD_CLOEXEC);
	(void)signal(SIGPIPE, SIG_IGN); /* its agent may be gone */
	(void)sigemptyset(&chld);
	(void)sigaddset(&chld, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &chld, NULL);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	r->until_ns = clock_mono_ns() + limit_ms * NS_PER_MS;
	logfile_init(&r->log, LOG_FD, log_limit, clock_mono_ns());
}

int on_end_main(int argc, char **argv)
{
	struct run r = { .job = NULL };
	struct err e = ERR_INIT;
	json_t *command;
	size_t i;

	if (argc != 4)
		return 2;
	begin(&r, (const char *const *)argv + 2);
	if (take_job(&r, &e) < 0)
		(void)dprintf(STDOUT_FILENO, "%s: %s\n", argv[1], e.text);
	else
		json_array_foreach(json_object_get(r.job, "commands"), i,
				   command) if (json_is_string(command))
			run_command(&r, json_string_value(command));
	logfile_finish(&r.log);
	(void)unlinkat(DIR_FD, argv[1], 0);
	json_decref(r.job);
	text_list_clear(&r.env);
	free(r.cwd);
	return 0;
}
