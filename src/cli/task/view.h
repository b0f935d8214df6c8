/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_VIEW_H
#define TENURE_CLI_TASK_VIEW_H

/*
 * The one view of a task, or of an element: from the spool, from its shim where it runs on this
 * node, and from the agent here, if there is one. What list and show print of it, for people and as
 * JSON (docs/json.md), are members of it, and each member is made in one place.
 *
 *	r = taskview_load(ctx, sp, &place, &v, e);
 *	doc = taskview_json(&v, members, n);
 *	taskview_clear(&v);
 */

#include <jansson.h>

#include "cli/task/taskrun.h"
#include "cli/task/taskstate.h"

struct task_view {
	const struct spool *sp;
	struct task_place place;
	struct task_name name; /* of an element with what its batch says */
	enum taskstate state;
	bool lane_paused;
	struct task_file file; /* spec NULL: not read */
	struct taskrun run;
	json_t *gpus; /* indices of its devices, as the agent here says; NULL: it does not */
	struct text_list uuids; /* of them, as its claim says */
	json_t *scaling;	/* how it grows and shrinks, as the agent here says; or NULL */
	bool looked;		/* it runs here, and */
	struct taskrun_look look;
	bool log_is_away; /* not in the spool */
	struct log_away away;
	bool counted; /* of a batch: */
	struct batch_counts counts;
	struct element_ends failed;
	char because[RECORD_REASON_MAX]; /* of a list, taskstate_why_failed(); "": the exit says it
					  */
};

/* Everything. 0 or negative; taskview_clear() in each case. */
int taskview_load(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_place *place,
		  struct task_view *ret, struct err *e);
/* Of one that runs, v->name, only what its claim says and what the agent here does: agents, of
 * taskview_agents(). */
void taskview_load_claim(struct task_view *v, const json_t *agents);
void taskview_clear(struct task_view *v);

/* Of one of them, with that name; NULL: nothing. */
const json_t *taskview_word(const json_t *agents, const struct task_name *n);
/* What the agent here says of each task that runs on this node: an object of objects by id ("42",
 * "42.7"); empty where there is no agent. New reference. */
json_t *taskview_agents(const struct cmd_ctx *ctx);
/* What its claim says of a task in running/, and what the agent here does; called: as it, or its
 * batch, is called. */
void taskview_read_run(const struct cmd_ctx *ctx, const struct spool *sp, const struct task_name *n,
		       const char *called, struct taskrun *ret);

enum taskview_member {
	VIEW_ID,
	VIEW_ELEMENT,
	VIEW_STATE,
	VIEW_NAME,
	VIEW_LANE,
	VIEW_FILE,
	VIEW_PRIORITY,
	VIEW_GPUS,
	VIEW_N_ELEMENTS,
	VIEW_ATTEMPTS,
	VIEW_EPOCH,
	VIEW_NOT_BEFORE,
	VIEW_AGAIN_BECAUSE,
	VIEW_PARAMETERS,
	VIEW_INDEX,
	VIEW_COMMAND,
	VIEW_LANE_PAUSED,
	VIEW_AGENT,
	VIEW_DEVICES,
	VIEW_UUIDS,
	VIEW_SCALING,
	VIEW_MUSTERED,
	VIEW_PROCESSES,
	VIEW_COMMAND_EXIT,
	VIEW_STARTED,
	VIEW_ENDING_SINCE,
	VIEW_RAN,
	VIEW_TIMEOUT,
	VIEW_UNFILED,
	VIEW_LEFT_EXIT,
	VIEW_LOG,
	VIEW_LOG_ERROR,
	VIEW_OUTPUT,
	VIEW_ERROR,
	VIEW_ON_END_LOG,
	VIEW_END,
	VIEW_UNSTARTED,
	VIEW_ENDED,
	VIEW_EXIT,
	VIEW_ENDED_BECAUSE,
	VIEW_ELEMENTS, /* how they stand; "counts" in a list, which has their number as "elements"
			*/
	VIEW_COUNTS,
	VIEW_FAILED,
	VIEW_AUTO_MEMORY,
	VIEW_TASK,
	VIEW_MEMBER_MAX
};

/* Of one that waits or runs and says "auto" for its memory, what that is now (docs/json.md); NULL:
 * it says something else. New reference. */
json_t *taskview_auto_memory(const struct spool *sp, const struct task_spec *spec);

const char *taskview_key(enum taskview_member m);
/* A new reference; NULL: it has none. */
json_t *taskview_member(const struct task_view *v, enum taskview_member m);
/* Those that it has, in that order. */
json_t *taskview_json(const struct task_view *v, const enum taskview_member *members, size_t n);

/* Those of a row in a list. Of one that does not run only its name and state need be known. */
json_t *taskview_list_json(const struct task_view *v);

#endif
