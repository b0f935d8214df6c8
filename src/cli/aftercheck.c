/* SPDX-License-Identifier: MIT */
#include "cli/aftercheck.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/queue.h"
#include "spool/record.h"
#include "spool/scan.h"

/* The nodes of a search, in the order in which they were found: parents come first. */
struct step {
	uint64_t id;
	size_t parent;
};

struct search {
	const struct spool *sp;
	struct scan *scan;
	size_t n;
	struct step *steps;
};

static int check_there(const struct spool *sp, const struct id_list *ids, bool must_be_good,
		       struct err *e)
{
	for (size_t i = 0; i < ids->n; i++) {
		struct queue_place p;

		if (queue_locate_id(sp, ids->ids[i], 0, &p, NULL) < 0)
			return err_set(e, -ENOENT,
				       "there is no task %" PRIu64 " to wait for (tenure list -a "
				       "shows them)",
				       ids->ids[i]);
		if (must_be_good && (p.dir == SPOOL_FAILED || p.dir == SPOOL_CANCELLED)) {
			cleanup_free char *text = xasprintf(
				"task %" PRIu64 " %s, so this one can never run, unless "
				"tenure retry %" PRIu64 " lets that one end well",
				p.name.id, p.dir == SPOOL_FAILED ? "has failed" : "was stopped",
				p.name.id);

			cmd_warn("warning", text);
		}
	}
	return 0;
}

static bool is_known(const struct search *s, uint64_t id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->steps[i].id == id)
			return true;
	return false;
}

static void add(struct search *s, const struct id_list *ids, size_t parent)
{
	for (size_t i = 0; i < ids->n; i++) {
		if (is_known(s, ids->ids[i]))
			continue;
		s->steps = xrealloc(s->steps, s->n + 1, sizeof(*s->steps));
		s->steps[s->n++] = (struct step){ ids->ids[i], parent };
	}
}

/* From what was found last back to the task itself, which is step 0. */
static int tell(const struct search *s, size_t last, struct err *e)
{
	cleanup_free char *way = xasprintf("%" PRIu64, s->steps[0].id);

	for (size_t i = last; i; i = s->steps[i].parent) {
		cleanup_free char *rest = take_ptr(way);

		way = xasprintf("%" PRIu64 " -> %s", s->steps[i].id, rest);
	}
	return err_set(e, -ELOOP, "task %" PRIu64 " would wait for itself: %" PRIu64 " -> %s",
		       s->steps[0].id, s->steps[0].id, way);
}

static bool names(const struct id_list *ids, uint64_t id)
{
	for (size_t i = 0; i < ids->n; i++)
		if (ids->ids[i] == id)
			return true;
	return false;
}

/* What step `at` waits for. */
static int follow(struct search *s, size_t at, const struct spool_spec *spec, struct err *e)
{
	if (names(&spec->after, s->steps[0].id) || names(&spec->after_any, s->steps[0].id))
		return tell(s, at, e);
	add(s, &spec->after, at);
	add(s, &spec->after_any, at);
	return 0;
}

static int look_at(struct search *s, size_t at, struct err *e)
{
	const struct scan_task *t = scan_find(s->scan, s->steps[at].id, 0);
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

static int check_way_round(const struct spool *sp, uint64_t id, const struct spool_spec *spec,
			   struct err *e)
{
	struct search s = { .sp = sp, .scan = scan_new(sp, 0) };
	struct id_list self = { .n = 1, .ids = &id };
	int r = scan_update(s.scan, NULL, NULL, e);

	add(&s, &self, 0);
	if (r == 0)
		r = follow(&s, 0, spec, e);
	for (size_t i = 1; i < s.n && r == 0; i++)
		r = look_at(&s, i, e);
	free(s.steps);
	s.scan = scan_free(s.scan);
	return r;
}

int after_check(const struct spool *sp, uint64_t id, const struct spool_spec *s, struct err *e)
{
	int r = check_there(sp, &s->after, true, e);

	if (r == 0)
		r = check_there(sp, &s->after_any, false, e);
	if (r == 0 && id && (s->after.n || s->after_any.n))
		r = check_way_round(sp, id, s, e);
	return r;
}
