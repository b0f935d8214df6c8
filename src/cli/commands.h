/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_COMMANDS_H
#define TENURE_CLI_COMMANDS_H

/* The rows of all commands; each is in the file that is called like it. */

#include "cli/cmd.h"

#define QUEUE_GROUP "Running tasks"
#define ALLOC_GROUP "Allocations"

extern const struct cmd cmd_agent;
extern const struct cmd cmd_alloc, cmd_release, cmd_allocs, cmd_start, cmd_tell_free;
extern const struct cmd cmd_ask, cmd_answer;
extern const struct cmd cmd_completion;
extern const struct cmd cmd_config;
extern const struct cmd cmd_devices;
extern const struct cmd cmd_doctor;
extern const struct cmd cmd_health;
extern const struct cmd cmd_version;
extern const struct cmd cmd_edit;
extern const struct cmd cmd_engines;
extern const struct cmd cmd_events;
extern const struct cmd cmd_help;
extern const struct cmd cmd_history;
extern const struct cmd cmd_burn, cmd_burn_part;
extern const struct cmd cmd_hold;
extern const struct cmd cmd_import;
extern const struct cmd cmd_instances;
extern const struct cmd cmd_up, cmd_down, cmd_tick;
extern const struct cmd cmd_list;
extern const struct cmd cmd_logs;
extern const struct cmd cmd_top;
extern const struct cmd cmd_man;
extern const struct cmd cmd_nodes;
extern const struct cmd cmd_notify;
extern const struct cmd cmd_off;
extern const struct cmd cmd_on;
extern const struct cmd cmd_pause;
extern const struct cmd cmd_priority;
extern const struct cmd cmd_prune;
extern const struct cmd cmd_reload;
extern const struct cmd cmd_resume;
extern const struct cmd cmd_retry;
extern const struct cmd cmd_run_task;
extern const struct cmd cmd_serve, cmd_web;
extern const struct cmd cmd_show;
extern const struct cmd cmd_shutdown;
extern const struct cmd cmd_sim;
extern const struct cmd cmd_status;
extern const struct cmd cmd_stop;
extern const struct cmd cmd_submit;
extern const struct cmd cmd_sweep;
extern const struct cmd cmd_use;
extern const struct cmd cmd_wait;
extern const struct cmd cmd_why;

/* In the order of `tenure --help` (main.c); ends with NULL. */
extern const struct cmd *const commands[];

#endif
