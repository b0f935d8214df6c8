/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_COMPETE_LEFT_H
#define TENURE_COMPAT_COMPETE_LEFT_H

/* What still runs, as the agent knows it: for where the queue does not say. */

#include <stddef.h>

#include "base/strbuf.h"

/* In what `tenure status --json` prints: how many tasks have processes, and "2 train.sh (PID 42)"
 * of each in names. 0 also where it is no such text. */
size_t compete_left(const char *status, struct strbuf *names);

#endif
