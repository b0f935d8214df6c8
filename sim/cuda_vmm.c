/* SPDX-License-Identifier: MIT */

/*
 * Virtual memory management: addresses, physical pieces and mappings are three things. A piece
 * stays charged to the card until it is released *and* mapped nowhere, as on the real thing. A
 * mapping is a cu_block without a context, so that copies and fills work on it and cuMemFree()
 * refuses it.
 */
#include "cuda_sim.h"

#include <stdlib.h>

struct piece {
	struct piece *next;
	uint64_t size;
	int mappings;
	bool released;
	struct CUctx_st *ctx; /* whose device it is charged to */
	struct cu_page *pages;
};

struct range {
	struct range *next;
	CUdeviceptr addr;
	size_t size;
};

struct mapping {
	struct mapping *next;
	struct piece *piece;
	struct cu_block *block;
	size_t size;
};

/* Guarded by cu.lock. */
static struct piece *pieces;
static struct range *ranges;
static struct mapping *mappings;

static bool prop_valid(const CUmemAllocationProp *prop)
{
	return prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && prop->location.id >= 0 &&
	       prop->location.id < cu.nvisible;
}

CU_EXPORT CUresult cuMemGetAllocationGranularity(size_t *ret, const CUmemAllocationProp *prop,
						 CUmemAllocationGranularity_flags option)
{
	CU_ENTER(NEEDS_INIT);
	if (!ret || !prop_valid(prop))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = CU_PAGE;
	return CUDA_SUCCESS;
}

static struct CUctx_st *context_on(int dev)
{
	struct CUctx_st *c;

	(void)pthread_mutex_lock(&cu.lock);
	for (c = cu.contexts; c && c->dev != dev; c = c->next)
		;
	(void)pthread_mutex_unlock(&cu.lock);
	return c;
}

CU_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *ret, size_t size,
			       const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct piece *p;
	CUresult res;

	CU_ENTER(NEEDS_CONTEXT);
	if (!ret || !size || size % CU_PAGE || !prop_valid(prop) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_NOT_SUPPORTED;
	p = calloc(1, sizeof(*p));
	if (p)
		p->pages = calloc(size / CU_PAGE, sizeof(*p->pages));
	if (!p || !p->pages) {
		free(p);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	p->size = size;
	p->ctx = context_on(cu.visible[prop->location.id]);
	res = p->ctx ? cu_charge(p->ctx, size) : CUDA_ERROR_INVALID_CONTEXT;
	if (res != CUDA_SUCCESS) {
		free(p->pages);
		free(p);
		return res;
	}
	(void)pthread_mutex_lock(&cu.lock);
	p->next = pieces;
	pieces = p;
	(void)pthread_mutex_unlock(&cu.lock);
	*ret = (CUmemGenericAllocationHandle)(uintptr_t)p;
	return CUDA_SUCCESS;
}

static struct piece *piece_find(CUmemGenericAllocationHandle handle)
{
	for (struct piece *p = pieces; p; p = p->next) {
		if ((uintptr_t)p == handle && !p->released)
			return p;
	}
	return NULL;
}

/* Take p off the list if nothing needs it any more. cu.lock held; true: the caller frees it. */
static bool piece_unused(struct piece *p)
{
	if (!p->released || p->mappings)
		return false;
	for (struct piece **at = &pieces; *at; at = &(*at)->next) {
		if (*at == p) {
			*at = p->next;
			return true;
		}
	}
	return false;
}

static void piece_free(struct piece *p)
{
	struct cu_block pages = { .size = p->size, .pages = p->pages };

	cu_uncharge(p->ctx, p->size);
	cu_pages_free(&pages);
	free(p);
}

CU_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct piece *p;
	bool unused = false;

	CU_ENTER(NEEDS_INIT);
	(void)pthread_mutex_lock(&cu.lock);
	p = piece_find(handle);
	if (p) {
		p->released = true;
		unused = piece_unused(p);
	}
	(void)pthread_mutex_unlock(&cu.lock);
	if (unused)
		piece_free(p);
	return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CU_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ret, size_t size, size_t alignment,
				       CUdeviceptr hint, unsigned long long flags)
{
	struct range *r;

	CU_ENTER(NEEDS_INIT);
	if (!ret || !size || size % CU_PAGE || flags || alignment > CU_PAGE)
		return CUDA_ERROR_INVALID_VALUE;
	r = calloc(1, sizeof(*r));
	if (!r)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(void)pthread_mutex_lock(&cu.lock);
	r->addr = cu_address(size);
	r->size = size;
	r->next = ranges;
	ranges = r;
	*ret = r->addr;
	(void)pthread_mutex_unlock(&cu.lock);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemAddressFree(CUdeviceptr addr, size_t size)
{
	struct range *found = NULL;

	CU_ENTER(NEEDS_INIT);
	(void)pthread_mutex_lock(&cu.lock);
	for (struct range **at = &ranges; *at; at = &(*at)->next) {
		if ((*at)->addr == addr && (*at)->size == size) {
			found = *at;
			*at = found->next;
			break;
		}
	}
	(void)pthread_mutex_unlock(&cu.lock);
	free(found);
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool in_range(CUdeviceptr addr, size_t size)
{
	for (struct range *r = ranges; r; r = r->next) {
		if (addr >= r->addr && addr + size <= r->addr + r->size)
			return true;
	}
	return false;
}

static CUresult map_locked(CUdeviceptr addr, size_t size, size_t offset, struct piece *p)
{
	struct mapping *map;
	struct cu_block *b;

	if (!p || !in_range(addr, size) || offset + size > p->size)
		return CUDA_ERROR_INVALID_VALUE;
	if (cu_block_find(addr, 1))
		return CUDA_ERROR_ALREADY_MAPPED;
	map = calloc(1, sizeof(*map));
	b = calloc(1, sizeof(*b));
	if (!map || !b) {
		free(map);
		free(b);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	b->addr = addr;
	b->size = size;
	map->piece = p;
	map->block = b;
	map->size = size;
	p->mappings++;
	b->pages = NULL; /* until cuMemSetAccess() */
	b->next = cu.blocks;
	cu.blocks = b;
	map->next = mappings;
	mappings = map;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemMap(CUdeviceptr addr, size_t size, size_t offset,
			    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult res;

	CU_ENTER(NEEDS_INIT);
	if (!size || size % CU_PAGE || offset || flags)
		return offset ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	(void)pthread_mutex_lock(&cu.lock);
	res = map_locked(addr, size, offset, piece_find(handle));
	(void)pthread_mutex_unlock(&cu.lock);
	return res;
}

static struct mapping *mapping_unlink(CUdeviceptr addr, size_t size)
{
	for (struct mapping **at = &mappings; *at; at = &(*at)->next) {
		struct mapping *map = *at;

		if (map->block->addr == addr && map->size == size) {
			*at = map->next;
			for (struct cu_block **b = &cu.blocks; *b; b = &(*b)->next) {
				if (*b == map->block) {
					*b = map->block->next;
					break;
				}
			}
			return map;
		}
	}
	return NULL;
}

CU_EXPORT CUresult cuMemUnmap(CUdeviceptr addr, size_t size)
{
	struct mapping *map;
	bool unused = false;

	CU_ENTER(NEEDS_INIT);
	(void)pthread_mutex_lock(&cu.lock);
	map = mapping_unlink(addr, size);
	if (map) {
		map->piece->mappings--;
		unused = piece_unused(map->piece);
	}
	(void)pthread_mutex_unlock(&cu.lock);
	if (!map)
		return CUDA_ERROR_INVALID_VALUE;
	if (unused)
		piece_free(map->piece);
	free(map->block);
	free(map);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemSetAccess(CUdeviceptr addr, size_t size, const CUmemAccessDesc *desc,
				  size_t count)
{
	size_t covered = 0;

	CU_ENTER(NEEDS_INIT);
	if (!desc || count != 1)
		return CUDA_ERROR_INVALID_VALUE;
	(void)pthread_mutex_lock(&cu.lock);
	for (struct mapping *map = mappings; map; map = map->next) {
		if (map->block->addr < addr || map->block->addr + map->size > addr + size)
			continue;
		map->block->pages =
			desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? NULL : map->piece->pages;
		covered += map->size;
	}
	(void)pthread_mutex_unlock(&cu.lock);
	return covered == size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
