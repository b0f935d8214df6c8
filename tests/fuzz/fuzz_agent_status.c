/* SPDX-License-Identifier: MIT */

/* The input as the status that an agent has left beside its heartbeat. What is refused is told;
 * what is accepted is written and read again as the same. */

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "spool/agent_status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct agent_status s, t;
	struct err e = ERR_INIT;
	int r = agent_status_parse("f", (const char *)data, size, &s, &e);

	if (r < 0) {
		if (r != -EINVAL || !e.text[0])
			abort();
		return 0;
	}

	cleanup_free char *text = agent_status_text(&s);

	if (agent_status_parse("f", text, strlen(text), &t, &e) < 0)
		abort();

	cleanup_free char *again = agent_status_text(&t);

	if (strcmp(text, again) != 0)
		abort();
	return 0;
}
