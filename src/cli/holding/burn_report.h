/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_HOLDING_BURN_REPORT_H
#define TENURE_CLI_HOLDING_BURN_REPORT_H

/* What `tenure burn` shows: a table while it runs, and reports of it for people, programs and CI.
 */

#include <jansson.h>
#include <stdio.h>

#include "agent/burn/run.h"

struct burn_report_of {
	const struct burn_order *order;
	const struct burn_state *state;
	const struct burn_judgement *judgements; /* one for each device */
	const char *node;
	uint64_t began_wall_ns;
};

/* A row for each device, as it stands. */
void burn_progress_print(const struct burn_state *state, FILE *out);

/* For people: the table, and for each device what is to be said of it. */
void burn_report_print(const struct burn_report_of *r, FILE *out);

/* The same for programs (docs/json.md). The caller has the reference. */
json_t *burn_report_json(const struct burn_report_of *r);

/* As JUnit has it: a test case for each device; one that was yielded or not tested is skipped.
 * 0, or a negative errno with e. */
int burn_report_junit(const struct burn_report_of *r, const char *path, struct err *e);

#endif
