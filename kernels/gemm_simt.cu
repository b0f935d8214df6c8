/* SPDX-License-Identifier: MIT */
/*
 * tenure_gemm_f32 and tenure_gemm_f64: the product of gemm.cu (read that first) in the same slices,
 * without tensor cores, for matrices in single and in double precision. Products in double precision
 * are left folded (double.h).
 *
 * A block is 256 threads and takes square tiles, of which each thread computes 8 x 8 elements in
 * single or 4 x 4 in double precision, a quarter of them in each quarter of the tile. It goes along the rows of A and B in slabs of
 * 64 bytes, which lie in shared memory by columns; the next one is on its way to registers meanwhile.
 * n is a multiple of the tile's side. Needs compute capability 7.0.
 */
#include "double.h"

#define THREADS 256
#define CHUNKS	4 /* of 16 bytes: the part of a row that is in a slab */

template <typename T> struct shape {
	static const u32 chunk = 16 / sizeof(T);   /* elements */
	static const u32 depth = CHUNKS * chunk;   /* of a slab, in elements */
	static const u32 side = 2 * 16 * chunk;	   /* of a tile: 16 x 16 threads, each twice */
	static const u32 loads = side / (THREADS / CHUNKS); /* chunks of a thread, of A and of B */
	/* One row more than a chunk apart: few of those that are written together share a bank. */
	static const u32 pitch = (side + chunk) * sizeof(T);
	struct __attribute__((aligned(16))) slab {
		T a[depth][side + chunk], b[depth][side + chunk];
	};
};

template <typename T> struct fetched {
	T a[shape<T>::loads][shape<T>::chunk], b[shape<T>::loads][shape<T>::chunk];
};

/* clang would take the elements of a chunk one by one. */
DEVICE void load_shared(float *v, u32 at)
{
	asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
		     : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
		     : "r"(at)
		     : "memory");
}

DEVICE void load_shared(double *v, u32 at)
{
	asm volatile("ld.shared.v2.f64 {%0,%1}, [%2];" : "=d"(v[0]), "=d"(v[1]) : "r"(at) : "memory");
}

DEVICE void load_global(float *v, u64 at)
{
	asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];"
		     : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
		     : "l"(at)
		     : "memory");
}

DEVICE void load_global(double *v, u64 at)
{
	asm volatile("ld.global.v2.f64 {%0,%1}, [%2];" : "=d"(v[0]), "=d"(v[1]) : "l"(at) : "memory");
}

template <typename T> DEVICE void fetch(struct fetched<T> *f, u64 a, u64 b, u32 pitch, u32 thread)
{
#pragma unroll
	for (u32 i = 0; i < shape<T>::loads; i++) {
		const u64 row = thread / CHUNKS + i * (THREADS / CHUNKS);
		const u64 at = row * pitch + thread % CHUNKS * 16;

		load_global(f->a[i], a + at);
		load_global(f->b[i], b + at);
	}
}

template <typename T>
DEVICE void put(typename shape<T>::slab *slab, const struct fetched<T> *f, u32 thread)
{
#pragma unroll
	for (u32 i = 0; i < shape<T>::loads; i++) {
		const u32 row = thread / CHUNKS + i * (THREADS / CHUNKS);
		const u32 k = thread % CHUNKS * shape<T>::chunk;

#pragma unroll
		for (u32 e = 0; e < shape<T>::chunk; e++) {
			slab->a[k + e][row] = f->a[i][e];
			slab->b[k + e][row] = f->b[i][e];
		}
	}
}

/* What a thread computes: rows from y and from y + side / 2 on, columns from x likewise. */
template <typename T> struct sums {
	T of[2 * shape<T>::chunk][2 * shape<T>::chunk];
};

template <typename T>
DEVICE void multiply(struct sums<T> *d, const typename shape<T>::slab *slab, u32 y, u32 x)
{
	const u32 chunk = shape<T>::chunk, half = shape<T>::side / 2 * sizeof(T);
	const u32 a_at = in_shared(&slab->a[0][y]), b_at = in_shared(&slab->b[0][x]);

#pragma unroll
	for (u32 k = 0; k < shape<T>::depth; k++) {
		T a[2][shape<T>::chunk], b[2][shape<T>::chunk];

#pragma unroll
		for (u32 i = 0; i < 2; i++) {
			load_shared(a[i], a_at + k * shape<T>::pitch + i * half);
			load_shared(b[i], b_at + k * shape<T>::pitch + i * half);
		}
#pragma unroll
		for (u32 i = 0; i < 2 * chunk; i++)
#pragma unroll
			for (u32 j = 0; j < 2 * chunk; j++)
				d->of[i][j] += a[i / chunk][i % chunk] * b[j / chunk][j % chunk];
	}
}

DEVICE void store_chunk(u64 at, const float *v)
{
	asm volatile("st.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(at), "f"(v[0]), "f"(v[1]),
		     "f"(v[2]), "f"(v[3])
		     : "memory");
}

DEVICE void store_chunk(u64 at, const double *v)
{
	asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(at), "r"(fold(v[0])), "r"(fold(v[1]))
		     : "memory");
}

template <typename T> DEVICE void store(u64 c, u32 n, const struct sums<T> *d, u32 y, u32 x)
{
	const u32 chunk = shape<T>::chunk, half = shape<T>::side / 2;

#pragma unroll
	for (u32 i = 0; i < 2 * chunk; i++) {
		const u64 row = y + i / chunk * half + i % chunk;

		store_chunk(c + 4 * (row * n + x), &d->of[i][0]);
		store_chunk(c + 4 * (row * n + x + half), &d->of[i][chunk]);
	}
}

template <typename T>
DEVICE void compute_tile(typename shape<T>::slab slabs[2], u64 a, u64 b, u64 c, u32 n, u32 thread)
{
	const u32 lane = thread % 32, warp = thread / 32, pitch = n * sizeof(T);
	const u32 y = (warp / 4 * 8 + lane / 4) * shape<T>::chunk;
	const u32 x = (warp % 4 * 4 + lane % 4) * shape<T>::chunk;
	struct fetched<T> next;
	struct sums<T> d = {};

	fetch<T>(&next, a, b, pitch, thread);
	put<T>(&slabs[0], &next, thread);
	all_warps_here();
	for (u32 at = 0, now = 0; at < pitch; at += 16 * CHUNKS, now ^= 1) {
		const bool last = at + 16 * CHUNKS >= pitch;

		if (!last)
			fetch<T>(&next, a + at + 16 * CHUNKS, b + at + 16 * CHUNKS, pitch, thread);
		multiply<T>(&d, &slabs[now], y, x);
		if (!last)
			put<T>(&slabs[now ^ 1], &next, thread);
		all_warps_here();
	}
	store<T>(c, n, &d, y, x);
}

template <typename T>
DEVICE void compute_tiles(u64 stop, u64 duration_ns, struct turns *turns, u64 a, u64 b, u64 c,
			  u32 n, u32 buffers)
{
	static SHARED typename shape<T>::slab slabs[2];
	static SHARED u64 word;
	const u32 side = shape<T>::side, per_side = n / side;
	struct turn turn = begin_turns(stop, duration_ns, turns);
	u64 tile;

	while ((tile = next_tile(&word, &turn)) != NO_TILE) {
		struct place at = place_tile(tile, per_side, per_side, buffers);
		u64 first = (at.buffer * n + at.row * side) * n + at.col * side;

		compute_tile<T>(slabs, a + (u64)at.row * side * n * sizeof(T),
				b + (u64)at.col * side * n * sizeof(T), c + 4 * first, n,
				__nvvm_read_ptx_sreg_tid_x());
	}
}

extern "C" GLOBAL __attribute__((launch_bounds(THREADS, 2))) void
tenure_gemm_f32(u64 stop, u64 duration_ns, struct turns *turns, u64 a, u64 b, u64 c, u32 n,
		u32 bytes, u32 buffers)
{
	compute_tiles<float>(stop, duration_ns, turns, a, b, c, n, buffers);
}

extern "C" GLOBAL __attribute__((launch_bounds(THREADS, 2))) void
tenure_gemm_f64(u64 stop, u64 duration_ns, struct turns *turns, u64 a, u64 b, u64 c, u32 n,
		u32 bytes, u32 buffers)
{
	compute_tiles<double>(stop, duration_ns, turns, a, b, c, n, buffers);
}
