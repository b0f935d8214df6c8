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
#include "base/json_get.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/settings.h"
#include "base/spawn.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/textlist.h"
#include "base/units.h"
#include "base/utf8.h"
#include "hold/endpoint_names.h"

#define LOOK_MS	     500
#define PAUSE_MS     1000 /* before it is started again, and twice as long each time */
#define PAUSE_MAX_MS 60000
#define WELL_MS	     60000 /* one that has run for so long was well */
#define SETTLED_MS   10000 /* one that says nothing for so long has no trouble */
#define END_LIMIT_MS 5000  /* one that was told to end is killed then */
#define TOLD_MAX     20	   /* of one in a minute */
#define LINE_BYTES   1024
#define NAME_BYTES   32
#define REST_READS   16		/* of what is in the pipe of one that has ended */
#define OWN_NAME     "tenure: " /* how what stands on our command line begins what it says */
#define NOT_TOLD_YET (-1)

struct helper {
	struct helpers *all;
	char name[NAME_BYTES];
	bool wanted;
	char *program; /* NULL: it cannot run, and trouble says why */
	struct text_list argv;
	pid_t pid;  /* 0: it does not run */
	int end_fd; /* the end of its standard input that is ours; -1 */
	uv_pipe_t out;
	bool open; /* out is */
	struct strbuf line;
	char buf[4096];
	char last[LINE_BYTES];	  /* what it said last */
	char news[LINE_BYTES];	  /* good news, by the one that runs */
	char trouble[LINE_BYTES]; /* what it has said else, since then, or why it does not run */
	bool said;		  /* trouble, by the one that runs */
	uint64_t started_ms, start_at_ms, pause_ms, minute_ms;
	uint64_t kill_at_ms; /* it was told to end; 0: it was not */
	int told_status;     /* of waitpid(), the last that was told; or NOT_TOLD_YET */
	unsigned int lines, unsaid;
};

/* Freed when the last handle is closed. */
struct helpers {
	struct agent *a;
	uv_timer_t timer;
	unsigned int handles;
	char socket[SOCKET_NAME_MAX];
	size_t n;
	struct helper **all; /* each name once, also of those that are not wanted any more */
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
				     "%s: %u lines more were not told", h->name, h->unsaid);
		h->unsaid = 0;
	}
	h->unsaid += h->lines >= TOLD_MAX;
	return h->lines++ < TOLD_MAX;
}

/* Without its name, which is said of all that it says. */
static const char *skip_name(const struct helper *h, const char *line)
{
	size_t n = strlen(h->name);

	if (str_has_prefix(line, OWN_NAME))
		return line + strlen(OWN_NAME);
	return strncmp(line, h->name, n) == 0 && str_has_prefix(line + n, ": ") ? line + n + 2
										: line;
}

static void tell_line(struct helper *h)
{
	cleanup_free char *text = utf8_clean(strbuf_take(&h->line));
	bool good = str_has_prefix(text, LOG_INFO_MARK);
	const char *line = good ? text + strlen(LOG_INFO_MARK) : skip_name(h, text);

	if (!line[0])
		return;
	(void)str_copy(h->trouble, sizeof(h->trouble), good ? "" : line);
	h->said = !good;
	if (good)
		(void)str_copy(h->news, sizeof(h->news), line);
	/* The same each time it is started is told once. */
	if (str_same_but_figures(h->last[0] ? h->last : NULL, line) || !may_say(h))
		return;
	(void)str_copy(h->last, sizeof(h->last), line);
	eventlog_say(h->all->a->eventlog, good ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "%s: %s",
		     h->name, line);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
	struct helper *h = handle->data;

	*buf = uv_buf_init(h->buf, sizeof(h->buf));
}

static void release(struct helpers *all)
{
	if (--all->handles)
		return;
	for (size_t i = 0; i < all->n; i++) {
		struct helper *h = all->all[i];

		text_list_clear(&h->argv);
		strbuf_clear(&h->line);
		free(h->program);
		free(h);
	}
	free(all->all);
	free(all);
}

static void on_closed(uv_handle_t *handle)
{
	struct helper *h = handle->data;

	h->open = false;
	release(h->all);
}

static void close_out(struct helper *h)
{
	if (h->open && !uv_is_closing((uv_handle_t *)&h->out))
		uv_close((uv_handle_t *)&h->out, on_closed);
}

static void take_output(struct helper *h, const char *text, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++) {
		if (text[i] != '\n' && h->line.len < LINE_BYTES - 1)
			strbuf_addc(&h->line, text[i]);
		else if (text[i] == '\n')
			tell_line(h);
	}
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	take_output(stream->data, buf->base, n);
	if (n < 0)
		close_out(stream->data);
}

/* Its end may be seen before its last words are read. What it has started may print for ever. */
static void read_rest(struct helper *h)
{
	uv_os_fd_t fd;

	if (!h->open || uv_is_closing((uv_handle_t *)&h->out) ||
	    uv_fileno((uv_handle_t *)&h->out, &fd) < 0)
		return;
	for (int i = 0; i < REST_READS; i++) {
		ssize_t n = read(fd, h->buf, sizeof(h->buf)); /* uv_pipe_open(): does not wait */

		if (n <= 0)
			return;
		take_output(h, h->buf, n);
	}
}

/* -------- its life -------- */

static int watch_output(struct helper *h, int fd)
{
	int r;

	(void)uv_pipe_init(&h->all->a->loop, &h->out, 0);
	h->out.data = h;
	h->open = true;
	h->all->handles++;
	r = uv_pipe_open(&h->out, fd);
	if (r < 0)
		(void)fd_close(fd);
	if (r < 0 || uv_read_start((uv_stream_t *)&h->out, on_alloc, on_read) < 0)
		close_out(h);
	return r;
}

static int spawn(struct helper *h, char *const *argv)
{
	struct spawn child = SPAWN_INIT;
	int in[2], out[2], r;

	if (pipe2(in, O_CLOEXEC) < 0)
		return -errno;

	cleanup_fd int in_child = in[0], in_own = in[1];

	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;

	cleanup_fd int out_own = out[0], out_child = out[1];

	child.path = h->program;
	child.argv = argv;
	child.env = environ;
	child.fds[STDIN_FILENO] = in_child;
	child.fds[STDOUT_FILENO] = child.fds[STDERR_FILENO] = out_child;
	child.session = true; /* Ctrl-C is for the agent, which it outlives by a moment */
	r = spawn_start(&child);
	if (r < 0)
		return r;
	h->pid = r;
	h->end_fd = take_fd(in_own);
	(void)watch_output(h, take_fd(out_own));
	return 0;
}

static void begin(struct helper *h)
{
	struct text_list argv = text_list_copy(&h->argv);
	int r;

	text_list_take(&argv, NULL);
	h->started_ms = now_ms();
	h->kill_at_ms = 0;
	h->news[0] = '\0';
	h->said = false;
	r = spawn(h, argv.texts);
	text_list_clear(&argv);
	if (r == 0)
		return;
	(void)str_print(h->trouble, sizeof(h->trouble), "cannot start %s: %s", h->program,
			strerror(-r));
	eventlog_say(h->all->a->eventlog, LOG_LEVEL_ERROR, "%s: %s", h->name, h->trouble);
	h->start_at_ms = now_ms() + PAUSE_MAX_MS;
}

/* That it ends again and again in the same way is told once. */
static void tell_end(struct helper *h, int status, bool well)
{
	char how[32], pause[UNIT_TEXT_MAX];
	bool again = h->told_status == status && !well;

	(void)str_print(how, sizeof(how), "%s %d", WIFSIGNALED(status) ? "signal" : "exit code",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	if (!h->trouble[0] || !h->said)
		(void)str_print(h->trouble, sizeof(h->trouble), "it has ended (%s)", how);
	if (again)
		return;
	h->told_status = status;
	eventlog_say(h->all->a->eventlog, LOG_LEVEL_WARNING,
		     "%s has ended (%s); it is started again in %s", h->name, how,
		     unit_format_duration(h->pause_ms, pause));
}

static void on_end(struct helper *h, int status)
{
	bool well = now_ms() >= h->started_ms + WELL_MS || !h->pause_ms;
	bool told_to = h->kill_at_ms != 0;

	read_rest(h);
	h->pid = 0;
	h->kill_at_ms = 0;
	h->end_fd = fd_close(h->end_fd);
	close_out(h);
	if (told_to) {
		h->pause_ms = 0;
		h->start_at_ms = now_ms();
		return;
	}
	h->pause_ms = well			       ? PAUSE_MS
		      : h->pause_ms * 2 < PAUSE_MAX_MS ? h->pause_ms * 2
						       : PAUSE_MAX_MS;
	h->start_at_ms = now_ms() + h->pause_ms;
	tell_end(h, status, well);
}

/* Its end is seen here and not by its output, which what it has started may keep open. */
static void look(struct helper *h)
{
	int status;

	if (h->pid && waitpid(h->pid, &status, WNOHANG) == h->pid)
		on_end(h, status);
	else if (h->pid && h->kill_at_ms && now_ms() >= h->kill_at_ms)
		(void)kill(h->pid, SIGKILL);
	else if (!h->pid && !h->open && h->wanted && h->program && now_ms() >= h->start_at_ms)
		begin(h);
}

static void on_look(uv_timer_t *timer)
{
	struct helpers *all = timer->data;

	for (size_t i = 0; i < all->n; i++)
		look(all->all[i]);
}

/* One that was stopped is to see it, too. */
static void tell_to_end(struct helper *h)
{
	if (!h->pid || h->kill_at_ms)
		return;
	h->kill_at_ms = now_ms() + END_LIMIT_MS;
	h->end_fd = fd_close(h->end_fd);
	(void)kill(h->pid, SIGTERM);
	(void)kill(h->pid, SIGCONT);
}

/* -------- which ones there are -------- */

/* As options, as the agent itself goes by them. */
static void add_settings(const json_t *values, const json_t *keys, struct text_list *argv)
{
	const json_t *key;
	size_t i;

	json_array_foreach(keys, i, key)
	{
		const char *name = json_string_value(key);
		const struct setting *row = name ? setting_find(name) : NULL;
		const char *text = row ? json_string_value(json_array_get(
						 json_object_get(values, row->key), 0))
				       : NULL;

		if (text && text[0])
			text_list_take(argv, xasprintf("--%s=%s", row->opt.name, text));
	}
}

static struct text_list argv_of(struct helper *h, const json_t *given, const json_t *spec)
{
	struct text_list argv = { .n = 0 };
	const json_t *word;
	size_t i;

	text_list_add(&argv, h->name);
	if (json_get_flag(spec, "watches")) {
		text_list_take(&argv, xasprintf("--socket=%s", h->all->socket));
		text_list_take(&argv,
			       xasprintf("--events=%s", agentlog_event_path(h->all->a->agentlog)));
	}
	add_settings(json_object_get(given, "values"), json_object_get(spec, "settings"), &argv);
	json_array_foreach(json_object_get(spec, "argv"), i, word)
	{
		if (json_is_string(word))
			text_list_add(&argv, json_string_value(word));
	}
	return argv;
}

static bool is_same(const struct helper *h, const char *program, const struct text_list *argv)
{
	bool same = h->wanted && argv->n == h->argv.n && program && h->program &&
		    strcmp(program, h->program) == 0;

	for (size_t i = 0; same && i < argv->n; i++)
		same = strcmp(argv->texts[i], h->argv.texts[i]) == 0;
	return same;
}

/* What it is to be; where it is another one it is started at once, or when that before has ended.
 */
static void take_spec(struct helper *h, const json_t *given, const json_t *spec)
{
	const char *program = json_get_str(spec, "program");
	const char *trouble = json_get_str(spec, "trouble");
	struct text_list argv = argv_of(h, given, spec);
	bool same = is_same(h, program, &argv);

	text_list_clear(&h->argv);
	h->argv = argv;
	h->wanted = true;
	if (same)
		return;
	free(h->program);
	h->program = program ? xstrdup(program) : NULL;
	h->last[0] = h->news[0] = '\0';
	(void)str_copy(h->trouble, sizeof(h->trouble), trouble ? trouble : "");
	h->told_status = NOT_TOLD_YET;
	h->pause_ms = 0;
	h->start_at_ms = 0;
	tell_to_end(h);
}

static struct helper *find_or_add(struct helpers *all, const char *name)
{
	struct helper *h;

	for (size_t i = 0; i < all->n; i++)
		if (strcmp(all->all[i]->name, name) == 0)
			return all->all[i];
	h = xcalloc(1, sizeof(*h));
	*h = (struct helper){ .all = all, .end_fd = -1, .line = STRBUF_INIT };
	(void)str_copy(h->name, sizeof(h->name), name);
	all->all = xrealloc(all->all, all->n + 1, sizeof(struct helper *));
	all->all[all->n++] = h;
	return h;
}

static void take_all(struct helpers *all, const json_t *given)
{
	const json_t *spec;
	size_t i;

	json_array_foreach(json_object_get(given, "helpers"), i, spec)
	{
		const char *name = json_get_str(spec, "name");

		if (name && name[0] && strlen(name) < NAME_BYTES)
			take_spec(find_or_add(all, name), given, spec);
	}
}

static bool is_in(const json_t *specs, const char *name)
{
	const json_t *spec;
	size_t i;

	json_array_foreach(specs, i, spec)
	{
		const char *other = json_get_str(spec, "name");

		if (other && strcmp(other, name) == 0)
			return true;
	}
	return false;
}

void helpers_change(struct helpers *all, const json_t *given)
{
	if (!all)
		return;
	for (size_t i = 0; i < all->n; i++)
		if (!is_in(json_object_get(given, "helpers"), all->all[i]->name)) {
			all->all[i]->wanted = false;
			tell_to_end(all->all[i]);
		}
	take_all(all, given);
}

struct helpers *helpers_start(struct agent *a, const json_t *given)
{
	struct helpers *all = xcalloc(1, sizeof(*all));

	all->a = a;
	all->handles = 1;
	(void)agent_socket_name(all->socket, sizeof(all->socket), a->c->instance, a->c->dev_dir,
				agent_job_key(a->c));
	take_all(all, given);
	(void)uv_timer_init(&a->loop, &all->timer);
	all->timer.data = all;
	(void)uv_timer_start(&all->timer, on_look, 0, LOOK_MS);
	return all;
}

/* -------- for the status -------- */

static json_t *seconds_json(uint64_t ms)
{
	return json_real((double)ms / 1e3);
}

static json_t *report(const struct helper *h)
{
	uint64_t now = now_ms();
	bool waits = !h->pid && h->program;
	/* What was before counts until it is clear that it is over. */
	bool trouble = h->trouble[0] && (h->said || !h->pid || now < h->started_ms + SETTLED_MS);

	return json_pack("{ss ss so so so so so}", "name", h->name, "state",
			 h->pid	      ? "running"
			 : h->program ? "waiting"
				      : "missing",
			 "pid", h->pid ? json_integer(h->pid) : json_null(), "for_s",
			 h->pid ? seconds_json(now - h->started_ms) : json_null(), "again_s",
			 waits ? seconds_json(h->start_at_ms > now ? h->start_at_ms - now : 0)
			       : json_null(),
			 "text", h->pid && h->news[0] ? json_new_text(h->news) : json_null(),
			 "trouble", trouble ? json_new_text(h->trouble) : json_null());
}

json_t *helpers_report(const struct helpers *all)
{
	json_t *list = json_array();

	for (size_t i = 0; all && i < all->n; i++)
		if (all->all[i]->wanted)
			(void)json_array_append_new(list, report(all->all[i]));
	return list;
}

/* -------- the end -------- */

static void on_timer_closed(uv_handle_t *handle)
{
	release(handle->data);
}

void helpers_close(struct helpers *all)
{
	if (!all)
		return;
	for (size_t i = 0; i < all->n; i++) {
		struct helper *h = all->all[i];

		h->end_fd = fd_close(h->end_fd);
		if (h->pid)
			(void)kill(h->pid, SIGCONT); /* one that was stopped is to see our end */
		close_out(h);
	}
	uv_close((uv_handle_t *)&all->timer, on_timer_closed);
}
