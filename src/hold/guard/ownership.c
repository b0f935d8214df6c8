/* SPDX-License-Identifier: MIT */
#include "hold/guard/ownership.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "hold/guard/event_ring.h"
#include "hold/guard/timings.h"
#include "hold/holder_proto.h"

#define DEPTH_MAX 64 /* of parents */

bool own_was_before(const struct device *d, pid_t pid)
{
	for (uint32_t i = 0; i < d->hold.before.n; i++)
		if (d->hold.before.p[i].pid == pid)
			return true;
	return false;
}

/* --- tasks of ours --- */

static bool is_descendant(const struct lease *l, pid_t pid, uint64_t start)
{
	if (l->shim.pid == pid && l->shim.start == start)
		return true;
	for (uint32_t i = 0; i < l->n_descendants && i < LEASE_DESCENDANTS_MAX; i++)
		if (l->descendants[i].pid == pid && l->descendants[i].start == start)
			return true;
	return false;
}

static void remember(struct lease *l, pid_t pid, uint64_t start)
{
	if (!is_descendant(l, pid, start))
		l->descendants[l->n_descendants++ % LEASE_DESCENDANTS_MAX] =
			(struct proc_id){ .pid = pid, .start = start };
}

static struct lease *next_granted(struct guard *g, const struct device *d, struct lease *after)
{
	for (struct lease *l = after ? after + 1 : g->leases; l < g->leases + GUARD_LEASES_MAX; l++)
		if (l->used && l->slot == d->slot && l->shim.pid)
			return l;
	return NULL;
}

static struct lease *by_process(struct guard *g, const struct device *d, pid_t pid, uint64_t start)
{
	struct lease *l = NULL;

	while ((l = next_granted(g, d, l)))
		if (is_descendant(l, pid, start))
			return l;
	return NULL;
}

/* Listed yet, and gone from /proc: whose it was is remembered. */
static struct lease *by_number(struct guard *g, const struct device *d, pid_t pid)
{
	struct lease *l = NULL;

	while ((l = next_granted(g, d, l)))
		for (uint32_t i = 0; i < l->n_descendants && i < LEASE_DESCENDANTS_MAX; i++)
			if (l->descendants[i].pid == pid)
				return l;
	return NULL;
}

/* Up the chain. NULL and *ret_again: a parent ended under our eyes, and there is another by now. */
static struct lease *climb(struct guard *g, const struct device *d, pid_t pid, bool *ret_again)
{
	struct proc_peek p;
	uint64_t start = 0;
	pid_t at = pid;

	*ret_again = false;
	for (int depth = 0; depth < DEPTH_MAX && at > 0; depth++) {
		if (proc_peek(at, &p) < 0) {
			*ret_again = depth > 0;
			return NULL;
		}
		if (depth == 0)
			start = p.start;

		struct lease *l = by_process(g, d, at, p.start);

		if (l) {
			remember(l, pid, start);
			return l;
		}
		at = p.parent;
	}
	return NULL;
}

/* Numbers of the host, or what may be that because nothing was held here yet. */
static bool numbers_mean_nothing(const struct guard *g, const struct device *d, pid_t pid)
{
	if (own_was_before(d, pid))
		return false;
	if (g->pid_class == PIDS_HOST)
		return true;
	return g->pid_class == PIDS_UNKNOWN && g->hidden_possible && proc_parent(pid) == -ESRCH;
}

struct lease *descendants_find(struct guard *g, const struct device *d, pid_t pid)
{
	struct lease *l;
	bool again;

	if (!d->ledger.n_granted)
		return NULL;
	if (numbers_mean_nothing(g, d, pid))
		return next_granted(g, d, NULL);
	l = climb(g, d, pid, &again);
	if (!l && again)
		l = climb(g, d, pid, &again);
	return l ? l : proc_parent(pid) == -ESRCH ? by_number(g, d, pid) : NULL;
}

/* --- all others --- */

static bool is_holder(const struct guard *g, pid_t pid)
{
	DEVICES_EACH(g, d) {
		const struct holder_proc *h = &d->holder;

		/* Where it is listed under another number, its own may be somebody else's there. */
		if (h->pid && pid == (h->listed_pid ? h->listed_pid : h->pid))
			return true;
	}
	return false;
}

/*
 * Left over from a guard that was killed. The kernel kills a holder with its parent, but the driver
 * takes a moment to take its memory back. A name proves nothing, so the kernel's word is asked: it
 * was killed, or its parent ends just now (which closes files before it sends that signal). And
 * that is over some seconds after this guard has come.
 */
static bool is_dying_holder(const struct guard *g, pid_t pid)
{
	struct proc_peek holder, parent;

	if (clock_mono_ns() - g->born_ns > DYING_NS || proc_peek(pid, &holder) < 0 ||
	    holder.uid != geteuid() || strcmp(holder.comm, HOLDER_COMM) != 0 ||
	    proc_start_mono_ns(holder.start) > g->born_ns)
		return false;
	return holder.ending || (proc_peek(holder.parent, &parent) == 0 && parent.ending);
}

/* pid is the very process that the owner named, and not the next one of that number. */
static bool is_named(const struct hold_policy *p, pid_t pid)
{
	struct proc_id id;

	for (uint32_t i = 0; i < p->n_ignore; i++)
		if (p->ignore_pids[i] == pid &&
		    (!p->ignore_starts[i] ||
		     (proc_identify(pid, &id) == 0 && id.start == p->ignore_starts[i])))
			return true;
	return false;
}

static bool is_ignored(const struct client *owner, pid_t pid)
{
	char cgroup[256];

	if (!owner)
		return false;
	if (is_named(&owner->policy, pid))
		return true;
	return owner->policy.my_cgroup && owner->cgroup[0] &&
	       proc_cgroup(pid, cgroup, sizeof(cgroup)) == 0 && !strcmp(cgroup, owner->cgroup);
}

/* A number that means nothing here, on a device where our holder is not listed yet. */
static bool may_be_ours(const struct guard *g, const struct device *d, pid_t pid)
{
	struct proc_peek peek;

	if (!d->holder.pid || d->holder.listed_pid || g->pid_class == PIDS_SAME ||
	    g->pid_class == PIDS_OWN || own_was_before(d, pid))
		return false;
	return proc_peek(pid, &peek) < 0 || g->pid_class == PIDS_HOST;
}

enum ownership own_classify(struct guard *g, const struct device *d, const struct gpu_proc *p)
{
	if (is_holder(g, p->pid))
		return OWN_HOLDER;
	if (descendants_find(g, d, p->pid))
		return OWN_TASK;
	if (is_ignored(device_owner(g, d), p->pid))
		return OWN_IGNORED;
	/* Seen before it was waited for; or where the driver forgets it later than the kernel. */
	if (d->hold.gone_pid && p->pid == d->hold.gone_pid &&
	    (d->sample.look.begin_ns <= d->hold.gone_ns || proc_parent(p->pid) == -ESRCH))
		return OWN_DYING;
	if (is_dying_holder(g, p->pid))
		return OWN_DYING;
	if (may_be_ours(g, d, p->pid))
		return OWN_MAYBE;
	return OWN_FOREIGN;
}

bool own_is_clear_for(struct guard *g, const struct client *c, const struct device *d)
{
	const struct gpu_procs *procs = &d->sample.look.procs;
	uint64_t used = d->sample.look.used;

	for (uint32_t i = 0; i < procs->n; i++) {
		const struct gpu_proc *p = &procs->p[i];
		enum ownership own = own_classify(g, d, p);

		if (p->graphics)
			continue;
		if ((own == OWN_FOREIGN || own == OWN_IGNORED) && !is_ignored(c, p->pid))
			return false;
		used -= p->used_bytes < used ? p->used_bytes : used;
	}
	return used <= c->policy.idle_below_bytes;
}

static void set_class(struct guard *g, enum pid_class c)
{
	if (g->pid_class == c)
		return;
	g->pid_class = c;
	event_guard_changed(g);
}

void own_lower_class(struct guard *g)
{
	if (g->pid_class == PIDS_SAME)
		set_class(g, PIDS_OWN);
}

void own_learn(struct guard *g, struct device *d, const struct gpu_look *look)
{
	pid_t candidate = 0;
	unsigned int candidates = 0;

	if (d->holder.listed_pid)
		return;
	for (uint32_t i = 0; i < look->procs.n; i++) {
		pid_t pid = look->procs.p[i].pid;

		if (pid == d->holder.pid) {
			d->holder.listed_pid = pid;
			set_class(g, g->hidden_possible || g->hidden_seen ? PIDS_OWN : PIDS_SAME);
			return;
		}
		if (!own_was_before(d, pid) && pid != candidate) {
			candidate = pid;
			candidates++;
		}
	}
	if (candidates == 1 && (g->pid_class == PIDS_UNKNOWN || g->pid_class == PIDS_HOST)) {
		d->holder.listed_pid = candidate;
		set_class(g, PIDS_HOST);
	} else if (candidates == 0 && look->begin_ns > d->since_ns + LISTED_NS) {
		set_class(g, PIDS_NONE);
	}
}
