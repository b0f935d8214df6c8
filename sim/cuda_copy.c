/* SPDX-License-Identifier: MIT */

/*
 * Fills and copies. What is written into device memory is kept: a page is one repeated word, so
 * that filling 130 GiB costs nothing, until less than a page is written into it; then it gets real
 * memory. Nothing is asynchronous here: a copy has been done when its call returns, and the calls
 * that are not asynchronous in CUDA wait for what was launched before, too. Asynchronous copies
 * over PCIe keep their stream busy for as long as they would take.
 */
#include "cuda_sim.h"

#include <stdlib.h>
#include <string.h>

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

/* len bytes of a page that is one repeated word, from off on. */
static void read_word(uint8_t *out, uint32_t word, size_t off, size_t len)
{
	size_t i = 0;

	for (; off % 4 == 0 && i + 4 <= len; i += 4)
		memcpy(out + i, &word, 4);
	for (; i < len; i++)
		out[i] = (uint8_t)(word >> (8 * ((off + i) % 4)));
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
		read_word(a->out + done, page->word, off, len);
		return true;
	}
	if (!page_data(page))
		return false;
	access_bytes(a, page->data + off, len, done);
	return true;
}

/* Pinned and managed memory is the host's own; of any other address the caller is believed. */
static uint8_t *host_side(CUdeviceptr addr, size_t size, struct cu_block **ret)
{
	*ret = cu_block_find(addr, size);
	if (*ret)
		return (*ret)->host ? (*ret)->host + (addr - (*ret)->addr) : NULL;
	return cu_is_device_address(addr) ? NULL : (uint8_t *)(uintptr_t)addr;
}

static CUresult access_range(CUdeviceptr addr, size_t size, const struct access *a)
{
	CUresult res = CUDA_SUCCESS;
	struct cu_block *b;
	size_t off, done = 0;
	uint8_t *host;

	if (size == 0)
		return CUDA_SUCCESS;
	(void)pthread_mutex_lock(&cu.lock);
	host = host_side(addr, size, &b);
	if (host)
		access_bytes(a, host, size, 0);
	else if (!b || !b->pages)
		res = CUDA_ERROR_INVALID_VALUE;
	off = b ? addr - b->addr : 0;
	while (res == CUDA_SUCCESS && !host && done < size) {
		size_t in_page = (off + done) % CU_PAGE;
		size_t len = CU_PAGE - in_page < size - done ? CU_PAGE - in_page : size - done;

		if (!access_page(a, &b->pages[(off + done) / CU_PAGE], in_page, len, done))
			res = CUDA_ERROR_OUT_OF_MEMORY;
		done += len;
	}
	(void)pthread_mutex_unlock(&cu.lock);
	return res;
}

CUresult cu_write(CUdeviceptr to, const void *from, size_t n)
{
	struct access a = { .kind = ACCESS_WRITE, .in = from };

	return from || !n ? access_range(to, n, &a) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cu_read(void *to, CUdeviceptr from, size_t n)
{
	struct access a = { .kind = ACCESS_READ, .out = to };

	return to || !n ? access_range(from, n, &a) : CUDA_ERROR_INVALID_VALUE;
}

/* Both may lie on either side; what overlaps has no defined result, as in CUDA. */
static CUresult copy_range(CUdeviceptr to, CUdeviceptr from, size_t n)
{
	static const size_t chunk = 65536;
	uint8_t *buf = malloc(chunk);
	CUresult res = buf ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t at = 0; res == CUDA_SUCCESS && at < n; at += chunk) {
		size_t len = n - at < chunk ? n - at : chunk;

		res = cu_read(buf, from + at, len);
		if (res == CUDA_SUCCESS)
			res = cu_write(to + at, buf, len);
	}
	free(buf);
	return res;
}

/* height rows of width bytes, pitch apart. */
static CUresult fill_rows(CUdeviceptr addr, size_t pitch, uint32_t word, size_t width,
			  size_t height)
{
	struct access a = { .kind = ACCESS_FILL, .word = word };
	CUresult res = CUDA_SUCCESS;

	if (height > 1 && pitch < width)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t row = 0; res == CUDA_SUCCESS && row < height; row++)
		res = access_range(addr + row * pitch, width, &a);
	return res;
}

CUresult cu_fill(CUdeviceptr addr, uint32_t word, size_t size)
{
	return fill_rows(addr, size, word, size, 1);
}

#define ALIGNED(addr, unit) ((addr) % (unit) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS)

CU_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr addr, unsigned char byte, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	return cu_fill(addr, byte * 0x01010101u, n);
}

CU_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr addr, unsigned short word, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	return ALIGNED(addr, 2) ?: cu_fill(addr, word * 0x00010001u, n * 2);
}

CU_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr addr, unsigned int word, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	return ALIGNED(addr, 4) ?: cu_fill(addr, word, n * 4);
}

CU_EXPORT CUresult cuMemsetD8Async(CUdeviceptr addr, unsigned char byte, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return cu_fill(addr, byte * 0x01010101u, n);
}

CU_EXPORT CUresult cuMemsetD16Async(CUdeviceptr addr, unsigned short word, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return ALIGNED(addr, 2) ?: cu_fill(addr, word * 0x00010001u, n * 2);
}

CU_EXPORT CUresult cuMemsetD32Async(CUdeviceptr addr, unsigned int word, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return ALIGNED(addr, 4) ?: cu_fill(addr, word, n * 4);
}

CU_EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr addr, size_t pitch, unsigned char byte, size_t width,
				   size_t height)
{
	CU_ENTER(NEEDS_CONTEXT);
	return fill_rows(addr, pitch, byte * 0x01010101u, width, height);
}

CU_EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr addr, size_t pitch, unsigned short word,
				    size_t width, size_t height)
{
	CU_ENTER(NEEDS_CONTEXT);
	return ALIGNED(addr, 2) ?: fill_rows(addr, pitch, word * 0x00010001u, width * 2, height);
}

CU_EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr addr, size_t pitch, unsigned int word, size_t width,
				    size_t height)
{
	CU_ENTER(NEEDS_CONTEXT);
	return ALIGNED(addr, 4) ?: fill_rows(addr, pitch, word, width * 4, height);
}

/* A copy that is not asynchronous comes after what was launched before. */
CU_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	cu_context_wait(cu_current());
	return cu_write(to, from, n);
}

CU_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	cu_context_wait(cu_current());
	return cu_read(to, from, n);
}

CU_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	return copy_range(to, from, n);
}

CU_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	cu_context_wait(cu_current());
	return copy_range(to, from, n);
}

#define SPOILT_APART 4096 /* bytes between words of a copy that go wrong; counters are smaller */

/* The first words of a copy that goes wrong. */
static CUresult spoil(CUdeviceptr to, size_t n, uint32_t words)
{
	CUresult res = CUDA_SUCCESS;
	uint32_t word = 0;

	for (size_t at = 0; n > SPOILT_APART && at + 4 <= n && words-- > 0; at += SPOILT_APART) {
		res = cu_read(&word, to + at, 4);
		word ^= 1U << 20;
		res = res ?: cu_write(to + at, &word, 4);
	}
	return res;
}

static CUresult over_pcie(CUstream s, size_t n)
{
	const struct sim_dev *d = &cu.m->devs[cu_current()->dev];

	return cu_stream_busy(s, (uint64_t)((double)n / sim_pcie_rate(d) * 1e9));
}

CU_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return cu_write(to, from, n)
		       ?: spoil(to, n, cu.m->devs[cu_current()->dev].health.copies_in_wrong)
		       ?: over_pcie(s, n);
}

CU_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
	const struct sim_health *h;

	CU_ENTER(NEEDS_CONTEXT);
	h = &cu.m->devs[cu_current()->dev].health;
	return cu_read(to, from, n)
		       ?: spoil((CUdeviceptr)(uintptr_t)to, n, h->copies_out_wrong)
		       ?: over_pcie(s, n);
}

CU_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return copy_range(to, from, n);
}

enum side { SIDE_HOST, SIDE_OWN, SIDE_FAR };

static enum side side_of(CUdeviceptr addr)
{
	enum side side = SIDE_HOST;
	const struct cu_block *b;

	(void)pthread_mutex_lock(&cu.lock);
	b = cu_block_find(addr, 1);
	if (b && b->kind == CU_OPENED && b->far_dev != cu_current()->dev)
		side = SIDE_FAR;
	else if (b && b->kind != CU_PINNED && b->kind != CU_REGISTERED)
		side = SIDE_OWN;
	(void)pthread_mutex_unlock(&cu.lock);
	return side;
}

/* Between devices that NVLink joins; within one it takes no time here. */
static CUresult over_link(CUstream s, size_t n)
{
	const double rate = sim_link_rate(&cu.m->devs[cu_current()->dev]);

	return rate > 0 ? cu_stream_busy(s, (uint64_t)((double)n / rate * 1e9)) : CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
	const struct sim_health *h;
	enum side to_side, from_side;

	CU_ENTER(NEEDS_CONTEXT);
	h = &cu.m->devs[cu_current()->dev].health;
	to_side = side_of(to);
	from_side = side_of(from);
	/* On the way back alone: twice wrong would be right again. */
	if (to_side == SIDE_FAR || from_side == SIDE_FAR)
		return copy_range(to, from, n)
			       ?: spoil(to, n, from_side == SIDE_FAR ? h->copies_peer_wrong : 0)
			       ?: over_link(s, n);
	if (to_side == SIDE_OWN && from_side == SIDE_HOST)
		return copy_range(to, from, n) ?: spoil(to, n, h->copies_in_wrong)
						       ?: over_pcie(s, n);
	if (to_side == SIDE_HOST && from_side == SIDE_OWN)
		return copy_range(to, from, n) ?: spoil(to, n, h->copies_out_wrong)
						       ?: over_pcie(s, n);
	return copy_range(to, from, n);
}

/* Addresses are unique in a process, so the contexts say nothing more. */
CU_EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
				CUcontext from_ctx, size_t n)
{
	CU_ENTER(NEEDS_CONTEXT);
	cu_context_wait(cu_current());
	return copy_range(to, from, n);
}

CU_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
				     CUcontext from_ctx, size_t n, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return copy_range(to, from, n);
}

/* Where a rectangle begins. 0: its memory is a CUDA array, and of these there are none. */
static CUdeviceptr rectangle(const CUmemcpy2DSide *side)
{
	CUdeviceptr base = side->memoryType == CU_MEMORYTYPE_HOST
				   ? (CUdeviceptr)(uintptr_t)side->host
				   : side->device;

	if (side->memoryType == CU_MEMORYTYPE_ARRAY || !base)
		return 0;
	return base + side->y * side->pitch + side->x_bytes;
}

static CUresult copy_rectangle(const CUDA_MEMCPY2D *what)
{
	CUdeviceptr from, to;
	CUresult res = CUDA_SUCCESS;

	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	from = rectangle(&what->from);
	to = rectangle(&what->to);
	if (!from || !to ||
	    (what->height > 1 &&
	     (what->from.pitch < what->width_bytes || what->to.pitch < what->width_bytes)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t row = 0; res == CUDA_SUCCESS && row < what->height; row++)
		res = copy_range(to + row * what->to.pitch, from + row * what->from.pitch,
				 what->width_bytes);
	return res;
}

CU_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *what)
{
	CU_ENTER(NEEDS_CONTEXT);
	cu_context_wait(cu_current());
	return copy_rectangle(what);
}
CU_ALIAS(cuMemcpy2DUnaligned_v2, cuMemcpy2D_v2);

CU_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *what, CUstream s)
{
	CU_ENTER(NEEDS_CONTEXT);
	return copy_rectangle(what);
}
