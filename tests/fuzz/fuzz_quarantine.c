/* SPDX-License-Identifier: MIT */

/* The input as the file of devices that get no tasks. Whatever is taken of it is within bounds, and
 * is written and joined again as the same. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/node/quarantine.h"
#include "base/mem.h"

#define NOW UINT64_C(1764000000000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct quarantine *q = quarantine_new("boot"), *again = quarantine_new("boot");

	quarantine_join(q, (const char *)data, size, NOW);
	quarantine_tick(q, NOW);
	if (q->n_devices > QUARANTINE_DEVICES || q->n_outcomes > QUARANTINE_OUTCOMES)
		abort();

	cleanup_free char *text = quarantine_text(q);

	quarantine_join(again, text, strlen(text), NOW + 1000); /* what happened is before it */

	cleanup_free char *same = quarantine_text(again);

	if (strcmp(text, same) != 0)
		abort();
	(void)quarantine_free(q);
	(void)quarantine_free(again);
	return 0;
}
