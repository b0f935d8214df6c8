/* SPDX-License-Identifier: MIT */
#include "cli/task/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/task/taskstate.h"
#include "spool/batch.h"
#include "spool/record.h"

#define PAUSE_FIRST_MS 10
#define PAUSE_LAST_MS  250

struct taskwatch {
	const struct spool *sp;
	struct task_place place;
	struct batch *batch; /* of an element */
	bool ended;
	enum task_result result;
	unsigned int exit;
	unsigned int pause_ms;
};

int taskwatch_open(const struct spool *sp, const struct task_place *place, struct taskwatch **ret,
		   struct err *e)
{
	struct taskwatch *w = xcalloc(1, sizeof(*w));
	int r = 0;

	w->sp = sp;
	w->place = *place;
	w->pause_ms = PAUSE_FIRST_MS;
	if (place->element)
		r = batch_open(sp, &place->name, NULL, &w->batch, e);
	if (r < 0)
		w = taskwatch_close(w);
	*ret = w;
	return r;
}

struct taskwatch *taskwatch_close(struct taskwatch *w)
{
	if (w)
		(void)batch_close(w->batch);
	free(w);
	return NULL;
}

static int look_at_element(struct taskwatch *w, struct err *e)
{
	struct element_end found;
	unsigned int attempts;
	uint64_t epoch;
	int r = batch_refresh(w->batch, e);

	if (r < 0)
		return r;
	switch (batch_state(w->batch, w->place.element, &epoch, &attempts)) {
	case BATCH_DONE:
		w->result = RESULT_DONE;
		break;
	case BATCH_FAILED:
		w->result = RESULT_FAILED;
		break;
	case BATCH_CANCELLED:
		w->result = RESULT_CANCELLED;
		break;
	default:
		return 0;
	}
	w->ended = true;
	if (taskstate_last_end(w->sp, w->place.name.id, w->place.element, &found))
		w->exit = found.end.exit;
	return 1;
}

static bool runs(const struct taskwatch *w)
{
	char path[SPOOL_PATH_MAX], file[NAME_FILE_MAX];
	struct task_name n = { .id = w->place.name.id, .element = w->place.element };
	unsigned int attempts;

	if (!w->batch)
		return w->place.dir == SPOOL_RUNNING;
	(void)batch_state(w->batch, w->place.element, &n.epoch, &attempts);
	return spool_exists(w->sp, spool_path(SPOOL_RUNNING, name_format(&n, file), path));
}

int taskwatch_look(struct taskwatch *w, struct err *e)
{
	bool active = w->place.dir == SPOOL_PENDING || w->place.dir == SPOOL_RUNNING;
	int r;

	if (w->ended)
		return 1;
	if (w->batch) {
		r = look_at_element(w, e);
		if (r)
			return r;
	}
	if (active && spool_exists(w->sp, w->place.path))
		return 0;
	r = select_by_id(w->sp, w->place.name.id, w->place.element, &w->place, e);
	if (r < 0)
		return r;
	if (w->place.dir == SPOOL_PENDING || w->place.dir == SPOOL_RUNNING || (w->batch && runs(w)))
		return 0;
	w->ended = true;
	w->exit = w->place.name.exit;
	w->result = w->batch			   ? RESULT_CANCELLED /* with its batch */
		    : w->place.dir == SPOOL_DONE   ? RESULT_DONE
		    : w->place.dir == SPOOL_FAILED ? RESULT_FAILED
						   : RESULT_CANCELLED;
	return 1;
}

void taskwatch_pause(struct taskwatch *w)
{
	struct timespec t = { .tv_nsec = (long)(w->pause_ms * NS_PER_MS) };

	(void)nanosleep(&t, NULL);
	w->pause_ms = w->pause_ms * 5 / 4 + 1;
	w->pause_ms = w->pause_ms < PAUSE_LAST_MS ? w->pause_ms : PAUSE_LAST_MS;
}

int taskwatch_exit_code(const struct taskwatch *w)
{
	if (w->result == RESULT_DONE)
		return 0;
	if (w->result == RESULT_CANCELLED || !w->exit)
		return 1;
	return w->exit >= NAME_SIGNALLED ? 128 + (int)(w->exit - NAME_SIGNALLED) : (int)w->exit;
}

enum taskstate taskwatch_state(const struct taskwatch *w)
{
	static const enum taskstate ends[] = { [RESULT_DONE] = TASKSTATE_DONE,
					       [RESULT_FAILED] = TASKSTATE_FAILED,
					       [RESULT_CANCELLED] = TASKSTATE_CANCELLED };

	if (w->ended)
		return ends[w->result];
	return runs(w) ? TASKSTATE_RUNNING : taskstate_of(&w->place.name, w->place.dir);
}

int taskwatch_state_of(const struct spool *sp, const struct task_place *place, enum taskstate *ret,
		       struct err *e)
{
	struct taskwatch *w = NULL;
	int r = taskwatch_open(sp, place, &w, e);

	if (r == 0)
		r = taskwatch_look(w, e);
	if (r >= 0)
		*ret = taskwatch_state(w);
	(void)taskwatch_close(w);
	return r < 0 ? r : 0;
}

const struct task_place *taskwatch_place(const struct taskwatch *w)
{
	return &w->place;
}
