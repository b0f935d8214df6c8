/* SPDX-License-Identifier: MIT */
#include "cli/commands.h"

#include "agent/guardspawn.h"
#include "hold/guard.h"
#include "hold/holder.h"
#include "task/mother.h"

const struct cmd *const commands[] = {
	&cmd_hold,   &cmd_on,	    &cmd_off,	    &cmd_shutdown, &cmd_status, &cmd_agent,
	&cmd_submit, &cmd_run_task, &cmd_list,	    &cmd_show,	   &cmd_why,	&cmd_logs,
	&cmd_wait,   &cmd_stop,	    &cmd_priority,  &cmd_pause,	   &cmd_resume, &cmd_retry,
	&cmd_edit,   &cmd_history,  &cmd_instances, &cmd_use,	   &cmd_import, &cmd_sweep,
	&cmd_prune,  &cmd_devices,  &cmd_doctor,    &cmd_config,   &cmd_help,	&cmd_sim,
	&cmd_man,    NULL,
};

const struct program programs[] = {
	{ .argv0_prefix = "tenure-hold:", .run = holder_main },
	{ .argv0_prefix = "tenure-shims:", .run = mother_main },
	{ .argv0_prefix = COPY_TRY_ARGV0, .run = guardspawn_try_main },
	{ .verb = "guard", .run = guard_main },
	{ 0 },
};
