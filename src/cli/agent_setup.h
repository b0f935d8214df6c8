/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_AGENT_SETUP_H
#define TENURE_CLI_AGENT_SETUP_H

/* What `hold`, `agent` and `on` share: from options and settings to an agent, and back to an exit
 * code. */

#include <sys/types.h>

#include "agent/agent.h"
#include "cli/cmd.h"
#include "engine/engine.h"

#define HOLD_SETTING_GROUPS (SETTING_GROUP_HOLD | SETTING_GROUP_NODE)
/* Of an agent that runs tasks. */
#define AGENT_SETTING_GROUPS                                                                       \
	(HOLD_SETTING_GROUPS | SETTING_GROUP_LIFE | SETTING_GROUP_SWEEP | SETTING_GROUP_SPARE)

#define AGENT_SETUP_NO_HOLD "no_hold" /* --no-hold, among the options of agent/reload.h */

/* --for, --until. */
extern const struct opt agent_setup_opts[];
/* The same with --no-hold, for who changes an agent. */
extern const struct opt agent_setup_opts_change[];
/* And what a pool gives to the agents of its jobs, for CMD_SERVES. */
extern const struct opt agent_setup_opts_serves[];

/* An agent_config and the string that it borrows; agent_setup_clear() frees. */
struct agent_setup {
	struct agent_config config;
	char *state_dir;
	char *root;		 /* of the spool, or NULL */
	char *options;		 /* agent_name_options() */
	char *cwd;		 /* NULL: it has none */
	struct engine_here here; /* of the job that we are in; zeroes: in none */
	struct lane_width *lanes;
	size_t n_lanes;
	char *sweep_spare;
	char *given; /* agent/reload.h: what of this was made from */
};

/* By which agent_setup_prepare() judges settings, for who checks a file before. */
extern const struct settings_rule agent_setup_rules[];

/* 0, or CMD_USAGE with e. ctx must outlive r. */
int agent_setup_prepare(const struct cmd_ctx *ctx, struct agent_setup *r, struct err *e);
void agent_setup_clear(struct agent_setup *r);

int agent_setup_exit_code(enum agent_end end);

/*
 * The directory of logs and state: the setting, or that of the XDG specification. The caller frees
 * it.
 */
char *agent_setup_state_dir(const struct settings *s);

#endif
