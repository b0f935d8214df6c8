/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_LEASES_H
#define TENURE_AGENT_LEASES_H

/*
 * What the guard says about leases, to the attempts, the workload, and the reservations:
 * guardlink's op of that name. A lease is given back when nobody knows of it and its shim is gone,
 * never before: a shim that nobody speaks with now runs all the same.
 */

#include <stdbool.h>

#include "base/textlist.h"
#include "hold/proto.h"
#include "spool/name.h"

struct attempt;
struct dispatch;

/* True: it is known now what the guard has, and the plan is due. */
bool leases_on_message(struct dispatch *q, const struct msg_head *m);
/* The queue is open: of the leases that the guard told of, what was left by who is gone is given
 * back, and what is reserved is known. */
void leases_take_told(struct dispatch *q);
/* A task that runs was taken over: it hears what the guard has said of it before, and says once. */
void leases_adopted(struct dispatch *q, struct attempt *r);
/* The devices of a claim's attempt, as the guard's ledger knows them. */
void leases_find_devices(const struct dispatch *q, const struct task_name *n,
			 struct text_list *ret);

#endif
