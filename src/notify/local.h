/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_LOCAL_H
#define TENURE_NOTIFY_LOCAL_H

/* Programs of this machine: the desktop's, and one of the user's own. */

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/textlist.h"
#include "notify/config.h"
#include "notify/delivered.h"

/*
 * words[0] is looked for on PATH, unless it is a path. It gets input, and env (may be NULL) beside
 * our environment; at most limit_ms go by. 0; -ETIMEDOUT: it was killed; negative with e, which
 * has the end of what it printed.
 */
int local_run(const struct text_list *words, const struct text_list *env, const char *input,
	      size_t len, uint64_t limit_ms, struct err *e);

int local_desktop(const struct channel *ch, const json_t *event, enum delivered *how,
		  struct err *e);
int local_command(const struct channel *ch, const json_t *event, enum delivered *how,
		  struct err *e);

#endif
