/* SPDX-License-Identifier: MIT */
#include "hold/guard/limits.h"

#include <errno.h>
#include <string.h>

#include "hold/guard/device.h"

/* A task of the instance has d or is to have it; NULL: of any. */
static bool has_task(const struct guard *g, const struct client *c, const struct device *d)
{
	for (const struct lease *l = g->leases;
	     d->ledger.n_leases && l < g->leases + GUARD_LEASES_MAX; l++)
		if (l->used && l->slot == d->slot && !(l->flags & LEASE_RESERVED) &&
		    (!c || !strcmp(l->instance, c->instance)))
			return true;
	return false;
}

/* For a task of another instance than c that waits. */
static bool is_reserved(const struct guard *g, const struct client *c, const struct device *d)
{
	for (const struct lease *l = g->leases;
	     d->ledger.n_leases && l < g->leases + GUARD_LEASES_MAX; l++)
		if (l->used && l->slot == d->slot && l->flags & LEASE_RESERVED &&
		    strcmp(l->instance, c->instance) != 0)
			return true;
	return false;
}

static bool is_held(const struct guard *g, const struct client *c, const struct device *d)
{
	return device_occupied(d) && (!c || client_owns(g, c, d));
}

/* Devices with tasks of c, but for one. */
static unsigned int count_tasks(const struct guard *g, const struct client *c,
				const struct device *but)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < g->n_devs; i++)
		n += &g->devs[i] != but && has_task(g, c, &g->devs[i]);
	return n;
}

static unsigned int count_all(const struct guard *g, const struct client *c)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < g->n_devs; i++)
		n += has_task(g, c, &g->devs[i]) || is_held(g, c, &g->devs[i]);
	return n;
}

/* Devices with anybody's tasks, or reserved by another instance than c, but for one. */
static unsigned int count_given(const struct guard *g, const struct client *c,
				const struct device *but)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < g->n_devs; i++) {
		const struct device *d = &g->devs[i];

		n += d != but && (has_task(g, NULL, d) || is_reserved(g, c, d));
	}
	return n;
}

#define SITE_TEXT     "this site's max_devices allows %u GPU%s at a time, for all instances"
#define INSTANCE_TEXT "max_devices of %s allows %u GPU%s at a time"

bool limit_is_full(const struct guard *g, const struct client *c, const struct device *d)
{
	const struct hold_policy *p = &c->policy;

	return !has_task(g, NULL, d) && /* else it counts already */
	       ((p->site_devices && count_all(g, NULL) >= p->site_devices) ||
		(p->max_devices && count_all(g, c) >= p->max_devices));
}

bool limit_hold(const struct guard *g, const struct client *c, struct device *d)
{
	const struct hold_policy *p = &c->policy;

	if (!limit_is_full(g, c, d))
		return false;
	if (p->site_devices && count_all(g, NULL) >= p->site_devices)
		device_say(d, SITE_TEXT, p->site_devices, p->site_devices == 1 ? "" : "s");
	else
		device_say(d, INSTANCE_TEXT, c->instance, p->max_devices,
			   p->max_devices == 1 ? "" : "s");
	return true;
}

int limit_lease(const struct guard *g, const struct client *c, const struct device *d,
		struct err *e)
{
	const struct hold_policy *p = &c->policy;

	if (!c->has_policy || has_task(g, c, d))
		return 0;
	if (p->site_devices && count_given(g, c, d) >= p->site_devices)
		return err_set(e, -EDQUOT, SITE_TEXT, p->site_devices,
			       p->site_devices == 1 ? "" : "s");
	if (p->max_devices && count_tasks(g, c, d) >= p->max_devices)
		return err_set(e, -EDQUOT, INSTANCE_TEXT, c->instance, p->max_devices,
			       p->max_devices == 1 ? "" : "s");
	return 0;
}

/* What is letting go is not counted: nothing more has to go for it. */
static unsigned int count_lasting(const struct guard *g, const struct client *c)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < g->n_devs; i++) {
		const struct device *d = &g->devs[i];

		n += has_task(g, c, d) || (device_holds(d) && is_held(g, c, d));
	}
	return n;
}

static bool exceeds_own(const struct guard *g, const struct client *c)
{
	return c->policy.max_devices && count_lasting(g, c) > c->policy.max_devices;
}

static bool exceeds_site(const struct guard *g, const struct client *c)
{
	return c->policy.site_devices && count_lasting(g, NULL) > c->policy.site_devices;
}

/* Of c, or of all instances (NULL). What is collected for a task goes after what is held for
 * nobody, the last one first. */
static struct device *least_wanted(struct guard *g, const struct client *c)
{
	struct device *found = NULL;

	for (uint32_t i = 0; i < g->n_devs; i++) {
		struct device *d = &g->devs[i];

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
