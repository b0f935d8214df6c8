/* SPDX-License-Identifier: MIT */

/*
 * What a device of the simulated machine has: memory, launches, power. All functions want the data
 * lock.
 *
 * Memory is never stored as a sum: it is added up from the processes' entries whenever somebody
 * looks, so that forgetting a process cannot leave the sum wrong. Launches are intervals in a ring;
 * what NVML calls utilisation and what the meter calls power are both taken from it.
 */
#include "machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool sim_is_card_of(const struct sim_machine *m, int dev, int member)
{
	return dev == member || m->devs[member].parent == dev;
}

uint64_t sim_proc_bytes(const struct sim_machine *m, const struct sim_proc *p, int dev)
{
	uint64_t sum = 0;

	for (int i = 0; i < m->ndevs; i++) {
		if (sim_is_card_of(m, dev, i))
			sum += p->use[i].bytes + p->use[i].contexts * m->timing[SIM_T_CTX_BYTES];
	}
	return sum;
}

uint64_t sim_mem_used(const struct sim_machine *m, int dev)
{
	uint64_t sum = 0;

	for (int i = 0; i < m->ndevs; i++) {
		if (sim_is_card_of(m, dev, i))
			sum += m->devs[i].mem_foreign;
	}
	for (int i = 0; i < SIM_PROC_MAX; i++) {
		if (m->procs[i].pid)
			sum += sim_proc_bytes(m, &m->procs[i], dev);
	}
	return sum;
}

uint64_t sim_mem_free(const struct sim_machine *m, int dev)
{
	const struct sim_dev *d = &m->devs[dev];
	uint64_t used = sim_mem_used(m, dev) + d->mem_reserved;

	return used < d->mem_total ? d->mem_total - used : 0;
}

bool sim_has_context(const struct sim_machine *m, int dev)
{
	for (int i = 0; i < SIM_PROC_MAX; i++) {
		for (int k = 0; m->procs[i].pid && k < m->ndevs; k++) {
			if (m->procs[i].use[k].contexts && sim_is_card_of(m, dev, k))
				return true;
		}
	}
	return false;
}

bool sim_host_has_context(const struct sim_machine *m)
{
	for (int dev = 0; dev < m->ncards; dev++) {
		if (sim_has_context(m, dev))
			return true;
	}
	return false;
}

/* Bring dirty_bytes up to that time. */
static void scrub(struct sim_machine *m, struct sim_dev *d, uint64_t now)
{
	uint64_t per_gib = sim_cost_ns(m, SIM_T_SCRUB_PER_GIB);
	double done;

	if (d->dirty_bytes == 0 || now < d->dirty_ns)
		return;
	done = per_gib ? (double)(now - d->dirty_ns) / (double)per_gib * (double)SIM_GIB : 1e30;
	d->dirty_bytes = done >= (double)d->dirty_bytes ? 0 : d->dirty_bytes - (uint64_t)done;
	d->dirty_ns = now;
}

int sim_mem_take(struct sim_machine *m, int dev, struct sim_proc *p, uint64_t bytes,
		 uint64_t *ret_wait_ns)
{
	struct sim_dev *d = &m->devs[dev];
	uint64_t avail = sim_mem_free(m, dev), clean, dirty;

	*ret_wait_ns = 0;
	if (bytes > avail)
		return -ENOMEM;
	p->use[dev].bytes += bytes;
	scrub(m, d, sim_now_ns());
	clean = d->dirty_bytes < avail ? avail - d->dirty_bytes : 0;
	if (bytes <= clean)
		return 0;
	dirty = bytes - clean;
	if (d->dirty_pid != p->pid)
		*ret_wait_ns = (uint64_t)((double)dirty / (double)SIM_GIB *
					  (double)sim_cost_ns(m, SIM_T_SCRUB_PER_GIB));
	else
		d->dirty_bytes -= dirty < d->dirty_bytes ? dirty : d->dirty_bytes;
	return 0;
}

static void give(struct sim_machine *m, int dev, struct sim_proc *p, uint64_t bytes, uint64_t at_ns)
{
	struct sim_dev *d = &m->devs[dev];

	if (bytes > p->use[dev].bytes)
		bytes = p->use[dev].bytes;
	p->use[dev].bytes -= bytes;
	scrub(m, d, at_ns);
	d->dirty_pid = d->dirty_bytes == 0 || d->dirty_pid == p->pid ? p->pid : -1;
	d->dirty_bytes += bytes;
	if (d->dirty_ns < at_ns)
		d->dirty_ns = at_ns;
}

void sim_mem_give(struct sim_machine *m, int dev, struct sim_proc *p, uint64_t bytes)
{
	give(m, dev, p, bytes, sim_now_ns());
}

bool sim_mem_give_at(struct sim_machine *m, int dev, struct sim_proc *p, uint64_t bytes,
		     uint64_t due_ns)
{
	if (m->ngives == SIM_GIVE_MAX)
		return false;
	m->gives[m->ngives++] = (struct sim_give){
		.due_ns = due_ns, .bytes = bytes, .dev = dev, .proc = (int32_t)(p - m->procs)
	};
	return true;
}

void sim_mem_settle(struct sim_machine *m)
{
	uint64_t now = m->ngives ? sim_now_ns() : 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->ngives; i++) {
		struct sim_give g = m->gives[i];

		if (g.due_ns > now) {
			m->gives[n++] = g;
			continue;
		}
		m->gives[i].bytes = 0; /* who dies in the midst leaves nothing to be given twice */
		give(m, g.dev, &m->procs[g.proc], g.bytes, g.due_ns);
	}
	m->ngives = n;
}

void sim_mem_forget(struct sim_machine *m, const struct sim_proc *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->ngives; i++)
		if (&m->procs[m->gives[i].proc] != p)
			m->gives[n++] = m->gives[i];
	m->ngives = n;
}

unsigned int sim_pcie_generation(const struct sim_dev *d)
{
	return d->cc_major >= 9 ? 5 : d->cc_major == 8 ? 4 : 3;
}

double sim_pcie_rate(const struct sim_dev *d)
{
	/* Of a lane of the third generation; each has twice the rate of the one before. */
	const double lane = 0.985e9 * (1U << (sim_pcie_generation(d) - 3));
	const unsigned int lanes = SIM_PCIE_LANES - d->health.pcie_lanes_lost;

	return 0.875 * lane * lanes * (100 - d->health.pcie_slowness) / 100;
}

unsigned int sim_links(const struct sim_dev *d)
{
	if (!d->nvlink_board)
		return 0;
	return d->cc_major >= 9 ? SIM_LINK_MAX : d->cc_major == 8 ? 12 : 6;
}

double sim_link_rate(const struct sim_dev *d)
{
	unsigned int up = 0;

	for (unsigned int i = 0; i < sim_links(d); i++)
		up += !(d->health.links_down >> i & 1);
	return 0.875 * 25e9 * up * (100 - d->health.link_slowness) / 100;
}

uint64_t sim_busy_add(struct sim_machine *m, int dev, uint64_t start_ns, uint64_t end_ns,
		      uint32_t power_mw)
{
	struct sim_dev *d = &m->devs[dev];
	uint64_t seq = ++d->busy_seq;

	d->busy[seq % SIM_BUSY_MAX] = (struct sim_busy){
		.seq = seq,
		.start_ns = start_ns,
		.end_ns = end_ns,
		.pid = (int32_t)getpid(),
		.power_mw = power_mw,
	};
	return seq;
}

void sim_busy_set(struct sim_machine *m, int dev, uint64_t seq, uint64_t start_ns, uint64_t end_ns)
{
	struct sim_busy *b = &m->devs[dev].busy[seq % SIM_BUSY_MAX];

	if (b->seq != seq)
		return;
	b->start_ns = start_ns;
	b->end_ns = end_ns;
}

struct span {
	uint64_t from, to;
};

static int span_compare(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* Length of the union of n spans; sorts them. */
static uint64_t spans_union(struct span *spans, int n)
{
	uint64_t sum = 0, end = 0;

	qsort(spans, (size_t)n, sizeof(*spans), span_compare);
	for (int i = 0; i < n; i++) {
		uint64_t from = spans[i].from > end ? spans[i].from : end;

		if (spans[i].to <= from)
			continue;
		sum += spans[i].to - from;
		end = spans[i].to;
	}
	return sum;
}

uint64_t sim_busy_ns(const struct sim_machine *m, int dev, uint64_t from, uint64_t to, pid_t pid)
{
	static struct span spans[SIM_BUSY_MAX];
	int n = 0;

	for (int k = 0; k < SIM_BUSY_MAX; k++) {
		const struct sim_busy *b = &m->devs[dev].busy[k];
		struct span s = { b->start_ns > from ? b->start_ns : from,
				  b->end_ns < to ? b->end_ns : to };

		if (b->seq && (!pid || b->pid == pid) && s.to > s.from)
			spans[n++] = s;
	}
	return spans_union(spans, n);
}

static bool any_mig_busy(const struct sim_machine *m, int dev, int member)
{
	return sim_is_card_of(m, dev, member) && m->devs[member].busy_seq > 0;
}

/* Energy in [from, to) in mW * ns: the base, and what every launch added while it ran. */
static double energy_between(const struct sim_machine *m, int dev, uint64_t from, uint64_t to)
{
	const struct sim_dev *d = &m->devs[dev];
	double base = sim_has_context(m, dev) ? d->context_mw : d->idle_mw, sum;

	sum = base * (double)(to - from);
	for (int member = 0; member < m->ndevs; member++) {
		for (int k = 0; any_mig_busy(m, dev, member) && k < SIM_BUSY_MAX; k++) {
			const struct sim_busy *b = &m->devs[member].busy[k];
			uint64_t lo = b->start_ns > from ? b->start_ns : from;
			uint64_t hi = b->end_ns < to ? b->end_ns : to;

			if (b->seq && hi > lo)
				sum += (double)b->power_mw * (double)(hi - lo);
		}
	}
	return sum;
}

uint32_t sim_power_mw(struct sim_machine *m, int dev)
{
	uint64_t now = sim_now_ns(), window = m->timing[SIM_T_POWER_WINDOW];
	double mw = energy_between(m, dev, now - window, now) / (double)window;

	return mw > m->devs[dev].limit_mw ? m->devs[dev].limit_mw : (uint32_t)mw;
}

uint64_t sim_energy_mj(struct sim_machine *m, int dev)
{
	struct sim_dev *d = &m->devs[dev];
	uint64_t now = sim_now_ns();

	if (d->energy_ns && now > d->energy_ns)
		d->energy_uj += (uint64_t)(energy_between(m, dev, d->energy_ns, now) / 1e6);
	d->energy_ns = now;
	return d->energy_uj / 1000;
}
