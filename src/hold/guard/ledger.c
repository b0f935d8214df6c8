/* SPDX-License-Identifier: MIT */
#include "hold/guard/ledger.h"

#include <string.h>

#include "base/str.h"

bool ledger_is_of(const struct lease *l, const char *instance, const struct lease_id *id)
{
	return l->used && l->id.task == id->task && l->id.element == id->element &&
	       l->id.attempt == id->attempt && !strcmp(l->instance, instance);
}

uint32_t ledger_count(const struct guard *g, const char *instance)
{
	uint32_t n = 0;

	LEASES_EACH(g, l)
		n += !instance || !strcmp(l->instance, instance);
	return n;
}

const struct lease *ledger_first(const struct guard *g, const struct device *d)
{
	const struct lease *first = NULL;

	if (!d->ledger.n_leases)
		return NULL;
	LEASES_OF(g, d, l)
		if (!first || l->stage > first->stage)
			first = l;
	return first;
}

uint64_t ledger_promised(const struct guard *g, const struct device *d)
{
	uint64_t bytes = 0;

	if (!d->ledger.n_leases)
		return 0;
	LEASES_OF(g, d, l)
		if (l->stage < LEASE_OVER && l->bytes > l->used_bytes)
			bytes += l->bytes - l->used_bytes;
	return bytes;
}

char *ledger_text(struct guard *g, const struct lease *l, char buf[LEDGER_TEXT_MAX])
{
	const struct client *owner = device_owner(g, &g->devs[l->slot]);
	char id[LEASE_TEXT_MAX];
	bool others = owner && strcmp(owner->instance, l->instance) != 0;

	return str_print(buf, LEDGER_TEXT_MAX, "%s%s%s", lease_id_text(&l->id, id),
			 others ? " of " : "", others ? l->instance : "");
}

struct dev_reason ledger_why_taken(const struct device *d)
{
	struct dev_reason r = d->said.reason;

	if (!d->said.who_pid) {
		dev_reason_lead(&r, "taken: ");
		return r;
	}
	r = (struct dev_reason){ .code = DEV_REASON_PROCESS,
				 .pid = d->said.who_pid,
				 .uid = d->said.who_uid,
				 .lead = "taken by " };
	(void)str_copy(r.comm, sizeof(r.comm), d->said.who_comm);
	return r;
}
