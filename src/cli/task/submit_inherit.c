/* SPDX-License-Identifier: MIT */
#include "cli/task/submit_inherit.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/cmd.h"
#include "spool/elements.h"
#include "spool/instance.h"
#include "spool/task_text.h"

extern char **environ;

/* What another task was told of itself, where `submit` is called by one. */
static bool is_of_a_task(const char *variable)
{
	static const char *const names[] = { "TENURE_TASK_",	      "TENURE_ATTEMPT=",
					     "TENURE_ARRAY_INDEX=",   "TENURE_GPU_MEMORY=",
					     "CUDA_VISIBLE_DEVICES=", "TENURE_JOB_KEY=",
					     "TENURE_LOCAL_" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_has_prefix(variable, names[i]))
			return true;
	return false;
}

/*
 * What an engine told the job in which `submit` is called: the task runs in another one, or in
 * none, and MPI and frameworks believe such words. Where the engine is stays.
 */
static bool is_of_a_job(const char *variable)
{
	static const char *const names[] = { "SLURM_",	     "SLURMD_",	  "SRUN_",     "PMI_",
					     "PMIX_",	     "SGE_HGR_",  "SGE_TASK_", "SGE_JOB_",
					     "PE_HOSTFILE=", "SENSECORE_" };

	if (str_has_prefix(variable, "SLURM_CONF="))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_has_prefix(variable, names[i]))
			return true;
	return false;
}

static bool is_ours(const char *variable)
{
	return strchr(variable, '=') > variable && !is_of_a_task(variable) &&
	       !is_of_a_job(variable);
}

void submitter_environment(struct task_spec *s)
{
	for (char **v = environ; *v; v++)
		if (is_ours(*v))
			text_list_add(&s->env, *v);
}

/* Where this process is. */
static int take_directory(struct task_spec *s, struct err *e)
{
	char here[PATH_MAX];

	if (!getcwd(here, sizeof(here)))
		return err_set(
			e, -errno,
			"the directory that this is called in cannot be named (%s); say with "
			"--cwd DIR where to run",
			errno == ENOENT ? "it was removed" : strerror(errno));
	return spec_set_text(s, "cwd", here, e);
}

int submitter_directory(struct task_spec *s, const char *given, struct err *e)
{
	cleanup_free char *full = NULL;
	struct stat st;

	if (!given)
		return take_directory(s, e);
	full = realpath(given, NULL);
	if (full && stat(full, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_set(e, -ENOTDIR, "--cwd: %s is no directory", given);
	if (given[0] == '/') {
		if (!full)
			cmd_warn("warning",
				 "--cwd: there is no directory %s here; the task fails where it "
				 "is not there when it starts",
				 given);
		return spec_set_text(s, "cwd", given, e);
	}
	if (!full)
		return err_sys(e, errno, "--cwd: find the directory \"%s\"", given);
	return spec_set_text(s, "cwd", full, e);
}

/* As far as it can be seen from here, and is not one of many. */
static void warn_of_output(const char *key, const char *path)
{
	cleanup_free char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');

	if (slash == dir)
		return;
	*slash = '\0';
	if (strchr(dir, '%'))
		return;
	if (access(dir, F_OK) < 0)
		cmd_warn(
			"warning",
			"--%s: there is no directory %s here; the task fails where it is not there when "
			"it starts",
			key, dir);
	else if (access(path, F_OK) == 0 ? access(path, W_OK) < 0 : access(dir, W_OK) < 0)
		cmd_warn("warning",
			 "--%s: %s cannot be written to from here; the task fails where "
			 "that is so when it starts",
			 key, path);
}

int submitter_output(struct task_spec *s, const char *key, const char *given, struct err *e)
{
	bool whole = given[0] == '/';
	cleanup_free char *path =
		xasprintf("%s%s%s", whole || !s->cwd ? "" : s->cwd,
			  whole || !s->cwd || !strcmp(s->cwd, "/") ? "" : "/", given);
	struct stat st;
	size_t len = strlen(path);

	if (!given[0])
		return err_set(e, -EINVAL, "--%s: no file is named; say one, as %%j.log", key);
	if (path[len - 1] == '/' || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
		return err_set(e, -EISDIR,
			       "--%s: \"%s\" is a directory; say a file in it, as %s%s%%j.log", key,
			       given, given, str_has_suffix(given, "/") ? "" : "/");
	if (output_path(path, NULL, NULL, e) < 0)
		return err_wrap(e, "--%s", key);
	warn_of_output(key, path);
	return spec_set_text(s, key, path, e);
}

void submitter_umask(struct task_spec *s)
{
	s->umask = proc_umask();
}

void submitter_name(struct task_spec *s, const struct spool *sp)
{
	static char user[64]; /* asked once: a name may come from a server, and lines may be 10^5 */

	s->host = xstrdup(spool_host(sp));
	s->user = xstrdup(user[0] ? user : user_name(getuid(), user, sizeof(user)));
	s->uid = getuid();
	s->submitted = clock_wall_ns();
}
