/* SPDX-License-Identifier: MIT */
#include "agent/helpers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/parts.h"
#include "agent/report/eventlog.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/utf8.h"
#include "hold/endpoint_names.h"

#define LOOK_MS	     500
#define PAUSE_MS     1000 /* before it is started again, and twice as long each time */
#define PAUSE_MAX_MS 60000
#define WELL_MS	     60000 /* one that has run for so long was well */
#define TOLD_MAX     20	   /* of one in a minute */
#define LINE_BYTES   1024

struct helper {
	struct helpers *all;
	const struct helper_spec *spec;
	pid_t pid; /* 0: it does not run */
	uv_pipe_t out;
	bool open; /* out is */
	struct strbuf line;
	char buf[4096];
	char last[LINE_BYTES]; /* what it said last */
	uint64_t started_ms, start_at_ms, pause_ms, minute_ms;
	unsigned int lines, unsaid;
};

/* Freed when the last handle is closed. */
struct helpers {
	struct agent *a;
	uv_timer_t timer;
	unsigned int handles;
	char socket[SOCKET_NAME_MAX];
	size_t n;
	struct helper all[];
};

static uint64_t now_ms(void)
{
	return clock_mono_ns() / NS_PER_MS;
}

/* -------- what it prints -------- */

static bool may_say(struct helper *h)
{
	if (now_ms() >= h->minute_ms + MS_PER_MIN) {
		h->minute_ms = now_ms();
		h->lines = 0;
		if (h->unsaid)
			eventlog_say(h->all->a->eventlog, LOG_LEVEL_WARNING,
				     "%s: %u lines more were not told", h->spec->name, h->unsaid);
		h->unsaid = 0;
	}
	h->unsaid += h->lines >= TOLD_MAX;
	return h->lines++ < TOLD_MAX;
}

static void tell_line(struct helper *h)
{
	cleanup_free char *line = utf8_clean(strbuf_take(&h->line));

	/* The same each time it is started is told once. */
	if (!line[0] || str_same_but_figures(h->last[0] ? h->last : NULL, line) || !may_say(h))
		return;
	(void)str_copy(h->last, sizeof(h->last), line);
	eventlog_say(h->all->a->eventlog, LOG_LEVEL_WARNING, "%s", line);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
	struct helper *h = handle->data;

	*buf = uv_buf_init(h->buf, sizeof(h->buf));
}

static void on_closed(uv_handle_t *handle)
{
	struct helper *h = handle->data;
	struct helpers *all = h->all;

	h->open = false;
	if (--all->handles == 0)
		free(all);
}

static void close_out(struct helper *h)
{
	if (h->open && !uv_is_closing((uv_handle_t *)&h->out))
		uv_close((uv_handle_t *)&h->out, on_closed);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct helper *h = stream->data;

	for (ssize_t i = 0; i < n; i++) {
		if (buf->base[i] != '\n' && h->line.len < LINE_BYTES - 1)
			strbuf_addc(&h->line, buf->base[i]);
		else if (buf->base[i] == '\n')
			tell_line(h);
	}
	if (n < 0)
		close_out(h);
}

/* -------- its life -------- */

static int spawn(struct helper *h, char *const *argv)
{
	struct spawn child = SPAWN_INIT;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	child.path = h->spec->program;
	child.argv = argv;
	child.env = environ;
	child.fds[STDOUT_FILENO] = child.fds[STDERR_FILENO] = fds[1];
	child.session = true; /* Ctrl-C is for the agent, which it outlives by a moment */
	r = spawn_start(&child);
	(void)fd_close(fds[1]);
	if (r < 0) {
		(void)fd_close(fds[0]);
		return r;
	}
	h->pid = r;
	(void)uv_pipe_init(&h->all->a->loop, &h->out, 0);
	h->out.data = h;
	h->open = true;
	h->all->handles++;
	r = uv_pipe_open(&h->out, fds[0]);
	if (r < 0)
		(void)fd_close(fds[0]);
	if (r < 0 || uv_read_start((uv_stream_t *)&h->out, on_alloc, on_read) < 0)
		close_out(h);
	return 0;
}

static void begin(struct helper *h)
{
	struct text_list argv = { .n = 0 };
	int r;

	text_list_add(&argv, h->spec->name);
	text_list_take(&argv, xasprintf("--socket=%s", h->all->socket));
	text_list_take(&argv, xasprintf("--events=%s", agentlog_event_path(h->all->a->agentlog)));
	for (size_t i = 0; i < h->spec->argv.n; i++)
		text_list_add(&argv, h->spec->argv.texts[i]);
	text_list_take(&argv, NULL);
	h->started_ms = now_ms();
	r = spawn(h, argv.texts);
	text_list_clear(&argv);
	if (r < 0)
		eventlog_say(h->all->a->eventlog, LOG_LEVEL_ERROR, "cannot start %s: %s",
			     h->spec->program, strerror(-r));
	if (r < 0)
		h->start_at_ms = now_ms() + PAUSE_MAX_MS;
}

static void on_end(struct helper *h, int status)
{
	char pause[UNIT_TEXT_MAX];

	h->pid = 0;
	close_out(h);
	if (now_ms() >= h->started_ms + WELL_MS || !h->pause_ms)
		h->pause_ms = PAUSE_MS;
	else
		h->pause_ms = h->pause_ms * 2 < PAUSE_MAX_MS ? h->pause_ms * 2 : PAUSE_MAX_MS;
	h->start_at_ms = now_ms() + h->pause_ms;
	eventlog_say(h->all->a->eventlog, LOG_LEVEL_WARNING,
		     "%s has ended (%s %d); it is started again in %s", h->spec->name,
		     WIFSIGNALED(status) ? "signal" : "exit code",
		     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		     unit_format_duration(h->pause_ms, pause));
}

/* Its end is seen here and not by its output, which what it has started may keep open. */
static void on_look(uv_timer_t *timer)
{
	struct helpers *all = timer->data;

	for (size_t i = 0; i < all->n; i++) {
		struct helper *h = &all->all[i];
		int status;

		if (h->pid && waitpid(h->pid, &status, WNOHANG) == h->pid)
			on_end(h, status);
		else if (!h->pid && !h->open && now_ms() >= h->start_at_ms)
			begin(h);
	}
}

struct helpers *helpers_start(struct agent *a)
{
	size_t n = a->c->n_helpers;
	struct helpers *all = n ? xcalloc(1, sizeof(*all) + n * sizeof(all->all[0])) : NULL;

	if (!all)
		return NULL;
	all->a = a;
	all->n = n;
	all->handles = 1;
	(void)agent_socket_name(all->socket, sizeof(all->socket), a->c->instance, a->c->dev_dir,
				agent_job_key(a->c));
	for (size_t i = 0; i < n; i++)
		all->all[i] = (struct helper){ .all = all,
					       .spec = &a->c->helpers[i],
					       .line = STRBUF_INIT };
	(void)uv_timer_init(&a->loop, &all->timer);
	all->timer.data = all;
	(void)uv_timer_start(&all->timer, on_look, 0, LOOK_MS);
	return all;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct helpers *all = handle->data;

	if (--all->handles == 0)
		free(all);
}

void helpers_close(struct helpers *all)
{
	if (!all)
		return;
	for (size_t i = 0; i < all->n; i++) {
		/* One that was stopped is to see our end, too. */
		if (all->all[i].pid)
			(void)kill(all->all[i].pid, SIGCONT);
		close_out(&all->all[i]);
		strbuf_clear(&all->all[i].line);
	}
	uv_close((uv_handle_t *)&all->timer, on_timer_closed);
}
