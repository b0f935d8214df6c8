/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_VISIBLE_H
#define TENURE_COMPAT_VISIBLE_H

/*
 * The GPUs that a CUDA program started here would see, in its order: what CUDA_VISIBLE_DEVICES and
 * CUDA_DEVICE_ORDER leave of the machine. CUDA itself is asked, in a process of its own that ends
 * before anything is held, because no rule of ours could be as right.
 */

#include <stdint.h>

#include "base/err.h"

#define VISIBLE_MAX	 64
#define VISIBLE_UUID_MAX 96

struct visible {
	uint32_t n;
	char uuids[VISIBLE_MAX][VISIBLE_UUID_MAX]; /* as NVML writes them; by CUDA's ordinal */
};

/* 0; -ENODEV: CUDA sees none; -ENOENT: no driver; -EIO. */
int visible_list(struct visible *ret, struct err *e);

/* The ordinal, or -1. */
int visible_find(const struct visible *v, const char *uuid);

#endif
