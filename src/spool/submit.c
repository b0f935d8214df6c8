/* SPDX-License-Identifier: MIT */

/*
 * Ids are files in ids/: N+1 is created exclusively, N being the largest there. Old ones are
 * removed, but never the largest IDS_KEPT, and who created one looks again: a slow client that has
 * seen a listing from before a removal would otherwise be given a number for the second time. It
 * would take IDS_KEPT submissions between its two calls, and a listing that misses the larger ones,
 * to fool both.
 */

#include "spool/submit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "spool/own.h"
#include "spool/task_text.h"

#define IDS_KEPT  100
#define IDS_PRUNE (2 * IDS_KEPT) /* removed in bulk, so that a submission costs no removal */
#define IDS_TRIES 10000
#define IDS_CHUNK 40		 /* that are taken between two looks, at most */
#define IDS_AHEAD (IDS_KEPT / 2) /* so many more are others' work while we are awake */
_Static_assert(IDS_CHUNK + IDS_AHEAD < IDS_KEPT, "what was given is still there");

#define IDS_AGAIN 1 /* others took some, while we were asleep perhaps: look anew */

struct ids {
	uint64_t largest;
	uint64_t n;
};

static int note_id(void *data, const char *file, unsigned char type)
{
	struct ids *ids = data;
	uint64_t id;

	if (str_to_u64(file, &id) == 0 && id <= NAME_ID_MAX) {
		ids->largest = id > ids->largest ? id : ids->largest;
		ids->n++;
	}
	return 0;
}

struct pruning {
	const struct spool *sp;
	uint64_t below;
};

static int prune_id(void *data, const char *file, unsigned char type)
{
	const struct pruning *p = data;
	char path[SPOOL_PATH_MAX];
	uint64_t id;

	if (str_to_u64(file, &id) == 0 && id < p->below)
		(void)unlinkat(p->sp->fd, spool_path(SPOOL_IDS, file, path), 0);
	return 0;
}

static int create_id(const struct spool *sp, uint64_t id)
{
	char path[SPOOL_PATH_MAX], file[24];

	(void)str_print(file, sizeof(file), "%" PRIu64, id);

	cleanup_fd int fd =
		spool_openat(sp, spool_path(SPOOL_IDS, file, path), O_WRONLY | O_CREAT | O_EXCL);

	return fd < 0 ? fd : 0;
}

static int no_id(const struct spool *sp, int r, struct err *e)
{
	return err_sys(e, -r, "take an id in %s/ids", sp->path);
}

/* The next n, IDS_CHUNK at most, one by one. 0, IDS_AGAIN or negative. */
static int take_ids(const struct spool *sp, size_t n, uint64_t *ids, struct err *e)
{
	struct ids now = { .largest = 0 };
	int r = spool_each(sp, "ids", note_id, &now, e);
	uint64_t id = now.largest;

	if (r < 0)
		return r;
	for (size_t i = 0, tries = 0; i < n && r == 0; i += r == 0) {
		do {
			r = ++id <= NAME_ID_MAX ? create_id(sp, id) : -ERANGE;
		} while (r == -EEXIST && ++tries < IDS_TRIES);
		ids[i] = id;
	}
	if (r == -ERANGE)
		return err_set(e, r,
			       "there is no id above that of %s/ids/%llu; remove it if it is none "
			       "of a task",
			       sp->path, NAME_ID_MAX);
	if (r < 0)
		return no_id(sp, r, e);
	now = (struct ids){ .largest = 0 };
	r = spool_each(sp, "ids", note_id, &now, e);
	if (r == 0 && now.largest > ids[0] + n + IDS_AHEAD)
		return IDS_AGAIN;
	if (r == 0 && now.n > IDS_PRUNE && now.largest > IDS_KEPT) {
		struct pruning p = { sp, now.largest - IDS_KEPT };

		(void)spool_each(sp, "ids", prune_id, &p, NULL);
	}
	return r;
}

int submit_new_id(const struct spool *sp, uint64_t *ret, struct err *e)
{
	uint64_t id;
	int r;

	do {
		r = take_ids(sp, 1, &id, e);
	} while (r == IDS_AGAIN);
	if (r == 0)
		*ret = id;
	return r;
}

int submit_reserve_id(const struct spool *sp, uint64_t id, struct err *e)
{
	struct ids ids = { .largest = 0 };
	int r = spool_each(sp, "ids", note_id, &ids, e);

	if (r < 0 || ids.largest >= id)
		return r;
	r = create_id(sp, id);
	return r == 0 || r == -EEXIST ? 0 : no_id(sp, r, e);
}

/* Into tmp/: a path that the caller frees. */
static int write_tmp(const struct spool *sp, const struct task_spec *spec, uint64_t id,
		     bool durable, char **ret_tmp, struct err *e)
{
	char tmp[SPOOL_PATH_MAX];
	cleanup_free char *text = spec_text(spec, e);
	int r;

	if (!text)
		return e ? e->code : -EINVAL;
	if (strlen(text) > SPEC_FILE_MAX)
		return err_set(e, -EFBIG, "the task is larger than %lu MiB", SPEC_FILE_MAX >> 20);
	r = spool_write_new(sp, spool_tmp_path(sp, "submit", id, tmp), text, strlen(text), durable,
			    e);
	if (r == 0)
		*ret_tmp = xstrdup(tmp);
	return r;
}

/* path: where it is then, of SPOOL_PATH_MAX bytes. */
static int move_in(const struct spool *sp, const struct task_spec *spec, uint64_t id,
		   const char *tmp, char *path, struct err *e)
{
	char file[NAME_FILE_MAX];
	struct task_name name;

	name_of_spec(spec, id, &name);
	return spool_rename(sp, tmp, spool_path(SPOOL_PENDING, name_format(&name, file), path), e);
}

/* The directory could not be synced, so the task is taken back, unless an agent has it by now. */
static int take_back(const struct spool *sp, const char *path, struct err *e)
{
	char tmp[SPOOL_PATH_MAX];

	if (spool_rename(sp, path, spool_tmp_path(sp, "back", 0, tmp), NULL) < 0)
		return SUBMIT_NOT_DURABLE;
	(void)unlinkat(sp->fd, tmp, 0);
	return e ? e->code : -EIO;
}

int submit_task_as(const struct spool *sp, const struct task_spec *spec, uint64_t id, struct err *e)
{
	cleanup_free char *tmp = NULL;
	char path[SPOOL_PATH_MAX];
	struct err sync = ERR_INIT;
	int r = write_tmp(sp, spec, id, true, &tmp, e);

	if (r < 0)
		return r;
	r = spool_sync(sp, "ids", e);
	if (r == 0)
		r = move_in(sp, spec, id, tmp, path, e);
	if (r < 0) {
		(void)unlinkat(sp->fd, tmp, 0);
		return r;
	}
	if (spool_sync(sp, "pending", &sync) == 0)
		return 0;
	if (e)
		*e = sync;
	return take_back(sp, path, &sync);
}

int submit_task(const struct spool *sp, const struct task_spec *spec, uint64_t *ret_id,
		struct err *e)
{
	uint64_t id = 0;
	int r = submit_new_id(sp, &id, e);

	if (r == 0)
		r = submit_task_as(sp, spec, id, e);
	if (r >= 0)
		*ret_id = id;
	return r;
}

/* ---- many at once ----------------------------------------------------------------------------
 *
 * Their files are synced together (where a syncfs does that), and so are the directories: three
 * fsyncs for each would be nearly all of the time. To make and remove a file in ids/ for each would
 * be a third of what is left, so they are taken with one: it is made so far above the last of them
 * that whoever takes one below it sees, when he looks again, that he was asleep. Who looked before
 * it was there has made his by then, and nobody removes that before he has made one above: so where
 * nothing else is in ids/ that was not before, all up to it are ours but for the last IDS_KEPT.
 *
 * Where others are in the way again and again they are created one by one, as everywhere, and ids/
 * is looked at again once for a few of them: fewer than are kept, so that none of them can have
 * been given and removed before unless the largest one is far above.
 */

#define GROUP_LEAST 64
#define RANGE_TRIES 5

struct range {
	uint64_t below, mark; /* ours lie between them */
	bool others;	      /* so does somebody else's, or above */
};

static int look_for_others(void *data, const char *file, unsigned char type)
{
	struct range *range = data;
	uint64_t id;

	if (str_to_u64(file, &id) == 0 && id > range->below && id != range->mark &&
	    id <= NAME_ID_MAX)
		range->others = true;
	return range->others;
}

/* 0, IDS_AGAIN or negative. */
static int take_range(const struct spool *sp, size_t n, uint64_t *ids, struct err *e)
{
	struct ids now = { .largest = 0 };
	int r = spool_each(sp, "ids", note_id, &now, e);
	struct range range = { .below = now.largest, .mark = now.largest + n + IDS_KEPT };
	struct pruning p = { sp, range.mark - IDS_KEPT };

	if (r < 0)
		return r;
	r = range.mark <= NAME_ID_MAX ? create_id(sp, range.mark) : -EEXIST;
	if (r < 0)
		return r == -EEXIST ? IDS_AGAIN : no_id(sp, r, e);
	r = spool_each(sp, "ids", look_for_others, &range, e);
	if (r != 0)
		return r < 0 ? r : IDS_AGAIN;
	for (size_t i = 0; i < n; i++)
		ids[i] = range.below + 1 + i;
	if (now.n > IDS_PRUNE)
		(void)spool_each(sp, "ids", prune_id, &p, NULL);
	return 0;
}

static int group_ids(const struct spool *sp, size_t n, uint64_t *ids, struct err *e)
{
	int r = IDS_AGAIN;

	for (int tries = 0; tries < RANGE_TRIES && r == IDS_AGAIN; tries++)
		r = take_range(sp, n, ids, e);
	if (r != IDS_AGAIN)
		return r;
	for (size_t i = 0; i < n && r >= 0;) {
		size_t some = n - i < IDS_CHUNK ? n - i : IDS_CHUNK;

		r = take_ids(sp, some, ids + i, e);
		i += r == 0 ? some : 0;
	}
	return r < 0 ? r : 0;
}

static int submit_group(const struct spool *sp, struct task_spec *const *specs, size_t n,
			uint64_t *ids, size_t *ret_n, submit_step_fn step, void *user,
			struct err *e)
{
	cleanup_free char **tmps = xcalloc(n, sizeof(*tmps));
	char path[SPOOL_PATH_MAX];
	struct err sync = ERR_INIT;
	size_t moved = 0;
	int r = group_ids(sp, n, ids, e);

	for (size_t i = 0; i < n && r == 0; i++) {
		r = write_tmp(sp, specs[i], ids[i], sp->no_syncfs, &tmps[i], e);
		if (step)
			step(user, i + 1, 2 * n);
	}
	if (r == 0)
		r = spool_sync_all(sp, e);
	if (r == 0 && sp->no_syncfs)
		r = spool_sync(sp, "ids", e);
	for (; moved < n && r == 0; moved += r == 0) {
		r = move_in(sp, specs[moved], ids[moved], tmps[moved], path, e);
		if (step)
			step(user, n + moved + 1, 2 * n);
	}
	for (size_t i = 0; i < n; i++) {
		if (tmps[i] && i >= moved)
			(void)unlinkat(sp->fd, tmps[i], 0);
		free(tmps[i]);
	}
	*ret_n = moved;
	if (!moved || spool_sync(sp, "pending", &sync) == 0 || r < 0)
		return r;
	if (e)
		*e = sync;
	return SUBMIT_NOT_DURABLE;
}

int submit_tasks(const struct spool *sp, struct task_spec *const *specs, size_t n, uint64_t *ids,
		 size_t *ret_n, submit_step_fn step, void *user, struct err *e)
{
	int r = 0, worst = 0;

	*ret_n = 0;
	if (n >= GROUP_LEAST)
		return submit_group(sp, specs, n, ids, ret_n, step, user, e);
	for (size_t i = 0; i < n && r >= 0; i++) {
		r = submit_task(sp, specs[i], &ids[i], e);
		worst = r > worst ? r : worst;
		*ret_n += r >= 0;
	}
	return r < 0 ? r : worst;
}
