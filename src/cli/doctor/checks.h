/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_DOCTOR_CHECKS_H
#define TENURE_CLI_DOCTOR_CHECKS_H

#include "cli/doctor/finding.h"

/* Checks of what is true of the node without asking a GPU. */
void doctor_check_nodes(struct doctor *d);
void doctor_check_memlock(struct doctor *d);
void doctor_check_copy(struct doctor *d);
void doctor_check_logind(struct doctor *d);
void doctor_check_container(struct doctor *d);
void doctor_check_tenants(struct doctor *d);
void doctor_check_sockets(struct doctor *d);

#endif
