/* SPDX-License-Identifier: MIT */
/*
 * What a look at one device means.
 *
 * Memory as a witness. Process lists can be blind (containers), but memory in use is visible
 * everywhere. Once a hold has settled its figure is taken; RISE_BYTES above it is foreign: at once
 * where processes may be hidden from us, a little later where they are not (there a process in the
 * list is the better witness, and comes first; verdict.h has the times). While our own holder takes
 * or frees memory there is no figure and the detector is off. From the moment that it has, and
 * until the figure is taken, what explains it is the measure where processes may be hidden
 * (baseline.h).
 *
 * That nobody is hidden cannot be known beforehand: the own holder is listed everywhere. What shows
 * it is memory that somebody uses who is not listed for a while, or who came and went like that.
 */
#include "hold/guard/verdict.h"

#include <stdio.h>
#include <string.h>

#include "base/proc.h"
#include "base/str.h"
#include "gpu/xid.h"
#include "hold/guard/device.h"
#include "hold/guard/event_ring.h"
#include "hold/guard/ownership.h"
#include "hold/guard/timings.h"
#include "hold/holder_proto.h"

#define RISE_BYTES BASELINE_RISE_BYTES

static bool is_listed(const struct gpu_procs *procs, pid_t pid)
{
	for (uint32_t i = 0; i < procs->n; i++)
		if (procs->p[i].pid == pid)
			return true;
	return false;
}

/* The first process that is not ours; counts those that may be. NULL: none. */
static const struct gpu_proc *find_foreign(struct guard *g, struct device *d,
					   uint64_t *ret_ours_bytes,
					   const struct gpu_proc **ret_task)
{
	const struct gpu_procs *procs = &d->sample.look.procs;
	unsigned int maybes = 0;

	*ret_ours_bytes = 0;
	*ret_task = NULL;
	d->seen.excused_bytes = 0;
	for (uint32_t i = 0; i < procs->n; i++) {
		const struct gpu_proc *p = &procs->p[i];
		enum ownership own = own_classify(g, d, p);

		if (own == OWN_FOREIGN && p->graphics &&
		    (!device_occupied(d) || own_was_before(d, p->pid)))
			continue; /* a desktop: its memory decides */
		/* Of several one is not ours; and none of them is, where our holder is listed. */
		if (own == OWN_FOREIGN ||
		    (own == OWN_MAYBE && (++maybes > 1 || is_listed(procs, d->holder.pid))))
			return p;
		if (!p->graphics)
			*ret_ours_bytes += p->used_bytes;
		if (own == OWN_TASK)
			*ret_task = p;
		if (own == OWN_IGNORED)
			d->seen.excused_bytes += p->used_bytes;
	}
	return NULL;
}

bool verdict_may_hide(const struct guard *g)
{
	return g->hidden_possible || g->hidden_seen || g->pid_class == PIDS_NONE ||
	       g->pid_class == PIDS_HOST;
}

uint64_t verdict_used(const struct device *d)
{
	uint64_t used = d->sample.look.used;

	return used - (d->seen.excused_bytes < used ? d->seen.excused_bytes : used);
}

uint64_t verdict_own_bytes(const struct device *d)
{
	const struct gpu_procs *procs = &d->sample.look.procs;

	for (uint32_t i = 0; i < procs->n; i++)
		if (procs->p[i].pid == d->holder.listed_pid && !procs->p[i].graphics &&
		    procs->p[i].used_known)
			return procs->p[i].used_bytes;
	return 0;
}

/* There is no figure yet, and all that our holder takes is there. */
static bool is_early(const struct guard *g, const struct device *d)
{
	return d->figure.is != FIGURE_TAKEN && d->state == DEV_HELD && d->figure.steady_ns &&
	       d->sample.look.begin_ns > d->figure.steady_ns && verdict_may_hide(g);
}

static uint64_t risen(const struct guard *g, const struct device *d)
{
	uint64_t used = verdict_used(d);

	if (is_early(g, d))
		return baseline_early(&d->figure.baseline, used, verdict_own_bytes(d),
				      d->holder.held);
	return d->figure.is == FIGURE_TAKEN && used > d->figure.used ? used - d->figure.used : 0;
}

uint64_t verdict_rise_due(const struct guard *g, const struct device *d)
{
	if (!d->seen.rise_since_ns)
		return UINT64_MAX;
	if (d->ledger.n_awaited || verdict_may_hide(g))
		return d->seen.rise_since_ns;
	return d->seen.rise_since_ns +
	       (risen(g, d) >= VERDICT_CONTEXT_BYTES ? UNLISTED_NS : RISE_NS);
}

static bool memory_rises(struct guard *g, struct device *d)
{
	uint64_t due;

	if (risen(g, d) <= RISE_BYTES) {
		d->seen.rise_since_ns = 0;
		return false;
	}
	if (!d->seen.rise_since_ns)
		d->seen.rise_since_ns = d->sample.look.end_ns;
	due = verdict_rise_due(g, d);
	/* A look begins with the list: where it took long, that is an old one. */
	return due == d->seen.rise_since_ns || d->sample.look.begin_ns >= due;
}

static void say_memory(struct device *d, const char *fmt, uint64_t bytes)
{
	struct dev_reason r = { .code = DEV_REASON_MEMORY, .uid = DEV_REASON_NO_UID };

	(void)str_print(r.text, sizeof(r.text), fmt, in_gib(bytes));
	device_say_reason(d, &r);
}

/* Unlisted memory on a device that is not held. Beside a task it says nothing. */
static enum verdict judge_rest(struct guard *g, struct device *d, uint64_t ours)
{
	uint64_t used = d->sample.look.used;

	used = used > ours ? used - ours : 0;
	if (d->ledger.n_running || used <= device_policy(g, d)->idle_below_bytes)
		return SEEN_CLEAR;
	say_memory(d, "%.1f GiB in use by processes that are not listed", used);
	return SEEN_FOREIGN;
}

static enum verdict judge_memory(struct guard *g, struct device *d, uint64_t ours)
{
	if (device_occupied(d)) {
		if (!memory_rises(g, d))
			return SEEN_CLEAR;
		if (d->ledger.n_awaited)
			return SEEN_OURS; /* who it is shows some ms later, with the memory free */
		say_memory(d, "%.2f GiB came into use by a process that is not listed",
			   risen(g, d));
		if (is_early(g, d))
			baseline_doubt(&d->figure.baseline);
		return SEEN_FOREIGN;
	}
	if (d->holder.pid && !d->holder.kept)
		return SEEN_UNFIT; /* our own context is still on its way out */
	return judge_rest(g, d, ours);
}

enum verdict verdict_foreign(struct guard *g, struct device *d, const struct gpu_proc **ret_who)
{
	const struct gpu_proc *task;
	uint64_t ours;

	*ret_who = find_foreign(g, d, &ours, &task);
	return *ret_who ? SEEN_FOREIGN : judge_rest(g, d, ours);
}

enum verdict verdict_of(struct guard *g, struct device *d, const struct gpu_proc **ret_who)
{
	const struct gpu_proc *task;
	uint64_t ours;
	char text[XID_TEXT_MAX];
	const char *unfit =
		d->seen.xid ? xid_text(d->seen.xid, text) : gpu_unfit(&d->id, &d->sample.look);

	*ret_who = NULL;
	if (unfit && !d->ledger.n_running) {
		device_say(d, "%s", unfit);
		return SEEN_UNFIT;
	}
	*ret_who = find_foreign(g, d, &ours, &task);
	if (*ret_who)
		return SEEN_FOREIGN;
	if (task && device_holds(d)) {
		*ret_who = task;
		return SEEN_OURS;
	}
	return judge_memory(g, d, ours);
}

/* How long the newcomer had been opening device nodes before the verdict. */
void verdict_note_hint(const struct guard *g, struct device *d, uint64_t since_ns)
{
	uint64_t opened = hints_open_since(&g->hints, since_ns);

	if (opened && opened < d->hold.verdict_ns)
		d->hold.letting_go.hint_to_verdict_ns = d->hold.verdict_ns - opened;
}

/* Once per process: whose it is, and since when it was on its way. */
static void identify_who(struct guard *g, struct device *d, pid_t pid)
{
	struct proc_peek peek = { .uid = (uid_t)-1 };

	if (pid == d->said.who_pid)
		return;
	d->said.who_pid = pid;
	d->said.who_uid = UINT32_MAX;
	d->said.who_comm[0] = '\0';
	if (proc_peek(pid, &peek) < 0 && peek.uid == (uid_t)-1)
		return;
	verdict_note_hint(g, d, proc_start_mono_ns(peek.start));
	d->said.who_uid = peek.uid;
	(void)str_copy(d->said.who_comm, sizeof(d->said.who_comm), peek.comm);
}

void verdict_name(struct guard *g, struct device *d, const struct gpu_proc *who)
{
	struct dev_reason r = { .code = DEV_REASON_PROCESS, .pid = who->pid };

	identify_who(g, d, who->pid);
	r.uid = d->said.who_uid;
	if (!strcmp(d->said.who_comm, HOLDER_COMM)) {
		r.code = DEV_REASON_TENURE;
	} else {
		(void)str_copy(r.comm, sizeof(r.comm), d->said.who_comm);
		r.flags = who->used_known ? DEV_REASON_BYTES : 0;
		r.bytes = who->used_known ? who->used_bytes : 0;
	}
	device_say_reason(d, &r);
}

/* Memory in use on a device without a holder that listed processes do not explain, or 0. */
static uint64_t unlisted_bytes(const struct device *d)
{
	const struct gpu_procs *procs = &d->sample.look.procs;
	uint64_t left = d->sample.look.used;

	if (d->holder.pid || procs->n_total > procs->n)
		return 0;
	for (uint32_t i = 0; i < procs->n; i++) {
		if (!procs->p[i].used_known)
			return 0;
		left -= procs->p[i].used_bytes < left ? procs->p[i].used_bytes : left;
	}
	return left;
}

void verdict_note_hidden(struct guard *g, struct device *d, enum verdict v,
			 const struct gpu_proc *who)
{
	uint64_t now = d->sample.look.begin_ns;
	bool rest = !device_occupied(d) && !d->ledger.n_leases && v == SEEN_FOREIGN &&
		    unlisted_bytes(d) > device_policy(g, d)->idle_below_bytes;

	if (g->hidden_seen)
		return;
	if (who || (!rest && !d->seen.unlisted_yield)) {
		d->seen.unlisted_ns = 0;
		d->seen.unlisted_yield = false;
		return;
	}
	if (!d->seen.unlisted_ns)
		d->seen.unlisted_ns = now;
	if (now < d->seen.unlisted_ns + (d->seen.unlisted_yield ? HIDDEN_HELD_NS : HIDDEN_REST_NS))
		return;
	g->hidden_seen = true;
	own_lower_class(g);
	(void)event_add(g, d, EVENT_NOTE,
			"a process that is not listed uses its memory: processes are hidden from "
			"us here, so memory that rises is the verdict from now on");
}
