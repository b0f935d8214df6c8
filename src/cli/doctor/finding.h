/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_DOCTOR_FINDING_H
#define TENURE_CLI_DOCTOR_FINDING_H

/*
 * What `tenure doctor` collects. A check looks at one thing and adds findings; a finding that is
 * not ok says what to do about it.
 */

#include <jansson.h>
#include <stdbool.h>

#include "cli/cmd.h"
#include "cli/machine.h"
#include "hold/proto.h"

enum finding_level {
	FINDING_OK,
	FINDING_NOTE, /* good to know; nothing is wrong */
	FINDING_WARN, /* works, less well than it could */
	FINDING_FAIL, /* does not work: exit code 1 */
	FINDING_LEVEL_MAX
};

/* What doctor --launch has come to. */
enum launch_result {
	LAUNCH_NOT_ASKED,
	LAUNCH_NONE, /* nothing could be tried just now */
	LAUNCH_OK,   /* and what it found is in the other fields */
	LAUNCH_FAILED
};

struct doctor {
	const struct cmd_ctx *ctx;
	const char *dev_dir;
	struct machine *machine; /* NULL: no GPU can be seen, and why is in trouble */
	struct err trouble;
	bool opens_seen; /* inotify on the device nodes works */
	bool hidden;	 /* we are in a PID namespace: neighbours may not be listed */
	bool late;	 /* --launch: a newcomer asked for memory before all was free */
	enum launch_result launch;
	json_t *agent_devices; /* what the instance's agent says of them; NULL: none runs */
	enum pid_class pid_class;
	json_t *findings;
	bool failed;
};

/* "ok", "note", "warn", "FAIL". */
const char *finding_level_name(unsigned int level);

/* check: a few words; advice: what to do, or NULL. */
void doctor_find(struct doctor *d, enum finding_level level, const char *check, const char *advice,
		 const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
