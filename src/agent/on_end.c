/* SPDX-License-Identifier: MIT */
#include "agent/on_end.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/report/subcommand.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "spool/on_end.h"
#include "task/on_end_run.h"

#define AT_ONCE	   2
#define SOON_MS	   1000
#define SETTLE_MS  10000 /* between two looks at what others have left */
#define SPARE_MS   15000 /* to end what its limit ends, and then it is not waited for any more */
#define LIBRARIES  "LD_LIBRARY_PATH"
#define NUMBER_MAX 24

struct running {
	struct on_end *o;
	struct subcommand *process; /* NULL: this place is free */
};

struct on_end {
	struct dispatch *q;
	uv_timer_t timer;
	struct running running[AT_ONCE];
	size_t n_running;
	uint64_t settled_ns; /* monotonic; 0: not yet */
	size_t left;	     /* due, as of the last look */
	bool looking, again, started, stopped;
};

struct begun {
	char *file, *title;
	int job, log, dir; /* as its standard input, its log and 3 */
};

struct look {
	struct spool_job job;
	struct on_end *o;
	uint64_t limit_ms;
	bool settle, settled;
	size_t room, n, left;
	struct begun begun[AT_ONCE];
	struct strbuf notes;
};

/* ---- on the spooler's thread ---- */

static int job_file(const char *text)
{
	int fd = memfd_create("tenure-on-end", MFD_CLOEXEC);

	if (fd >= 0 && (fs_write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0))
		fd = fd_close(fd);
	return fd;
}

/* One that cannot be prepared is told, and stays as one that was begun. */
static void prepare(struct look *l, const struct spool *sp, struct on_end_begun *b)
{
	struct begun *ret = &l->begun[l->n++];
	struct err e = ERR_INIT;

	*ret = (struct begun){
		.file = xstrdup(b->file),
		.title = xstrdup(b->title),
		.job = job_file(b->text),
		.log = spool_open_own(sp, b->log, O_RDWR | O_APPEND | O_CREAT, NULL, &e),
		.dir = spool_openat(sp, spool_dir_name(SPOOL_ON_END), O_PATH | O_DIRECTORY),
	};
	if (ret->log < 0)
		strbuf_addf(&l->notes,
			    "%s: what the command that follows its end prints is lost: %s\n",
			    b->title, e.text);
	on_end_begun_clear(b);
}

static void look_work(struct spool_job *job, struct spool_place *p)
{
	struct look *l = (struct look *)job;
	struct on_end_by by = p->on_end;
	struct on_end_begun b;
	struct err e = ERR_INIT;
	int r = 1;

	by.limit_ms = l->limit_ms;
	if (!p->spool || !p->scan)
		return;
	if (l->settle && scan_was_read(p->scan)) {
		l->settled = true;
		r = on_end_settle(p->spool, &by, p->scan, &l->notes, &e) < 0 ? -1 : 1;
	}
	while (r > 0 && l->n < l->room) {
		r = on_end_begin(p->spool, &by, &b, &l->left, &e);
		if (r > 0)
			prepare(l, p->spool, &b);
	}
	if (r < 0)
		strbuf_addf(&l->notes, "the commands that follow the ends of tasks: %s\n", e.text);
}

/* ---- on the loop ---- */

static void look_soon(struct on_end *o, uint64_t ms);

static void on_done(void *user)
{
	struct running *r = user;
	struct on_end *o = r->o;

	r->process = NULL;
	o->n_running--;
	on_end_look(o);
	o->q->ops->over(o->q->user);
}

static void start(struct on_end *o, struct begun *b)
{
	const struct subcommand_place *place = &o->q->sweeping.run;
	uint64_t limit_ms = o->q->c->on_end_limit_ms;
	struct text_list words = { .n = 0 }, env = text_list_copy(&o->q->place.login.env);
	struct running *free_one = o->running;

	while (free_one->process)
		free_one++;
	text_list_add(&words, ON_END_VERB);
	text_list_add(&words, b->file);
	text_list_take(&words, xasprintf("%llu", (unsigned long long)limit_ms));
	text_list_take(&words, xasprintf("%llu", (unsigned long long)o->q->c->log_limit));
	if (getenv(LIBRARIES)) /* by which the program finds its own */
		text_list_take(&env, xasprintf(LIBRARIES "=%s", getenv(LIBRARIES)));
	text_list_take(&env, NULL);
	free_one->process = subcommand_start_with(
		place, &words, &(struct subcommand_files){ b->job, b->log, b->dir, env.texts },
		(unsigned int)(limit_ms + SPARE_MS), on_done, free_one);
	o->n_running += free_one->process != NULL;
	text_list_clear(&words);
	text_list_clear(&env);
}

static void end_begun(struct on_end *o, struct begun *b)
{
	free(b->file);
	free(b->title);
	(void)fd_close(b->job);
	(void)spooler_close_fd(o->q->spooler, b->log);
	(void)spooler_close_fd(o->q->spooler, b->dir);
}

static void look_done(struct spool_job *job)
{
	struct look *l = (struct look *)job;
	struct on_end *o = l->o;

	o->looking = false;
	o->left = l->left;
	if (l->settled)
		o->settled_ns = clock_mono_ns();
	eventlog_say_lines(o->q->place.eventlog, LOG_LEVEL_WARNING, strbuf_str(&l->notes));
	for (size_t i = 0; i < l->n; i++) {
		start(o, &l->begun[i]); /* also while the agent ends: nobody else will */
		end_begun(o, &l->begun[i]);
	}
	strbuf_clear(&l->notes);
	free(l);
	if (o->again)
		on_end_look(o);
	else
		o->q->ops->over(o->q->user);
}

static bool is_time_to_settle(const struct on_end *o)
{
	return o->started &&
	       (!o->settled_ns || clock_mono_ns() - o->settled_ns >= SETTLE_MS * NS_PER_MS);
}

static void look(struct on_end *o)
{
	struct look *l;

	o->again = o->looking;
	if (o->stopped || o->looking || (o->n_running == AT_ONCE && !is_time_to_settle(o)))
		return;
	l = xcalloc(1, sizeof(*l));
	*l = (struct look){ .job = { .work = look_work, .done = look_done },
			    .o = o,
			    .limit_ms = o->q->c->on_end_limit_ms,
			    .settle = is_time_to_settle(o),
			    .room = AT_ONCE - o->n_running,
			    .notes = STRBUF_INIT };
	o->looking = true;
	spooler_do(o->q->spooler, &l->job);
}

static void on_timer(uv_timer_t *timer)
{
	struct on_end *o = timer->data;

	look(o);
	look_soon(o, o->settled_ns ? SETTLE_MS : SOON_MS);
}

static void look_soon(struct on_end *o, uint64_t ms)
{
	if (o->started && !o->stopped)
		(void)uv_timer_start(&o->timer, on_timer, ms, 0);
}

void on_end_look(struct on_end *o)
{
	look(o);
	look_soon(o, SOON_MS);
}

void on_end_start(struct on_end *o)
{
	o->started = true;
	look_soon(o, 0);
}

bool on_end_is_busy(const struct on_end *o)
{
	return o->n_running || o->left || o->looking;
}

struct on_end *on_end_new(struct dispatch *q)
{
	struct on_end *o = xcalloc(1, sizeof(*o));

	o->q = q;
	for (size_t i = 0; i < AT_ONCE; i++)
		o->running[i].o = o;
	(void)uv_timer_init(q->loop, &o->timer);
	o->timer.data = o;
	return o;
}

void on_end_stop(struct on_end *o)
{
	o->stopped = true;
	(void)uv_timer_stop(&o->timer);
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void on_end_free(struct on_end *o)
{
	for (size_t i = 0; i < AT_ONCE; i++)
		o->running[i].process = subcommand_leave(o->running[i].process);
	uv_close((uv_handle_t *)&o->timer, on_closed);
}
