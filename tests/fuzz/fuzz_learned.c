/* SPDX-License-Identifier: MIT */

/* The input as what runs have needed. Lines that are none are passed over; what is taken is written
 * and read again as the same, and answers are no more than was read. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "spool/learned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct learned *l = learned_new(), *m = learned_new();

	learned_parse(l, (const char *)data, size);

	cleanup_free char *text = learned_text(l);

	learned_parse(m, text, strlen(text));
	if (learned_memory(l, "a", 1).bytes != learned_memory(m, "a", 1).bytes ||
	    learned_memory(l, "a", 1).runs > LEARNED_RUNS)
		abort();
	(void)learned_free(l);
	(void)learned_free(m);
	return 0;
}
