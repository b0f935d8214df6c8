/* SPDX-License-Identifier: MIT */
#ifndef TENURE_KERNELS_DEVICE_H
#define TENURE_KERNELS_DEVICE_H

/*
 * What kernels in CUDA C share: instructions that clang has no name for without the CUDA toolkit,
 * and the order in which blocks take the tiles of products.
 */

typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE static inline __attribute__((device, always_inline))
#define GLOBAL __attribute__((global))
#define SHARED __attribute__((shared))

#define NO_TILE 0xffffffffffffffffull

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

DEVICE u64 read_long(const u64 *at)
{
	u64 v;

	asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(v) : "l"(at));
	return v;
}

DEVICE void write_long(u64 *at, u64 v)
{
	asm volatile("st.volatile.global.u64 [%0], %1;" ::"l"(at), "l"(v) : "memory");
}

DEVICE u64 add_to(u64 *at, u64 n)
{
	u64 v;

	asm volatile("atom.global.add.u64 %0, [%1], %2;" : "=l"(v) : "l"(at), "l"(n) : "memory");
	return v;
}

DEVICE void all_warps_here(void)
{
	asm volatile("bar.sync 0;" ::: "memory");
}

/* What the blocks of a launch, and of the next ones, share in device memory. */
struct turns {
	u64 next;	/* number of a tile */
	u64 stopped_ns; /* a block has seen the order to stop then */
};

/*
 * So seldom the stop word is read: it is in host memory, where all blocks together can read a
 * million times a second, and would do little else.
 */
#define STOP_TURNS 32

/*
 * A launch as one of its blocks sees it. The next number is taken, and the words are read, while a
 * tile is computed, because each of that takes a microsecond: so after the order to stop, or when
 * the time is up, a block computes one tile more. What was taken is computed: the next launch goes
 * on behind it.
 */
struct turn {
	struct turns *turns;
	u64 stop; /* address of the stop word */
	u64 begin_ns, end_ns;
	u64 next, stopped_ns; /* of thread 0, as are the words: read, and not looked at yet */
	u32 stop_word;
};

DEVICE struct turn begin_turns(u64 stop, u64 duration_ns, struct turns *turns)
{
	struct turn t = { turns, stop, now_ns() };

	t.end_ns = t.begin_ns + duration_ns;
	t.next = NO_TILE;
	t.stop_word = 0;
	if (__nvvm_read_ptx_sreg_tid_x() == 0) {
		t.stopped_ns = read_long(&turns->stopped_ns);
		if (__nvvm_read_ptx_sreg_ctaid_x() == 0)
			t.stop_word = read_word(stop);
		if (t.stop_word)
			write_long(&turns->stopped_ns, now_ns());
		else if (t.stopped_ns < t.begin_ns)
			t.next = add_to(&turns->next, 1);
	}
	return t;
}

/* By thread 0: the number after the next one, or none. */
DEVICE void take_number(struct turn *t)
{
	const u64 tile = t->next;

	if (t->stop_word)
		write_long(&t->turns->stopped_ns, now_ns());
	t->next = NO_TILE;
	if (t->stop_word || t->stopped_ns >= t->begin_ns || now_ns() >= t->end_ns)
		return;
	t->next = add_to(&t->turns->next, 1);
	t->stopped_ns = read_long(&t->turns->stopped_ns);
	if (tile % STOP_TURNS == 0)
		t->stop_word = read_word(t->stop);
}

/* The number of the next tile for this block, or NO_TILE. To be called by all threads; *word is in
 * shared memory. */
DEVICE u64 next_tile(u64 *word, struct turn *t)
{
	if (__nvvm_read_ptx_sreg_tid_x() == 0)
		*word = t->next;
	all_warps_here();
	u64 tile = *word;

	if (__nvvm_read_ptx_sreg_tid_x() == 0 && tile != NO_TILE)
		take_number(t);
	all_warps_here();
	return tile;
}

/*
 * Where a tile is: in which of the buffers that products are written to in turn, and at which of
 * rows x cols places of it. Tiles that are worked on at the same time lie in a few rows, so that
 * the blocks find each other's slabs in the L2 cache.
 */
struct place {
	u64 buffer;
	u32 row, col;
};

DEVICE struct place place_tile(u64 tile, u32 rows, u32 cols, u32 buffers)
{
	const u64 product = tile / (rows * cols);
	const u32 in_product = (u32)(tile - product * (rows * cols));
	const u32 high = 8, first = in_product / (high * cols) * high;
	const u32 in_band = in_product % (high * cols);
	const u32 here = rows - first < high ? rows - first : high;

	return (struct place){ product % buffers, first + in_band % here, in_band / here };
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

/* The address of what lies in shared memory, as instructions take it. */
DEVICE u32 in_shared(const void *p)
{
	return (u32)(u64)(__attribute__((address_space(3))) const char *)p;
}

/* The launch's own part of shared memory; its size is an argument of the launch. */
extern SHARED char launch_shared[];

/* Its address as instructions take it, a multiple of align, for which the launch has left room. */
DEVICE u32 shared_address(u32 align)
{
	u32 at = in_shared(launch_shared);

	return (at + align - 1) & ~(align - 1);
}

#endif
