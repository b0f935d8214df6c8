/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SPOOL_FOLD_H
#define TENURE_SPOOL_FOLD_H

/* A task that is tried for ever gets three records per attempt, and its file is read for each. So
 * what is over becomes one record, a `past`, when there is much of it. */

#include "spool/claim.h"

/* As record_append() of the requeue of c, which is released. Where the claim was taken back the
 * record is appended, or -ENOENT. */
int fold_requeue(const struct spool *sp, const struct claim *c, json_t *requeue, struct err *e);

#endif
