/* SPDX-License-Identifier: MIT */
#include "spool/lanes.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/own.h"
#include "spool/record.h"
#include "spool/spec.h"

#define LANE_FILE_MAX 4096

static char *path_of(const char *lane, char path[SPOOL_PATH_MAX])
{
	return spool_path(SPOOL_LANES, lane, path);
}

int lane_pause(const struct spool *sp, const char *lane, const char *reason, struct err *e)
{
	char path[SPOOL_PATH_MAX], tmp[SPOOL_PATH_MAX];
	cleanup_free char *line = record_line(
		json_pack("{s:s, s:f}", "paused", reason, "time", record_seconds(clock_wall_ns())));
	int r;

	(void)str_print(tmp, sizeof(tmp), "tmp/lane-%.64s-%.40s-%d", lane, sp->host, (int)getpid());
	(void)spool_unlink(sp, tmp, NULL);
	r = spool_write_new(sp, tmp, line, strlen(line), true, e);
	return r == 0 ? spool_rename(sp, tmp, path_of(lane, path), e) : r;
}

int lane_resume(const struct spool *sp, const char *lane, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	int r;

	if (!lane_is_paused(sp, lane))
		return err_set(e, -ENOENT, "lane \"%s\" is not paused", lane);
	r = spool_unlink(sp, path_of(lane, path), e);
	/* A client of a file server remembers that it was not there; what it put there it finds. */
	if (r == -EIO && lane_pause(sp, lane, "is being resumed", NULL) == 0)
		r = spool_unlink(sp, path, e);
	return r;
}

bool lane_is_paused(const struct spool *sp, const char *lane)
{
	char path[SPOOL_PATH_MAX];

	return spec_is_task_name(lane) && !spool_is_gone(sp, path_of(lane, path));
}

char *lane_reason(const struct spool *sp, const char *lane)
{
	char path[SPOOL_PATH_MAX];
	cleanup_free char *text = NULL;
	struct err e = ERR_INIT;
	const char *reason;
	size_t len;
	json_t *o;
	char *copy;
	int r = spool_read(sp, path_of(lane, path), LANE_FILE_MAX, &text, &len, &e);

	r = spool_confirm(sp, path, r, &e);
	if (r == -ENOENT || spool_is_bad(r)) /* a link, or of somebody else: counts for nothing */
		return NULL;
	if (r < 0) /* it is there all the same, and that is what pauses */
		return xasprintf("why cannot be read: %s", e.text);
	o = json_loadb(text, len, 0, NULL);
	reason = json_string_value(json_object_get(o, "paused"));
	copy = xstrdup(reason && reason[0] ? reason : "no reason is given");
	json_decref(o);
	return copy;
}

struct each {
	lane_fn fn;
	void *data;
};

static int each_one(void *data, const char *file, unsigned char type)
{
	const struct each *each = data;

	return spec_is_task_name(file) ? each->fn(each->data, file) : 0;
}

int lanes_paused(const struct spool *sp, lane_fn fn, void *data, struct err *e)
{
	struct each each = { fn, data };
	int r = spool_each(sp, spool_dir_name(SPOOL_LANES), each_one, &each, e);

	return r == -ENOENT ? 0 : r;
}
