/* SPDX-License-Identifier: MIT */
#include "agent/queue/waiting.h"

#include <errno.h>

#include "agent/queue/depends.h"
#include "spool/transit.h"

#define HELD_MS 500

void waiting_put(struct spool_place *p, struct waiting_batch *w)
{
	if (w->once && w->batch) {
		batch_take_undone(w->batch, &p->undone);
		(void)batch_close(w->batch);
	}
	*w = (struct waiting_batch){ NULL, false };
}

/* In the directory as it is now. A name that changes while that is read may be missed once. */
static int find_name(const struct spool_place *p, uint64_t id, struct task_name *ret, struct err *e)
{
	struct scan *s = scan_new(p->spool, 0);
	const struct scan_task *t = NULL;
	int r = 0;

	for (int look = 0; look < 2 && r == 0 && !t; look++) {
		r = scan_update(s, NULL, NULL, e);
		t = r == 0 ? scan_find(s, id, 0) : NULL;
	}
	if (t && t->dir == SPOOL_PENDING && t->name.count)
		*ret = t->name;
	else if (r == 0)
		r = err_set(e, -ENOENT, "task %llu does not wait any more", (unsigned long long)id);
	(void)scan_free(s);
	return r;
}

int waiting_open(struct spool_place *p, const struct task_name *n, struct waiting_batch *ret,
		 struct err *e)
{
	ret->once = true;
	return batch_open(p->spool, n, p->self.agent, &ret->batch, e);
}

int waiting_get(struct spool_place *p, uint64_t id, struct waiting_batch *ret, struct err *e)
{
	struct place_batch *known = place_batch(p, id, e);
	struct task_name n = { .id = 0 };
	int r;

	*ret = (struct waiting_batch){ known ? known->batch : NULL, false };
	if (known || e->code != -ENOENT)
		return known ? 0 : e->code;
	*e = (struct err)ERR_INIT;
	r = find_name(p, id, &n, e);
	return r == 0 ? waiting_open(p, &n, ret, e) : r;
}

int waiting_name(struct spool_place *p, uint64_t id, struct task_name *ret, struct err *e)
{
	int r = find_name(p, id, ret, e);

	if (r == 0)
		r = transit_await(p->spool, ret, HELD_MS, e);
	return r < 0 ? r : 0;
}

/* All its ranks have ended, for good. What it needs of its task is in the batch that is known. */
static bool promise_command(struct batch *b, struct spool_place *p, const struct task_name *n,
			    struct err *e)
{
	static const char *const words[RESULT_MAX] = {
		[RESULT_DONE] = "done", [RESULT_FAILED] = "failed", [RESULT_CANCELLED] = "stopped"
	};
	const struct place_batch *known = place_batch(p, n->id, e);
	struct spool_end end = { .result = batch_result(b) };
	const struct on_end_facts facts = { .end = &end,
					    .result = words[end.result],
					    .whole = true };

	return known && spec_is_gang(known->spec) && on_end_is_wanted(&p->on_end, known->spec) &&
	       on_end_promise(p->spool, &p->on_end, known->spec, n, &facts, e) == 0;
}

int waiting_file(struct batch *b, struct spool_place *p, uint64_t id, struct err *e)
{
	const struct task_name n = { .id = id, .epoch = batch_name(b)->epoch };
	bool promised = promise_command(b, p, &n, NULL);
	int r = batch_commit(b, e);

	if (promised && r == 0)
		(void)on_end_due_whole(p->spool, &p->on_end, &n, NULL);
	else if (promised && r == TRANSIT_GONE)
		on_end_withdraw(p->spool, &p->on_end, &n);
	return r;
}

int waiting_commit_if_over(struct batch *b, struct spool_place *p, uint64_t id, struct err *e)
{
	bool good;
	int code;

	if (!batch_is_over(b))
		return 0;
	good = batch_result(b) == RESULT_DONE;
	code = waiting_file(b, p, id, e);
	if (code == TRANSIT_GONE) /* another agent has filed it, or a command holds it */
		return 0;
	if (code == 0)
		depends_ended(p, id, good);
	if (code == 0)
		place_forget_batch(p, id);
	return code;
}
