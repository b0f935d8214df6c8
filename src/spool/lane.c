/* SPDX-License-Identifier: MIT */

/*
 * Who owns a lane: a file is never given to another owner: who takes a lane makes the file with the
 * next epoch, which only one can, looks whether somebody had gone on from there meanwhile (his view
 * may have been an old one), and removes the files below. A file that its owner released stays, for
 * its number.
 */

#include "spool/lane.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/heartbeat.h"
#include "spool/own.h"
#include "spool/record.h"

#define OWNER_FILE_MAX 256
#define PAUSE_FILE_MAX 4096
#define LANES_AT       strlen("lanes/") /* of a file in its path */
#define TRIES	       8

/* ---- paused ---- */

static char *pause_path(const char *lane, char path[SPOOL_PATH_MAX])
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
	return r == 0 ? spool_rename(sp, tmp, pause_path(lane, path), e) : r;
}

int lane_resume(const struct spool *sp, const char *lane, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	int r;

	if (!lane_is_paused(sp, lane))
		return err_set(e, -ENOENT, "lane \"%s\" is not paused", lane);
	r = spool_unlink(sp, pause_path(lane, path), e);
	/* A client of a file server may remember that no file was there; a file that it makes
	 * itself it finds. */
	if (r == -EIO && lane_pause(sp, lane, "is being resumed", NULL) == 0)
		r = spool_unlink(sp, path, e);
	return r;
}

bool lane_is_paused(const struct spool *sp, const char *lane)
{
	char path[SPOOL_PATH_MAX];

	return ident_is_task_name(lane) && !spool_is_gone(sp, pause_path(lane, path));
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
	int r = spool_read(sp, pause_path(lane, path), PAUSE_FILE_MAX, &text, &len, &e);

	r = spool_confirm(sp, path, r, &e);
	if (r == -ENOENT || spool_is_bad(r)) /* a link, or of somebody else: counts for nothing */
		return NULL;
	if (r < 0) /* the file is there all the same, which is what pauses the lane */
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

	return ident_is_task_name(file) ? each->fn(each->data, file) : 0;
}

int lanes_paused(const struct spool *sp, lane_fn fn, void *data, struct err *e)
{
	struct each each = { fn, data };
	int r = spool_each(sp, spool_dir_name(SPOOL_LANES), each_one, &each, e);

	return r == -ENOENT ? 0 : r;
}

/* ---- owned ---- */

char *lane_of_array(uint64_t id, char *buf)
{
	return str_print(buf, LANE_KEY_MAX, "%%%" PRIu64, id);
}

static char *lane_path(const char *key, uint64_t epoch, char *buf)
{
	return str_print(buf, SPOOL_PATH_MAX, "%s/%s,e%" PRIu64, spool_dir_name(SPOOL_LANES), key,
			 epoch);
}

/* Just as lane_path() writes it, or one would be found that cannot be opened, for ever. */
bool lane_file_parse(const char *file, char key[LANE_KEY_MAX], uint64_t *epoch)
{
	const char *comma = strrchr(file, ',');
	char path[SPOOL_PATH_MAX], again[SPOOL_PATH_MAX];

	if (!comma || comma[1] != 'e' || comma == file || (size_t)(comma - file) >= LANE_KEY_MAX)
		return false;
	(void)str_print(key, LANE_KEY_MAX, "%.*s", (int)(comma - file), file);
	return str_to_u64(comma + 2, epoch) == 0 && *epoch <= NAME_EPOCH_MAX &&
	       strcmp(lane_path(key, *epoch, again), spool_path(SPOOL_LANES, file, path)) == 0;
}

struct search {
	const char *key;
	uint64_t highest; /* LANE_NONE: there is none */
};

static int find_highest(void *data, const char *file, unsigned char type)
{
	struct search *s = data;
	char key[LANE_KEY_MAX];
	uint64_t epoch;

	if (lane_file_parse(file, key, &epoch) && strcmp(key, s->key) == 0 &&
	    (s->highest == LANE_NONE || epoch > s->highest))
		s->highest = epoch;
	return 0;
}

static int highest_of(const struct spool *sp, const char *key, uint64_t *ret, struct err *e)
{
	struct search s = { key, LANE_NONE };
	int r = spool_each(sp, spool_dir_name(SPOOL_LANES), find_highest, &s, e);

	*ret = s.highest;
	return r;
}

void lane_owner_parse(const char *text, size_t len, char ret[NAME_AGENT_MAX + 1])
{
	json_t *o = json_loadb(text, len, 0, NULL);
	const char *agent = json_string_value(json_object_get(o, "agent"));

	/* What is no name owns nothing. */
	(void)str_copy(ret, NAME_AGENT_MAX + 1,
		       agent && ident_is_name(agent) && strlen(agent) <= NAME_AGENT_MAX ? agent
											: "");
	json_decref(o);
}

/* 0 with the owner, "" when it is free; negative. */
static int read_owner(const struct spool *sp, const char *path, char *ret, struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len;
	int r = spool_read(sp, path, OWNER_FILE_MAX, &text, &len, e);

	if (r == 0)
		lane_owner_parse(text, len, ret);
	return r;
}

static char *owner_text(const char *agent)
{
	return xasprintf("{\"agent\":\"%s\"}\n", agent);
}

/* The file appears with its content, where the filesystem has links. */
static int make_file(const struct spool *sp, const char *path, const char *agent, struct err *e)
{
	cleanup_free char *text = owner_text(agent);
	char tmp[SPOOL_PATH_MAX];
	int r = spool_write_new(sp, spool_tmp_path(sp, "lane", 0, tmp), text, strlen(text), false,
				e);

	if (r < 0)
		return r;
	r = linkat(sp->fd, tmp, sp->fd, path, 0) < 0 ? -errno : 0;
	(void)unlinkat(sp->fd, tmp, 0);
	if (r == -EPERM || r == -EOPNOTSUPP || r == -ENOSYS || r == -EMLINK)
		return spool_write_new(sp, path, text, strlen(text), false, e);
	return r < 0 ? err_sys(e, -r, "make %s/%s", sp->path, path) : 0;
}

/* Whether the agent has a file in agents/: 1, 0 or -errno. By a listing and not by a look at
 * the name, since a cache may still say that it is not there, and two agents would have the
 * lane. */
static int is_alive(const struct spool *sp, const char *agent, struct err *e)
{
	return spool_lists(sp, SPOOL_AGENTS, agent, e);
}

/* 0: the next one is ours; -EAGAIN: look again; negative. */
static int take_next(const struct spool *sp, const char *key, const char *agent, uint64_t was,
		     struct err *e)
{
	uint64_t next = was == LANE_NONE ? 0 : was + 1, highest;
	char path[SPOOL_PATH_MAX], owner[NAME_AGENT_MAX + 1];
	int r = make_file(sp, lane_path(key, next, path), agent, e);

	if (r == -EEXIST)
		return -EAGAIN;
	if (r < 0) { /* an error may hide that it is made, or that another agent has made it */
		if (read_owner(sp, path, owner, NULL) == 0 && strcmp(owner, agent) == 0)
			(void)unlinkat(sp->fd, path, 0);
		return r;
	}
	r = highest_of(sp, key, &highest, e);
	if (r == 0 && highest != next)
		r = -EAGAIN;
	if (r < 0)
		(void)unlinkat(sp->fd, lane_path(key, next, path), 0);
	else if (was != LANE_NONE)
		(void)unlinkat(sp->fd, lane_path(key, was, path), 0);
	return r;
}

static int try_take(const struct spool *sp, const char *key, const char *agent, uint64_t *epoch,
		    char *owner, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	uint64_t highest;
	struct err why = ERR_INIT;
	int r = highest_of(sp, key, &highest, &why);

	owner[0] = '\0';
	if (r == 0 && highest != LANE_NONE)
		r = read_owner(sp, lane_path(key, highest, path), owner, &why);
	/* A file that no agent has made keeps nobody from the lane. */
	if (spool_is_bad(r) && highest != LANE_NONE)
		r = spool_refuse(sp, path, why.text, &why) == 0 ? -EAGAIN : r;
	if (r < 0 && e)
		*e = why;
	if (r < 0)
		return r == -ENOENT ? -EAGAIN : r;
	if (owner[0] && strcmp(owner, agent) == 0) {
		*epoch = highest;
		return 0;
	}
	r = owner[0] ? is_alive(sp, owner, e) : 0;
	if (r != 0)
		return r < 0 ? r : LANE_ELSEWHERE;
	r = take_next(sp, key, agent, highest, e);
	if (r == 0)
		*epoch = highest == LANE_NONE ? 0 : highest + 1;
	return r;
}

int lane_take(const struct spool *sp, const char *key, const char *agent, uint64_t *epoch,
	      char *ret_owner, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	int r = -EAGAIN;

	ret_owner[0] = '\0';
	if (*epoch != LANE_NONE &&
	    spool_is_there_now(sp, SPOOL_LANES, lane_path(key, *epoch, path) + LANES_AT))
		return 0;
	*epoch = LANE_NONE;
	for (int i = 0; i < TRIES && r == -EAGAIN; i++)
		r = try_take(sp, key, agent, epoch, ret_owner, e);
	if (r == -EAGAIN)
		ret_owner[0] = '\0';
	return r == -EAGAIN ? LANE_ELSEWHERE : r;
}

int lane_release(const struct spool *sp, const char *key, const char *agent, uint64_t epoch,
		 bool gone, struct err *e)
{
	char path[SPOOL_PATH_MAX], owner[NAME_AGENT_MAX + 1];
	int r;

	(void)lane_path(key, epoch, path);
	r = read_owner(sp, path, owner, e);
	if (r == -ENOENT || (r == 0 && strcmp(owner, agent) != 0))
		return 0;
	if (r < 0 || gone)
		return r < 0 ? r : spool_unlink(sp, path, e);

	/* The file is written in place: where somebody has removed it, none may appear again. */
	cleanup_free char *text = owner_text("");
	cleanup_fd int fd = spool_open_file(sp, path, O_WRONLY, NULL, e);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (ftruncate(fd, 0) < 0 || write(fd, text, strlen(text)) < 0)
		return err_sys(e, errno, "write %s/%s", sp->path, path);
	return 0;
}

struct listing {
	const struct spool *sp;
	const char *agent;
	lane_owned_fn fn;
	void *data;
};

static int list_one(void *data, const char *file, unsigned char type)
{
	struct listing *l = data;
	char key[LANE_KEY_MAX], path[SPOOL_PATH_MAX], owner[NAME_AGENT_MAX + 1];
	uint64_t epoch;

	if (!lane_file_parse(file, key, &epoch))
		return 0;

	int r = read_owner(l->sp, spool_path(SPOOL_LANES, file, path), owner, NULL);

	if (r == 0 ? strcmp(owner, l->agent) == 0 : r != -ENOENT && !spool_is_bad(r))
		l->fn(l->data, key);
	return 0;
}

int lane_each_of(const struct spool *sp, const char *agent, lane_owned_fn fn, void *data,
		 struct err *e)
{
	struct listing l = { sp, agent, fn, data };
	int r = spool_each(sp, spool_dir_name(SPOOL_LANES), list_one, &l, e);

	return r == -ENOENT ? 0 : r;
}
