/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_PROCS_H
#define TENURE_GPU_PROCS_H

/*
 * The process list of a device. The struct that NVML writes has had three sizes (16, 24, 32 bytes)
 * under the same function names, depending on the driver, so its size is measured on every call:
 * the buffer is filled with a pattern, and what was overwritten tells. A list that makes no sense
 * is an error, and an error means "we cannot see" to everybody above (invariant 3).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "gpu/nvml.h"

#define GPU_PROCS_MAX 128 /* entries that are kept; n_total says how many there were */

struct gpu_proc {
	pid_t pid;
	bool graphics;
	bool used_known; /* false in containers, on WSL: the driver says all-ones */
	uint64_t used_bytes;
};

struct gpu_procs {
	uint32_t n, n_total;
	uint32_t stride; /* bytes of one entry as measured; 0 while a list was empty */
	struct gpu_proc p[GPU_PROCS_MAX];
};

/* The byte with which the buffer is filled before the call. */
#define GPU_PROCS_PATTERN 0xa5

/*
 * Pure: n entries were written at the start of buf (size bytes, filled with the pattern before).
 * The size of one entry, or -EPROTO when no known layout gives plausible PIDs.
 */
int gpu_procs_stride(const void *buf, size_t size, uint32_t n);

/* Pure: append the n entries at buf to list. graphics marks them. 0, or -EPROTO. */
int gpu_procs_decode(struct gpu_procs *list, const void *buf, size_t size, uint32_t n,
		     bool graphics);

/*
 * Read the compute list of a device, and with also_graphics the graphics list behind it. 0; -ENODEV
 * (lost); -EPROTO (the struct looks wrong); -EIO. A driver without graphics lists gives none.
 */
int gpu_procs_read(const struct nvml *n, nvmlDevice_t dev, bool also_graphics,
		   struct gpu_procs *ret, struct err *e);

#endif
