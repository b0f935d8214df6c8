/* SPDX-License-Identifier: MIT */
#include "hold/guard/gkin.h"

#include <errno.h>

#include "hold/guard/ownership.h"

#define DEPTH_MAX 64

static bool is_kin(const struct glease *l, pid_t pid, uint64_t start)
{
	if (l->shim.pid == pid && l->shim.start == start)
		return true;
	for (uint32_t i = 0; i < l->n_kin && i < LEASE_KIN_MAX; i++)
		if (l->kin[i].pid == pid && l->kin[i].start == start)
			return true;
	return false;
}

static void remember(struct glease *l, pid_t pid, uint64_t start)
{
	if (!is_kin(l, pid, start))
		l->kin[l->n_kin++ % LEASE_KIN_MAX] = (struct proc_id){ .pid = pid, .start = start };
}

static struct glease *next_granted(struct guard *g, const struct gdev *d, struct glease *after)
{
	for (struct glease *l = after ? after + 1 : g->leases; l < g->leases + GUARD_LEASES_MAX;
	     l++)
		if (l->used && l->slot == d->slot && l->shim.pid)
			return l;
	return NULL;
}

static struct glease *by_process(struct guard *g, const struct gdev *d, pid_t pid, uint64_t start)
{
	struct glease *l = NULL;

	while ((l = next_granted(g, d, l)))
		if (is_kin(l, pid, start))
			return l;
	return NULL;
}

/* Listed yet, and gone from /proc: whose it was is remembered. */
static struct glease *by_number(struct guard *g, const struct gdev *d, pid_t pid)
{
	struct glease *l = NULL;

	while ((l = next_granted(g, d, l)))
		for (uint32_t i = 0; i < l->n_kin && i < LEASE_KIN_MAX; i++)
			if (l->kin[i].pid == pid)
				return l;
	return NULL;
}

/* Up the chain. NULL and *ret_again: a parent ended under our eyes, and there is another by now. */
static struct glease *climb(struct guard *g, const struct gdev *d, pid_t pid, bool *ret_again)
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

		struct glease *l = by_process(g, d, at, p.start);

		if (l) {
			remember(l, pid, start);
			return l;
		}
		at = p.parent;
	}
	return NULL;
}

/* Numbers of the host, or what may be that because nothing was held here yet. */
static bool numbers_mean_nothing(const struct guard *g, const struct gdev *d, pid_t pid)
{
	if (own_was_before(d, pid))
		return false;
	if (g->pid_class == PIDS_HOST)
		return true;
	return g->pid_class == PIDS_UNKNOWN && g->hidden_possible && proc_parent(pid) == -ESRCH;
}

struct glease *gkin_find(struct guard *g, const struct gdev *d, pid_t pid)
{
	struct glease *l;
	bool again;

	if (!d->n_granted)
		return NULL;
	if (numbers_mean_nothing(g, d, pid))
		return next_granted(g, d, NULL);
	l = climb(g, d, pid, &again);
	if (!l && again)
		l = climb(g, d, pid, &again);
	return l ? l : proc_parent(pid) == -ESRCH ? by_number(g, d, pid) : NULL;
}
