/* SPDX-License-Identifier: MIT */
#include "agent/meter.h"

#include <string.h>

#include "agent/dispatch_state.h"
#include "agent/report/eventlog.h"
#include "agent/report/samples.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "hold/device_state.h"

#define COUNTER_AGE_NS (60 * NS_PER_S) /* of an older reading nothing is concluded */
#define BACK_MJ	       1000000	       /* so much less: the counter has begun anew */

/* What a device was for, since its last look. */
enum use_kind { FOR_OTHERS, FOR_HOLD, FOR_NEWCOMER, FOR_TASK };

struct device_meter {
	char uuid[96];
	uint32_t index;
	enum use_kind kind;
	bool yielded;		   /* for a newcomer, and not held again yet */
	bool empty, empty_known;   /* of a task: no process of it, or nothing computed */
	uint64_t looked_ns;	   /* monotonic */
	bool counted;		   /* energy_mj is known as of then */
	bool shared;		   /* since the counter was read it was for several */
	uint64_t energy_mj;	   /* of the card, ever */
	uint64_t read_ns;	   /* when the counter was */
	struct sched_ref task;	   /* that it is for */
	uint64_t held_ns, held_mj; /* since the last event */
	uint64_t held_counted_ns;  /* of which the energy is known */
	uint64_t yielded_ns;
};

struct meter {
	uint64_t since_ns; /* of the next event */
	size_t n;
	struct device_meter all[PROTO_DEVICES_MAX];
};

struct meter *meter_new(void)
{
	struct meter *m = xcalloc(1, sizeof(*m));

	m->since_ns = clock_mono_ns();
	return m;
}

struct meter *meter_free(struct meter *m)
{
	free(m);
	return NULL;
}

/* Slots are another guard's; NULL: there are more than anybody has. */
static struct device_meter *find(struct meter *m, const char *uuid)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->all[i].uuid, uuid) == 0)
			return &m->all[i];
	if (m->n == PROTO_DEVICES_MAX)
		return NULL;
	(void)str_copy(m->all[m->n].uuid, sizeof(m->all[m->n].uuid), uuid);
	return &m->all[m->n++];
}

static bool runs_on(const struct attempt *r, uint32_t slot)
{
	return r->started_ns && !r->use_closed && devset_has(r->devices, slot);
}

static unsigned int count_on(const struct agent *a, uint32_t slot)
{
	unsigned int n = 0;

	for (const struct attempt *r = a->queue ? a->queue->place.tasks : NULL; r; r = r->next)
		n += runs_on(r, slot);
	return n;
}

/* Whether energy can be told: by the counter, and by the power from one reading to the next. */
static bool is_metered(const struct view *v, uint32_t slot, uint64_t now_ns)
{
	const struct gpu_health *h = &v->health[slot];
	uint64_t at_ns = h->read_ns[HEALTH_PART_ENERGY];

	return h->known & HEALTH_ENERGY && at_ns && at_ns <= now_ns &&
	       now_ns - at_ns <= COUNTER_AGE_NS && v->devices[slot].known & KNOWN_POWER;
}

/*
 * What was used since the last look, where that is known. A new reading tells how wrong the power
 * was since the one before: that belongs to whom the device was for all that time. Where it was for
 * several it is nobody's, and each has what the power said.
 */
static bool take_energy(struct device_meter *d, const struct view *v, uint32_t slot,
			uint64_t now_ns, uint64_t *ret_mj)
{
	const struct gpu_health *h = &v->health[slot];
	uint64_t read_ns = h->read_ns[HEALTH_PART_ENERGY], power_mw = v->devices[slot].power_mw;
	uint64_t by_power = power_mw * (now_ns - d->looked_ns) / NS_PER_S, by_counter;
	bool was = d->counted && d->looked_ns, anew = read_ns != d->read_ns;

	d->read_ns = read_ns;
	d->counted = is_metered(v, slot, now_ns);
	if (!d->counted)
		return false;
	if (was && !anew) {
		d->energy_mj += by_power;
		*ret_mj = by_power;
		return true;
	}
	by_counter = h->energy_mj + power_mw * (now_ns - read_ns) / NS_PER_S;
	if (!was || by_counter + BACK_MJ < d->energy_mj) {
		d->energy_mj = by_counter;
		d->shared = true;
		return false;
	}
	/* It may be below what was told: then nothing is until it has caught up. */
	*ret_mj = d->shared ? by_power : by_counter > d->energy_mj ? by_counter - d->energy_mj : 0;
	d->energy_mj = d->shared || by_counter > d->energy_mj ? by_counter : d->energy_mj;
	d->shared = false;
	return true;
}

static void add_to_tasks(struct agent *a, uint32_t slot, const struct device_meter *d, uint64_t ns,
			 bool counted, uint64_t mj)
{
	bool alone = count_on(a, slot) == 1;

	for (struct attempt *r = a->queue ? a->queue->place.tasks : NULL; r; r = r->next) {
		struct use_meter *m = &r->use.meter;

		if (!runs_on(r, slot))
			continue;
		m->seen_ns += d->empty_known ? ns : 0;
		m->empty_ns += d->empty_known && d->empty ? ns : 0;
		m->energy_ns += counted && alone ? ns : 0;
		m->energy_mj += counted && alone ? mj : 0;
	}
}

static void add_up(struct agent *a, struct device_meter *d, uint32_t slot, uint64_t now_ns)
{
	uint64_t ns = d->looked_ns ? now_ns - d->looked_ns : 0, mj = 0;
	bool counted = take_energy(d, &a->view, slot, now_ns, &mj);

	d->looked_ns = now_ns;
	switch (d->kind) {
	case FOR_HOLD:
		d->held_ns += ns;
		d->held_mj += mj;
		d->held_counted_ns += counted ? ns : 0;
		break;
	case FOR_NEWCOMER:
		d->yielded_ns += ns;
		break;
	case FOR_TASK:
		add_to_tasks(a, slot, d, ns, counted, mj);
		break;
	case FOR_OTHERS:
		break;
	}
}

/* The first of those that it is for. */
static struct sched_ref task_on(const struct agent *a, uint32_t slot)
{
	for (const struct attempt *r = a->queue ? a->queue->place.tasks : NULL; r; r = r->next)
		if (runs_on(r, slot))
			return r->ref;
	return (struct sched_ref){ .id = 0 };
}

static void judge(struct agent *a, struct device_meter *d, uint32_t slot)
{
	const struct sched_ref ref = task_on(a, slot);
	enum use_kind was = d->kind;
	const struct dev_status *s = &a->view.devices[slot];
	enum sample_state state = sample_state_of(&a->view, slot);
	bool held =
		state == SAMPLE_HELD && s->state == DEV_HELD && !view_is_anothers(&a->view, slot);
	bool task = ref.id != 0;

	if (task || held || state == SAMPLE_TASK || !view_would_hold(&a->view) ||
	    !view_is_selected(&a->view, slot))
		d->yielded = false;
	d->kind = task ? FOR_TASK : held ? FOR_HOLD : d->yielded ? FOR_NEWCOMER : FOR_OTHERS;
	d->shared = d->shared || d->kind != was || ref.id != d->task.id ||
		    ref.element != d->task.element;
	d->task = ref;
	d->empty_known = s->known & KNOWN_UTIL || s->n_lease_procs;
	d->empty = !s->n_lease_procs || (s->known & KNOWN_UTIL && !s->util);
}

static void look_at(struct agent *a, uint32_t slot, uint64_t now_ns)
{
	const struct dev_status *s = &a->view.devices[slot];
	struct device_meter *d = a->view.seen[slot] && !view_is_mig_card(&a->view, slot)
					 ? find(a->meter, s->uuid)
					 : NULL;

	if (!d)
		return;
	d->index = s->index;
	add_up(a, d, slot, now_ns);
	judge(a, d, slot);
}

void meter_on_device(struct agent *a, uint32_t slot)
{
	look_at(a, slot, clock_mono_ns());
}

/* A guard that is gone holds nothing, and what is not seen is counted for nobody. */
static void forget_unseen(struct meter *m, uint64_t now_ns)
{
	for (size_t i = 0; i < m->n; i++) {
		struct device_meter *d = &m->all[i];

		if (d->looked_ns == now_ns)
			continue;
		d->kind = FOR_OTHERS;
		d->counted = false;
	}
}

static double seconds(uint64_t ns)
{
	return (double)(ns / NS_PER_MS) / 1e3;
}

static json_t *device_json(const struct device_meter *d)
{
	return json_pack("{si ss sf sf so sf}", "gpu", (int)d->index, "uuid", d->uuid, "held_s",
			 seconds(d->held_ns), "yielded_s", seconds(d->yielded_ns), "held_energy_j",
			 d->held_counted_ns ? json_real((double)d->held_mj / 1e3) : json_null(),
			 "held_energy_s", seconds(d->held_counted_ns));
}

static json_t *report(const struct meter *m, uint64_t now_ns)
{
	json_t *gpus = json_array();

	for (size_t i = 0; i < m->n; i++)
		if (m->all[i].held_ns || m->all[i].yielded_ns)
			(void)json_array_append_new(gpus, device_json(&m->all[i]));
	return json_pack("{sf so}", "for_s", seconds(now_ns - m->since_ns), "gpus", gpus);
}

json_t *meter_report(struct agent *a)
{
	meter_look(a);
	return report(a->meter, clock_mono_ns());
}

/* What there is to tell; and it begins anew. */
static void tell(struct agent *a, uint64_t now_ns)
{
	struct meter *m = a->meter;
	json_t *o = report(m, now_ns);

	if (json_array_size(json_object_get(o, "gpus")))
		eventlog_tell(a->eventlog, OWN_METER, o);
	else
		json_decref(o);
	for (size_t i = 0; i < m->n; i++) {
		struct device_meter *d = &m->all[i];

		d->held_ns = d->held_mj = d->held_counted_ns = d->yielded_ns = 0;
	}
	m->since_ns = now_ns;
}

void meter_look(struct agent *a)
{
	uint64_t now_ns = clock_mono_ns();

	for (uint32_t i = 0; i < a->view.n_slots; i++)
		look_at(a, i, now_ns);
	forget_unseen(a->meter, now_ns);
	if (now_ns - a->meter->since_ns >= METER_S * NS_PER_S)
		tell(a, now_ns);
}

void meter_on_yield(struct agent *a, const struct guard_event *ev)
{
	struct device_meter *d = NULL;

	if (!ev->instance[0] || strcmp(ev->instance, a->c->instance) == 0)
		d = find(a->meter, ev->uuid);
	if (!d)
		return;
	d->yielded = true;
	meter_look(a);
}

void meter_close_attempt(struct agent *a, struct attempt *r)
{
	if (r->use_closed)
		return;
	meter_look(a);
	r->use_closed = true;
	meter_look(a);
}

void meter_end(struct agent *a)
{
	meter_look(a);
	tell(a, clock_mono_ns());
}
