/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_XID_H
#define TENURE_GPU_XID_H

/*
 * What an XID, the number of an error report of the driver, says of a device. Pure.
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

#include <stdint.h>

enum xid_kind {
	XID_TROUBLE, /* of the device: it may not be fit for use before it is reset */
	XID_PROGRAM, /* of a program on it, which has ended or will; the device goes on */
	XID_NOTICE,  /* told, and nothing has to be done at once */
	XID_KIND_MAX
};

enum xid_kind xid_kind(uint32_t xid);

#define XID_TEXT_MAX 96
/* "XID 79 (GPU has fallen off the bus)"; "XID 999" where there is no description. Returns buf. */
char *xid_text(uint32_t xid, char buf[XID_TEXT_MAX]);

#endif
