/* SPDX-License-Identifier: MIT */

/*
 * Device memory, managed memory and host memory that the device can reach.
 *
 * The card is charged in pages of 2 MiB; pieces below 1 MiB share pages, as on the real thing.
 * Device addresses are numbers that no host mapping has, so a program that dereferences one
 * crashes. Managed memory is the host's and charged to the card from the start, within what is free
 * there: the driver charges it when a kernel touches it, which nobody sees here, and moves it out
 * again where it does not fit.
 *
 * A pool (cuMemAllocAsync) keeps what is freed until somebody waits for the device, as the driver's
 * default one does; of pools there is that one per device.
 */
#include "cuda_sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ADDR_BASE   0x200000000000ULL /* below where Linux maps libraries, above a program's heap */
#define SMALL_BELOW SIM_MIB
#define PITCH	    512
#define MAX_PITCH   2147483647

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
	if (sim_lock(m) < 0)
		return CUDA_ERROR_UNKNOWN;
	sim_reap(m, sim_mem_free(m, ctx->dev) < bytes);
	p = sim_proc(m, getpid(), false);
	if (!p || m->devs[ctx->dev].lost)
		err = -EIO;
	else
		err = sim_mem_take(m, ctx->dev, p, bytes, &wait_ns);
	sim_unlock(m);
	sim_sleep_ns(wait_ns);
	if (err == -ENOMEM)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return err ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

void cu_uncharge(struct CUctx_st *ctx, uint64_t bytes)
{
	struct sim_machine *m = cu.m;
	struct sim_proc *p;
	uint64_t ns = sim_cost_ns(m, SIM_T_FREE_CALL), until;
	bool later;

	ns += (uint64_t)((double)sim_cost_ns(m, SIM_T_FREE_PER_GIB) * (double)bytes /
			 (double)SIM_GIB);
	if (sim_lock(m) < 0)
		return;
	until = sim_driver_take(m, ns);
	p = sim_proc(m, getpid(), false);
	later = !p || sim_mem_give_at(m, ctx->dev, p, bytes, until);
	sim_unlock(m);
	sim_sleep_until(until);
	if (later || sim_lock(m) < 0)
		return;
	p = sim_proc(m, getpid(), false);
	if (p)
		sim_mem_give(m, ctx->dev, p, bytes);
	sim_unlock(m);
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

bool cu_is_device_address(CUdeviceptr addr)
{
	return addr >= ADDR_BASE && addr < cu.next_addr;
}

/* Take the block that begins at addr out of the list; kinds is a set of bits 1 << CU_DEVICE. */
static struct cu_block *block_unlink(CUdeviceptr addr, unsigned int kinds)
{
	for (struct cu_block **b = &cu.blocks; *b; b = &(*b)->next) {
		struct cu_block *found = *b;

		if (found->addr == addr && kinds >> found->kind & 1 && found->ctx) {
			*b = found->next;
			return found;
		}
	}
	return NULL;
}

void cu_block_link(struct cu_block *b)
{
	b->id = ++cu.block_ids;
	b->next = cu.blocks;
	cu.blocks = b;
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
	if (b->shared)
		cu_ipc_unlink(b);
	if (b->host && b->kind != CU_REGISTERED)
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

static struct cu_block *block_new(struct CUctx_st *ctx, size_t size, enum cu_kind kind)
{
	struct cu_block *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->ctx = ctx;
	b->size = kind == CU_DEVICE ? round_up(size, 512) : size;
	b->kind = kind;
	if (kind == CU_DEVICE || kind == CU_POOLED)
		b->pages = calloc(round_up(size, CU_PAGE) / CU_PAGE, sizeof(*b->pages));
	else if (kind != CU_REGISTERED)
		b->host = mmap(NULL, size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if ((kind != CU_REGISTERED && !b->pages && !b->host) || b->host == MAP_FAILED) {
		free(b);
		return NULL;
	}
	b->addr = (CUdeviceptr)(uintptr_t)b->host; /* one address for both sides */
	return b;
}

/* What the card has to be charged for b. cu.lock held. */
static uint64_t block_charge(struct cu_block *b, size_t size)
{
	if (b->kind == CU_POOLED)
		return cu_pool_take(b->ctx->dev, b->size);
	if (b->is_small)
		return small_charge(b->ctx->dev, b->size, true);
	return round_up(size, CU_PAGE);
}

/* Device, pooled or managed memory. */
static CUresult allocate(CUdeviceptr *ret, size_t size, enum cu_kind kind)
{
	struct CUctx_st *ctx = cu_current();
	struct cu_block *b;
	uint64_t charge;
	CUresult res;

	if (!ret || !size)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > cu.m->devs[ctx->dev].mem_total)
		return CUDA_ERROR_OUT_OF_MEMORY;
	b = block_new(ctx, size, kind);
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	b->is_small = kind == CU_DEVICE && size < SMALL_BELOW;
	(void)pthread_mutex_lock(&cu.lock);
	charge = block_charge(b, size);
	(void)pthread_mutex_unlock(&cu.lock);
	res = charge ? cu_charge(ctx, charge) : CUDA_SUCCESS;
	(void)pthread_mutex_lock(&cu.lock);
	if (res != CUDA_SUCCESS) {
		if (kind == CU_POOLED)
			cu_pool_undo(ctx->dev, b->size, charge);
		else if (b->is_small)
			(void)small_charge(ctx->dev, b->size, false);
		block_free(b);
	} else {
		b->charged = kind == CU_POOLED || b->is_small ? 0 : charge;
		if (!b->host)
			b->addr = cu_address(size);
		cu_block_link(b);
		*ret = b->addr;
	}
	(void)pthread_mutex_unlock(&cu.lock);
	return res;
}

static void block_release(struct cu_block *b)
{
	uint64_t bytes = b->charged;

	(void)pthread_mutex_lock(&cu.lock);
	if (b->kind == CU_POOLED)
		cu_pool_give(b->ctx->dev, b->size);
	else if (b->is_small)
		bytes = small_charge(b->ctx->dev, b->size, false);
	(void)pthread_mutex_unlock(&cu.lock);
	if (bytes)
		cu_uncharge(b->ctx, bytes);
	block_free(b);
}

CU_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t size)
{
	CU_ENTER(NEEDS_CONTEXT);
	return allocate(ret, size, CU_DEVICE);
}

CU_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *ret, size_t size, unsigned int flags)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	return allocate(ret, size, CU_MANAGED);
}

/* Rows begin at multiples of 512 bytes, which is what an H100 gives. */
CU_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *ret, size_t *pitch, size_t width, size_t height,
				      unsigned int element)
{
	size_t row = round_up(width, PITCH);

	CU_ENTER(NEEDS_CONTEXT);
	if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (width > MAX_PITCH || height > SIZE_MAX / row)
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = row;
	return allocate(ret, row * height, CU_DEVICE);
}

/* The stream's order is not kept: nobody else gets the memory before the device is waited for. */
CU_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *ret, size_t size, CUstream stream)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (ret && !size) {
		*ret = 0;
		return CUDA_SUCCESS;
	}
	return allocate(ret, size, CU_POOLED);
}

CU_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ret, size_t size, CUmemoryPool pool,
					   CUstream stream)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (cu_pool_device(pool) != cu_current()->ordinal)
		return CUDA_ERROR_INVALID_VALUE;
	return cuMemAllocAsync(ret, size, stream);
}

static CUresult free_kinds(CUdeviceptr addr, unsigned int kinds, bool wait)
{
	struct cu_block *b;

	(void)pthread_mutex_lock(&cu.lock);
	b = block_unlink(addr, kinds);
	(void)pthread_mutex_unlock(&cu.lock);
	if (!b)
		return CUDA_ERROR_INVALID_VALUE;
	if (wait)
		cu_context_wait(b->ctx); /* freeing waits for the kernels that may use it */
	block_release(b);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemFree_v2(CUdeviceptr addr)
{
	CU_ENTER(NEEDS_CONTEXT);
	if (addr == 0)
		return CUDA_SUCCESS;
	return free_kinds(addr, 1 << CU_DEVICE | 1 << CU_POOLED | 1 << CU_MANAGED, true);
}

CU_EXPORT CUresult cuMemFreeAsync(CUdeviceptr addr, CUstream stream)
{
	CU_ENTER(NEEDS_CONTEXT);
	return addr ? free_kinds(addr, 1 << CU_DEVICE | 1 << CU_POOLED, false) : CUDA_SUCCESS;
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
	if (sim_lock(m) < 0)
		return CUDA_ERROR_UNKNOWN;
	sim_reap(m, true);
	*avail = sim_mem_free(m, ctx->dev);
	*total = m->devs[ctx->dev].mem_total - m->devs[ctx->dev].mem_reserved;
	sim_unlock(m);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemHostAlloc(void **ret, size_t size, unsigned int flags)
{
	struct cu_block *b;

	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || !size || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > cu.m->timing[SIM_T_PINNED_BYTES])
		return CUDA_ERROR_OUT_OF_MEMORY;
	b = block_new(cu_current(), size, CU_PINNED);
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_driver_call(cu.m, sim_cost_ns(cu.m, SIM_T_ALLOC_CALL));
	b->flags = flags;
	(void)pthread_mutex_lock(&cu.lock);
	cu_block_link(b);
	(void)pthread_mutex_unlock(&cu.lock);
	*ret = b->host;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemAllocHost_v2(void **ret, size_t size)
{
	CU_ENTER(NEEDS_CONTEXT);
	return cuMemHostAlloc(ret, size, CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult cu_block_close(CUdeviceptr addr)
{
	return free_kinds(addr, 1 << CU_OPENED, true);
}

CU_EXPORT CUresult cuMemFreeHost(void *host)
{
	CU_ENTER(NEEDS_CONTEXT);
	return free_kinds((CUdeviceptr)(uintptr_t)host, 1 << CU_PINNED, true);
}

CU_EXPORT CUresult cuMemHostRegister_v2(void *host, size_t size, unsigned int flags)
{
	struct cu_block *b, *there;

	CU_ENTER(NEEDS_CONTEXT);
	if (!host || !size || flags > 15)
		return CUDA_ERROR_INVALID_VALUE;
	b = block_new(cu_current(), size, CU_REGISTERED);
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	b->host = host;
	b->addr = (CUdeviceptr)(uintptr_t)host;
	b->flags = flags;
	(void)pthread_mutex_lock(&cu.lock);
	there = cu_block_find(b->addr, 1);
	if (there)
		free(b);
	else
		cu_block_link(b);
	(void)pthread_mutex_unlock(&cu.lock);
	return there ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemHostUnregister(void *host)
{
	CUresult res;

	CU_ENTER(NEEDS_CONTEXT);
	res = free_kinds((CUdeviceptr)(uintptr_t)host, 1 << CU_REGISTERED, true);
	return res == CUDA_SUCCESS ? res : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

/* The host memory at an address; NULL: it is none that the device can reach. cu.lock held. */
static struct cu_block *host_block(const void *host)
{
	struct cu_block *b = cu_block_find((CUdeviceptr)(uintptr_t)host, 1);

	return b && b->host ? b : NULL;
}

CU_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ret, void *host, unsigned int flags)
{
	bool known;

	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || flags)
		return CUDA_ERROR_INVALID_VALUE;
	(void)pthread_mutex_lock(&cu.lock);
	known = host_block(host) != NULL;
	(void)pthread_mutex_unlock(&cu.lock);
	if (!known)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUdeviceptr)(uintptr_t)host;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *host)
{
	struct cu_block *b;

	CU_ENTER(NEEDS_CONTEXT);
	(void)pthread_mutex_lock(&cu.lock);
	b = host_block(host);
	if (b && flags)
		*flags = b->flags;
	(void)pthread_mutex_unlock(&cu.lock);
	return b && flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CU_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *size, CUdeviceptr addr)
{
	struct cu_block *b;

	CU_ENTER(NEEDS_CONTEXT);
	(void)pthread_mutex_lock(&cu.lock);
	b = cu_block_find(addr, 1);
	if (b && start)
		*start = b->addr;
	if (b && size)
		*size = b->size;
	(void)pthread_mutex_unlock(&cu.lock);
	return b ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* Where memory is: managed and pinned memory has the one address on both sides. cu.lock held. */
static CUresult pointer_attribute(const struct cu_block *b, CUpointer_attribute id,
				  CUdeviceptr addr, void *ret)
{
	const bool on_host = b->kind == CU_PINNED || b->kind == CU_REGISTERED;
	const struct CUctx_st *of = b->ctx ? b->ctx : cu_current();
	const uint64_t all_access = 3;

	switch ((unsigned int)id) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(const struct CUctx_st **)ret = b->kind == CU_POOLED ? NULL : of;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)ret = on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)ret = addr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!b->host)
			return CUDA_ERROR_INVALID_VALUE;
		*(CUdeviceptr *)ret = addr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(uint64_t *)ret = b->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(int *)ret = b->kind == CU_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)ret = of ? of->ordinal : 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(int *)ret = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)ret = b->addr;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)ret = b->size;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(int *)ret = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(uint64_t *)ret = 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		memcpy(ret, &all_access, sizeof(unsigned int));
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)ret = b->kind == CU_POOLED ? cu_pool_of(of->ordinal) : NULL;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CU_EXPORT CUresult cuPointerGetAttribute(void *ret, CUpointer_attribute id, CUdeviceptr addr)
{
	CUresult res = CUDA_ERROR_INVALID_VALUE;
	struct cu_block *b;

	CU_ENTER(NEEDS_INIT);
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	(void)pthread_mutex_lock(&cu.lock);
	b = cu_block_find(addr, 1);
	if (b)
		res = pointer_attribute(b, id, addr, ret);
	(void)pthread_mutex_unlock(&cu.lock);
	return res;
}

static size_t attribute_size(CUpointer_attribute id)
{
	switch ((unsigned int)id) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return sizeof(int);
	default:
		return sizeof(uint64_t);
	}
}

/* No error for what an address does not have: its place gets nothing, or zero if it is unknown. */
CU_EXPORT CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *ids, void **rets,
					  CUdeviceptr addr)
{
	struct cu_block *b;

	CU_ENTER(NEEDS_INIT);
	if (!n || !ids || !rets)
		return CUDA_ERROR_INVALID_VALUE;
	(void)pthread_mutex_lock(&cu.lock);
	b = cu_block_find(addr, 1);
	for (unsigned int i = 0; i < n; i++) {
		if (!b || pointer_attribute(b, ids[i], addr, rets[i]) != CUDA_SUCCESS)
			memset(rets[i], 0, attribute_size(ids[i]));
	}
	(void)pthread_mutex_unlock(&cu.lock);
	return CUDA_SUCCESS;
}
