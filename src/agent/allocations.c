/* SPDX-License-Identifier: MIT */
#include "agent/allocations.h"

#include <inttypes.h>
#include <jansson.h>

#include "agent/parts.h"
#include "base/strbuf.h"
#include "hold/device_state.h"

static void tell(struct dispatch *q, const struct attempt *r, const char *event, const char *word)
{
	cleanup_strbuf struct strbuf line = STRBUF_INIT;
	json_t *uuids = json_array();

	for (size_t i = 0; i < r->uuids.n; i++)
		(void)json_array_append_new(uuids, json_string(r->uuids.texts[i]));
	strbuf_addf(&line, "allocation %s (task %" PRIu64 ") %s %zu GPU%s", r->spec->name,
		    r->ref.id, word, r->uuids.n, r->uuids.n == 1 ? "" : "s");
	eventlog_say_kind(q->place.eventlog, LOG_LEVEL_INFO, event,
			  json_pack("{s:I, s:s, s:i, s:o}", "task", (json_int_t)r->ref.id, "name",
				    r->spec->name, "gpus", (int)r->uuids.n, "uuids", uuids),
			  strbuf_str(&line));
}

void allocations_on_started(struct dispatch *q, const struct attempt *r)
{
	if (r->spec && r->spec->allocation && !r->adopted)
		tell(q, r, "allocated", "has");
}

void allocations_on_over(struct dispatch *q, const struct attempt *r)
{
	if (r->spec && r->spec->allocation && r->started_ns)
		tell(q, r, "released", "has given back");
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
	cleanup_strbuf struct strbuf line = STRBUF_INIT, list = STRBUF_INIT;
	json_t *gpus = json_array(), *uuids = json_array();

	for (uint32_t i = 0; i < v->n_slots; i++) {
		if (!is_free(v, i))
			continue;
		strbuf_addf(&list, "%s%u", list.len ? "," : "", v->devices[i].index);
		(void)json_array_append_new(gpus, json_integer(v->devices[i].index));
		(void)json_array_append_new(uuids, json_string(v->devices[i].uuid));
	}
	strbuf_addf(&line, "%u GPU%s free: %u on %s (GPU %s)", n, n == 1 ? " is" : "s are", n,
		    a->name, strbuf_str(&list));
	eventlog_say_kind(a->eventlog, LOG_LEVEL_INFO, "free",
			  json_pack("{s:i, s:i, s:[{s:s, s:i}], s:o, s:o}", "free", (int)n,
				    "threshold", (int)a->c->free_threshold, "nodes", "node",
				    a->name, "free", (int)n, "gpus", gpus, "uuids", uuids),
			  strbuf_str(&line));
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
