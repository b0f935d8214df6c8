/* SPDX-License-Identifier: MIT */
#include "agent/allocations.h"

#include <jansson.h>

#include "agent/parts.h"
#include "base/json_get.h"
#include "hold/device_state.h"

static void tell(struct dispatch *q, const struct attempt *r, enum own_event kind)
{
	json_t *uuids = json_array();

	for (size_t i = 0; i < r->uuids.n; i++)
		(void)json_array_append_new(uuids, json_string(r->uuids.texts[i]));
	eventlog_tell(q->place.eventlog, kind,
		      json_pack("{s:I, s:o, s:i, s:o}", "task", (json_int_t)r->ref.id, "name",
				json_new_text(r->spec->name), "gpus", (int)r->uuids.n, "uuids",
				uuids));
}

void allocations_on_started(struct dispatch *q, const struct attempt *r)
{
	if (r->spec && r->spec->allocation && !r->adopted)
		tell(q, r, OWN_ALLOCATED);
}

void allocations_on_over(struct dispatch *q, const struct attempt *r)
{
	if (r->spec && r->spec->allocation && r->started_ns)
		tell(q, r, OWN_RELEASED);
}

/* ---- what is free ---- */

bool allocations_step_free(unsigned int *looks, unsigned int free, unsigned int threshold)
{
	if (free < threshold)
		*looks = 0;
	return free >= threshold && *looks < FREE_LOOKS && ++*looks == FREE_LOOKS;
}

/* A task could have it now: nobody is there but our own hold or workload, and no task is to have
 * it. */
static bool is_free(const struct view *v, uint32_t slot)
{
	const struct dev_status *d = &v->devices[slot];
	bool ours = d->state == DEV_HELD || (v->workloads && v->workloads[slot].there);

	return v->seen[slot] && view_is_selected(v, slot) && !view_is_mig_card(v, slot) &&
	       d->state != DEV_LEFT && !d->xid && (ours || d->flags & DEVICE_VACANT) &&
	       view_use_of(d) == VIEW_UNUSED && !(v->quarantine && v->quarantine[slot].shut);
}

/* All devices are known, and nothing is about to end. */
static bool is_known(const struct view *v)
{
	return v->guard_up && v->guard.flags & GUARD_SEES && !view_is_behind(v) &&
	       v->life.phase == LIFE_SERVING && view_seen(v) >= v->guard.n_devices;
}

static void tell_free(struct agent *a, unsigned int n)
{
	const struct view *v = &a->view;
	json_t *gpus = json_array(), *uuids = json_array();

	for (uint32_t i = 0; i < v->n_slots; i++) {
		if (!is_free(v, i))
			continue;
		(void)json_array_append_new(gpus, view_label_json(&v->devices[i]));
		(void)json_array_append_new(uuids, json_string(v->devices[i].uuid));
	}
	eventlog_tell(a->eventlog, OWN_FREE,
		      json_pack("{s:i, s:i, s:[{s:s, s:i}], s:o, s:o}", "free", (int)n, "threshold",
				(int)a->c->free_threshold, "nodes", "node", a->name, "free", (int)n,
				"gpus", gpus, "uuids", uuids));
}

void allocations_look_free(struct agent *a, bool fewer)
{
	unsigned int n = 0, threshold = a->c->free_threshold;

	if (!threshold || !is_known(&a->view))
		return;
	for (uint32_t i = 0; i < a->view.n_slots; i++)
		n += is_free(&a->view, i);
	if ((!fewer || n < threshold) && allocations_step_free(&a->free_looks, n, threshold))
		tell_free(a, n);
}
