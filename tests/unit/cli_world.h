/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TESTS_CLI_WORLD_H
#define TENURE_TESTS_CLI_WORLD_H

/*
 * Commands in this process, over the spool of spool_world.h: no settings but the defaults, and no
 * agent. What they print is kept.
 */

#include <stdio.h>

#include "cli/commands.h"

struct said {
	int code; /* the exit code */
	char *out, *err;
};

/* For cmocka: those of the spool, and an environment in which nothing of this machine is seen. */
int cli_setup(void **state);
int cli_teardown(void **state);

/* The words of a line are separated by blanks; '...' is one word, which is all there is of quoting.
 * said_clear() it. */
struct said cli(const struct cmd *cmd, const char *line);
void said_clear(struct said *s);

/* What a function prints on a stream's descriptor, STDOUT_FILENO or STDERR_FILENO, between the two.
 * The text is the caller's to free. */
struct printing {
	int fd, screen;
	FILE *file;
};

struct printing printing_begin(int fd);
char *printing_end(struct printing *p);

#endif
