/* SPDX-License-Identifier: MIT */

/*
 * What waits is taken away by this process's own rename (an element by a claim that is ended at
 * once), what runs is ended by the agent that runs it: that of this node is asked at once, others
 * through the spool when all is known that they are to end (afar.h). A task may start between the
 * look and the rename, so what has moved is looked for again.
 */

#include "cli/task/stopping.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/ask_agent.h"
#include "cli/task/afar.h"
#include "cli/task/outcome.h"
#include "cli/task/state.h"
#include "spool/batch.h"
#include "spool/instance.h"
#include "spool/transit.h"
#include "task/sweep.h"

#define REASON "stopped by tenure stop"

/* Where something may have gone from pending/ to. */
#define FILED                                                                                      \
	(SPOOL_BIT(SPOOL_PENDING) | SPOOL_BIT(SPOOL_CANCELLED) | SPOOL_BIT(SPOOL_FAILED) |         \
	 SPOOL_BIT(SPOOL_DONE))

static void tell(struct stopping *s, const struct task_name *n, uint64_t element, unsigned int dirs,
		 const char *more)
{
	char id[SELECT_ID_MAX];

	s->said.dirs |= dirs;
	if (!s->quiet)
		outcome_say(&s->said, 0, "%s%s%s%s\n", select_format_id(n->id, element, id),
			    n->name[0] ? " " : "", n->name, more);
}

/* What becomes of one that had not started, or not again. */
static const char *cancelled_text(const struct task_name *n)
{
	if (n->count)
		return " is cancelled: no more of its elements are started";
	return n->epoch ? " is cancelled; it waited to run again"
			: " is cancelled; it had not started";
}

static bool is_ours(const struct spool *sp, const char *agent)
{
	char name[SPEC_NAME_MAX + 1];

	ident_make_name(spool_host(sp), name);
	return strncmp(name, agent, NAME_AGENT_MAX) == 0;
}

void stopping_warn_unwritten(const struct task_name *n, const char *why)
{
	cleanup_free char *text = NULL;

	if (!why)
		return;
	text = xasprintf("that task %" PRIu64
			 " is told to end is not on disk (%s): if its node fails "
			 "before it has ended, it runs again",
			 n->id, why);
	cmd_warn("warning", text);
}

void stopping_commit(struct stopping *s)
{
	(void)outcome_commit(s->sp, &s->said, 0, s->unsynced.code ? NULL : &s->unsynced);
}

/* One that hangs takes seconds for each question, and there may be many: it is asked no more. What
 * waited is gone by then, which nobody should have to wait for either. */
static int ask_agent_here(struct stopping *s, const struct ctl_request *req, json_t **answer,
			  struct err *e)
{
	struct err why = s->silent;
	int r = s->silent.code;

	if (s->said.dirs)
		stopping_commit(s);
	if (!r)
		r = ask_agent_about(s->ctx, req, answer, &why);
	if (r == -ETIMEDOUT)
		s->silent = why;
	if (r < 0 && e)
		*e = why;
	return r;
}

/* 0, TRANSIT_GONE: it runs no more, or negative. */
static int stop_running(struct stopping *s, const struct task_name *n, struct err *e)
{
	struct ctl_request req = { .verb = CTL_STOP,
				   .task = n->id,
				   .element = (uint32_t)n->element,
				   .now = s->now,
				   .sweep = s->sweep_gpus ? SWEEP_BIT(SWEEP_GPU) : 0 };
	char agent[NAME_AGENT_MAX + 1];
	json_t *answer = NULL;
	int r = ask_agent_here(s, &req, &answer, e);

	if (r == 0) {
		tell(s, n, n->element, 0, s->now ? " is killed" : " is told to end");
		stopping_warn_unwritten(n, json_string_value(json_object_get(answer, "unwritten")));
	}
	json_decref(answer);
	if (r != -ENOENT && r != -ECONNREFUSED)
		return r;
	taskstate_agent_of(s->sp, n, agent);
	if (!agent[0] || (r == -ENOENT && is_ours(s->sp, agent)))
		return TRANSIT_GONE; /* it has ended meanwhile, or is being filed */
	afar_add(s, agent, n);
	return 0;
}

/* ---- an element that waits ---- */

static int end_element(struct batch *b, const struct spool *sp, uint64_t element, struct err *e)
{
	struct spool_end end = { .result = RESULT_CANCELLED, .begun_ns = clock_wall_ns() };
	struct claimer self;
	struct claim c;
	char name[SPEC_NAME_MAX + 1];
	int r;

	claimer_tool_name("stop", spool_host(sp), name);
	r = claimer_self(sp, name, &self, e);
	self.tool = true;
	if (r == 0)
		r = batch_claim_to_end(b, element, &self, &c, e);
	if (r != 0)
		return r;
	end.epoch = c.name.epoch;
	end.ended_ns = clock_wall_ns();
	(void)str_copy(end.reason, sizeof(end.reason), REASON);
	r = batch_end(b, NULL, &c, &end, e);
	if (r < 0) /* or nothing could claim it until this one has expired */
		batch_give_back(b, &c);
	if (r != 0)
		return r == BATCH_SUPERSEDED ? CLAIM_LOST : r;
	r = batch_sync(b, e);
	if (r == 0 && batch_is_over(b))
		r = batch_commit(b, e);
	return r < 0 ? r : 0;
}

/* 0, CLAIM_LOST, or negative. */
static int stop_waiting_element(struct stopping *s, const struct task_place *p, struct err *e)
{
	char name[SPEC_NAME_MAX + 1];
	struct batch *b = NULL;
	int r;

	claimer_tool_name("stop", spool_host(s->sp), name);
	r = batch_open(s->sp, &p->name, name, &b, e);
	if (r == 0)
		r = end_element(b, s->sp, p->element, e);
	(void)batch_close(b);
	if (r == 0) {
		s->changed = true;
		tell(s, &p->name, p->element, FILED | SPOOL_BIT(SPOOL_ENDS),
		     " is cancelled; it did not run");
	}
	return r;
}

static bool find_running_element(const struct spool *sp, uint64_t id, uint64_t element,
				 struct task_name *ret)
{
	cleanup_free char *word = xasprintf("%" PRIu64 ".%" PRIu64, id, element);
	struct task_set m;

	if (select_tasks(sp, word, 0, &m, NULL) < 0)
		return false;
	*ret = m.tasks[0].name;
	free(m.tasks);
	return true;
}

static int ended_element(const struct task_place *p, int state, struct err *e)
{
	const char *how = state == BATCH_DONE	  ? "it is done"
			  : state == BATCH_FAILED ? "it has failed"
						  : "it was stopped";

	return err_set(e, -ENOENT, "%" PRIu64 ".%" PRIu64 " has ended already: %s", p->name.id,
		       p->element, how);
}

/* 0, TRANSIT_GONE: it waits no more, or under another name, or negative. */
static int stop_where_it_waits(struct stopping *s, uint64_t id, uint64_t element, struct err *e)
{
	struct task_place p;
	int r = select_by_id(s->sp, id, element, &p, e);

	if (r < 0)
		return r;
	r = taskstate_element_state(s->sp, &p, element, e);
	if (r < 0)
		return r;
	if (r > BATCH_RUNNING || p.dir != SPOOL_PENDING)
		return ended_element(&p, r, e);
	r = transit_await(s->sp, &p.name, CHANGE_HELD_MS, e);
	if (r == TRANSIT_HELD)
		return change_busy(&p.name, e);
	return r == 0 ? stop_waiting_element(s, &p, e) : r;
}

static int stop_element(struct stopping *s, uint64_t id, uint64_t element, struct err *e)
{
	struct task_name n;
	int r;

	for (int look = 0; look < CHANGE_LOOKS; look++) {
		if (find_running_element(s->sp, id, element, &n)) {
			r = stop_running(s, &n, e);
			if (r <= 0)
				return r;
			change_pause(look);
		}
		r = stop_where_it_waits(s, id, element, e);
		if (r <= 0)
			return r;
		change_pause(look);
	}
	return err_set(e, -EBUSY, "%" PRIu64 ".%" PRIu64 " changed just now; try again", id,
		       element);
}

/* ---- tasks ---- */

/* 0, TRANSIT_GONE: it is not where it was, or negative. */
static int stop_one(struct stopping *s, const struct scan_task *t, struct err *e)
{
	struct task_name n = t->name;
	int r;

	if (t->dir != SPOOL_PENDING)
		return stop_running(s, &n, e);
	/* Who holds it for longer finds that it was stopped. */
	r = transit_await(s->sp, &n, CHANGE_HELD_MS, e);
	if (r == 0 || r == TRANSIT_HELD)
		r = transit_cancel(s->sp, &n, REASON, e);
	if (r == 0) {
		s->changed = true;
		tell(s, &n, 0, FILED, cancelled_text(&n));
	}
	return r;
}

/* Elements have neither name nor lane: those of a batch that is meant go with it. One that cannot
 * be stopped keeps none of the others from it. */
static int stop_elements_of(struct stopping *s, uint64_t id, struct err *e)
{
	struct task_set all;
	int first = 0, r = select_all(s->sp, &all, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++) {
		if (all.tasks[i].name.id != id || !all.tasks[i].name.element)
			continue;
		r = stop_one(s, &all.tasks[i], first ? NULL : e);
		first = r < 0 && !first ? r : first;
	}
	free(all.tasks);
	return first;
}

/* One look. 0 or the first error; in any case how many have moved meanwhile. found: the id, where
 * the word is only the beginning of a name. */
static int stop_matching(struct stopping *s, const char *word, char found[SELECT_ID_MAX],
			 int *ret_moved, struct err *e)
{
	struct task_set m;
	uint64_t id, element;
	bool by_name = strcmp(word, "all") != 0 && ident_parse_id(word, &id, &element) < 0;
	unsigned int flags = SELECT_LANES | SELECT_TELL_ENDED | (found ? 0 : SELECT_EXACT);
	int first = 0, r = select_tasks(s->sp, word, flags, &m, e);

	*ret_moved = 0;
	if (r < 0)
		return r;
	if (m.by_beginning)
		(void)select_format_id(m.tasks[0].name.id, 0, found);
	if (!m.n && !s->quiet)
		select_tell_none(s->sp);
	/* What waits first, or it would start in the place of what is ended. */
	for (size_t i = m.n; i-- > 0;) {
		r = stop_one(s, &m.tasks[i], first ? NULL : e);
		if (r == 0 && m.tasks[i].name.count && by_name)
			r = stop_elements_of(s, m.tasks[i].name.id, first ? NULL : e);
		*ret_moved += r > 0;
		first = r < 0 && !first ? r : first; /* the others are stopped all the same */
	}
	free(m.tasks);
	return first;
}

int stop_word(struct stopping *s, const char *word, struct err *e)
{
	char found[SELECT_ID_MAX] = "";
	uint64_t id, element;
	int first, moved;

	if (ident_parse_id(word, &id, &element) == 0 && element)
		return stop_element(s, id, element, e);
	first = stop_matching(s, word, found, &moved, e);
	/* When it has ended, the same word may be the beginning of another one's name. */
	word = found[0] ? found : word;
	for (int look = 1; look < CHANGE_LOOKS && moved; look++) {
		int r;

		change_pause(look);
		r = stop_matching(s, word, NULL, &moved, first ? NULL : e);
		if (r == -ENOENT) /* what was left has ended by itself */
			return first;
		first = first ? first : r;
	}
	return first || !moved
		       ? first
		       : err_set(e, -EBUSY, "%d of them changed just now; try again", moved);
}
