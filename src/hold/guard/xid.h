/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_XID_H
#define TENURE_HOLD_GUARD_XID_H

/*
 * Error reports of the driver (XIDs, gpu/xid.h) in the guard.
 *
 * One that points at the device makes it unfit, for holds and for tasks: it is let go of, and shown
 * as busy with that reason. What runs on it runs on: it sees the error itself. It stays so until
 * the device was away and is back (a reset, a driver that was loaded anew), or its owner starts
 * tenure anew (off, on), which says that it is to be used all the same. A guard knows nothing of
 * what was before it.
 *
 * Others are the business of the program that made them. They are told once, and again after a
 * minute: a program can make thousands.
 */

#include "gpu/xid.h"
#include "hold/guard/types.h"

/* Take what the eyes have read. */
void xid_guard_take(struct guard *g);

/* One report. */
void xid_guard_on_error(struct guard *g, const struct eyes_error *err);

/* The device may be used again, and why. Nothing where there was no error. */
void xid_guard_forget(struct guard *g, struct device *d, const char *why);

#endif
