/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_QUEUE_FACTS_H
#define TENURE_CLI_TASK_QUEUE_FACTS_H

/*
 * What decides how tasks stand beside their own names: lanes that are paused, gangs, the batches
 * that elements are of; and what the agent here says of those that wait. For whoever shows many.
 *
 *	r = queue_facts_read(&f, sp, sets, n_sets, &e);
 *	queue_facts_take_reasons(&f, answer);	of CTL_REASONS, where there is an agent
 *	state = queue_facts_state(&f, &task, &lane_paused);
 *	queue_facts_clear(&f);
 */

#include <jansson.h>

#include "cli/task/view.h"

struct queue_said;
struct known_reason;

struct queue_facts {
	const struct spool *sp;
	const char *options; /* agent_options(), for columns; the caller's */
	size_t n_batches;
	const struct scan_task **batches; /* of the sets, by their ids */
	struct text_list lanes;		  /* that are paused */
	struct gangs_read gangs;
	bool gangs_read;
	bool unserved; /* no agent runs, here or on another node */
	struct queue_said *reasons, *forecasts;
	struct known_reason *known; /* of each code, the last that was found without an agent */
};

/* Of the tasks of these sets, which outlive it. 0 or negative; queue_facts_clear() in each case. */
int queue_facts_read(struct queue_facts *f, const struct spool *sp,
		     const struct task_set *const *sets, size_t n_sets, struct err *e);
void queue_facts_clear(struct queue_facts *f);

/* The agent's answers to CTL_REASONS and CTL_FORECAST, which may be NULL. Once each, and without
 * queue_facts_read() as well. */
void queue_facts_take_reasons(struct queue_facts *f, json_t *answer);
void queue_facts_take_forecasts(struct queue_facts *f, json_t *answer);

/* *ret_paused: it waits because of its lane. */
enum taskstate queue_facts_state(struct queue_facts *f, const struct scan_task *t,
				 bool *ret_paused);
/* An element's own file has nothing but its number for a name: it gets what its batch says. False:
 * the batch is over, so that nobody runs an element of it, and its claim is about to be removed. */
bool queue_facts_name(const struct queue_facts *f, struct task_name *n);
/* They are read when they are asked for first. */
const struct gangs_read *queue_facts_gangs(struct queue_facts *f);

/*
 * What it waits for, in a few words: an object with `code` (of sched/reason.h) and `text`. NULL: it
 * does not wait, or that is not known. A new reference.
 */
json_t *queue_facts_reason(const struct queue_facts *f, const struct task_view *v);
/* When it starts: `text`, and `forecast` (docs/json.md). Borrowed; NULL: that is not known. */
json_t *queue_facts_forecast(const struct queue_facts *f, const struct task_view *v);
/* Both, as members of its row in a list, which shares them; either may be NULL. */
void queue_facts_add(json_t *row, json_t *reason, const json_t *forecast);

#endif
