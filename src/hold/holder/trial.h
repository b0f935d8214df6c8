/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_TRIAL_H
#define TENURE_HOLD_HOLDER_TRIAL_H

/*
 * Whether a device computes: a context, a little memory, and products of matrices that are compared
 * as those of a burn are (holder/burn.h), for half a second at most. For a process of its own that
 * ends behind it, because a driver that has been started is never given back, and may hang.
 */

#include <stdint.h>

#include "base/err.h"

/*
 * In the environment CUDA_VISIBLE_DEVICES is set to uuid. 0 and the results that were compared,
 * all of which were right, or 0 of them where the card is too old for products (compute capability
 * below 7.0): then only context and memory were tried. -EIO, -ENODEV, -ENOMEM: CUDA fails there;
 * -EBADMSG: it computes wrong results; and e.
 */
int trial_run(const char *uuid, uint64_t *ret_compared, struct err *e);

#endif
