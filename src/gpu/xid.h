/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_XID_H
#define TENURE_GPU_XID_H

/*
 * Error reports of the driver (XIDs): what a number says of a device, and how they are read.
 *
 * Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog"
 * (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html): number, description, and the
 * action it asks for. "Restart the application" and "ignore" leave the device as it was; "reset the
 * GPU" and more do not. Three differ on purpose. 92 and 94 leave the device usable by NVIDIA's
 * word, which also asks for a reset soon: who has other devices uses those. 109 asks for a reset in
 * newer drivers, but follows a program that hangs, and the driver says 46 or 119 where the device
 * does.
 *
 * A number that is not in the table points at the device: new ones are added for hardware.
 */

#include <stdbool.h>
#include <stdint.h>

#include "gpu/device.h"

enum xid_kind {
	XID_TROUBLE, /* of the device: it may not be fit for use before it is reset */
	XID_PROGRAM, /* of a program on it, which has ended or will; the device goes on */
	XID_NOTICE,  /* told, and nothing has to be done at once */
	XID_KIND_MAX
};

/* Pure. */
enum xid_kind xid_kind(uint32_t xid);
bool xid_is_known(uint32_t xid);

#define XID_TEXT_MAX 96
/* "XID 79 (GPU has fallen off the bus)"; "XID 999" where there is no description. Returns buf. */
char *xid_text(uint32_t xid, char buf[XID_TEXT_MAX]);

/*
 * The reports, as NVML tells them: from gpu_errors_open() on, what was before is not known. Reading
 * never waits. A table belongs to the thread of its struct nvml, and is closed before nvml_stop().
 */
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
