/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_WORKERS_H
#define TENURE_SERVE_WORKERS_H

/*
 * Some threads that do what may take its time: read files, run commands. What waits for them is
 * bounded; who comes when the line is full is told to come again.
 */

#include "base/err.h"

#define WORKERS	     6
#define WORKERS_LINE 64 /* that wait for one */

struct workers;

int workers_new(struct workers **ret, struct err *e);
/* fn(data) is called by one of them. 0; -EAGAIN: the line is full, or they end. */
int workers_do(struct workers *w, void (*fn)(void *data), void *data);
/* Nothing more is taken, what waits is done; one that hangs is left behind after limit_ms, with w.
 * Returns NULL. */
struct workers *workers_free(struct workers *w, unsigned int limit_ms);

#endif
