/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_ROWS_H
#define TENURE_CLI_TASK_ROWS_H

/*
 * The rows of a queue: one of each task, and one of each element that runs, as a list shows them.
 * What is in an index is read again only where a name has changed, so that looking once more at
 * many that wait costs the reading of two directories.
 *
 *	struct rows_index *x = rows_index_new(sp);
 *	r = rows_read(x, &said, &rows, &e);	again and again
 *	rows_keep_json(&rows, &before);		where they are asked for as JSON, often
 *	rows_clear(&rows);
 *	x = rows_index_free(x);
 */

#include <jansson.h>

#include "base/strbuf.h"
#include "cli/task/taskstate.h"

#define ROWS_JSON_MAX                                                                              \
	(16UL << 20) /* bytes of JSON that are kept of rows; the rest is made anew                 \
		      */

#define ROWS_BECAUSE 1000

struct row {
	struct task_name name; /* of an element with what its batch says */
	enum spool_dir dir;
	enum taskstate state;
	bool lane_paused;
	bool left;    /* the queue: the row is as it was there (rows_keep_left()) */
	bool counted; /* of a batch that is not over: */
	struct batch_counts counts;
	uint64_t started_ns; /* wall, of what runs; 0: not known, nor is: */
	int64_t began_ns;    /* the same by CLOCK_MONOTONIC; negative: before that began */
	bool agent_says;     /* so, who has looked at that clock itself */
	json_t *run;	     /* of what runs: its members in a list, but for `ran_s`; else NULL */
	json_t *reason;	     /* of what waits, as in a list: `code`, `text`; NULL: not known */
	json_t *forecast;    /* and when it starts: `text`, and `forecast` as in a list; or NULL */
	char *because;	     /* as struct task_view has it, of what has failed; or NULL */
	uint32_t json_at, json_len; /* in rows.json; 0: it is not kept */
};

struct rows {
	size_t n;
	struct row *all; /* in the planner's order */
	char *json;	 /* of those whose JSON is kept, one behind the other; or NULL */
};

struct rows_index;

struct rows_index *rows_index_new(const struct spool *sp);
struct rows_index *rows_index_free(struct rows_index *x);

/* What others say of it; each may be NULL. */
struct rows_said {
	const json_t *agents; /* the agent here of tasks that run here: objects by id ("42.7") */
	json_t *reasons, *forecasts; /* its answers to CTL_REASONS and CTL_FORECAST */
	bool unserved;		     /* no agent runs, here or on another node */
};

/* 0 or negative; then *ret is empty. */
int rows_read(struct rows_index *x, const struct rows_said *said, struct rows *ret, struct err *e);
void rows_clear(struct rows *r);
/* Those that have ended, the last one first, max at most. 0 or negative; then *ret is empty. */
int rows_read_ended(const struct spool *sp, size_t max, struct rows *ret, struct err *e);
/* Why those have failed, of the last ROWS_BECAUSE of them that have: it is a file for each, but for
 * those of the last reading. before may be NULL. */
void rows_read_because(const struct spool *sp, struct rows *ended, const struct rows *before);
/* Tasks that have ended since r was read, or that its index has not noticed yet, are taken out of
 * it, and those that have left; elements of a batch that was stopped may run on for a while. */
void rows_drop_ended(struct rows *r, const struct rows *ended);

/* A task that has a row there and none in r any more keeps it, until what has ended is read; one of
 * an element alone says nothing. before may be NULL. */
void rows_keep_left(struct rows *r, const struct rows *before);

/* When an attempt began by our clock is not found anew where the last reading had it: of what runs
 * elsewhere only the time of day is told, and that may have been set since. before may be NULL. */
void rows_keep_began(struct rows *r, const struct rows *before);
/* Make the JSON of each row, or take it from the rows of the last reading where nothing of it has
 * changed since. before may be NULL, or keep none. */
void rows_keep_json(struct rows *r, const struct rows *before);
/* A row of r as a list has it (docs/json.md), as of now_ns (CLOCK_MONOTONIC). */
void row_add_json(const struct rows *r, const struct row *row, uint64_t now_ns, struct strbuf *b);

#endif
