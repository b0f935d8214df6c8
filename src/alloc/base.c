/* SPDX-License-Identifier: MIT */
#include "alloc/base.h"

enum base_step base_decide(const struct base_at *at)
{
	if (at->has + at->waits > at->wanted)
		return at->waits ? BASE_WITHDRAW : BASE_GIVE;
	if (at->waits && (at->others_wait || at->free < at->waits))
		return BASE_WITHDRAW;
	if (at->has + at->waits < at->wanted && !at->others_wait && at->free > at->waits &&
	    at->room > at->waits)
		return BASE_ADD;
	return BASE_REST;
}
