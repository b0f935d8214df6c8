/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_RUN_AGENT_H
#define TENURE_CLI_RUN_AGENT_H

/* What `hold`, `agent` and `on` share: from options and settings to an agent, and back to an exit
 * code. */

#include <sys/types.h>

#include "agent/agent.h"
#include "cli/cmd.h"

#define RUN_SETTING_GROUPS (SETTING_GROUP_HOLD | SETTING_GROUP_NODE)
/* Of an agent that runs tasks. */
#define AGENT_SETTING_GROUPS                                                                       \
	(RUN_SETTING_GROUPS | SETTING_GROUP_LIFE | SETTING_GROUP_SWEEP | SETTING_GROUP_SPARE)

/* --for, --until, --json. */
extern const struct opt run_opts[];
/* The same with --no-hold. */
extern const struct opt run_opts_no_hold[];

/* An agent_config and the string that it borrows; run_agent_clear() frees. */
struct run_agent {
	struct agent_config config;
	char *state_dir;
	char *root; /* of the spool, or NULL */
	char *cwd;  /* NULL: it has none */
	struct lane_width *lanes;
	size_t n_lanes;
	char *sweep_spare;
};

/* By which run_agent_prepare() judges settings, for who checks a file before. */
extern const struct settings_rule run_agent_rules[];

/* 0, or CMD_USAGE with e. ctx must outlive r. */
int run_agent_prepare(const struct cmd_ctx *ctx, struct run_agent *r, struct err *e);
void run_agent_clear(struct run_agent *r);

int run_agent_exit_code(enum agent_end end);

/*
 * The directory of logs and state: the setting, or that of the XDG specification. The caller frees
 * it.
 */
char *run_agent_state_dir(const struct settings *s);

#endif
