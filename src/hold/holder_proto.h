/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_PROTO_H
#define TENURE_HOLD_HOLDER_PROTO_H

/*
 * What guard and holder say to each other, over a SOCK_SEQPACKET pair that the holder has as
 * descriptor HOLDER_FD. Always the same executable on both ends, so one struct serves for all.
 *
 *   guard                        holder
 *     HOLD {amount, load, duty}
 *                                  READY    the context is there
 *                                  HELD     {bytes held, bytes wanted}; again after each GROW
 *     LOAD {load, duty}                     load on, off (LOAD_NONE) or of another strength
 *     GROW                                  take what is still missing, if it is there
 *     AMOUNT {amount}                       hold that much instead; HELD answers
 *     CLOSE                                 the burn is over, and nobody waits for the memory:
 *                                           compare what is left, stop
 *     RELEASE                               stop the load, free the memory in place
 *                                  FREED    {bytes}; the context stays
 *     END                                   end the process, the context goes with it
 *     HEARTBEAT                             twice a second
 *                                  BURN       {found}, while it burns, and at its end
 *                                  WINDOW   {peers.windows[0]} of its memory, for the holders
 *                                           of other devices; of 0 bytes: it is gone
 *     PEERS {peers}                         the windows of all: whoever has one open that is not
 *                                           among them closes it
 *                                  HEARTBEAT  the answer: it is no driver call that it stands in
 *                                  FAILED   {code, text}; the holder ends by itself
 *
 * At the end of file, in either direction, the other side is gone: the holder ends at once. A guard
 * that was stopped is as good as gone, because it yields to nobody: a holder that hears nothing for
 * HOLDER_ALONE_MS ends as well.
 */

#include <stdint.h>
#include <sys/types.h>

#include "hold/burn.h"
#include "hold/policy.h"

#define HOLDER_FD      3
#define HPROTO_VERSION 6

#define HOLDER_HEARTBEAT_MS 500U
#define HOLDER_ALONE_MS	    2000U
#define HOLDER_EXIT_ALONE   3 /* exit code of one that heard nothing any more */

/* Its name in /proc, and what nvidia-smi shows to a colleague. */
#define HOLDER_COMM  "tenure-hold"
#define HOLDER_ARGV0 "tenure-hold: idle, start your job, it yields"

enum holder_type {
	HOLDER_HOLD = 1,
	HOLDER_LOAD,
	HOLDER_GROW,
	HOLDER_RELEASE,
	HOLDER_END,
	HOLDER_READY,
	HOLDER_HELD,
	HOLDER_FREED,
	HOLDER_FAILED,
	HOLDER_AMOUNT,
	HOLDER_HEARTBEAT,
	HOLDER_BURN,
	HOLDER_WINDOW,
	HOLDER_PEERS,
	HOLDER_CLOSE,
	HOLDER_TYPE_MAX
};

struct holder_msg {
	uint16_t version; /* HPROTO_VERSION */
	uint16_t type;	  /* enum holder_type */
	int32_t code;	  /* FAILED: negative errno; BURN: 1 with its last word, or 0 */
	struct mem_amount amount;
	uint32_t load;		  /* enum load_kind */
	uint32_t duty_permille;	  /* share of the time in which the load runs */
	struct burn_test burn;	  /* with LOAD_BURN */
	uint64_t bytes;		  /* held (HELD) or freed (FREED) */
	uint64_t wanted;	  /* HELD */
	uint64_t at_ns;		  /* CLOCK_MONOTONIC when it was done */
	char text[160];		  /* FAILED: why; HELD: a remark, or empty */
	struct burn_report found; /* BURN */
	struct burn_peers peers;  /* WINDOW, PEERS */
};

/*
 * The n bytes received into m are a message: 0, its text terminated and its numbers in range; else
 * -EPROTO, and the other side is not what we started. In a holder as in the guard.
 */
int holder_msg_take(struct holder_msg *m, ssize_t n);

#endif
