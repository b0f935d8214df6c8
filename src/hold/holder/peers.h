/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_PEERS_H
#define TENURE_HOLD_HOLDER_PEERS_H

/*
 * The copies of a burn to other devices, over NVLink or whatever joins them: to windows in their
 * memory that their holders offer (struct burn_peers), one after another.
 *
 * Two that copy over the same link at once would measure each other. So all holders of a node go by
 * one clock, as in a tournament: in each turn every device has one partner at most, and in either
 * half of it one of the two copies.
 *
 * Nobody waits for us to close a window: its memory stays until we have, and no longer than a copy
 * takes. As burn.h says, nothing here is called with the lock of load.c, but for the launch of the
 * copies.
 */

#include "hold/holder/copies.h"

#define PEERS_HALF_NS (100 * NS_PER_MS)

struct peers;

/* Copies go from and to bytes of device memory at `at`. 0 and *ret, or -errno and e. */
int peers_create(const struct copies_setup *setup, struct peers **ret, struct err *e);
void peers_begin(struct peers *p, CUdeviceptr at, uint64_t bytes);

/* The windows that there are now: those that are gone are closed. */
void peers_set(struct peers *p, const struct burn_peers *all);

/* What is to be copied next: NULL, if it is not our turn. Opens the window when it is the first
 * time. */
struct copies *peers_next(struct peers *p, uint64_t now_ns);

/* What is in our windows was written over meanwhile. */
void peers_restart(struct peers *p);

/* The step of peers_next() has been launched: wait for it, and add what it found. */
CUresult peers_finish(struct peers *p, struct burn_report *found);

/* Add what cannot be reached. */
void peers_note(struct peers *p, struct burn_report *found);

/* How long it takes until each has copied to each; 0: there is nobody. */
uint64_t peers_round_ns(const struct peers *p);

/* Pure: the partner of the device at position me among n in that turn; n: it has none. In n turns
 * (n - 1, where n is even) each has met each. */
uint32_t peers_partner(uint32_t n, uint32_t me, uint64_t turn);

#endif
