/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_DOCTOR_LAUNCH_H
#define TENURE_CLI_DOCTOR_LAUNCH_H

#include "cli/doctor/finding.h"

/* Hold a little memory on an idle device for a moment, as a real agent does. */
void doctor_check_launch(struct doctor *d);

#endif
