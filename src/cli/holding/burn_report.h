/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_HOLDING_BURN_REPORT_H
#define TENURE_CLI_HOLDING_BURN_REPORT_H

/* What `tenure burn` shows: a table while it runs, and reports of it for people, programs and CI.
 */

#include <jansson.h>
#include <stdio.h>

#include "agent/burn/run.h"
#include "cli/cmd.h"

/* Exit code: there is no guard, no GPU, or no way to tell what came of it. 1 is for bad cards. */
#define BURN_CANNOT_TEST 3

/* The devices of a node, in the order of the report. */
struct burn_node {
	const char *name;
	const char *trouble; /* why nothing, or nothing more, is known of it; NULL */
	uint32_t first, n;
};

struct burn_report_of {
	const struct burn_order *order;
	uint64_t for_ns;
	const struct burnt *devices;
	const struct burn_judgement *judgements; /* one for each device */
	uint32_t n;
	const struct burn_node *nodes;
	size_t n_nodes;
	const char *instance; /* of which these are all nodes; NULL: it is of this node alone */
	uint64_t began_wall_ns;
};

#define BURN_NO_INDEX UINT32_MAX /* in dev.index: of a device of which only the UUID is known */

/* A row for each device, as it stands. */
void burn_progress_print(const struct burn_state *state, FILE *out);

/* The same of several nodes, a row for each. */
struct burn_node_progress {
	const char *name, *state;
	const struct burnt *devices;
	uint32_t n;
};
void burn_nodes_progress_print(const struct burn_node_progress *nodes, size_t n, uint64_t for_ns,
			       FILE *out);

/* Judges all of them together, and shows what came of it as the options say (--json, --junit); the
 * files first, because who reads a pipe may have read enough. What cannot be written is said, and
 * keeps nothing else from being written. The exit code. r->judgements is its own meanwhile. */
int burn_report(const struct cmd_ctx *ctx, struct burn_report_of *r);

/* burn_exit_code() of all devices; a node without any could not be tested. */
int burn_report_exit_code(const struct burn_report_of *r);

/* For people: the table, and for each device what is to be said of it. */
void burn_report_print(const struct burn_report_of *r, FILE *out);

/* The same for programs (docs/json.md). The caller has the reference. */
json_t *burn_report_json(const struct burn_report_of *r);

/* As JUnit has it: a test case for each device; one that was yielded or not tested is skipped.
 * 0, or a negative errno with e. */
int burn_report_junit(const struct burn_report_of *r, const char *path, struct err *e);

#endif
