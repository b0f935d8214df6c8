/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_GUARD_ASSIGN_H
#define TENURE_HOLD_GUARD_ASSIGN_H

/* Which devices the policies select, which of these they leave, and who has which. */

#include "hold/guard/types.h"

struct selection {
	uint32_t n;
	uint32_t slots[GPU_DEVICES_MAX];
};

/* The devices that p names. 0, or as gpu_find() for one that is not there; what is there is
 * selected all the same. */
int assign_select(const struct guard *g, const struct hold_policy *p, struct selection *sel,
		  struct err *e);

/* Its policy names d; so does one that has not told its policy, for all that is known. */
bool assign_selects(const struct guard *g, const struct client *c, const struct device *d);

/* Give every device its owner by the policies there are; call when devices or policies changed. */
void assign_all(struct guard *g);
/* The same where what has happened since may change it (g->assign_due). */
void assign_again(struct guard *g);

#endif
