/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SIM_CMD_SIM_H
#define TENURE_SIM_CMD_SIM_H

/* What the two commands of the simulator share; their rows are declared here for the tables. */

#include "base/err.h"
#include "cli/cmd.h"

#define SIM_FILE_NAME "machine" /* in the machine's directory; TENURE_SIM holds its path */

extern const struct cmd cmd_sim_ctl;

/* "0.5": 0 or above. 0, or -EINVAL with the reason. */
int sim_parse_speed(const char *text, double *ret, struct err *e);

#endif
