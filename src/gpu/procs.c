/* SPDX-License-Identifier: MIT */
#include "gpu/procs.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

#define STRIDE_MAX   32
#define CAPACITY     128  /* entries of the first try */
#define CAPACITY_MAX 2048 /* the driver itself lists at most 950 */

/* Entry sizes that drivers were shipped with; PID at 0, used bytes at 8 in all of them. */
static const uint32_t strides[] = { sizeof(nvmlProcessInfo_v1_t), sizeof(nvmlProcessInfo_v2_t),
				    sizeof(nvmlProcessInfo_cc_t) };

static uint32_t entry_pid(const void *buf, size_t offset)
{
	uint32_t pid;

	(void)memcpy(&pid, (const char *)buf + offset, sizeof(pid));
	return pid;
}

static bool pids_plausible(const void *buf, uint32_t stride, uint32_t n)
{
	/* The kernel's limit is 2^22; with an offset of another namespace still far below this. */
	const uint32_t pid_limit = 1U << 23;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t pid = entry_pid(buf, (size_t)i * stride);

		if (pid == 0 || pid > pid_limit)
			return false;
	}
	return true;
}

int gpu_procs_stride(const void *buf, size_t size, uint32_t n)
{
	const unsigned char *bytes = buf;
	size_t extent = size;

	while (extent > 0 && bytes[extent - 1] == GPU_PROCS_PATTERN)
		extent--;
	if (n == 0)
		return extent == 0 ? 0 : -EPROTO;
	for (size_t i = 0; i < ARRAY_LEN(strides); i++) {
		size_t end = (size_t)n * strides[i];

		/* The last entry is written to its end, but for padding, and nothing behind it. */
		if (extent <= end && end <= size && extent + sizeof(uint64_t) > end &&
		    pids_plausible(buf, strides[i], n))
			return (int)strides[i];
	}
	return -EPROTO;
}

int gpu_procs_decode(struct gpu_procs *list, const void *buf, size_t size, uint32_t n,
		     bool graphics)
{
	int stride = gpu_procs_stride(buf, size, n);

	if (stride < 0)
		return stride;
	if (n)
		list->stride = (uint32_t)stride;
	for (uint32_t i = 0; i < n; i++) {
		const char *entry = (const char *)buf + (size_t)i * (size_t)stride;
		struct gpu_proc *p = &list->p[list->n];

		list->n_total++;
		if (list->n == GPU_PROCS_MAX)
			continue;
		(void)memcpy(&p->used_bytes, entry + 8, sizeof(p->used_bytes));
		p->pid = (pid_t)entry_pid(entry, 0);
		p->graphics = graphics;
		p->used_known = p->used_bytes != NVML_VALUE_NOT_AVAILABLE_64;
		if (!p->used_known)
			p->used_bytes = 0;
		list->n++;
	}
	return 0;
}

static int read_list(const struct nvml *n,
		     nvmlReturn_t (*call)(nvmlDevice_t, unsigned int *, void *), nvmlDevice_t dev,
		     bool graphics, struct gpu_procs *ret, struct err *e)
{
	char small[CAPACITY * STRIDE_MAX];
	cleanup_free char *large = NULL;
	char *buf = small;
	unsigned int capacity = CAPACITY, count;
	nvmlReturn_t code;

	for (;;) {
		count = capacity;
		(void)memset(buf, GPU_PROCS_PATTERN, (size_t)capacity * STRIDE_MAX);
		code = call(dev, &count, buf);
		/* Normal: the set changes between calls, and there is no bound on it. */
		if (code != NVML_ERROR_INSUFFICIENT_SIZE || capacity >= CAPACITY_MAX)
			break;
		capacity *= 2;
		free(large);
		buf = large = xmalloc((size_t)capacity * STRIDE_MAX);
	}
	if (code != NVML_SUCCESS)
		return nvml_result(n, code, e, "process list");
	if (count > capacity)
		return err_set(e, -EPROTO, "process list: %u entries in room for %u", count,
			       capacity);
	if (gpu_procs_decode(ret, buf, (size_t)capacity * STRIDE_MAX, count, graphics) < 0)
		return err_set(e, -EPROTO, "process list: the driver's struct looks wrong");
	return 0;
}

int gpu_procs_read(const struct nvml *n, nvmlDevice_t dev, bool also_graphics,
		   struct gpu_procs *ret, struct err *e)
{
	ret->n = ret->n_total = ret->stride = 0;

	int r = read_list(n, n->compute_procs, dev, false, ret, e);

	if (r < 0 || !also_graphics || !n->graphics_procs)
		return r;
	r = read_list(n, n->graphics_procs, dev, true, ret, e);
	return r == -ENOSYS || r == -EACCES ? 0 : r;
}
