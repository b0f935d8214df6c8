/* SPDX-License-Identifier: MIT */
#include "cli/print_json.h"

#include <stdio.h>

/* 0.066 and not 0.066029000000000004; milliseconds of a year still fit. */
#define DIGITS JSON_REAL_PRECISION(12)

static void print(json_t *doc, size_t flags)
{
	(void)json_dumpf(doc, stdout, flags | DIGITS);
	(void)putchar('\n');
	json_decref(doc);
}

void print_json(json_t *doc)
{
	print(doc, JSON_INDENT(2));
}

void print_json_line(json_t *doc)
{
	print(doc, JSON_COMPACT);
}
