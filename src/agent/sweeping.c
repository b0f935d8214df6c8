/* SPDX-License-Identifier: MIT */
#include "agent/sweeping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/nofile.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "spool/spec.h"
#include "task/sweep.h"

#define ARGS_MAX 16

/* Freed when the process has ended, its output too, and libuv has given both handles back. */
struct sweeping {
	const struct sweeping_place *place;
	uv_process_t process;
	uv_pipe_t out;
	unsigned int handles;
	bool ended, read;
	struct strbuf line;
	char buf[1024];
	void (*done)(void *user);
	void *user;
};

static void on_closed(uv_handle_t *h)
{
	struct sweeping *s = h->data;

	if (--s->handles)
		return;
	strbuf_clear(&s->line);
	free(s);
}

static void tell_line(struct sweeping *s)
{
	if (s->line.len)
		news_say(s->place->news, LOG_LEVEL_INFO, "sweep: %s", strbuf_str(&s->line));
	strbuf_clear(&s->line);
	s->line = (struct strbuf)STRBUF_INIT;
}

static void end_if_both(struct sweeping *s)
{
	if (!s->ended || !s->read)
		return;
	tell_line(s);
	if (s->done)
		s->done(s->user);
	uv_close((uv_handle_t *)&s->process, on_closed);
	uv_close((uv_handle_t *)&s->out, on_closed);
}

static void on_exit_(uv_process_t *process, int64_t status, int signal)
{
	struct sweeping *s = process->data;

	s->ended = true;
	end_if_both(s);
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
	struct sweeping *s = h->data;

	*buf = uv_buf_init(s->buf, sizeof(s->buf));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct sweeping *s = stream->data;

	for (ssize_t i = 0; i < n; i++) {
		if (buf->base[i] == '\n')
			tell_line(s);
		else
			strbuf_addc(&s->line, buf->base[i]);
	}
	if (n >= 0)
		return;
	(void)uv_read_stop(stream);
	s->read = true;
	end_if_both(s);
}

static int spawn(struct sweeping *s, char *program, char **args)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;

	uv_stdio_container_t io[3] = { { .flags = UV_IGNORE },
				       { .flags = UV_INHERIT_FD, .data.fd = fds[1] },
				       { .flags = UV_INHERIT_FD, .data.fd = fds[1] } };
	uv_process_options_t o = {
		.exit_cb = on_exit_, .file = program, .args = args, .stdio_count = 3, .stdio = io
	};
	int r = uv_spawn(s->place->loop, &s->process, &o);

	(void)fd_close(fds[1]);
	if (r == 0)
		nofile_set_of(s->process.pid, s->place->nofile);
	if (r == 0)
		r = uv_pipe_open(&s->out, fds[0]);
	if (r < 0)
		(void)fd_close(fds[0]);
	return r;
}

/* An argument with its option; the text lives as long as the list. */
static void add(struct text_list *l, const char *option, const char *value)
{
	cleanup_free char *text = value ? xasprintf("%s=%s", option, value) : xstrdup(option);

	text_list_add(l, text);
}

static int start(struct sweeping *s, unsigned int what, const char *gpus)
{
	char program[40];
	char *args[ARGS_MAX] = { (char[]){ "tenure" }, (char[]){ "sweep" } };
	struct text_list words = { 0 };
	size_t n = 2;
	int r;

	for (unsigned int w = 0; w < SWEEP_WHAT_MAX; w++)
		if (what & SWEEP_BIT(w))
			add(&words, sweep_what_name(w), NULL);
	add(&words, "--end", NULL);
	if (what & SWEEP_BIT(SWEEP_GPU))
		add(&words, "--gpus", gpus);
	if (s->place->spare && *s->place->spare)
		add(&words, "--sweep-spare", s->place->spare);
	for (size_t i = 0; i < words.n; i++)
		args[n++] = words.texts[i];
	(void)str_print(program, sizeof(program), "/proc/self/fd/%d", s->place->program_fd);
	r = spawn(s, program, args);
	text_list_clear(&words);
	return r;
}

struct sweeping *sweeping_start(const struct sweeping_place *place, unsigned int what,
				const char *gpus, void (*done)(void *user), void *user)
{
	struct sweeping *s;
	int r;

	if (!*gpus)
		what &= ~SWEEP_BIT(SWEEP_GPU);
	if (!what)
		return NULL;
	s = xcalloc(1, sizeof(*s));
	*s = (struct sweeping){ .place = place, .done = done, .user = user, .handles = 2 };
	s->line = (struct strbuf)STRBUF_INIT;
	s->process.data = s->out.data = s;
	(void)uv_pipe_init(place->loop, &s->out, 0);
	r = start(s, what, gpus);
	if (r == 0 && uv_read_start((uv_stream_t *)&s->out, on_alloc, on_read) == 0)
		return s;
	news_say(place->news, LOG_LEVEL_ERROR, "cannot end what is left: %s", uv_strerror(r));
	uv_close((uv_handle_t *)&s->process, on_closed);
	uv_close((uv_handle_t *)&s->out, on_closed);
	return NULL;
}

struct sweeping *sweeping_forget(struct sweeping *s)
{
	if (s)
		s->done = NULL;
	return NULL;
}
