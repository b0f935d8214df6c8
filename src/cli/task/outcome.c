/* SPDX-License-Identifier: MIT */
#include "cli/task/outcome.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "cli/task/select.h"
#include "spool/instance.h"
#include "spool/transit.h"

void outcome_say(struct outcome *s, unsigned int dirs, const char *fmt, ...)
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

	cmd_warn("warning", "%s; %s", why.text, happened);
	return r;
}

int outcome_tell_made(const uint64_t *ids, size_t n, int r, struct err *e)
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

/* "it is done all the same: 42 train.sh is requeued (and 3 more)" */
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

int outcome_commit(const struct spool *sp, struct outcome *s, int r, struct err *e)
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

#define LOOK_US	    2000
#define LOOK_MAX_US 50000

void change_pause(int look)
{
	unsigned int us = LOOK_US << (look < 8 ? look : 8);

	(void)usleep(us < LOOK_MAX_US ? us : LOOK_MAX_US);
}

int change_busy(const struct task_name *n, struct err *e)
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
static int look_again(const struct spool *sp, struct task_set *m, struct err *e)
{
	struct task_set all;
	size_t n = 0;
	int r = select_all(sp, &all, e);

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

int change_each(const struct spool *sp, struct task_set *m, change_each_fn fn, void *data,
		struct err *e)
{
	uint64_t patience_ms = CHANGE_HELD_MS;
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
		if (look == CHANGE_LOOKS)
			return change_busy(&m->tasks[0].name, e);
		change_pause(look);
		r = look_again(sp, m, e);
	}
	return r >= 0 && held.id ? change_busy(&held, e) : r < 0 ? r : 0;
}

int change_words(const struct spool *sp, const struct opts *opts, size_t first, change_word_fn fn,
		 void *data, struct err *e)
{
	char id[SELECT_ID_MAX];
	int ret = 0;

	for (size_t i = first; i < opts_argc(opts); i++) {
		struct err one = ERR_INIT;
		const char *word = opts_arg(opts, i);
		int r;

		word = sp ? select_take_last(sp, word, id, &one) : word;
		r = word ? fn(data, word, &one) : -ENOENT;

		if (r == 0)
			continue;
		if (ret)
			(void)cmd_fail(CMD_FAILED, e->text);
		*e = one;
		ret = ret ? ret : r;
	}
	return ret;
}
