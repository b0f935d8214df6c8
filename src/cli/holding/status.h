/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_HOLDING_STATUS_H
#define TENURE_CLI_HOLDING_STATUS_H

#include <jansson.h>
#include <stdio.h>

/* The status document (agent/report/status_json.h) for people: colour where out is a terminal that
 * has it. */
void status_text_print(json_t *doc, FILE *out);

#endif
