/* SPDX-License-Identifier: MIT */
#include "spool/batch_retry.h"

#include <string.h>

#include "base/clock.h"
#include "spool/scan.h"
#include "spool/transit.h"

#define REASON "asked for again"

static int revive_elements(struct batch *b, uint64_t count, batch_retry_fn pick, void *data,
			   uint64_t *ret_n, struct err *e)
{
	unsigned int attempts;
	uint64_t epoch;
	int r = 0;

	for (uint64_t i = 1; i <= count && r == 0; i++) {
		enum batch_state state = batch_state(b, i, &epoch, &attempts);

		if (state < BATCH_DONE || !pick(data, i, state))
			continue;
		r = batch_retry(b, i, REASON, e);
		*ret_n += r == 0;
	}
	return r == 0 ? batch_sync(b, e) : r;
}

int batch_retry_ended(const struct spool *sp, struct task_name *n, const char *dir, const char *who,
		      batch_retry_fn pick, void *data, uint64_t *ret_n, struct err *e)
{
	bool was_over = strcmp(dir, spool_dir_name(SPOOL_PENDING)) != 0;
	const struct task_name was = *n;
	struct batch *b = NULL;
	uint64_t count = 0;
	int r = transit_hold(sp, n, dir, e);

	if (r != 0)
		return r;
	r = batch_open(sp, n, who, &b, e);
	if (r == 0)
		r = batch_refresh_now(b, e);
	if (r == 0 && was_over)
		count = batch_counts(b).waiting;
	if (r == 0)
		r = revive_elements(b, n->count, pick, data, &count, e);
	(void)batch_close(b);
	if (r == 0)
		r = transit_free_edit(sp, n, e);
	if (r == 0)
		*ret_n = count;
	/* The new name tells whoever looks at the waiting batch that there may be something
	 * new in its journals. */
	if (r < 0 && !was_over)
		(void)transit_free_edit(sp, n, NULL);
	else if (r < 0)
		r = transit_undo_hold(sp, n, &was, dir, r);
	return r;
}

struct claims {
	struct batch *batch;
	uint64_t id;
};

static int learn_claim(void *data, const struct task_name *n, const char *dir)
{
	const struct claims *c = data;

	if (n->id == c->id && n->element)
		batch_mark_running(c->batch, n->element, n->epoch);
	return 0;
}

/* The journals do not say that an element was claimed. Its back-off was over by the clock of
 * the node that claimed it, though perhaps not by ours. */
static int learn_claims(const struct spool *sp, struct batch *b, uint64_t id, struct err *e)
{
	struct claims c = { b, id };

	return scan_dir(sp, spool_dir_name(SPOOL_RUNNING), learn_claim, &c, e);
}

static bool backs_off(const struct batch *b, uint64_t element, uint64_t now_ns)
{
	const struct batch_again *again = batch_again_of(b, element);
	unsigned int attempts;
	uint64_t epoch;

	return again && again->not_before_ns > now_ns &&
	       batch_state(b, element, &epoch, &attempts) == BATCH_WAITING;
}

/*
 * The batch is held by us. A claimer that claims an element from now on gives it up, because
 * it looks for the batch by its name when it has made its file. So an element without a file
 * does not run, and one that had a file before we looked was written into a journal before
 * that file went.
 */
static int hasten_elements(const struct spool *sp, struct batch *b, const struct task_name *n,
			   struct err *e)
{
	uint64_t now_ns = clock_wall_ns();
	int r = learn_claims(sp, b, n->id, e);

	if (r == 0)
		r = batch_refresh_now(b, e);
	for (uint64_t i = 1; i <= n->count && r == 0; i++)
		if (backs_off(b, i, now_ns))
			r = batch_skip_backoff(b, i, e);
	return r == 0 ? batch_sync(b, e) : r;
}

static int any_backs_off(const struct spool *sp, const struct task_name *n, struct err *e)
{
	struct batch *b = NULL;
	uint64_t now_ns = clock_wall_ns();
	int r = batch_open(sp, n, NULL, &b, e);

	if (r == 0)
		r = learn_claims(sp, b, n->id, e);
	for (uint64_t i = 1; i <= n->count && r == 0; i++)
		r = backs_off(b, i, now_ns);
	(void)batch_close(b);
	return r;
}

int batch_retry_waiting(const struct spool *sp, struct task_name *n, const char *who, struct err *e)
{
	struct batch *b = NULL;
	int freed, r = any_backs_off(sp, n, e);

	if (r <= 0)
		return r < 0 ? r : BATCH_RETRY_NONE;
	r = transit_hold(sp, n, spool_dir_name(SPOOL_PENDING), e);
	if (r != 0)
		return r;
	r = batch_open(sp, n, who, &b, e);
	if (r == 0)
		r = hasten_elements(sp, b, n, e);
	(void)batch_close(b);
	freed = transit_free_edit(sp, n, r < 0 ? NULL : e);
	return r < 0 ? r : freed;
}
