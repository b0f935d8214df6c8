/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SCHED_WAITING_LINE_H
#define TENURE_SCHED_WAITING_LINE_H

/* Where a waiting entry stands: aside, in its lane, or ready. See waiting_line.c for the order. */

#include "sched/state.h"

/* The order of what is ready: <0, 0, >0. */
int sched_key_cmp(const struct sched_key *a, const struct sched_key *b);

void line_init(struct sched_queue *q);
/* The entry takes its place according to what its task says; it has none yet. */
void line_place(struct sched_queue *q, struct entry *e);
/* The entry has no place any more; its gate goes on. */
void line_displace(struct sched_queue *q, struct entry *e);
/* Something about the gate has changed: find out which entry of it may start. */
void line_refresh(struct sched_queue *q, struct gate *g);
/* The lane is served now: it goes behind the lanes that wait with the same priority. */
void line_serve(struct sched_queue *q, struct gate *lane, const struct sched_key *key);
/* Begin times and back-offs that are over. */
void line_wake(struct sched_queue *q, uint64_t now_ns, uint64_t now_wall_ns);
/* For a plan: the entry is out of sight, and back at the same place. */
void line_hide(struct sched_queue *q, struct entry *e);
void line_show(struct sched_queue *q, struct entry *e);
/* 1 for the first of all that are in line; 0 when it stands aside. A batch counts its elements. */
uint64_t line_position(const struct sched_queue *q, const struct entry *e);

#endif
