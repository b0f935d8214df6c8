/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_PRINT_JSON_H
#define TENURE_CLI_PRINT_JSON_H

#include <jansson.h>

/* The document on standard output, for people too; or in one line. Takes the reference over. */
void print_json(json_t *doc);
void print_json_line(json_t *doc);

#endif
