/* SPDX-License-Identifier: MIT */
/*
 * tenure_gemm for compute capability 8.0 and later: the same product in the same slices as in
 * gemm.cu (read that first), seven times as fast on an H200.
 *
 * A block is 8 warps and takes tiles of 128 x 256, of which each warp computes 64 x 64. It goes
 * along the rows of A and B in slabs of 64 bytes. Three slabs are on their way to shared memory
 * while a fourth is worked on, and a warp loads the operands of its next 32 products while it does
 * the 32 before. n is a multiple of 256; dynamic shared memory: 4 slabs, 98304 bytes.
 */
#include "device.h"

#define THREADS	    256
#define TILE_ROWS   128
#define TILE_COLS   256
#define SLAB	    64 /* bytes of a row */
#define CHUNKS	    (SLAB / 16)
#define STAGES	    4
#define STAGE_BYTES ((TILE_ROWS + TILE_COLS) * SLAB)

#define WARP_SIDE 64
#define ROW_PARTS (WARP_SIDE / 16) /* of the rows of one product */
#define COL_PARTS (WARP_SIDE / 8)

/* Where a chunk of 16 bytes lies in a stage: eight rows of one chunk never share a bank. */
DEVICE u32 place_chunk(u32 row, u32 chunk)
{
	return row * SLAB + ((chunk ^ ((row >> 1) & 3)) << 4);
}

template <u32 rows> DEVICE void copy_rows(u32 to, u64 from, u32 pitch, u32 thread)
{
#pragma unroll
	for (u32 i = 0; i < rows * CHUNKS / THREADS; i++) {
		u32 at = i * THREADS + thread, row = at / CHUNKS, chunk = at % CHUNKS;

		copy_16(to + place_chunk(row, chunk), from + (u64)row * pitch + chunk * 16);
	}
}

DEVICE void copy_slab(u32 to, u64 a, u64 b, u32 pitch, u32 thread)
{
	copy_rows<TILE_ROWS>(to, a, pitch, thread);
	copy_rows<TILE_COLS>(to + TILE_ROWS * SLAB, b, pitch, thread);
}

DEVICE void load_matrices(u32 *r, u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at)
		     : "memory");
}

DEVICE void multiply(float *d, const u32 *a, const u32 *b)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
		     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* The operands of a warp for 32 bytes of a slab. */
struct operands {
	u32 a[ROW_PARTS][4], b[COL_PARTS / 2][4];
};

DEVICE void load_operands(struct operands *o, u32 a_at, u32 b_at)
{
#pragma unroll
	for (u32 i = 0; i < ROW_PARTS; i++)
		load_matrices(o->a[i], a_at + i * 16 * SLAB);
#pragma unroll
	for (u32 j = 0; j < COL_PARTS / 2; j++)
		load_matrices(o->b[j], b_at + j * 16 * SLAB);
}

/* Forth and back along the columns: the operand of the last product is that of the next one. */
DEVICE void multiply_all(float d[ROW_PARTS][COL_PARTS][4], const struct operands *o)
{
#pragma unroll
	for (u32 i = 0; i < ROW_PARTS; i++)
#pragma unroll
		for (u32 step = 0; step < COL_PARTS; step++) {
			u32 j = i % 2 ? COL_PARTS - 1 - step : step;

			multiply(d[i][j], o->a[i], &o->b[j / 2][j % 2 * 2]);
		}
}

DEVICE u32 following(u32 stage)
{
	return stage + 1 == STAGES ? 0 : stage + 1;
}

DEVICE void compute_tile(u32 shared, u64 a, u64 b, u64 c, u32 n, u32 pitch, u32 thread)
{
	const u32 lane = thread % 32, warp = thread / 32;
	const u32 first_row = warp / 4 * WARP_SIDE, first_col = warp % 4 * WARP_SIDE;
	const u32 a_row = first_row + lane % 16, a_chunk = lane / 16;
	const u32 b_row = first_col + lane % 8 + lane / 16 * 8, b_chunk = lane / 8 % 2;
	const u32 slabs = pitch / SLAB;
	float d[ROW_PARTS][COL_PARTS][4] = {};
	struct operands now, next;
	u32 a_at[2], b_at[2], read = 0, write = STAGES - 1;

#pragma unroll
	for (u32 half = 0; half < 2; half++) {
		a_at[half] = shared + place_chunk(a_row, a_chunk + half * 2);
		b_at[half] = shared + TILE_ROWS * SLAB + place_chunk(b_row, b_chunk + half * 2);
	}
	for (u32 s = 0; s < STAGES - 1; s++) {
		copy_slab(shared + s * STAGE_BYTES, a + s * SLAB, b + s * SLAB, pitch, thread);
		end_copy_group();
	}
	wait_for_copies<STAGES - 2>();
	all_warps_here();
	load_operands(&now, a_at[0], b_at[0]);
	for (u32 k = 0; k < slabs; k++) {
		const u32 ahead = (k + STAGES - 1) * SLAB;

		load_operands(&next, read * STAGE_BYTES + a_at[1], read * STAGE_BYTES + b_at[1]);
		if (ahead < pitch)
			copy_slab(shared + write * STAGE_BYTES, a + ahead, b + ahead, pitch,
				  thread);
		end_copy_group();
		multiply_all(d, &now);
		read = following(read);
		write = following(write);
		wait_for_copies<STAGES - 2>();
		all_warps_here();
		load_operands(&now, read * STAGE_BYTES + a_at[0], read * STAGE_BYTES + b_at[0]);
		multiply_all(d, &next);
	}
	wait_for_copies<0>();
#pragma unroll
	for (u32 i = 0; i < ROW_PARTS; i++)
#pragma unroll
		for (u32 j = 0; j < COL_PARTS; j++) {
			u64 row = first_row + i * 16 + lane / 4;
			u64 at = c + 4 * (row * n + first_col + j * 8 + lane % 4 * 2);

			store_two(at, d[i][j][0], d[i][j][1]);
			store_two(at + 32ull * n, d[i][j][2], d[i][j][3]);
		}
}

extern "C" GLOBAL __attribute__((launch_bounds(THREADS, 1))) void
tenure_gemm(u64 stop, u64 duration_ns, struct turns *turns, u64 a, u64 b, u64 c, u32 n, u32 bytes,
	    u32 buffers)
{
	static SHARED u64 word;
	const u32 pitch = n * bytes;
	const u32 rows = n / TILE_ROWS, cols = n / TILE_COLS, shared = shared_address(128);
	const u32 thread = __nvvm_read_ptx_sreg_tid_x();
	struct turn turn = begin_turns(stop, duration_ns, turns);
	u64 tile;

	while ((tile = next_tile(&word, &turn)) != NO_TILE) {
		struct place at = place_tile(tile, rows, cols, buffers);
		u64 first = (at.buffer * n + at.row * TILE_ROWS) * n + at.col * TILE_COLS;

		compute_tile(shared, a + (u64)at.row * TILE_ROWS * pitch,
			     b + (u64)at.col * TILE_COLS * pitch, c + 4 * first, n, pitch, thread);
	}
}
