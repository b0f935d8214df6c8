/* SPDX-License-Identifier: MIT */

/*
 * The memory pool of each device. The card is charged in steps of 32 MiB, which is what an H100's
 * pool maps at a time. What is freed stays with the pool until somebody waits for the device; above
 * the release threshold (0 unless set) it goes back to the card then.
 */
#include "cuda_sim.h"

#define STEP (32 * SIM_MIB)

static uint64_t steps(uint64_t bytes)
{
	return (bytes + STEP - 1) / STEP * STEP;
}

uint64_t cu_pool_take(int dev, uint64_t size)
{
	struct CUmemPoolHandle_st *pool = &cu.pools[dev];
	uint64_t charge;

	pool->used += size;
	charge = pool->used > pool->reserved ? steps(pool->used - pool->reserved) : 0;
	pool->reserved += charge;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	return charge;
}

void cu_pool_undo(int dev, uint64_t size, uint64_t charge)
{
	cu.pools[dev].used -= size;
	cu.pools[dev].reserved -= charge;
}

void cu_pool_give(int dev, uint64_t size)
{
	cu.pools[dev].used -= size;
}

static void trim(struct CUctx_st *ctx, uint64_t keep)
{
	struct CUmemPoolHandle_st *pool = &cu.pools[ctx->dev];
	uint64_t bytes = 0;

	(void)pthread_mutex_lock(&cu.lock);
	keep = keep > steps(pool->used) ? keep : steps(pool->used);
	if (pool->reserved > keep)
		bytes = pool->reserved - keep;
	pool->reserved -= bytes;
	(void)pthread_mutex_unlock(&cu.lock);
	if (bytes)
		cu_uncharge(ctx, bytes);
}

void cu_pool_trim(struct CUctx_st *ctx)
{
	trim(ctx, cu.pools[ctx->dev].threshold);
}

CUmemoryPool cu_pool_of(CUdevice d)
{
	return &cu.pools[cu.visible[d]];
}

CUdevice cu_pool_device(CUmemoryPool pool)
{
	for (CUdevice d = 0; d < cu.nvisible; d++) {
		if (cu_pool_of(d) == pool)
			return d;
	}
	return -1;
}

CU_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret, CUdevice d)
{
	CU_ENTER(NEEDS_INIT);
	if (!cu_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = cu_pool_of(d);
	return CUDA_SUCCESS;
}
CU_ALIAS(cuDeviceGetMemPool, cuDeviceGetDefaultMemPool);

CU_EXPORT CUresult cuDeviceSetMemPool(CUdevice d, CUmemoryPool pool)
{
	CU_ENTER(NEEDS_INIT);
	if (!cu_device(d))
		return CUDA_ERROR_INVALID_DEVICE;
	return pool == cu_pool_of(d) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CU_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	CUdevice d = cu_pool_device(pool);

	CU_ENTER(NEEDS_INIT);
	if (d < 0 || !cu.primary[d])
		return CUDA_ERROR_INVALID_VALUE;
	trim(cu.primary[d], keep);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute id, void *ret)
{
	CU_ENTER(NEEDS_INIT);
	if (!ret || cu_pool_device(pool) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((unsigned int)id) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)ret = 1;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(uint64_t *)ret = pool->threshold;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(uint64_t *)ret = pool->reserved;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(uint64_t *)ret = pool->reserved_high;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(uint64_t *)ret = pool->used;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(uint64_t *)ret = pool->used_high;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* A high mark can only be set back, as the documentation says. */
CU_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute id, void *value)
{
	CU_ENTER(NEEDS_INIT);
	if (!value || cu_pool_device(pool) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((unsigned int)id) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = *(uint64_t *)value;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		pool->reserved_high = pool->reserved;
		return *(uint64_t *)value ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		pool->used_high = pool->used;
		return *(uint64_t *)value ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
