/* SPDX-License-Identifier: MIT */
#ifndef TENURE_KERNELS_DEVICE_H
#define TENURE_KERNELS_DEVICE_H

/*
 * What kernels in CUDA C share: instructions that clang has no name for without the CUDA toolkit,
 * and the order in which blocks take the tiles of a matrix.
 */

typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE static inline __attribute__((device, always_inline))
#define GLOBAL __attribute__((global))
#define SHARED __attribute__((shared))

#define NO_TILE 0xffffffffu

/* The time of the device, the same for all its blocks. */
DEVICE u64 now_ns(void)
{
	u64 t;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

DEVICE u32 read_word(u64 address)
{
	u32 v;

	asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"(address));
	return v;
}

DEVICE u32 count_up(u64 counter)
{
	u32 v;

	asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(v) : "l"(counter) : "memory");
	return v;
}

DEVICE void all_warps_here(void)
{
	asm volatile("bar.sync 0;" ::: "memory");
}

/*
 * The next of n tiles for this block, or NO_TILE when the stop word is set or the time is up. To be
 * called by all threads; *word is in shared memory. The counter wraps: products are computed over
 * and over, which is what a load is for.
 */
DEVICE u32 next_tile(u32 *word, u64 stop, u64 until_ns, u64 counter, u32 n)
{
	if (__nvvm_read_ptx_sreg_tid_x() == 0)
		*word = read_word(stop) || now_ns() >= until_ns ? NO_TILE : count_up(counter) % n;
	all_warps_here();
	u32 tile = *word;

	all_warps_here();
	return tile;
}

/*
 * Where the tile of that number is in a matrix of rows x cols tiles. Tiles that are worked on at
 * the same time lie in a few rows, so that the blocks find each other's slabs in the L2 cache.
 */
DEVICE void place_tile(u32 tile, u32 rows, u32 cols, u32 *ret_row, u32 *ret_col)
{
	const u32 high = 8, first = tile / (high * cols) * high, in_band = tile % (high * cols);
	const u32 here = rows - first < high ? rows - first : high;

	*ret_row = first + in_band % here;
	*ret_col = in_band / here;
}

/* Copies of 16 bytes to shared memory that go on meanwhile, in groups. */
DEVICE void copy_16(u32 to, u64 from)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

DEVICE void end_copy_group(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most n of this thread's groups are on their way. */
template <int n> DEVICE void wait_for_copies(void)
{
	asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

DEVICE void store_two(u64 at, float x, float y)
{
	asm volatile("st.global.v2.f32 [%0], {%1,%2};" ::"l"(at), "f"(x), "f"(y) : "memory");
}

/* The launch's own part of shared memory; its size is an argument of the launch. */
extern SHARED char launch_shared[];

/* Its address as instructions take it, a multiple of align, for which the launch has left room. */
DEVICE u32 shared_address(u32 align)
{
	u32 at = (u32)(u64)(__attribute__((address_space(3))) char *)launch_shared;

	return (at + align - 1) & ~(align - 1);
}

#endif
