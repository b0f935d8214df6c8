/* SPDX-License-Identifier: MIT */
#ifndef TENURE_COMPAT_COMPETE_GPUS_H
#define TENURE_COMPAT_COMPETE_GPUS_H

/* The list of a config's compete_gpus, without those that this machine has not. */

#include "base/err.h"

/*
 * wanted: "0,1,9"; devices: what `tenure devices --json` prints. 0 with the rest of the list (the
 * caller frees it) and those that were left out ("9", or NULL); -ENODEV: nothing is left; -EINVAL:
 * no such JSON.
 */
int compete_gpus_here(const char *wanted, const char *devices, char **ret, char **ret_out,
		      struct err *e);

#endif
