/* SPDX-License-Identifier: MIT */

/* The input as the devices that a job was given, as CUDA_VISIBLE_DEVICES writes them: what is left
 * of a node was on it before, none is there twice, and the counts are right. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "hold/guard/granted.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gpu_list list;
static struct granted granted;

static void add_device(uint32_t index, int32_t mig, const char *uuid)
{
	struct gpu_device *d = &list.d[list.n++];

	*d = (struct gpu_device){ .index = index, .mig = mig };
	(void)str_copy(d->uuid, sizeof(d->uuid), uuid);
	list.n_cards += mig < 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(size + 1);

	(void)memcpy(text, data, size);
	text[size] = '\0';
	list = (struct gpu_list){ .n = 0 };
	add_device(0, -1, "GPU-0a");
	add_device(1, -1, "GPU-1b");
	add_device(1, 3, "MIG-1b3");
	add_device(2, -1, "GPU-1c");
	granted_parse(&granted, text, 0);
	granted_find(&granted, &list);
	granted_filter(&granted, &list);
	if (list.n > 4 || granted.n > GPU_DEVICES_MAX || granted.n_unseen > granted.n ||
	    granted.n_others > 3)
		abort();
	for (uint32_t i = 0; i < list.n; i++)
		for (uint32_t k = 0; k < i; k++)
			if (strcmp(list.d[i].uuid, list.d[k].uuid) == 0)
				abort();
	return 0;
}
