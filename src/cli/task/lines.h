/* SPDX-License-Identifier: MIT */
#ifndef TENURE_CLI_TASK_LINES_H
#define TENURE_CLI_TASK_LINES_H

/*
 * The lines of `submit --from`: shell commands, and JSON. Where all that they say is what to run,
 * they are the elements of one task; where a JSON line has a key of its own ("gpus", "name"), each
 * line is a task of its own, for which the options of `submit` are what it does not say itself.
 */

#include "base/value.h"
#include "spool/task_spec.h"

struct spec_list {
	size_t n;
	struct task_spec **specs;
};

void spec_list_add(struct spec_list *l, struct task_spec *s);
void spec_list_clear(struct spec_list *l);

/*
 * Of all files ("-": standard input). Either s has the commands, or *ret a task for each line,
 * checked. 0, or negative: the text says where it is wrong.
 */
int lines_take_files(struct task_spec *s, const struct text_list *files, struct spec_list *ret,
		     struct err *e);

#endif
