/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_IMPORT_H
#define TENURE_COMPAT_IMPORT_H

/* Several tasks into the queue: all of them, or none. */

#include "compat/command_txt/commandfile.h"
#include "compat/command_txt/commandset.h"
#include "spool/submit.h"

/*
 * A block as a task by the older scheduler's rules: its queue 3 is the lane q3 (a bare number means
 * a task to the commands), free memory is the condition on others' use, and it is tried again for
 * ever. noter and state as in command_block_script(). The caller frees it and adds the environment.
 */
#define IMPORT_LANE "q"
struct task_spec *import_spec(const struct command_block *b, const struct command_set *set,
			      const char *work_dir, const char *noter, const char *state);

/*
 * ret_ids has room for n. None of them may start before all are in: they wait paused until then. 0,
 * SUBMIT_NOT_DURABLE, or negative: then none is there, or, with *ret_in, all are, and some of them
 * still wait paused, as e says.
 */
int import_submit(const struct spool *sp, struct task_spec *const *specs, size_t n,
		  uint64_t *ret_ids, bool *ret_in, submit_step_fn step, void *user, struct err *e);

#endif
