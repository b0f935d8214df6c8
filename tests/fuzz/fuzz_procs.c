/* SPDX-License-Identifier: MIT */

/*
 * The driver's process list: the first byte is how many entries it says there are, the rest is
 * what it wrote. Whatever comes, what is taken has plausible PIDs.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gpu/procs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;

	struct gpu_procs list = { 0 };
	uint32_t n = data[0];
	/* Of the exact size, so that a read behind it is seen. */
	cleanup_free uint8_t *buf = xmalloc(size - 1);

	(void)memcpy(buf, data + 1, size - 1);

	int stride = gpu_procs_stride(buf, size - 1, n);
	int r = gpu_procs_decode(&list, buf, size - 1, n, false);

	if ((stride < 0) != (r < 0))
		abort();
	if (r < 0 && list.n)
		abort();
	if (r == 0 && (list.n_total != n || (n && list.stride != (uint32_t)stride)))
		abort();
	for (uint32_t i = 0; i < list.n; i++)
		if (list.p[i].pid <= 0 || (!list.p[i].used_known && list.p[i].used_bytes))
			abort();
	return 0;
}
