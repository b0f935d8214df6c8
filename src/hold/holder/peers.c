/* SPDX-License-Identifier: MIT */
#include "hold/holder/peers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

struct peer {
	struct burn_window window;
	CUdeviceptr at; /* 0: not open */
	int code;	/* why it cannot be opened; 0: it can, or was not tried */
	struct copy_rates rates;
};

struct peers {
	const struct cuda *cu;
	struct copies *copies;
	CUdeviceptr at;
	uint64_t bytes; /* 0: there is no room */
	uint32_t n, own;
	struct peer all[BURN_PEERS_MAX];
	struct peer *now;	  /* with whom we copy; NULL: nobody */
	struct burn_copies spare; /* where a report has no room for more */
};

/* -------- the tournament -------- */

/* By the circle: the last one stays, and the others go round it. */
uint32_t peers_partner(uint32_t n, uint32_t me, uint64_t turn)
{
	const uint32_t last = n + n % 2 - 1; /* of an odd number one is nobody */
	const uint32_t round = last ? (uint32_t)(turn % last) : 0;
	uint32_t partner;

	if (n < 2 || me >= n)
		return n;
	if (me == last)
		return round;
	partner = (2 * round + last - me) % last;
	if (partner == me)
		partner = last;
	return partner < n ? partner : n;
}

static uint32_t turns(uint32_t n)
{
	return n < 2 ? 0 : n + n % 2 - 1;
}

uint64_t peers_round_ns(const struct peers *p)
{
	return p->bytes && p->own < p->n ? 2 * PEERS_HALF_NS * turns(p->n) : 0;
}

/* Whose turn it is at that time; NULL: nobody's with us, or the other one copies. */
static struct peer *partner_at(struct peers *p, uint64_t now_ns)
{
	const uint64_t half = now_ns / PEERS_HALF_NS;
	const uint32_t partner = peers_partner(p->n, p->own, half / 2);
	const bool lower_first = half % 2 == 0;

	if (!p->bytes || p->own >= p->n || partner >= p->n || (p->own < partner) != lower_first)
		return NULL;
	return &p->all[partner];
}

/* -------- windows -------- */

int peers_create(const struct copies_setup *setup, struct peers **ret, struct err *e)
{
	struct peers *p = xcalloc(1, sizeof(*p));
	int r = copies_create(setup, &p->copies, e);

	if (r < 0) {
		free(p);
		return r;
	}
	p->cu = setup->cu;
	*ret = p;
	return 0;
}

void peers_begin(struct peers *p, CUdeviceptr at, uint64_t bytes)
{
	p->at = at;
	p->bytes = bytes;
	p->now = NULL;
}

static void close_window(struct peers *p, struct peer *peer)
{
	if (peer->at)
		(void)p->cu->ipc_close(peer->at);
	peer->at = 0;
	if (p->now == peer)
		p->now = NULL;
}

static bool open_window(struct peers *p, struct peer *peer)
{
	CUipcMemHandle handle;
	CUresult code = CUDA_ERROR_NOT_SUPPORTED;

	if (peer->at || peer->code)
		return peer->at;
	(void)memcpy(&handle, peer->window.handle, sizeof(handle));
	if (p->cu->ipc_open && p->cu->ipc_close)
		code = p->cu->ipc_open(&peer->at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	if (code == CUDA_SUCCESS)
		return true;
	peer->at = 0;
	peer->code = -EHOSTUNREACH;
	return false;
}

static const struct peer *find(const struct peer *all, uint32_t n, const struct burn_window *w)
{
	for (uint32_t i = 0; i < n; i++)
		if (memcmp(&all[i].window, w, sizeof(*w)) == 0)
			return &all[i];
	return NULL;
}

void peers_set(struct peers *p, const struct burn_peers *all)
{
	struct peer *before = xcalloc(BURN_PEERS_MAX, sizeof(*before));
	const uint32_t n_before = p->n;

	(void)memcpy(before, p->all, sizeof(p->all));
	p->n = all->n;
	p->own = all->own;
	p->now = NULL;
	for (uint32_t i = 0; i < p->n; i++) {
		const struct peer *there = find(before, n_before, &all->windows[i]);

		p->all[i] = there ? *there : (struct peer){ .window = all->windows[i] };
	}
	for (uint32_t i = 0; i < n_before; i++)
		if (!find(p->all, p->n, &before[i].window))
			close_window(p, &before[i]);
	free(before);
}

/* -------- copies -------- */

static int begin_with(struct peers *p, struct peer *peer)
{
	const uint64_t part = peer->window.bytes / BURN_PEERS_MAX;
	struct err e = ERR_INIT;

	return copies_begin_far(p->copies, p->at, p->bytes,
				peer->at + p->all[p->own].window.slot * part, part / 2,
				&peer->rates, &e);
}

struct copies *peers_next(struct peers *p, uint64_t now_ns)
{
	struct peer *peer = partner_at(p, now_ns);

	if (!peer || !open_window(p, peer)) {
		p->now = NULL;
		return NULL;
	}
	if (peer != p->now)
		peer->code = begin_with(p, peer);
	p->now = peer->code ? NULL : peer;
	return p->now ? p->copies : NULL;
}

void peers_restart(struct peers *p)
{
	p->now = NULL;
}

static struct burn_copies *link_of(struct peers *p, struct burn_report *f, uint32_t slot)
{
	for (uint32_t i = 0; i < f->n_links; i++)
		if (f->links[i].slot == slot)
			return &f->links[i].copies;
	if (f->n_links == BURN_PEERS_MAX)
		return &p->spare;
	f->links[f->n_links].slot = slot;
	return &f->links[f->n_links++].copies;
}

void peers_note(struct peers *p, struct burn_report *found)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->all[i].code)
			link_of(p, found, p->all[i].window.slot)->code = p->all[i].code;
}

CUresult peers_finish(struct peers *p, struct burn_report *found)
{
	return copies_finish(p->copies, link_of(p, found, p->now->window.slot));
}
