/* SPDX-License-Identifier: MIT */
#include "cli/queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "cli/silence.h"
#include "spool/instance.h"
#include "spool/record.h"
#include "spool/transit.h"

char *queue_dir(const struct cmd_ctx *ctx)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));

	return xasprintf("%s/%s", root, settings_str(ctx->settings, SET_INSTANCE));
}

int queue_open(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret, struct err *e)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	struct spool_trust trust = trust_from_settings(ctx->settings);
	cleanup_free char *dir = queue_dir(ctx);
	struct silence *s = silence_begin(dir);
	int r = spool_open(root, settings_str(ctx->settings, SET_INSTANCE), &trust, flags, ret, e);

	(void)silence_end(s);
	return r;
}

void queue_say(struct queue_said *s, unsigned int dirs, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strbuf_addv(&s->text, fmt, ap);
	va_end(ap);
	s->dirs |= dirs;
}

/* What is printed has happened, whether it can be read or not. */
static int tell_unread(const char *happened, int r, struct err *e)
{
	struct err why = ERR_INIT;
	int lost = fs_flush_stdout(&why);

	if (lost == 0 || !happened[0])
		return r;
	if (r == 0)
		return err_set(e, lost, "%s; %s", why.text, happened);

	cleanup_free char *text = xasprintf("%s; %s", why.text, happened);

	cmd_warn("warning", text);
	return r;
}

int queue_tell_made(const uint64_t *ids, size_t n, int r, struct err *e)
{
	char text[96] = "";

	if (n == 1)
		(void)str_print(text, sizeof(text), "task %" PRIu64 " is in the queue all the same",
				ids[0]);
	else if (n)
		(void)str_print(text, sizeof(text),
				"%zu tasks, %" PRIu64 " to %" PRIu64
				", are in the queue all the same",
				n, ids[0], ids[n - 1]);
	return tell_unread(text, r, e);
}

/* "it is done all the same: 42 train.sh waits to run again (and 3 more)" */
static int tell_unread_said(const char *said, int r, struct err *e)
{
	size_t first = strcspn(said, "\n"), more = 0;
	char others[32] = "";

	for (const char *p = said + first; *p; p++)
		more += *p == '\n' && p[1];
	if (more)
		(void)str_print(others, sizeof(others), " (and %zu more)", more);

	cleanup_free char *text =
		xasprintf("it is done all the same: %.*s%s", (int)first, said, others);

	return tell_unread(first ? text : "", r, e);
}

int queue_commit(const struct spool *sp, struct queue_said *s, int r, struct err *e)
{
	struct err why = ERR_INIT;
	int synced = s->files ? spool_sync_all(sp, &why) : 0;

	if (synced == 0 && s->dirs)
		synced = spool_sync_dirs(sp, s->dirs, &why);
	(void)fputs(strbuf_str(&s->text), stdout);
	r = tell_unread_said(strbuf_str(&s->text), r, e);
	strbuf_clear(&s->text);
	s->dirs = 0;
	s->files = false;
	if (synced == 0 || r < 0)
		return r;
	return err_set(e, synced, "it is done, but may not survive a power loss: %s", why.text);
}

/* Who has misspelt a name sees those that there are. */
static void tell_no_queue(const char *root, const char *instance)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	struct text_list names = { .n = 0 };

	strbuf_addf(&b, "nothing was submitted to instance \"%s\" yet", instance);
	(void)spool_instances(root, &names, NULL);
	for (size_t i = 0; i < names.n; i++)
		strbuf_addf(&b, "%s%s",
			    i ? ", " : "; in this directory there are: ", names.texts[i]);
	text_list_clear(&names);
	cmd_warn("note", strbuf_str(&b));
}

int queue_open_if_there(const struct cmd_ctx *ctx, unsigned int flags, struct spool **ret,
			struct err *e)
{
	cleanup_free char *root = spool_root(settings_str(ctx->settings, SET_ROOT));
	const char *instance = settings_str(ctx->settings, SET_INSTANCE);
	int r = queue_open(ctx, flags, ret, e);

	if (r != -ENOENT)
		return r;
	if (e)
		*e = (struct err)ERR_INIT;
	tell_no_queue(root, instance);
	return 0;
}

int queue_open_for(const struct cmd_ctx *ctx, size_t first, unsigned int flags, struct spool **ret,
		   struct err *e)
{
	bool all = true;

	for (size_t i = first; i < opts_argc(ctx->opts); i++)
		all = all && strcmp(opts_arg(ctx->opts, i), "all") == 0;
	return (all ? queue_open_if_there : queue_open)(ctx, flags, ret, e);
}

static int by_order(const void *a, const void *b)
{
	const struct scan_task *x = a, *y = b;

	if (x->dir != y->dir)
		return x->dir == SPOOL_RUNNING ? -1 : 1;
	return name_compare(&x->name, &y->name);
}

int queue_all(const struct spool *sp, struct queue_match *ret, struct err *e)
{
	struct scan *s = scan_new(sp, 0);
	int r = scan_update(s, NULL, NULL, e);
	const struct scan_task *t;
	size_t iter = 0;

	*ret = (struct queue_match){ .n = 0 };
	if (r == 0) {
		cmd_warn("warning", scan_notes(s));

		size_t n = scan_count(s, SPOOL_PENDING) + scan_count(s, SPOOL_RUNNING);

		ret->tasks = xcalloc(n + 1, sizeof(*ret->tasks));
		while ((t = scan_next(s, &iter)))
			ret->tasks[ret->n++] = *t;
		qsort(ret->tasks, n, sizeof(*ret->tasks), by_order);
	}
	(void)scan_free(s);
	return r;
}

static bool is_id(const struct task_name *n, uint64_t id, uint64_t element)
{
	return n->id == id && (!element || n->element == element);
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
		return is_id(n, id, element) ? 2 : 0;
	if (strcmp(n->name, word) == 0)
		return 2;
	if (flags & QUEUE_LANES && (strcmp(word, "all") == 0 || strcmp(n->lane, word) == 0))
		return 2;
	return str_has_prefix(n->name, word) ? 1 : 0;
}

/* ---- what has ended ---- */

struct search {
	uint64_t id; /* 0: by name */
	const char *name;
	struct queue_place *ret;
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

char *queue_format_end(const struct queue_place *p, char buf[QUEUE_TEXT_MAX])
{
	const struct task_name *n = &p->name;
	char when[CLOCK_TEXT_MAX], how[48] = "stopped";

	if (p->dir == SPOOL_DONE)
		(void)str_copy(how, sizeof(how), "done");
	else if (p->dir == SPOOL_FAILED && n->exit >= NAME_SIGNALLED)
		(void)str_print(how, sizeof(how), "failed, by signal %u", n->exit - NAME_SIGNALLED);
	else if (p->dir == SPOOL_FAILED)
		(void)str_print(how, sizeof(how), "failed, with exit code %u", n->exit);
	return str_print(buf, QUEUE_TEXT_MAX, "has ended already: %s, %s", how,
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

bool queue_was_lane(const struct spool *sp, const char *word)
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
	struct queue_place p = { .element = 0 };
	struct search s = { .name = word, .ret = &p };
	char text[QUEUE_TEXT_MAX];
	uint64_t element;

	if (ident_parse_id(word, &s.id, &element) < 0)
		s.id = 0;
	if (find_ended(sp, &s, NULL) == 0)
		return err_set(e, -ENOENT, "task %" PRIu64 " (%s) %s", p.name.id, p.name.name,
			       queue_format_end(&p, text));
	if (!s.id && queue_was_lane(sp, word))
		return err_set(e, -ENOENT, "nothing of lane \"%s\" waits or runs any more", word);
	return 0;
}

/* Something was called exactly so, which is what its owner means: not another task whose name
 * begins with it. */
static bool is_over(const struct spool *sp, const char *word)
{
	struct queue_place p;
	struct search s = { .name = word, .ret = &p };

	return find_ended(sp, &s, NULL) == 0 || queue_was_lane(sp, word);
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

void queue_tell_nothing(const struct spool *sp)
{
	cleanup_free char *text =
		xasprintf("nothing waits or runs in instance \"%s\"", spool_instance(sp));

	cmd_warn("note", text);
}

static bool has_lane(const struct queue_match *all, const char *word)
{
	for (size_t i = 0; i < all->n; i++)
		if (strcmp(all->tasks[i].name.lane, word) == 0)
			return true;
	return false;
}

static int nothing_found(const struct spool *sp, const char *word, const struct queue_match *all,
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
	if (!(flags & QUEUE_LANES) && has_lane(all, word))
		return err_set(
			e, -ENOENT,
			"\"%s\" is a lane, and one task is needed here, by its id or its name "
			"(tenure list shows them)",
			word);
	if (flags & QUEUE_TELL_ENDED && tell_ended(sp, word, e) < 0)
		return -ENOENT;
	if (ident_parse_id(word, &id, &element) == 0)
		return no_such_id(sp, id, e);
	for (size_t i = 0; i < all->n; i++)
		names[i] = all->tasks[i].name.name;
	near = str_nearest(word, names);
	return err_set(e, -ENOENT,
		       "no task%s in instance \"%s\" is called \"%s\"%s%s (tenure list%s",
		       flags & QUEUE_ENDED_TOO ? "" : " that waits or runs", spool_instance(sp),
		       word, near ? "; did you mean " : "", near ? near : "",
		       flags & QUEUE_ENDED_TOO ? " -a shows them all)" : " shows them)");
}

#define CANDIDATES 5

/* What a word that is not clear may mean. */
static int not_clear(const char *word, const struct queue_match *all, size_t n, struct err *e)
{
	cleanup_strbuf struct strbuf b = STRBUF_INIT;
	size_t told = 0;

	for (size_t i = 0; i < all->n && told < CANDIDATES; i++) {
		const struct task_name *t = &all->tasks[i].name;

		if (t->element || !str_has_prefix(t->name, word))
			continue;
		strbuf_addf(&b, "%s%" PRIu64 " %s", told ? ", " : "", t->id, t->name);
		told++;
	}
	if (n > told)
		strbuf_addf(&b, " and %zu more", n - told);
	return err_set(e, -EINVAL, "\"%s\" may be %s; say which by its id or by more of its name",
		       word, strbuf_str(&b));
}

int queue_find(const struct spool *sp, const char *typed, unsigned int flags,
	       struct queue_match *ret, struct err *e)
{
	char name[SPEC_NAME_MAX + 1];
	const char *word = as_name(typed, name);
	struct queue_match all;
	size_t n[3] = { 0 };
	int best, r;

	/* Every name begins with it. */
	if (!word[0])
		return err_set(e, -EINVAL,
			       "\"\" means no task: say which by its id or its name (tenure list "
			       "shows them)");
	r = queue_all(sp, &all, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++)
		n[means(&all.tasks[i].name, word, flags)]++;
	if (!n[2] && n[1] && (flags & QUEUE_EXACT || is_over(sp, word)))
		n[1] = 0;
	best = n[2] ? 2 : 1;
	if (flags & QUEUE_LANES && !all.n && strcmp(word, "all") == 0) {
		*ret = all;
		return 0;
	}
	if (!n[2] && n[1] != 1) {
		r = n[1] ? not_clear(word, &all, n[1], e) : nothing_found(sp, word, &all, flags, e);
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

/* ---- beside other commands ---- */

#define LOOK_US	    2000
#define LOOK_MAX_US 50000

void queue_pause(int look)
{
	unsigned int us = LOOK_US << (look < 8 ? look : 8);

	(void)usleep(us < LOOK_MAX_US ? us : LOOK_MAX_US);
}

int queue_changes_now(const struct task_name *n, struct err *e)
{
	return err_set(e, -EAGAIN,
		       "task %" PRIu64 " (%s) is being changed by another command; try again%s",
		       n->id, n->name,
		       n->flags & NAME_EDITED ? ", in a minute if that one was interrupted" : "");
}

static int by_task(const void *a, const void *b)
{
	const struct task_name *x = &((const struct scan_task *)a)->name,
			       *y = &((const struct scan_task *)b)->name;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->element > y->element) - (x->element < y->element);
}

/* As they are called now, without those that are not there any more. */
static int look_again(const struct spool *sp, struct queue_match *m, struct err *e)
{
	struct queue_match all;
	size_t n = 0;
	int r = queue_all(sp, &all, e);

	if (r < 0)
		return r;
	qsort(m->tasks, m->n, sizeof(*m->tasks), by_task);
	for (size_t i = 0; i < all.n; i++)
		if (bsearch(&all.tasks[i], m->tasks, m->n, sizeof(*m->tasks), by_task))
			all.tasks[n++] = all.tasks[i];
	(void)memcpy(m->tasks, all.tasks, n * sizeof(*m->tasks));
	m->n = n;
	free(all.tasks);
	return 0;
}

int queue_change(const struct spool *sp, struct queue_match *m, queue_change_fn fn, void *data,
		 struct err *e)
{
	uint64_t patience_ms = QUEUE_HELD_MS;
	struct task_name held = { .id = 0 };
	int r = 0;

	for (int look = 0; m->n && r >= 0; look++) {
		size_t left = 0;

		for (size_t i = 0; i < m->n && r >= 0; i++) {
			struct scan_task *t = &m->tasks[i];

			r = t->dir == SPOOL_PENDING
				    ? transit_await(sp, &t->name, (unsigned int)patience_ms, e)
				    : 0;
			if (r == TRANSIT_HELD) {
				held = t->name;
				patience_ms = 0;
				continue;
			}
			r = r == 0 ? fn(data, t, e) : r;
			if (r == TRANSIT_GONE)
				m->tasks[left++] = *t;
		}
		m->n = left;
		if (r < 0 || !left)
			break;
		if (look == QUEUE_LOOKS)
			return queue_changes_now(&m->tasks[0].name, e);
		queue_pause(look);
		r = look_again(sp, m, e);
	}
	return r >= 0 && held.id ? queue_changes_now(&held, e) : r < 0 ? r : 0;
}

const char *queue_state(const struct task_name *n, enum spool_dir dir)
{
	return dir == SPOOL_PENDING && n->flags & NAME_PAUSED ? "paused" : spool_dir_name(dir);
}

/* ---- one task, wherever it is ---- */

static int find_active(const struct spool *sp, const char *word, struct queue_place *ret,
		       struct err *e)
{
	struct queue_match m;
	uint64_t id, element;
	char file[NAME_FILE_MAX];
	int r = queue_find(sp, word, QUEUE_ENDED_TOO, &m, e);

	if (r < 0)
		return r;
	if (m.n > 1 && ident_parse_id(word, &id, &element) < 0) {
		r = not_clear(word, &m, m.n, e);
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

static int locate_id(const struct spool *sp, uint64_t id, uint64_t element, struct queue_place *ret,
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

static int locate(const struct spool *sp, const char *typed, struct queue_place *ret, struct err *e)
{
	char name[SPEC_NAME_MAX + 1];
	const char *word = as_name(typed, name);
	struct search s = { .name = word, .ret = ret };
	uint64_t id, element;
	int r;

	*ret = (struct queue_place){ .element = 0 };
	if (strcmp(word, "all") == 0)
		return err_set(e, -EINVAL,
			       "one task is needed here, by its id or its name (tenure list shows "
			       "them all)");
	if (ident_parse_id(word, &id, &element) == 0)
		return locate_id(sp, id, element, ret, e);
	r = find_active(sp, word, ret, e);
	if (r == -ENOENT && find_ended(sp, &s, NULL) == 0)
		r = 0;
	return r;
}

/* Where it was looked for in vain before it was found is no error. */
static int tell_failure(int r, const struct err *inner, struct err *e)
{
	if (r < 0 && e)
		*e = *inner;
	return r;
}

int queue_locate_id(const struct spool *sp, uint64_t id, uint64_t element, struct queue_place *ret,
		    struct err *e)
{
	struct err inner = ERR_INIT;

	return tell_failure(locate_id(sp, id, element, ret, &inner), &inner, e);
}

int queue_locate(const struct spool *sp, const char *word, struct queue_place *ret, struct err *e)
{
	struct err inner = ERR_INIT;

	return tell_failure(locate(sp, word, ret, &inner), &inner, e);
}

int queue_with_task(const struct cmd_ctx *ctx, queue_task_fn fn, struct err *e)
{
	struct queue_place p;
	struct spool *sp = NULL;
	int r = queue_open(ctx, SPOOL_LOOK, &sp, e);

	if (r == 0)
		r = queue_locate(sp, opts_arg(ctx->opts, 0), &p, e);
	if (r == 0)
		r = fn(ctx, sp, &p, e);
	sp = spool_close(sp);
	return r;
}

int queue_element_state(const struct spool *sp, const struct queue_place *place, uint64_t element,
			struct err *e)
{
	struct batch *b = NULL;
	unsigned int attempts;
	uint64_t epoch;
	int r = batch_open(sp, &place->name, NULL, &b, e);

	if (r == 0)
		r = (int)batch_state(b, element, &epoch, &attempts);
	(void)batch_close(b);
	return r;
}

int queue_counts(const struct spool *sp, const struct task_name *batch,
		 const struct queue_match *active, struct batch_counts *ret, struct err *e)
{
	struct batch *b = NULL;
	int r = batch_open(sp, batch, NULL, &b, e);

	if (r < 0)
		return r;
	/* What runs comes first. */
	for (size_t i = 0; i < active->n && active->tasks[i].dir == SPOOL_RUNNING; i++)
		if (active->tasks[i].name.id == batch->id && active->tasks[i].name.element)
			batch_mark_running(b, active->tasks[i].name.element,
					   active->tasks[i].name.epoch);
	*ret = batch_counts(b);
	if (batch->ended_s) { /* stopped as a whole */
		ret->cancelled += ret->waiting;
		ret->waiting = 0;
	}
	(void)batch_close(b);
	return 0;
}

bool queue_has_begun(const struct spool *sp, const struct task_name *n, struct batch_counts *ret)
{
	struct queue_match active = { .n = 0 };
	bool read =
		queue_all(sp, &active, NULL) == 0 && queue_counts(sp, n, &active, ret, NULL) == 0;

	free(active.tasks);
	return read && ret->running + ret->done + ret->failed;
}

json_t *queue_counts_json(const struct batch_counts *n)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "waiting", (json_int_t)n->waiting, "running",
			 (json_int_t)n->running, "done", (json_int_t)n->done, "failed",
			 (json_int_t)n->failed, "cancelled", (json_int_t)n->cancelled);
}

void queue_agent_of(const struct spool *sp, const struct task_name *n,
		    char agent[NAME_AGENT_MAX + 1])
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	cleanup_free char *text = NULL;
	struct task_history h = { .claimed = false };
	size_t len;

	(void)str_copy(agent, NAME_AGENT_MAX + 1, n->agent);
	(void)spool_path(SPOOL_RUNNING, name_format(n, file), path);
	if (agent[0] || spool_read(sp, path, SPEC_TEXT_MAX, &text, &len, NULL) < 0)
		return;
	history_read(text, len, &h, NULL);
	if (h.claimed)
		(void)str_copy(agent, NAME_AGENT_MAX + 1, h.claimer.agent);
}

char *queue_format_id(uint64_t id, uint64_t element, char buf[QUEUE_ID_MAX])
{
	if (element)
		return str_print(buf, QUEUE_ID_MAX, "%" PRIu64 ".%" PRIu64, id, element);
	return str_print(buf, QUEUE_ID_MAX, "%" PRIu64, id);
}
