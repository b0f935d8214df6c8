/* SPDX-License-Identifier: MIT */
#include "spool/control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/own.h"

#define CONTROL_FILE   "control.json"
#define BASELINE_NS    NS_PER_S
#define ORDER_SUFFIX   ".json"
#define ANSWER_SUFFIX  ".answer"
#define CONTROL_GONE   1
#define CONTROL_BAD    2
#define ANSWER_KEPT_NS (600 * NS_PER_S)
#define BAD_MOST       64  /* orders that are bad, or others' by now, in one look */
#define KNOWN_MAX      128 /* bytes of an order's name that it keeps in tmp/ and bad/ */
#define NUMBER_OF_TMP  17  /* ",%016x" at the end of a name in tmp/ */

static int write_json(const struct spool *sp, const char *path, const json_t *doc, struct err *e)
{
	cleanup_free char *text = json_dumps(doc, JSON_COMPACT);

	if (!text)
		return err_set(e, -EINVAL, "the order cannot be written as JSON");
	return spool_replace(sp, path, text, strlen(text), e);
}

static char *answer_path(const char *sent, char *buf)
{
	size_t len = strlen(sent) - strlen(ORDER_SUFFIX);

	return str_print(buf, SPOOL_PATH_MAX, "%.*s" ANSWER_SUFFIX, (int)len, sent);
}

int control_send(const struct spool *sp, const char *agent, const json_t *order, char *ret,
		 struct err *e)
{
	char tmp[SPOOL_PATH_MAX];

	(void)spool_tmp_path(sp, "order", 0, tmp);
	(void)str_print(ret, SPOOL_PATH_MAX, "control/%.64s%s" ORDER_SUFFIX, agent,
			tmp + strlen(tmp) - NUMBER_OF_TMP);
	return write_json(sp, ret, order, e);
}

/* What path has, which people know as name. */
static int read_json(const struct spool *sp, const char *path, const char *name, json_t **ret,
		     struct err *e)
{
	cleanup_free char *text = NULL;
	json_error_t je;
	size_t len;
	int r = spool_read(sp, path, CONTROL_MAX, &text, &len, e);

	if (r < 0)
		return r;

	json_t *doc = json_loadb(text, len, 0, &je);

	if (!json_is_object(doc)) {
		json_decref(doc);
		return err_set(e, -EINVAL, "%s: not a JSON object: line %d: %s", name, je.line,
			       doc ? "another value" : je.text);
	}
	*ret = doc;
	return 0;
}

int control_send_as(const struct spool *sp, const char *agent, const char *name,
		    const json_t *order, struct err *e)
{
	char path[SPOOL_PATH_MAX];

	(void)str_print(path, sizeof(path), "control/%.64s,%s" ORDER_SUFFIX, agent, name);
	return write_json(sp, path, order, e);
}

void control_forget_as(const struct spool *sp, const char *agent, const char *name)
{
	char path[SPOOL_PATH_MAX];

	control_give_up(
		sp, str_print(path, sizeof(path), "control/%.64s,%s" ORDER_SUFFIX, agent, name));
}

int control_answer_read(const struct spool *sp, const char *sent, json_t **ret, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	int r = read_json(sp, answer_path(sent, path), sent, ret, e);

	if (r == -ENOENT)
		return 1;
	(void)unlinkat(sp->fd, path, 0);
	return r;
}

bool control_take_back(const struct spool *sp, const char *sent)
{
	return unlinkat(sp->fd, sent, 0) == 0;
}

void control_give_up(const struct spool *sp, const char *sent)
{
	char path[SPOOL_PATH_MAX];

	(void)unlinkat(sp->fd, sent, 0);
	(void)unlinkat(sp->fd, answer_path(sent, path), 0);
}

/* ---- by the agent ---- */

static bool is_of(const char *agent, const char *file)
{
	size_t n = strlen(agent);

	return strncmp(file, agent, n) == 0 && file[n] == ',';
}

struct finding {
	const char *agent;
	char file[NAME_FILE_MAX];
};

static int is_for(void *data, const char *file, unsigned char type)
{
	struct finding *f = data;

	if (!is_of(f->agent, file) || !str_has_suffix(file, ORDER_SUFFIX))
		return 0;
	(void)str_copy(f->file, sizeof(f->file), file);
	return 1;
}

struct forgetting {
	const struct spool *sp;
	const char *agent;
};

/* The spool's clock may differ from ours; for an answer that nobody fetched that is good
 * enough. */
static bool is_old(const struct spool *sp, const char *path)
{
	struct stat st;

	return fstatat(sp->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       clock_timespec_ns(&st.st_mtim) + ANSWER_KEPT_NS < clock_wall_ns();
}

static int forget_one(void *data, const char *file, unsigned char type)
{
	const struct forgetting *f = data;
	char path[SPOOL_PATH_MAX];

	if (!is_of(f->agent, file))
		return 0;
	(void)spool_path(SPOOL_CONTROL, file, path);
	if (str_has_suffix(file, ANSWER_SUFFIX) && is_old(f->sp, path))
		(void)unlinkat(f->sp->fd, path, 0);
	/* A client that waits for the answer sees that its order is taken before there is one. */
	if (str_has_suffix(file, ORDER_SUFFIX) && unlinkat(f->sp->fd, path, 0) == 0)
		(void)control_answer(f->sp, path,
				     json_pack("{s:i, s:s}", "code", -EAGAIN, "error",
					       "it has only just begun; once more"),
				     NULL);
	return 0;
}

void control_forget(const struct spool *sp, const char *agent)
{
	struct forgetting f = { sp, agent };

	(void)spool_each(sp, spool_dir_name(SPOOL_CONTROL), forget_one, &f, NULL);
}

/* Takes path away and reads it: 0; CONTROL_GONE; CONTROL_BAD with e: it is in bad/; negative. */
static int take(const struct spool *sp, const char *path, control_read_fn fn, void *ret,
		struct err *e)
{
	char tmp[SPOOL_PATH_MAX], known[KNOWN_MAX];
	struct err why = ERR_INIT;
	const char *slash = strrchr(path, '/');
	const char *file = slash ? slash + 1 : path;
	json_t *doc = NULL;
	int r;

	/* The order is found in bad/ by its name. A name that somebody else has given it may
	 * leave no room for ours. */
	(void)str_print(known, sizeof(known), "%.*s", (int)sizeof(known) - 1, file);
	r = spool_rename(sp, path, spool_tmp_path(sp, known, 0, tmp), &why);
	if (r == -ENOENT && spool_is_gone(sp, path)) /* else tmp/ is not there */
		return CONTROL_GONE;
	if (r == 0)
		r = read_json(sp, tmp, file, &doc, &why);
	if (r == 0)
		r = fn(doc, ret, &why);
	json_decref(doc);
	if (r < 0 && e)
		*e = why;
	if (r == -EINVAL || r == -EFBIG || r == -EPERM || r == -ELOOP)
		return spool_refuse(sp, tmp, why.text, NULL) < 0 ? r : CONTROL_BAD;
	if (r < 0 && !spool_exists(sp, path)) /* it could not be read this time */
		(void)spool_rename(sp, tmp, path, NULL);
	if (r == 0) /* what stays in tmp/ is cleared away one day */
		(void)spool_unlink(sp, tmp, NULL);
	return r;
}

int control_next(const struct spool *sp, const char *agent, control_read_fn fn, void *ret,
		 char *ret_sent, struct err *e)
{
	int r = 0;

	for (unsigned int i = 0; i < BAD_MOST; i++) {
		struct finding f = { .agent = agent };
		struct err why = ERR_INIT;

		r = spool_each(sp, spool_dir_name(SPOOL_CONTROL), is_for, &f, e);
		if (r <= 0)
			return r < 0 ? r : 1;
		r = take(sp, spool_path(SPOOL_CONTROL, f.file, ret_sent), fn, ret, &why);
		if (r != 0 && e && why.code)
			*e = why;
		if (r == CONTROL_BAD)
			(void)control_answer(
				sp, ret_sent,
				json_pack("{s:i, s:s}", "code", -EINVAL, "error", why.text), NULL);
		if (r <= 0)
			return r;
	}
	return 1; /* the next look goes on */
}

int control_answer(const struct spool *sp, const char *sent, json_t *answer, struct err *e)
{
	char path[SPOOL_PATH_MAX];
	int r = write_json(sp, answer_path(sent, path), answer, e);

	json_decref(answer);
	return r;
}

/* ---- control.json ---- */

/* Programs write control.json in place, so it may be seen before all of it is there. */
static bool is_whole(const struct spool *sp, control_read_fn fn)
{
	json_t *doc = NULL;
	bool whole = read_json(sp, CONTROL_FILE, CONTROL_FILE, &doc, NULL) == 0 &&
		     fn(doc, NULL, NULL) == 0;

	json_decref(doc);
	return whole;
}

static bool stands_still(struct control_look *look, const struct stat *st)
{
	uint64_t now = clock_mono_ns();
	uint64_t mtime = clock_timespec_ns(&st->st_mtim);

	if (look->size != st->st_size || look->mtime_ns != mtime)
		*look = (struct control_look){ st->st_size, mtime, now };
	return now - look->since_ns >= BASELINE_NS;
}

int control_file_take(const struct spool *sp, struct control_look *look, control_read_fn fn,
		      void *ret, struct err *e)
{
	struct stat st;
	int r;

	r = spool_stat_now(sp->fd, CONTROL_FILE, &st);
	if (r < 0)
		return r == -ENOENT ? 1 : err_sys(e, -r, "stat %s/" CONTROL_FILE, sp->path);
	if (!is_whole(sp, fn) && !stands_still(look, &st))
		return 1;
	*look = (struct control_look){ .size = 0 };
	r = take(sp, CONTROL_FILE, fn, ret, e);
	return r > 0 ? 1 : r;
}
