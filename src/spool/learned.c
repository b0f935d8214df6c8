/* SPDX-License-Identifier: MIT */

/*
 * The runs of a name lie in the order in which they ended, the newest last. A run that is not in
 * the file as it was read last is unsaved; when there is one, the file is written.
 *
 * The memory of the next run. Of those that ended well on as many GPUs (on another number a model
 * is cut otherwise) the highest peak counts, with a tenth more. One that ran out of memory needed
 * more than it had, be that what it asked for or what it was seen to use; how much more nobody
 * knows, so a quarter is added, each time anew until one ends well. It is forgotten when
 * OOM_FORGOTTEN runs have ended well since: by then their own peaks say it. Nothing is asked for
 * that no GPU has on which such a run was, since the task would wait for ever.
 */

#include "spool/learned.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/hash.h"
#include "base/hmap.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/textlist.h"
#include "base/units.h"
#include "spool/ident.h"
#include "spool/instance.h"
#include "spool/record.h"
#include "spool/scan.h"
#include "spool/task_spec.h"

#define FILE_MAX      (8UL << 20)
#define OOM_FORGOTTEN 10
#define FEW	      5 /* runs: their range says little of the next one */

struct run {
	struct learned_run r;
	bool saved;
};

struct known {
	struct hnode hnode;
	struct known *next; /* all, in no order */
	char *name;
	size_t n;
	struct run *runs;
};

struct learned {
	struct hmap names;
	struct known *all;
	size_t n; /* runs */
	uint64_t version;
	bool unsaved;
	/* The file as it was seen last. */
	struct stat seen;
	bool read;
};

static const char *const hows[] = { [LEARNED_DONE] = "done", [LEARNED_OOM] = "oom" };
_Static_assert(ARRAY_LEN(hows) == LEARNED_HOW_MAX, "a word for each");

struct learned *learned_new(void)
{
	return xcalloc(1, sizeof(struct learned));
}

static void free_known(struct known *k)
{
	free(k->runs);
	free(k->name);
	free(k);
}

struct learned *learned_free(struct learned *l)
{
	if (!l)
		return NULL;
	hmap_clear(&l->names);
	while (l->all) {
		struct known *k = l->all;

		l->all = k->next;
		free_known(k);
	}
	free(l);
	return NULL;
}

uint64_t learned_version(const struct learned *l)
{
	return l->version;
}

static struct known *find(const struct learned *l, const char *name)
{
	for (struct hnode *n = hmap_find(&l->names, hash_text(0, name)); n; n = hmap_same(n)) {
		struct known *k = (struct known *)n;

		if (!strcmp(k->name, name))
			return k;
	}
	return NULL;
}

static struct known *get(struct learned *l, const char *name)
{
	struct known *k = find(l, name);

	if (k)
		return k;
	k = xcalloc(1, sizeof(*k));
	k->name = xstrdup(name);
	k->next = l->all;
	l->all = k;
	hmap_insert(&l->names, &k->hnode, hash_text(0, name));
	return k;
}

static uint64_t whole_second(uint64_t ns)
{
	return ns / NS_PER_S * NS_PER_S;
}

static int cmp_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int cmp_runs(const struct learned_run *a, const struct learned_run *b)
{
	int d = cmp_u64(a->ended_ns, b->ended_ns);

	if (d == 0)
		d = cmp_u64(a->id, b->id);
	if (d == 0)
		d = cmp_u64(a->element, b->element);
	return d ? d : cmp_u64(a->epoch, b->epoch);
}

static bool is_same(const struct learned_run *a, const struct learned_run *b)
{
	return a->id == b->id && a->element == b->element && a->epoch == b->epoch;
}

static void drop_at(struct learned *l, struct known *k, size_t i)
{
	k->n--;
	l->n--;
	(void)memmove(&k->runs[i], &k->runs[i + 1], (k->n - i) * sizeof(*k->runs));
}

static void drop_name(struct learned *l, struct known *k)
{
	struct known **at = &l->all;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
	hmap_remove(&l->names, &k->hnode);
	free_known(k);
}

/* One that is as old as the oldest, or older, is not taken: it would go at once. */
static bool make_room(struct learned *l, struct known *k, const struct learned_run *run)
{
	if (k->n < LEARNED_RUNS)
		return true;
	if (cmp_runs(run, &k->runs[0].r) < 0)
		return false;
	drop_at(l, k, 0);
	return true;
}

static bool insert(struct learned *l, struct known *k, const struct learned_run *run, bool saved)
{
	size_t at;

	for (size_t i = 0; i < k->n; i++)
		if (is_same(&k->runs[i].r, run)) {
			k->runs[i].saved = k->runs[i].saved || saved;
			return false;
		}
	if (!make_room(l, k, run))
		return false;
	k->runs = xgrow(k->runs, k->n, sizeof(*k->runs));
	for (at = k->n; at > 0 && cmp_runs(&k->runs[at - 1].r, run) > 0; at--)
		k->runs[at] = k->runs[at - 1];
	k->runs[at] = (struct run){ *run, saved };
	k->n++;
	l->n++;
	l->version++;
	return true;
}

/* Names of which nothing ran for the longest time go first. */
static void trim(struct learned *l)
{
	while (l->n > LEARNED_ALL) {
		struct known *oldest = l->all;

		for (struct known *k = l->all; k; k = k->next)
			if (cmp_runs(&k->runs[k->n - 1].r, &oldest->runs[oldest->n - 1].r) < 0)
				oldest = k;
		l->n -= oldest->n;
		drop_name(l, oldest);
		l->version++;
	}
}

static bool take(struct learned *l, const char *name, const struct learned_run *run, bool saved)
{
	struct known *k = get(l, name);
	bool is_new = insert(l, k, run, saved);

	if (!k->n)
		drop_name(l, k);
	return is_new;
}

void learned_add(struct learned *l, const char *name, const struct learned_run *run)
{
	struct learned_run r = *run;

	r.ended_ns = whole_second(r.ended_ns);
	l->unsaved = take(l, name, &r, false) || l->unsaved;
	trim(l);
}

/* ---- the file ---- */

static json_t *run_json(const struct learned_run *r)
{
	json_t *o = json_pack("{s:I}", "id", (json_int_t)r->id);
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "element", r->element },
		{ "epoch", r->epoch },
		{ "gpus", r->gpus == SPEC_ALL ? 0 : r->gpus },
		{ "peak", r->peak_bytes },
		{ "asked", r->asked_bytes },
		{ "room", r->room_bytes },
		{ "time", r->ended_ns / NS_PER_S },
	};

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (numbers[i].value)
			(void)json_object_set_new(o, numbers[i].key,
						  json_integer((json_int_t)numbers[i].value));
	if (r->gpus == SPEC_ALL)
		(void)json_object_set_new(o, "gpus", json_string("all"));
	if (r->ran_ms)
		(void)json_object_set_new(o, "ran_s", json_real((double)r->ran_ms / MS_PER_S));
	if (r->how != LEARNED_DONE)
		(void)json_object_set_new(o, "how", json_string(hows[r->how]));
	return o;
}

static bool how_from_json(const json_t *o, enum learned_how *ret)
{
	const char *word = json_get_str(o, "how");

	*ret = LEARNED_DONE;
	for (unsigned int i = 0; word && i < LEARNED_HOW_MAX; i++)
		if (!strcmp(word, hows[i])) {
			*ret = (enum learned_how)i;
			return true;
		}
	return !word;
}

static bool run_from_json(const json_t *o, struct learned_run *ret)
{
	double ran_s = json_get_num(o, "ran_s");

	*ret = (struct learned_run){ .id = json_get_u64(o, "id"),
				     .element = json_get_u64(o, "element"),
				     .epoch = json_get_u64(o, "epoch"),
				     .ended_ns =
					     whole_second(record_ns(json_object_get(o, "time"))),
				     .peak_bytes = json_get_u64(o, "peak"),
				     .asked_bytes = json_get_u64(o, "asked"),
				     .room_bytes = json_get_u64(o, "room") };
	ret->gpus = json_is_string(json_object_get(o, "gpus"))
			    ? SPEC_ALL
			    : json_get_small(o, "gpus", SPEC_GPUS_MAX);
	if (ran_s > 0 && ran_s < 1e10)
		ret->ran_ms = (uint64_t)(ran_s * MS_PER_S + 0.5);
	return how_from_json(o, &ret->how) && ret->id && ret->ended_ns;
}

static char *name_line(const struct known *k)
{
	json_t *runs = json_array(), *o;
	char *text;

	for (size_t i = 0; i < k->n; i++)
		(void)json_array_append_new(runs, run_json(&k->runs[i].r));
	o = json_pack("{s:s, s:o}", "name", k->name, "runs", runs);
	text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(o);
	return text;
}

char *learned_text(const struct learned *l)
{
	struct strbuf b = STRBUF_INIT;

	for (const struct known *k = l->all; k; k = k->next) {
		cleanup_free char *line = name_line(k);

		if (line) /* a name that is not UTF-8 is none */
			strbuf_addf(&b, "%s\n", line);
	}
	return strbuf_take(&b);
}

static void parse_line(struct learned *l, const char *line, size_t len)
{
	json_t *o = json_loadb(line, len, 0, NULL), *one;
	const char *name = json_get_str(o, "name");
	struct learned_run run;
	size_t i;

	if (name && *name && strlen(name) <= SPEC_NAME_MAX)
		json_array_foreach(json_object_get(o, "runs"), i,
				   one) if (run_from_json(one, &run))(void)
			take(l, name, &run, true);
	json_decref(o);
}

void learned_parse(struct learned *l, const char *text, size_t len)
{
	const char *end = text + len;

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((nl ? nl : end) - text);

		if (n)
			parse_line(l, text, n);
		text += n + 1;
	}
	trim(l);
}

static bool is_as_seen(const struct learned *l, const struct stat *st)
{
	return l->read && st->st_ino == l->seen.st_ino && st->st_size == l->seen.st_size &&
	       st->st_mtim.tv_sec == l->seen.st_mtim.tv_sec &&
	       st->st_mtim.tv_nsec == l->seen.st_mtim.tv_nsec;
}

/* What is in the file is saved, and nothing else is. */
static void note_saved(struct learned *l, bool saved)
{
	for (struct known *k = l->all; k; k = k->next)
		for (size_t i = 0; i < k->n; i++)
			k->runs[i].saved = saved;
}

static bool has_unsaved(const struct learned *l)
{
	for (const struct known *k = l->all; k; k = k->next)
		for (size_t i = 0; i < k->n; i++)
			if (!k->runs[i].saved)
				return true;
	return false;
}

int learned_load(struct learned *l, const struct spool *sp, struct err *e)
{
	cleanup_free char *text = NULL;
	struct stat st;
	size_t len;
	int r = spool_stat(sp, LEARNED_FILE, &st);

	if (r == -ENOENT) {
		note_saved(l, false);
		l->unsaved = l->n > 0;
		return 0;
	}
	if (r == 0 && is_as_seen(l, &st))
		return 0;
	r = spool_read(sp, LEARNED_FILE, FILE_MAX, &text, &len, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	note_saved(l, false);
	learned_parse(l, text, len);
	l->unsaved = has_unsaved(l);
	l->seen = st;
	l->read = true;
	return 0;
}

static int write_file(struct learned *l, const struct spool *sp, struct err *e)
{
	cleanup_free char *text = learned_text(l);
	int r = spool_replace(sp, LEARNED_FILE, text, strlen(text), e);

	if (r < 0)
		return r;
	note_saved(l, true);
	l->unsaved = false;
	l->read = spool_stat(sp, LEARNED_FILE, &l->seen) == 0;
	return 0;
}

int learned_sync(struct learned *l, const struct spool *sp, struct err *e)
{
	int r = learned_load(l, sp, e);

	/* What lies there is no file of ours, or is too large: it counts for nothing. */
	if (r < 0 && (spool_is_bad(r) || r == -EFBIG)) {
		(void)spool_refuse(sp, LEARNED_FILE, e ? e->text : "it cannot be read", NULL);
		r = 0;
	}
	return r == 0 && l->unsaved ? write_file(l, sp, e) : r;
}

bool learned_is_new(const struct learned *l)
{
	return !l->read;
}

/* ---- what is known of before there was a file ---- */

#define DAY_MAX	  24	/* "done/2026-11-24" */
#define NAMES_MAX 20000 /* of a day */

struct ended {
	size_t n;
	struct task_name *names;
};

static int add_day(void *data, const char *file, unsigned char type)
{
	if (strlen(file) < DAY_MAX - strlen("done/"))
		text_list_add(data, file);
	return 0;
}

/* Of a batch the elements' ends are elsewhere. */
static int add_ended(void *data, const struct task_name *n, const char *dir)
{
	struct ended *d = data;

	if (n->count || n->element || !n->ended_s)
		return 0;
	d->names = xgrow(d->names, d->n, sizeof(*d->names));
	d->names[d->n++] = *n;
	return d->n >= NAMES_MAX;
}

static int last_first(const void *a, const void *b)
{
	const struct task_name *x = a, *y = b;

	return (x->ended_s < y->ended_s) - (x->ended_s > y->ended_s);
}

static int by_day(const void *a, const void *b)
{
	return strcmp(*(char *const *)b, *(char *const *)a);
}

static void learn_file(struct learned *l, const struct spool *sp, const char *day,
		       const struct task_name *n)
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	const struct spool_end *end;
	struct task_file t;

	(void)str_print(path, sizeof(path), "done/%s/%s", day, name_format(n, file));
	if (task_file_read(sp, path, &t, NULL) < 0)
		return;
	end = &t.history.end;
	if (t.history.ended && end->result == RESULT_DONE && end->begun_ns &&
	    end->ended_ns > end->begun_ns)
		learned_add(l, t.spec->name,
			    &(struct learned_run){
				    .id = n->id,
				    .epoch = end->epoch,
				    .ended_ns = end->ended_ns,
				    .gpus = t.spec->gpus,
				    .peak_bytes = end->use.gpus
							  ? end->use.gpu_peak_bytes / end->use.gpus
							  : 0,
				    .ran_ms = (end->ended_ns - end->begun_ns) / NS_PER_MS });
	task_file_clear(&t);
}

int learned_from_history(struct learned *l, const struct spool *sp, size_t most, uint64_t until_ns,
			 struct err *e)
{
	struct text_list days = { .n = 0 };
	int r = spool_or_empty(sp, "done", spool_each(sp, "done", add_day, &days, e));

	if (days.n)
		qsort(days.texts, days.n, sizeof(*days.texts), by_day);
	for (size_t i = 0; i < days.n && r >= 0 && most && clock_mono_ns() < until_ns; i++) {
		struct ended day = { .n = 0 };
		char dir[DAY_MAX];

		r = scan_dir(sp, str_print(dir, sizeof(dir), "done/%s", days.texts[i]), add_ended,
			     &day, e);
		if (day.n)
			qsort(day.names, day.n, sizeof(*day.names), last_first);
		for (size_t k = 0; k < day.n && most && clock_mono_ns() < until_ns; k++, most--)
			learn_file(l, sp, days.texts[i], &day.names[k]);
		free(day.names);
	}
	text_list_clear(&days);
	return r < 0 ? r : 0;
}

/* ---- what it says ---- */

static uint64_t more(uint64_t bytes, uint64_t percent)
{
	return bytes + bytes / 100 * percent + bytes % 100 * percent / 100;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct learned_memory learned_memory(const struct learned *l, const char *name, uint64_t gpus)
{
	const struct known *k = find(l, name);
	struct learned_memory m = { .bytes = 0 };
	unsigned int well = 0; /* so many that ended well are newer */
	uint64_t room = 0, after_oom = 0;

	for (size_t i = k ? k->n : 0; i > 0; i--) {
		const struct learned_run *r = &k->runs[i - 1].r;
		uint64_t had = most(r->peak_bytes, r->asked_bytes ? r->asked_bytes : r->room_bytes);

		if (!gpus || r->gpus != gpus)
			continue;
		room = most(room, r->room_bytes);
		if (r->how == LEARNED_DONE) {
			well++;
			m.runs += r->peak_bytes > 0;
			m.peak_bytes = most(m.peak_bytes, r->peak_bytes);
		} else if (well < OOM_FORGOTTEN) {
			after_oom = most(after_oom, had);
		}
	}
	m.bytes = more(m.peak_bytes, 10);
	if (after_oom && more(after_oom, 25) > m.bytes) {
		m.bytes = more(after_oom, 25);
		m.oom_bytes = after_oom;
	}
	m.bytes = (m.bytes + MIB - 1) / MIB * MIB;
	m.whole = room && m.bytes > room;
	if (m.whole)
		m.bytes = room;
	return m;
}

static void add_which(const char *name, uint64_t gpus, struct strbuf *out)
{
	strbuf_addf(out, " named %s", name);
	if (gpus == SPEC_ALL)
		strbuf_adds(out, " on all GPUs");
	else if (gpus > 1)
		strbuf_addf(out, " on %" PRIu64 " GPUs", gpus);
}

void learned_memory_text(const struct learned_memory *m, const char *name, uint64_t gpus,
			 struct strbuf *out)
{
	char bytes[UNIT_TEXT_MAX], had[UNIT_TEXT_MAX];

	if (!m->bytes) {
		strbuf_adds(out, "not known yet, and so whole GPUs: no run");
		add_which(name, gpus, out);
		strbuf_adds(out, " has ended well and told its memory");
		return;
	}
	strbuf_addf(out, "%s%s: ", unit_format_gib(m->bytes, bytes),
		    m->whole ? ", all that a GPU has" : "");
	if (m->oom_bytes) {
		strbuf_adds(out, "a run");
		add_which(name, gpus, out);
		strbuf_addf(out, " ran out of memory with %s, and it gets %s",
			    unit_format_gib(m->oom_bytes, had),
			    m->whole ? "what there is" : "a quarter more");
		return;
	}
	strbuf_adds(out, "10 % above the peak of ");
	if (m->runs == 1)
		strbuf_adds(out, "the one run");
	else
		strbuf_addf(out, "%u runs", m->runs);
	add_which(name, gpus, out);
	if (m->whole)
		strbuf_addf(out, ", %s, would be more", unit_format_gib(m->peak_bytes, had));
}

/* Sorted; returns their number. */
static size_t times_of(const struct known *k, uint64_t gpus, uint64_t ms[LEARNED_RUNS])
{
	size_t n = 0;

	for (size_t i = 0; k && i < k->n; i++)
		if (k->runs[i].r.how == LEARNED_DONE && k->runs[i].r.gpus == gpus)
			ms[n++] = k->runs[i].r.ran_ms;
	qsort(ms, n, sizeof(*ms), compare_u64);
	return n;
}

/* Of few runs the next one is rarely between the shortest and the longest. */
static bool known_time(const struct known *k, uint64_t gpus, struct learned_time *ret)
{
	uint64_t ms[LEARNED_RUNS];
	size_t n = times_of(k, gpus, ms), out = n / 10;
	uint64_t percent = n < FEW ? 25 : 10;

	if (!n)
		return false;
	*ret = (struct learned_time){ .low_ms = ms[out] - ms[out] / 100 * percent,
				      .high_ms = more(ms[n - 1 - out], percent) + MS_PER_S,
				      .runs = (unsigned int)n };
	return true;
}

bool learned_time(const struct learned *l, const char *name, uint64_t gpus,
		  struct learned_time *ret)
{
	return known_time(find(l, name), gpus, ret);
}

/* The first of its runs with that number of GPUs. */
static bool is_first(const struct known *k, size_t i)
{
	for (size_t before = 0; before < i; before++)
		if (k->runs[before].r.gpus == k->runs[i].r.gpus)
			return false;
	return true;
}

void learned_each_time(const struct learned *l, learned_time_fn fn, void *data)
{
	struct learned_time t;

	for (const struct known *k = l->all; k; k = k->next)
		for (size_t i = 0; i < k->n; i++)
			if (is_first(k, i) && known_time(k, k->runs[i].r.gpus, &t))
				fn(data, k->name, k->runs[i].r.gpus, &t);
}
