/* SPDX-License-Identifier: MIT */
#include "agent/report/subcommand.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/nofile.h"
#include "base/spawn.h"
#include "base/strbuf.h"
#include "base/units.h"

/* Freed when the process has ended, which is told by its output, and libuv has given that back. */
struct subcommand {
	struct subcommand_place place;
	char *name;
	unsigned int limit_ms;
	pid_t pid;
	uv_pipe_t out;
	uv_timer_t limit;
	struct strbuf line;
	char buf[1024];
	void (*done)(void *user);
	void *user;
};

static void on_out_closed(uv_handle_t *h)
{
	struct subcommand *s = h->data;

	strbuf_clear(&s->line);
	free(s->name);
	free(s);
}

static void on_limit_closed(uv_handle_t *h)
{
	struct subcommand *s = h->data;

	uv_close((uv_handle_t *)&s->out, on_out_closed);
}

static void tell_line(struct subcommand *s)
{
	if (s->line.len)
		eventlog_say(s->place.eventlog, LOG_LEVEL_INFO, "%s: %s", s->name,
			     strbuf_str(&s->line));
	strbuf_clear(&s->line);
	s->line = (struct strbuf)STRBUF_INIT;
}

static void tell_done(struct subcommand *s)
{
	void (*done)(void *user) = take_ptr(s->done);

	if (done)
		done(s->user);
}

static void end(struct subcommand *s)
{
	(void)waitpid(s->pid, NULL, 0); /* its output ends with it */
	tell_line(s);
	tell_done(s);
	uv_close((uv_handle_t *)&s->limit, on_limit_closed);
}

/* In a driver or in /proc it may hang so that KILL does not end it either, while the task that it
 * was for, and all who wait for that, wait for it. */
static void on_limit(uv_timer_t *limit)
{
	struct subcommand *s = limit->data;

	eventlog_say(s->place.eventlog, LOG_LEVEL_ERROR,
		     "%s: it has not ended for %u s; it is killed, and not waited for", s->name,
		     s->limit_ms / (unsigned int)MS_PER_S);
	(void)kill(s->pid, SIGKILL); /* not waited for yet, so the PID is its own */
	tell_done(s);
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
	struct subcommand *s = h->data;

	*buf = uv_buf_init(s->buf, sizeof(s->buf));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct subcommand *s = stream->data;

	for (ssize_t i = 0; i < n; i++) {
		if (buf->base[i] == '\n')
			tell_line(s);
		else
			strbuf_addc(&s->line, buf->base[i]);
	}
	if (n >= 0)
		return;
	(void)uv_read_stop(stream);
	end(s);
}

static int spawn(struct subcommand *s, char **args, const struct subcommand_files *files)
{
	struct spawn child = SPAWN_INIT;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	child.program = s->place.self->program_fd;
	child.argv = args;
	child.env = environ;
	child.fds[STDOUT_FILENO] = child.fds[STDERR_FILENO] = fds[1];
	if (files) {
		child.env = files->env;
		child.fds[STDIN_FILENO] = files->in;
		child.fds[STDERR_FILENO] = files->errors;
		child.fds[SPAWN_FDS - 1] = files->third;
		child.session = true;
	}
	r = s->pid = spawn_start(&child);
	(void)fd_close(fds[1]);
	if (r > 0) {
		nofile_set_of(s->pid, s->place.self->nofile);
		r = uv_pipe_open(&s->out, fds[0]);
	}
	if (r < 0)
		(void)fd_close(fds[0]);
	return r;
}

struct subcommand *subcommand_start(const struct subcommand_place *place,
				    const struct text_list *words, unsigned int limit_ms,
				    void (*done)(void *user), void *user)
{
	return subcommand_start_with(place, words, NULL, limit_ms, done, user);
}

struct subcommand *subcommand_start_with(const struct subcommand_place *place,
					 const struct text_list *words,
					 const struct subcommand_files *files,
					 unsigned int limit_ms, void (*done)(void *user),
					 void *user)
{
	struct subcommand *s = xcalloc(1, sizeof(*s));
	struct text_list args = { .n = 0 };
	int r;

	*s = (struct subcommand){ .place = *place,
				  .name = xstrdup(words->texts[0]),
				  .limit_ms = limit_ms,
				  .line = STRBUF_INIT,
				  .done = done,
				  .user = user };
	s->out.data = s->limit.data = s;
	(void)uv_pipe_init(place->loop, &s->out, 0);
	(void)uv_timer_init(place->loop, &s->limit);
	text_list_add(&args, "tenure");
	for (size_t i = 0; i < words->n; i++)
		text_list_add(&args, words->texts[i]);
	text_list_take(&args, NULL);
	r = spawn(s, args.texts, files);
	text_list_clear(&args);
	if (r == 0 && uv_read_start((uv_stream_t *)&s->out, on_alloc, on_read) == 0) {
		(void)uv_timer_start(&s->limit, on_limit, limit_ms, 0);
		return s;
	}
	eventlog_say(place->eventlog, LOG_LEVEL_ERROR, "cannot run tenure %s: %s", s->name,
		     uv_strerror(r));
	uv_close((uv_handle_t *)&s->limit, on_limit_closed);
	return NULL;
}

void subcommand_add_queue(struct text_list *words, const struct agent_config *c)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	const struct text_list *accepted = c->trust.accepted;

	text_list_take(words, xasprintf("--root=%s", c->root));
	text_list_take(words, xasprintf("--instance=%s", c->instance));
	for (size_t i = 0; accepted && i < accepted->n; i++)
		strbuf_addf(&b, "%s%s", i ? "," : "--accept-owners=", accepted->texts[i]);
	if (b.len)
		text_list_add(words, strbuf_str(&b));
	if (c->trust.setting == TRUST_DIRECTORY)
		text_list_add(words, "--trust=directory");
}

void subcommand_end(const struct subcommand *s)
{
	if (s)
		(void)kill(s->pid, SIGTERM); /* not waited for yet, so the PID is its own */
}

struct subcommand *subcommand_forget(struct subcommand *s)
{
	if (s)
		s->done = NULL;
	return NULL;
}

struct subcommand *subcommand_leave(struct subcommand *s)
{
	if (s) {
		s->done = NULL;
		(void)uv_read_stop((uv_stream_t *)&s->out);
		uv_close((uv_handle_t *)&s->limit, on_limit_closed);
	}
	return NULL;
}
