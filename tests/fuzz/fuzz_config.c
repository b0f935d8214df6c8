/* SPDX-License-Identifier: MIT */

/* Any bytes as a config file: read, or refused with a place. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int each(const struct config_entry *entry, void *user, struct err *e)
{
	if (!entry->key || !entry->text || entry->line < 1 || entry->value_line < 1)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_free char *text = xmalloc(size + 1);
	struct err e = ERR_INIT;

	(void)memcpy(text, data, size);
	text[size] = '\0';
	if (config_parse("f", text, size, each, NULL, &e) < 0 && strncmp(e.text, "f:", 2) != 0)
		abort();
	return 0;
}
