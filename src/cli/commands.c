/* SPDX-License-Identifier: MIT */
#include "cli/commands.h"

const struct cmd *const commands[] = {
	&cmd_config,
	&cmd_help,
	&cmd_sim,
	NULL,
};

const struct program programs[] = {
	{ 0 },
};
