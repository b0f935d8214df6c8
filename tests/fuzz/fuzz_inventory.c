/* SPDX-License-Identifier: MIT */

/* Files of the cache of inventories. What is accepted is written so that it is read as the same. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/inventory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct inventory first, again;

	if (inventory_parse((const char *)data, size, &first) < 0)
		return 0;

	cleanup_free char *text = inventory_text(&first);

	if (inventory_parse(text, strlen(text), &again) < 0)
		abort();

	cleanup_free char *text_again = inventory_text(&again);

	if (strcmp(text, text_again) != 0)
		abort();
	inventory_clear(&first);
	inventory_clear(&again);
	return 0;
}
