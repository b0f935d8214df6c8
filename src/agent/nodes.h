/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODES_H
#define TENURE_AGENT_NODES_H

/* This agent among those of other nodes: what it tells them, and what it does when one is gone. */

#include <stdint.h>

#include "base/strbuf.h"

struct dispatch;

struct node_watch *nodes_watch(struct dispatch *q);
struct recovery *nodes_recovery(struct dispatch *q);
/* Before any other job of the spooler: where shims leave their records (q->run_dir), and what tasks
 * begin with (q->place.login). Either may be on a file system that hangs, so who uses them on the
 * loop waits for a job that came later. */
void nodes_find_places(struct dispatch *q);
/* The devices have changed, or may have: others are told at once how many there are. */
void nodes_look(struct dispatch *q);
/* What the status beside the heartbeat tells has changed, and is not to wait for the next one. */
void nodes_status_changed(struct dispatch *q);
/* "; beta (8 GPUs) may run it": what the other nodes have for a task that cannot run here. */
void nodes_tell_room(const struct dispatch *q, uint64_t gpus, struct strbuf *b);

#endif
