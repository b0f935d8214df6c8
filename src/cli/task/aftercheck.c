/* SPDX-License-Identifier: MIT */
#include "cli/task/aftercheck.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/task/select.h"
#include "spool/record.h"
#include "spool/scan.h"

struct after_ended {
	uint64_t id; /* first, for compare_u64() */
	bool told;
	enum spool_dir dir;
};

/* ---- what is there ---- */

struct reading {
	struct after_check *c;
	enum spool_dir dir;
};

static int add_ended(void *data, const struct task_name *n, const char *dir)
{
	const struct reading *r = data;
	struct after_check *c = r->c;

	c->ended = xgrow(c->ended, c->n_ended, sizeof(*c->ended));
	c->ended[c->n_ended++] = (struct after_ended){ .id = n->id, .dir = r->dir };
	return 0;
}

/* What ended first: what ends or is retried meanwhile is met there or here. */
static int read_all(struct after_check *c, struct err *e)
{
	struct reading r[] = { { c, SPOOL_FAILED }, { c, SPOOL_CANCELLED }, { c, SPOOL_DONE } };
	int code = 0;

	after_check_clear(c);
	for (size_t i = 0; i < ARRAY_LEN(r) && code == 0; i++) {
		code = scan_dirs(c->sp, &r[i].dir, 1, add_ended, &r[i], e);
		if (code ==
		    -ENOENT) /* the agent makes it anew when it has something to put there */
			code = 0;
	}
	c->scan = scan_new(c->sp, 0);
	if (code == 0)
		code = scan_update(c->scan, NULL, NULL, e);
	if (c->n_ended)
		qsort(c->ended, c->n_ended, sizeof(*c->ended), compare_u64);
	return code;
}

void after_check_clear(struct after_check *c)
{
	c->scan = scan_free(c->scan);
	free(take_ptr(c->ended));
	c->n_ended = 0;
}

static void warn_of(struct after_ended *ended)
{
	if (ended->told || ended->dir == SPOOL_DONE)
		return;
	ended->told = true;
	cmd_warn("warning",
		 "task %" PRIu64 " %s, so this one can never run, unless tenure retry %" PRIu64
		 " lets that one end well",
		 ended->id, ended->dir == SPOOL_FAILED ? "has failed" : "was stopped", ended->id);
}

static int check_there(struct after_check *c, const struct uint_list *ids, bool must_be_good,
		       struct err *e)
{
	for (size_t i = 0; i < ids->n; i++) {
		struct after_ended key = { .id = ids->nums[i] }, *ended;
		struct task_place p;

		if (scan_find(c->scan, ids->nums[i], 0))
			continue;
		ended = c->n_ended ? bsearch(&key, c->ended, c->n_ended, sizeof(key), compare_u64)
				   : NULL;
		if (ended && must_be_good)
			warn_of(ended);
		/* It may have moved as all was read. */
		if (!ended && select_by_id(c->sp, ids->nums[i], 0, &p, NULL) < 0)
			return err_set(e, -ENOENT,
				       "there is no task %" PRIu64 " to wait for (tenure list -a "
				       "shows them)",
				       ids->nums[i]);
	}
	return 0;
}

/* ---- whether it goes round ---- */

/* The nodes of a search, in the order in which they were found: parents come first. */
struct step {
	struct hnode node;
	uint64_t id;
	size_t parent;
};

struct search {
	const struct spool *sp;
	struct scan *scan;
	size_t n;
	struct step **steps;
	struct hmap known;
};

static bool is_known(const struct search *s, uint64_t id)
{
	struct hnode *n = hmap_find(&s->known, hash_u64(id, 0));

	while (n && ((const struct step *)n)->id != id)
		n = hmap_same(n);
	return n;
}

static void add(struct search *s, const struct uint_list *ids, size_t parent)
{
	for (size_t i = 0; i < ids->n; i++) {
		struct step *step;

		if (is_known(s, ids->nums[i]))
			continue;
		step = xcalloc(1, sizeof(*step));
		step->id = ids->nums[i];
		step->parent = parent;
		hmap_insert(&s->known, &step->node, hash_u64(step->id, 0));
		s->steps = xgrow(s->steps, s->n, sizeof(*s->steps));
		s->steps[s->n++] = step;
	}
}

/* From what was found last back to the task itself, which is step 0. */
static int tell(const struct search *s, size_t last, struct err *e)
{
	cleanup_free char *way = xasprintf("%" PRIu64, s->steps[0]->id);

	for (size_t i = last; i; i = s->steps[i]->parent) {
		cleanup_free char *rest = take_ptr(way);

		way = xasprintf("%" PRIu64 " -> %s", s->steps[i]->id, rest);
	}
	return err_set(e, -ELOOP, "task %" PRIu64 " would wait for itself: %" PRIu64 " -> %s",
		       s->steps[0]->id, s->steps[0]->id, way);
}

static bool names(const struct uint_list *ids, uint64_t id)
{
	for (size_t i = 0; i < ids->n; i++)
		if (ids->nums[i] == id)
			return true;
	return false;
}

/* What step `at` waits for. */
static int follow(struct search *s, size_t at, const struct task_spec *spec, struct err *e)
{
	if (names(&spec->after, s->steps[0]->id) || names(&spec->after_any, s->steps[0]->id))
		return tell(s, at, e);
	add(s, &spec->after, at);
	add(s, &spec->after_any, at);
	return 0;
}

static int look_at(struct search *s, size_t at, struct err *e)
{
	const struct scan_task *t = scan_find(s->scan, s->steps[at]->id, 0);
	char file[NAME_FILE_MAX], path[SPOOL_PATH_MAX];
	struct task_file f;
	int r;

	if (!t || !(t->name.flags & NAME_DEPENDS))
		return 0;
	(void)spool_path(t->dir, name_format(&t->name, file), path);
	if (task_file_read(s->sp, path, &f, NULL) < 0)
		return 0; /* it has just moved on */
	r = follow(s, at, f.spec, e);
	task_file_clear(&f);
	return r;
}

static int check_way_round(struct after_check *c, uint64_t id, const struct task_spec *spec,
			   struct err *e)
{
	struct search s = { .sp = c->sp, .scan = c->scan };
	struct uint_list self = { .n = 1, .nums = &id };
	int r;

	add(&s, &self, 0);
	r = follow(&s, 0, spec, e);
	for (size_t i = 1; i < s.n && r == 0; i++)
		r = look_at(&s, i, e);
	hmap_clear(&s.known);
	for (size_t i = 0; i < s.n; i++)
		free(s.steps[i]);
	free(s.steps);
	return r;
}

int after_check(struct after_check *c, uint64_t id, const struct task_spec *s, struct err *e)
{
	int r = 0;

	if (!s->after.n && !s->after_any.n)
		return 0;
	if (!c->scan)
		r = read_all(c, e);
	if (r == 0)
		r = check_there(c, &s->after, true, e);
	if (r == 0)
		r = check_there(c, &s->after_any, false, e);
	if (r == 0 && id)
		r = check_way_round(c, id, s, e);
	return r;
}

int after_take_last(const struct spool *sp, struct task_spec *s, struct err *e)
{
	const struct {
		const char *option;
		struct uint_list *ids;
	} lists[] = { { "--after", &s->after }, { "--after-any", &s->after_any } };
	struct task_place p;

	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		for (size_t i = 0; i < lists[k].ids->n; i++) {
			if (lists[k].ids->nums[i] != VALUE_WORD)
				continue;
			if (select_latest(sp, &p, e) < 0)
				return err_wrap(e, "%s last", lists[k].option);
			cmd_warn("note", "%s last is task %" PRIu64 " %s", lists[k].option,
				 p.name.id, p.name.name);
			lists[k].ids->nums[i] = p.name.id;
		}
	return 0;
}
