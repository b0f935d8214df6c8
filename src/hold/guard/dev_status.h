/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_DEV_STATUS_H
#define TENURE_HOLD_GUARD_DEV_STATUS_H

/* What clients are told of how things stand: MSG_DEVICE of each device, MSG_GUARD of the node. */

#include "hold/guard/types.h"

/* Send the state of what changed, or of all devices, to c. What does not fit comes later. */
void status_tell_devices(struct guard *g, struct client *c, bool all);

/* MSG_WELCOME or MSG_GUARD. */
void status_tell_guard(struct guard *g, struct client *c, enum msg_type type);

#endif
