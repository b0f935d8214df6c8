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
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/libexec.h"
#include "cli/term.h"
#include "model/model.h"
#include "tui/frame.h"
#include "tui/page.h"
#include "tui/screen.h"

#define TICK_MS	   1000
#define HISTORY_MS 500	 /* for what the agent has kept of the devices the screen waits so long */
#define AGAIN_MS   10000 /* and where that did not come asks once more */
#define ONCE_MS	   7000	 /* for one frame it waits so long until all is known, a silence included */
#define LENT_MS	   50	 /* a command that has the terminal is looked at so often */
#define OUTPUT_MAX (64UL * 1024)
#define ONCE_LINES 24
#define SGR_OFF	   "\033[0m" /* what a log has left on */

extern char **environ;

enum asked { ASKED_NOTHING, ASKED_STOP, ASKED_ANSWER };

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
	bool once;
	uint64_t history_ns; /* the agent's is asked for from then on; UINT64_MAX: here */
	/* A command that runs, and what it has printed. */
	pid_t pid;
	int fd;
	struct strbuf output;
	bool shows;	  /* on a page of its own, in place of in the last line */
	struct page page; /* what a command has printed, or all of a thing */
	enum asked asked; /* about a task, or who asks for its GPU */
	uint64_t asked_id, asked_element;
	bool pasting;
	bool quit;
};

/* -------- commands of its user -------- */

static void say(struct top *t, bool bad, const char *text)
{
	(void)str_copy(t->ui.message, sizeof(t->ui.message), text);
	t->ui.message_is_bad = bad;
}

/* Its output comes by t->fd. One at a time. Up to two words more may be NULL. */
static void begin_command(struct top *t, const char *verb, const char *id, const char *word,
			  const char *option, bool shows)
{
	const char *const words[] = { "tenure", verb, id, word, word ? option : NULL, NULL };
	char *const *argv = (char *const *)(uintptr_t)words;
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
		page_close(&t->page);
		strbuf_adds(&t->page.text, text);
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

/* Of a command that has the terminal: until it ends, or a key ends it. True: a key did. */
static bool await_end(pid_t pid)
{
	bool asked = false;
	int status = 0;
	pid_t ended;

	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
		int key = asked ? KEY_NONE_ : screen_lent_key(LENT_MS);

		if (asked)
			(void)usleep(LENT_MS * 1000);
		if (key != 'q' && key != KEY_ESCAPE_ && key != KEY_INTERRUPT_)
			continue;
		asked = true;
		(void)kill(pid, SIGINT);
	}
	return asked || (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) ||
	       (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT);
}

/* On the whole terminal, until it ends or is interrupted. What comes next there, our own screen's
 * end included, is on a line of its own. */
static void follow_log(struct top *t, const char *id)
{
	char *argv[] = { (char[]){ "tenure" }, (char[]){ "logs" }, (char[]){ "-f" },
			 (char *)(uintptr_t)id, NULL };
	posix_spawnattr_t attr;
	bool interrupted = false;
	sigset_t set;
	pid_t pid;

	/* Ctrl-C is for the command alone. */
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)posix_spawnattr_init(&attr);
	(void)posix_spawnattr_setsigdefault(&attr, &set);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	screen_close();
	printf("-- the log of %s; q, Esc or Ctrl-C goes back --\n", id);
	(void)fflush(stdout);
	(void)signal(SIGINT, SIG_IGN);
	screen_lend();
	if (posix_spawn(&pid, t->program, NULL, &attr, argv, environ) == 0)
		interrupted = await_end(pid);
	(void)posix_spawnattr_destroy(&attr);
	printf("%s", SGR_OFF);
	if (!interrupted) {
		printf("-- any key goes back --");
		(void)fflush(stdout);
		while (screen_lent_key(TICK_MS) == KEY_NONE_ && isatty(STDIN_FILENO))
			;
	}
	printf("\n");
	(void)fflush(stdout);
	(void)signal(SIGINT, SIG_DFL);
	screen_resume();
}

/* -------- what is chosen -------- */

static struct frame_look look_of(const struct top *t)
{
	return (struct frame_look){ .s = t->s,
				    .events = t->events,
				    .n_events = t->n_events,
				    .first_event = t->told_events - t->n_events + 1,
				    .instance = settings_str(t->ctx->settings, SET_INSTANCE),
				    .now_ns = clock_wall_ns(),
				    .mono_ns = clock_mono_ns() };
}

static void move(struct top *t, long by)
{
	struct frame_look l = look_of(t);
	size_t n = frame_rows(&l, &t->ui, t->ui.part), now = frame_chosen(&l, &t->ui, t->ui.part);
	long at = now < n ? (long)now : by > 0 ? -1 : (long)n;

	at += by;
	if (t->ui.part == PART_EVENTS && at >= (long)n) {
		t->ui.event = 0; /* down from the last one: whichever that will be */
		return;
	}
	at = at < 0 ? 0 : at >= (long)n ? (long)n - 1 : at;
	if (n)
		frame_choose(&l, &t->ui, t->ui.part, (size_t)at);
}

/* The next part that has rows; in one where nothing was chosen the first row is. */
static void turn_to_part(struct top *t, unsigned int by)
{
	struct frame_look l = look_of(t);
	enum frame_part part = t->ui.part;

	do
		part = (part + by) % PART_MAX;
	while (part != PART_TASKS && !frame_rows(&l, &t->ui, part));
	t->ui.part = part;
	if (part != PART_TASKS && frame_chosen(&l, &t->ui, part) == SIZE_MAX)
		frame_choose(&l, &t->ui, part, 0);
}

static void click(struct top *t)
{
	struct frame_look l = look_of(t);
	enum frame_part part;
	size_t x, y, i;

	screen_click(&x, &y);
	part = frame_at(&l, &t->ui, y, &i);
	if (part == PART_MAX)
		return;
	t->ui.part = part;
	frame_choose(&l, &t->ui, part, i);
}

/* As the agent calls it: 2, or "2/1" of an instance of it. */
static bool is_device(const json_t *named, const json_t *device)
{
	char label[32];

	if (!json_is_integer(json_object_get(device, "mig")))
		return json_equal(named, json_object_get(device, "gpu"));
	(void)str_print(label, sizeof(label), "%u/%u", json_get_small(device, "gpu", 999),
			json_get_small(device, "mig", 99));
	return json_is_string(named) && strcmp(json_string_value(named), label) == 0;
}

/* The first one that runs on a GPU of this node. */
static void task_on_device(const struct top *t, const json_t *device, uint64_t *ret_id,
			   uint64_t *ret_element)
{
	const json_t *task, *gpu;
	size_t i, k;

	json_array_foreach((json_t *)(uintptr_t)agent_tasks(t->s->status), i, task)
	{
		json_array_foreach(json_object_get(task, "gpus"), k, gpu)
		{
			if (!is_device(gpu, device))
				continue;
			*ret_id = json_get_u64(task, "id");
			*ret_element = json_get_u64(task, "element");
			return;
		}
	}
}

/* The task that keys are about: the chosen one, that of the chosen GPU, or the event's. False:
 * there is none. */
static bool chosen_task(struct top *t, uint64_t *ret_id, uint64_t *ret_element)
{
	struct frame_look l = look_of(t);
	json_t *thing;

	if (t->ui.part == PART_TASKS) {
		*ret_id = frame_chosen(&l, &t->ui, PART_TASKS) == SIZE_MAX ? 0 : t->ui.task;
		*ret_element = t->ui.element;
		return *ret_id > 0;
	}
	thing = frame_thing(&l, &t->ui, t->ui.part);
	*ret_id = json_get_u64(thing, "task");
	*ret_element = json_get_u64(thing, "element");
	if (t->ui.part == PART_DEVICES)
		task_on_device(t, thing, ret_id, ret_element);
	json_decref(thing);
	return *ret_id > 0;
}

/* -------- keys -------- */

static void change_priority(struct top *t, uint64_t id, uint64_t element, bool sooner)
{
	const struct row *row = model_find(t->s, id, element);
	char text[SELECT_ID_MAX], n[24];
	uint64_t p = row ? row->name.priority : 0;

	if (!row)
		return;
	(void)str_print(n, sizeof(n), "%llu",
			(unsigned long long)(sooner ? (p ? p - 1 : 0) : p + 1));
	begin_command(t, "priority", n, select_format_id(id, element, text), NULL, false);
}

static void ask_to_stop(struct top *t, uint64_t id, uint64_t element)
{
	const struct row *row = model_find(t->s, id, element);
	char text[200], name[SELECT_ID_MAX];

	(void)select_format_id(id, element, name);
	t->asked = ASKED_STOP;
	t->asked_id = id;
	t->asked_element = element;
	say(t, true,
	    str_print(text, sizeof(text), "stop %s%s%s%s? y: yes, any other key: no", name,
		      row ? " (" : "", row ? row->name.name : "", row ? ")" : ""));
}

static void explain(struct top *t, uint64_t id, uint64_t element)
{
	const struct row *row = model_find(t->s, id, element);
	char text[SELECT_ID_MAX];

	begin_command(t, row && row->dir == SPOOL_PENDING ? "why" : "show",
		      select_format_id(id, element, text), NULL, NULL, true);
}

static void pause_or_resume(struct top *t, uint64_t id, uint64_t element)
{
	const struct row *row = model_find(t->s, id, element);
	char text[SELECT_ID_MAX];

	begin_command(t, row && row->state == TASKSTATE_PAUSED ? "resume" : "pause",
		      select_format_id(id, element, text), NULL, NULL, false);
}

/* Who asks for the GPU of a task, the first one first. */
static void ask_to_answer(struct top *t)
{
	const json_t *ask = json_array_get(json_object_get(t->s->status, "asks"), 0);
	cleanup_free char *text = ask ? agent_ask_text(ask) : NULL;
	char line[sizeof(t->ui.message)];

	if (!ask) {
		say(t, true, "nobody asks for a GPU of a task");
		return;
	}
	t->asked = ASKED_ANSWER;
	t->asked_id = json_get_u64(ask, "ask");
	say(t, true,
	    str_print(
		    line, sizeof(line),
		    "y: requeue it, S: or stop it where it is not, n: refuse, any other key: later. "
		    "%s",
		    text));
}

static void log_of(struct top *t, uint64_t id, uint64_t element)
{
	char text[SELECT_ID_MAX];

	follow_log(t, select_format_id(id, element, text));
}

static void sooner(struct top *t, uint64_t id, uint64_t element)
{
	change_priority(t, id, element, true);
}

static void later(struct top *t, uint64_t id, uint64_t element)
{
	change_priority(t, id, element, false);
}

/* Keys about a task: the chosen one, or, of those that change nothing unasked, that of the chosen
 * GPU or event. */
static const struct task_key {
	int key;
	void (*act)(struct top *t, uint64_t id, uint64_t element);
	bool anywhere;
} task_keys[] = { { 'l', log_of, true },
		  { '\r', log_of },
		  { '\n', log_of },
		  { 'w', explain, true },
		  { 's', ask_to_stop, true },
		  { 'k', ask_to_stop, true },
		  { 'p', pause_or_resume },
		  { '+', sooner },
		  { '-', later } };

/* What is known of the chosen GPU, node or event, on a page. */
static void show_thing(struct top *t, const json_t *thing)
{
	page_close(&t->page);
	if (json_get_str(thing, "text"))
		strbuf_addf(&t->page.text, "%s\n\n", json_get_str(thing, "text"));
	page_add_members(&t->page, thing);
}

/* Of an event about a GPU and no task: that GPU, as it is now. */
static void explain_thing(struct top *t, const json_t *thing)
{
	const json_t *devices = json_object_get(t->s->status, "devices"), *d;
	const char *uuid = json_get_str(thing, "uuid");
	size_t i;

	json_array_foreach(devices, i, d)
	{
		if (uuid && json_equal(json_object_get(d, "uuid"), json_object_get(thing, "uuid")))
			thing = d;
	}
	show_thing(t, thing);
}

static bool thing_key(struct top *t, int key)
{
	struct frame_look l = look_of(t);
	json_t *thing = frame_thing(&l, &t->ui, t->ui.part);
	uint64_t id, element;
	bool enter = key == '\r' || key == '\n';
	bool explains = key == 'w' && !(t->ui.part == PART_EVENTS && chosen_task(t, &id, &element));

	if (thing && enter)
		show_thing(t, thing);
	else if (thing && explains)
		explain_thing(t, thing);
	json_decref(thing);
	return thing && (enter || explains);
}

static bool task_key(struct top *t, int key)
{
	static const char *const none[PART_MAX] = {
		[PART_TASKS] = "choose a task first: up and down",
		[PART_DEVICES] = "no task of this instance runs on this GPU",
		[PART_NODES] = "this key is about a task: Tab goes to the queue",
		[PART_EVENTS] = "this event is about no task",
	};
	const struct task_key *k = NULL;
	uint64_t id, element;

	for (size_t i = 0; i < ARRAY_LEN(task_keys) && !k; i++)
		if (task_keys[i].key == key)
			k = &task_keys[i];
	if (!k)
		return false;
	if (t->ui.part != PART_TASKS && !k->anywhere)
		say(t, true, none[PART_NODES]);
	else if (chosen_task(t, &id, &element))
		k->act(t, id, element);
	else
		say(t, true, none[t->ui.part]);
	return true;
}

/* By how many rows a key moves among so many that are shown; 0: it does not. */
static long step_of(int key, size_t rows)
{
	long page = rows ? (long)rows : 1;
	const struct {
		int key;
		long by;
	} moves[] = { { KEY_UP_, -1 },		{ KEY_DOWN_, 1 },	 { KEY_PAGE_UP_, -page },
		      { KEY_PAGE_DOWN_, page }, { KEY_HOME_, -1000000 }, { KEY_END_, 1000000 },
		      { KEY_WHEEL_UP_, -3 },	{ KEY_WHEEL_DOWN_, 3 },	 { 'g', -1000000 },
		      { 'G', 1000000 } };

	for (size_t i = 0; i < ARRAY_LEN(moves); i++)
		if (moves[i].key == key)
			return moves[i].by;
	return 0;
}

static void plain_key(struct top *t, int key)
{
	struct frame_ui *ui = &t->ui;
	long by = step_of(key, ui->panes[ui->part].rows);

	switch (key) {
	case 'q':
		t->quit = true;
		break;
	case 'h':
	case '?':
		ui->help = true;
		break;
	case '/':
		ui->part = PART_TASKS; /* which it is about */
		ui->typing = true;
		break;
	case KEY_ESCAPE_:
		ui->wanted.filter[0] = '\0';
		break;
	case 'o':
		ui->wanted.sort = (ui->wanted.sort + 1) % SORT_MAX;
		break;
	case 'e':
		ui->wanted.ended = !ui->wanted.ended;
		break;
	case 'a':
		ask_to_answer(t);
		break;
	case '\t':
		turn_to_part(t, 1);
		break;
	case KEY_BACK_TAB_:
		turn_to_part(t, PART_MAX - 1);
		break;
	case KEY_CLICK_:
		click(t);
		break;
	case KEY_REDRAW_:
		screen_resume();
		break;
	default:
		if (by)
			move(t, by);
		else if (key > ' ' && key < 127)
			say(t, true, "no such key; h shows them");
	}
}

static void type_filter(struct top *t, int key)
{
	struct frame_ui *ui = &t->ui;
	char *filter = ui->wanted.filter;
	size_t n = strlen(filter);

	if (key == KEY_ESCAPE_ || key == KEY_CLEAR_)
		filter[0] = '\0';
	if (key == KEY_ESCAPE_ || key == '\r' || key == '\n')
		ui->typing = false;
	else if (key == KEY_BACKSPACE_ && n)
		filter[utf8_whole(filter, n - 1)] = '\0';
	else if (key >= ' ' && key < 256 && n + 1 < sizeof(ui->wanted.filter))
		filter[n] = (char)key, filter[n + 1] = '\0';
}

static void answer(struct top *t, int key)
{
	enum asked asked = t->asked;
	char id[SELECT_ID_MAX];

	t->asked = ASKED_NOTHING;
	say(t, false, "");
	(void)select_format_id(t->asked_id, asked == ASKED_STOP ? t->asked_element : 0, id);
	if (asked == ASKED_STOP && key == 'y')
		begin_command(t, "stop", id, NULL, NULL, false);
	else if (asked == ASKED_ANSWER && (key == 'y' || key == 'S'))
		begin_command(t, "answer", id, "yes", key == 'S' ? "--stop" : NULL, false);
	else if (asked == ASKED_ANSWER && key == 'n')
		begin_command(t, "answer", id, "no", NULL, false);
}

/* A text that was pasted is none of keys, but for a filter. True: it was that. */
static bool is_pasted(struct top *t, int key)
{
	if (key == KEY_PASTE_BEGIN_ || key == KEY_PASTE_END_) {
		t->pasting = key == KEY_PASTE_BEGIN_;
		if (t->pasting && !t->ui.typing)
			say(t, true, "what was pasted is not taken as keys");
		return true;
	}
	return t->pasting && !(t->ui.typing && key >= ' ');
}

static void take_key(struct top *t, int key)
{
	if (is_pasted(t, key))
		return;
	if (t->ui.help) {
		t->ui.help = false;
	} else if (t->page.text.len) {
		long by = step_of(key, t->page.room);

		if (!by || !page_move(&t->page, by))
			page_close(&t->page);
	} else if (t->asked) {
		answer(t, key);
	} else if (t->ui.typing) {
		type_filter(t, key);
	} else {
		say(t, false, "");
		if (!thing_key(t, key) && !task_key(t, key))
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
		char *text = model_event(t->model, t->told_events, NULL);

		if (!text)
			continue;
		if (t->n_events == FRAME_EVENTS) {
			free(t->events[0]);
			(void)memmove(t->events, t->events + 1, --t->n_events * sizeof(*t->events));
		}
		t->events[t->n_events++] = text;
	}
}

/* What the agent has seen of the devices before us, until it is here: what comes is seen here. */
static void ask_history(struct top *t)
{
	struct ctl_request req = { .verb = CTL_HISTORY,
				   .task = (uint64_t)TREND_STEPS * TREND_STEP_S,
				   .element = TREND_STEP_S };
	json_t *doc = NULL;

	if (!t->s->connected || clock_mono_ns() < t->history_ns)
		return;
	t->history_ns = clock_mono_ns() + AGAIN_MS * NS_PER_MS;
	if (agent_ask(t->ctx, &req, t->once ? ONCE_MS / 2 : HISTORY_MS, &doc, NULL, NULL) ==
	    CMD_OK) {
		t->history_ns = UINT64_MAX;
		trends_take(&t->ui.trends, doc);
	}
	json_decref(doc);
}

static void take_snapshot(struct top *t)
{
	(void)model_put(t->s);
	t->s = model_get(t->model);
	take_events(t);
	ask_history(t);
}

static void draw(struct top *t, struct canvas *c)
{
	struct frame_look l = look_of(t);

	c->ascii = t->ui.ascii;
	if (t->page.text.len)
		page_draw(&t->page, c);
	else
		frame_draw(c, &l, &t->ui);
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
	struct frame_look l = look_of(t);

	if (now < t->sampled_ns + TICK_MS * NS_PER_MS)
		return;
	t->sampled_ns = now;
	frame_sample(&t->ui, &l);
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
		/* First, as they are about what was shown. */
		while ((key = screen_key()) != KEY_NONE_)
			take_key(t, key);
		if (p[1].revents)
			take_snapshot(t);
		if (t->pid && p[2].revents)
			read_command(t);
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
	sample(t);
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
	page_close(&t->page);
	frame_clear(&t->ui);
	free(t->program);
}

static int run(const struct cmd_ctx *ctx, struct err *e)
{
	bool once = opts_flag(ctx->opts, "once") || !isatty(STDOUT_FILENO);
	const char *program = opts_text(ctx->opts, "program"), *term = getenv("TERM");
	struct top t = {
		.ctx = ctx, .fd = -1, .output = STRBUF_INIT, .page = { .text = STRBUF_INIT }
	};
	int r;

	libexec_hand_on(ctx);
	t.program = program ? xstrdup(program) : libexec_own("tenure");
	t.ui.wanted.ended = opts_flag(ctx->opts, "ended");
	t.ui.ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
	t.once = once;
	t.ui.no_braille = !once && term && str_has_prefix(term, "linux"); /* a console's font */
	r = model_new(ctx, MODEL_ENDED, &t.model, e);
	if (r < 0)
		return r;
	take_snapshot(&t); /* whose thread may have been quick */
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
