/* SPDX-License-Identifier: MIT */

/* A shim reads its task's description, and an agent the records of shims. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "task/end_record.h"
#include "task/launch_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct task_record r;
	struct launch_spec s;
	char *copy = xmalloc(size + 1);

	(void)memcpy(copy, data, size);
	(void)end_record_parse(copy, size, &r, NULL);
	if (launch_spec_parse(copy, size, &s, NULL) == 0) {
		size_t n = 0;

		while (s.argv[n])
			n += strlen(s.argv[n]) <= size ? 1 : 2;
		launch_spec_clear(&s);
	}
	return 0;
}
