/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_WEBHOOK_H
#define TENURE_NOTIFY_WEBHOOK_H

/* A POST to an address. Blocks. 0, or -errno with e. */

#include <jansson.h>

#include "notify/config.h"
#include "notify/delivered.h"

int webhook_post(const struct channel *ch, const json_t *event, enum delivered *how, struct err *e);
/* What the body of a service's answer says: NULL where it is content; else a code and its words,
 * which are the caller's. Pure. */
char *webhook_complaint(enum webhook_format format, const char *answer);

#endif
