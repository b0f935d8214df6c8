/* SPDX-License-Identifier: MIT */
#include "agent/queue/spool_place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/value.h"
#include "spool/instance.h"

struct place_batch *place_batch(struct spool_place *place, uint64_t id, struct err *e)
{
	const struct scan_task *t = scan_find(place->scan, id, 0);
	struct place_batch *p = place->batches;
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_file read;

	while (p && p->id != id)
		p = p->next;
	if (!t && !scan_was_read(place->scan)) {
		(void)err_set(e, -EAGAIN, "the queue was not read yet");
		return NULL;
	}
	if (!t) {
		(void)err_set(e, -ENOENT, "task %llu does not wait any more",
			      (unsigned long long)id);
		return NULL;
	}
	if (p)
		return p;
	(void)spool_path(t->dir, name_format(&t->name, file), path);
	if (spool_confirm(place->spool, path, task_file_read(place->spool, path, &read, e), e) < 0)
		return NULL;
	p = xcalloc(1, sizeof(*p));
	p->id = id;
	if (batch_open(place->spool, &t->name, place->self.agent, &p->batch, e) < 0) {
		task_file_clear(&read);
		free(p);
		return NULL;
	}
	p->spec = take_ptr(read.spec);
	task_file_clear(&read);
	p->next = place->batches;
	place->batches = p;
	return p;
}

void place_forget_batch(struct spool_place *place, uint64_t id)
{
	for (struct place_batch **p = &place->batches; *p; p = &(*p)->next)
		if ((*p)->id == id) {
			struct place_batch *gone = *p;

			*p = gone->next;
			batch_take_undone(gone->batch, &place->undone);
			batch_close(gone->batch);
			spec_free(gone->spec);
			free(gone);
			return;
		}
}

struct place_undo {
	struct place_undo *next;
	struct task_name waiting;
};

/* True: it is in pending/ again, or elsewhere. */
static bool undo(struct spool_place *p, const struct task_name *waiting)
{
	char from[SPOOL_PATH_MAX], to[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_name claimed = *waiting;
	int r;

	(void)str_copy(claimed.agent, sizeof(claimed.agent), p->self.agent);
	claimed.ended_s = 0; /* as claim_task() names it */
	claimed.exit = 0;
	(void)spool_path(SPOOL_RUNNING, name_format(&claimed, file), from);
	(void)spool_path(SPOOL_PENDING, name_format(waiting, file), to);
	r = spool_rename(p->spool, from, to, NULL);
	/* Where a rename was tried before, a cache may say that its target is not there. */
	return r == 0 || (r == -ENOENT &&
			  spool_lists(p->spool, SPOOL_RUNNING, strrchr(from, '/') + 1, NULL) == 0);
}

void place_undo_claim(struct spool_place *p, const struct task_name *waiting)
{
	struct place_undo *u;

	if (undo(p, waiting))
		return;
	u = xcalloc(1, sizeof(*u));
	u->waiting = *waiting;
	u->next = p->undo;
	p->undo = u;
}

static void take_undo(struct place_undo **at)
{
	struct place_undo *gone = *at;

	*at = gone->next;
	free(gone);
}

void place_undo_again(struct spool_place *p)
{
	batch_remove_undone(p->spool, &p->undone);
	for (struct place_undo **at = &p->undo; *at;)
		if (undo(p, &(*at)->waiting))
			take_undo(at);
		else
			at = &(*at)->next;
}

void place_undo_forget(struct spool_place *p, uint64_t id)
{
	for (struct place_undo **at = &p->undo; *at;)
		if ((*at)->waiting.id == id)
			take_undo(at);
		else
			at = &(*at)->next;
}

/* Where id is, or belongs. */
static size_t timed_at(const struct spool_place *p, uint64_t id)
{
	size_t low = 0, high = p->timed.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (p->timed.nums[mid] < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool place_has_timeout(const struct spool_place *p, uint64_t id)
{
	size_t at = timed_at(p, id);

	return at < p->timed.n && p->timed.nums[at] == id;
}

void place_note_timeout(struct spool_place *p, uint64_t id)
{
	size_t at = timed_at(p, id);

	if (place_has_timeout(p, id))
		return;
	p->timed.nums = xgrow(p->timed.nums, p->timed.n, sizeof(*p->timed.nums));
	(void)memmove(&p->timed.nums[at + 1], &p->timed.nums[at],
		      (p->timed.n - at) * sizeof(*p->timed.nums));
	p->timed.nums[at] = id;
	p->timed.n++;
}

bool place_is_elsewhere(const struct spool_place *place, const char *pool)
{
	if (!pool)
		return place->pool_only;
	return !place->pool || strcmp(place->pool, pool) != 0;
}

void place_close(struct spool_place *p)
{
	uint_list_clear(&p->timed);
	while (p->batches)
		place_forget_batch(p, p->batches->id);
	while (p->undo)
		take_undo(&p->undo);
	text_list_clear(&p->undone);
	/* The last ends: their turn to be synced has not come. */
	if (p->events)
		(void)endlog_sync(p->events, NULL);
	p->events = endlog_close(p->events);
	p->scan = scan_free(p->scan);
	p->spool = spool_close(p->spool);
}
