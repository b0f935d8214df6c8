/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_KEYS_H
#define TENURE_ENGINE_KEYS_H

/*
 * A pool's own settings for its engine, KEY=VALUE, as far as an engine needs what no other has: an
 * image, a workspace. Each engine has a table of its keys, which its page in docs/cluster.md shows.
 * Pure.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/textlist.h"

struct engine_key {
	const char *name;
	const char *what;     /* for who has not set it: "the image that the job runs in" */
	const char *fallback; /* where it is not set; NULL: it stays unset */
	bool needed;
};

/* The last one of that name counts; the table's fallback where there is none; NULL. keys ends with
 * a NULL name. An empty value is none. */
const char *engine_key_value(const struct engine_key *keys, const struct text_list *settings,
			     const char *name);
/* 0; -EINVAL: something that is needed was not said, is no key of this engine, or is no text of one
 * line. One text names each. engine: "sco". */
int engine_keys_check(const char *engine, const struct engine_key *keys,
		      const struct text_list *settings, struct err *e);

#endif
