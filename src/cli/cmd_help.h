/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_CMD_HELP_H
#define TENURE_CLI_CMD_HELP_H

#include <stdio.h>

/* What `tenure` and `tenure --help` show: what it is, the commands in their groups, where to go on.
 */
void help_overview(FILE *out);

#endif
