/* SPDX-License-Identifier: MIT */

/*
 * tenure-top: GPUs, queue and events of an instance on one screen (docs/queue.md). It looks at the
 * model alone, and does what its user says by the program's own commands, so that what they refuse
 * is refused here in the same words.
 */

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/textlist.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/libexec.h"
#include "cli/term.h"
#include "model/model.h"
#include "tui/frame.h"
#include "tui/screen.h"

#define TICK_MS	   1000
#define ONCE_MS	   3000 /* for one frame it waits so long until all is known */
#define OUTPUT_MAX (64UL * 1024)
#define ONCE_LINES 24

extern char **environ;

enum asked { ASKED_NOTHING, ASKED_STOP };

struct top {
	const struct cmd_ctx *ctx;
	struct model *model;
	const struct model_snapshot *s;
	struct frame_ui ui;
	char *program;
	/* The last events. */
	char *events[FRAME_EVENTS];
	size_t n_events;
	uint64_t told_events;
	uint64_t sampled_ns;
	/* A command that runs, and what it has printed. */
	pid_t pid;
	int fd;
	struct strbuf output;
	bool shows; /* on a page of its own, in place of in the last line */
	/* What a command has printed, until a key is pressed; "" : nothing. */
	struct strbuf page;
	enum asked asked;
	bool quit;
};

/* -------- commands of its user -------- */

static void say(struct top *t, bool bad, const char *text)
{
	(void)str_copy(t->ui.message, sizeof(t->ui.message), text);
	t->ui.message_is_bad = bad;
}

/* Its output comes by t->fd. One at a time. */
static void begin_command(struct top *t, const char *verb, const char *word, const char *id,
			  bool shows)
{
	char *argv[] = { (char[]){ "tenure" }, (char *)(uintptr_t)verb,
			 (char *)(uintptr_t)(word ? word : id),
			 (char *)(uintptr_t)(word ? id : NULL), NULL };
	posix_spawn_file_actions_t fa;
	int fds[2], r;

	if (t->pid) {
		say(t, true, "the last command has not ended yet");
		return;
	}
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawn_file_actions_addopen(&fa, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_adddup2(&fa, fds[1], STDOUT_FILENO);
	(void)posix_spawn_file_actions_adddup2(&fa, fds[1], STDERR_FILENO);
	r = posix_spawn(&t->pid, t->program, &fa, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&fa);
	(void)fd_close(fds[1]);
	if (r) {
		t->pid = 0;
		(void)fd_close(fds[0]);
		say(t, true, strerror(r));
		return;
	}
	t->fd = fds[0];
	t->shows = shows;
	strbuf_reset(&t->output);
	say(t, false, "..");
}

/* Its words on one line, or on a page. */
static void show_output(struct top *t, bool failed)
{
	cleanup_free char *text = xstrdup(strbuf_str(&t->output));

	if (t->shows) {
		strbuf_reset(&t->page);
		strbuf_adds(&t->page, text);
		say(t, failed, "");
		return;
	}
	say(t, failed, text[0] ? utf8_clean(text) : "done");
	model_look(t->model);
}

static void read_command(struct top *t)
{
	char buf[4096];
	ssize_t n = read(t->fd, buf, sizeof(buf));
	int status = 0;

	if (n > 0 && t->output.len < OUTPUT_MAX)
		strbuf_add(&t->output, buf, (size_t)n);
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	t->fd = fd_close(t->fd);
	while (waitpid(t->pid, &status, 0) < 0 && errno == EINTR)
		;
	t->pid = 0;
	show_output(t, status != 0);
}

/* On the whole terminal, until it ends or is interrupted. */
static void follow_log(struct top *t, const char *id)
{
	char *argv[] = { (char[]){ "tenure" }, (char[]){ "logs" }, (char[]){ "-f" },
			 (char *)(uintptr_t)id, NULL };
	posix_spawnattr_t attr;
	sigset_t set;
	pid_t pid;
	int status;

	/* Ctrl-C is for the command alone. */
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setsigdefault(&attr, &set);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	screen_close();
	printf("-- the log of %s; Ctrl-C goes back --\n", id);
	(void)fflush(stdout);
	(void)signal(SIGINT, SIG_IGN);
	if (posix_spawn(&pid, t->program, NULL, &attr, argv, environ) == 0)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	(void)posix_spawnattr_destroy(&attr);
	printf("-- Enter goes back --");
	(void)fflush(stdout);
	for (int c = getchar(); c != '\n' && c != '\r' && c != EOF; c = getchar())
		;
	(void)signal(SIGINT, SIG_DFL);
	screen_resume();
}

/* -------- what is chosen -------- */

static const struct row *chosen_row(const struct top *t)
{
	return t->ui.task ? model_find(t->s, t->ui.task, t->ui.element) : NULL;
}

static void choose_row(struct top *t, const struct row *row)
{
	t->ui.task = row->name.id;
	t->ui.element = row->name.element;
}

static void move_in_tasks(struct top *t, long by)
{
	const struct row **tasks;
	long n = (long)frame_tasks(t->s, &t->ui, &tasks), at = by > 0 ? -1 : n;

	for (long i = 0; i < n; i++)
		if (tasks[i]->name.id == t->ui.task && tasks[i]->name.element == t->ui.element)
			at = i;
	at += by;
	at = at < 0 ? 0 : at >= n ? n - 1 : at;
	if (n)
		choose_row(t, tasks[at]);
	free(tasks);
}

static void move_in_devices(struct top *t, long by)
{
	const json_t *devices = json_object_get(t->s->status, "devices"), *d;
	long n = (long)json_array_size(devices), at = by > 0 ? -1 : n;
	size_t i;

	json_array_foreach(devices, i, d) if (strcmp(json_get_str(d, "uuid"), t->ui.uuid) == 0) at =
		(long)i;
	at += by;
	at = at < 0 ? 0 : at >= n ? n - 1 : at;
	if (n)
		json_get_text(json_array_get(devices, (size_t)at), "uuid", t->ui.uuid,
			      sizeof(t->ui.uuid));
}

static void move(struct top *t, long by)
{
	(t->ui.part == PART_TASKS ? move_in_tasks : move_in_devices)(t, by);
}

static void click(struct top *t)
{
	struct frame_ui *ui = &t->ui;
	const struct row **tasks;
	size_t x, y, n;

	screen_click(&x, &y);
	if (y >= ui->first_task_y && y < ui->first_task_y + ui->n_task_rows) {
		n = frame_tasks(t->s, ui, &tasks);
		ui->part = PART_TASKS;
		if (ui->scroll + y - ui->first_task_y < n)
			choose_row(t, tasks[ui->scroll + y - ui->first_task_y]);
		free(tasks);
	} else if (y >= ui->first_device_y &&
		   y < ui->first_device_y + ui->n_device_rows * ui->device_lines) {
		ui->part = PART_DEVICES;
		json_get_text(json_array_get(json_object_get(t->s->status, "devices"),
					     (y - ui->first_device_y) / ui->device_lines),
			      "uuid", ui->uuid, sizeof(ui->uuid));
	}
}

/* -------- keys -------- */

static void format_id(const struct row *row, char id[SELECT_ID_MAX])
{
	(void)select_format_id(row->name.id, row->name.element, id);
}

static void change_priority(struct top *t, const struct row *row, bool sooner)
{
	char id[SELECT_ID_MAX], n[24];
	uint64_t p = row->name.priority;

	(void)str_print(n, sizeof(n), "%llu",
			(unsigned long long)(sooner ? (p ? p - 1 : 0) : p + 1));
	format_id(row, id);
	begin_command(t, "priority", n, id, false);
}

static void ask_to_stop(struct top *t, const struct row *row)
{
	char id[SELECT_ID_MAX], text[200];

	format_id(row, id);
	t->asked = ASKED_STOP;
	say(t, true,
	    str_print(text, sizeof(text), "stop %s (%s)? y: yes, any other key: no", id,
		      row->name.name));
}

static void explain(struct top *t, const struct row *row)
{
	char id[SELECT_ID_MAX];

	format_id(row, id);
	begin_command(t, row->dir == SPOOL_PENDING ? "why" : "show", NULL, id, true);
}

static void pause_or_resume(struct top *t, const struct row *row)
{
	char id[SELECT_ID_MAX];

	format_id(row, id);
	begin_command(t, row->state == TASKSTATE_PAUSED ? "resume" : "pause", NULL, id, false);
}

static void log_of(struct top *t, const struct row *row)
{
	char id[SELECT_ID_MAX];

	format_id(row, id);
	follow_log(t, id);
}

static void sooner(struct top *t, const struct row *row)
{
	change_priority(t, row, true);
}

static void later(struct top *t, const struct row *row)
{
	change_priority(t, row, false);
}

/* Keys about the chosen task. */
static const struct {
	int key;
	void (*act)(struct top *t, const struct row *row);
} task_keys[] = { { 'l', log_of },	{ '\r', log_of },	  { '\n', log_of },
		  { 'w', explain },	{ '?', explain },	  { 's', ask_to_stop },
		  { 'k', ask_to_stop }, { 'p', pause_or_resume }, { '+', sooner },
		  { '-', later } };

static bool task_key(struct top *t, int key)
{
	const struct row *row = chosen_row(t);

	for (size_t i = 0; i < ARRAY_LEN(task_keys); i++) {
		if (task_keys[i].key != key)
			continue;
		if (t->ui.part == PART_DEVICES && (key == 'w' || key == '?'))
			begin_command(t, "devices", NULL, NULL, true);
		else if (row)
			task_keys[i].act(t, row);
		else
			say(t, true, "choose a task first: up and down");
		return true;
	}
	return false;
}

static void page_keys(struct top *t, int key)
{
	long page = t->ui.n_task_rows ? (long)t->ui.n_task_rows : 1;
	const struct {
		int key;
		long by;
	} moves[] = { { KEY_UP_, -1 },		{ KEY_DOWN_, 1 },	 { KEY_PAGE_UP_, -page },
		      { KEY_PAGE_DOWN_, page }, { KEY_HOME_, -1000000 }, { KEY_END_, 1000000 },
		      { KEY_WHEEL_UP_, -3 },	{ KEY_WHEEL_DOWN_, 3 } };

	for (size_t i = 0; i < ARRAY_LEN(moves); i++)
		if (moves[i].key == key)
			move(t, moves[i].by);
}

static void plain_key(struct top *t, int key)
{
	struct frame_ui *ui = &t->ui;

	switch (key) {
	case 'q':
		t->quit = true;
		break;
	case 'h':
		ui->help = true;
		break;
	case '/':
		ui->typing = true;
		break;
	case 'o':
		ui->sort = (ui->sort + 1) % SORT_MAX;
		break;
	case 'e':
		ui->ended = !ui->ended;
		break;
	case '\t':
		ui->part = (ui->part + 1) % PART_MAX;
		break;
	case KEY_CLICK_:
		click(t);
		break;
	default:
		page_keys(t, key);
	}
}

static void type_filter(struct top *t, int key)
{
	struct frame_ui *ui = &t->ui;
	size_t n = strlen(ui->filter);

	if (key == 27)
		ui->filter[0] = '\0';
	if (key == 27 || key == '\r' || key == '\n')
		ui->typing = false;
	else if (key == KEY_BACKSPACE_ && n)
		ui->filter[utf8_whole(ui->filter, n - 1)] = '\0';
	else if (key >= ' ' && key < 256 && n + 1 < sizeof(ui->filter))
		ui->filter[n] = (char)key, ui->filter[n + 1] = '\0';
}

static void answer(struct top *t, int key)
{
	const struct row *row = chosen_row(t);
	char id[SELECT_ID_MAX];

	t->asked = ASKED_NOTHING;
	say(t, false, "");
	if (key != 'y' || !row)
		return;
	format_id(row, id);
	begin_command(t, "stop", NULL, id, false);
}

static void take_key(struct top *t, int key)
{
	if (t->ui.help || t->page.len) {
		t->ui.help = false;
		strbuf_reset(&t->page);
	} else if (t->asked) {
		answer(t, key);
	} else if (t->ui.typing) {
		type_filter(t, key);
	} else {
		say(t, false, "");
		if (!task_key(t, key))
			plain_key(t, key);
	}
}

/* -------- frames -------- */

static void take_events(struct top *t)
{
	uint64_t n = t->s->n_events;

	if (n - t->told_events > FRAME_EVENTS)
		t->told_events = n - FRAME_EVENTS;
	for (; t->told_events < n; t->told_events++) {
		char *text = model_event(t->model, t->told_events);

		if (!text)
			continue;
		if (t->n_events == FRAME_EVENTS) {
			free(t->events[0]);
			(void)memmove(t->events, t->events + 1, --t->n_events * sizeof(*t->events));
		}
		t->events[t->n_events++] = text;
	}
}

static void take_snapshot(struct top *t)
{
	(void)model_put(t->s);
	t->s = model_get(t->model);
	take_events(t);
}

static void draw_page(struct canvas *c, const char *text)
{
	for (size_t y = 0; *text && y + 1 < c->height; y++) {
		size_t len = strcspn(text, "\n");
		cleanup_free char *line = xasprintf("%.*s", (int)len, text);

		(void)canvas_put(c, 0, y, INK_PLAIN, line, c->width);
		text += len + (text[len] == '\n');
	}
	(void)canvas_put(c, 0, c->height - 1, INK_DIM, "any key goes back", c->width);
}

static void draw(struct top *t, struct canvas *c)
{
	if (t->page.len)
		draw_page(c, strbuf_str(&t->page));
	else
		frame_draw(c, t->s, t->events, t->n_events, &t->ui,
			   settings_str(t->ctx->settings, SET_INSTANCE), clock_wall_ns());
}

static void show(struct top *t)
{
	size_t width, height;
	struct canvas *c;

	screen_size(&width, &height);
	c = canvas_new(width, height);
	draw(t, c);
	screen_show(c);
	c = canvas_free(c);
}

/* One sample a second, whoever wakes us how often. */
static void sample(struct top *t)
{
	uint64_t now = clock_mono_ns();

	if (now < t->sampled_ns + TICK_MS * NS_PER_MS)
		return;
	t->sampled_ns = now;
	frame_sample(&t->ui, t->s);
}

static void watch(struct top *t)
{
	while (!t->quit) {
		struct pollfd p[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				      { .fd = model_fd(t->model), .events = POLLIN },
				      { .fd = t->pid ? t->fd : -1, .events = POLLIN } };
		int key;

		show(t);
		(void)poll(p, ARRAY_LEN(p), TICK_MS);
		if (p[0].revents & (POLLHUP | POLLERR)) /* the terminal is gone */
			return;
		if (p[1].revents)
			take_snapshot(t);
		if (t->pid && p[2].revents)
			read_command(t);
		while ((key = screen_key()) != KEY_NONE_)
			take_key(t, key);
		sample(t);
	}
}

static bool knows_all(const struct model_snapshot *s)
{
	bool agent = s->connected ? s->answered : s->trouble[0];

	return agent && (s->read || s->queue_trouble[0]);
}

static int print_once(struct top *t)
{
	uint64_t until = clock_mono_ns() + ONCE_MS * NS_PER_MS;
	size_t lines = term_lines(STDOUT_FILENO);
	const char *given = getenv("LINES");
	struct canvas *c;

	while (!knows_all(t->s) && clock_mono_ns() < until) {
		struct pollfd p = { .fd = model_fd(t->model), .events = POLLIN };

		(void)poll(&p, 1, 100);
		take_snapshot(t);
	}
	if (!lines && given)
		lines = strtoul(given, NULL, 10);
	lines = lines < ONCE_LINES ? ONCE_LINES : lines < 1000 ? lines : 1000;
	frame_sample(&t->ui, t->s);
	c = canvas_new(term_width(STDOUT_FILENO), lines);
	draw(t, c);
	canvas_write(c, stdout);
	c = canvas_free(c);
	return CMD_OK;
}

static int on_screen(struct top *t, struct err *e)
{
	int r = screen_open(e);

	if (r < 0)
		return r;
	watch(t);
	screen_close();
	return CMD_OK;
}

static void top_clear(struct top *t)
{
	(void)model_put(t->s);
	t->model = model_free(t->model);
	for (size_t i = 0; i < t->n_events; i++)
		free(t->events[i]);
	strbuf_clear(&t->output);
	strbuf_clear(&t->page);
	free(t->program);
}

static int run(const struct cmd_ctx *ctx, struct err *e)
{
	bool once = opts_flag(ctx->opts, "once") || !isatty(STDOUT_FILENO);
	const char *program = opts_text(ctx->opts, "program");
	struct top t = { .ctx = ctx, .fd = -1, .output = STRBUF_INIT, .page = STRBUF_INIT };
	int r;

	libexec_hand_on(ctx);
	t.program = program ? xstrdup(program) : libexec_own("tenure");
	t.ui.ended = opts_flag(ctx->opts, "ended");
	t.ui.ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
	r = model_new(ctx, MODEL_ENDED, &t.model, e);
	if (r < 0)
		return r;
	t.s = model_get(t.model);
	r = once ? print_once(&t) : on_screen(&t, e);
	top_clear(&t);
	return r;
}

int main(int argc, char **argv)
{
	struct cmd own = cmd_top;

	(void)setlocale(LC_ALL, "");
	own.run = run;
	return cmd_run(&own, "tenure", argc, argv);
}
