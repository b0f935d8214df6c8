/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_MAN_H
#define TENURE_CLI_MAN_H

/*
 * The man pages, man(7), from the rows that --help is made from: what a command, an option or a
 * setting is called is written in one place. The caller frees the text.
 */

#include "cli/cmd.h"

/* tenure(1): all commands, exit codes, files. */
char *manpage_overview(void);
/* tenure-NAME(1), with the commands below it. */
char *manpage_command(const struct cmd *cmd);
/* tenure.yaml(5): all settings. */
char *manpage_settings(void);

#endif
