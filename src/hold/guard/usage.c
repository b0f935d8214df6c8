/* SPDX-License-Identifier: MIT */
#include "hold/guard/usage.h"

#include "hold/guard/ownership.h"
#include "hold/guard/timings.h"

/* NVML does not say whose memory it is, but there is nobody else whose it could be. */
static uint64_t all_in_use(struct guard *g, const struct device *d)
{
	const struct gpu_look *look = &d->sample.look;
	uint64_t ours = d->holder.pid ? d->holder.held : 0;

	for (uint32_t i = 0; i < look->procs.n; i++)
		if (look->procs.p[i].used_known &&
		    own_classify(g, d, &look->procs.p[i]) == OWN_HOLDER)
			ours = look->procs.p[i].used_bytes;
	return look->used > ours ? look->used - ours : 0;
}

/* A task's processes are told from others by their numbers. */
static bool tells_tasks(const struct guard *g)
{
	return g->pid_class != PIDS_HOST && g->pid_class != PIDS_NONE;
}

static uint64_t in_use(struct guard *g, const struct device *d, const struct lease *l)
{
	if (l->n_procs ? !l->n_unknown : tells_tasks(g))
		return l->used_bytes;
	if (!(d->sample.look.valid & GPU_VALID_MEM) || d->ledger.n_leases != 1 || d->said.who_pid)
		return UINT64_MAX;
	return all_in_use(g, d);
}

/*
 * The task was handed the device: it is listed, or, where it will not be, our hold had let go
 * before this look. What shows until then is our holder's.
 */
static bool was_handed_over(const struct guard *g, const struct device *d, const struct lease *l)
{
	if (l->use.came_ns || l->n_procs)
		return true;
	return !tells_tasks(g) && !device_occupied(d) && d->sample.look.begin_ns >= d->since_ns;
}

/* Other looks than complete ones repeat what an earlier one read. */
static void add_utilisation(const struct device *d, struct lease_usage *u)
{
	const struct gpu_look *look = &d->sample.look;

	if (!d->sample.complete || look->end_ns < u->from_ns)
		return;
	if (look->valid & GPU_VALID_UTIL) {
		u->busy_ns += (look->end_ns - u->counted_ns) / 100 * look->util;
		u->util_ns += look->end_ns - u->counted_ns;
	}
	u->counted_ns = look->end_ns;
}

/* Where a load of ours was there before, the mean of the first second is partly that one's. */
static void begin(const struct guard *g, const struct device *d, struct lease_usage *u)
{
	bool loaded = d->holder.pid && device_policy(g, d)->load != LOAD_NONE;

	u->came_ns = u->counted_ns = d->sample.look.end_ns;
	u->from_ns = u->came_ns + (loaded ? UTIL_MEAN_NS : 0);
}

void lease_usage_on_look(struct guard *g, const struct device *d, struct lease *l)
{
	struct lease_usage *u = &l->use;
	uint64_t now = d->sample.look.end_ns;
	uint64_t growing_ns = l->stage == LEASE_OVER ? 0 : USAGE_PEAK_NS;

	if (l->stage < LEASE_GRANTED || d->sample.code < 0)
		return;
	if (!u->told_ns)
		u->told_ns = now;
	u->looked_ns = now;
	u->bytes = in_use(g, d, l);
	if (was_handed_over(g, d, l)) {
		if (!u->came_ns)
			begin(g, d, u);
		if (u->bytes != UINT64_MAX && u->bytes > u->peak_bytes)
			u->peak_bytes = u->bytes;
		add_utilisation(d, u);
	}
	if (now - u->told_ns >= USAGE_TELL_NS ||
	    (u->peak_bytes > u->told_peak_bytes &&
	     (!u->told_peak_bytes || now - u->told_ns >= growing_ns)))
		l->due |= DUE_USE;
}

struct msg_lease_use lease_usage_message(struct lease *l)
{
	struct lease_usage *u = &l->use;

	u->told_ns = u->looked_ns;
	u->told_peak_bytes = u->peak_bytes;
	return (struct msg_lease_use){
		.head = PROTO_HEAD(MSG_LEASE_USE, struct msg_lease_use),
		.id = l->id,
		.slot = (int32_t)l->slot,
		.util_permille = u->util_ns ? (uint32_t)(u->busy_ns * 1000.0 / u->util_ns) : 0,
		.util_ns = u->util_ns,
		.bytes = u->bytes,
		.peak_bytes = u->peak_bytes,
	};
}
