/* SPDX-License-Identifier: MIT */
#include "tui/listing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"

/* What a row is sorted by, beside it: to look into 10,000 rows at each comparison would cost more
 * than all else. */
struct key {
	uint64_t first, second;
	const struct row *row;
};

void listing_clear(struct listing *o)
{
	free(o->all);
	*o = (struct listing){ 0 };
}

/* -------- filter -------- */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool contains(const char *text, const char *part)
{
	size_t n = strlen(part);

	for (; *text; text++)
		if (lower(*text) == lower(*part) && strncasecmp(text, part, n) == 0)
			return true;
	return false;
}

static bool passes(const struct row *row, const char *filter)
{
	char id[64];

	if (!filter[0] || contains(row->name.name, filter) || contains(row->name.lane, filter) ||
	    contains(row->name.agent, filter) || contains(taskstate_name(row->state), filter))
		return true;
	return str_has_prefix(str_print(id, sizeof(id), "%" PRIu64, row->name.id), filter);
}

/* -------- order -------- */

/* What runs comes first, whatever else they are sorted by, but for ids and names. */
static void key_of_plan(struct key *k, size_t i)
{
	k->first = k->row->dir != SPOOL_RUNNING;
	k->second = i;
}

static void key_of_id(struct key *k, size_t i)
{
	k->first = k->row->name.id;
	k->second = k->row->name.element;
}

/* As strcmp() sees them; *text ends up behind them, or at the end. */
static uint64_t eight_bytes(const char **text)
{
	uint64_t n = 0;

	for (size_t i = 0; i < 8; i++) {
		n = n << 8 | (unsigned char)**text;
		*text += **text != '\0';
	}
	return n;
}

static void key_of_name(struct key *k, size_t i)
{
	const char *text = k->row->name.name;

	k->first = eight_bytes(&text);
	k->second = eight_bytes(&text);
}

static void key_of_time(struct key *k, size_t i)
{
	k->first = k->row->dir != SPOOL_RUNNING;
	k->second = k->row->started_ns;
}

static int compare_ids(const struct row *a, const struct row *b)
{
	if (a->name.id != b->name.id)
		return a->name.id < b->name.id ? -1 : 1;
	return a->name.element < b->name.element ? -1 : a->name.element > b->name.element;
}

static int compare_keys(const struct key *a, const struct key *b)
{
	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	return a->second < b->second ? -1 : a->second > b->second;
}

static int by_key(const void *x, const void *y)
{
	const struct key *a = x, *b = y;
	int r = compare_keys(a, b);

	return r ? r : compare_ids(a->row, b->row);
}

static int by_name(const void *x, const void *y)
{
	const struct key *a = x, *b = y;
	int r = compare_keys(a, b);

	r = r ? r : strcmp(a->row->name.name, b->row->name.name);
	return r ? r : compare_ids(a->row, b->row);
}

static const struct {
	void (*key)(struct key *k, size_t i); /* the i-th row of the plan */
	int (*compare)(const void *, const void *);
} sorts[SORT_MAX] = {
	[SORT_PLAN] = { key_of_plan, by_key },
	[SORT_ID] = { key_of_id, by_key },
	[SORT_NAME] = { key_of_name, by_name },
	[SORT_TIME] = { key_of_time, by_key },
};

static size_t sort_rows(const struct rows *rows, const struct listing_wanted *w,
			const struct row **to)
{
	struct key *keys = xcalloc(rows->n + 1, sizeof(*keys));
	bool sorted = true; /* as a plan is as a rule */
	size_t n = 0;

	for (size_t i = 0; i < rows->n; i++) {
		if (!passes(&rows->all[i], w->filter))
			continue;
		keys[n].row = &rows->all[i];
		sorts[w->sort].key(&keys[n], i);
		sorted = sorted && (!n || sorts[w->sort].compare(&keys[n - 1], &keys[n]) <= 0);
		n++;
	}
	if (!sorted)
		qsort(keys, n, sizeof(*keys), sorts[w->sort].compare);
	for (size_t i = 0; i < n; i++)
		to[i] = keys[i].row;
	free(keys);
	return n;
}

static bool is_of(const struct listing *o, const struct model_snapshot *s,
		  const struct listing_wanted *w)
{
	return o->all && o->read_ns == s->read_ns && o->rows == s->rows.all &&
	       o->n_rows == s->rows.n && o->ended == s->ended.all && o->n_ended == s->ended.n &&
	       o->wanted.sort == w->sort && o->wanted.ended == w->ended &&
	       strcmp(o->wanted.filter, w->filter) == 0;
}

void listing_of(struct listing *o, const struct model_snapshot *s,
		const struct listing_wanted *wanted)
{
	if (is_of(o, s, wanted))
		return;
	free(o->all);
	*o = (struct listing){ .wanted = *wanted,
			       .read_ns = s->read_ns,
			       .rows = s->rows.all,
			       .n_rows = s->rows.n,
			       .ended = s->ended.all,
			       .n_ended = s->ended.n };
	o->all = xcalloc(s->rows.n + s->ended.n + 1, sizeof(*o->all));
	o->n = sort_rows(&s->rows, wanted, o->all);
	for (size_t i = 0; i < s->rows.n; i++)
		if (s->rows.all[i].dir == SPOOL_RUNNING)
			o->running++;
		else
			o->waiting += taskstate_waiting(
				&s->rows.all[i].name,
				s->rows.all[i].counted ? &s->rows.all[i].counts : NULL);
	for (size_t i = 0; wanted->ended && i < s->ended.n; i++)
		if (passes(&s->ended.all[i], wanted->filter))
			o->all[o->n++] = &s->ended.all[i];
}
