/* SPDX-License-Identifier: MIT */

/*
 * The start is one clone(CLONE_VM | CLONE_VFORK): no page tables are copied, and the child's errors
 * come back through shared memory with the step that failed, before the shim goes on. Between clone
 * and exec the child uses this process's memory, so it makes system calls only and writes nothing
 * but the result.
 */

#include "task/program.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/nofile.h"
#include "base/str.h"
#include "task/shproto.h"

#define CHILD_STACK    (64 * 1024)
#define LINE_MAX_BYTES 4096
#define DEFAULT_SHELL  "/bin/sh"
#define PYTHON	       "python3"
#define ENV	       "/usr/bin/env"
#define PATH_SHOWN     80 /* a longer one is no help in a sentence */
#define ELF_MAGIC      "\177ELF"

/* A base name that stays in its directory. */
static const char *safe_name(const char *name)
{
	if (!name || !name[0] || strchr(name, '/') || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0 || strlen(name) > NAME_MAX)
		return "script";
	return name;
}

static int write_script(struct program *p, const struct launch_spec *s, struct err *e)
{
	int r = end_record_dir_check(s->run_dir, e);

	p->dir = xasprintf("%s/%s", s->run_dir, s->token);
	if (r == -ENOENT)
		r = end_record_dir_make(s->run_dir, e);
	if (r < 0)
		return r;
	if (mkdir(p->dir, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make directory %s for the script", p->dir);
	p->file = xasprintf("%s/%s", p->dir, safe_name(s->script_name));
	/* One that is there is of a shim that was killed: its name is ours now. */
	(void)unlink(p->file);

	cleanup_fd int fd =
		open(p->file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);

	if (fd < 0)
		return err_sys(e, errno, "write the script to %s", p->file);

	r = fs_write_all(fd, s->script, s->script_bytes);
	return r < 0 ? err_sys(e, -r, "write the script to %s", p->file) : 0;
}

static char *trim(char *s)
{
	while (*s == ' ' || *s == '\t')
		s++;

	size_t n = strlen(s);

	while (n && isspace((unsigned char)s[n - 1]))
		s[--n] = '\0';
	return s;
}

/* "#!/usr/bin/env python3": the interpreter and, as the kernel does it, one word of the rest. */
static int first_line(struct program *p, const struct launch_spec *s, const char **words,
		      struct err *e)
{
	const char *text = s->script, *end = memchr(text, '\n', s->script_bytes);
	size_t len = end ? (size_t)(end - text) : s->script_bytes;

	if (len > LINE_MAX_BYTES)
		return err_set(e, -EINVAL, "the script's first line is longer than %d bytes",
			       LINE_MAX_BYTES);
	if (len > 2 && text[len - 1] == '\r')
		return err_set(e, -EINVAL,
			       "the script's lines end in CR LF, as on Windows, so its interpreter "
			       "would not be found (sed -i 's/\\r$//' FILE mends it)");
	p->line = xasprintf("%.*s", (int)(len - 2), text + 2);

	char *name = trim(p->line), *rest = name + strcspn(name, " \t");

	if (*rest)
		*rest++ = '\0';
	if (!*name)
		return err_set(e, -EINVAL, "the script's first line names no interpreter");
	words[0] = name;
	rest = trim(rest);
	if (*rest)
		words[1] = rest;
	if (access(name, F_OK) < 0 && errno == ENOENT)
		return err_set(e, -ENOENT, "the script's interpreter %s does not exist here", name);
	return 0;
}

static bool begins(const struct launch_spec *s, const char *with)
{
	size_t n = strlen(with);

	return s->script_bytes >= n && memcmp(s->script, with, n) == 0;
}

static bool is_python(const char *file)
{
	const char *end = file ? strrchr(file, '.') : NULL;

	return end && strcmp(end, ".py") == 0;
}

/* What stands in front of the script's file. */
static int interpreter(struct program *p, const struct launch_spec *s, const char **words,
		       struct err *e)
{
	if (begins(s, "#!"))
		return first_line(p, s, words, e);
	if (begins(s, ELF_MAGIC))
		return 0;
	p->guessed = true;
	words[0] = is_python(s->script_name) ? PYTHON : DEFAULT_SHELL;
	return 0;
}

static void set_argv(struct program *p, const struct launch_spec *s, const char *const *front)
{
	size_t n = 0, path = 1;

	p->argv = xcalloc((size_t)s->n_argv + 4, sizeof(*p->argv));
	for (; front[n]; n++)
		p->argv[n] = front[n];
	for (uint32_t i = 0; i < s->n_argv; i++)
		p->argv[n++] = s->argv[i];
	/* sh PATH words: PATH is filled in where the file was found. As of a script, of Python's
	 * what runs it is the first one there is. */
	p->sh_argv = xcalloc((size_t)s->n_argv + 6, sizeof(*p->sh_argv));
	p->sh_argv[0] = DEFAULT_SHELL;
	if (n && is_python(p->argv[0])) {
		p->sh_argv[0] = ENV;
		p->sh_argv[path++] = PYTHON;
	}
	p->sh_path = path;
	for (size_t i = 1; i < n; i++)
		p->sh_argv[path + i] = p->argv[i];
}

int program_prepare(struct program *p, const struct launch_spec *s, struct err *e)
{
	const char *front[4] = { NULL };

	*p = (struct program){ .exit_code = EXIT_CANNOT_RUN };
	if (s->script) {
		int r = write_script(p, s, e);

		p->not_its_fault = r < 0;
		if (r == 0)
			r = interpreter(p, s, front, e);
		if (r == -ENOENT)
			p->exit_code = EXIT_NOT_FOUND;
		if (r < 0)
			return r;
		front[front[0] ? (front[1] ? 2 : 1) : 0] = p->file;
	}
	set_argv(p, s, front);
	return 0;
}

static bool same_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n + 1) == 0;
}

static bool overridden(const char *entry, const char *const *more, size_t n_more)
{
	for (size_t i = 0; i < n_more; i++)
		if (same_name(entry, more[i]))
			return true;
	return same_name(entry, TASK_TOKEN_ENV "=");
}

void program_set_env(struct program *p, const struct launch_spec *s, const char *const *more,
		     size_t n_more)
{
	size_t n = 0;

	free(p->envp);
	free(p->token_env);
	p->envp = xcalloc(s->n_env + n_more + 2, sizeof(*p->envp));
	p->token_env = xasprintf("%s=%s", TASK_TOKEN_ENV, s->token);
	for (uint32_t i = 0; i < s->n_env; i++)
		if (!overridden(s->env[i], more, n_more))
			p->envp[n++] = s->env[i];
	for (size_t i = 0; i < n_more; i++)
		if (!same_name(more[i], TASK_TOKEN_ENV "="))
			p->envp[n++] = more[i];
	p->envp[n++] = p->token_env;
	p->path_env = PROGRAM_PATH;
	for (size_t i = 0; i < n; i++)
		if (str_has_prefix(p->envp[i], "PATH="))
			p->path_env = p->envp[i] + strlen("PATH=");
}

/* The steps of a start, in the words for its owner. */
enum step { STEP_SETUP, STEP_CWD, STEP_OUTPUT, STEP_ERROR, STEP_EXEC };

struct child {
	struct program *p;
	const struct launch_spec *spec;
	int log_fd;
	int cgroup_fd;
	volatile enum step step;
	volatile int errnum;
	char path[PATH_MAX];
};

static char *const *as_words(const char **v)
{
	return (char *const *)(uintptr_t)v;
}

static void exec_file(struct child *c, const char *path)
{
	(void)execve(path, as_words(c->p->argv), as_words(c->p->envp));
	if (errno != ENOEXEC)
		return;
	c->p->sh_argv[c->p->sh_path] = path;
	(void)execve(c->p->sh_argv[0], as_words(c->p->sh_argv), as_words(c->p->envp));
}

/* Along PATH, as a shell does it: "permission denied" only if nothing better comes. */
static void exec_search(struct child *c)
{
	const char *name = c->p->argv[0];
	size_t name_len = strlen(name);
	int errnum = ENOENT;

	if (strchr(name, '/')) {
		exec_file(c, name);
		return;
	}
	for (const char *dir = c->p->path_env;; dir += 1) {
		size_t len = strcspn(dir, ":");

		if (len + name_len + 2 <= sizeof(c->path)) {
			(void)memcpy(c->path, dir, len);
			c->path[len] = '/';
			/* An empty entry is the working directory. */
			(void)memcpy(c->path + (len ? len + 1 : 0), name, name_len + 1);
			exec_file(c, c->path);
			if (errno != ENOENT && errno != ENOTDIR)
				errnum = errno;
		}
		dir += len;
		if (!*dir)
			break;
	}
	errno = errnum;
}

static bool set_up(const struct child *c)
{
	int null = open("/dev/null", O_RDONLY);

	/* 0 to 2 are open in every shim, so null is above them. */
	if (null < 0 || dup2(null, 0) < 0 || dup2(c->log_fd, 1) < 0 || dup2(c->log_fd, 2) < 0)
		return false;
	(void)umask((mode_t)c->spec->umask);
	return setsid() >= 0;
}

/*
 * execve() would close them as well. But where a file server does not answer that takes as long as
 * it likes, and newer kernels let whoever reads the /proc/PID/stat of a process wait until it is
 * through its execve(): ps(1), and every program that looks for processes, on the whole machine.
 */
static void close_rest(void)
{
	nofile_close(STDERR_FILENO + 1, UINT_MAX);
}

/* Appended to, whoever else writes to it. A FIFO that nobody reads is an error and no wait. */
static bool open_as(const char *path, int fd, uint64_t *ret_at)
{
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_NONBLOCK, 0666);
	struct stat st;
	int flags;

	if (file < 0)
		return false;
	if (fstat(file, &st) == 0 && S_ISREG(st.st_mode))
		*ret_at = (uint64_t)st.st_size;
	flags = fcntl(file, F_GETFL);
	return fcntl(file, F_SETFL, flags & ~O_NONBLOCK) == 0 && dup2(file, fd) >= 0;
}

/* In the task's own process, which can be ended while a file system does not answer. */
static bool redirect(struct child *c)
{
	const struct launch_spec *s = c->spec;

	c->step = STEP_OUTPUT;
	if (s->output && s->output[0] &&
	    (!open_as(s->output, STDOUT_FILENO, &c->p->output_at) ||
	     dup2(STDOUT_FILENO, STDERR_FILENO) < 0))
		return false;
	c->step = STEP_ERROR;
	return !(s->error && s->error[0]) || open_as(s->error, STDERR_FILENO, &c->p->error_at);
}

static int run_child(void *arg)
{
	struct child *c = arg;
	sigset_t none;

	c->step = STEP_SETUP;
	if (!set_up(c))
		goto fail;
	/* A help, not a need: a hierarchy that takes no processes here is done without. */
	if (c->cgroup_fd >= 0)
		(void)!write(c->cgroup_fd, "0", 1);
	c->step = STEP_CWD;
	if (chdir(c->spec->cwd) < 0)
		goto fail;
	if (!redirect(c))
		goto fail;
	close_rest();
	c->step = STEP_EXEC;
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* As in a fresh login; in a job a warning of the engine's, which its agent acts upon, ends
	 * no program that does not know of it. */
	if (!(c->spec->flags & LAUNCH_IN_JOB)) {
		(void)signal(SIGUSR1, SIG_DFL);
		(void)signal(SIGUSR2, SIG_DFL);
	}
	exec_search(c);
fail:
	c->errnum = errno ? errno : EIO;
	_exit(127);
}

/* Of what a node has too little at times. */
static bool is_want(int errnum)
{
	return errnum == EAGAIN || errnum == ENOMEM || errnum == EMFILE || errnum == ENFILE;
}

static int say_exec(struct program *p, int errnum, struct err *e)
{
	const char *name = p->argv[0];
	struct stat st;

	if (errnum == ENOENT)
		p->exit_code = EXIT_NOT_FOUND;
	if (errnum == ENOENT && !strchr(name, '/') && strlen(p->path_env) > PATH_SHOWN)
		return err_set(e, -errnum, "there is no command \"%s\" in PATH", name);
	if (errnum == ENOENT && !strchr(name, '/'))
		return err_set(e, -errnum, "there is no command \"%s\" in PATH (%s)", name,
			       p->path_env);
	if (errnum == ENOENT && stat(name, &st) == 0)
		return err_set(e, -errnum, "%s exists, but not its interpreter or dynamic loader",
			       name);
	if (errnum == EACCES)
		return err_sys(e, errnum,
			       "run %s (is it a file, executable, on a filesystem not "
			       "mounted noexec?)",
			       name);
	return err_sys(e, errnum, "run %s", name);
}

static int say(struct child *c, struct err *e)
{
	int errnum = c->errnum;

	switch (c->step) {
	case STEP_CWD:
		return err_sys(e, errnum, "enter the working directory %s", c->spec->cwd);
	case STEP_OUTPUT:
		return err_sys(e, errnum, "write its output to %s", c->spec->output);
	case STEP_ERROR:
		return err_sys(e, errnum, "write its errors to %s", c->spec->error);
	case STEP_EXEC:
		return say_exec(c->p, errnum, e);
	case STEP_SETUP:
		break;
	}
	return err_sys(e, errnum, "prepare the task's first process");
}

static bool gate_pass(struct gate *g)
{
	unsigned int open = GATE_OPEN;

	return atomic_compare_exchange_strong(&g->is, &open, GATE_PASSED);
}

bool gate_shut(struct gate *g)
{
	unsigned int open = GATE_OPEN;

	return atomic_compare_exchange_strong(&g->is, &open, GATE_SHUT) || open == GATE_SHUT;
}

pid_t program_start(struct program *p, const struct launch_spec *spec, struct gate *gate,
		    int log_fd, int cgroup_fd, struct err *e)
{
	cleanup_free char *stack = xmalloc(CHILD_STACK);
	struct child c = { .p = p, .spec = spec, .log_fd = log_fd, .cgroup_fd = cgroup_fd };
	char *top = stack + CHILD_STACK;

	top -= (uintptr_t)top % 16;
	p->exit_code = EXIT_CANNOT_RUN;
	p->not_its_fault = false;
	if (!gate_pass(gate))
		return err_set(e, -ECANCELED, "its start was cancelled");

	pid_t pid = clone(run_child, top, CLONE_VM | CLONE_VFORK | SIGCHLD, &c);

	if (pid < 0) {
		p->not_its_fault = true;
		return err_sys(e, errno, "start a process");
	}
	if (!c.errnum)
		return pid;
	p->not_its_fault = c.step == STEP_SETUP || is_want(c.errnum);
	(void)waitpid(pid, NULL, 0);
	return say(&c, e);
}

void program_clear(struct program *p)
{
	if (p->file)
		(void)unlink(p->file);
	if (p->dir)
		(void)rmdir(p->dir);
	free(p->argv);
	free(p->sh_argv);
	free(p->envp);
	free(p->dir);
	free(p->file);
	free(p->line);
	free(p->token_env);
	*p = (struct program){ 0 };
}
