/* SPDX-License-Identifier: MIT */

/*
 * Memory of one process that another one opens: from then on it is a file of the machine, mapped in
 * both. As on the real thing what is open stays where it is when its owner frees it or dies, and
 * the device of the owner need not be visible to who opens it. It is not charged to him.
 */
#include "cuda_sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC 0x7465697063UL

struct handle {
	uint64_t magic, id, size;
	int32_t pid, dev;
};
_Static_assert(sizeof(struct handle) <= CU_IPC_HANDLE_SIZE, "a handle has room for it");

static void path_of(char *path, size_t size, int32_t pid, uint64_t id)
{
	(void)snprintf(path, size, "%s/ipc.%d.%llu", cu.m->dir, (int)pid, (unsigned long long)id);
}

void cu_ipc_unlink(const struct cu_block *b)
{
	char path[320];

	path_of(path, sizeof(path), getpid(), b->id);
	(void)unlink(path);
}

/* NULL: there is no such file. */
static uint8_t *map_file(const char *path, size_t size, bool create)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
	void *map = MAP_FAILED;

	if (fd >= 0 && (!create || ftruncate(fd, (off_t)size) == 0))
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		(void)close(fd);
	return map == MAP_FAILED ? NULL : map;
}

/* What its pages have moves to the file. cu.lock held. */
static bool share(struct cu_block *b)
{
	char path[320];
	uint8_t *map;

	path_of(path, sizeof(path), getpid(), b->id);
	map = map_file(path, b->size, true);
	for (size_t at = 0; map && at < b->size; at += CU_PAGE) {
		const struct cu_page *page = &b->pages[at / CU_PAGE];
		const size_t len = b->size - at < CU_PAGE ? b->size - at : CU_PAGE;

		if (page->data)
			memcpy(map + at, page->data, len);
		for (size_t i = 0; !page->data && page->word && i + 4 <= len; i += 4)
			memcpy(map + at + i, &page->word, 4);
	}
	if (!map)
		return false;
	cu_pages_free(b);
	b->host = map;
	b->shared = true;
	return true;
}

CU_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *ret, CUdeviceptr addr)
{
	struct handle h = { .magic = MAGIC, .pid = getpid() };
	CUresult res = CUDA_ERROR_INVALID_VALUE;
	struct cu_block *b;

	CU_ENTER(NEEDS_CONTEXT);
	h.dev = cu_current()->dev;
	if (cu.m->devs[h.dev].parent >= 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	(void)pthread_mutex_lock(&cu.lock);
	b = cu_block_find(addr, 1);
	if (ret && b && b->kind == CU_DEVICE && b->ctx && b->size <= cu.m->timing[SIM_T_IPC_BYTES])
		res = b->shared || share(b) ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
	if (res == CUDA_SUCCESS) {
		h.id = b->id;
		h.size = b->size;
		memset(ret, 0, sizeof(*ret));
		memcpy(ret, &h, sizeof(h));
	}
	(void)pthread_mutex_unlock(&cu.lock);
	return res;
}

static bool reaches(const struct CUctx_st *ctx, int dev)
{
	return ctx->dev == dev || cu.m->devs[ctx->dev].nvlink >> dev & 1;
}

CU_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ret, CUipcMemHandle handle,
					 unsigned int flags)
{
	struct CUctx_st *ctx = cu_current();
	struct cu_block *b;
	struct handle h;
	char path[320];

	CU_ENTER(NEEDS_CONTEXT);
	memcpy(&h, &handle, sizeof(h));
	if (!ret || h.magic != MAGIC || h.dev < 0 || h.dev >= cu.m->ndevs ||
	    flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	if (h.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!reaches(ctx, h.dev))
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	b = calloc(1, sizeof(*b));
	path_of(path, sizeof(path), h.pid, h.id);
	if (b)
		b->host = map_file(path, h.size, false);
	if (!b || !b->host) {
		free(b);
		return CUDA_ERROR_INVALID_VALUE;
	}
	b->kind = CU_OPENED;
	b->ctx = ctx;
	b->size = h.size;
	b->far_dev = h.dev;
	(void)pthread_mutex_lock(&cu.lock);
	b->addr = cu_address(b->size);
	cu_block_link(b);
	(void)pthread_mutex_unlock(&cu.lock);
	*ret = b->addr;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr addr)
{
	CU_ENTER(NEEDS_CONTEXT);
	return cu_block_close(addr);
}
