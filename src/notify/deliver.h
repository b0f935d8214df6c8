/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_DELIVER_H
#define TENURE_NOTIFY_DELIVER_H

/*
 * One attempt to tell one channel, in a process of its own: a name server, a mail server, a file
 * with a password or a program may hang, and then that process is killed, while other channels go
 * on. Secrets are read there, and are nowhere else.
 *
 *	d = delivery_start(channel, event);
 *	poll(delivery_fd(d)), up to delivery_deadline_ms(d);
 *	d = delivery_end(d, &result);
 */

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"
#include "notify/config.h"
#include "notify/delivered.h"

struct delivery;

/* Takes no reference. NULL: no process can be started; *ret says why. */
struct delivery *delivery_start(const struct channel *ch, const json_t *event,
				struct delivery_result *ret);
/* Readable when it is over. */
int delivery_fd(const struct delivery *d);
uint64_t delivery_deadline_ms(const struct delivery *d); /* CLOCK_MONOTONIC */
/* Its result; one that is not over is killed. Returns NULL. */
struct delivery *delivery_end(struct delivery *d, struct delivery_result *ret);
/* Nobody asks any more. Returns NULL. */
struct delivery *delivery_forget(struct delivery *d);

/* In the process itself; blocks. 0, or -errno with e: as `how` says. */
int deliver(const struct channel *ch, const json_t *event, enum delivered *how, struct err *e);

#endif
