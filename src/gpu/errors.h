/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_ERRORS_H
#define TENURE_GPU_ERRORS_H

/*
 * The driver's error reports (XIDs), as NVML tells them: from gpu_errors_open() on, what was before
 * is not known. Reading never waits. A table belongs to the thread of its struct nvml, and is
 * closed before nvml_stop().
 */

#include <stdbool.h>
#include <stdint.h>

#include "gpu/device.h"

struct gpu_errors {
	nvmlEventSet_t set; /* NULL: this driver does not tell */
	uint32_t n;	    /* cards that it is told of */
};

/* Ask for the reports of all cards of list. Cards that do not tell are left out. */
void gpu_errors_open(const struct nvml *n, const struct gpu_list *list, struct gpu_errors *ret);
void gpu_errors_close(const struct nvml *n, struct gpu_errors *errors);

/* The next report: its XID and the card's handle. False: there is none just now. */
bool gpu_errors_next(const struct nvml *n, const struct gpu_errors *errors, nvmlDevice_t *ret,
		     uint32_t *ret_xid);

#endif
