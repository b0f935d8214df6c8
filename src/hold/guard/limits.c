/* SPDX-License-Identifier: MIT */
#include "hold/guard/limits.h"

#include <errno.h>
#include <string.h>

#include "hold/guard/device.h"
#include "hold/guard/ledger.h"

/* A task of the instance has d or is to have it; NULL: of any. */
static bool has_task(const struct guard *g, const struct client *c, const struct device *d)
{
	if (!d->ledger.n_leases)
		return false;
	LEASES_OF(g, d, l)
		if (!(l->flags & LEASE_RESERVED) && (!c || !strcmp(l->instance, c->instance)))
			return true;
	return false;
}

/* For a task of another instance than c that waits. */
static bool is_reserved(const struct guard *g, const struct client *c, const struct device *d)
{
	if (!d->ledger.n_leases)
		return false;
	LEASES_OF(g, d, l)
		if (l->flags & LEASE_RESERVED && strcmp(l->instance, c->instance) != 0)
			return true;
	return false;
}

/* Devices with tasks of c, or of anybody (NULL), but for one; and those that are held so. */
static unsigned int count(const struct guard *g, const struct client *c, const struct device *but,
			  bool (*held)(const struct device *d))
{
	unsigned int n = 0;

	DEVICES_EACH(g, d)
		n += d != but &&
		     (has_task(g, c, d) || (held && held(d) && (!c || client_owns(g, c, d))));
	return n;
}

/* Devices with anybody's tasks, or reserved by another instance than c, but for one. */
static unsigned int count_given(const struct guard *g, const struct client *c,
				const struct device *but)
{
	unsigned int n = 0;

	DEVICES_EACH(g, d)
		n += d != but && (has_task(g, NULL, d) || is_reserved(g, c, d));
	return n;
}

/* c may have so many devices, of so many of all instances: 0, or -EDQUOT, and why says which limit
 * it is. */
static int check(const struct client *c, unsigned int n_all, unsigned int n_own,
		 struct dev_reason *why)
{
	const struct hold_policy *p = &c->policy;

	if (p->site_devices && n_all >= p->site_devices)
		return dev_reason_set(
			why, -EDQUOT,
			"this site's max_devices allows %u GPU%s at a time, for all instances",
			p->site_devices, p->site_devices == 1 ? "" : "s");
	if (p->max_devices && n_own >= p->max_devices)
		return dev_reason_set(why, -EDQUOT, "max_devices of %s allows %u GPU%s at a time",
				      c->instance, p->max_devices, p->max_devices == 1 ? "" : "s");
	return 0;
}

static int check_hold(const struct guard *g, const struct client *c, const struct device *d,
		      struct dev_reason *why)
{
	if (has_task(g, NULL, d)) /* it counts already */
		return 0;
	return check(c, c->policy.site_devices ? count(g, NULL, NULL, device_occupied) : 0,
		     c->policy.max_devices ? count(g, c, NULL, device_occupied) : 0, why);
}

bool limit_is_full(const struct guard *g, const struct client *c, const struct device *d)
{
	return check_hold(g, c, d, NULL) < 0;
}

bool limit_hold(const struct guard *g, const struct client *c, struct device *d)
{
	struct dev_reason why;

	if (check_hold(g, c, d, &why) == 0)
		return false;
	device_say_reason(d, &why);
	return true;
}

int limit_lease(const struct guard *g, const struct client *c, const struct device *d,
		struct dev_reason *why)
{
	if (!c->has_policy || has_task(g, c, d))
		return 0;
	return check(c, c->policy.site_devices ? count_given(g, c, d) : 0,
		     c->policy.max_devices ? count(g, c, d, NULL) : 0, why);
}

/* What is letting go is not counted: nothing more has to go for it. */
static bool exceeds_own(const struct guard *g, const struct client *c)
{
	return c->policy.max_devices && count(g, c, NULL, device_holds) > c->policy.max_devices;
}

static bool exceeds_site(const struct guard *g, const struct client *c)
{
	return c->policy.site_devices &&
	       count(g, NULL, NULL, device_holds) > c->policy.site_devices;
}

/* Of c, or of all instances (NULL). What is collected for a task goes after what is held for
 * nobody, the last one first. */
static struct device *least_wanted(struct guard *g, const struct client *c)
{
	struct device *found = NULL;

	DEVICES_EACH(g, d) {
		if ((!c || client_owns(g, c, d)) && device_holds(d) && !has_task(g, NULL, d) &&
		    (!found || !d->ledger.promise.wanted || found->ledger.promise.wanted))
			found = d;
	}
	return found;
}

void limit_trim(struct guard *g, struct client *c)
{
	struct device *d;

	while (c->has_policy && (exceeds_own(g, c) || exceeds_site(g, c))) {
		d = least_wanted(g, c);
		if (!d && exceeds_site(g, c))
			d = least_wanted(g, NULL);
		if (!d)
			return;
		device_unwant(g, d, "as many GPUs are held and used as max_devices allows");
	}
}
