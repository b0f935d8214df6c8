/* SPDX-License-Identifier: MIT */
#include "cli/node/nodes_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/table.h"
#include "engine/node_sums.h"

#define COLUMNS_MAX 9
#define CELL	    32
#define STATE_LEAST 16

static bool is_machine(const struct nodes_section *s)
{
	return s->engine == &engine_local;
}

/* -------- a table without the columns that would be empty -------- */

struct sheet {
	struct table_column columns[COLUMNS_MAX + 1];
	bool left_out[COLUMNS_MAX];
	struct table *t;
};

static void sheet_begin(struct sheet *sh, const struct table_column *columns)
{
	size_t n = 0;

	for (size_t i = 0; columns[i].title; i++)
		if (!sh->left_out[i])
			sh->columns[n++] = columns[i];
	sh->columns[n] = (struct table_column){ .title = NULL };
	sh->t = table_new(sh->columns);
}

/* A text for each column, left out or not. */
static void sheet_add(struct sheet *sh, enum term_style style, const char *const cells[COLUMNS_MAX])
{
	const char *c[COLUMNS_MAX] = { NULL };
	size_t n = 0;

	for (size_t i = 0; i < COLUMNS_MAX; i++)
		if (!sh->left_out[i])
			c[n++] = cells[i];
	table_add(sh->t, style, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]);
}

static void sheet_end(struct sheet *sh)
{
	if (!table_is_empty(sh->t)) {
		(void)putchar('\n');
		table_print(sh->t, stdout);
	}
	sh->t = table_free(sh->t);
}

/* "" for 0. */
static const char *count(unsigned int n, char buf[CELL])
{
	return n ? str_print(buf, CELL, "%u", n) : "";
}

static const char *number(unsigned int n, char buf[CELL])
{
	return str_print(buf, CELL, "%u", n);
}

/* -------- the head -------- */

/* "slurm (partition=gpu), 32s ago" */
static void print_title(const struct nodes_section *s)
{
	const struct inventory *inv = &s->inventory;
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	char ago[UNIT_TEXT_MAX];

	if (is_machine(s))
		strbuf_addf(&b, "this machine (%s)",
			    inv->nodes.n ? inv->nodes.all[0].name : "no GPU");
	else
		strbuf_adds(&b, s->engine->name);
	for (size_t i = 0; i < s->settings.n; i++)
		strbuf_addf(&b, "%s%s%s", i ? " " : " (", s->settings.texts[i],
			    i + 1 == s->settings.n ? ")" : "");
	if (inv->cached)
		strbuf_addf(&b, ", %s ago",
			    unit_format_duration(inv->age_ms / MS_PER_S * MS_PER_S, ago));
	(void)fputs(term_on(STDOUT_FILENO, TERM_BOLD), stdout);
	term_print_wrapped(stdout, strbuf_str(&b), 0);
	(void)fputs(term_off(STDOUT_FILENO), stdout);
}

/* What of them is free is known of some at least. */
static bool is_seen(const struct node_sum *s)
{
	return !s->unknown || s->unknown < s->total;
}

/* "Free: 1   Allocated: 13", and no figure away from what it is of. */
static void print_figures(const struct text_list *figures)
{
	size_t columns = term_columns(STDOUT_FILENO), at = 0;

	for (size_t i = 0; i < figures->n; i++) {
		const char *gap = !i ? "" : "   ";

		if (i && at + strlen(gap) + strlen(figures->texts[i]) > columns) {
			gap = "\n";
			at = 0;
		}
		at += (size_t)printf("%s%s", gap, figures->texts[i]);
	}
	if (figures->n)
		(void)putchar('\n');
}

static void add_figure(struct text_list *figures, const char *what, bool known, uint64_t n)
{
	text_list_take(figures,
		       known ? xasprintf("%s: %" PRIu64, what, n) : xasprintf("%s: ?", what));
}

static void print_sums(const struct node_sum *s, const struct ours *ours)
{
	const struct {
		const char *what;
		unsigned int n;
	} more[] = { { "Blocked", s->blocked },
		     { "Out of use", s->unavailable },
		     { "Unknown", s->unknown },
		     { "Ours", s->ours } };
	struct text_list first = { .n = 0 }, second = { .n = 0 };
	cleanup_free char *tasks =
		ours->n_instances > 1 ? xasprintf(" (of %s)", ours->instance) : xstrdup("");

	add_figure(&first, "Total Nodes", true, s->nodes);
	add_figure(&first, "Total GPUs", true, s->total);
	add_figure(&first, "Free", is_seen(s), s->free);
	add_figure(&first, "Allocated", is_seen(s), s->allocated);
	text_list_take(&first, ours->running_known ? xasprintf("Active Tasks: %" PRIu64 "%s",
							       ours->running, tasks)
						   : xasprintf("Active Tasks: ?%s", tasks));
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		if (more[i].n)
			add_figure(&second, more[i].what, true, more[i].n);
	print_figures(&first);
	print_figures(&second);
	text_list_clear(&first);
	text_list_clear(&second);
}

/* "Our jobs: main: 2 running, 1 pending; exp2/main: 1 running, 0 pending" */
static void print_jobs(const struct ours *ours, const char *engine)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	for (size_t i = 0; i < ours->pools.n; i++) {
		const struct pool_shown *p = &ours->pools.all[i];
		struct ours_count n = ours_count(p);
		bool other = strcmp(p->instance, ours->instance) != 0;

		if (strcmp(p->pool.engine, engine) != 0 ||
		    ((other || p->pool.down) && !n.running && !n.pending))
			continue;
		strbuf_addf(&b, "%s%s%s%s: %u running, %u pending",
			    b.len ? "; " : "Our jobs: ", other ? p->instance : "", other ? "/" : "",
			    p->name, n.running, n.pending);
	}
	if (b.len)
		term_print_wrapped(stdout, strbuf_str(&b), 0);
}

static void print_types(const struct node_sums *sums)
{
	static const struct table_column columns[] = {
		{ "TYPE", .cut = 12 },	{ "NODES", true },
		{ "GPUS", true },	{ "FREE", true },
		{ "BLOCKED", true },	{ "ALLOCATED", true },
		{ "OUT OF USE", true }, { "UNKNOWN", true },
		{ "OURS", true },	{ 0 },
	};
	struct sheet sh = { .left_out = { [4] = !sums->all.blocked,
					  [6] = !sums->all.unavailable,
					  [7] = !sums->all.unknown,
					  [8] = !sums->all.ours } };
	char c[8][CELL];

	sheet_begin(&sh, columns);
	for (size_t i = 0; i < sums->n_types; i++) {
		const struct node_sum *s = &sums->types[i].sum;

		sheet_add(&sh, s->free ? TERM_GREEN : TABLE_PLAIN,
			  (const char *const[COLUMNS_MAX]){
				  sums->types[i].type, number(s->nodes, c[0]),
				  number(s->total, c[1]), number(s->free, c[2]),
				  number(s->blocked, c[3]), number(s->allocated, c[4]),
				  number(s->unavailable, c[5]), number(s->unknown, c[6]),
				  number(s->ours, c[7]) });
	}
	sheet_end(&sh);
}

/* -------- nodes -------- */

/* Names without their domain, where that tells them apart as well. */
static bool are_short(const struct engine_nodes *nodes)
{
	for (size_t i = 1; i < nodes->n; i++)
		if (strcmp(nodes->all[i - 1].name, nodes->all[i].name) != 0 &&
		    node_sums_same_host(nodes->all[i - 1].name, nodes->all[i].name))
			return false;
	return true;
}

/* How the cells of a column of nodes are laid out, so that their parts stand below one another. */
struct widths {
	bool short_names;
	int name, free, allocated;
	int type;
};

static int digits(unsigned int n)
{
	return n < 10 ? 1 : 1 + digits(n / 10);
}

static int wider(int a, int b)
{
	return a > b ? a : b;
}

static int name_width(const struct engine_node *n, bool short_names)
{
	return (int)(short_names ? strcspn(n->name, ".") : strlen(n->name));
}

static bool is_left_out(const struct nodes_shown *shown, const struct node_sum *row)
{
	return shown->only_free && !row->free;
}

static struct widths widths_of(const struct nodes_shown *shown, const struct nodes_section *s)
{
	const struct engine_nodes *nodes = &s->inventory.nodes;
	struct widths w = { .short_names = are_short(nodes) };

	for (size_t i = 0; i < nodes->n; i++) {
		struct node_sum row = node_sums_row(&nodes->all[i], s->ours[i]);

		if (is_left_out(shown, &row))
			continue;
		w.name = wider(w.name, name_width(&nodes->all[i], w.short_names));
		w.free = wider(w.free, digits(row.free) + 1 + digits(row.total));
		w.allocated = wider(w.allocated, digits(row.allocated));
		if (nodes->all[i].type)
			w.type = wider(w.type, (int)strlen(nodes->all[i].type));
	}
	return w;
}

/* "qa-a10-023: 0/4 free (4 allocated)", which the caller frees. */
static char *node_cell(const struct engine_node *n, const struct node_sum *row,
		       const struct widths *w)
{
	int name = name_width(n, w->short_names);
	char free_[CELL];

	(void)str_print(free_, sizeof(free_), "%u/%u", row->free, row->total);
	if (row->unknown) {
		(void)str_print(free_, sizeof(free_), "?/%u", row->total);
		return xasprintf("%.*s:%*s %*s free", name, n->name, w->name - name, "", w->free,
				 free_);
	}
	return xasprintf("%.*s:%*s %*s free (%*u allocated)", name, n->name, w->name - name, "",
			 w->free, free_, w->allocated, row->allocated);
}

static const char *state_of(const struct engine_node *n, const struct node_sum *row)
{
	if (n->why)
		return n->why;
	if (!n->usable)
		return "takes no jobs";
	return row->blocked ? "no processor or memory is left" : "";
}

static void node_row(struct sheet *sh, const struct engine_node *n, const struct node_sum *row,
		     const struct widths *w)
{
	cleanup_free char *cell = node_cell(n, row, w);
	char blocked[CELL], ours[CELL];

	sheet_add(sh,
		  !n->usable  ? TERM_DIM
		  : row->free ? TERM_GREEN
			      : TABLE_PLAIN,
		  (const char *const[COLUMNS_MAX]){ cell, n->type ? n->type : "",
						    count(row->blocked, blocked),
						    count(row->ours, ours), state_of(n, row) });
}

/* Where the state would have too little room beside all columns, those go of which it, or the table
 * of types, says the same. */
static void leave_room(struct sheet *sh, const struct widths *w)
{
	size_t taken = (size_t)(w->name + w->free + w->allocated + w->type) +
		       strlen(":  free ( allocated)    ");

	taken += sh->left_out[2] ? 0 : strlen("BLOCKED ");
	taken += sh->left_out[3] ? 0 : strlen("OURS ");
	if (!sh->left_out[4] && taken + STATE_LEAST > term_columns(STDOUT_FILENO))
		sh->left_out[1] = sh->left_out[2] = true;
}

#define OTHER_LINES 12 /* at the most, besides types and nodes */
#define LEAST_NODES 3

/* Nodes that a screen has room for, below what is said of all of them. */
static size_t room_for_nodes(const struct nodes_shown *shown, const struct node_sums *sums)
{
	size_t others = OTHER_LINES + sums->n_types;

	if (!shown->lines)
		return SIZE_MAX;
	return shown->lines > others + LEAST_NODES ? shown->lines - others : LEAST_NODES;
}

static void print_nodes(const struct nodes_shown *shown, const struct nodes_section *s,
			const struct node_sums *sums)
{
	static const struct table_column columns[] = {
		{ "NODE" }, { "TYPE" }, { "BLOCKED", true }, { "OURS", true }, { "STATE" }, { 0 },
	};
	const struct engine_nodes *nodes = &s->inventory.nodes;
	size_t room = room_for_nodes(shown, sums), listed = 0;
	struct widths w = widths_of(shown, s);
	struct sheet sh = { .left_out = { [1] = !w.type,
					  [2] = !sums->all.blocked,
					  [3] = !sums->all.ours,
					  [4] = true } };

	for (size_t i = 0; i < nodes->n; i++) {
		struct node_sum row = node_sums_row(&nodes->all[i], s->ours[i]);

		if (!is_left_out(shown, &row) && state_of(&nodes->all[i], &row)[0])
			sh.left_out[4] = false;
	}
	leave_room(&sh, &w);
	sheet_begin(&sh, columns);
	for (size_t i = 0; i < nodes->n; i++) {
		struct node_sum row = node_sums_row(&nodes->all[i], s->ours[i]);

		if (!is_left_out(shown, &row) && listed++ < room)
			node_row(&sh, &nodes->all[i], &row, &w);
	}
	sheet_end(&sh);
	if (listed > room)
		printf("and %zu more%s\n", listed - room,
		       shown->only_free ? ""
					: "; --free lists those of which a job could get a GPU");
}

/* -------- devices -------- */

/* "held", "busy: PID 4242 (alice, python), 0.5 GiB", "in use by task 2" */
static char *device_text(const struct node_device *d)
{
	if (d->state == NODE_DEVICE_TASK || d->state == NODE_DEVICE_OUT)
		return xstrdup(d->text[0] ? d->text : node_device_state_name(d->state));
	return xasprintf("%s%s%s", node_device_state_name(d->state),
			 !d->text[0]			? ""
			 : d->state == NODE_DEVICE_HELD ? " "
							: ": ",
			 d->text);
}

static void print_devices(const struct nodes_shown *shown, const struct node_devices *devices)
{
	static const struct table_column columns[] = {
		{ "GPU", true }, { "TYPE", .drop = 1 }, { "STATE" }, { 0 }
	};
	static const enum term_style styles[] = { [NODE_DEVICE_FREE] = TERM_GREEN,
						  [NODE_DEVICE_HELD] = TABLE_PLAIN,
						  [NODE_DEVICE_TASK] = TABLE_PLAIN,
						  [NODE_DEVICE_BUSY] = TERM_YELLOW,
						  [NODE_DEVICE_OUT] = TERM_DIM };
	_Static_assert(ARRAY_LEN(styles) == NODE_DEVICE_STATE_MAX, "a style for every state");
	struct sheet sh = { .t = NULL };

	sheet_begin(&sh, columns);
	for (size_t i = 0; i < devices->n; i++) {
		const struct node_device *d = &devices->all[i];
		cleanup_free char *text = device_text(d);
		char gpu[CELL];

		if (shown->only_free && d->state != NODE_DEVICE_FREE)
			continue;
		(void)str_print(gpu, sizeof(gpu), "%d", d->gpu);
		if (d->mig >= 0)
			(void)str_print(gpu, sizeof(gpu), "%d/%d", d->gpu, d->mig);
		sheet_add(
			&sh, styles[d->state],
			(const char *const[COLUMNS_MAX]){ gpu, d->name[0] ? d->name : "-", text });
	}
	sheet_end(&sh);
}

/* -------- all of it -------- */

static void print_section(const struct nodes_shown *shown, const struct nodes_section *s)
{
	struct node_sums sums;

	node_sums_of(&s->inventory.nodes, s->ours, &sums);
	print_title(s);
	print_sums(&sums.all, shown->ours);
	print_jobs(shown->ours, s->engine->name);
	if (!sums.all.total)
		printf("\n%s GPUs%s%s.\n", is_machine(s) ? "It has no" : "No node has",
		       shown->type ? " of type " : "", shown->type ? shown->type : "");
	else
		print_types(&sums);
	if (sums.all.total && shown->only_free && !sums.all.free)
		printf("\nNone of them is free for a job.\n");
	else if (is_machine(s))
		print_devices(shown, &s->devices);
	else
		print_nodes(shown, s, &sums);
	node_sums_clear(&sums);
}

void nodes_print(const struct nodes_shown *shown)
{
	bool any = false;

	for (size_t i = 0; i < shown->n; i++) {
		if (!shown->sections[i].inventory.known)
			continue;
		if (any)
			(void)putchar('\n');
		print_section(shown, &shown->sections[i]);
		any = true;
	}
}

/* -------- JSON -------- */

static void set(json_t *o, const char *key, json_t *value)
{
	(void)json_object_set_new(o, key, value);
}

static json_t *text_json(const char *text)
{
	return text && text[0] ? json_new_text(text) : json_null();
}

/* s NULL: nothing of it is known. */
static void set_sum(json_t *o, const struct node_sum *s)
{
	const struct node_sum none = { .nodes = 0 }, *n = s ? s : &none;
	bool seen = s && is_seen(s);
	const struct {
		const char *key;
		unsigned int n;
		bool known;
	} members[] = {
		{ "total", n->total, s },
		{ "free", n->free, seen },
		{ "blocked", n->blocked, seen },
		{ "allocated", n->allocated, seen },
		{ "unavailable", n->unavailable, seen },
		{ "unknown", n->unknown, s },
		{ "ours", n->ours, s },
	};

	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		set(o, members[i].key, members[i].known ? json_integer(members[i].n) : json_null());
}

static json_t *types_json(const struct node_sums *sums)
{
	json_t *a = json_array();

	for (size_t i = 0; i < sums->n_types; i++) {
		json_t *o = json_object();

		set(o, "type", text_json(sums->types[i].type));
		set(o, "nodes", json_integer(sums->types[i].sum.nodes));
		set_sum(o, &sums->types[i].sum);
		(void)json_array_append_new(a, o);
	}
	return a;
}

static json_t *rows_json(const struct nodes_shown *shown, const struct nodes_section *s)
{
	json_t *a = json_array();

	for (size_t i = 0; i < s->inventory.nodes.n; i++) {
		const struct engine_node *n = &s->inventory.nodes.all[i];
		struct node_sum row = node_sums_row(n, s->ours[i]);
		json_t *o;

		if (is_left_out(shown, &row))
			continue;
		o = json_object();
		set(o, "name", json_new_text(n->name));
		set(o, "type", text_json(n->type));
		set_sum(o, &row);
		set(o, "usable", json_boolean(n->usable));
		set(o, "why", text_json(n->why));
		(void)json_array_append_new(a, o);
	}
	return a;
}

static json_t *devices_json(const struct nodes_shown *shown, const struct node_devices *devices)
{
	json_t *a = json_array();

	for (size_t i = 0; i < devices->n; i++) {
		const struct node_device *d = &devices->all[i];
		json_t *o;

		if (shown->only_free && d->state != NODE_DEVICE_FREE)
			continue;
		o = json_object();
		set(o, "gpu", json_integer(d->gpu));
		set(o, "mig", d->mig >= 0 ? json_integer(d->mig) : json_null());
		set(o, "uuid", text_json(d->uuid));
		set(o, "type", text_json(d->name));
		set(o, "state", json_string(node_device_state_name(d->state)));
		set(o, "text", text_json(d->text));
		(void)json_array_append_new(a, o);
	}
	return a;
}

static json_t *settings_json(const struct text_list *settings)
{
	json_t *a = json_array();

	for (size_t i = 0; i < settings->n; i++)
		(void)json_array_append_new(a, json_new_text(settings->texts[i]));
	return a;
}

static json_t *section_json(const struct nodes_shown *shown, const struct nodes_section *s)
{
	const struct inventory *inv = &s->inventory;
	char time[CLOCK_TEXT_MAX];
	struct node_sums sums;
	json_t *o = json_object();

	node_sums_of(&inv->nodes, s->ours, &sums);
	set(o, "engine", json_string(s->engine->name));
	set(o, "settings", settings_json(&s->settings));
	set(o, "asked",
	    inv->known && inv->asked_ns ? json_string(clock_format_iso(inv->asked_ns, time))
					: json_null());
	set(o, "age_s", inv->known ? json_real((double)inv->age_ms / 1e3) : json_null());
	set(o, "cached", json_boolean(inv->cached));
	set(o, "error", s->r < 0 ? json_new_text(s->e.text) : json_null());
	set(o, "total_nodes", inv->known ? json_integer(sums.all.nodes) : json_null());
	set_sum(o, inv->known ? &sums.all : NULL);
	set(o, "types", types_json(&sums));
	set(o, "nodes", rows_json(shown, s));
	set(o, "devices", is_machine(s) ? devices_json(shown, &s->devices) : json_null());
	node_sums_clear(&sums);
	return o;
}

static json_t *pool_json(const struct pool_shown *p)
{
	struct ours_count n = ours_count(p);
	json_t *o = json_object(), *jobs = json_array();

	set(o, "instance", json_string(p->instance));
	set(o, "pool", json_string(p->name));
	set(o, "engine", json_string(p->pool.engine));
	set(o, "running", json_integer(n.running));
	set(o, "pending", json_integer(n.pending));
	set(o, "running_gpus", json_integer(n.running_gpus));
	set(o, "pending_gpus", json_integer(n.pending_gpus));
	for (size_t i = 0; i < p->jobs.n; i++) {
		const struct pool_job *job = &p->jobs.all[i];

		if (job->phase != POOL_JOB_ENDED)
			(void)json_array_append_new(
				jobs,
				json_pack("{s:s, s:s, s:s, s:i, s:o, s:b}", "token", job->token,
					  "id", job->id, "state", engine_job_state_name(job->state),
					  "gpus", (int)job->gpus, "node", text_json(job->node),
					  "runs", ours_job_runs(job)));
	}
	set(o, "jobs", jobs);
	return o;
}

json_t *nodes_json(const struct nodes_shown *shown)
{
	const struct ours *ours = shown->ours;
	json_t *o = json_object(), *engines = json_array(), *pools = json_array();

	for (size_t i = 0; i < shown->n; i++)
		(void)json_array_append_new(engines, section_json(shown, &shown->sections[i]));
	for (size_t i = 0; i < ours->pools.n; i++)
		(void)json_array_append_new(pools, pool_json(&ours->pools.all[i]));
	set(o, "instance", json_string(ours->instance));
	set(o, "active_tasks",
	    ours->running_known ? json_integer((json_int_t)ours->running) : json_null());
	set(o, "engines", engines);
	set(o, "pools", pools);
	return o;
}
