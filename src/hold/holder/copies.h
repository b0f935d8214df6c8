/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_COPIES_H
#define TENURE_HOLD_HOLDER_COPIES_H

/*
 * The copies of a burn: between windows in what is held and the far side, pinned memory of the host
 * or windows of another device (peers.h), one way, the other, and both at once. What is copied is a
 * pattern that depends on the place and on the round; the device writes it, and compares what has
 * come back, so each word went over the bus twice.
 *
 * A copy cannot be stopped, so each is so short that it takes COPIES_NS at most. As burn.h says,
 * launch is called with the lock of load.c, the others without.
 */

#include <stdint.h>

#include "gpu/cuda.h"
#include "hold/burn.h"

#define COPIES_NS	   (4 * NS_PER_MS)
#define COPIES_WINDOW_MOST (32ULL << 20)
/* Of device memory that is of use. */
#define COPIES_ROOM_MOST (4 * COPIES_WINDOW_MOST)
#define COPIES_RATES	 63

struct copies;

/* What is known of a far side. */
struct copy_rates {
	uint64_t last[BURN_WAY_MAX][COPIES_RATES]; /* of each way, in bytes per second */
	uint64_t window;			   /* that follows from it; 0: not known yet */
};

/* What is there already: the kernel that writes and compares patterns is tenure_memory. */
struct copies_setup {
	const struct cuda *cu;
	CUstream stream;
	CUdeviceptr stop;
	CUfunction memory;
	unsigned int sm_count;
};

/* A second stream and what is needed beside it. 0 and *ret, or -errno and e. */
int copies_create(const struct copies_setup *setup, struct copies **ret, struct err *e);

/*
 * Begin in bytes of device memory at `at`. Takes memory of the host, twice a window, if it has
 * none: in pieces whose pinning takes the driver's lock for some milliseconds each. 0; -ENOMEM: no
 * memory of the host is to be had; -ENOSPC: too few bytes; -EIO; and e.
 */
int copies_begin(struct copies *c, CUdeviceptr at, uint64_t bytes, struct err *e);

/*
 * The same with two windows of so many bytes in the memory of another device, at `far` and behind
 * it. rates are kept by the caller, because they are of that device. 0; -ENOSPC, and e.
 */
int copies_begin_far(struct copies *c, CUdeviceptr at, uint64_t bytes, CUdeviceptr far,
		     uint64_t far_bytes, struct copy_rates *rates, struct err *e);

/* What is in the windows was written over meanwhile: a round begins. */
void copies_restart(struct copies *c);

/* The next step of a round. */
CUresult copies_launch(struct copies *c);

/* Wait until it has ended, and add what it found. */
CUresult copies_finish(struct copies *c, struct burn_copies *found);

/* Give the memory of the host back; copies_begin() takes it again. */
void copies_give_back(struct copies *c);

/* Pure: bytes of a window where so many were copied in ns, and room is what there is for one: as
 * many as are copied in COPIES_NS, whole MiB, at least one. */
uint64_t copies_window(uint64_t bytes, uint64_t ns, uint64_t room);

#endif
