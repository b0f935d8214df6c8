/* SPDX-License-Identifier: MIT */
#ifndef TENURE_GPU_XID_LOG_H
#define TENURE_GPU_XID_LOG_H

/*
 * The error reports of the driver (XIDs, gpu/xid.h) in the kernel's log, for who was not there when
 * NVML told of them. The log has room for some of the past only, and not everybody may read it.
 *
 * What is over is forgotten: all at a new start of the driver, and a card's when the driver has
 * said that nothing is to be done about it any more (XID 154, "changed from .. to 0x0 (None)"),
 * which newer ones do after a reset. Lines that a program has written there are not the kernel's.
 */

#include <stdbool.h>
#include <stdint.h>

#define XID_LOG_CARDS 128

struct xid_log_card {
	uint32_t domain, bus, device;
	uint32_t xid;	/* the last one that points at the card */
	uint64_t at_us; /* since the machine was started */
};

struct xid_log {
	bool any;	  /* record was taken */
	uint64_t from_us; /* what was before is not there any more; 0: all is */
	uint32_t n;
	struct xid_log_card cards[XID_LOG_CARDS];
};

/* Pure: the next record of the log, as /dev/kmsg has it ("4,1234,5678901,-;NVRM: Xid ..."). */
void xid_log_take(struct xid_log *log, const char *record);

/* All that is in the log now; without waiting. 0, or -errno: it cannot be read. */
int xid_log_read(const char *path, struct xid_log *ret);

/* That of a card, by NVML's "00000000:5B:00.0"; NULL: there is none. */
const struct xid_log_card *xid_log_find(const struct xid_log *log, const char *bus_id);

#endif
