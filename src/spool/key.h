/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_KEY_H
#define TENURE_SPOOL_KEY_H

/*
 * What tells a spool from all others, earlier ones at its place included, which had the same ids:
 * the file `key`, a random number that is written once. Shims of its tasks have names made from it
 * (agent/runjob.h), so it must stay the same while a task runs, whatever is done to other files.
 */

#include "spool/spool.h"

#define SPOOL_KEY_MAX 33

/* 0; -ENOENT: there is none, as is known for good; -EINVAL: what is there is no key; -errno. */
int spool_key_read(const struct spool *sp, char ret[SPOOL_KEY_MAX], struct err *e);
/* Makes it where there is none: for who starts tasks. As above. */
int spool_key(const struct spool *sp, char ret[SPOOL_KEY_MAX], struct err *e);

#endif
