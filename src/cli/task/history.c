/* SPDX-License-Identifier: MIT */

/*
 * What a task used is the time of its attempts, times the devices that each had, as the records of
 * their ends say. A record without a beginning (the attempt never came to run, or when it was
 * interrupted is not known) counts nothing. A batch counts with what has ended of it, be it over or
 * not.
 *
 * Nearly all of the time goes into opening files, each of which is a journey where they are on
 * another machine: that is done by some threads, which share nothing but the number of the next
 * row.
 */

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/instance.h"
#include "cli/table.h"
#include "cli/task/ledger.h"
#include "cli/task/view.h"
#include "spool/files.h"
#include "spool/instance.h"
#include "spool/usage.h"

static const struct opt history_opts[] = {
	{ .name = "since",
	  .spec = { VALUE_STRING },
	  .arg = "WHEN",
	  .def = "1d",
	  .help = "what ended in that time (7d, 12h), or since then: 08:00, today, yesterday, "
		  "2026-11-20, '2026-11-20 08:00'" },
	{ .name = "until",
	  .spec = { VALUE_STRING },
	  .arg = "WHEN",
	  .help = "and before that; written as --since (default: now)" },
	{ .name = "ledger",
	  .spec = { VALUE_FLAG },
	  .help = "GPU-hours used, empty, held and yielded, and energy, by task, lane and user" },
	{ .name = "csv", .spec = { VALUE_FLAG }, .help = "with --ledger: as CSV" },
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
	{ .name = "all",
	  .short_name = 'a',
	  .spec = { VALUE_FLAG },
	  .help = "every task and every name, however many there are" },
	{ 0 },
};

/* More than these are no overview. */
#define TASKS_SHOWN 100
#define SUMS_SHOWN  20

#define READERS	   8   /* threads, at most, ... */
#define READ_CHUNK 250 /* and so many rows that one takes at once */
#define DIR_MAX	   24  /* "done/2026-11-21" */

struct row {
	struct task_name name; /* its agent is not looked at */
	char path_dir[DIR_MAX];
	enum spool_dir dir;
	uint64_t ended_ns;
	uid_t owner; /* of its file, with --ledger: who submitted it */
	struct usage used;
};

struct history {
	const struct cmd_ctx *ctx;
	const struct spool *sp;
	uint64_t since_ns, until_ns;
	bool ledger;	/* attempts count, and not tasks */
	size_t unknown; /* with all GPUs of a node, whose number was not recorded */
	size_t n;
	struct row **rows;
	_Atomic size_t next; /* of them, to be read */
};

/* ---- what the records say ---- */

static void add_line(void *data, const char *line, size_t len)
{
	json_t *o;

	if (!str_has_prefix(line, "{\"event\"") || str_has_prefix(line, "{\"event\":\"claim\"") ||
	    str_has_prefix(line, "{\"event\":\"start\""))
		return;
	o = json_loadb(line, len, 0, NULL);
	usage_add(data, o);
	json_decref(o);
}

static void add_file(struct usage *u, const struct spool *sp, const char *path)
{
	off_t offset = 0;

	(void)lines_read(sp, path, &offset, add_line, u, NULL);
}

struct journals {
	const struct spool *sp;
	const char *dir;
	struct usage *used;
};

static int add_journal(void *data, const char *file, unsigned char type)
{
	struct journals *j = data;
	char path[SPOOL_PATH_MAX];

	add_file(j->used, j->sp, str_print(path, sizeof(path), "%.60s/%s", j->dir, file));
	return 0;
}

static void read_used(const struct spool *sp, const struct task_name *n, const char *path,
		      struct usage *u)
{
	char dir[SPOOL_PATH_MAX];
	struct journals j = { .sp = sp, .dir = dir, .used = u };

	if (!n->count) {
		add_file(u, sp, path);
		return;
	}
	(void)str_print(dir, sizeof(dir), "ends/%" PRIu64, n->id);
	(void)spool_each(sp, dir, add_journal, &j, NULL);
}

/* ---- rows ---- */

static void add_row(struct history *h, const struct task_name *n, const char *dir)
{
	struct row *row = xmalloc(sizeof(*row));

	*row = (struct row){ .name = *n,
			     .dir = spool_dir_of(dir),
			     .used = { .asked = n->gpus,
				       .since_ns = n->ended_s && !h->ledger ? 0 : h->since_ns,
				       .until_ns = h->ledger ? h->until_ns : 0 } };
	(void)str_copy(row->path_dir, sizeof(row->path_dir), dir);
	h->rows = xgrow(h->rows, h->n, sizeof(*h->rows));
	h->rows[h->n++] = row;
}

static double hours_of(const struct row *row)
{
	return row->used.gpu_seconds / 3600;
}

/* It had all GPUs of a node, and how many that are was not recorded. */
static bool has_no_number(const struct row *row)
{
	return row->used.unknown || (row->name.gpus == SPEC_ALL && !row->used.gpus);
}

static uint64_t gpus_of(const struct row *row)
{
	return row->used.gpus ? row->used.gpus : row->name.gpus;
}

static int add_task(void *data, const struct task_name *n, const char *dir)
{
	struct history *h = data;
	const char *lane = opts_text(h->ctx->opts, "lane"), *name = opts_text(h->ctx->opts, "name");

	if (n->element ||
	    (n->ended_s ? n->ended_s * NS_PER_S < h->since_ns ||
				  (!h->ledger && n->ended_s * NS_PER_S >= h->until_ns)
			: !n->count && !(h->ledger && n->epoch)) ||
	    (lane && strcmp(lane, n->lane) != 0) || (name && !str_has_prefix(n->name, name)))
		return 0;
	add_row(h, n, dir);
	return 0;
}

static void *read_rows(void *arg)
{
	struct history *h = arg;
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct stat st;
	size_t i;

	while ((i = atomic_fetch_add(&h->next, READ_CHUNK)) < h->n)
		for (size_t end = i + READ_CHUNK; i < end && i < h->n; i++) {
			struct row *row = h->rows[i];

			(void)str_print(path, sizeof(path), "%s/%s", row->path_dir,
					name_format(&row->name, file));
			read_used(h->sp, &row->name, path, &row->used);
			if (h->ledger && spool_stat(h->sp, path, &st) == 0)
				row->owner = st.st_uid;
		}
	return NULL;
}

/* A thread that cannot be had is one less. */
static void read_all_rows(struct history *h)
{
	size_t n = 0, wanted = h->n / READ_CHUNK;
	pthread_t threads[READERS];

	while (n < READERS - 1 && n < wanted &&
	       pthread_create(&threads[n], NULL, read_rows, h) == 0)
		n++;
	(void)read_rows(h);
	while (n)
		(void)pthread_join(threads[--n], NULL);
}

/* Of a batch that is not over something may have ended, or nothing. */
static void keep_ended(struct history *h)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->n; i++) {
		struct row *row = h->rows[i];
		uint64_t ended_s = row->name.ended_s;

		row->ended_ns = ended_s ? ended_s * NS_PER_S : row->used.ended_ns;
		h->unknown += row->used.unknown;
		if (row->ended_ns)
			h->rows[kept++] = row;
		else
			free(row);
	}
	h->n = kept;
}

static int collect(struct history *h, struct err *e)
{
	static const enum spool_dir dirs[] = { SPOOL_RUNNING, SPOOL_PENDING, SPOOL_FAILED,
					       SPOOL_CANCELLED, SPOOL_DONE };
	size_t from = h->ledger ? 0 : 1; /* what runs may have had attempts before */
	int r = scan_dirs(h->sp, dirs + from, ARRAY_LEN(dirs) - from, add_task, h, e);

	if (r == 0) {
		read_all_rows(h);
		keep_ended(h);
	}
	return r;
}

/* In the order in which they ended. */
static int by_end(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;

	if (x->ended_ns != y->ended_ns)
		return x->ended_ns < y->ended_ns ? -1 : 1;
	return (x->name.id > y->name.id) - (x->name.id < y->name.id);
}

/* ---- sums ---- */

struct sum {
	struct hnode node;
	char *key;
	double hours;
	size_t n; /* tasks */
};

struct sums {
	struct hmap map;
	size_t n;
	struct sum **all;
};

static void sums_add(struct sums *s, const char *key, double hours)
{
	uint64_t hash = hash_text(0, key);
	struct hnode *node = hmap_find(&s->map, hash);
	struct sum *sum;

	while (node && strcmp(((struct sum *)node)->key, key) != 0)
		node = hmap_same(node);
	sum = (struct sum *)node;
	if (!sum) {
		sum = xcalloc(1, sizeof(*sum));
		sum->key = xstrdup(key);
		hmap_insert(&s->map, &sum->node, hash);
		s->all = xgrow(s->all, s->n, sizeof(*s->all));
		s->all[s->n++] = sum;
	}
	sum->hours += hours;
	sum->n++;
}

static void sums_clear(struct sums *s)
{
	hmap_clear(&s->map);
	for (size_t i = 0; i < s->n; i++) {
		free(s->all[i]->key);
		free(s->all[i]);
	}
	free(s->all);
}

static const char *lane_of(const struct row *row)
{
	return row->name.lane[0] ? row->name.lane : "-";
}

static const char *name_of(const struct row *row)
{
	return row->name.name;
}

static void sum_up(const struct history *h, const char *(*key)(const struct row *row),
		   struct sums *ret)
{
	for (size_t i = 0; i < h->n; i++)
		sums_add(ret, key(h->rows[i]), hours_of(h->rows[i]));
}

/* "seed_12_lr_3" -> "seed_*_lr_*": tasks that differ in their numbers are one kind. */
static char *kind_of(const char *name, char kind[SPEC_NAME_MAX + 1])
{
	size_t n = 0;

	while (*name) {
		size_t digits = strspn(name, "0123456789");

		kind[n++] = digits ? '*' : *name;
		name += digits ? digits : 1;
	}
	kind[n] = '\0';
	return kind;
}

static int by_hours(const void *a, const void *b)
{
	const struct sum *x = *(struct sum *const *)a, *y = *(struct sum *const *)b;

	if (x->hours != y->hours)
		return (x->hours < y->hours) - (x->hours > y->hours);
	return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->key, y->key);
}

/* ---- for scripts ---- */

static json_t *row_json(const struct row *row)
{
	static const enum taskview_member members[] = { VIEW_ID, VIEW_NAME, VIEW_STATE, VIEW_LANE,
							VIEW_N_ELEMENTS };
	const struct task_view v = { .name = row->name,
				     .state = taskstate_of(&row->name, row->dir) };
	const struct usage *u = &row->used;
	char when[CLOCK_TEXT_MAX];
	json_t *o = taskview_json(&v, members, ARRAY_LEN(members));
	json_t *used = json_pack(
		"{s:s, s:I, s:f, s:o, s:o}", "ended", clock_format_iso(row->ended_ns, when), "exit",
		(json_int_t)row->name.exit, "ran_s", u->seconds, "gpus",
		has_no_number(row) ? json_string("all") : json_integer((json_int_t)gpus_of(row)),
		"gpu_hours", u->unknown ? json_null() : json_real(hours_of(row)));

	(void)json_object_update(o, used);
	json_decref(used);
	if (u->peak_bytes) {
		(void)json_object_set_new(o, "gpu_peak_bytes",
					  json_integer((json_int_t)u->peak_bytes));
		(void)json_object_set_new(
			o, "gpu_utilisation",
			json_real(u->watched > 0 ? 100 * u->busy / u->watched : 0));
	}
	return o;
}

static json_t *sums_json(const struct history *h, const char *(*key)(const struct row *row))
{
	json_t *o = json_object();
	struct sums sums = { .n = 0 };

	sum_up(h, key, &sums);
	for (size_t i = 0; i < sums.n; i++)
		(void)json_object_set_new(o, sums.all[i]->key, json_real(sums.all[i]->hours));
	sums_clear(&sums);
	return o;
}

static void print_as_json(const struct history *h)
{
	json_t *tasks = json_array();

	for (size_t i = 0; i < h->n; i++)
		(void)json_array_append_new(tasks, row_json(h->rows[i]));
	cmd_print_json(json_pack("{s:o, s:o, s:o}", "tasks", tasks, "gpu_hours_by_lane",
				 sums_json(h, lane_of), "gpu_hours_by_name",
				 sums_json(h, name_of)));
}

/* ---- for people ---- */

#define HOURS_MAX 32

/* Two digits that say something, also of seconds: 0.01 GPU-hours are 36 of them. */
static char *format_hours(double hours, char buf[HOURS_MAX])
{
	if (hours > 0 && hours < 0.0001)
		return str_print(buf, HOURS_MAX, "<0.0001");
	return str_print(buf, HOURS_MAX, "%.*f",
			 hours <= 0	 ? 0
			 : hours < 0.001 ? 5
			 : hours < 0.01	 ? 4
			 : hours < 0.1	 ? 3
					 : 2,
			 hours);
}

static void print_task(struct table *t, const struct row *row)
{
	const struct usage *u = &row->used;
	uint64_t ran_ms = (uint64_t)(u->seconds * MS_PER_S);
	char id[24], n[24], used[HOURS_MAX], ran[UNIT_TEXT_MAX], iso[CLOCK_TEXT_MAX], when[24],
		most[UNIT_TEXT_MAX], util[16];

	(void)str_print(id, sizeof(id), "%" PRIu64, row->name.id);
	(void)str_print(n, sizeof(n), "%" PRIu64, gpus_of(row));
	(void)str_print(util, sizeof(util), "%.0f%%",
			u->watched > 0 ? 100 * u->busy / u->watched : 0);
	(void)clock_format_iso(row->ended_ns, iso);
	(void)str_print(when, sizeof(when), "%.10s %.8s", iso, iso + 11);
	table_add(t, TABLE_PLAIN, id, taskstate_name(taskstate_of(&row->name, row->dir)),
		  has_no_number(row) ? "all" : n, unit_format_duration(ran_ms, ran),
		  u->unknown ? "?" : format_hours(hours_of(row), used),
		  u->peak_bytes ? unit_format_gib(u->peak_bytes, most) : "-",
		  u->peak_bytes ? util : "-", lane_of(row), row->name.name, when);
}

static void print_tasks(const struct history *h, size_t from)
{
	static const struct table_column columns[] = { { "ID", true },
						       { "STATE" },
						       { "GPUS", true, 2 },
						       { "RAN", true },
						       { "GPU-H", true },
						       { "PEAK", true, 3 },
						       { "UTIL", true, 4 },
						       { "LANE", false, 1, 6 },
						       { "NAME", .cut = 8 },
						       { "ENDED" },
						       { 0 } };
	struct table *t = table_new(columns);

	for (size_t i = from; i < h->n; i++)
		print_task(t, h->rows[i]);
	table_print(t, stdout);
	(void)table_free(t);
}

static void print_sum(struct table *t, double hours, size_t n, const char *key)
{
	char used[HOURS_MAX], tasks[24];

	(void)str_print(tasks, sizeof(tasks), "%zu", n);
	table_add(t, TABLE_PLAIN, format_hours(hours, used), tasks, key);
}

/* The largest, and the others in one line. */
static void print_sums(const char *title, struct sums *sums, size_t most)
{
	struct table_column columns[] = { { "GPU-H", true }, { "TASKS", true }, { title }, { 0 } };
	size_t shown = sums->n <= most + 1 ? sums->n : most, n = 0;
	struct table *t = table_new(columns);
	double rest = 0;

	qsort(sums->all, sums->n, sizeof(*sums->all), by_hours);
	for (size_t i = 0; i < sums->n; i++)
		if (i < shown) {
			print_sum(t, sums->all[i]->hours, sums->all[i]->n, sums->all[i]->key);
		} else {
			rest += sums->all[i]->hours;
			n += sums->all[i]->n;
		}
	if (shown < sums->n) {
		cleanup_free char *others = xasprintf("(%zu others)", sums->n - shown);

		print_sum(t, rest, n, others);
	}
	(void)putchar('\n');
	table_print(t, stdout);
	(void)table_free(t);
	sums_clear(sums);
}

static void print_by_name(const struct history *h, size_t most)
{
	struct sums names = { .n = 0 }, kinds = { .n = 0 };
	char kind[SPEC_NAME_MAX + 1];

	sum_up(h, name_of, &names);
	if (names.n <= most + 1) {
		print_sums("NAME", &names, most);
		return;
	}
	sums_clear(&names);
	for (size_t i = 0; i < h->n; i++)
		sums_add(&kinds, kind_of(h->rows[i]->name.name, kind), hours_of(h->rows[i]));
	print_sums("NAME (* a number)", &kinds, most);
}

static void print_total(const struct history *h, size_t hidden)
{
	size_t n[SPOOL_DIR_MAX] = { 0 };
	double hours = 0;
	char used[HOURS_MAX];

	for (size_t i = 0; i < h->n; i++) {
		n[h->rows[i]->dir]++;
		hours += hours_of(h->rows[i]);
	}
	printf("\n%zu task%s: %zu done, %zu failed, %zu cancelled", h->n, h->n == 1 ? "" : "s",
	       n[SPOOL_DONE], n[SPOOL_FAILED], n[SPOOL_CANCELLED]);
	if (n[SPOOL_PENDING])
		printf(", %zu not over", n[SPOOL_PENDING]);
	printf("; %s GPU-hours\n", format_hours(hours, used));
	if (hidden)
		printf("%zu that ended earlier are not shown one by one; --all shows everything, "
		       "--since, --lane and --name what is meant\n",
		       hidden);
}

static void print_all(const struct history *h)
{
	bool all = opts_flag(h->ctx->opts, "all");
	size_t hidden = all || h->n <= TASKS_SHOWN ? 0 : h->n - TASKS_SHOWN;
	struct sums lanes = { .n = 0 };

	if (!h->n) {
		printf("Nothing of instance \"%s\"%s has ended in that time.\n",
		       spool_instance(h->sp),
		       opts_given(h->ctx->opts, "lane") || opts_given(h->ctx->opts, "name")
			       ? " that is meant"
			       : "");
		return;
	}
	print_tasks(h, hidden);
	sum_up(h, lane_of, &lanes);
	print_sums("LANE", &lanes, all ? SIZE_MAX - 1 : SUMS_SHOWN);
	print_by_name(h, all ? SIZE_MAX - 1 : SUMS_SHOWN);
	print_total(h, hidden);
	if (h->unknown)
		printf("\n%zu had all GPUs of a node; how many is not recorded, and not in the "
		       "sums.\n",
		       h->unknown);
}

/* ---- the ledger ---- */

/* A user who is asked for again and again. */
struct owner {
	uid_t uid;
	char name[64];
};

static const char *owner_name(struct owner *last, uid_t uid)
{
	if (!last->name[0] || last->uid != uid)
		(void)user_name(uid, last->name, sizeof(last->name));
	last->uid = uid;
	return last->name;
}

static int print_ledger(const struct history *h, struct err *e)
{
	struct ledger *l = ledger_new(h->ctx, h->since_ns, h->until_ns);
	struct owner last = { .uid = 0 };
	bool some = opts_given(h->ctx->opts, "lane") || opts_given(h->ctx->opts, "name");
	int r;

	for (size_t i = 0; i < h->n; i++) {
		const struct row *row = h->rows[i];

		if (row->used.gpu_seconds > 0 || row->used.unknown)
			ledger_add(l, row->name.id, row->name.name, row->name.lane,
				   owner_name(&last, row->owner), &row->used);
	}
	r = some ? 0 : ledger_read_meters(l, e); /* what is held is no lane's */
	if (r == 0)
		ledger_print(l);
	(void)ledger_free(l);
	return r;
}

/* ---- the command ---- */

static int parse_moment(const char *option, const char *text, uint64_t now, uint64_t *ret_ns,
			struct err *e)
{
	int r = unit_parse_past(text, now, ret_ns, e);

	return r < 0 ? err_wrap(e, "--%s", option) : 0;
}

static int take_options(struct history *h, struct err *e)
{
	const char *since = opts_text(h->ctx->opts, "since"),
		   *until = opts_text(h->ctx->opts, "until");
	uint64_t now = clock_wall_ns();
	int r = parse_moment("since", since ? since : "1d", now, &h->since_ns, e);

	h->until_ns = now;
	h->ledger = opts_flag(h->ctx->opts, "ledger");
	if (r == 0 && until)
		r = parse_moment("until", until, now, &h->until_ns, e);
	if (r == 0 && h->until_ns <= h->since_ns)
		r = err_set(e, -EINVAL, "--until is not after --since");
	if (r == 0 && opts_flag(h->ctx->opts, "csv") && !h->ledger)
		r = err_set(e, -EINVAL, "--csv is for --ledger");
	if (r == 0 && opts_flag(h->ctx->opts, "csv") && opts_flag(h->ctx->opts, "json"))
		r = err_set(e, -EINVAL, "give one of --csv and --json");
	return r;
}

static int run_history(const struct cmd_ctx *ctx, struct err *e)
{
	struct history h = { .ctx = ctx };
	struct spool *sp = NULL;
	int r;

	if (take_options(&h, e) < 0)
		return CMD_USAGE;
	r = instance_open_if_there(ctx, SPOOL_LOOK, &sp, e);
	h.sp = sp;
	if (r == 0 && sp)
		r = collect(&h, e);
	if (r == 0 && h.n)
		qsort(h.rows, h.n, sizeof(*h.rows), by_end);
	if (r == 0 && h.ledger)
		r = print_ledger(&h, e);
	else if (r == 0 && opts_flag(ctx->opts, "json"))
		print_as_json(&h);
	else if (r == 0 && sp)
		print_all(&h);
	for (size_t i = 0; i < h.n; i++)
		free(h.rows[i]);
	free(h.rows);
	sp = spool_close(sp);
	return r;
}

static const struct cmd_example history_examples[] = {
	{ "tenure history", "what ended in the last day, with its GPU-hours" },
	{ "tenure history --since 2026-11-01 -l week", "a lane, since that day" },
	{ "tenure history --ledger --since 30d --csv > month.csv",
	  "GPU-hours and energy of a month, for a table" },
	{ "tenure history --since 7d --json | jq .gpu_hours_by_lane", "a week, for scripts" },
	{ 0 },
};

const struct cmd cmd_history = {
	.name = "history",
	.group = QUEUE_GROUP,
	.summary = "what has ended, and how many GPU-hours it took",
	.description =
		"GPU-hours are the time of all attempts, times the GPUs that each had, by lane and by "
		"name. Of very many tasks the last ones are shown one by one, and names that differ "
		"in numbers are put together. PEAK is the most memory that a task used on all its GPUs together, UTIL their "
		"mean utilisation since it was first seen on them. Of an array or another batch that is not over, what has ended of "
		"it is counted.\n\n"
		"With --ledger: USED is what tasks had, by attempts that ended in that time; EMPTY of it without a process of the "
		"task, or with nothing computed; HELD what was held for nobody yet, and YIELDED what was let go for "
		"somebody and is not held again yet, as agents of this user have noted it, every ten minutes and at "
		"their end; KWH what the card's counter says for each. What is not known is ?, and in no sum.",
	.examples = history_examples,
	.opts = history_opts,
	.flags = CMD_JSON,
	.setting_groups = SETTING_GROUP_QUEUE,
	.run = run_history,
};
