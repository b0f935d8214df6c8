/* SPDX-License-Identifier: MIT */
#ifndef TENURE_NOTIFY_DELIVERED_H
#define TENURE_NOTIFY_DELIVERED_H

/* How an attempt to tell a channel went. */

#include <stdint.h>

#include "base/err.h"

enum delivered {
	DELIVERED,
	DELIVER_LATER,	/* it may go better another time */
	DELIVER_REFUSED /* who was told does not take this message, and will not later */
};

struct delivery_result {
	enum delivered how;
	uint64_t took_ms;
	char text[ERR_TEXT_MAX]; /* "sent to a@b by smtps://..", or why not */
};

#endif
