/* SPDX-License-Identifier: MIT */
#include "agent/report/agentlog.h"

#include <errno.h>
#include <libgen.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/report/joblogs.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define QUEUE_BYTES (1024UL * 1024) /* half an hour of a busy node */
#define GROUP_NS    (20 * NS_PER_MS)

/* -------- lines on their way -------- */

/*
 * Lines that are written off the loop's thread, because a home directory that hangs, or a terminal
 * that was stopped, must stop nothing else. The queue is bounded: while the writer does not come
 * back, what does not fit is counted, and the writer is told how many there were before the next
 * line.
 *
 * Lines come out in the order in which they went in. One job at a time is in the thread pool.
 */
struct outq_ops {
	/* On a pool thread: write one line (without the newline; line[len] is NUL). */
	void (*put)(void *user, unsigned int channel, const char *line, size_t len);
	/* On a pool thread: so many lines were lost because the queue was full. */
	void (*lost)(void *user, uint64_t lines);
	/* On a pool thread, after the last line: outq_close(). May be NULL. */
	void (*close)(void *user);
};

struct line {
	struct line *next;
	unsigned int channel;
	size_t len;
	char text[];
};

struct outq {
	uv_loop_t *loop;
	const struct outq_ops *ops;
	void *user;
	size_t max_bytes, bytes; /* waiting, not yet handed to the job */
	uint64_t lost, lost_unsaid;
	struct line *first, **last;
	/* The job's own while busy; the loop's thread keeps away. */
	bool busy, closing;
	uv_work_t work;
	struct line *batch;
	uint64_t batch_lost;
	bool batch_closes;
	uint64_t written_ns;
};

/* user must stay until outq_free() has returned 0. */
static struct outq *outq_new(uv_loop_t *loop, size_t max_bytes, const struct outq_ops *ops,
			     void *user)
{
	struct outq *q = xcalloc(1, sizeof(*q));

	q->loop = loop;
	q->ops = ops;
	q->user = user;
	q->max_bytes = max_bytes;
	q->last = &q->first;
	q->work.data = q;
	return q;
}

static void write_batch(uv_work_t *work)
{
	struct outq *q = work->data;

	if (q->batch_lost)
		q->ops->lost(q->user, q->batch_lost);
	for (struct line *l = q->batch; l; l = l->next)
		q->ops->put(q->user, l->channel, l->text, l->len);
	if (q->batch_closes) {
		q->ops->close(q->user);
		return;
	}
	/* Where lines come one after another the next ones are written together. */
	if (clock_mono_ns() - q->written_ns < GROUP_NS)
		(void)usleep(GROUP_NS / NS_PER_US);
	q->written_ns = clock_mono_ns();
}

static void free_lines(struct line *l)
{
	while (l) {
		struct line *next = l->next;

		free(l);
		l = next;
	}
}

static void start_batch(struct outq *q);

static void batch_done(uv_work_t *work, int status)
{
	struct outq *q = work->data;

	free_lines(take_ptr(q->batch));
	q->busy = false;
	if (q->first || (q->closing && !q->batch_closes))
		start_batch(q);
}

static void start_batch(struct outq *q)
{
	q->batch = q->first;
	q->batch_lost = q->lost_unsaid;
	q->batch_closes = q->closing;
	q->first = NULL;
	q->last = &q->first;
	q->bytes = 0;
	q->lost_unsaid = 0;
	q->busy = uv_queue_work(q->loop, &q->work, write_batch, batch_done) == 0;
}

static void outq_add(struct outq *q, unsigned int channel, const char *line, size_t len)
{
	if (q->bytes + len > q->max_bytes) {
		q->lost++;
		q->lost_unsaid++;
		return;
	}

	struct line *l = xmalloc(sizeof(*l) + len + 1);

	*l = (struct line){ .channel = channel, .len = len };
	(void)memcpy(l->text, line, len);
	l->text[len] = '\0';
	*q->last = l;
	q->last = &l->next;
	q->bytes += len;
	if (!q->busy)
		start_batch(q);
}

/* From now on what was opened for a line is closed again after it. */
static void outq_close(struct outq *q)
{
	q->closing = q->ops->close;
	if (q->closing && !q->busy)
		start_batch(q);
}

/* All has been written. The loop has to run for that. */
static bool outq_is_empty(const struct outq *q)
{
	return !q->busy && !q->first;
}

/* 0: freed. -EBUSY: the writer is in a write that hangs; nothing is freed then. */
static int outq_free(struct outq *q)
{
	if (q->busy)
		return -EBUSY;
	free_lines(q->first);
	free(q);
	return 0;
}

/* -------- what is written -------- */

enum channel { CHANNEL_LOG, CHANNEL_EVENTS, CHANNEL_MAX };
enum show_channel { CHANNEL_SHOW, CHANNEL_WARN };

/* Touched on the pool's thread only, one job at a time, except for what is atomic. */
struct file {
	char *path;
	struct log *log;
	_Atomic uint64_t lost;
};

struct agentlog {
	struct outq *files_q, *show_q;
	struct file files[CHANNEL_MAX];
	char *mark; /* in names of files of such jobs: "-slurm."; NULL: it is in none */
	enum log_level level;
	void (*show)(const char *line);
	void (*warn)(const char *line);
	uv_mutex_t lock; /* of trouble */
	char trouble[ERR_TEXT_MAX];
	char *tail[AGENTLOG_TAIL];
	size_t n_tail; /* lines ever added */
};

static int open_file(struct file *f, struct err *e)
{
	cleanup_free char *copy = xstrdup(f->path);
	int made = fs_mkdirs(dirname(copy), 0700, e);
	int opened = log_open(f->path, LOG_FILE_BYTES, LOG_FILES, &f->log, made < 0 ? NULL : e);

	return made < 0 ? made : opened;
}

/* The first reason stays: what follows is most likely the same. */
static void keep_trouble(struct agentlog *j, const char *text)
{
	uv_mutex_lock(&j->lock);
	if (!j->trouble[0])
		(void)str_copy(j->trouble, sizeof(j->trouble), text);
	uv_mutex_unlock(&j->lock);
}

static void prune_kin(const struct agentlog *j, const struct file *f)
{
	cleanup_free char *copy = xstrdup(f->path);

	joblogs_prune(dirname(copy), j->mark, JOBLOGS_KEPT, JOBLOGS_AGE_S);
}

/* Both, so that what is wrong with one is known when the agent has started. */
static void open_files(struct agentlog *j)
{
	for (size_t i = 0; i < CHANNEL_MAX; i++) {
		struct err e = ERR_INIT;

		if (open_file(&j->files[i], &e) < 0)
			keep_trouble(j, e.text);
		else if (j->mark)
			prune_kin(j, &j->files[i]);
	}
}

static void put_line(void *user, unsigned int channel, const char *line, size_t len)
{
	struct agentlog *j = user;
	struct file *f = &j->files[channel];

	if (!f->log)
		open_files(j);

	uint64_t before = log_dropped(f->log);

	log_line(f->log, line, len);
	if (log_dropped(f->log) > before) {
		struct err e;

		atomic_fetch_add(&f->lost, 1);
		(void)err_sys(&e, log_drop_errno(f->log), "write %s", f->path);
		keep_trouble(j, e.text);
	}
}

static void put_lost(void *user, uint64_t lines)
{
	char time[CLOCK_TEXT_MAX];
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	strbuf_addf(&b, "%s warning %llu lines are missing here: the disk did not answer",
		    clock_format_iso(clock_wall_ns(), time), (unsigned long long)lines);
	put_line(user, CHANNEL_LOG, b.data, b.len);
}

static void close_files(void *user)
{
	struct agentlog *j = user;

	for (size_t i = 0; i < CHANNEL_MAX; i++)
		j->files[i].log = log_close(j->files[i].log);
}

static void show_line(void *user, unsigned int channel, const char *line, size_t len)
{
	struct agentlog *j = user;

	(channel == CHANNEL_WARN ? j->warn : j->show)(line);
}

static void show_lost(void *user, uint64_t lines)
{
	struct agentlog *j = user;
	cleanup_free char *text =
		xasprintf("(%llu lines are not shown)", (unsigned long long)lines);

	(j->show ? j->show : j->warn)(text);
}

struct agentlog *agentlog_new(uv_loop_t *loop, const struct agentlog_config *c)
{
	static const struct outq_ops file_ops = { .put = put_line,
						  .lost = put_lost,
						  .close = close_files };
	static const struct outq_ops show_ops = { .put = show_line, .lost = show_lost };
	struct agentlog *j = xcalloc(1, sizeof(*j));

	j->level = c->level;
	if (c->job)
		j->mark = xasprintf("-%.*s.", (int)strcspn(c->job, "."), c->job);
	j->show = c->show;
	j->warn = c->warn;
	if (uv_mutex_init(&j->lock) != 0)
		abort();
	j->files[CHANNEL_LOG].path =
		xasprintf("%s/%s/logs/agent-%s.log", c->state_dir, c->instance, c->host);
	j->files[CHANNEL_EVENTS].path =
		xasprintf("%s/%s/events/%s.jsonl", c->state_dir, c->instance, c->host);
	j->files_q = outq_new(loop, QUEUE_BYTES, &file_ops, j);
	j->show_q = outq_new(loop, QUEUE_BYTES, &show_ops, j);
	return j;
}

/* Takes the line over. */
static void keep_in_tail(struct agentlog *j, char *line)
{
	char **slot = &j->tail[j->n_tail++ % AGENTLOG_TAIL];

	free(*slot);
	*slot = line;
}

void agentlog_log(struct agentlog *j, enum log_level level, const char *fmt, ...)
{
	char time[CLOCK_TEXT_MAX];
	struct strbuf b = STRBUF_INIT;
	va_list ap;

	if (level > j->level)
		return;
	strbuf_addf(&b, "%s %s ", clock_format_iso(clock_wall_ns(), time), log_level_name(level));

	size_t start = b.len;

	va_start(ap, fmt);
	strbuf_addv(&b, fmt, ap);
	va_end(ap);
	/* What others wrote (a process's name) must not forge a line. */
	b.len = start + strlen(utf8_clean(b.data + start));
	outq_add(j->files_q, CHANNEL_LOG, b.data, b.len);
	keep_in_tail(j, strbuf_take(&b));
}

void agentlog_event(struct agentlog *j, const char *line)
{
	outq_add(j->files_q, CHANNEL_EVENTS, line, strlen(line));
}

void agentlog_show(struct agentlog *j, const char *line)
{
	if (j->show)
		outq_add(j->show_q, CHANNEL_SHOW, line, strlen(line));
}

void agentlog_warn(struct agentlog *j, const char *line)
{
	if (j->warn)
		outq_add(j->show_q, CHANNEL_WARN, line, strlen(line));
}

const char *agentlog_log_path(const struct agentlog *j)
{
	return j->files[CHANNEL_LOG].path;
}

const char *agentlog_event_path(const struct agentlog *j)
{
	return j->files[CHANNEL_EVENTS].path;
}

const char *agentlog_tail(const struct agentlog *j, size_t i)
{
	size_t n = j->n_tail < AGENTLOG_TAIL ? j->n_tail : AGENTLOG_TAIL;

	return i < n ? j->tail[(j->n_tail - n + i) % AGENTLOG_TAIL] : NULL;
}

uint64_t agentlog_lost(const struct agentlog *j)
{
	uint64_t n = j->files_q->lost;

	for (size_t i = 0; i < CHANNEL_MAX; i++)
		n += atomic_load(&j->files[i].lost);
	return n;
}

char *agentlog_trouble(struct agentlog *j, char *buf, size_t size)
{
	uv_mutex_lock(&j->lock);
	(void)str_copy(buf, size, j->trouble);
	uv_mutex_unlock(&j->lock);
	return buf;
}

bool agentlog_is_flushed(const struct agentlog *j)
{
	return outq_is_empty(j->files_q) && outq_is_empty(j->show_q);
}

void agentlog_close(struct agentlog *j)
{
	outq_close(j->files_q);
}

int agentlog_free(struct agentlog *j)
{
	if (!j)
		return 0;
	if (!agentlog_is_flushed(j))
		return -EBUSY;
	(void)outq_free(j->files_q);
	(void)outq_free(j->show_q);
	free(j->mark);
	for (size_t i = 0; i < CHANNEL_MAX; i++)
		free(j->files[i].path);
	for (size_t i = 0; i < AGENTLOG_TAIL; i++)
		free(j->tail[i]);
	uv_mutex_destroy(&j->lock);
	free(j);
	return 0;
}
