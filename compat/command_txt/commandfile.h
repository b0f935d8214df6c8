/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_COMMANDFILE_H
#define TENURE_COMPAT_COMMANDFILE_H

/*
 * The command.txt of an older scheduler (compete): blocks of shell commands with a queue's number
 * and the GPU memory that they need. Two ways to write a block, which may be mixed in a file:
 *
 *	python a.py			1 #queue
 *	python b.py			"python a.py"
 *	1,20				20 #GB
 *
 * A line that begins with # is a comment. Blank lines separate blocks. A command may be in quotes.
 * Behind a number a comment may follow. Pure: text in, blocks out.
 */

#include <stdint.h>

#include "base/err.h"
#include "spool/task_spec.h"

struct command_block {
	unsigned int line;  /* of its first one, from 1 */
	char queue[16];	    /* its number, as written */
	uint64_t mem_bytes; /* GB are 2^30 bytes */
	struct text_list commands;
};

struct command_file {
	size_t n;
	struct command_block *blocks;
};

/* file is for "file:line: " in errors. -EINVAL; *ret is empty then. */
int command_file_parse(const char *file, const char *text, size_t len, struct command_file *ret,
		       struct err *e);
void command_file_clear(struct command_file *f);

/*
 * A block as a script for /bin/sh: each command in a shell of its own, one after another, until one
 * fails. {work_dir} is replaced, {uni_id} is one for each attempt. With state (an absolute path)
 * the older tool's uni_id.json is kept by `noter` (see compat/unistate.h). The caller frees it.
 */
char *command_block_script(const struct command_block *b, const char *work_dir, const char *noter,
			   const char *state);

#endif
