/* SPDX-License-Identifier: MIT */
#include "spool/events.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define EVENTS_SUFFIX ".tasks.jsonl"
#define EVENTS_MAX    (256UL << 20)

struct events {
	const struct spool *sp;
	int fd;
	bool dirty;
	char path[SPOOL_PATH_MAX];
};

int events_open(const struct spool *sp, const char *agent, struct events **ret, struct err *e)
{
	struct events *ev = xcalloc(1, sizeof(*ev));

	ev->sp = sp;
	(void)str_print(ev->path, sizeof(ev->path), "events/%s" EVENTS_SUFFIX, agent);
	ev->fd = openat(sp->fd, ev->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			0600);
	if (ev->fd < 0) {
		int r = err_sys(e, errno, "open %s/%s", sp->path, ev->path);

		free(ev);
		return r;
	}
	*ret = ev;
	/* Its name must not get lost with what fdatasync() made durable in it. */
	return spool_sync(sp, "events", e);
}

struct events *events_close(struct events *ev)
{
	if (!ev)
		return NULL;
	(void)fd_close(ev->fd);
	free(ev);
	return NULL;
}

static int add(struct events *ev, json_t *record, uint64_t id, uint64_t element, struct err *e)
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
	return 0;
}

int events_add_end(struct events *ev, uint64_t id, uint64_t element, const struct spool_end *end,
		   struct err *e)
{
	return add(ev, record_end(end), id, element, e);
}

int events_add_requeue(struct events *ev, uint64_t id, uint64_t element, uint64_t epoch,
		       const struct spool_again *again, struct err *e)
{
	return add(ev, record_requeue(again, epoch, clock_wall_ns()), id, element, e);
}

int events_sync(struct events *ev, struct err *e)
{
	if (!ev->dirty)
		return 0;
	if (fdatasync(ev->fd) < 0)
		return err_sys(e, errno, "sync %s/%s", ev->sp->path, ev->path);
	ev->dirty = false;
	return 0;
}

int events_checkpoint(struct events *ev, struct err *e)
{
	/* The renames and records that the lines stand for. */
	if (syncfs(ev->sp->fd) < 0)
		return err_sys(e, errno, "sync %s", ev->sp->path);
	if (ftruncate(ev->fd, 0) < 0)
		return err_sys(e, errno, "empty %s/%s", ev->sp->path, ev->path);
	ev->dirty = true;
	return events_sync(ev, e);
}

static bool event_from_json(const struct spool *sp, const json_t *o, struct event *ret)
{
	const char *boot = json_string_value(json_object_get(o, "boot"));
	const char *what = json_string_value(json_object_get(o, "event"));
	struct event ev = { .id = (uint64_t)json_integer_value(json_object_get(o, "id")),
			    .element =
				    (uint64_t)json_integer_value(json_object_get(o, "element")) };

	if (!boot || !what || strcmp(boot, sp->boot) == 0 || !ev.id)
		return false;
	ev.requeue = strcmp(what, "requeue") == 0;
	ev.epoch = (uint64_t)json_integer_value(json_object_get(o, "epoch"));
	again_from_json(o, &ev.again);
	if (!ev.requeue && !end_from_json(o, &ev.end))
		return false;
	*ret = ev;
	return true;
}

struct reading {
	const struct spool *sp;
	event_fn fn;
	void *data;
	struct err *e;
};

static int read_file(void *data, const char *file, unsigned char type)
{
	const struct reading *rd = data;
	size_t n = strlen(file), suffix = strlen(EVENTS_SUFFIX), len;
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;

	if (n <= suffix || strcmp(file + n - suffix, EVENTS_SUFFIX) != 0)
		return 0;

	int r = spool_read(rd->sp, spool_path(SPOOL_EVENTS, file, path), EVENTS_MAX, &text, &len,
			   rd->e);

	if (r < 0)
		return r == -ENOENT || r == -EPERM ? 0 : r;
	for (char *line = text, *end = text + len; line < end;) {
		char *stop = memchr(line, '\n', (size_t)(end - line));
		size_t size = (size_t)((stop ? stop : end) - line);
		json_t *o = json_loadb(line, size, 0, NULL);
		struct event ev;

		if (o && event_from_json(rd->sp, o, &ev))
			rd->fn(rd->data, &ev);
		json_decref(o);
		line += size + 1;
	}
	return 0;
}

int events_read_old(const struct spool *sp, event_fn fn, void *data, struct err *e)
{
	struct reading rd = { sp, fn, data, e };

	return spool_each(sp, "events", read_file, &rd, e);
}
