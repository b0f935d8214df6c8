/* SPDX-License-Identifier: MIT */
/*
 * The holder.
 *
 * Letting go is what it is built for. Memory is taken in one large piece, because each driver
 * call queues behind a starting newcomer for the driver's lock: 400 pieces take most of a second to
 * free, four take some 45 ms (GPU-FACTS.md). It is freed in place and the context stays: ending the
 * process would take longer and slow the newcomer's start. Between the order and the memory being
 * free nothing is allocated, logged or read.
 *
 * An order to let go may come at any time, also while the context is made or the memory is taken:
 * pending orders are looked at between any two driver calls.
 *
 * The main thread owns the socket and the memory; the load has a thread of its own (load.c).
 */
#include "hold/holder/holder.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sock.h"
#include "base/str.h"
#include "gpu/cuda.h"
#include "hold/holder/load.h"
#include "hold/holder_proto.h"

#define PIECES_FIRST 4		     /* one is enough unless less is free than was thought */
#define PIECES_FEW   8		     /* with more of them another amount is taken anew */
#define PIECES_MAX   BURN_PIECES_MAX /* growing included; more would make freeing slow */
#define PIECE_ALIGN  (2ULL << 20)    /* the driver's own granule */
#define PIECE_MIN    (256ULL << 20)  /* a smaller piece is not worth a driver call */

struct holder {
	struct cuda cu;
	CUcontext ctx;
	struct load *load;
	struct burn_piece pieces[PIECES_MAX];
	size_t n_pieces;
	struct burn_piece window; /* for the holders of other devices; bytes 0: there is none */
	uint64_t held, wanted;	  /* the window included */
	uint64_t total;		  /* bytes that the card has */
	struct holder_msg hold;	  /* the order that is being carried out */
	struct burn_peers peers;
	bool holding;
	bool amount_due; /* hold.amount has changed since memory was taken, or a load is wanted */
};

static _Noreturn void end(void)
{
	/* No clean-up: the driver takes everything back, and does it faster than we could. */
	_exit(0);
}

static void tell(struct holder_msg *m)
{
	m->version = HPROTO_VERSION;
	m->at_ns = clock_mono_ns();
	if (sock_send(HOLDER_FD, m, sizeof(*m)) < 0)
		end();
}

static void tell_state(const struct holder *h, enum holder_type type, const char *remark)
{
	struct holder_msg m = { .type = type, .bytes = h->held, .wanted = h->wanted };

	(void)str_copy(m.text, sizeof(m.text), remark);
	tell(&m);
}

static _Noreturn void fail(int code, const struct err *e)
{
	struct holder_msg m = { .type = HOLDER_FAILED, .code = code };

	(void)str_copy(m.text, sizeof(m.text), e->text);
	tell(&m);
	end();
}

static void tell_burn(const struct holder *h, bool last)
{
	struct holder_msg m = { .type = HOLDER_BURN, .code = last };

	if ((h->load && load_burn_found(h->load, &m.found)) || last)
		tell(&m);
}

static void answer_heartbeat(const struct holder *h)
{
	struct holder_msg m = { .type = HOLDER_HEARTBEAT };

	if (h->hold.load == LOAD_BURN)
		tell_burn(h, false);
	tell(&m);
}

/* Wait up to timeout_ms (-1: for ever) for an order. True when there is one. */
static bool next_order(struct holder_msg *m, int timeout_ms)
{
	struct pollfd p = { .fd = HOLDER_FD, .events = POLLIN };
	ssize_t n = sock_recv(HOLDER_FD, m, sizeof(*m));

	if (n == -EAGAIN && timeout_ms != 0) {
		(void)poll(&p, 1, timeout_ms);
		n = sock_recv(HOLDER_FD, m, sizeof(*m));
	}
	if (n == -EAGAIN)
		return false;
	if (holder_msg_take(m, n) < 0)
		end(); /* the guard is gone, or is not our guard */
	return true;
}

static void free_pieces(struct holder *h)
{
	if (h->load)
		load_stop(h->load);
	while (h->n_pieces > 0)
		(void)h->cu.mem_free(h->pieces[--h->n_pieces].at);
	if (h->window.bytes)
		(void)h->cu.mem_free(h->window.at);
	h->window.bytes = 0;
	h->held = 0;
}

static void release(struct holder *h)
{
	struct holder_msg m = { .type = HOLDER_FREED, .bytes = h->held };

	free_pieces(h);
	h->holding = false;
	tell(&m);
	if (h->hold.load == LOAD_BURN)
		tell_burn(h, false);
	if (h->load)
		load_set_memory(h->load, NULL, 0, 0);
}

/* What a burn has found is told when nothing of it is left to be compared. */
static void close_burn(struct holder *h)
{
	if (h->hold.load != LOAD_BURN)
		return;
	if (h->load)
		load_close(h->load);
	tell_burn(h, true);
	h->hold.load = LOAD_NONE;
}

static void take_load(struct holder *h, const struct holder_msg *m)
{
	if (m->load != LOAD_BURN)
		close_burn(h);
	h->hold.load = m->load;
	h->hold.duty_permille = m->duty_permille;
	h->hold.burn = m->burn;
}

static void take_peers(struct holder *h, const struct holder_msg *m)
{
	h->peers = m->peers;
	if (h->load)
		load_set_peers(h->load, &h->peers);
}

/*
 * Look whether we were told to let go while a hold is being built. True when we were, and did.
 * Other orders that come meanwhile only change what the load will be.
 */
static bool told_to_release(struct holder *h)
{
	struct holder_msg m;

	while (next_order(&m, 0)) {
		if (m.type == HOLDER_RELEASE) {
			release(h);
			return true;
		}
		if (m.type == HOLDER_END)
			end();
		if (m.type == HOLDER_HEARTBEAT)
			answer_heartbeat(h);
		if (m.type == HOLDER_AMOUNT) {
			h->hold.amount = m.amount;
			h->amount_due = true;
		}
		if (m.type == HOLDER_LOAD)
			take_load(h, &m);
		if (m.type == HOLDER_PEERS)
			take_peers(h, &m);
		if (m.type == HOLDER_CLOSE)
			close_burn(h);
	}
	return false;
}

static bool wants_window(const struct holder *h)
{
	return h->hold.load == LOAD_BURN && burn_copies_to_peers(h->hold.burn.load) &&
	       h->cu.ipc_handle;
}

/*
 * A piece of its own for the holders of other devices, because whoever opens memory opens all of
 * its allocation. Where it cannot be had nothing is copied to this device. False: told to let go.
 */
static bool offer_window(struct holder *h)
{
	struct holder_msg m = { .type = HOLDER_WINDOW, .peers.n = 1 };
	struct burn_window *w = &m.peers.windows[0];
	CUipcMemHandle handle;

	_Static_assert(sizeof(handle) == BURN_HANDLE_BYTES, "a handle fits into its message");
	if (h->window.bytes || !wants_window(h))
		return true;
	for (w->bytes = BURN_WINDOW_MOST; w->bytes >= BURN_WINDOW_LEAST; w->bytes /= 2) {
		if (told_to_release(h))
			return false;
		if (h->cu.mem_alloc(&h->window.at, w->bytes) != CUDA_SUCCESS)
			continue;
		if (h->cu.ipc_handle(&handle, h->window.at) == CUDA_SUCCESS)
			break;
		(void)h->cu.mem_free(h->window.at);
	}
	if (w->bytes < BURN_WINDOW_LEAST)
		return true;
	h->window.bytes = w->bytes;
	h->held += w->bytes;
	(void)memcpy(w->handle, &handle, sizeof(handle));
	tell(&m);
	return true;
}

static void withdraw_window(struct holder *h)
{
	struct holder_msg m = { .type = HOLDER_WINDOW };

	if (!h->window.bytes || wants_window(h))
		return;
	tell(&m);
	(void)h->cu.mem_free(h->window.at);
	h->held -= h->window.bytes;
	h->window.bytes = 0;
}

/* False: told to let go meanwhile. Each failing call may wait for the driver's lock as well. */
static bool take_piece(struct holder *h, uint64_t bytes)
{
	struct burn_piece *p = &h->pieces[h->n_pieces];

	/* What is free may shrink under our hands: ask for less until the driver agrees. */
	for (; bytes >= PIECE_MIN; bytes = (bytes - bytes / 8) / PIECE_ALIGN * PIECE_ALIGN) {
		if (told_to_release(h))
			return false;
		if (h->cu.mem_alloc(&p->at, bytes) != CUDA_SUCCESS)
			continue;
		p->bytes = bytes;
		h->held += bytes;
		h->n_pieces++;
		break;
	}
	return true;
}

/*
 * Take up to what is wanted in at most n pieces, each as large as the driver gives it: where cards
 * let go at the same moment it frees one after another, and pieces of two cards by turns cost both
 * of them more (docs/benchmarks.md). False: told to let go meanwhile.
 */
static bool take_memory(struct holder *h, size_t n)
{
	for (; n > 0 && h->n_pieces < PIECES_MAX && h->held < h->wanted; n--) {
		uint64_t bytes = (h->wanted - h->held) / PIECE_ALIGN * PIECE_ALIGN;

		if (bytes < PIECE_MIN && h->n_pieces == 0)
			bytes = (h->wanted + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
		if (told_to_release(h))
			return false;
		if (bytes < PIECE_MIN && h->n_pieces == 0) {
			/* A hold smaller than a piece is one piece of that size, or nothing. */
			if (h->cu.mem_alloc(&h->pieces[0].at, bytes) == CUDA_SUCCESS) {
				h->pieces[0].bytes = bytes;
				h->held += bytes;
				h->n_pieces = 1;
			}
			return true;
		}
		if (!take_piece(h, bytes))
			return false;
	}
	return true;
}

/* The driver compiles the kernels, which not every machine can, so they are for who wants a load.
 * To be called while nothing is held: who comes meanwhile would have to wait for it. */
static void prepare_load(struct holder *h)
{
	struct err e = ERR_INIT;
	int r = 0;

	if (!h->load && h->hold.load != LOAD_NONE)
		r = load_create(&h->cu, h->ctx, &h->load, &e);
	if (h->load)
		load_set_peers(h->load, &h->peers);
	if (r < 0) {
		(void)err_wrap(&e, "no load can be made (--load none holds without one)");
		fail(r, &e);
	}
}

static void run_load(struct holder *h)
{
	load_set_burn(h->load, &h->hold.burn);
	load_run(h->load, (enum load_kind)h->hold.load, h->hold.duty_permille);
}

/* Where a hold began without one, all is taken anew, with a load that is made in between. */
static void start_load(struct holder *h)
{
	if (!h->load) {
		h->amount_due = h->amount_due || h->hold.load != LOAD_NONE;
		return;
	}
	if (h->n_pieces > 0)
		load_set_memory(h->load, h->pieces, (unsigned int)h->n_pieces, h->total);
	run_load(h);
}

/* Another load on the same memory. */
static void change_load(struct holder *h)
{
	const uint64_t before = h->held;

	if (h->load && !offer_window(h))
		return;
	withdraw_window(h);
	if (h->held != before)
		tell_state(h, HOLDER_HELD, "");
	if (h->load)
		run_load(h);
	else
		start_load(h);
}

/*
 * Starting CUDA takes 0.1 s, or seconds where the driver sleeps, and a context is a burden to a
 * newcomer who came meanwhile. False: told to let go between two steps; there is no context then.
 */
static bool make_context(struct holder *h)
{
	struct err e = ERR_INIT;
	CUdevice dev;
	int r = cuda_load(&h->cu, &e);

	if (r == 0 && told_to_release(h))
		return false;
	if (r == 0)
		r = cuda_result(&h->cu, h->cu.init(0), &e, "CUDA does not start");
	if (r == 0 && told_to_release(h))
		return false;
	if (r == 0)
		r = cuda_result(&h->cu, h->cu.device_get(&dev, 0), &e, "device");
	if (r == 0)
		r = cuda_result(&h->cu,
				h->cu.ctx_create(&h->ctx,
						 CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST, dev),
				&e, "context");
	if (r < 0)
		fail(r, &e);
	return true;
}

/* A size that was asked for stays asked for when less is free just now: the hold grows later. */
static uint64_t wanted_bytes(const struct mem_amount *m, uint64_t free_bytes)
{
	return m->kind == MEM_BYTES ? m->bytes : mem_amount_bytes(m, free_bytes);
}

static void do_hold(struct holder *h, const struct holder_msg *order)
{
	struct err e = ERR_INIT;
	size_t free_bytes = 0, total = 0;

	h->hold = *order;
	if (!h->ctx) {
		if (!make_context(h))
			return;
		tell_state(h, HOLDER_READY, "");
	}
	if (told_to_release(h))
		return;

	int r = cuda_result(&h->cu, h->cu.mem_info(&free_bytes, &total), &e, "memory info");

	if (r < 0)
		fail(r, &e);
	prepare_load(h);
	h->holding = true;
	h->total = total;
	h->wanted = wanted_bytes(&order->amount, free_bytes);
	if (!offer_window(h) || !take_memory(h, PIECES_FIRST))
		return;
	if (h->held == 0)
		fail(-ENOMEM, &(struct err){ .text = "no memory to be had" });
	tell_state(h, HOLDER_HELD, "");
	start_load(h);
}

/*
 * Fewer bytes, or few pieces again: as large a piece as fits beside those that are there is taken
 * before they are freed, so that there is always something held.
 */
static bool replace_pieces(struct holder *h, uint64_t free_bytes)
{
	uint64_t bytes = h->wanted < free_bytes ? h->wanted : free_bytes;
	struct burn_piece bridge = { .bytes = 0 };

	if (told_to_release(h))
		return false;
	for (bytes = (bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN;
	     bytes >= PIECE_ALIGN && !bridge.bytes; bytes = bytes / 2 / PIECE_ALIGN * PIECE_ALIGN)
		if (h->cu.mem_alloc(&bridge.at, bytes) == CUDA_SUCCESS)
			bridge.bytes = bytes;
	free_pieces(h);
	if (h->load)
		load_set_memory(h->load, NULL, 0, 0);
	if (bridge.bytes) {
		h->pieces[h->n_pieces++] = bridge;
		h->held = bridge.bytes;
	}
	return offer_window(h) && take_memory(h, PIECES_FIRST);
}

/* All is freed and taken anew, with a load that is made in between. */
static bool take_anew(struct holder *h, uint64_t free_bytes)
{
	h->wanted = wanted_bytes(&h->hold.amount, free_bytes + h->held);
	free_pieces(h);
	prepare_load(h);
	return offer_window(h) && take_memory(h, PIECES_FIRST);
}

/*
 * Another amount, or the first load. The share of a card is of what is free without us. Pieces stay
 * few, so that they are quick to free when it matters.
 */
static void do_amount(struct holder *h)
{
	struct err e = ERR_INIT;
	size_t free_bytes = 0, total = 0;
	bool go_on = true;
	int r = cuda_result(&h->cu, h->cu.mem_info(&free_bytes, &total), &e, "memory info");

	h->amount_due = false;
	if (r < 0)
		fail(r, &e);
	if (!h->load && h->hold.load != LOAD_NONE) {
		go_on = take_anew(h, free_bytes);
	} else {
		h->wanted = wanted_bytes(&h->hold.amount, free_bytes + h->held);
		if (h->wanted + PIECE_ALIGN <= h->held || h->n_pieces > PIECES_FEW)
			go_on = replace_pieces(h, free_bytes);
		else
			go_on = take_memory(h, PIECES_FIRST);
	}
	if (!go_on)
		return;
	if (h->held == 0)
		fail(-ENOMEM, &(struct err){ .text = "no memory to be had" });
	tell_state(h, HOLDER_HELD, "");
	start_load(h);
}

static void do_grow(struct holder *h)
{
	uint64_t before = h->held;

	if (!h->holding || !take_memory(h, 1))
		return;
	if (h->held != before)
		tell_state(h, HOLDER_HELD, "");
	change_load(h); /* another one may have been told meanwhile; what runs already goes on */
}

static void obey(struct holder *h, const struct holder_msg *m)
{
	switch (m->type) {
	case HOLDER_HOLD:
		do_hold(h, m);
		break;
	case HOLDER_RELEASE:
		release(h);
		break;
	case HOLDER_LOAD:
		take_load(h, m);
		if (h->holding)
			change_load(h);
		break;
	case HOLDER_GROW:
		do_grow(h);
		break;
	case HOLDER_AMOUNT:
		h->hold.amount = m->amount;
		h->amount_due = true;
		break;
	case HOLDER_HEARTBEAT:
		answer_heartbeat(h);
		break;
	case HOLDER_PEERS:
		take_peers(h, m);
		break;
	case HOLDER_CLOSE:
		close_burn(h);
		break;
	default:
		end();
	}
}

int holder_main(int argc, char **argv)
{
	struct holder h = { 0 };
	struct holder_msg m;
	struct err e = ERR_INIT;
	pid_t guard = getppid();

	/* The kernel ends us with the guard, also between now and the first read. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != guard || guard == 1)
		return 1;
	(void)prctl(PR_SET_NAME, HOLDER_COMM);
	(void)signal(SIGINT, SIG_IGN);
	/* Waits are counted, not time: while we were stopped ourselves nobody was silent. */
	for (unsigned int quiet = 0;;) {
		if (next_order(&m, HOLDER_HEARTBEAT_MS)) {
			quiet = 0;
			obey(&h, &m);
		} else if (++quiet >= HOLDER_ALONE_MS / HOLDER_HEARTBEAT_MS) {
			_exit(HOLDER_EXIT_ALONE);
		}
		if (h.holding && h.amount_due)
			do_amount(&h);
		if (h.load && h.holding && load_error(h.load, &e) < 0) {
			tell_burn(&h, false);
			fail(-EIO, &e);
		}
	}
}
