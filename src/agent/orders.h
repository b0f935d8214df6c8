/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_ORDERS_H
#define TENURE_AGENT_ORDERS_H

/*
 * What people order from elsewhere: through control/ (clients of other nodes), looked for every two
 * seconds and when the directory changes, and through control.json (other tools), which the scan of
 * the spool finds (agent/queue/index.h).
 */

#include <uv.h>

#include "agent/queue/index.h"

struct tasks;
struct orders;

struct orders *orders_new(uv_loop_t *loop, struct tasks *q);
/* The spool is open: what lies there for an agent of our name before us is forgotten. */
void orders_start(struct orders *o);
/* A client may have written one. */
void orders_look(struct orders *o);
void orders_stop(struct orders *o);
/* Its memory goes with its handles in the loop. */
void orders_free(struct orders *o);

/* One of control.json. */
void orders_obey_file(struct tasks *q, const struct control_order *order);

#endif
