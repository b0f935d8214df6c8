/* SPDX-License-Identifier: MIT */
#include "agent/queue/planview.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "hold/device_state.h"
#include "sched/fit.h"

#define OTHER_FDS 48U /* of everything but tasks: about 20, and what clients and jobs open */
#define RUN_FDS	  1U  /* of a task: its shim */

/* What has nobody foreign on it is free for a task, though a hold may have to wait for its clocks,
 * or cannot be. */
static enum sched_dev_state planned_state(const struct dev_status *d)
{
	static const enum sched_dev_state states[DEV_STATE_MAX] = {
		[DEV_BUSY] = SCHED_DEV_BUSY,	 [DEV_IDLE] = SCHED_DEV_IDLE,
		[DEV_HOLDING] = SCHED_DEV_HELD,	 [DEV_HELD] = SCHED_DEV_HELD,
		[DEV_YIELDING] = SCHED_DEV_BUSY, [DEV_LEFT] = SCHED_DEV_LEFT,
		[DEV_LENT] = SCHED_DEV_LENT,	 [DEV_LENDING] = SCHED_DEV_LENT,
	};

	if (d->flags & DEVICE_MIG_CARD)
		return SCHED_DEV_EXCLUDED;
	if (d->flags & DEVICE_PROHIBITED)
		return SCHED_DEV_PROHIBITED;
	if (d->xid)
		return SCHED_DEV_FAULTY;
	if (d->state == DEV_BUSY && d->flags & DEVICE_VACANT)
		return SCHED_DEV_IDLE;
	return d->state < DEV_STATE_MAX ? states[d->state] : SCHED_DEV_UNSEEN;
}

/* Somebody is there who is not ours. */
static bool is_foreign(const struct dev_status *d)
{
	return !(d->flags & DEVICE_VACANT) && d->who_pid > 0;
}

static struct devset peers_of(const struct dev_status *d)
{
	struct devset peers = { { 0 } };

	for (unsigned int i = 0; i < PROTO_DEVICES_MAX; i++)
		if (d->peers[i / 64] >> (i % 64) & 1)
			devset_add(&peers, i);
	return peers;
}

/* Another instance has a task there, or collects it for one. */
static bool is_lent_away(const struct dev_status *d, const char *instance)
{
	return d->n_leases && strcmp(d->lease_instance, instance) != 0;
}

/* What is merely held for another instance is there for a task of ours (hold/guard/requests.c). */
static bool is_ours(const struct view *view, const char *instance, uint32_t slot)
{
	const char *owner = view->devices[slot].instance;

	return !owner[0] || !strcmp(owner, instance) || view_is_selected(view, slot);
}

static void lend_away(const struct dev_status *d, struct sched_device *s)
{
	bool workload = d->lease.task == LEASE_WORKLOAD;

	s->state = SCHED_DEV_LENT;
	s->lent_instance = d->lease_instance;
	s->lent_task = (struct sched_ref){ workload ? 0 : d->lease.task, d->lease.element };
	s->lent_waits = d->lease_stage == LEASE_PROMISED && !d->lease.attempt;
}

static bool is_quarantined(const struct view *view, uint32_t slot)
{
	return view->quarantine && view->quarantine[slot].shut;
}

static void shut_away(const struct view *view, uint32_t slot, struct sched_device *s)
{
	s->state = SCHED_DEV_QUARANTINED;
	s->quarantine = view->quarantine[slot].reason;
}

/* To one who has asked for it. */
static void leave_to(const struct view_left *left, struct sched_device *s)
{
	s->state = SCHED_DEV_LEFT;
	s->left_to = left->user;
	s->left_until_wall_ns = left->until_wall_ns;
}

static struct sched_device planned_device(const struct view *view, const char *instance,
					  uint32_t slot)
{
	const struct dev_status *d = &view->devices[slot];
	const struct view_left *left = view_left_of(view, d->uuid);
	struct sched_device s = { .index = d->index,
				  .model = d->name,
				  .state = planned_state(d),
				  .xid = d->xid,
				  .mem_known = d->known & KNOWN_MEM,
				  .unmeasured = d->flags & DEVICE_UNSEEN,
				  .total_bytes = d->mem_total,
				  .free_bytes = d->mem_free,
				  .hold_bytes = d->held_bytes,
				  .own_python = d->own_python > 0,
				  .exclusive_process = d->flags & DEVICE_ONE_PROCESS,
				  .foreign = is_foreign(d),
				  .tested = d->flags & DEVICE_TESTED,
				  .peers = peers_of(d) };

	if (!view->seen[slot])
		s.state = SCHED_DEV_UNSEEN;
	else if (!is_ours(view, instance, slot))
		s.state = SCHED_DEV_EXCLUDED;
	else if (is_quarantined(view, slot) && s.state != SCHED_DEV_FAULTY)
		shut_away(view, slot, &s);
	else if (is_lent_away(d, instance))
		lend_away(d, &s);
	else if (left && s.state != SCHED_DEV_FAULTY)
		leave_to(left, &s);
	return s;
}

/* What an instance may have for tasks is its own limit, and what tasks of others leave of the
 * site's. */
static void limit_devices(const struct view *view, const char *instance, struct sched_policy *p)
{
	uint32_t own = view->policy.max_devices, site = view->policy.site_devices, others = 0;

	for (uint32_t i = 0; site && i < view->n_slots; i++)
		others += view->seen[i] && is_lent_away(&view->devices[i], instance);
	p->limits_devices = own || site;
	p->max_devices = own ? own : UINT32_MAX;
	if (site && (site > others ? site - others : 0) < p->max_devices)
		p->max_devices = site > others ? site - others : 0;
}

uint32_t planview_cpu_slots(uint64_t asked, uint64_t nofile)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t usual = cpus > (long)CPU_SLOTS_LEAST ? (uint64_t)cpus : CPU_SLOTS_LEAST;
	uint64_t room = nofile > OTHER_FDS + RUN_FDS ? (nofile - OTHER_FDS) / RUN_FDS : 1;
	uint64_t slots = asked ? asked : usual;

	return (uint32_t)(slots < room ? slots : room);
}

/* When what runs is stopped, by the clock of the plan. */
static uint64_t end_of(const struct view *view, uint64_t now_ns)
{
	const struct deadline *d = &view->deadlines[DEADLINE_JOB];

	return d->at_ns ? now_ns + deadline_left_ms(d, clock_boot_ns(), clock_wall_ns()) * NS_PER_MS
			: 0;
}

void planview_make(const struct view *view, const char *instance, struct sched_device *devices,
		   struct sched_view *ret)
{
	struct sched_policy policy = { 0 };

	for (uint32_t i = 0; i < view->n_slots; i++)
		devices[i] = planned_device(view, instance, i);
	limit_devices(view, instance, &policy);
	policy.cpu_slots = view->cpu_slots;
	*ret = (struct sched_view){ .devices = devices,
				    .n_devices = view->n_slots,
				    .policy = policy,
				    .now_ns = clock_mono_ns(),
				    .now_wall_ns = clock_wall_ns() };
	ret->end_ns = end_of(view, ret->now_ns);
}

unsigned int planview_free(const struct view *view, const char *instance, struct devset busy)
{
	struct sched_device devices[PROTO_DEVICES_MAX];
	struct sched_view v;
	unsigned int n = 0, used = devset_count(busy);

	planview_make(view, instance, devices, &v);
	for (unsigned int i = 0; i < v.n_devices; i++)
		n += !devset_has(busy, i) && !devices[i].foreign && !devices[i].tested &&
		     (devices[i].state == SCHED_DEV_IDLE || devices[i].state == SCHED_DEV_HELD);
	if (v.policy.limits_devices && used + n > v.policy.max_devices)
		n = v.policy.max_devices > used ? v.policy.max_devices - used : 0;
	return n;
}

static bool who(void *user, unsigned int slot, struct strbuf *out)
{
	const struct planview_words *w = user;
	const struct dev_status *d = &w->view->devices[slot];
	bool foreign = is_foreign(d);

	/* Beside a task the reason is about that. */
	if (!foreign || d->state != DEV_LENT)
		dev_reason_text(&d->reason, w->names, out);
	return foreign;
}

struct reason_words planview_words(struct planview_words *w)
{
	return (struct reason_words){ .who = who, .user = w };
}

uint64_t planview_room(const struct view *view, const char *model)
{
	uint64_t now = 0, before = 0;

	for (uint32_t i = 0; i < PROTO_DEVICES_MAX; i++) {
		const struct dev_status *d = &view->devices[i];
		/* The driver keeps some of the total for itself. */
		uint64_t bytes = d->mem_used + d->mem_free, *most = view->seen[i] ? &now : &before;

		if (d->known & KNOWN_MEM && bytes > *most && fit_model(model ? model : "", d->name))
			*most = bytes;
	}
	return now ? now : before;
}

uint32_t planview_count(uint64_t n)
{
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

struct sched_ref planview_ref(const struct task_name *n)
{
	return (struct sched_ref){ n->id, planview_count(n->element) };
}

uint32_t planview_lane(struct sched_queue *q, const char *name)
{
	return name && name[0] ? sched_lane(q, name) : 0;
}

uint64_t planview_kind(const char *name, uint64_t gpus)
{
	uint64_t kind = hash_u64(hash_text(0, name), gpus);

	return name[0] ? kind + !kind : 0;
}

void sched_task_from_spec(const struct task_name *n, const struct task_spec *spec,
			  struct sched_task *ret)
{
	const struct task_spec named = { .priority = n->priority,
					 .gpus = n->gpus,
					 .preemptible = n->flags & NAME_PREEMPTIBLE };
	const struct task_spec *s = spec ? spec : &named;

	*ret = (struct sched_task){
		.id = n->id,
		.element = n->element ? planview_count(n->element) : n->count > 0,
		.n_elements = n->element ? 0 : planview_count(n->count),
		.priority = (int32_t)(n->element ? s->priority : n->priority),
		.order = n->id,
		.edits = n->edits,
		/* How long one is kept is its owner's to say. */
		.kind = s->allocation ? 0 : planview_kind(s->name ? s->name : n->name, s->gpus),
		.array_limit = planview_count(s->array.limit),
		.gpus = s->gpus == SPEC_ALL ? SCHED_ALL_GPUS : planview_count(s->gpus),
		.mem_bytes = s->memory == SPEC_AUTO ? 0 : s->memory,
		.model = s->model,
		.shared = s->shared && s->memory != SPEC_AUTO,
		.preemptible = s->preemptible,
		.no_own_python = s->rules == SPEC_RULES_COMPETE,
		.gang = spec && spec_is_gang(spec),
		.paused = n->flags & NAME_PAUSED,
		.changing = n->flags & NAME_EDITED,
		.rules = s->rules != SPEC_RULES_TENURE ? SCHED_RULES_COMPETE : SCHED_RULES_OWN,
		.timeout_ms = s->timeout,
		.begin_wall_ns = n->begin_s * NS_PER_S,
	};
}
