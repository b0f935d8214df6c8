/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_BURN_H
#define TENURE_HOLD_HOLDER_BURN_H

/*
 * The load of a burn (hold/burn.h): products, passes over the memory of a hold, and copies
 * (copies.h), in launches of BURN_SLICE_NS, each compared on the device with what the host knows.
 *
 * The matrices are of whole numbers, so small that every sum is exact whatever the order of the
 * additions; their rows repeat, so that the host computes a table of all elements that a product
 * can have. Products are written in turn to as many buffers as there is memory for, and each is
 * compared just before it is written over: a bit that flips meanwhile is found, too. Those that are
 * there when no more are computed are compared then, and so is the table.
 *
 * Not thread-safe: load.c calls it from its thread, with or without its lock as is said below.
 */

#include <stdbool.h>
#include <stdint.h>

#include "gpu/cuda.h"
#include "hold/burn.h"

#define BURN_SLICE_NS	15000000ULL
#define BURN_PIECES_MAX 24U

struct burn_piece {
	CUdeviceptr at;
	uint64_t bytes;
};

struct burn_setup {
	const struct cuda *cu;
	CUstream stream;
	CUdeviceptr stop; /* the word that ends all kernels of ours */
	unsigned int sm_count;
	int capability; /* compute capability: 90 is 9.0 */
};

/* What is to be burnt, and where: the memory of the hold, the largest piece first. */
struct burn_job {
	struct burn_test test;
	uint64_t total_bytes; /* of the card */
	unsigned int n_pieces;
	struct burn_piece pieces[BURN_PIECES_MAX];
};

struct burn;

/* 0 and *ret, which lives as long as the process, or -errno and e. The setup is copied. */
int burn_create(const struct burn_setup *setup, struct burn **ret, struct err *e);

/*
 * Begin with that job, or with another one: what was found stays, if it is of the same order.
 * Without the lock, because the driver compiles and the host computes, which takes up to a second;
 * nothing is launched. 0; -ENOSYS: this card or driver has no such load; -ENOMEM: the hold is too
 * small for it; and e.
 */
int burn_begin(struct burn *b, const struct burn_job *job, struct err *e);

/* Launch the next slice, with the lock. */
CUresult burn_launch(struct burn *b);

/* Wait until it has ended, and take note of what it found; without the lock. */
CUresult burn_finish(struct burn *b);

/* Compute nothing more: the next slices only compare what is left, until burn_is_closed(). With the
 * lock, between two slices. */
void burn_close(struct burn *b);
bool burn_is_closed(const struct burn *b);

/* It does not go on for now: give back what of the host's memory it has pinned, and close what of
 * other devices is open, without the lock; burn_begin() comes before it goes on. */
void burn_rest(struct burn *b);

/* The windows of other devices to which it copies, from now on: those that are not among them any
 * more are closed. Without the lock, between two slices. */
void burn_set_peers(struct burn *b, const struct burn_peers *peers);

/* All that was found until the last burn_finish(). */
const struct burn_report *burn_found(const struct burn *b);

/* Pure: n of the n x n products of a burn in a piece of that many bytes, on a card of total: half
 * of that of the load `gemm`, or the largest that leaves room for two products; a multiple of 256;
 * 0 where none does. */
uint32_t burn_product_n(uint64_t total_bytes, uint64_t piece_bytes, enum precision precision);

/* Pure: the largest whole number in n x n matrices with which every sum is exact. */
uint32_t burn_range(uint32_t n, enum precision precision);

#endif
