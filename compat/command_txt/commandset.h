/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_COMMANDSET_H
#define TENURE_COMPAT_COMMANDSET_H

/*
 * The config.yaml beside a command.txt (commandfile.h). Every key has its default, and a key
 * that is not known is refused with its place:
 *
 *	check_time, maximize_resource_utilization, compete_gpus, use_all_gpus, gpu_left, work_dir,
 *	retry_config: max_retry_before_backoff, backoff_duration
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct command_set {
	uint64_t check_ms; /* between two looks */
	bool maximize;	   /* other Python processes of ours on a GPU do not matter */
	bool all_gpus;	   /* gpus does not count; where it is not said: whether none are named */
	char *gpus;	   /* "0,1,2"; NULL: none are named */
	uint64_t left;	   /* the last so many are for others */
	uint64_t retry_every; /* failures before the pause; 0: no pause */
	uint64_t backoff_ms;
	char *work_dir; /* as written; NULL: the directory above */
};

void command_set_default(struct command_set *c);
/* Over the defaults. -EINVAL with "file:line:column: "; *ret is to be cleared all the same. */
int command_set_parse(const char *file, const char *text, size_t len, struct command_set *ret,
		      struct err *e);
void command_set_clear(struct command_set *c);

/*
 * The directory that commands run in: nothing is the one above dir, which has the files; a relative
 * one begins at dir. Without "." and "..", symbolic links followed. The caller frees it; NULL with
 * e: there is none.
 */
char *command_set_work_dir(const struct command_set *c, const char *dir, struct err *e);

#endif
