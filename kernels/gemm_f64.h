/* SPDX-License-Identifier: MIT */
#ifndef TENURE_KERNELS_GEMM_F64_H
#define TENURE_KERNELS_GEMM_F64_H

/*
 * tenure_gemm_f64 on tensor cores: the product of gemm.cu (read that first) in the same slices, for
 * matrices in double precision; products are left folded (double.h). What differs between
 * generations is the instruction that multiplies, which the file that includes this one has.
 *
 * A block is 8 warps and takes tiles of 128 x 128, of which each warp computes 32 x 64. It goes along
 * the rows of A and B in slabs of 64 bytes, of which three are on their way to shared memory while a
 * fourth is worked on. A thread takes two neighbours of a row at once, and which of the 8 numbers of
 * a slab an instruction takes for its first is left open, because a sum has no order. n is a multiple
 * of 128; dynamic shared memory: 4 slabs, 65536 bytes.
 */
#include "double.h"

/*
 * d (row r, columns 2 t and 2 t + 1; row r + 8, likewise) += the 16 x 8 numbers of which a has those
 * of row r and of row r + 8 in slot t, and of both rows in slot t + 4, by the 8 x 8 numbers of which
 * b has those of column r in slots t and t + 4; r and t are lane / 4 and lane % 4.
 */
DEVICE void multiply(double *d, const double *a, const double *b);

#define THREADS	    256
#define TILE_SIDE   128
#define SLAB	    64 /* bytes of a row */
#define CHUNKS	    (SLAB / 16)
#define STAGES	    4
#define STAGE_BYTES (2 * TILE_SIDE * SLAB)

#define WARP_ROWS 32
#define WARP_COLS 64
#define ROW_PARTS (WARP_ROWS / 16)
#define COL_PARTS (WARP_COLS / 8)

DEVICE void copy_rows(u32 to, u64 from, u32 pitch, u32 thread)
{
#pragma unroll
	for (u32 i = 0; i < TILE_SIDE * CHUNKS / THREADS; i++) {
		const u32 at = i * THREADS + thread;

		copy_16(to + at * 16, from + (u64)(at / CHUNKS) * pitch + at % CHUNKS * 16);
	}
}

DEVICE void copy_slab(u32 to, u64 a, u64 b, u32 pitch, u32 thread)
{
	copy_rows(to, a, pitch, thread);
	copy_rows(to + TILE_SIDE * SLAB, b, pitch, thread);
}

DEVICE void load_two(double *v, double *w, u32 at)
{
	asm volatile("ld.shared.v2.f64 {%0,%1}, [%2];" : "=d"(*v), "=d"(*w) : "r"(at) : "memory");
}

DEVICE void multiply_slab(double d[ROW_PARTS][COL_PARTS][4], u32 a_at, u32 b_at)
{
	double a[ROW_PARTS][4], b[COL_PARTS][2];

#pragma unroll
	for (u32 i = 0; i < ROW_PARTS; i++) {
		load_two(&a[i][0], &a[i][2], a_at + i * 16 * SLAB);
		load_two(&a[i][1], &a[i][3], a_at + (i * 16 + 8) * SLAB);
	}
#pragma unroll
	for (u32 j = 0; j < COL_PARTS; j++)
		load_two(&b[j][0], &b[j][1], b_at + j * 8 * SLAB);
#pragma unroll
	for (u32 j = 0; j < COL_PARTS; j++)
#pragma unroll
		for (u32 i = 0; i < ROW_PARTS; i++)
			multiply(d[i][j], a[i], b[j]);
}

DEVICE void store_two(u64 at, const double *v)
{
	asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(at), "r"(fold(v[0])), "r"(fold(v[1]))
		     : "memory");
}

DEVICE void compute_tile(u32 shared, u64 a, u64 b, u64 c, u32 n, u32 thread)
{
	const u32 lane = thread % 32, warp = thread / 32, pitch = n * 8;
	const u32 first_row = warp / 2 * WARP_ROWS, first_col = warp % 2 * WARP_COLS;
	const u32 a_at = shared + first_row * SLAB + lane * 16;
	const u32 b_at = shared + (TILE_SIDE + first_col) * SLAB + lane * 16;
	double d[ROW_PARTS][COL_PARTS][4] = {};

	for (u32 s = 0; s < STAGES - 1; s++) {
		copy_slab(shared + s * STAGE_BYTES, a + s * SLAB, b + s * SLAB, pitch, thread);
		end_copy_group();
	}
	for (u32 at = 0, stage = 0; at < pitch; at += SLAB, stage = (stage + 1) % STAGES) {
		const u32 ahead = at + (STAGES - 1) * SLAB;

		wait_for_copies<STAGES - 2>();
		all_warps_here();
		if (ahead < pitch)
			copy_slab(shared + (stage + STAGES - 1) % STAGES * STAGE_BYTES, a + ahead,
				  b + ahead, pitch, thread);
		end_copy_group();
		multiply_slab(d, a_at + stage * STAGE_BYTES, b_at + stage * STAGE_BYTES);
	}
	wait_for_copies<0>();
	all_warps_here();
#pragma unroll
	for (u32 i = 0; i < ROW_PARTS; i++)
#pragma unroll
		for (u32 j = 0; j < COL_PARTS; j++) {
			const u64 row = first_row + i * 16 + lane / 4;
			const u64 at = c + 4 * (row * n + first_col + j * 8 + lane % 4 * 2);

			store_two(at, &d[i][j][0]);
			store_two(at + 32ull * n, &d[i][j][2]);
		}
}

extern "C" GLOBAL __attribute__((launch_bounds(THREADS, 1))) void
tenure_gemm_f64(u64 stop, u64 duration_ns, struct turns *turns, u64 a, u64 b, u64 c, u32 n,
		u32 bytes, u32 buffers)
{
	static SHARED u64 word;
	const u32 per_side = n / TILE_SIDE, shared = shared_address(128);
	struct turn turn = begin_turns(stop, duration_ns, turns);
	u64 tile;

	while ((tile = next_tile(&word, &turn)) != NO_TILE) {
		struct place at = place_tile(tile, per_side, per_side, buffers);
		u64 first = (at.buffer * n + at.row * TILE_SIDE) * n + at.col * TILE_SIDE;

		compute_tile(shared, a + 8ull * at.row * TILE_SIDE * n,
			     b + 8ull * at.col * TILE_SIDE * n, c + 4 * first, n,
			     __nvvm_read_ptx_sreg_tid_x());
	}
}

#endif
