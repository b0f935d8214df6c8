/* SPDX-License-Identifier: MIT */
/*
 * tenure_gemm: C = A * B on the tensor cores, half precision in, single precision summed, in slices.
 *
 * A launch takes 64 x 64 tiles of C by their numbers until duration_ns have passed or
 * the stop word is set, so that a product of any size is worked on in launches of a few milliseconds
 * and the order to let go is seen within one tile. The numbers of tiles go on: the product is
 * computed over and over, which is what a load is for.
 *
 * The first two parameters are those of every kernel of ours (see light.ptx).
 *   turns    in device memory, zero at first
 *   a, b     n x n matrices, row major, b as its transpose
 *   c        products in single precision, row major, one behind the other
 *   n        a multiple of 64
 *   bytes    of an element of a and b
 *   buffers  that many products have room in c, and are written in turn
 *
 * The elements are half precision. In the PTX of the other two the instruction that multiplies is
 * put in the place of that for halves by its name (hold/holder/product.c), because it is all in
 * which precisions differ there; here they differ in more, and halves are all there are.
 *
 * Compiled by clang without the CUDA toolkit (tools/kernels); the PTX beside it is committed.
 * Needs compute capability 7.0. One block is 4 warps; each computes a 32 x 32 quarter of the tile.
 */
#include "device.h"

struct fragment {
	u32 r[8];
};

DEVICE struct fragment load_a(u64 p, u32 stride)
{
	struct fragment f;

	asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 "
		     "{%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
		     : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3]), "=r"(f.r[4]),
		       "=r"(f.r[5]), "=r"(f.r[6]), "=r"(f.r[7])
		     : "l"(p), "r"(stride));
	return f;
}

DEVICE struct fragment load_b(u64 p, u32 stride)
{
	struct fragment f;

	asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.global.f16 "
		     "{%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
		     : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3]), "=r"(f.r[4]),
		       "=r"(f.r[5]), "=r"(f.r[6]), "=r"(f.r[7])
		     : "l"(p), "r"(stride));
	return f;
}

struct sum {
	float f[8];
};

DEVICE void multiply(struct sum *d, const struct fragment *a,
				   const struct fragment *b)
{
	asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 "
		     "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11,%12,%13,%14,%15}, "
		     "{%16,%17,%18,%19,%20,%21,%22,%23}, {%0,%1,%2,%3,%4,%5,%6,%7};"
		     : "+f"(d->f[0]), "+f"(d->f[1]), "+f"(d->f[2]), "+f"(d->f[3]), "+f"(d->f[4]),
		       "+f"(d->f[5]), "+f"(d->f[6]), "+f"(d->f[7])
		     : "r"(a->r[0]), "r"(a->r[1]), "r"(a->r[2]), "r"(a->r[3]), "r"(a->r[4]),
		       "r"(a->r[5]), "r"(a->r[6]), "r"(a->r[7]), "r"(b->r[0]), "r"(b->r[1]),
		       "r"(b->r[2]), "r"(b->r[3]), "r"(b->r[4]), "r"(b->r[5]), "r"(b->r[6]),
		       "r"(b->r[7]));
}

DEVICE void store(u64 p, u32 stride, const struct sum *d)
{
	asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%0], "
		     "{%1,%2,%3,%4,%5,%6,%7,%8}, %9;" ::"l"(p),
		     "f"(d->f[0]), "f"(d->f[1]), "f"(d->f[2]), "f"(d->f[3]), "f"(d->f[4]),
		     "f"(d->f[5]), "f"(d->f[6]), "f"(d->f[7]), "r"(stride)
		     : "memory");
}

DEVICE void compute_quarter(u64 a, u64 b, u64 c, u32 n, u32 row, u32 col)
{
	struct sum d[2][2] = {};

	for (u32 k = 0; k < n; k += 16) {
		struct fragment fa[2], fb[2];

		for (u32 i = 0; i < 2; i++) {
			fa[i] = load_a(a + 2ull * ((u64)(row + 16 * i) * n + k), n);
			fb[i] = load_b(b + 2ull * ((u64)(col + 16 * i) * n + k), n);
		}
		for (u32 i = 0; i < 2; i++)
			for (u32 j = 0; j < 2; j++)
				multiply(&d[i][j], &fa[i], &fb[j]);
	}
	for (u32 i = 0; i < 2; i++)
		for (u32 j = 0; j < 2; j++)
			store(c + 4ull * ((u64)(row + 16 * i) * n + col + 16 * j), n, &d[i][j]);
}

/*
 * Fill count halves at p with values of either sign between 0.5 and 1: a product of constants draws
 * less power than one of real data does. Runs to its end, which is about a millisecond.
 */
extern "C" GLOBAL void tenure_fill(u64 stop, u64 duration_ns, u64 p, u64 count)
{
	const u32 threads = __nvvm_read_ptx_sreg_ntid_x(), blocks = __nvvm_read_ptx_sreg_nctaid_x();
	const u32 thread = __nvvm_read_ptx_sreg_tid_x(), block = __nvvm_read_ptx_sreg_ctaid_x();

	for (u64 i = (u64)block * threads + thread; i < count; i += (u64)blocks * threads) {
		u32 h = (u32)i * 2654435761u;

		h ^= h >> 15;
		h = 0x3800u | (h & 0x83ffu);
		asm volatile("st.global.u16 [%0], %1;" ::"l"(p + 2 * i), "h"((unsigned short)h));
	}
}

extern "C" GLOBAL void tenure_gemm(u64 stop, u64 duration_ns, struct turns *turns, u64 a,
				   u64 b, u64 c, u32 n, u32 bytes, u32 buffers)
{
	static SHARED u64 word;
	const u32 per_side = n / 64, warp = __nvvm_read_ptx_sreg_tid_x() / 32;
	struct turn turn = begin_turns(stop, duration_ns, turns);
	u64 tile;

	while ((tile = next_tile(&word, &turn)) != NO_TILE) {
		struct place at = place_tile(tile, per_side, per_side, buffers);

		compute_quarter(a, b, c + 4 * at.buffer * n * n, n, at.row * 64 + warp / 2 * 32,
				at.col * 64 + warp % 2 * 32);
	}
}
