/* SPDX-License-Identifier: MIT */

/*
 * The event files of an instance, of all its nodes. Each is in the order of time, and so are its
 * rotated ones (X.jsonl, before it X.jsonl.1, ..): of each node as many of the last as are asked
 * for are read, from the newest file back, and then all are put in order. Who follows keeps the
 * files open: one that is rotated is read to its end before the new one.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/report/sentence.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/agent_setup.h"
#include "cli/commands.h"
#include "cli/event_file.h"
#include "cli/term.h"

#define FILE_MAX      (64UL << 20) /* bytes, well above where they are rotated */
#define LOOK_MS	      250
#define DEFAULT_LIMIT "50"
#define KINDS_MAX     64

_Static_assert(OWN_EVENT_MAX < KINDS_MAX, "room for all kinds");

struct event {
	uint64_t ns;  /* wall */
	size_t place; /* as it was read: of the same moment */
	json_t *o;
};

struct event_list {
	size_t n;
	struct event *all;
};

/* A node's, or that of the commands there. */
struct event_source {
	char *path;	    /* of the file that is written to */
	int fd;		    /* of the newest; -1 */
	struct strbuf rest; /* of a line that is not whole yet */
};

struct events {
	const struct cmd_ctx *ctx;
	char *dir;
	uint64_t since_ns;
	size_t limit; /* 0: all */
	size_t n_sources;
	struct event_source *sources;
	struct event_list found;
};

/* ---- which are wanted ---- */

static bool is_wanted(const struct events *ev, const json_t *o)
{
	const struct value *kinds = opts_value(ev->ctx->opts, "kind");
	const char *kind = json_get_str(o, "event");

	for (size_t i = 0; kinds && i < kinds->words.n; i++)
		if (kind && strcmp(kinds->words.texts[i], kind) == 0)
			return true;
	return !kinds;
}

/* A line; what is none of ours is passed over. */
static void take_line(struct events *ev, struct event_list *l, const char *line, size_t len)
{
	json_t *o = json_loadb(line, len, 0, NULL);
	uint64_t ns = o ? event_file_time(o) : 0;

	if (!ns || ns < ev->since_ns || !is_wanted(ev, o)) {
		json_decref(o);
		return;
	}
	l->all = xgrow(l->all, l->n, sizeof(*l->all));
	l->all[l->n] = (struct event){ .ns = ns, .place = l->n, .o = o };
	l->n++;
}

static void list_clear(struct event_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		json_decref(l->all[i].o);
	free(l->all);
	*l = (struct event_list){ .n = 0 };
}

/* ---- what is there ---- */

static void add_source(struct events *ev, const char *file)
{
	cleanup_free char *path = xasprintf("%s/%s", ev->dir, file);

	for (size_t i = 0; i < ev->n_sources; i++)
		if (strcmp(ev->sources[i].path, path) == 0)
			return;
	ev->sources = xgrow(ev->sources, ev->n_sources, sizeof(*ev->sources));
	ev->sources[ev->n_sources++] = (struct event_source){ .path = take_ptr(path), .fd = -1 };
}

/* "n7.jsonl", and of one of which only older files are left "n7.jsonl.1". */
static int find_sources(struct events *ev, struct err *e)
{
	DIR *d = opendir(ev->dir);
	const struct dirent *entry;

	if (!d && errno == ENOENT)
		return 0;
	if (!d)
		return err_sys(e, errno, "open %s", ev->dir);
	while ((entry = readdir(d))) {
		cleanup_free char *file = xstrdup(entry->d_name);
		char *end = strstr(file, ".jsonl");

		if (!end || (end[6] && end[6] != '.') || file[0] == '.')
			continue;
		end[6] = '\0';
		add_source(ev, file);
	}
	(void)closedir(d);
	return 0;
}

/* All of a file behind what was found of newer ones. 1: there is nothing older of interest. */
static int read_file(struct events *ev, const char *path, struct event_list *newer, struct err *e)
{
	cleanup_free char *text = NULL;
	struct event_list older = { .n = 0 };
	size_t len;
	int r = fs_read_file(path, FILE_MAX, &text, &len, e);

	if (r < 0)
		return r;
	for (const char *p = text, *nl; (nl = memchr(p, '\n', len - (size_t)(p - text)));
	     p = nl + 1)
		take_line(ev, &older, p, (size_t)(nl - p));
	older.all = xrealloc(older.all, older.n + newer->n + 1, sizeof(*older.all));
	for (size_t i = 0; i < newer->n; i++)
		older.all[older.n++] = newer->all[i];
	free(newer->all);
	*newer = older;
	return ev->limit && newer->n >= ev->limit;
}

/* Whether the file of that name is the one that is open. */
static bool is_open(const struct event_source *s, const char *path)
{
	struct stat named, ours;

	return s->fd >= 0 && stat(path, &named) == 0 && fstat(s->fd, &ours) == 0 &&
	       named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;
}

/* Whole lines of what the file has more by now. */
static int read_more(struct events *ev, struct event_source *s, struct event_list *l, struct err *e)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(s->fd, buf, sizeof(buf))) > 0) {
		const char *p, *nl;
		size_t left;

		strbuf_add(&s->rest, buf, (size_t)n);
		p = s->rest.data;
		left = s->rest.len;
		while ((nl = memchr(p, '\n', left))) {
			take_line(ev, l, p, (size_t)(nl - p));
			left -= (size_t)(nl + 1 - p);
			p = nl + 1;
		}
		(void)memmove(s->rest.data, p, left);
		s->rest.len = left;
	}
	return n < 0 ? err_sys(e, errno, "read %s", s->path) : 0;
}

/*
 * The file of now, from its beginning, where it is not the one that is open: 1. That one is read to
 * its end before, since it was written to until there was the new one. 0: it is; or negative.
 */
static int reopen(struct events *ev, struct event_source *s, struct event_list *l, struct err *e)
{
	int fd, r = 0;

	if (is_open(s, s->path))
		return 0;
	fd = open(s->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (s->fd >= 0)
		r = read_more(ev, s, l, e);
	(void)fd_close(s->fd);
	s->fd = fd;
	return r < 0 ? r : 1;
}

/* The newest file stays open, for who follows; what was rotated meanwhile is not read twice. */
static int read_source(struct events *ev, struct event_source *s, struct err *e)
{
	struct event_list l = { .n = 0 };
	int r = reopen(ev, s, &l, e);

	if (r > 0)
		r = read_more(ev, s, &l, e);
	if (r == 0 && ev->limit && l.n >= ev->limit)
		r = 1;
	for (unsigned int i = 1; i <= LOG_FILES && r == 0; i++) {
		cleanup_free char *old = xasprintf("%s.%u", s->path, i);

		r = is_open(s, old) ? 0 : read_file(ev, old, &l, e);
		if (r == -ENOENT) /* it was rotated just now, or there are no more */
			r = 0;
	}
	for (size_t i = 0; i < l.n; i++) {
		ev->found.all = xgrow(ev->found.all, ev->found.n, sizeof(*ev->found.all));
		l.all[i].place = ev->found.n;
		ev->found.all[ev->found.n++] = l.all[i];
	}
	free(l.all);
	return r < 0 ? r : 0;
}

/* ---- what is shown ---- */

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* "2026-11-25 20:31:05 n7 task-started  task 42 ..": continued below itself. */
static void print_event(const struct events *ev, const struct event *one)
{
	const char *node = json_get_str(one->o, "node"), *text = json_get_str(one->o, "text");
	const char *level = json_get_str(one->o, "level"), *kind = json_get_str(one->o, "event");
	cleanup_free char *head = NULL, *said = xstrdup(text ? text : "");
	char when[CLOCK_TEXT_MAX];
	enum term_style style = TERM_STYLE_MAX;

	if (opts_flag(ev->ctx->opts, "json")) {
		cmd_print_json_line(json_incref(one->o));
		return;
	}
	if (level && strcmp(level, "error") == 0)
		style = TERM_RED;
	else if (level && strcmp(level, "warning") == 0)
		style = TERM_YELLOW;
	head = xasprintf("%s %s%s%-13s ", clock_format_local(one->ns, when), node ? node : "",
			 node ? " " : "", kind ? kind : "?");
	(void)fputs(utf8_clean(head), stdout);
	if (style != TERM_STYLE_MAX)
		(void)fputs(term_on(STDOUT_FILENO, style), stdout);
	term_print_wrapped(stdout, utf8_clean(said), utf8_columns(head));
	if (style != TERM_STYLE_MAX)
		(void)fputs(term_off(STDOUT_FILENO), stdout);
}

static void show(struct events *ev)
{
	size_t first;

	if (ev->found.n)
		qsort(ev->found.all, ev->found.n, sizeof(*ev->found.all), by_time);
	first = ev->limit && ev->found.n > ev->limit ? ev->found.n - ev->limit : 0;
	for (size_t i = first; i < ev->found.n; i++)
		print_event(ev, &ev->found.all[i]);
	list_clear(&ev->found);
}

/* ---- what comes ---- */

static int follow_source(struct events *ev, struct event_source *s, struct err *e)
{
	int r = s->fd >= 0 ? read_more(ev, s, &ev->found, e) : 0;

	while (r == 0 && (r = reopen(ev, s, &ev->found, e)) > 0)
		r = read_more(ev, s, &ev->found, e);
	return r;
}

static int follow(struct events *ev, struct err *e)
{
	static const struct timespec pause = { .tv_nsec = LOOK_MS * (long)NS_PER_MS };
	int r = 0;

	ev->limit = 0;
	while (r == 0) {
		for (size_t i = 0; i < ev->n_sources && r == 0; i++)
			r = follow_source(ev, &ev->sources[i], e);
		show(ev);
		if (r == 0)
			r = fs_flush_stdout(e);
		if (r == 0)
			r = fs_stdout_is_read(e);
		if (r == 0)
			(void)nanosleep(&pause, NULL);
		if (r == 0)
			r = find_sources(ev, e);
	}
	return r;
}

/* All that there are, as a list that ends with NULL. */
static size_t all_kinds(const char **ret)
{
	size_t n = 0;

	for (uint32_t kind = 0; kind < OWN_EVENT_MAX; kind++)
		if (sentence_kind(kind))
			ret[n++] = sentence_kind(kind);
	for (size_t i = 0; event_file_kinds[i] && n < KINDS_MAX; i++)
		ret[n++] = event_file_kinds[i];
	ret[n] = NULL;
	return n;
}

static const char *kind_at(size_t i)
{
	const char *kinds[KINDS_MAX + 1];

	return i < all_kinds(kinds) ? kinds[i] : NULL;
}

static bool is_kind(const char *word, const char *const *kinds)
{
	for (; *kinds; kinds++)
		if (strcmp(*kinds, word) == 0)
			return true;
	return false;
}

/* A slip of the pen would show nothing, for ever. */
static int check_kinds(const struct cmd_ctx *ctx, struct err *e)
{
	const struct value *wanted = opts_value(ctx->opts, "kind");
	const char *kinds[KINDS_MAX + 1];
	size_t n = all_kinds(kinds);

	for (size_t i = 0; wanted && i < wanted->words.n; i++) {
		const char *word = wanted->words.texts[i], *near = str_nearest(word, kinds);
		cleanup_strbuf struct strbuf known = STRBUF_INIT;

		if (is_kind(word, kinds))
			continue;
		for (size_t k = 0; k < n; k++)
			strbuf_addf(&known, "%s%s", k ? ", " : "", kinds[k]);
		return err_set(e, -EINVAL, "--kind: there are no events \"%s\"%s%s; there are %s",
			       word, near ? ": did you mean " : "", near ? near : "",
			       strbuf_str(&known));
	}
	return 0;
}

static int take_since(struct events *ev, struct err *e)
{
	const char *text = opts_text(ev->ctx->opts, "since");
	int r = text ? unit_parse_past(text, clock_wall_ns(), &ev->since_ns, e) : 0;

	return r < 0 ? err_wrap(e, "--since") : 0;
}

static int run_events(const struct cmd_ctx *ctx, struct err *e)
{
	cleanup_free char *state = agent_setup_state_dir(ctx->settings);
	const struct value *limit = opts_value(ctx->opts, "limit");
	bool all = opts_given(ctx->opts, "since") && !opts_given(ctx->opts, "limit");
	struct events ev = { .ctx = ctx, .limit = all ? 0 : (size_t)limit->num };
	int r = take_since(&ev, e);

	r = r == 0 ? check_kinds(ctx, e) : r;
	if (r < 0)
		return CMD_USAGE;
	ev.dir = xasprintf("%s/%s/events", state, settings_str(ctx->settings, SET_INSTANCE));
	r = find_sources(&ev, e);
	for (size_t i = 0; i < ev.n_sources && r == 0; i++)
		r = read_source(&ev, &ev.sources[i], e);
	if (r == 0 && !ev.found.n && !opts_flag(ctx->opts, "follow"))
		cmd_warn("note", "no event in %s is as asked for", ev.dir);
	show(&ev);
	if (r == 0 && opts_flag(ctx->opts, "follow"))
		r = follow(&ev, e);
	list_clear(&ev.found);
	for (size_t i = 0; i < ev.n_sources; i++) {
		(void)fd_close(ev.sources[i].fd);
		strbuf_clear(&ev.sources[i].rest);
		free(ev.sources[i].path);
	}
	free(ev.sources);
	free(ev.dir);
	return r;
}

static const struct opt events_opts[] = {
	{ .name = "follow",
	  .short_name = 'f',
	  .spec = { VALUE_FLAG },
	  .help = "go on with what happens, until Ctrl-C" },
	{ .name = "kind",
	  .short_name = 'k',
	  .spec = { VALUE_WORDS },
	  .word_at = kind_at,
	  .arg = "KIND,..",
	  .help = "only these: task-started, task-ended, held, yield, .. (one that is none says "
		  "which there are)" },
	{ .name = "since",
	  .spec = { VALUE_STRING },
	  .arg = "TIME",
	  .help = "all since so long ago (1h), or since then: 08:00, today, yesterday, a date" },
	{ .name = "limit",
	  .short_name = 'n',
	  .spec = { VALUE_UINT, .min = 1 },
	  .arg = "N",
	  .def = DEFAULT_LIMIT,
	  .help = "the last N" },
	{ 0 },
};

static const struct cmd_example events_examples[] = {
	{ "tenure events", "the last 50, of all nodes" },
	{ "tenure events -f --kind yield,held", "what is held and let go, as it happens" },
	{ "tenure events --since 1d --kind task-ended --json", "for programs" },
	{ 0 },
};

const struct cmd cmd_events = {
	.name = "events",
	.group = "Holding GPUs",
	.summary = "what has happened, and what happens",
	.description =
		"From the files that the agents of the instance write (and, of some events, commands), "
		"of all nodes that share the state directory, in the order of time. They are there "
		"when no agent runs any more; of each node the last 50 MB are kept.",
	.examples = events_examples,
	.opts = events_opts,
	.flags = CMD_JSON_LINES,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_events,
};
