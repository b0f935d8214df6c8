/* SPDX-License-Identifier: MIT */
/*
 * tenure_gemm for compute capability 9.0: the same product in the same slices as in gemm.cu (read
 * that first), by the instructions that only this one has, which take their operands from shared
 * memory and run meanwhile: half as fast again as gemm_sm80.cu on an H200.
 *
 * A block is two warp groups of 128 threads. It takes tiles of 128 x 256, of which each group
 * computes 64 rows, and goes along the rows of A and B in slabs of 128 bytes: one is multiplied,
 * the products of the one before end, and two are on their way. n is a multiple of 256; dynamic
 * shared memory: 4 slabs and what aligns them, 197632 bytes.
 *
 * clang 14 does not know this target: what it makes is for 8.0, and tools/kernels puts the target
 * and its version of PTX (8.0, of CUDA 12.0) into the head.
 */
#include "device.h"

#define THREADS	    256
#define TILE_ROWS   128
#define TILE_COLS   256
#define GROUP_ROWS  64
#define SLAB	    128 /* bytes of a row */
#define CHUNKS	    (SLAB / 16)
#define STAGES	    4
#define STAGE_BYTES ((TILE_ROWS + TILE_COLS) * SLAB)
#define STEP	    32 /* bytes of a row that one instruction takes */
#define SUMS	    128

/* The sums of a thread as operands of an instruction: "%0" to "%127", and what they stand for. */
#define NAMES_10(a)                                                                                \
	"%" a "0,%" a "1,%" a "2,%" a "3,%" a "4,%" a "5,%" a "6,%" a "7,%" a "8,%" a "9,"
#define NAMES_40(a, b, c, d) NAMES_10(a) NAMES_10(b) NAMES_10(c) NAMES_10(d)
#define SUM_NAMES                                                                                  \
	NAMES_40("", "1", "2", "3")                                                                \
	NAMES_40("4", "5", "6", "7")                                                               \
	NAMES_40("8", "9", "10", "11") "%120,%121,%122,%123,%124,%125,%126,%127"
#define SUMS_4(d)  "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define SUMS_16(d) SUMS_4(d), SUMS_4((d) + 4), SUMS_4((d) + 8), SUMS_4((d) + 12)
#define SUMS_64(d) SUMS_16(d), SUMS_16((d) + 16), SUMS_16((d) + 32), SUMS_16((d) + 48)
#define SUMS_ALL(d) SUMS_64(d), SUMS_64((d) + 64)

/* Where a chunk of 16 bytes lies in a stage: what the hardware calls a swizzle of 128 bytes. */
DEVICE u32 place_chunk(u32 row, u32 chunk)
{
	return row * SLAB + ((chunk ^ (row & 7)) << 4);
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

/* An operand in shared memory: rows of 128 bytes with that swizzle, eight of them every 1024. */
DEVICE u64 describe(u32 at)
{
	return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

/* What this thread has written by copies is there for the products of all threads. */
DEVICE void show_copies(void)
{
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Add a step of 64 rows x 256 columns; it runs until wait_for_products(). */
DEVICE void multiply(float *d, u64 a, u64 b)
{
	asm volatile("{.reg .pred add; setp.ne.b32 add, 1, 0; "
		     "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
		     "{" SUM_NAMES "}, %128, %129, add, 1, 1, 0, 0;}"
		     : SUMS_ALL(d)
		     : "l"(a), "l"(b));
}

DEVICE void begin_products(void)
{
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void end_product_group(void)
{
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until at most n groups run. Nobody may touch the sums before. */
template <int n> DEVICE void wait_for_products(float *d)
{
	asm volatile("wgmma.wait_group.sync.aligned %128;" : SUMS_ALL(d) : "n"(n) : "memory");
}

DEVICE u32 following(u32 stage)
{
	return stage + 1 == STAGES ? 0 : stage + 1;
}

DEVICE void compute_tile(u32 shared, u64 a, u64 b, u64 c, u32 n, u32 pitch, u32 thread)
{
	const u32 lane = thread % 32, warp = thread / 32 % 4, group = thread / 128;
	const u32 slabs = pitch / SLAB;
	float d[SUMS] = {};
	u32 read = 0, write = STAGES - 2;

	for (u32 s = 0; s < STAGES - 2; s++) {
		copy_slab(shared + s * STAGE_BYTES, a + s * SLAB, b + s * SLAB, pitch, thread);
		end_copy_group();
	}
	for (u32 k = 0; k < slabs; k++) {
		const u32 ahead = (k + STAGES - 2) * SLAB;
		const u32 stage = shared + read * STAGE_BYTES;

		wait_for_copies<STAGES - 3>();
		show_copies();
		/* All are past their wait below: the slab before the last one is free again. */
		all_warps_here();
		begin_products();
#pragma unroll
		for (u32 at = 0; at < SLAB; at += STEP)
			multiply(d, describe(stage + group * GROUP_ROWS * SLAB + at),
				 describe(stage + TILE_ROWS * SLAB + at));
		end_product_group();
		if (ahead < pitch)
			copy_slab(shared + write * STAGE_BYTES, a + ahead, b + ahead, pitch,
				  thread);
		end_copy_group();
		wait_for_products<1>(d);
		read = following(read);
		write = following(write);
	}
	wait_for_products<0>(d);
	wait_for_copies<0>();
#pragma unroll
	for (u32 j = 0; j < SUMS / 4; j++) {
		u64 row = group * GROUP_ROWS + warp * 16 + lane / 4;
		u64 at = c + 4 * (row * n + j * 8 + lane % 4 * 2);

		store_two(at, d[j * 4], d[j * 4 + 1]);
		store_two(at + 32ull * n, d[j * 4 + 2], d[j * 4 + 3]);
	}
}

extern "C" GLOBAL __attribute__((launch_bounds(THREADS, 1))) void
tenure_gemm(u64 stop, u64 duration_ns, struct turns *turns, u64 a, u64 b, u64 c, u32 n, u32 bytes,
	    u32 buffers)
{
	static SHARED u64 word;
	const u32 pitch = n * bytes; /* taken from the arguments it would cost a tenth */
	const u32 rows = n / TILE_ROWS, cols = n / TILE_COLS, shared = shared_address(1024);
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
