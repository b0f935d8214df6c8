/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_HELP_H
#define TENURE_CLI_HELP_H

#include <stdio.h>

#include "cli/cmd.h"

/* The group of a command that is shown, for group_next(); rows: commands. */
const char *command_group_of(const void *rows, size_t i);
size_t n_commands(void);

/* What `tenure` and `tenure --help` show: what it is, commands in groups, where to read on. */
void help_overview(FILE *out);

/* The exit codes and what they mean; ends with a row without text. */
struct exit_code {
	enum cmd_exit code;
	const char *what;
};

extern const struct exit_code exit_codes[];

#endif
