/* SPDX-License-Identifier: MIT */

/*
 * Everything here comes from names of files. Only of batches that are not over the journals are
 * read, for the counts of their elements, of what runs the claims, and the files of what waits
 * where the column limit is wanted. What the rest waits for the agent here is asked for once.
 *
 * Rows are chosen and sorted by what their names say; what else is known of one is read when it is
 * shown, or counted, and forgotten, because there may be very many.
 */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/agent_client.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/node_agents.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/task/list_columns.h"
#include "cli/task/queue_facts.h"
#include "cli/task/taskrun.h"
#include "cli/task/taskstate.h"
#include "cli/task/view.h"
#include "spool/instance.h"

#define WHEN_LIMIT_MS	 3000
#define REASONS_LIMIT_MS 1000
#define COLUMNS_MAX	 24
#define DEFAULT_FORMAT	 "id,state,priority,gpus,lane,name,time,note"

/* As taskstate_name() says them. */
static const char *const states[] = { "pending", "paused",    "running", "done",
				      "failed",	 "cancelled", NULL };
#define STATES_TEXT "pending, paused, running, done, failed, cancelled"

static const struct opt list_opts[] = {
	{ .name = "all", .short_name = 'a', .spec = { VALUE_FLAG }, .help = "also what has ended" },
	{ .name = "state",
	  .short_name = 's',
	  .spec = { VALUE_WORDS, .choices = states },
	  .arg = "STATE,..",
	  .help = "only these" },
	{ .name = "lane",
	  .words = WORDS_LANES,
	  .short_name = 'l',
	  .spec = { VALUE_STRING },
	  .arg = "NAME",
	  .help = "only this lane" },
	{ .name = "name",
	  .words = WORDS_ANY_TASK_NAMES,
	  .short_name = 'n',
	  .spec = { VALUE_STRING },
	  .arg = "NAME",
	  .help = "only names that begin so" },
	{ .name = "when",
	  .spec = { VALUE_FLAG },
	  .help = "also when what waits starts, as the agent of this node estimates it" },
	{ .name = "sort",
	  .spec = { VALUE_WORDS },
	  .word_at = list_sort_key_at,
	  .arg = "KEY,..",
	  .help = "by these columns, by -KEY the other way round: --sort gpus,-id. Without it what "
		  "has ended comes first, then what runs, then what waits as it will start" },
	{ .name = "limit",
	  .spec = { VALUE_UINT, .min = 1 },
	  .arg = "N",
	  .help = "only the first N rows" },
	{ .name = "format",
	  .spec = { VALUE_WORDS },
	  .word_at = list_column_at,
	  .arg = "COLUMN,..",
	  .help = "the columns, without the line of totals: id, state, priority, gpus, lane, name, time "
		  "(elapsed, and the limit), elapsed, limit (of what runs or waits), node, devices, reason, elements, begin, "
		  "ended, exit, log, note (where it runs, or why it waits)" },
	SCREEN_OPTS,
	{ 0 },
};

struct sort_key {
	const struct list_column *column;
	bool reverse;
};

struct totals {
	uint64_t waiting, paused, running, gpus, ended;
};

struct list {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	bool states[TASKSTATE_MAX]; /* that are wanted */
	const char *lane, *name;    /* the same; NULL: each */
	struct task_set active, ended;
	size_t n_rows, n_columns, n_keys;
	struct list_row *rows;
	struct queue_facts facts;
	char *options;	  /* those of the facts */
	bool reads_ended; /* the records of what has ended, since a column was asked for */
	json_t *tasks;	  /* that run on this node, as their agent says; NULL: not asked for yet */
	struct totals totals;

	/* How it is shown. */
	struct table *table; /* NULL: JSON */
	json_t *frame;	     /* the rows of JSON that is watched; NULL: a line for each */
	const struct list_column *columns[COLUMNS_MAX];
	struct table_column titles[COLUMNS_MAX + 1];
	struct strbuf cells[COLUMNS_MAX];
	struct sort_key keys[COLUMNS_MAX];
};

static bool wanted(const struct list *l, const struct task_name *n)
{
	return (!l->lane || strcmp(l->lane, n->lane) == 0) &&
	       (!l->name || str_has_prefix(n->name, l->name));
}

static void ask_reasons(struct list *l)
{
	json_t *answer = NULL;
	int r = agent_ask(l->ctx, AGENT_VERB(CTL_REASONS), REASONS_LIMIT_MS, &answer, NULL, NULL);

	if (r == CMD_NOTHING_RUNS)
		l->facts.unserved = !node_agents_another_serves(l->ctx, l->sp);
	else if (r != CMD_OK) /* nor will it say what runs */
		l->tasks = json_object();
	queue_facts_take_reasons(&l->facts, answer);
	json_decref(answer);
}

static void ask_when(struct list *l)
{
	json_t *answer = NULL;

	if (agent_ask(l->ctx, AGENT_VERB(CTL_FORECAST), WHEN_LIMIT_MS, &answer, NULL, NULL) ==
	    CMD_OK)
		queue_facts_take_forecasts(&l->facts, answer);
	json_decref(answer);
}

/* -------- columns -------- */

static int take_columns(struct list *l, struct err *e)
{
	static const struct value_spec words = { VALUE_WORDS };
	const struct value *v = opts_value(l->ctx->opts, "format");
	struct value standard = { .type = VALUE_WORDS };
	int r = 0;

	if (v && opts_flag(l->ctx->opts, "json"))
		return err_set(e, -EINVAL,
			       "--format is for the table; a line of --json has all of it");
	(void)value_parse(&words, DEFAULT_FORMAT, &standard, NULL);
	v = v ? v : &standard;
	if (!v->words.n)
		r = err_set(e, -EINVAL, "--format: names no column");
	if (v->words.n > COLUMNS_MAX)
		r = err_set(e, -EINVAL, "--format: %d columns at most", COLUMNS_MAX);
	for (size_t i = 0; r == 0 && i < v->words.n; i++) {
		const struct list_column *c =
			list_column_find("format", v->words.texts[i], false, e);

		if (!c) {
			r = -EINVAL;
			break;
		}
		l->titles[l->n_columns] = c->title;
		l->cells[l->n_columns] = (struct strbuf)STRBUF_INIT;
		l->columns[l->n_columns++] = c;
		l->reads_ended |= opts_given(l->ctx->opts, "format") && c->of_run;
	}
	value_clear(&standard);
	return r;
}

static int take_keys(struct list *l, struct err *e)
{
	const struct value *v = opts_value(l->ctx->opts, "sort");

	if (v && !v->words.n)
		return err_set(e, -EINVAL, "--sort: names no column");
	if (v && v->words.n > COLUMNS_MAX)
		return err_set(e, -EINVAL, "--sort: %d columns at most", COLUMNS_MAX);
	for (size_t i = 0; v && i < v->words.n; i++) {
		const char *word = v->words.texts[i];
		const struct list_column *c =
			list_column_find("sort", word + (word[0] == '-'), true, e);

		if (!c)
			return -EINVAL;
		l->keys[l->n_keys++] = (struct sort_key){ c, word[0] == '-' };
	}
	return 0;
}

/* -------- rows -------- */

static void show_row(struct list *l, const struct task_view *v)
{
	const char *cells[COLUMNS_MAX];
	enum term_style style = v->state == TASKSTATE_RUNNING  ? TERM_GREEN
				: v->state == TASKSTATE_FAILED ? TERM_RED
							       : TABLE_PLAIN;

	for (size_t i = 0; i < l->n_columns; i++) {
		l->cells[i].len = 0;
		l->columns[i]->cell(&l->facts, v, &l->cells[i]);
		cells[i] = l->cells[i].len		 ? strbuf_str(&l->cells[i])
			   : l->columns[i]->may_be_empty ? ""
							 : NULL;
	}
	table_add_cells(l->table, style, cells);
}

static void print_json(struct list *l, json_t *o)
{
	cleanup_free char *line = NULL;

	if (l->frame) {
		(void)json_array_append_new(l->frame, o);
		return;
	}
	line = json_dumps(o, JSON_COMPACT | TIME_DIGITS);
	if (line)
		puts(line);
	json_decref(o);
}

static void show_json(struct list *l, struct task_view *v)
{
	json_t *reason = queue_facts_reason(&l->facts, v), *o;

	v->because[0] = '\0';
	if (v->state == TASKSTATE_FAILED && !v->name.count)
		(void)taskstate_why_failed(l->sp, &v->name, v->because);
	o = taskview_list_json(v);
	queue_facts_add(o, reason, queue_facts_forecast(&l->facts, v));
	json_decref(reason);
	print_json(l, o);
}

static bool is_sorted_by_start(const struct list *l)
{
	for (size_t i = 0; i < l->n_keys; i++)
		if (l->keys[i].column->by_start)
			return true;
	return false;
}

/* What the agent of this node says of what it runs; asked for once. */
static const json_t *agents_of(struct list *l)
{
	l->tasks = l->tasks ? l->tasks : taskview_agents(l->ctx);
	return l->tasks;
}

/* A row, if it is wanted. */
static void choose(struct list *l, struct scan_task *t)
{
	struct list_row r = { .t = t, .place = l->n_rows };
	struct taskrun run;

	r.state = queue_facts_state(&l->facts, t, &r.lane_paused);
	if (!l->states[r.state])
		return;
	if (t->name.element && !queue_facts_name(&l->facts, &t->name))
		return;
	if (!wanted(l, &t->name))
		return;
	if (t->dir == SPOOL_RUNNING && is_sorted_by_start(l)) {
		taskrun_read_claim(l->sp, &t->name, t->name.name, &run);
		taskrun_take_agents(&run, taskview_word(agents_of(l), &t->name));
		r.started_ns = taskrun_since_ns(&run);
	}
	l->rows = xgrow(l->rows, l->n_rows, sizeof(*l->rows));
	l->rows[l->n_rows++] = r;
}

static int compare_rows(const void *a, const void *b, void *data)
{
	const struct list_row *x = a, *y = b;
	const struct list *l = data;

	for (size_t i = 0; i < l->n_keys; i++) {
		int r = l->keys[i].column->compare(x, y);

		if (r)
			return l->keys[i].reverse ? -r : r;
	}
	return x->place < y->place ? -1 : x->place > y->place;
}

/* What runs has GPUs; those of "all" its claim has. */
static uint64_t gpus_in_use(const struct task_view *v)
{
	struct text_list uuids = { .n = 0 };
	uint64_t n = v->name.gpus;

	if (v->gpus)
		return json_array_size(v->gpus);
	if (n != SPEC_ALL)
		return n;
	taskrun_devices(v->sp, &v->run, &uuids);
	n = uuids.n;
	text_list_clear(&uuids);
	return n;
}

static void count(struct totals *n, const struct task_view *v)
{
	uint64_t waits = taskstate_waiting(&v->name, v->counted ? &v->counts : NULL);

	if (v->name.ended_s) {
		n->ended++;
	} else if (v->place.dir == SPOOL_RUNNING) {
		n->running++;
		n->gpus += gpus_in_use(v);
	} else {
		n->waiting += waits;
		n->paused += v->state == TASKSTATE_PAUSED ? waits : 0;
	}
}

/* How it has run last, which is not read unasked: it is a file for each. */
static void load_ended(const struct list *l, struct task_view *v)
{
	char file[NAME_FILE_MAX], day[SPOOL_PATH_MAX];
	struct task_file t;

	v->place.name = v->name;
	(void)name_format(&v->name, file);
	if (v->place.dir == SPOOL_DONE)
		(void)str_print(v->place.path, sizeof(v->place.path), "%s/%s",
				spool_day_path(v->name.ended_s * NS_PER_S, day), file);
	else
		(void)spool_path(v->place.dir, file, v->place.path);
	/* Who filed it may have had another day. */
	if (task_file_read(l->sp, v->place.path, &t, NULL) < 0 &&
	    (select_by_id(l->sp, v->name.id, 0, &v->place, NULL) < 0 ||
	     task_file_read(l->sp, v->place.path, &t, NULL) < 0))
		return;
	taskrun_read(l->sp, &v->place, &t.history, &v->run);
	taskrun_devices(l->sp, &v->run, &v->uuids);
	v->run.timeout_ms = t.spec->timeout;
	task_file_clear(&t);
}

/*
 * v is empty, or another row's. A view has room for all that there can be of what runs, and most
 * rows are of what does not: so only what these have is set, and only what ran is cleared.
 */
static void load(struct list *l, const struct list_row *r, struct task_view *v)
{
	if (v->place.dir == SPOOL_RUNNING || v->place.path[0]) {
		taskview_clear(v);
		*v = (struct task_view){ .sp = l->sp };
	}
	v->place.dir = r->t->dir;
	v->name = r->t->name;
	v->state = r->state;
	v->lane_paused = r->lane_paused;
	if (r->t->dir == SPOOL_RUNNING) {
		taskview_load_claim(v, agents_of(l));
		if (v->name.element)
			taskrun_take_gangs(&v->run, queue_facts_gangs(&l->facts));
	}
	if (v->name.ended_s && l->reads_ended)
		load_ended(l, v);
	v->counted = v->name.count && r->t->dir == SPOOL_PENDING &&
		     taskstate_counts(l->sp, &v->name, &l->active, &v->counts, NULL) == 0;
	if (v->counted)
		taskstate_take_counts(&v->state, &v->counts);
}

static void show_rows(struct list *l, size_t limit)
{
	struct task_view v = { .sp = l->sp };

	for (size_t i = 0; i < l->n_rows; i++) {
		load(l, &l->rows[i], &v);
		if (!l->states[v.state])
			continue;
		count(&l->totals, &v);
		if (i < limit && l->table)
			show_row(l, &v);
		else if (i < limit)
			show_json(l, &v);
	}
	taskview_clear(&v);
}

static int add_ended(void *data, const struct task_name *n, const char *dir)
{
	struct list *l = data;
	struct task_set *m = &l->ended;

	m->tasks = xgrow(m->tasks, m->n, sizeof(*m->tasks));
	m->tasks[m->n++] = (struct scan_task){ .name = *n, .dir = spool_dir_of(dir) };
	return 0;
}

static int by_end(const void *a, const void *b)
{
	const struct scan_task *x = a, *y = b;

	if (x->name.ended_s != y->name.ended_s)
		return x->name.ended_s < y->name.ended_s ? -1 : 1;
	return x->name.id < y->name.id ? -1 : x->name.id > y->name.id;
}

/* What has ended since the queue was read, and so is in both, has ended. Elements of a batch that
 * was stopped may run on for a while. */
static void drop_ended(const struct list *l, struct task_set *active)
{
	cleanup_free uint64_t *ids = xcalloc(l->ended.n + 1, sizeof(*ids));
	size_t kept = 0;

	for (size_t i = 0; i < l->ended.n; i++)
		ids[i] = l->ended.tasks[i].name.id;
	qsort(ids, l->ended.n, sizeof(*ids), compare_u64);
	for (size_t i = 0; i < active->n; i++)
		if (active->tasks[i].name.element ||
		    !bsearch(&active->tasks[i].name.id, ids, l->ended.n, sizeof(*ids), compare_u64))
			active->tasks[kept++] = active->tasks[i];
	active->n = kept;
}

/* Read after the queue, so that nothing is missed on its way from one to the other. */
static int read_ended(const struct spool *sp, struct list *l, struct err *e)
{
	static const enum spool_dir dirs[] = { SPOOL_FAILED, SPOOL_CANCELLED, SPOOL_DONE };
	bool all = opts_flag(l->ctx->opts, "all"), chosen = opts_given(l->ctx->opts, "state");
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(dirs) && r == 0; i++) {
		if (chosen ? l->states[taskstate_of(NULL, dirs[i])] : all)
			r = scan_dirs(sp, &dirs[i], 1, add_ended, l, e);
	}
	if (l->ended.n)
		qsort(l->ended.tasks, l->ended.n, sizeof(*l->ended.tasks), by_end);
	return r;
}

static int read_all(struct list *l, struct err *e)
{
	const struct task_set *const sets[] = { &l->active, &l->ended };
	int r = select_all(l->sp, &l->active, e);

	l->options = agent_options(l->ctx->settings, NULL);
	l->facts.options = l->options;
	if (r == 0)
		r = read_ended(l->sp, l, e);
	if (r == 0 && l->ended.n)
		drop_ended(l, &l->active);
	return r == 0 ? queue_facts_read(&l->facts, l->sp, sets, ARRAY_LEN(sets), e) : r;
}

/* Which rows are wanted. */
static int take_filters(struct list *l, struct err *e)
{
	const struct value *v = opts_value(l->ctx->opts, "state");

	l->lane = opts_text(l->ctx->opts, "lane");
	l->name = opts_text(l->ctx->opts, "name");
	if (v && !v->words.n)
		return err_set(e, -EINVAL, "--state: names no state; they are " STATES_TEXT);
	for (unsigned int j = 0; j < TASKSTATE_MAX; j++)
		l->states[j] = !v;
	for (size_t i = 0; v && i < v->words.n; i++) {
		unsigned int j = 0;

		while (j < TASKSTATE_MAX && strcmp(taskstate_name(j), v->words.texts[i]) != 0)
			j++;
		if (j == TASKSTATE_MAX)
			return err_set(e, -EINVAL, "--state: \"%s\" is none of " STATES_TEXT,
				       v->words.texts[i]);
		l->states[j] = true;
	}
	return 0;
}

static void say_none(const struct cmd_ctx *ctx, const struct spool *sp)
{
	bool all = opts_flag(ctx->opts, "all") || opts_given(ctx->opts, "state");

	if (opts_given(ctx->opts, "state") || opts_given(ctx->opts, "lane") ||
	    opts_given(ctx->opts, "name"))
		printf("No task in instance \"%s\" is as asked for%s.\n", spool_instance(sp),
		       all ? "" : ", of those that wait or run (-a: also what has ended)");
	else
		printf("Nothing in instance \"%s\"%s.\n", spool_instance(sp),
		       all ? "" : " waits or runs (-a: also what has ended)");
}

/* "12 wait (2 paused), 3 run on 4 GPUs" */
static void print_totals(const struct list *l, size_t limit)
{
	const struct totals *n = &l->totals;
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_addf(&b, "%" PRIu64 " wait%s", n->waiting, n->waiting == 1 ? "s" : "");
	if (n->paused)
		strbuf_addf(&b, " (%" PRIu64 " paused)", n->paused);
	strbuf_addf(&b, ", %" PRIu64 " run%s", n->running, n->running == 1 ? "s" : "");
	if (n->running)
		strbuf_addf(&b, " on %" PRIu64 " GPU%s", n->gpus, n->gpus == 1 ? "" : "s");
	if (n->ended)
		strbuf_addf(&b, ", %" PRIu64 " ha%s ended", n->ended, n->ended == 1 ? "s" : "ve");
	if (limit < l->n_rows)
		strbuf_addf(&b, "; the first %zu of %zu rows", limit, l->n_rows);
	term_print_wrapped(stdout, strbuf_str(&b), 0);
}

/* Of so many lines (0: any number) the last one is left to the totals. */
static void print_table(const struct list *l, size_t room)
{
	cleanup_free char *text = NULL;
	size_t size, n = 0, keep = room > 2 ? room - 2 : 0;
	FILE *page = keep ? open_memstream(&text, &size) : NULL;
	const char *p;

	table_print(l->table, page ? page : stdout);
	if (!page)
		return;
	(void)fclose(page);
	for (p = text; *p; p++)
		n += *p == '\n';
	if (n < room) {
		(void)fputs(text, stdout);
		return;
	}
	n -= keep;
	for (p = text; keep && *p; p++)
		keep -= *p == '\n';
	(void)fwrite(text, 1, (size_t)(p - text), stdout);
	printf(".. %zu more lines\n", n);
}

static void print(struct list *l)
{
	const struct value *given = opts_value(l->ctx->opts, "limit");
	size_t limit = given && given->num < l->n_rows ? (size_t)given->num : l->n_rows;
	bool waits = false, framed = screen_is_asked(l->ctx);
	char now[CLOCK_TEXT_MAX];

	for (size_t i = 0; i < limit; i++)
		waits = waits || l->rows[i].t->dir == SPOOL_PENDING;
	if (waits)
		ask_reasons(l);
	if (opts_flag(l->ctx->opts, "json")) {
		l->frame = framed ? json_array() : NULL;
		show_rows(l, limit);
		if (framed)
			cmd_print_json_line(json_pack("{ss so}", "time",
						      clock_format_iso(clock_wall_ns(), now),
						      "tasks", l->frame));
	} else if (!l->n_rows) {
		say_none(l->ctx, l->sp);
	} else {
		l->table = table_new(l->titles);
		show_rows(l, limit);
		print_table(l, opts_given(l->ctx->opts, "format") ? 0 : screen_lines(l->ctx));
		if (!opts_given(l->ctx->opts, "format"))
			print_totals(l, limit);
	}
}

static void forget(struct list *l)
{
	free(l->ended.tasks);
	free(l->active.tasks);
	free(l->rows);
	json_decref(l->tasks);
	queue_facts_clear(&l->facts);
	free(take_ptr(l->options));
	(void)table_free(l->table);
	for (size_t i = 0; i < l->n_columns; i++)
		strbuf_clear(&l->cells[i]);
}

static int look(struct list *l, struct err *e)
{
	int r = read_all(l, e);

	if (r < 0)
		return r;
	if (opts_flag(l->ctx->opts, "when"))
		ask_when(l);
	for (size_t i = 0; i < l->ended.n; i++)
		choose(l, &l->ended.tasks[i]);
	for (size_t i = 0; i < l->active.n; i++)
		choose(l, &l->active.tasks[i]);
	if (l->n_keys && l->n_rows)
		qsort_r(l->rows, l->n_rows, sizeof(*l->rows), compare_rows, l);
	print(l);
	return 0;
}

static int list_once(void *user, struct err *e)
{
	const struct cmd_ctx *ctx = user;
	struct list *l = xcalloc(1, sizeof(*l));
	struct spool *sp = NULL;
	int r;

	l->ctx = ctx;
	r = take_filters(l, e) < 0 || take_columns(l, e) < 0 || take_keys(l, e) < 0 ? CMD_USAGE
										    : CMD_OK;
	if (r == CMD_OK)
		r = instance_open_if_there(ctx, SPOOL_LOOK, &sp, e);
	l->sp = sp;
	if (r == CMD_OK && sp)
		r = look(l, e);
	forget(l);
	free(l);
	(void)spool_close(sp);
	return r;
}

static int run_list(const struct cmd_ctx *ctx, struct err *e)
{
	struct cmd_ctx own = *ctx;

	return screen_is_asked(ctx) ? screen_watch(ctx, list_once, &own, e) : list_once(&own, e);
}

static const struct cmd_example list_examples[] = {
	{ "tenure list", "what waits and what runs" },
	{ "tenure list -s failed", "what has failed" },
	{ "tenure list --when", "also when what waits starts, about" },
	{ "tenure list -w", "again and again, every 2 s" },
	{ "tenure list -a --sort -id --limit 20", "the 20 that were submitted last" },
	{ "tenure list --format id,name,elapsed,node -s running", "the columns that are wanted" },
	{ "tenure list -a --json | jq 'select(.lane == \"week\")'", "for scripts" },
	{ 0 },
};

const struct cmd cmd_list = {
	.name = "list",
	.group = QUEUE_GROUP,
	.summary = "the tasks of the queue",
	.description =
		"In the order in which they start. Of an array or another batch there is a row "
		"for each element that runs, and one for all of them. TIME is for how long a task has "
		"run, and of how much at most where it has a timeout; behind it stands where it runs, "
		"or in a few words why it waits (tenure why ID says all of it). The last line has "
		"the totals of these rows, elements counted. A queue with nothing in it, or "
		"into which nothing was submitted yet, is no error. Works without an "
		"agent; which GPUs a task has, and what it waits for but what its name says, is shown "
		"where an agent runs here.",
	.examples = list_examples,
	.opts = list_opts,
	.flags = CMD_JSON_LINES,
	.setting_groups = SETTING_GROUP_QUEUE | SETTING_GROUP_AGENT,
	.run = run_list,
};
