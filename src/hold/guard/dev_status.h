/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_DEV_STATUS_H
#define TENURE_HOLD_GUARD_DEV_STATUS_H

/* What clients are told of how things stand: MSG_DEVICE and MSG_HEALTH of each device, MSG_GUARD of
 * the node. */

#include "hold/guard/types.h"

/* Send the state of what changed, or of all devices, to c. What does not fit comes later. */
void status_tell_devices(struct guard *g, struct client *c, bool all);

/* Once a second: what the eyes have read of how the devices are doing. Not where the eyes have
 * something to tell, because nobody hurries for it. */
void status_take_health(struct guard *g);
/* Some agent says that somebody looks at the figures. */
bool status_watched(const struct guard *g);
/* Send c what is new of it. What does not fit comes later. */
void status_tell_health(struct guard *g, struct client *c);

/* MSG_WELCOME or MSG_GUARD. */
void status_tell_guard(struct guard *g, struct client *c, enum msg_type type);

#endif
