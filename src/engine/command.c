/* SPDX-License-Identifier: MIT */
#include "engine/command.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/textlist.h"
#include "base/utf8.h"
#include "engine/engine.h"

#define READ_SIZE     65536
#define KILLED_MS     2000 /* what was killed is not waited for any longer */
#define STEP_MS	      20
#define SIGNAL_STATUS 128

extern char **environ;

/* -------- what it is and what it gets -------- */

/* The file of a command, as a shell finds it; NULL. The caller frees it. */
static char *find_in(const char *dirs, const char *name)
{
	while (dirs && *dirs) {
		size_t n = strcspn(dirs, ":");
		cleanup_free char *path =
			xasprintf("%.*s/%s", n ? (int)n : 1, n ? dirs : ".", name);

		if (access(path, X_OK) == 0)
			return take_ptr(path);
		dirs += n + (dirs[n] == ':');
	}
	return NULL;
}

static const char *variable(const char *const *env, const char *name)
{
	size_t n = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

static char *find_command(const struct command *c, const char *const *env, const char *name)
{
	char *path;

	if (strchr(name, '/'))
		return access(name, X_OK) == 0 ? xstrdup(name) : NULL;
	path = find_in(variable(env, "PATH"), name);
	return path ? path : find_in(c->path, name);
}

bool command_is_there(const char *name, const struct command *how)
{
	const char *const *env = how->environ ? how->environ : (const char *const *)environ;
	cleanup_free char *path = find_command(how, env, name);

	return path;
}

static bool is_cleared(const char *const *clear, const char *variable_text)
{
	for (; clear && *clear; clear++)
		if (str_has_prefix(variable_text, *clear))
			return true;
	return false;
}

/*
 * Formats and languages of the user's own would change what is read. What tells a task its job
 * would go on to the job that it submits, and be wrong there.
 */
static struct text_list own_environment(const struct command *c, const char *const *env)
{
	static const char *const never[] = { ENGINE_KEY_VARIABLE "=", NULL };
	struct text_list own = { .n = 0 };

	for (; *env; env++)
		if (!is_cleared(c->clear, *env) && !is_cleared(never, *env))
			text_list_add(&own, *env);
	if (!c->keep_language)
		text_list_set_variable(&own, "LC_ALL=C");
	for (const char *const *set = c->set; set && *set; set++)
		text_list_set_variable(&own, *set);
	return own;
}

static int start(const struct command *c, const char *const *argv, const int fds[3], pid_t *ret,
		 struct err *e)
{
	const char *const *env = c->environ ? c->environ : (const char *const *)environ;
	cleanup_free char *path = find_command(c, env, argv[0]);
	struct text_list own, words = { .n = 0 };
	struct spawn s = SPAWN_INIT;

	if (!path)
		return err_set(e, -ENOENT, "%s: there is no such command on PATH here", argv[0]);
	own = own_environment(c, env);
	text_list_take(&own, NULL);
	for (const char *const *word = argv; *word; word++)
		text_list_add(&words, *word);
	text_list_take(&words, NULL);
	s.path = path;
	s.argv = words.texts;
	s.env = own.texts;
	for (int i = 0; i < 3; i++)
		s.fds[i] = fds[i];
	s.session = true;
	*ret = spawn_start(&s);
	text_list_clear(&words);
	text_list_clear(&own);
	return *ret < 0 ? err_sys(e, -*ret, "start %s", argv[0]) : 0;
}

/* -------- reading -------- */

struct running {
	pid_t pid;
	int out, err; /* our ends; -1: closed */
	uint64_t until_ns;
};

static bool take_output(int *fd, struct strbuf *b)
{
	char buf[READ_SIZE];
	ssize_t n = read(*fd, buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0) {
		*fd = fd_close(*fd);
		return true;
	}
	strbuf_add(b, buf, (size_t)n);
	return b->len <= COMMAND_OUTPUT_MAX;
}

static int left_ms(const struct running *run)
{
	uint64_t now = clock_mono_ns();

	return now >= run->until_ns ? 0 : (int)((run->until_ns - now) / NS_PER_MS) + 1;
}

/* Until both streams have ended: 0, -ETIMEDOUT, -EMSGSIZE. */
static int exchange(struct running *run, struct command_output *ret)
{
	while (run->out >= 0 || run->err >= 0) {
		struct pollfd p[] = { { .fd = run->out, .events = POLLIN },
				      { .fd = run->err, .events = POLLIN } };
		int wait = left_ms(run);
		int n = wait ? poll(p, ARRAY_LEN(p), wait) : 0;

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -ETIMEDOUT;
		if (n < 0)
			continue;
		if ((p[0].revents && !take_output(&run->out, &ret->out)) ||
		    (p[1].revents && !take_output(&run->err, &ret->err)))
			return -EMSGSIZE;
	}
	return 0;
}

/* The child has ended: 0 and *status; -ETIMEDOUT. */
static int await_end(const struct running *run, int *status)
{
	for (;;) {
		pid_t pid = waitpid(run->pid, status, WNOHANG);

		if (pid == run->pid)
			return 0;
		if (pid < 0 && errno != EINTR)
			return -errno;
		if (!left_ms(run))
			return -ETIMEDOUT;
		(void)usleep(STEP_MS * 1000);
	}
}

/* All of its session that did not make one of its own. */
static void kill_all(struct running *run, int *status)
{
	(void)kill(-run->pid, SIGKILL);
	run->until_ns = clock_mono_ns() + KILLED_MS * NS_PER_MS;
	(void)await_end(run, status);
}

static void set_status(int status, struct command_output *ret)
{
	ret->status = WIFEXITED(status)	    ? WEXITSTATUS(status)
		      : WIFSIGNALED(status) ? SIGNAL_STATUS + WTERMSIG(status)
					    : -1;
}

static int converse(struct running *run, const char *const *argv, uint64_t limit_ms,
		    struct command_output *ret, struct err *e)
{
	int status = 0, r;

	run->until_ns = clock_mono_ns() + limit_ms * NS_PER_MS;
	r = exchange(run, ret);
	if (r == 0)
		r = await_end(run, &status);
	if (r < 0)
		kill_all(run, &status);
	set_status(status, ret);
	if (r == -ETIMEDOUT)
		return err_set(e, r, "%s has not answered within %llu seconds", argv[0],
			       (unsigned long long)(limit_ms / 1000));
	if (r == -EMSGSIZE)
		return err_set(e, r, "%s prints more than %lu MiB", argv[0],
			       COMMAND_OUTPUT_MAX >> 20);
	return r < 0 ? err_sys(e, -r, "%s", argv[0]) : 0;
}

static int open_pipe(int ret[2])
{
	if (pipe2(ret, O_CLOEXEC) < 0)
		return -errno;
	(void)fcntl(ret[0], F_SETFL, O_NONBLOCK);
	return 0;
}

/* A file in memory, so that nobody has to wait until it is read. */
static int open_input(const char *text)
{
	cleanup_fd int fd = memfd_create("input", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (fs_write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -EIO;
	return take_fd(fd);
}

/* Others wrote it, in any encoding: as utf8_clean(), but lines and blanks stay as they are. */
static void clean(struct strbuf *b)
{
	size_t len = 0, n;

	for (size_t i = 0; i < b->len; i += n) {
		const char *p = b->data + i;
		size_t shown = utf8_shown(p);
		uint32_t c;

		n = shown ? shown : utf8_decode(p, &c);
		n = n ? n : 1;
		if (shown)
			(void)memmove(b->data + len, p, n);
		else
			b->data[len] = *p && strchr("\t\n\r", *p) ? *p : '?';
		len += shown ? shown : 1;
	}
	if (b->data)
		b->data[b->len = len] = '\0';
}

int command_run(const char *const *argv, const struct command *how, struct command_output *ret,
		struct err *e)
{
	int in = how->input ? open_input(how->input) : -1;
	int out[2] = { -1, -1 }, err[2] = { -1, -1 };
	struct running run = { .pid = 0 };
	int r = how->input && in < 0 ? in : open_pipe(out);

	*ret = (struct command_output){ .status = -1 };
	if (r == 0)
		r = open_pipe(err);
	if (r < 0)
		(void)err_sys(e, -r, "%s: its input and output", argv[0]);
	else
		r = start(how, argv, (const int[]){ in, out[1], err[1] }, &run.pid, e);
	(void)fd_close(in);
	(void)fd_close(out[1]);
	(void)fd_close(err[1]);
	run.out = out[0];
	run.err = err[0];
	if (r == 0)
		r = converse(&run, argv, how->limit_ms ? how->limit_ms : ENGINE_LIMIT_MS, ret, e);
	clean(&ret->out);
	clean(&ret->err);
	(void)fd_close(run.out);
	(void)fd_close(run.err);
	return r;
}

void command_output_clear(struct command_output *o)
{
	strbuf_clear(&o->out);
	strbuf_clear(&o->err);
}

bool command_was_killed(const struct command_output *o)
{
	return o->status > SIGNAL_STATUS && o->status <= SIGNAL_STATUS + SIGRTMAX;
}

/* -------- what it said -------- */

static bool is_blank(const char *line, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isspace((unsigned char)line[i]))
			return false;
	return true;
}

/* "E1124 16:42:11.400833 5040 memcache.go:265] ..": written for the log of a program of
 * Kubernetes' (klog), which says the same to people behind it. */
static bool is_log_line(const char *line)
{
	static const char form[] = "E0000 00:00:00.";

	if (!line[0] || !strchr("IWEF", line[0]))
		return false;
	for (size_t i = 1; form[i]; i++)
		if (form[i] == '0' ? !isdigit((unsigned char)line[i]) : line[i] != form[i])
			return false;
	return true;
}

/* The first line of text that is not blank, or the last one; its length is 0 where there is none.
 * A line of a log only where there is no other. */
static const char *line_of(const char *text, bool last, size_t *ret_len)
{
	bool of_log = false;
	const char *found = text;

	*ret_len = 0;
	while (*text) {
		size_t n = strcspn(text, "\n");

		if (!is_blank(text, n) && (!*ret_len || ((last || of_log) && !is_log_line(text)))) {
			found = text;
			*ret_len = n;
			of_log = is_log_line(text);
		}
		text += n + (text[n] == '\n');
	}
	return found;
}

int command_failed(const char *const *argv, const struct command_output *o, int code, struct err *e)
{
	size_t n;
	const char *line = line_of(strbuf_str(&o->err), false, &n);

	if (!n)
		line = line_of(strbuf_str(&o->out), true, &n);
	if (!n)
		return err_set(e, code, "%s ended with status %d and said nothing", argv[0],
			       o->status);
	(void)err_set(e, code, "%.*s", (int)n, line);
	if (e)
		(void)utf8_clean(e->text);
	/* Most name themselves. */
	if (!str_has_prefix(line, argv[0]))
		(void)err_wrap(e, "%s", argv[0]);
	return code;
}

static void blank_out(char *text, const char *name)
{
	size_t n = strlen(name);

	for (char *p = n ? strstr(text, name) : NULL; p; p = strstr(p, name)) {
		(void)memset(p, ' ', n);
		p += n;
	}
}

char *command_text(const struct command_output *o, const char *const *names)
{
	char *text = xasprintf("%s\n%s", strbuf_str(&o->out), strbuf_str(&o->err));

	for (; *names; names++)
		blank_out(text, *names);
	return text;
}

bool command_said(const struct command_output *o, const char *text)
{
	return strcasestr(strbuf_str(&o->out), text) || strcasestr(strbuf_str(&o->err), text);
}
