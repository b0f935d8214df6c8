/* SPDX-License-Identifier: MIT */

/*
 * Device memory and pinned host memory.
 *
 * The card is charged in pages of 2 MiB; pieces below 1 MiB share pages, as on the real thing.
 * Device addresses are numbers that no host mapping has, so a program that dereferences one
 * crashes. What is written there is kept: a page is one repeated word (so that filling 130 GiB
 * costs nothing) until less than a page is written into it; then it gets real memory.
 */
#include "cuda_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ADDR_BASE   0x200000000000ULL /* below where Linux maps libraries, above a program's heap */
#define SMALL_BELOW SIM_MIB

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

CUdeviceptr cu_address(size_t size)
{
	CUdeviceptr addr;

	if (!cu.next_addr)
		cu.next_addr = ADDR_BASE;
	addr = cu.next_addr;
	cu.next_addr += round_up(size, CU_PAGE) + CU_PAGE;
	return addr;
}

static void open_on_first_allocation(int dev)
{
	int card = cu.m->devs[dev].parent >= 0 ? cu.m->devs[dev].parent : dev;
	char node[] = "nvidia00";
	int minor = cu.m->devs[card].minor;

	if (__atomic_exchange_n(&cu.allocated[dev], true, __ATOMIC_RELAXED))
		return;
	node[6] = (char)('0' + (minor >= 10 ? minor / 10 : minor));
	node[7] = (char)(minor >= 10 ? '0' + minor % 10 : '\0');
	sim_open_nodes(cu.m, "nvidiactl", 1);
	sim_open_nodes(cu.m, node, 1);
}

CUresult cu_charge(struct CUctx_st *ctx, uint64_t bytes)
{
	struct sim_machine *m = cu.m;
	struct sim_proc *p;
	uint64_t wait_ns = 0;
	int err = 0;

	open_on_first_allocation(ctx->dev);
	sim_driver_call(m, sim_cost_ns(m, SIM_T_ALLOC_CALL));
	if (sim_lock(&m->data) < 0)
		return CUDA_ERROR_UNKNOWN;
	sim_reap(m, sim_mem_free(m, ctx->dev) < bytes);
	p = sim_proc(m, getpid(), false);
	if (!p || m->devs[ctx->dev].lost)
		err = -EIO;
	else
		err = sim_mem_take(m, ctx->dev, p, bytes, &wait_ns);
	sim_unlock(&m->data);
	sim_sleep_ns(wait_ns);
	if (err == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return err ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

void cu_uncharge(struct CUctx_st *ctx, uint64_t bytes)
{
	struct sim_machine *m = cu.m;
	struct sim_proc *p;
	uint64_t ns = sim_cost_ns(m, SIM_T_FREE_CALL);

	ns += (uint64_t)((double)sim_cost_ns(m, SIM_T_FREE_PER_GIB) * (double)bytes /
			 (double)SIM_GIB);
	if (sim_lock(&m->driver) < 0)
		return;
	sim_sleep_ns(ns + m->timing[SIM_T_LOCK_SLOW]);
	if (sim_lock(&m->data) == 0) {
		p = sim_proc(m, getpid(), false);
		if (p)
			sim_mem_give(m, ctx->dev, p, bytes);
		sim_unlock(&m->data);
	}
	sim_unlock(&m->driver);
}

struct cu_block *cu_block_find(CUdeviceptr addr, size_t size)
{
	for (struct cu_block *b = cu.blocks; b; b = b->next) {
		if (addr >= b->addr && addr - b->addr < b->size &&
		    size <= b->size - (addr - b->addr))
			return b;
	}
	return NULL;
}

static struct cu_block *block_unlink(CUdeviceptr addr, bool host)
{
	for (struct cu_block **b = &cu.blocks; *b; b = &(*b)->next) {
		struct cu_block *found = *b;

		if (found->addr == addr && (found->host != NULL) == host && found->ctx) {
			*b = found->next;
			return found;
		}
	}
	return NULL;
}

void cu_pages_free(struct cu_block *b)
{
	uint64_t n = round_up(b->size, CU_PAGE) / CU_PAGE;

	for (uint64_t i = 0; b->pages && i < n; i++)
		free(b->pages[i].data);
	free(b->pages);
	b->pages = NULL;
}

static void block_free(struct cu_block *b)
{
	cu_pages_free(b);
	if (b->host)
		(void)munmap(b->host, b->size);
	free(b);
}

/* What a small piece adds to its device's shared pages. cu.lock held. */
static uint64_t small_charge(int dev, uint64_t size, bool add)
{
	uint64_t before = round_up(cu.small_bytes[dev], CU_PAGE);

	cu.small_bytes[dev] = add ? cu.small_bytes[dev] + size : cu.small_bytes[dev] - size;
	return add ? round_up(cu.small_bytes[dev], CU_PAGE) - before
		   : before - round_up(cu.small_bytes[dev], CU_PAGE);
}

CU_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t size)
{
	struct CUctx_st *ctx = cu_current();
	struct cu_block *b;
	uint64_t charge;
	CUresult res;

	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > cu.m->devs[ctx->dev].mem_total)
		return CUDA_ERROR_OUT_OF_MEMORY;
	b = calloc(1, sizeof(*b));
	if (b)
		b->pages = calloc(round_up(size, CU_PAGE) / CU_PAGE, sizeof(*b->pages));
	if (!b || !b->pages) {
		free(b);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	b->size = round_up(size, 512);
	b->is_small = size < SMALL_BELOW;
	b->ctx = ctx;
	(void)pthread_mutex_lock(&cu.lock);
	charge = b->is_small ? small_charge(ctx->dev, b->size, true) : round_up(size, CU_PAGE);
	(void)pthread_mutex_unlock(&cu.lock);
	res = charge ? cu_charge(ctx, charge) : CUDA_SUCCESS;
	(void)pthread_mutex_lock(&cu.lock);
	if (res != CUDA_SUCCESS) {
		if (b->is_small)
			(void)small_charge(ctx->dev, b->size, false);
		block_free(b);
	} else {
		b->charged = b->is_small ? 0 : charge;
		b->addr = cu_address(size);
		b->next = cu.blocks;
		cu.blocks = b;
		*ret = b->addr;
	}
	(void)pthread_mutex_unlock(&cu.lock);
	return res;
}

static void block_release(struct cu_block *b)
{
	uint64_t bytes = b->charged;

	if (b->is_small) {
		(void)pthread_mutex_lock(&cu.lock);
		bytes = small_charge(b->ctx->dev, b->size, false);
		(void)pthread_mutex_unlock(&cu.lock);
	}
	if (bytes)
		cu_uncharge(b->ctx, bytes);
	block_free(b);
}

CU_EXPORT CUresult cuMemFree_v2(CUdeviceptr addr)
{
	struct cu_block *b;

	CU_ENTER(NEEDS_CONTEXT);
	if (addr == 0)
		return CUDA_SUCCESS;
	(void)pthread_mutex_lock(&cu.lock);
	b = block_unlink(addr, false);
	(void)pthread_mutex_unlock(&cu.lock);
	if (!b)
		return CUDA_ERROR_INVALID_VALUE;
	cu_context_wait(b->ctx); /* freeing waits for the kernels that may use it */
	block_release(b);
	return CUDA_SUCCESS;
}

void cu_context_clear(struct CUctx_st *ctx)
{
	for (;;) {
		struct cu_block *b, **at;

		(void)pthread_mutex_lock(&cu.lock);
		for (at = &cu.blocks; *at && (*at)->ctx != ctx; at = &(*at)->next)
			;
		b = *at;
		if (b)
			*at = b->next;
		(void)pthread_mutex_unlock(&cu.lock);
		if (!b)
			return;
		block_release(b);
	}
}

CU_EXPORT CUresult cuMemGetInfo_v2(size_t *avail, size_t *total)
{
	struct CUctx_st *ctx = cu_current();
	struct sim_machine *m = cu.m;

	CU_ENTER(NEEDS_CONTEXT);
	if (!avail || !total)
		return CUDA_ERROR_INVALID_VALUE;
	sim_driver_call(m, 0);
	if (sim_lock(&m->data) < 0)
		return CUDA_ERROR_UNKNOWN;
	sim_reap(m, true);
	*avail = sim_mem_free(m, ctx->dev);
	*total = m->devs[ctx->dev].mem_total - m->devs[ctx->dev].mem_reserved;
	sim_unlock(&m->data);
	return CUDA_SUCCESS;
}

/* Real memory for a page that was one repeated word. */
static uint8_t *page_data(struct cu_page *page)
{
	if (page->data)
		return page->data;
	page->data = malloc(CU_PAGE);
	for (size_t i = 0; page->data && i < CU_PAGE; i += 4)
		memcpy(page->data + i, &page->word, 4);
	return page->data;
}

enum access_kind { ACCESS_FILL, ACCESS_WRITE, ACCESS_READ };

struct access {
	enum access_kind kind;
	uint32_t word; /* FILL: repeated from the start of the range */
	const uint8_t *in;
	uint8_t *out;
};

static void access_bytes(const struct access *a, uint8_t *at, size_t len, size_t done)
{
	switch (a->kind) {
	case ACCESS_WRITE:
		memcpy(at, a->in + done, len);
		break;
	case ACCESS_READ:
		memcpy(a->out + done, at, len);
		break;
	case ACCESS_FILL:
		for (size_t i = 0; i < len; i++)
			at[i] = (uint8_t)(a->word >> (8 * ((done + i) % 4)));
		break;
	}
}

/* One page of a range; off is within the page. */
static bool access_page(const struct access *a, struct cu_page *page, size_t off, size_t len,
			size_t done)
{
	if (a->kind == ACCESS_FILL && off == 0 && len == CU_PAGE) {
		free(page->data);
		page->data = NULL;
		page->word = a->word;
		return true;
	}
	if (a->kind == ACCESS_READ && !page->data) {
		for (size_t i = 0; i < len; i++)
			a->out[done + i] = (uint8_t)(page->word >> (8 * ((off + i) % 4)));
		return true;
	}
	if (!page_data(page))
		return false;
	access_bytes(a, page->data + off, len, done);
	return true;
}

static CUresult access_range(CUdeviceptr addr, size_t size, const struct access *a)
{
	struct cu_block *b;
	CUresult res = CUDA_SUCCESS;
	size_t off, done = 0;

	if (size == 0)
		return CUDA_SUCCESS;
	(void)pthread_mutex_lock(&cu.lock);
	b = cu_block_find(addr, size);
	if (!b || (!b->host && !b->pages))
		res = CUDA_ERROR_INVALID_VALUE;
	else if (b->host)
		access_bytes(a, b->host + (addr - b->addr), size, 0);
	off = b ? addr - b->addr : 0;
	while (res == CUDA_SUCCESS && !b->host && done < size) {
		size_t in_page = (off + done) % CU_PAGE;
		size_t len = CU_PAGE - in_page < size - done ? CU_PAGE - in_page : size - done;

		if (!access_page(a, &b->pages[(off + done) / CU_PAGE], in_page, len, done))
			res = CUDA_ERROR_OUT_OF_MEMORY;
		done += len;
	}
	(void)pthread_mutex_unlock(&cu.lock);
	return res;
}

static CUresult fill(CUdeviceptr addr, uint32_t word, size_t size)
{
	struct access a = { .kind = ACCESS_FILL, .word = word };

	return access_range(addr, size, &a);
}

CU_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr addr, unsigned char byte, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	return fill(addr, byte * 0x01010101u, n);
}

CU_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr addr, unsigned short word, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	return addr % 2 ? CUDA_ERROR_INVALID_VALUE : fill(addr, word * 0x00010001u, n * 2);
}

CU_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr addr, unsigned int word, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	return addr % 4 ? CUDA_ERROR_INVALID_VALUE : fill(addr, word, n * 4);
}

CU_EXPORT CUresult cuMemsetD8Async(CUdeviceptr addr, unsigned char byte, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return fill(addr, byte * 0x01010101u, n);
}

CU_EXPORT CUresult cuMemsetD32Async(CUdeviceptr addr, unsigned int word, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return addr % 4 ? CUDA_ERROR_INVALID_VALUE : fill(addr, word, n * 4);
}

static CUresult to_device(CUdeviceptr to, const void *from, size_t n)
{
	struct access a = { .kind = ACCESS_WRITE, .in = from };

	return from || !n ? access_range(to, n, &a) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult to_host(void *to, CUdeviceptr from, size_t n)
{
	struct access a = { .kind = ACCESS_READ, .out = to };

	return to || !n ? access_range(from, n, &a) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult device_to_device(CUdeviceptr to, CUdeviceptr from, size_t n)
{
	static const size_t chunk = 65536;
	uint8_t *buf = malloc(chunk);
	CUresult res = buf ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t at = 0; res == CUDA_SUCCESS && at < n; at += chunk) {
		size_t len = n - at < chunk ? n - at : chunk;

		res = to_host(buf, from + at, len);
		if (res == CUDA_SUCCESS)
			res = to_device(to + at, buf, len);
	}
	free(buf);
	return res;
}

/* A copy that is not asynchronous comes after what was launched before. */
CU_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	cu_context_wait(cu_current());
	return to_device(to, from, n);
}

CU_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	cu_context_wait(cu_current());
	return to_host(to, from, n);
}

CU_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	return device_to_device(to, from, n);
}

CU_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return to_device(to, from, n);
}

CU_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return to_host(to, from, n);
}

CU_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return device_to_device(to, from, n);
}

CU_EXPORT CUresult cuMemHostAlloc(void **ret, size_t size, unsigned int flags)
{
	struct cu_block *b;
	void *host;

	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || !size || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	b = calloc(1, sizeof(*b));
	host = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!b || host == MAP_FAILED) {
		free(b);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_driver_call(cu.m, sim_cost_ns(cu.m, SIM_T_ALLOC_CALL));
	b->host = host;
	b->addr = (CUdeviceptr)(uintptr_t)host; /* unified addressing: one address for both sides */
	b->size = size;
	b->ctx = cu_current();
	(void)pthread_mutex_lock(&cu.lock);
	b->next = cu.blocks;
	cu.blocks = b;
	(void)pthread_mutex_unlock(&cu.lock);
	*ret = host;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemAllocHost_v2(void **ret, size_t size)
{
	CU_ENTER(NEEDS_CONTEXT);
	return cuMemHostAlloc(ret, size, CU_MEMHOSTALLOC_DEVICEMAP);
}

CU_EXPORT CUresult cuMemFreeHost(void *host)
{
	struct cu_block *b;

	CU_ENTER(NEEDS_CONTEXT);
	(void)pthread_mutex_lock(&cu.lock);
	b = block_unlink((CUdeviceptr)(uintptr_t)host, true);
	(void)pthread_mutex_unlock(&cu.lock);
	if (!b)
		return CUDA_ERROR_INVALID_VALUE;
	cu_context_wait(b->ctx);
	block_free(b);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ret, void *host, unsigned int flags)
{
	struct cu_block *b;

	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || flags)
		return CUDA_ERROR_INVALID_VALUE;
	(void)pthread_mutex_lock(&cu.lock);
	b = cu_block_find((CUdeviceptr)(uintptr_t)host, 1);
	(void)pthread_mutex_unlock(&cu.lock);
	if (!b || !b->host)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUdeviceptr)(uintptr_t)host;
	return CUDA_SUCCESS;
}
