/* SPDX-License-Identifier: MIT */
#include "spool/endlog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "spool/files.h"
#include "spool/own.h"

#define REWRITE_BYTES 65536
#define ENDLOG_MANY   (4 << 20) /* 20,000 lines; a syncfs per so many ends costs little */

struct endlog {
	const struct spool *sp;
	int fd;
	bool dirty;
	bool written_again_first; /* a sync failed, and may have taken what it did not write */
	bool appended;		  /* and what is known of that was added once more */
	off_t synced;		  /* so far the file is on the disk, ... */
	struct strbuf unsynced;	  /* ... and this is behind it, as long as it is not too much */
	bool unnamed;		  /* that the file is there is not on the disk yet */
	bool recovered;		  /* what was there at endlog_open() is */
	bool old;		  /* there is something of before endlog_open() */
	off_t size;
	uint64_t last_part; /* the highest number of one, or 0 */
	char agent[NAME_AGENT_MAX + 1];
	char path[SPOOL_PATH_MAX];
};

static char *part_path(const struct endlog *ev, uint64_t part, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "events/%s,%" PRIu64 ENDLOG_SUFFIX, ev->agent, part);
}

/* The number of a part of ours; 0: another file. */
static uint64_t part_of(const struct endlog *ev, const char *file)
{
	char path[SPOOL_PATH_MAX], again[SPOOL_PATH_MAX];
	size_t len = strlen(ev->agent);
	uint64_t part;

	if (strncmp(file, ev->agent, len) != 0 || file[len] != ',' ||
	    sscanf(file + len + 1, "%" SCNu64, &part) != 1 || part > INT64_MAX)
		return 0;
	(void)spool_path(SPOOL_EVENTS, file, path);
	return strcmp(part_path(ev, part, again), path) == 0 ? part : 0;
}

static int find_last(void *data, const char *file, unsigned char type)
{
	struct endlog *ev = data;
	uint64_t part = part_of(ev, file);

	ev->last_part = part > ev->last_part ? part : ev->last_part;
	return 0;
}

/* A power loss must not take the name of a file whose content fdatasync() has made durable. */
static int sync_name(struct endlog *ev, struct err *e)
{
	int r = ev->unnamed ? spool_sync(ev->sp, "events", e) : 0;

	ev->unnamed = ev->unnamed && r < 0;
	return r;
}

int endlog_open(const struct spool *sp, const char *agent, struct endlog **ret, struct err *e)
{
	struct endlog *ev = xcalloc(1, sizeof(*ev));
	struct stat st = { .st_size = 0 };
	int r;

	ev->sp = sp;
	ev->fd = -1;
	ev->unnamed = true;
	(void)str_copy(ev->agent, sizeof(ev->agent), agent);
	(void)str_print(ev->path, sizeof(ev->path), "events/%s" ENDLOG_SUFFIX, agent);
	r = spool_each(sp, "events", find_last, ev, e);
	if (r == 0)
		r = ev->fd = spool_open_own(sp, ev->path, O_RDWR | O_APPEND | O_CREAT, &st, e);
	if (r >= 0)
		r = sync_name(ev, e);
	if (r < 0) {
		(void)endlog_close(ev);
		return r;
	}
	ev->size = ev->synced = st.st_size;
	ev->old = ev->size || ev->last_part;
	ev->recovered = !ev->old;
	*ret = ev;
	return 0;
}

struct endlog *endlog_close(struct endlog *ev)
{
	if (!ev)
		return NULL;
	if (ev->fd >= 0)
		(void)fd_close(ev->fd);
	strbuf_clear(&ev->unsynced);
	free(ev);
	return NULL;
}

static int add(struct endlog *ev, json_t *record, uint64_t id, uint64_t element, struct err *e)
{
	(void)json_object_set_new(record, "id", json_integer((json_int_t)id));
	if (element)
		(void)json_object_set_new(record, "element", json_integer((json_int_t)element));
	(void)json_object_set_new(record, "boot", json_string(ev->sp->boot));

	cleanup_free char *line = record_line(record);
	int r = spool_append(ev->fd, line, strlen(line));

	if (r < 0)
		return err_sys(e, -r, "append to %s/%s", ev->sp->path, ev->path);
	ev->dirty = true;
	ev->size += (off_t)strlen(line);
	if (ev->unsynced.len < ENDLOG_MANY)
		strbuf_adds(&ev->unsynced, line);
	return 0;
}

int endlog_add_end(struct endlog *ev, uint64_t id, uint64_t element, const struct spool_end *end,
		   struct err *e)
{
	return add(ev, record_end(end), id, element, e);
}

int endlog_add_requeue(struct endlog *ev, uint64_t id, uint64_t element, uint64_t epoch,
		       const struct spool_again *again, struct err *e)
{
	return add(ev, record_requeue(again, epoch, clock_wall_ns()), id, element, e);
}

/* From there to the end, as it can be read. */
static int write_as_read(int fd, off_t at)
{
	cleanup_free char *buf = xmalloc(REWRITE_BYTES);
	ssize_t n;

	while ((n = pread(fd, buf, REWRITE_BYTES, at)) > 0) {
		if (pwrite(fd, buf, (size_t)n, at) != n)
			return errno ? -errno : -ENOSPC;
		at += n;
	}
	return n < 0 ? -errno : 0;
}

/* After a failed sync the kernel takes the pages for clean, and the next sync would succeed
 * without them. So the same bytes are written once more. */
static int write_again(struct endlog *ev)
{
	cleanup_fd int fd = spool_open_file(ev->sp, ev->path, O_RDWR, NULL, NULL);
	const struct strbuf *b = &ev->unsynced;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	if (st.st_size == ev->synced + (off_t)b->len) {
		n = pwrite(fd, strbuf_str(b), b->len, ev->synced);
		return n < 0 ? -errno : (size_t)n < b->len ? -ENOSPC : 0;
	}

	/* Where half a line was written, or more than is kept, the file is written as it can
	 * be read, and what is known is appended once more: a reader takes the same line twice
	 * for one. */
	int r = write_as_read(fd, ev->synced);

	if (r == 0 && !ev->appended)
		r = spool_append(ev->fd, strbuf_str(b), b->len);
	ev->appended = ev->appended || r == 0;
	return r;
}

static int sync_lines(struct endlog *ev)
{
	int r = ev->written_again_first ? write_again(ev) : 0;

	if (r == 0 && fdatasync(ev->fd) < 0)
		r = -errno;
	ev->written_again_first = r < 0;
	return r;
}

int endlog_sync(struct endlog *ev, struct err *e)
{
	struct stat st;
	int r;

	if (!ev->dirty)
		return 0;
	r = sync_lines(ev);
	if (r < 0)
		return err_sys(e, -r, "sync %s/%s", ev->sp->path, ev->path);
	if (sync_name(ev, e) < 0)
		return -EIO;
	ev->dirty = ev->appended = false;
	if (fstat(ev->fd, &st) == 0)
		ev->size = st.st_size;
	ev->synced = ev->size;
	strbuf_clear(&ev->unsynced);
	return 0;
}

void endlog_recovered(struct endlog *ev)
{
	ev->recovered = true;
}

bool endlog_is_long(const struct endlog *ev)
{
	return ev->recovered && (ev->old || ev->size > ENDLOG_MANY);
}

int endlog_cut(struct endlog *ev, uint64_t *ret_part, struct err *e)
{
	uint64_t part = ev->last_part + 1;
	char to[SPOOL_PATH_MAX];
	int fd, r;

	if (!ev->recovered || (!ev->size && !ev->old))
		return ENDLOG_KEPT;
	/* Nothing of what went into the part has to be synced later. */
	r = endlog_sync(ev, e);
	if (r == 0)
		r = spool_rename(ev->sp, ev->path, part_path(ev, part, to), e);
	if (r < 0 && r != -ENOENT) /* as an attempt before left it */
		return r;
	fd = spool_open_file(ev->sp, ev->path, O_RDWR | O_APPEND | O_CREAT | O_EXCL, NULL, e);
	if (fd < 0) {
		(void)spool_rename(ev->sp, to, ev->path, NULL);
		return fd;
	}
	(void)fd_close(ev->fd);
	ev->fd = fd;
	ev->unnamed = true;
	ev->size = ev->synced = 0;
	ev->old = false;
	ev->last_part = *ret_part = part;
	return 0;
}

struct dropping {
	const struct endlog *ev;
	uint64_t part;
	struct err *e;
};

static int drop_part(void *data, const char *file, unsigned char type)
{
	const struct dropping *d = data;
	uint64_t part = part_of(d->ev, file);
	char path[SPOOL_PATH_MAX];

	return part && part <= d->part
		       ? spool_unlink(d->ev->sp, spool_path(SPOOL_EVENTS, file, path), d->e)
		       : 0;
}

int endlog_drop(struct endlog *ev, uint64_t part, struct err *e)
{
	struct dropping d = { ev, part, e };

	return spool_each(ev->sp, "events", drop_part, &d, e);
}

static bool event_from_json(const struct spool *sp, const json_t *o, struct endlog_line *ret)
{
	const char *boot = json_string_value(json_object_get(o, "boot"));
	const char *what = json_string_value(json_object_get(o, "event"));
	struct endlog_line ev = {
		.id = (uint64_t)json_integer_value(json_object_get(o, "id")),
		.element = (uint64_t)json_integer_value(json_object_get(o, "element")),
		.epoch = (uint64_t)json_integer_value(json_object_get(o, "epoch"))
	};

	if (!boot || !what || strcmp(boot, sp->boot) == 0 || !ev.id || ev.id > NAME_ID_MAX ||
	    ev.element > SPEC_ELEMENTS_MAX || ev.epoch > NAME_EPOCH_MAX)
		return false;
	ev.requeue = strcmp(what, "requeue") == 0;
	again_from_json(o, &ev.again);
	ev.noted_ns = record_ns(json_object_get(o, "time"));
	if (ev.requeue ? !ev.epoch : !end_from_json(o, &ev.end))
		return false;
	*ret = ev;
	return true;
}

struct reading {
	const struct spool *sp;
	endlog_line_fn fn;
	void *data;
	struct err *e;
};

static void read_line(void *data, const char *line, size_t len)
{
	const struct reading *rd = data;
	json_t *o = json_loadb(line, len, 0, NULL);
	struct endlog_line ev;

	if (o && event_from_json(rd->sp, o, &ev))
		rd->fn(rd->data, &ev);
	json_decref(o);
}

static int read_file(void *data, const char *file, unsigned char type)
{
	struct reading *rd = data;
	char path[SPOOL_PATH_MAX];
	off_t offset = 0;
	int r;

	if (!str_has_suffix(file, ENDLOG_SUFFIX))
		return 0;
	r = lines_read(rd->sp, spool_path(SPOOL_EVENTS, file, path), &offset, read_line, rd, rd->e);
	return r == -ENOENT || r == -EPERM || r == -EINVAL || r == -ELOOP ? 0 : r;
}

int endlog_read_old(const struct spool *sp, endlog_line_fn fn, void *data, struct err *e)
{
	struct reading rd = { sp, fn, data, e };

	return spool_each(sp, "events", read_file, &rd, e);
}
