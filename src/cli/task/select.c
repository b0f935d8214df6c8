/* SPDX-License-Identifier: MIT */
#include "cli/task/select.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/instance.h"
#include "spool/ident.h"
#include "spool/instance.h"
#include "spool/record.h"

#define LAST "last"

int select_all(const struct spool *sp, struct task_set *ret, struct err *e)
{
	struct scan *s = scan_new(sp, 0);
	int r = scan_update(s, NULL, NULL, e);

	*ret = (struct task_set){ .n = 0 };
	if (r == 0) {
		cmd_warn("warning", "%s", scan_notes(s));
		ret->n = scan_list(s, &ret->tasks);
	}
	(void)scan_free(s);
	return r;
}

/* "./my train.sh" means what tenure submit made of it, my_train.sh. buf: SPEC_NAME_MAX + 1. */
static const char *as_name(const char *word, char *buf)
{
	if (ident_is_task_name(word) || !word[strspn(word, ".-/ \t")])
		return word;
	ident_make_name(word, buf);
	return buf;
}

/* How well a word means a task: 0 not at all, 1 by the beginning of its name, 2 exactly. */
static int means(const struct task_name *n, const char *word, unsigned int flags)
{
	uint64_t id, element;

	if (ident_parse_id(word, &id, &element) == 0)
		return n->id == id && (!element || n->element == element) ? 2 : 0;
	if (strcmp(n->name, word) == 0)
		return 2;
	if (flags & SELECT_LANES && (strcmp(word, "all") == 0 || strcmp(n->lane, word) == 0))
		return 2;
	return str_has_prefix(n->name, word) ? 1 : 0;
}

/* ---- what has ended ---- */

struct search {
	uint64_t id; /* 0: by name */
	const char *name;
	struct task_place *ret;
	bool found;
};

static int is_it(void *data, const struct task_name *n, const char *dir)
{
	struct search *s = data;
	char file[NAME_FILE_MAX];

	if (s->id ? n->id != s->id
		  : strcmp(n->name, s->name) != 0 || (s->found && n->id < s->ret->name.id))
		return 0;
	s->found = true;
	s->ret->name = *n;
	s->ret->dir = spool_dir_of(dir);
	(void)str_print(s->ret->path, sizeof(s->ret->path), "%.40s/%s", dir, name_format(n, file));
	return s->id != 0;
}

static int find_ended(const struct spool *sp, struct search *s, struct err *e)
{
	int r = scan_ended(sp, is_it, s, e);

	return r < 0 ? r : s->found ? 0 : -ENOENT;
}

char *select_format_end(const struct task_place *p, char buf[SELECT_END_MAX])
{
	const struct task_name *n = &p->name;
	char when[CLOCK_TEXT_MAX], how[48] = "stopped";

	if (p->dir == SPOOL_DONE)
		(void)str_copy(how, sizeof(how), "done");
	else if (p->dir == SPOOL_FAILED && n->exit >= NAME_SIGNALLED)
		(void)str_print(how, sizeof(how), "failed, by signal %u", n->exit - NAME_SIGNALLED);
	else if (p->dir == SPOOL_FAILED)
		(void)str_print(how, sizeof(how), "failed, with exit code %u", n->exit);
	return str_print(buf, SELECT_END_MAX, "has ended already: %s, %s", how,
			 clock_format_local(n->ended_s * NS_PER_S, when));
}

struct lane_search {
	const char *lane;
	bool found;
};

static int look_for_lane(void *data, const struct task_name *n, const char *dir)
{
	struct lane_search *s = data;

	s->found = s->found || strcmp(s->lane, n->lane) == 0;
	return s->found;
}

bool select_was_lane(const struct spool *sp, const char *word)
{
	static const enum spool_dir dirs[] = { SPOOL_FAILED, SPOOL_CANCELLED, SPOOL_DONE };
	struct lane_search s = { .lane = word };

	for (size_t i = 0; i < ARRAY_LEN(dirs) && !s.found; i++) /* in spite of errors */
		(void)scan_dirs(sp, &dirs[i], 1, look_for_lane, &s, NULL);
	return s.found;
}

/* Nothing that waits or runs is called so. 0: that is all that is known, and e says nothing. */
static int tell_ended(const struct spool *sp, const char *word, struct err *e)
{
	struct task_place p = { .element = 0 };
	struct search s = { .name = word, .ret = &p };
	char text[SELECT_END_MAX];
	uint64_t element;

	if (ident_parse_id(word, &s.id, &element) < 0)
		s.id = 0;
	if (find_ended(sp, &s, NULL) == 0)
		return err_set(e, -ENOENT, "task %" PRIu64 " (%s) %s", p.name.id, p.name.name,
			       select_format_end(&p, text));
	if (!s.id && select_was_lane(sp, word))
		return err_set(e, -ENOENT, "nothing of lane \"%s\" waits or runs any more", word);
	return 0;
}

/* Something was called exactly so, which is what its owner means: not another task whose name
 * begins with it. */
static bool is_over(const struct spool *sp, const char *word)
{
	struct task_place p;
	struct search s = { .name = word, .ret = &p };

	return find_ended(sp, &s, NULL) == 0 || select_was_lane(sp, word);
}

static int no_such_id(const struct spool *sp, uint64_t id, struct err *e)
{
	return err_set(e, -ENOENT,
		       "there is no task %" PRIu64 " in instance \"%s\" (tenure list -a shows them "
		       "all)",
		       id, spool_instance(sp));
}

/* "43.0": an array of which that is an index. */
static bool is_element_none(const char *word)
{
	size_t len = strlen(word), digits = strspn(word, "0123456789");

	return digits && digits + 2 == len && strcmp(word + digits, ".0") == 0;
}

void select_tell_none(const struct spool *sp)
{
	cmd_warn("note", "nothing waits or runs in instance \"%s\"", spool_instance(sp));
}

static bool has_lane(const struct task_set *all, const char *word)
{
	for (size_t i = 0; i < all->n; i++)
		if (strcmp(all->tasks[i].name.lane, word) == 0)
			return true;
	return false;
}

static int nothing_found(const struct spool *sp, const char *word, const struct task_set *all,
			 unsigned int flags, struct err *e)
{
	cleanup_free const char **names = xcalloc(all->n + 1, sizeof(char *));
	const char *near;
	uint64_t id, element;

	if (strcmp(word, "all") == 0)
		return err_set(e, -ENOENT, "nothing waits or runs in instance \"%s\"",
			       spool_instance(sp));
	if (is_element_none(word))
		return err_set(e, -EINVAL,
			       "there is no element %s: they count from 1, whatever the indices of "
			       "an array are (tenure show tells the index of one)",
			       word);
	if (!(flags & SELECT_LANES) && has_lane(all, word))
		return err_set(
			e, -ENOENT,
			"\"%s\" is a lane, and one task is needed here, by its id or its name "
			"(tenure list shows them)",
			word);
	if (flags & SELECT_TELL_ENDED && tell_ended(sp, word, e) < 0)
		return -ENOENT;
	if (ident_parse_id(word, &id, &element) == 0)
		return no_such_id(sp, id, e);
	for (size_t i = 0; i < all->n; i++)
		names[i] = all->tasks[i].name.name;
	near = str_nearest(word, names);
	return err_set(e, -ENOENT,
		       "no task%s in instance \"%s\" is called \"%s\"%s%s (tenure list%s",
		       flags & SELECT_ENDED_TOO ? "" : " that waits or runs", spool_instance(sp),
		       word, near ? "; did you mean " : "", near ? near : "",
		       flags & SELECT_ENDED_TOO ? " -a shows them all)" : " shows them)");
}

#define CANDIDATES 5

/* What a word that is not clear may mean. */
static int not_clear(const char *word, const struct task_set *all, struct err *e)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	const char *first = NULL;
	bool differ = false;
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct task_name *t = &all->tasks[i].name;

		if (t->element || !str_has_prefix(t->name, word))
			continue;
		strbuf_add_some(&b, n++, CANDIDATES, "%" PRIu64 " %s", t->id, t->name);
		first = first ? first : t->name;
		differ = differ || strcmp(first, t->name) != 0;
	}
	strbuf_add_more(&b, n, CANDIDATES);
	return err_set(e, -EINVAL, "\"%s\" is ambiguous (%s); use the ID%s", word, strbuf_str(&b),
		       differ ? " or a longer prefix" : "");
}

int select_tasks(const struct spool *sp, const char *typed, unsigned int flags,
		 struct task_set *ret, struct err *e)
{
	char name[SPEC_NAME_MAX + 1];
	const char *word = as_name(typed, name);
	struct task_set all;
	size_t n[3] = { 0 };
	int best, r;

	/* Every name begins with it. */
	if (!word[0])
		return err_set(e, -EINVAL,
			       "\"\" means no task: say which by its id or its name (tenure list "
			       "shows them)");
	r = select_all(sp, &all, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++)
		n[means(&all.tasks[i].name, word, flags)]++;
	if (!n[2] && n[1] && (flags & SELECT_EXACT || is_over(sp, word)))
		n[1] = 0;
	best = n[2] ? 2 : 1;
	if (flags & SELECT_LANES && !all.n && strcmp(word, "all") == 0) {
		*ret = all;
		return 0;
	}
	if (!n[2] && n[1] != 1) {
		r = n[1] ? not_clear(word, &all, e) : nothing_found(sp, word, &all, flags, e);
		free(all.tasks);
		return r;
	}

	size_t kept = 0;

	for (size_t i = 0; i < all.n; i++)
		if (means(&all.tasks[i].name, word, flags) == best)
			all.tasks[kept++] = all.tasks[i];
	all.n = kept;
	all.by_beginning = best == 1;
	*ret = all;
	return 0;
}

/* ---- one task, wherever it is ---- */

static int find_active(const struct spool *sp, const char *word, struct task_place *ret,
		       struct err *e)
{
	struct task_set m;
	uint64_t id, element;
	char file[NAME_FILE_MAX];
	int r = select_tasks(sp, word, SELECT_ENDED_TOO, &m, e);

	if (r < 0)
		return r;
	if (m.n > 1 && ident_parse_id(word, &id, &element) < 0) {
		r = not_clear(word, &m, e);
		free(m.tasks);
		return r;
	}
	/* Of a batch with running elements, its own file, which comes last; it has ended where only
	 * they are left. */
	if (m.tasks[m.n - 1].name.element) {
		free(m.tasks);
		return -ENOENT;
	}
	ret->name = m.tasks[m.n - 1].name;
	ret->dir = m.tasks[m.n - 1].dir;
	free(m.tasks);
	(void)spool_path(ret->dir, name_format(&ret->name, file), ret->path);
	return 0;
}

static int locate_id(const struct spool *sp, uint64_t id, uint64_t element, struct task_place *ret,
		     struct err *e)
{
	cleanup_free char *word = xasprintf("%" PRIu64, id);
	struct search s = { .id = id, .ret = ret };
	int r = find_active(sp, word, ret, e);

	if (r == -ENOENT)
		r = find_ended(sp, &s, e);
	if (r == -ENOENT) /* it may have moved while we looked */
		r = find_active(sp, word, ret, e);
	if (r == -ENOENT)
		return no_such_id(sp, id, e);
	ret->element = element;
	if (r == 0 && element && !ret->name.count && !ret->name.element)
		return err_set(e, -ENOENT,
			       "task %" PRIu64 " is no batch and has no elements: say %" PRIu64, id,
			       id);
	if (r == 0 && element && element > ret->name.count && !ret->name.element)
		return err_set(e, -ENOENT, "task %" PRIu64 " has %" PRIu64 " elements, no %" PRIu64,
			       id, ret->name.count, element);
	return r;
}

static int locate(const struct spool *sp, const char *typed, struct task_place *ret, struct err *e)
{
	char name[SPEC_NAME_MAX + 1];
	const char *word = as_name(typed, name);
	struct search s = { .name = word, .ret = ret };
	uint64_t id, element;
	int r;

	*ret = (struct task_place){ .element = 0 };
	if (strcmp(word, "all") == 0)
		return err_set(e, -EINVAL,
			       "one task is needed here, by its id or its name (tenure list shows "
			       "them all)");
	if (ident_parse_id(word, &id, &element) == 0)
		return locate_id(sp, id, element, ret, e);
	r = find_active(sp, word, ret, e);
	if (r == -ENOENT && find_ended(sp, &s, NULL) == 0)
		r = 0;
	return r == -ENOENT ? find_active(sp, word, ret, e) : r;
}

/* Where it was looked for in vain before it was found is no error. */
static int tell_failure(int r, const struct err *inner, struct err *e)
{
	if (r < 0 && e)
		*e = *inner;
	return r;
}

int select_by_id(const struct spool *sp, uint64_t id, uint64_t element, struct task_place *ret,
		 struct err *e)
{
	struct err inner = ERR_INIT;

	return tell_failure(locate_id(sp, id, element, ret, &inner), &inner, e);
}

bool select_running_element(const struct spool *sp, uint64_t id, uint64_t element,
			    struct task_name *ret)
{
	char word[SELECT_ID_MAX];
	struct task_set m;

	if (select_tasks(sp, select_format_id(id, element, word), 0, &m, NULL) < 0)
		return false;
	*ret = m.tasks[0].name;
	free(m.tasks);
	return true;
}

/* ---- the latest ---- */

struct id_list {
	size_t n;
	uint64_t *ids;
};

static void add_id(struct id_list *l, uint64_t id)
{
	l->ids = xgrow(l->ids, l->n, sizeof(*l->ids));
	l->ids[l->n++] = id;
}

static int add_ended_id(void *data, const struct task_name *n, const char *dir)
{
	add_id(data, n->id);
	return 0;
}

/* Who is named in it has submitted it; of a file that was put there by hand its owner. */
static bool is_mine(const struct spool *sp, const struct task_place *p)
{
	struct task_file t;
	struct stat st;
	bool named, mine;

	if (task_file_read(sp, p->path, &t, NULL) < 0)
		return spool_stat(sp, p->path, &st) == 0 && st.st_uid == geteuid();
	named = t.spec->user && t.spec->user[0];
	mine = named && t.spec->uid == geteuid();
	task_file_clear(&t);
	return named ? mine : spool_stat(sp, p->path, &st) == 0 && st.st_uid == geteuid();
}

static int find_ids(const struct spool *sp, struct id_list *ret, struct err *e)
{
	struct task_set active;
	int r = select_all(sp, &active, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < active.n; i++)
		add_id(ret, active.tasks[i].name.id);
	free(active.tasks);
	r = scan_ended(sp, add_ended_id, ret, e);
	if (ret->n)
		qsort(ret->ids, ret->n, sizeof(*ret->ids), compare_u64);
	return r;
}

int select_latest(const struct spool *sp, struct task_place *ret, struct err *e)
{
	struct id_list l = { .n = 0 };
	int r = find_ids(sp, &l, e);
	bool found = false;

	for (size_t i = l.n; i-- > 0 && r == 0 && !found;) {
		if (i + 1 < l.n && l.ids[i] == l.ids[i + 1]) /* an element of the same */
			continue;
		found = select_by_id(sp, l.ids[i], 0, ret, NULL) == 0 && is_mine(sp, ret);
	}
	free(l.ids);
	if (r == 0 && !found)
		r = err_set(
			e, -ENOENT,
			"you have submitted no task to instance \"%s\" that is still known; say which "
			"one is meant (tenure list -a shows them)",
			spool_instance(sp));
	return r;
}

static int tell_latest(const struct spool *sp, struct task_place *ret, struct err *e)
{
	int r = select_latest(sp, ret, e);

	if (r == 0) {
		cmd_warn("note", "task %" PRIu64 " %s, your latest", ret->name.id, ret->name.name);
	}
	return r;
}

const char *select_take_last(const struct spool *sp, const char *word, char buf[SELECT_ID_MAX],
			     struct err *e)
{
	struct task_place p;

	if (strcmp(word, LAST) != 0)
		return word;
	return tell_latest(sp, &p, e) == 0 ? select_format_id(p.name.id, 0, buf) : NULL;
}

int select_one(const struct spool *sp, const char *word, struct task_place *ret, struct err *e)
{
	struct err inner = ERR_INIT;

	if (!word || strcmp(word, LAST) == 0)
		return tell_latest(sp, ret, e);
	return tell_failure(locate(sp, word, ret, &inner), &inner, e);
}

#define MOVES_MOST 4 /* of a task, faster than it is read */

static int with_place(const struct cmd_ctx *ctx, const struct spool *sp, select_fn fn,
		      struct task_place *p, struct err *e)
{
	int r = fn(ctx, sp, p, e);

	for (int i = 0; i < MOVES_MOST && r == -ENOENT; i++) {
		r = locate_id(sp, p->name.id, p->element, p, e);
		if (r == 0)
			r = fn(ctx, sp, p, e);
	}
	return r;
}

int select_with(const struct cmd_ctx *ctx, select_fn fn, struct err *e)
{
	struct task_place p;
	struct spool *sp = NULL;
	struct err inner = ERR_INIT;
	int r = instance_open(ctx, SPOOL_LOOK, &sp, e);

	if (r == 0)
		r = select_one(sp, opts_arg(ctx->opts, 0), &p, e);
	if (r == 0)
		r = tell_failure(with_place(ctx, sp, fn, &p, &inner), &inner, e);
	sp = spool_close(sp);
	return r;
}

char *select_format_id(uint64_t id, uint64_t element, char buf[SELECT_ID_MAX])
{
	if (element)
		return str_print(buf, SELECT_ID_MAX, "%" PRIu64 ".%" PRIu64, id, element);
	return str_print(buf, SELECT_ID_MAX, "%" PRIu64, id);
}
