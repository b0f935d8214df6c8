/* SPDX-License-Identifier: MIT */
/*
 * A policy selects devices in an order; the last `leave` of them are left for others; the rest are
 * the instance's. Where several instances select one device, the one whose own rule (idle_for,
 * idle_below, together, max_devices) holds it the soonest has it, between equals the one that asked
 * first, and keeps it for as long as it holds it; what one of them leaves for others, none of them
 * touches: others are other people, and "leave" is a promise to them.
 */
#include "hold/guard/assign.h"

#include "base/clock.h"
#include "base/mem.h"
#include "hold/guard/device.h"
#include "hold/guard/eyes.h"
#include "hold/guard/hold.h"
#include "hold/guard/limits.h"
#include "hold/guard/ownership.h"

static bool selected(const struct selection *sel, uint32_t slot)
{
	for (uint32_t i = 0; i < sel->n; i++)
		if (sel->slots[i] == slot)
			return true;
	return false;
}

/* Add a device; a card in MIG mode stands for its instances. */
static void select_slot(const struct guard *g, struct selection *sel, uint32_t slot)
{
	const struct gpu_device *id = &g->devs[slot].id;

	if (!selected(sel, slot) && sel->n < GPU_DEVICES_MAX)
		sel->slots[sel->n++] = slot;
	for (uint32_t i = 0; id->mig_parent && i < g->n_devs; i++)
		if (g->devs[i].id.mig >= 0 && g->devs[i].id.index == id->index &&
		    !selected(sel, i) && sel->n < GPU_DEVICES_MAX)
			sel->slots[sel->n++] = i;
}

int assign_select(const struct guard *g, const struct hold_policy *p, struct selection *sel,
		  struct err *e)
{
	int r = 0;
	cleanup_free struct gpu_list *list = xmalloc(sizeof(*list));

	sel->n = 0;
	if (p->all) {
		for (uint32_t i = 0; i < g->n_devs; i++)
			select_slot(g, sel, i);
		return 0;
	}
	list->n = 0;
	DEVICES_EACH(g, d)
		list->d[list->n++] = d->id;
	for (uint32_t i = 0; i < p->n_gpus; i++) {
		int slot = gpu_find(list, p->gpus[i], e);

		if (slot < 0)
			r = slot;
		else
			select_slot(g, sel, (uint32_t)slot);
	}
	return r;
}

bool assign_selects(const struct guard *g, const struct client *c, const struct device *d)
{
	struct selection sel;

	if (!c || !c->has_policy)
		return true;
	(void)assign_select(g, &c->policy, &sel, NULL);
	return selected(&sel, d->slot);
}

/* Position of slot among those that can be held, counted from the end; leave is over these. */
static bool is_left(const struct guard *g, const struct selection *sel, uint32_t slot,
		    uint32_t leave)
{
	uint32_t from_end = 0;

	for (uint32_t i = sel->n; i-- > 0;) {
		if (sel->slots[i] == slot)
			return from_end < leave;
		from_end += !g->devs[sel->slots[i]].id.mig_parent;
	}
	return false;
}

/*
 * How long it takes from the next look at d until c holds it by its own rule, as far as can be
 * told; UINT64_MAX: not as things are. With `together` all of its devices have to be idle.
 */
static uint64_t delay_of(struct guard *g, const struct client *c, const struct selection *sel,
			 const struct device *d)
{
	const struct hold_policy *p = &c->policy;

	if (!p->hold || c->dropping || c->silent || c->awaited_until_ns || limit_is_full(g, c, d) ||
	    !own_is_clear_for(g, c, d))
		return UINT64_MAX;
	for (uint32_t i = 0; p->together && i < sel->n; i++) {
		const struct device *other = &g->devs[sel->slots[i]];

		if (other->state == DEV_BUSY && !other->id.mig_parent &&
		    !own_is_clear_for(g, c, other))
			return UINT64_MAX;
	}
	return device_wait_by(p, d) + (d->state == DEV_BUSY ? p->refresh_ms * NS_PER_MS : 0);
}

/* Who has a device, or leaves it, of those that were looked at so far. */
struct choice {
	int client; /* -1: nobody */
	uint64_t delay;
};

/*
 * Whether client i goes before the one that was chosen: who tests it, because its owner has said
 * that it is to be tested now; who would hold it before who only watches, then who holds it by its
 * own rule the soonest, then the one that has it now, then who asked first. What is held, or used
 * by a task, changes hands no more, but for a test.
 */
static bool goes_before(const struct guard *g, int i, uint64_t delay, const struct choice *chosen,
			int present)
{
	const bool burns = client_burns(&g->clients[i]);
	int other = chosen->client;

	if (other < 0)
		return true;
	if (burns != client_burns(&g->clients[other]))
		return burns;
	if (g->clients[i].policy.hold != g->clients[other].policy.hold)
		return g->clients[i].policy.hold;
	if (delay != chosen->delay)
		return delay < chosen->delay;
	if (i == present)
		return true;
	return other != present && g->clients[i].asked < g->clients[other].asked;
}

static void consider_for(struct guard *g, int i, uint64_t delay, struct choice *chosen, int present)
{
	if (goes_before(g, i, delay, chosen, present))
		*chosen = (struct choice){ .client = i, .delay = delay };
}

/* Who holds it is decided: it is held, or on its way to or from a task. */
static bool is_settled(const struct device *d)
{
	return d->holder.pid || device_occupied(d) || d->state == DEV_LENT || d->ledger.came_home ||
	       d->ledger.promise.wanted;
}

/* What is held changes hands for a test, and goes back after it, without being let go. */
static void hand_over(struct guard *g, struct device *d, int owner, int leaver)
{
	const int before = d->owner;

	device_assign(g, d, owner, leaver);
	if (before == d->owner)
		return;
	/* That one of them could not hold it, or lost its holder, says nothing of the other, who
	 * waits by his own rule. */
	if (!device_holds(d))
		d->hold.failures = d->hold.blocked_until_ns = d->hold.due_ns = 0;
	/* What the one before said of it ("on request") is not how it is until its own clock turns.
	 */
	if (d->owner >= 0 && d->state == DEV_BUSY && d->present) {
		d->hold.check = true;
		eyes_look_now(g->eyes, d->slot);
	}
	if (before >= 0 && d->owner >= 0 && device_holds(d))
		hold_adapt(g, d, &g->clients[before].policy);
}

void assign_all(struct guard *g)
{
	struct choice owner[GPU_DEVICES_MAX], leaver[GPU_DEVICES_MAX];

	g->assign_due = false;
	for (uint32_t i = 0; i < GPU_DEVICES_MAX; i++)
		owner[i] = leaver[i] = (struct choice){ .client = -1 };
	for (int i = 0; i < GUARD_CLIENTS_MAX; i++) {
		const struct client *c = &g->clients[i];
		struct selection sel;

		if (!c->used || !c->has_policy)
			continue;
		(void)assign_select(g, &c->policy, &sel, NULL);
		for (uint32_t k = 0; k < sel.n; k++) {
			uint32_t slot = sel.slots[k];
			const struct device *d = &g->devs[slot];

			consider_for(g, i, is_settled(d) ? 0 : delay_of(g, c, &sel, d),
				     &owner[slot], d->owner);
			if (is_left(g, &sel, slot, c->policy.leave))
				consider_for(g, i, 0, &leaver[slot], d->leaver);
		}
	}
	for (uint32_t i = 0; i < g->n_devs; i++)
		hand_over(g, &g->devs[i], owner[i].client, leaver[i].client);
}

void assign_again(struct guard *g)
{
	unsigned int n = 0;

	CLIENTS_EACH(g, c)
		n += c->has_policy && c->policy.hold;
	if (g->assign_due && n > 1)
		assign_all(g);
}
